use super::*;
use crate::testkit::figure;
use std::collections::BTreeMap;

/// A field of a decoded message.
#[derive(Clone, PartialEq, Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

type Message = BTreeMap<u64, Vec<Field>>;

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn decode(mut bytes: &[u8]) -> Message {
    let mut message = Message::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(value),
            2 => {
                let (content, rest) = bytes.split_at(value as usize);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        message.entry(tag >> 3).or_default().push(field);
    }
    message
}

fn number(message: &Message, field: u64) -> Option<u64> {
    match message.get(&field)?.as_slice() {
        [Field::Number(number)] => Some(*number),
        other => panic!("{other:?}"),
    }
}
fn bytes(message: &Message, field: u64) -> Option<&[u8]> {
    match message.get(&field)?.as_slice() {
        [Field::Bytes(bytes)] => Some(bytes),
        other => panic!("{other:?}"),
    }
}
fn text(message: &Message, field: u64) -> String {
    String::from_utf8(bytes(message, field).unwrap_or_default().to_vec()).unwrap()
}

/// The packets of a trace, sorted by time as the viewer does it.
fn packets(trace: &[u8]) -> Vec<(u64, Message)> {
    let trace = decode(trace);
    assert_eq!(trace.keys().collect::<Vec<_>>(), [&1]);
    let mut packets: Vec<_> = trace[&1]
        .iter()
        .map(|packet| match packet {
            Field::Bytes(bytes) => decode(bytes),
            Field::Number(_) => panic!("a packet is a message"),
        })
        .map(|packet| (number(&packet, 8).unwrap_or(0), packet))
        .collect();
    packets.sort_by_key(|(at, _)| *at);
    packets
}

fn figure_packets() -> Vec<(u64, Message)> {
    let mut trace = Vec::new();
    from_journal(&figure().journal(24_000), &mut trace).unwrap();
    packets(&trace)
}

/// Names of the tracks by id, with the names above them.
fn tracks(packets: &[(u64, Message)]) -> BTreeMap<u64, String> {
    let mut tracks = BTreeMap::new();
    for (_, packet) in packets {
        let Some(track) = bytes(packet, 60).map(decode) else { continue };
        let parent = number(&track, 5).map(|parent| format!("{}/", tracks[&parent]));
        let name = format!("{}{}", parent.unwrap_or_default(), text(&track, 2));
        assert_eq!(tracks.insert(number(&track, 1).unwrap(), name), None);
    }
    tracks
}

/// What the track events of a track say: (time, type, name or value).
fn events(packets: &[(u64, Message)], track: &str) -> Vec<(u64, u64, String)> {
    let tracks = tracks(packets);
    packets
        .iter()
        .filter_map(|(at, packet)| Some((*at, bytes(packet, 11).map(decode)?)))
        .filter(|(_, event)| tracks[&number(event, 11).unwrap()] == track)
        .map(|(at, event)| {
            let name = number(&event, 30).map_or_else(|| text(&event, 23), |n| n.to_string());
            (at, number(&event, 9).unwrap(), name)
        })
        .collect()
}

/// The slices of a VCPU's track.
fn slices(packets: &[(u64, Message)], track: &str) -> Vec<(String, u64, u64)> {
    let mut slices = Vec::new();
    for (at, kind, name) in events(packets, track) {
        match kind {
            1 => slices.push((name, at, 0)),
            2 => slices.last_mut().unwrap().2 = at,
            other => panic!("type {other}"),
        }
    }
    slices
}

#[test]
fn states_of_a_vcpu() {
    let packets = figure_packets();
    assert!(packets.iter().all(|(_, packet)| number(packet, 10) == Some(1)), "one sequence");
    let expected = [
        ("ready", 0, 2_000),
        ("foreground", 2_000, 3_000),
        ("background", 3_000, 6_000),
        ("throttled", 6_000, 8_000),
        ("background", 8_000, 10_000),
        ("ready", 10_000, 21_000),
        ("background", 21_000, 23_000),
        ("ready", 23_000, 24_000),
    ];
    let drawn = slices(&packets, "VCPUs/hog (1us/20us)");
    assert_eq!(drawn, expected.map(|(name, from, to)| (name.to_string(), from, to)));
    let sort = slices(&packets, "VCPUs/sort (3us/10us)");
    let idle: Vec<_> = sort.iter().filter(|(name, ..)| name == "idle").collect();
    assert_eq!(idle, [&("idle".into(), 5_000, 10_000), &("idle".into(), 21_000, 24_000)]);
}

