use super::*;
use crate::contract::{End, Grant, Limit, Mode, Segment, Usage};
use crate::params::Value;
use crate::{Duration, Vcpu};
use alloc::string::ToString;
use alloc::vec;

fn header() -> Header {
    let mut params = Params::new();
    params.set("background", Value::Text("fair".into()));
    params.set("hold", Value::Whole(-3));
    Header {
        policy: "maracas".into(),
        params,
        system: System::new(
            2,
            vec![Vcpu::new(0, Duration::from_millis(2), Duration::from_millis(10)).periodic()],
        ),
        names: vec!["spin".into()],
        machine: "sim".into(),
        version: "0.1.0".into(),
        seed: 7,
    }
}

fn sample() -> (Vec<u8>, Vec<Record>) {
    let mut recorder = Recorder::new(&header());
    let segment = Segment {
        vcpu: VcpuId(0),
        core: CoreId(1),
        mode: Mode::Background,
        from: Instant::from_ticks(300),
        to: Instant::from_ticks(70_000),
        usage: Usage {
            service: Duration::from_ticks(69_700),
            references: 20,
            reads: 9,
            writes: 4,
            metered: None,
            instructions: 1,
        },
        end: End::Preempted,
    };
    let mut plan = Plan::new(2);
    plan.run_queue_mut(CoreId(1)).foreground.push(Grant::new(VcpuId(0), Limit::NEVER));
    plan.set_home(VcpuId(0), Some(CoreId(1)));
    plan.answer(VcpuId(0), Ok(CoreId(1)));
    let at = Instant::from_ticks(70_000);
    recorder.event(at, &Event::Ran(segment));
    recorder.planned(at, &plan);
    let decision = Decision::of(at, &plan, &mut PlanHash::default());
    let of_a_group = Decision { group: Some(CoreId(300)), ..decision.clone() };
    recorder.record(&Record::Planned(of_a_group.clone()));
    recorder.record(&Record::Gap(3));
    recorder.end(at);
    let records = vec![
        Record::Event { at, event: Event::Ran(segment) },
        Record::Planned(decision),
        Record::Planned(of_a_group),
        Record::Gap(3),
        Record::End(at),
    ];
    (core::mem::take(recorder.bytes()), records)
}

/// What old versions wrote is read as ever: a segment whose meters counted reads has the same bytes
/// as before there was anything else to count.
#[test]
fn segments_say_what_their_meters_counted_only_where_it_is_not_reads() {
    let (_, records) = sample();
    let Record::Event { event: Event::Ran(segment), .. } = &records[0] else { panic!() };
    let bytes = |metered| {
        let mut out = Vec::new();
        let usage = Usage { metered, ..segment.usage };
        Event::Ran(Segment { usage, ..*segment }).put(&mut out);
        let taken = Event::take(&mut &out[..]).expect("it was written");
        assert_eq!(taken, Event::Ran(Segment { usage, ..*segment }));
        out
    };
    let (old, new) = (bytes(None), bytes(Some(300)));
    assert_eq!(new.len(), old.len() + 3);
    assert_eq!((&new[..old.len() - 1], new.last()), (&old[..old.len() - 1], old.last()));
    let busy = Event::Utilized { busy: Duration::from_ticks(3), of: Duration::from_ticks(1_000) };
    let mut out = Vec::new();
    busy.put(&mut out);
    assert_eq!(Event::take(&mut &out[..]), Some(busy));
}

#[test]
fn what_was_written_is_read() {
    let (bytes, records) = sample();
    let (read, reader) = Reader::open(&bytes).unwrap();
    assert_eq!(read.params, header().params);
    assert_eq!(read.system.vcpus, header().system.vcpus);
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), records);
}

#[test]
fn every_cut_and_every_flipped_bit_is_noticed() {
    let (bytes, records) = sample();
    for cut in 0..bytes.len() {
        let error = read(&bytes[..cut]).unwrap_err();
        assert!(error.offset <= cut, "cut at {cut}: {error}");
    }
    for byte in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1 << bit;
            assert!(read(&damaged).map_or(true, |r| r != records), "byte {byte} bit {bit}");
            assert!(read(&damaged).is_err(), "byte {byte} bit {bit} went unnoticed");
        }
    }
    assert!(read(b"hello").unwrap_err().to_string().contains("not a maracas journal"));
}

#[test]
fn what_follows_the_end_is_an_error_with_its_place() {
    let (mut bytes, records) = sample();
    let whole = bytes.len();
    bytes.extend_from_slice(&sample().0);
    let (_, reader) = Reader::open(&bytes).unwrap();
    let mut read: Vec<_> = reader.collect();
    let error = read.pop().unwrap().unwrap_err();
    assert_eq!(error.offset, whole);
    assert!(error.to_string().contains("bytes follow the journal's end"), "{error}");
    assert_eq!(read.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), records);
}

