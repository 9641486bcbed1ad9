//! Task sets of other tools: the examples of the reference, round trips, and files gone bad.

use maracas_core::{Arrival, Duration, Overheads, Vcpu};
use maracas_scenario::formats::overheads::Table;
use maracas_scenario::formats::{self, Format, Style};
use maracas_scenario::taskset::TaskSet;
use std::path::Path;

/// The blocks of docs/formats.md, each with its language.
fn examples() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let text = std::fs::read_to_string(path).expect("the reference stands in docs/");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push((language.to_owned(), block.join("\n") + "\n"));
    }
    blocks
}

fn read(text: &str) -> TaskSet {
    let format = Format::of(Path::new("file"), text);
    formats::parse(text, "x", format).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_examples_of_the_reference_are_read_as_it_says() {
    let blocks = examples();
    let mut compared = 0;
    for (place, (language, text)) in blocks.iter().enumerate() {
        if text.starts_with("TASK-COUNT") || text.starts_with("WSS") {
            let table = Table::parse(text, "x").unwrap();
            assert_eq!(Table::parse(&table.to_string(), "x"), Ok(table));
        } else if language == "csv" {
            assert_eq!(read(text).to_string(), *text, "what is read is written alike");
        } else {
            let (_, expected) = &blocks[place + 1];
            assert_eq!(read(text).to_string(), *expected, "{text}");
            compared += 1;
        }
    }
    assert_eq!((compared, blocks.len()), (3, 9));
}

/// The good files that others are made of: the examples and what we write ourselves.
fn good() -> Vec<(Format, String)> {
    let examples = examples().into_iter().map(|(_, text)| text);
    let sets = examples.filter(|text| !text.starts_with("TASK-COUNT") && !text.starts_with("WSS"));
    let mut files: Vec<_> = sets.map(|text| (Format::of(Path::new("file"), &text), text)).collect();
    for format in Format::ALL {
        let text = formats::write(&drawn(7, 5), format, Style::default()).unwrap().text;
        assert_eq!(Format::of(Path::new("file"), &text), format, "{text}");
        files.push((format, text));
    }
    files
}

/// Random numbers for tests (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// A set in whole microseconds, with offsets and deadlines, and an origin that is hard to write.
fn drawn(seed: u64, tasks: u32) -> TaskSet {
    let mut random = Random(seed * 7919 + 1);
    let task = |id| {
        let period = 2 + random.below(1_000_000) as u64;
        let deadline = 1 + random.below(period as usize - 1) as u64;
        let cost = 1 + random.below(deadline as usize) as u64;
        let mut task = Vcpu::new(id, Duration::from_micros(cost), Duration::from_micros(period));
        task.reservation.deadline = Duration::from_micros(deadline);
        let offset = Duration::from_micros(random.below(5_000) as u64);
        task.arrival = Arrival::Periodic { offset };
        task
    };
    let origin = vec!["a -- b --".into(), "\"quoted\" \\ & <tag> #".into()];
    TaskSet { tasks: (0..tasks).map(task).collect(), origin, ..TaskSet::default() }
}

#[test]
fn rt_app_keeps_periods_costs_and_offsets_and_with_reservations_deadlines() {
    for seed in 0..200 {
        let set = drawn(seed, 6);
        for deadline_class in [false, true] {
            let style = Style { deadline_class };
            let written = formats::write(&set, Format::RtApp, style).unwrap();
            let strict: serde_json::Value = serde_json::from_str(&written.text).unwrap();
            assert_eq!(strict["tasks"].as_object().map(|tasks| tasks.len()), Some(6));
            assert_eq!(written.losses.is_empty(), deadline_class, "{:?}", written.losses);
            let back = formats::parse(&written.text, "x", Format::RtApp).unwrap();
            let mut expected = set.tasks.clone();
            if !deadline_class {
                expected.iter_mut().for_each(|task| {
                    task.reservation.deadline = task.reservation.period;
                });
            }
            assert_eq!((&back.tasks, &back.names), (&expected, &set.names));
            assert_eq!(back.origin, set.origin);
        }
    }
}

#[test]
fn simso_keeps_every_nanosecond() {
    for seed in 0..200 {
        let mut set = drawn(seed, 6);
        for (nanos, task) in (1..).zip(&mut set.tasks) {
            task.reservation.period += Duration::from_nanos(nanos * 7);
            task.reservation.budget += Duration::from_nanos(nanos);
            task.reservation.deadline = task.reservation.period;
        }
        let written = formats::write(&set, Format::SimSo, Style::default()).unwrap();
        let back = formats::parse(&written.text, "x", Format::SimSo).unwrap();
        assert_eq!((&back.tasks, &back.names), (&set.tasks, &set.names));
        assert_eq!(back.origin[0], "a - - b -", "two dashes would end the comment");
        // What SimSo makes of it: floats of milliseconds times the cycles of one, cut.
        let (cost, time) = ("WCET=\"", |text: &str| (text.parse::<f64>().unwrap() * 1e6) as u64);
        let costs =
            written.text.split(cost).skip(1).map(|rest| time(rest.split('"').next().unwrap()));
        let expected = set.tasks.iter().map(|task| task.reservation.budget.ticks());
        assert!(costs.eq(expected), "{}", written.text);
    }
}

#[test]
fn schedcat_keeps_costs_periods_and_deadlines() {
    for seed in 0..200 {
        let set = drawn(seed, 6);
        let written = formats::write(&set, Format::SchedCat, Style::default()).unwrap();
        assert_eq!(written.losses.len(), 2, "jobs and offsets: {:?}", written.losses);
        let back = formats::parse(&written.text, "x", Format::SchedCat).unwrap();
        let reservations =
            |set: &TaskSet| -> Vec<_> { set.tasks.iter().map(|task| task.reservation).collect() };
        assert_eq!(reservations(&back), reservations(&set));
        assert!(back.tasks.iter().all(|task| task.arrival == Arrival::Sporadic));
    }
}

#[test]
fn other_cycles_than_nanoseconds_are_noted() {
    let notes = |cycles: &str| {
        let text = format!(
            "<simulation cycles_per_ms=\"{cycles}\"><tasks><task name=\"a\" period=\"10\" \
             WCET=\"1.0005\" deadline=\"10\" abort_on_miss=\"no\"/></tasks></simulation>"
        );
        formats::parse(&text, "x", Format::SimSo).unwrap().notes
    };
    let none: [&str; 0] = [];
    assert_eq!(notes("1000000"), none);
    let noted = notes("1000");
    assert!(noted[0].contains("cycles_per_ms \"1000\" (times are cut to nanoseconds here)"));
}

#[test]
fn what_is_lost_is_said() {
    let text = "name,cost_us,period_us,jobs\na.b,1.5,10,sporadic\nb,0.001,7.25,periodic\n";
    let set = TaskSet::parse(text, "x").unwrap();
    let losses = |format| {
        let written = formats::write(&set, format, Style::default()).unwrap();
        written.losses.join("; ")
    };
    assert_eq!(losses(Format::Csv), "");
    let rt_app = losses(Format::RtApp);
    assert!(rt_app.contains("2 tasks with fractions"), "{rt_app}");
    assert!(rt_app.contains("1 sporadic task made periodic"), "{rt_app}");
    let simso = losses(Format::SimSo);
    let written = formats::write(&set, Format::SimSo, Style::default()).unwrap();
    assert!(written.additions[0].contains("EDF on 1 processor"), "{:?}", written.additions);
    assert!(simso.contains("1 sporadic task written as periodic"), "{simso}");
    assert!(simso.contains("1 name with characters"), "{simso}");
    let schedcat = losses(Format::SchedCat);
    assert!(schedcat.contains("names such as \"a.b\" are lost"), "{schedcat}");
    let tight = TaskSet::parse("cost_us,period_us\n0.5,0.9\n", "x").unwrap();
    let refused = formats::write(&tight, Format::RtApp, Style::default()).unwrap_err();
    assert!(refused.starts_with("task1 needs 500ns by 900ns"), "{refused}");
    let long = TaskSet::parse("cost_us,period_us\n1,2147483648\n", "x").unwrap();
    let refused = formats::write(&long, Format::RtApp, Style::default()).unwrap_err();
    assert!(refused.contains("32 bits"), "{refused}");
}

#[test]
fn what_is_left_aside_is_noted() {
    let text = r#"{"tasks": {
        "a": {"run": 10, "timer": {"ref": "tick", "period": 100}, "instance": 3, "cpus": [0]},
        "b": {"run": 10, "timer": {"ref": "unique", "period": 100}, "loop": 5, "priority": 3,
              "dl-runtime": 3},
        "c": {"run": 15, "yield": "", "policy": "SCHED_DEADLINE", "dl-runtime": 20,
              "dl-period": 90},
        "d": {"instance": 0, "run": 1, "timer": {"period": 9, "mode": "absolute"}}
    }, "global": {"duration": 5, "ftrace": "none"}, "resources": {}}"#;
    let notes = read(text).notes;
    let expected = [
        "a: `cpus` is left aside",
        "a, b: a timer in relative mode begins anew after a late job; here none does",
        "a: its threads share one timer, which disturbs them in rt-app; here each has its own",
        "b: `priority` is left aside",
        "b: it ends after `loop` 5; here it goes on",
        "b: `dl-runtime` is left aside: its policy is not SCHED_DEADLINE",
        "c: `yield` is left aside",
        "c: its work or timer differs from its reservation, and every job takes the whole \
         reservation here",
        "d: it has `instance` 0 and is left out",
        "left aside, of rt-app's run: duration 5 s (--until), ftrace",
        "`resources` are left aside: events name what they use",
    ];
    for sentence in expected {
        assert!(notes.iter().any(|note| note == sentence), "{sentence}\n{notes:#?}");
    }
    assert_eq!(notes.len(), expected.len(), "{notes:#?}");
    let text = "<simulation duration=\"5\" etm=\"acet\"><processors><processor speed=\"2\"/>\
                </processors><tasks><field name=\"color\" type=\"str\"/>\
                <task name=\"a#1\" period=\"10\" WCET=\"2.00000049\" deadline=\"10\" ACET=\"1\" \
                color=\"red\"/></tasks></simulation>";
    let notes = read(text).notes;
    let all = notes.join("\n");
    for part in [
        "duration \"5\" (--until)",
        "1 processor (--cores)",
        "speeds such as 2",
        "execution times by \"acet\"",
        "SimSo aborts a late job",
        "`ACET` is left aside",
        "the field `color` is left aside",
        "1 times are finer than a nanosecond",
        "a_1: written \"a#1\"",
    ] {
        assert!(all.contains(part), "{part}\n{all}");
    }
}