#[test]
fn a_title_is_in_nanoseconds_whatever_ticks_are() {
    let mut story = figure();
    story.header.system.ticks_per_ns = 10;
    let mut trace = Vec::new();
    from_journal(&story.journal(24_000), &mut trace).unwrap();
    let names: Vec<_> = tracks(&packets(&trace)).into_values().collect();
    assert!(names.contains(&"VCPUs/hog (100ns/2us)".into()), "{names:?}");
}

#[test]
fn an_output_that_takes_no_more_is_known_meanwhile() {
    let story = figure();
    let mut writer = Writer::new(&story.header, &mut [][..]);
    // Packets are gathered: what is full shows after so many.
    for _ in 0..1_000 {
        story.observe(&mut writer);
    }
    assert_eq!(writer.failure().map(|error| error.kind()), Some(io::ErrorKind::WriteZero));
}

#[test]
fn rows_of_the_cores() {
    let packets = figure_packets();
    let mut running: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut busy: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, packet) in &packets {
        let Some(state) = bytes(packet, 117).map(decode) else { continue };
        let (tid, to) = (number(&state, 3).unwrap(), number(&state, 4).unwrap());
        assert_eq!(text(&state, 2), ["spin", "sort", "hog"][tid as usize - 1]);
        if to == 3 {
            let core = number(&state, 1).unwrap();
            assert_eq!(running.insert(core, (tid, *at)), None, "core{core} is busy at {at}");
        } else if let Some(core) = number(&state, 1) {
            let (was, since) = running.remove(&core).unwrap();
            assert_eq!(was, tid, "another ran");
            *busy.entry(core).or_default() += at - since;
        }
    }
    assert_eq!(running, BTreeMap::new(), "all stopped");
    assert_eq!(busy, BTreeMap::from([(0, 14_000), (1, 21_000)]));
    let trees: Vec<Message> =
        packets.iter().filter_map(|(_, p)| bytes(p, 122).map(decode)).collect();
    let mut names: Vec<_> = trees.iter().map(|t| text(&decode(bytes(t, 1).unwrap()), 3)).collect();
    names.sort();
    assert_eq!(names, ["hog", "sort", "spin"]);
}

#[test]
fn jobs_deadlines_budgets_and_memory() {
    let packets = figure_packets();
    let own = |expected: &[(u64, u64, &str)]| -> Vec<(u64, u64, String)> {
        expected.iter().map(|(at, kind, name)| (*at, *kind, name.to_string())).collect()
    };
    let jobs = own(&[
        (0, 3, "release 0"),
        (0, 1, "job 0"),
        (5_000, 2, ""),
        (10_000, 3, "deadline 0"),
        (10_000, 3, "release 1"),
        (10_000, 1, "job 1 (missed)"),
        (20_000, 3, "deadline 1 missed"),
        (21_000, 2, ""),
    ]);
    assert_eq!(events(&packets, "VCPUs/sort (3us/10us)/jobs"), jobs);
    let mut budget = events(&packets, "VCPUs/spin (4us/10us)/budget left");
    budget.dedup();
    // Refilled at 8 us, spent in the foreground from 10 to 14 us.
    let expected = own(&[
        (0, 4, "4000"),
        (4_000, 4, "0"),
        (8_000, 4, "4000"),
        (10_000, 4, "4000"),
        (14_000, 4, "0"),
    ]);
    assert_eq!(budget, expected);
    // 40 requests in 4 us.
    let traffic = events(&packets, "memory/core0 requests/ms");
    assert_eq!(traffic[..2], own(&[(0, 4, "10000"), (4_000, 4, "0")]));
    assert_eq!(events(&packets, "memory/requests per sample"), own(&[(8_000, 4, "40")]));
    assert_eq!(events(&packets, "memory/queue occupancy per sample"), own(&[(8_000, 4, "90")]));
}

#[test]
fn streamed_and_from_the_journal_are_the_same() {
    let (story, mut from_journal_bytes) = (figure(), Vec::new());
    from_journal(&story.journal(24_000), &mut from_journal_bytes).unwrap();
    let mut writer = Writer::new(&story.header, Vec::new());
    story.observe(&mut writer);
    assert_eq!(writer.finish(crate::testkit::t(24_000)).unwrap(), from_journal_bytes);
}