#[test]
fn a_cut_journal_has_a_way_out_where_its_header_is_whole() {
    let (bytes, _) = sample();
    let error = |cut: usize| match Reader::open(&bytes[..cut]) {
        Ok((_, reader)) => reader.last().unwrap().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    let way_out = "is truncated here; `maracas top --journal FILE` shows what is there";
    assert!(error(bytes.len() - 1).ends_with(way_out), "{}", error(bytes.len() - 1));
    assert_eq!(error(20), "byte 8: the journal is truncated here");
}

/// The journal of [`sample`], its records, and where the header and each record end.
fn bounds() -> (Vec<u8>, Vec<Record>, Vec<usize>) {
    let (bytes, records) = sample();
    let mut recorder = Recorder::new(&header());
    let mut ends = vec![recorder.bytes().len()];
    for record in &records {
        recorder.record(record);
        ends.push(recorder.bytes().len());
    }
    assert_eq!(*recorder.bytes(), bytes);
    (bytes, records, ends)
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, JournalError> {
    let (_, reader) = Reader::open(bytes)?;
    reader.collect()
}

#[test]
fn a_journal_without_its_end_is_mended_behind_its_last_whole_record() {
    let (bytes, records, ends) = bounds();
    for cut in 0..=bytes.len() {
        let mut mended = bytes[..cut].to_vec();
        let found = mend(&mut mended);
        if cut < ends[0] || cut == bytes.len() {
            assert_eq!((found, &mended[..]), (None, &bytes[..cut]), "cut at {cut}");
            continue;
        }
        let whole = ends.iter().rposition(|end| *end <= cut).unwrap();
        // The first record has the latest instant of all.
        let at = Instant::from_ticks(if whole == 0 { 0 } else { 70_000 });
        let (offset, left_out) = (ends[whole], cut - ends[whole]);
        assert_eq!(found, Some(Cut { offset, left_out, at }), "cut at {cut}");
        let note = Note::Cut { offset: offset as u64, left_out: left_out as u64 };
        let mut expected = records[..whole].to_vec();
        expected.extend([Record::Note { at, note }, Record::End(at)]);
        assert_eq!(read(&mended).unwrap(), expected, "cut at {cut}");
        assert_eq!(mend(&mut mended), None, "it has an end now");
    }
}

/// Groups that decide alone may go back in time.
#[test]
fn a_mended_journal_ends_at_the_latest_instant_that_it_has() {
    let mut recorder = Recorder::new(&header());
    for at in [30, 50, 40] {
        let event = Event::Woke { vcpu: VcpuId(0), on_behalf: None, exact: true };
        recorder.event(Instant::from_ticks(at), &event);
    }
    let mut bytes = core::mem::take(recorder.bytes());
    assert_eq!(mend(&mut bytes).map(|cut| cut.at), Some(Instant::from_ticks(50)));
    let last = read(&bytes).unwrap().pop();
    assert_eq!(last, Some(Record::End(Instant::from_ticks(50))));
}

#[test]
fn damage_is_no_cut() {
    let (bytes, records, ends) = bounds();
    let flipped = |bytes: &[u8], byte: usize, bit: usize| {
        let mut damaged = bytes.to_vec();
        damaged[byte] ^= 1 << bit;
        damaged
    };
    // Of a whole journal, nothing is taken for a cut.
    for (byte, bit) in (0..bytes.len()).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
        let damaged = flipped(&bytes, byte, bit);
        let mut mended = damaged.clone();
        assert_eq!((mend(&mut mended), &mended), (None, &damaged), "byte {byte} bit {bit}");
        assert!(read(&mended).is_err(), "byte {byte} bit {bit}");
    }
    // Of one that was cut, behind a record or within the next, at most the last record goes.
    let last = ends.len() - 2;
    for cut in [ends[last], ends[last] + 3] {
        for (byte, bit) in (0..ends[last]).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let mut mended = flipped(&bytes[..cut], byte, bit);
            if let Some(Cut { offset, .. }) = mend(&mut mended) {
                let kept = read(&mended).unwrap();
                assert_eq!((offset, byte), (ends[last - 1], ends[last - 1]), "bit {bit}");
                assert_eq!(kept[..last - 1], records[..last - 1]);
            } else {
                assert!(read(&mended).is_err(), "byte {byte} bit {bit}");
            }
        }
    }
}

#[test]
fn what_stands_behind_a_journal_is_no_cut() {
    let (bytes, _, ends) = bounds();
    let cut = &bytes[..ends[3] + 2];
    let zeros = [cut, &[0; 4096]].concat();
    let (ones, many_ones) = ([cut, &[0xff; 4096]].concat(), [cut, &[0xff; 100_000]].concat());
    for journal in [&zeros, &ones, &many_ones, &[&bytes[..], b"more"].concat()] {
        let mut mended = journal.clone();
        assert_eq!((mend(&mut mended), &mended), (None, journal));
        assert!(read(&mended).is_err());
    }
    let mut other = b"no journal".to_vec();
    assert_eq!(mend(&mut other), None);
}

#[test]
fn the_hash_follows_the_plan_not_its_history() {
    let grant = |vcpu| Grant::new(VcpuId(vcpu), Limit::NEVER);
    let mut straight = Plan::new(2);
    straight.run_queue_mut(CoreId(0)).foreground.push(grant(1));
    let mut detour = Plan::new(2);
    detour.run_queue_mut(CoreId(0)).foreground.push(grant(2));
    let mut hash = PlanHash::default();
    let other = hash.update(&detour);
    detour.run_queue_mut(CoreId(0)).foreground[0] = grant(1);
    let same = hash.update(&detour);
    assert_eq!(same, PlanHash::default().update(&straight));
    assert_ne!(same, other);
}
