//! Programs that come and go while the system runs: the policy is asked about each VCPU when its
//! first program is due, and what it refuses is not started.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;

use common::repository;
use live::Stage;
use live::measure::at_least_wakes;
use live::witness::repeated;
use maracas_core::contract::Event;
use maracas_core::journal::{Note, Reader, Record};
use std::collections::BTreeMap;

/// The names of the VCPUs that arrived, with the millisecond.
fn arrivals(journal: &[u8]) -> BTreeMap<String, u64> {
    let (_, reader) = Reader::open(journal).unwrap();
    let mut names = BTreeMap::new();
    let mut found = BTreeMap::new();
    for record in reader {
        match record.unwrap() {
            Record::Note { note: Note::Name { vcpu, name }, .. } => {
                names.insert(vcpu, name);
            }
            Record::Event { at, event: Event::Arrived(vcpu) } => {
                found.insert(names[&vcpu.id].clone(), at.ticks() / 1_000_000);
            }
            Record::Event { .. }
            | Record::Note { .. }
            | Record::Planned(_)
            | Record::Gap(_)
            | Record::End(_) => {}
        }
    }
    found
}

/// On what it ran, as the journal says.
fn host(journal: &[u8]) -> String {
    let (_, mut reader) = Reader::open(journal).unwrap();
    match reader.next() {
        Some(Ok(Record::Note { note: Note::Host(text), .. })) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_arrivals_example_does_what_its_comment_says() {
    repeated(|| {
        let Some(stage) = Stage::enter(1, 4) else { return };
        let file = repository().join("examples/arrivals.toml");
        let words = [file.to_str().unwrap(), "--json", "--journal", "arrivals.journal"];
        let report = stage.start(&words, &[]).report();
        for name in ["first", "second", "shared"] {
            report.task(name).got_its_budget();
        }
        // A program is started when it is due, which takes processes and groups.
        let late_ms = at_least_wakes(50e6, 5000.0) / 1e6;
        // The run may end later than asked, and what is there then has periods until it does.
        let promise = &report.0["promise"];
        let [asked, lasted] = ["asked_ns", "lasted_ns"].map(|key| promise[key].as_f64().unwrap());
        let longer_ms = (lasted - asked).max(0.0) / 1e6;
        // `first` leaves after 2 s; `second` comes after 1 s, `shared` after 2.5 s.
        for (name, periods, period_ms) in
            [("first", 200.0, 10.0), ("second", 150.0, 20.0), ("shared", 37.0, 40.0)]
        {
            let seen = report.task(name).delivered("periods");
            let within = report.task(name).within(0.05) * periods;
            let least = periods - within - late_ms / period_ms;
            let most = periods + within + longer_ms / period_ms;
            assert!((least..=most).contains(&seen), "{name}: {seen} periods, {least} to {most}");
        }
        let journal = std::fs::read(stage.file("arrivals.journal")).unwrap();
        let arrived = arrivals(&journal);
        eprintln!("arrived after so many ms: {arrived:?}");
        assert_eq!(arrived.len(), 2, "`first` is there from the start");
        assert!(host(&journal).contains("cores"), "on what it ran: {}", host(&journal));
        for (name, due) in [("second", 1_000), ("shared", 2_500)] {
            assert!(
                (due..due + late_ms as u64).contains(&arrived[name]),
                "{name} arrived at {arrived:?}"
            );
        }
        let replayed = stage.maracas(&["replay", "arrivals.journal"]);
        assert_eq!(replayed.status.code(), Some(0), "{}", common::text(&replayed.stderr));
    });
}

#[test]
fn what_is_refused_on_arrival_is_said_and_not_started() {
    repeated(|| {
        let Some(stage) = Stage::enter(1, 2) else { return };
        let text = r#"
        version = 1
        [platform]
        cores = 1
        [run]
        duration = "1500ms"
        [[program]]
        name = "early"
        command = ["maracas", "work", "spin"]
        output = "null"
        budget = "6ms"
        period = "10ms"
        [[program]]
        name = "late"
        command = ["touch", "started"]
        budget = "6ms"
        period = "10ms"
        start = "500ms"
        [[program]]
        name = "later"
        command = ["touch", "started"]
        vcpu = "late"
        start = "700ms"
    "#;
        stage.scratch.write("refused.toml", text);
        let mut run = stage.start(&["refused.toml", "--json"], &[]);
        let report = run.report();
        let said = run.said();
        let refused: Vec<_> = said.lines().filter(|line| line.contains("refused")).collect();
        assert_eq!(refused.len(), 1, "{said}");
        assert!(refused[0].contains("late was refused when it arrived: "), "{said}");
        assert!(!stage.file("started").exists(), "a refused VCPU's programs must not start");
        report.task("early").got_its_budget();
    });
}
