use super::*;
use maracas_core::contract::Sample;
use maracas_core::journal::{Header, Record, Recorder};
use maracas_core::params::Params;
use maracas_core::{Event, System};
use std::sync::atomic::{AtomicU32, Ordering};

const TWO_ROWS: &str = "# cycles_per_us = 3300
time_us,requests,occupancy,core0,core1
100, 1000, 50000, 800, 200
300.5,2000,20000,0,2000
";

/// Writes a file, reads it as a recording of two cores, and removes it.
fn read(content: &[u8]) -> Result<Recording, Error> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("maracas-replay-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, content).unwrap();
    let recording = Recording::read(&path, 2, Some(2000));
    std::fs::remove_file(&path).unwrap();
    recording
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn at(sensor: &mut dyn Sensor, us: u64) -> (u64, u64, Vec<u64>) {
    let mut reading = Reading::default();
    sensor.read(at_us(us), &mut reading).unwrap();
    (reading.requests, reading.occupancy, reading.by_core)
}

#[test]
fn between_rows_it_is_linear_and_after_the_last_it_stands_still() {
    let recording = read(TWO_ROWS.as_bytes()).unwrap();
    let mut sensor = recording.sensor();
    assert_eq!(sensor.cycles_per_us(), 3300);
    assert_eq!(at(&mut *sensor, 0), (0, 0, vec![0, 0]));
    assert_eq!(at(&mut *sensor, 25), (250, 12_500, vec![200, 50]));
    assert_eq!(at(&mut *sensor, 100), (1000, 50_000, vec![800, 200]));
    assert_eq!(sensor.remark(), None);
    // 200.5 us later both rows are whole.
    assert_eq!(at(&mut *sensor, 301), (3000, 70_000, vec![800, 2200]));
    assert_eq!(at(&mut *sensor, 1_000_000), (3000, 70_000, vec![800, 2200]));
    assert!(sensor.remark().unwrap().ends_with("ended at 300.5us; nothing was counted after that"));
    assert_eq!(recording.length(), Duration::from_nanos(300_500));
}

#[test]
fn it_repeats_where_it_says_so() {
    let recording = read(format!("# repeat\n{TWO_ROWS}").as_bytes()).unwrap();
    let mut sensor = recording.sensor();
    // Two rounds of 300.5 us, and 25 us of the third.
    assert_eq!(at(&mut *sensor, 626), (6250, 152_500, vec![1800, 4450]));
    assert_eq!(sensor.remark(), None);
}

#[test]
fn a_meter_says_when_it_will_reach_a_mark() {
    for head in ["", "# repeat\n"] {
        let recording = read(format!("{head}{TWO_ROWS}").as_bytes()).unwrap();
        for (core, mut meter) in recording.meters().into_iter().enumerate() {
            assert_eq!(meter.due(0), Some(Instant::ZERO));
            for limit in (1..7000).step_by(7) {
                let Some(due) = meter.due(limit) else {
                    let most = meter.read(Instant::NEVER).unwrap();
                    assert!(head.is_empty() && most < limit, "core {core}, mark {limit}");
                    continue;
                };
                let before = Instant::from_ticks(due.ticks() - 1);
                let counts = (meter.read(before).unwrap(), meter.read(due).unwrap());
                assert!(counts.0 < limit && limit <= counts.1, "{core}, {limit}: {counts:?}");
            }
            assert_eq!(meter.fd(), None);
        }
    }
}

#[test]
fn nothing_counted_is_never_due() {
    let idle = "# repeat\ntime_us,requests,occupancy,core0,core1\n10,5,5,0,5\n";
    let meters = read(idle.as_bytes()).unwrap().meters();
    assert_eq!(meters[0].due(1), None);
    assert_eq!(meters[1].due(6), Some(at_us(12)));
    assert_eq!(meters[1].due(u64::MAX), None);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let header = "time_us,requests,occupancy,core0,core1\n";
    let cases: [(&str, Option<usize>, &str); 9] = [
        ("", None, "has no rows"),
        ("time_us,requests,core0\n", Some(1), "\"occupancy\" is not where it should be"),
        ("time_us,requests,occupancy,core0,core2\n", Some(1), "\"core2\" stands where core1"),
        ("#\ntime_us,requests,occupancy,core0\n", Some(2), "on 1 cores, but this run manages 2"),
        ("# cycles_per_us = fast\n", Some(1), "cycles_per_us is \"fast\""),
        (&format!("{header}1,2,3,4\n"), Some(2), "has 4 fields instead of 5"),
        (&format!("{header}1,2,3,4,-5\n"), Some(2), "\"-5\" is no count"),
        (&format!("{header}1.0005,2,3,4,5\n"), Some(2), "time_us is \"1.0005\""),
        (&format!("{header}1,2,3,4,5\n\n1,2,3,4,5\n"), Some(4), "its time 1us is not after 1us"),
    ];
    for (text, line, what) in cases {
        let error = read(text.as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.to_string().contains(what), "{text:?}: {error}");
    }
    assert!(read(&[0xff]).unwrap_err().what.contains("neither a maracas journal nor text"));
    let gone = Recording::read(Path::new("/nowhere/episode.csv"), 2, None).unwrap_err();
    assert!(gone.to_string().starts_with("/nowhere/episode.csv: "), "{gone}");
}

fn journal(records: &[Record]) -> Vec<u8> {
    let header = Header {
        policy: "maracas".into(),
        params: Params::new(),
        system: System::new(2, Vec::new()),
        names: Vec::new(),
        machine: "sim".into(),
        version: "test".into(),
        seed: 0,
    };
    let mut recorder = Recorder::new(&header);
    records.iter().for_each(|record| recorder.record(record));
    recorder.end(at_us(500));
    std::mem::take(recorder.bytes())
}

#[test]
fn the_samples_of_a_journal_play() {
    let sampled = |us, requests, by_core: &[u64]| Record::Event {
        at: at_us(us),
        event: Event::Sampled(Sample { requests, occupancy: 9, by_core: by_core.into() }),
    };
    let recording = read(&journal(&[sampled(100, 40, &[30, 10]), sampled(200, 8, &[0, 8])]));
    let recording = recording.unwrap();
    let mut sensor = recording.sensor();
    assert_eq!(sensor.cycles_per_us(), 2000, "a journal does not say, so the run's is taken");
    assert_eq!(at(&mut *sensor, 150), (44, 13, vec![30, 14]));
    let refusals = [
        (journal(&[]), "has no samples"),
        (journal(&[sampled(100, 1, &[1])]), "on 1 cores, but this run manages 2"),
        (journal(&[sampled(100, 1, &[1, 1]), Record::Gap(3)]), "3 records were lost"),
        (journal(&[])[..40].to_vec(), "byte 8: the journal is truncated here"),
    ];
    for (bytes, what) in refusals {
        let error = read(&bytes).unwrap_err();
        assert!(error.what.contains(what), "{error}");
    }
}

#[test]
fn the_example_of_the_documents_plays() {
    let page = include_str!("../../../../../docs/sensing.md");
    let example = page.split("```csv\n").nth(1).and_then(|rest| rest.split("```").next());
    let recording = read(example.expect("a list").as_bytes()).unwrap();
    let mut sensor = recording.sensor();
    assert_eq!(sensor.cycles_per_us(), 3300);
    assert_eq!(at(&mut *sensor, 5000), (10_000, 800_000, vec![7500, 2500]));
    let again = at(&mut *sensor, 25_000);
    assert!(again.0 > 420_000, "it repeats: {again:?}");
}