/// What rt-app's own examples do: sleep after the work, name an event or a phase twice, and sleep
/// for no time before a timer.
#[test]
fn threads_that_sleep_and_keys_that_repeat_are_read() {
    let text = r#"{"tasks": {
        "sleeper": {"loop": -1, "run": 20000, "run": 5000, "sleep": 70000, "delay": 10},
        "twice": {"phases": {"light": {"run": 10, "timer": {"ref": "unique", "period": 100}},
                             "light": {"run": 30, "timer": {"ref": "unique", "period": 100}}}},
        "same": {"phases": {"p": {"run": 10, "sleep": 90}, "q": {"run": 10, "sleep": 90}}},
        "timed": {"run": 10, "sleep": 0, "timer": {"ref": "unique", "period": 100}}
    }}"#;
    let set = formats::parse(text, "x", Format::RtApp).unwrap();
    let us = |n: u64| Duration::from_micros(n);
    let read: Vec<_> = set
        .tasks
        .iter()
        .map(|task| (task.reservation.budget, task.reservation.period, task.arrival))
        .collect();
    let periodic = Arrival::Periodic { offset: Duration::ZERO };
    let expected = [
        (us(25_000), us(95_000), Arrival::Sporadic),
        (us(30), us(100), periodic),
        (us(10), us(100), Arrival::Sporadic),
        (us(10), us(100), periodic),
    ];
    assert_eq!(read, expected);
    for sentence in [
        "sleeper, same: it sleeps after its work: sporadic here, its jobs at least run and sleep \
         apart",
        "sleeper, twice: a key that stands twice is read as rt-app's `workgen` numbers it",
        "sleeper: `delay` is left aside: its jobs come at random",
        "twice: its phases differ; every job takes the largest",
        "twice, timed: a timer in relative mode begins anew after a late job; here none does",
        "timed: `sleep` before a timer is left aside",
    ] {
        assert!(set.notes.iter().any(|note| note == sentence), "{sentence}\n{:#?}", set.notes);
    }
    assert_eq!(set.notes.len(), 6, "{:#?}", set.notes);
}

/// What hostile files have in them.
const SPICE: &[&str] = &[
    "-1",
    "0",
    "nan",
    "NaN",
    "1e300",
    "-0.0",
    "9999999999999999999999",
    "\"",
    "<",
    ">",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\n",
    "\u{feff}",
    "\u{0}",
    "é",
    "&lt;",
    "&#0;",
    "<!--",
    "-->",
    "/*",
    "//",
    "null",
    "e",
    ".",
    "instance",
    "\"run\": 1,",
    "task",
    "SCHED_DEADLINE",
    "=",
    "'",
    "\r",
    "WSS",
    "#",
    "TASK-COUNT",
];

/// `text` with a few random changes.
fn changed(text: &str, random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=random.below(4) {
        let at = random.below(chars.len() + 1);
        let end = (at + random.below(12)).min(chars.len());
        match random.below(4) {
            0 => drop(chars.drain(at..end)),
            1 => {
                let copy: Vec<char> = chars[at..end].to_vec();
                let to = random.below(chars.len() + 1);
                chars.splice(to..to, copy);
            }
            2 => {
                let spice = SPICE[random.below(SPICE.len())];
                chars.splice(at..end, spice.chars());
            }
            _ => chars.truncate(chars.len() - random.below(3).min(chars.len())),
        }
    }
    chars.into_iter().collect()
}

/// Holds an error against what all of them are: one line with a place in the file.
fn is_one_line(error: &maracas_scenario::Error, text: &str) {
    let lines = text.matches('\n').count() + 1;
    assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}\n{text}");
    assert!(
        !error.message.is_empty() && !error.to_string().contains(char::is_control),
        "{error:?}"
    );
}

#[test]
fn files_gone_bad_never_panic_and_are_reported_in_one_line() {
    let mut random = Random(2026);
    let (mut refused, mut taken) = (0, 0);
    for (format, text) in good() {
        for _ in 0..3_000 {
            let text = changed(&text, &mut random);
            match formats::parse(&text, "x", format) {
                Ok(set) => {
                    taken += 1;
                    assert!(!set.tasks.is_empty());
                    for task in &set.tasks {
                        let r = task.reservation;
                        assert!(!r.budget.is_zero() && r.budget <= r.deadline, "{text}");
                        assert!(r.deadline <= r.period, "{text}");
                    }
                    assert!(!set.notes.iter().any(|note| note.contains(char::is_control)));
                    set.exact_scale();
                    // What has been read can be written, and comes back the same.
                    let csv = set.to_string();
                    let back = TaskSet::parse(&csv, "x").unwrap_or_else(|e| panic!("{e}\n{csv}"));
                    assert_eq!((back.tasks, back.names), (set.tasks, set.names));
                }
                Err(error) => {
                    refused += 1;
                    is_one_line(&error, &text);
                }
            }
        }
    }
    assert!(refused > 5_000 && taken > 1_000, "{refused} refused, {taken} taken");
}

#[test]
fn overhead_tables_gone_bad_never_panic_and_are_reported_in_one_line() {
    let mut random = Random(77);
    let (mut refused, mut taken) = (0, 0);
    let tables = examples().into_iter().map(|(_, text)| text);
    for text in tables.filter(|text| text.starts_with("TASK-COUNT") || text.starts_with("WSS")) {
        for _ in 0..5_000 {
            let text = changed(&text, &mut random);
            match Table::parse(&text, "x") {
                Ok(table) => {
                    taken += 1;
                    for key in [0, 1, 25, u64::MAX] {
                        let costs = table.columns.iter().map(|column| table.cost(column, key));
                        assert!(costs.max().flatten().unwrap_or_default() <= table.greatest(key));
                        table.charge(key, &mut Overheads::default());
                    }
                    assert_eq!(Table::parse(&table.to_string(), "x"), Ok(table), "{text}");
                }
                Err(error) => {
                    refused += 1;
                    is_one_line(&error, &text);
                }
            }
        }
    }
    assert!(refused > 1_000 && taken > 1_000, "{refused} refused, {taken} taken");
}

#[test]
fn deep_and_long_files_end_soon() {
    let deep = "[".repeat(100_000);
    assert!(formats::parse(&deep, "x", Format::RtApp).is_err());
    let deep = "{\"tasks\":".repeat(50_000);
    assert!(formats::parse(&deep, "x", Format::RtApp).is_err());
    let deep = "<taskset>".repeat(50_000);
    assert!(formats::parse(&deep, "x", Format::SchedCat).is_err());
    let keys: String = (0..50_000).map(|key| format!("\"x{key}\":1,")).collect();
    let error = formats::parse(&format!("{{\"tasks\":{{{keys}}}}}"), "x", Format::RtApp);
    assert!(error.is_err());
}
