//! What a run says of its promises: in words, in JSON and by its exit code. Live runs are judged by
//! the same code.

mod common;

use common::{Scratch, maracas, repository, text};
use maracas_core::contract::{Event, Mode, Segment, Usage};
use maracas_core::journal::{Note, Reader, Record, Recorder};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use maracas_trace::Report;
use maracas_trace::report::Word;
use serde_json::Value;

/// The example that README runs.
fn quickstart() -> String {
    repository().join("examples/quickstart.toml").display().to_string()
}

/// Simulates it with decisions late by up to so much: exit code and report.
fn simulated(late: &str, more: &[&str]) -> (Option<i32>, Value) {
    let (scratch, file) = (Scratch::new(), quickstart());
    let words = ["sim", &file, "--until", "2s", "--late", late, "--json"];
    let output = maracas(scratch.path(), &[&words[..], more].concat());
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn words(report: &Value) -> Vec<&str> {
    let tasks = report["tasks"].as_array().unwrap();
    tasks.iter().map(|task| task["verdict"]["word"].as_str().unwrap()).collect()
}

#[test]
fn a_kept_promise_ends_with_0_and_a_broken_one_with_4() {
    let (code, report) = simulated("0s", &[]);
    assert_eq!((code, &report["promise"]["kept"]), (Some(0), &true.into()));
    assert_eq!(words(&report), ["kept"; 4]);
    let none = Value::Array(Vec::new());
    assert_eq!((&report["trouble"], &report["programs"]), (&none, &none));
    // Decisions that are later than periods are long.
    let (code, report) = simulated("20ms", &[]);
    assert_eq!((code, &report["promise"]["kept"]), (Some(4), &false.into()));
    let broken = |word: &&str| ["short", "over", "both"].contains(word);
    assert!(words(&report).iter().any(broken), "{report:#}");
    assert_eq!(simulated("20ms", &["--quiet"]), (code, report), "--quiet drops nothing of it");
}

#[test]
fn the_table_says_what_got_what_was_promised() {
    let (scratch, file) = (Scratch::new(), quickstart());
    let table = |late: &str| {
        let words = ["sim", &file, "--until", "2s", "--late", late, "--quiet"];
        let output = maracas(scratch.path(), &words);
        (output.status.code(), text(&output.stdout))
    };
    let (code, kept) = table("0s");
    assert_eq!(code, Some(0));
    assert!(kept.contains("\nkept: control, vision, video, logger\n"), "{kept}");
    let (code, broken) = table("20ms");
    assert_eq!(code, Some(4));
    assert!(broken.contains("\nNOT KEPT: control short "), "{broken}");
}

#[test]
fn the_exit_code_has_its_word_in_the_help() {
    for command in ["run", "sim"] {
        let output = maracas(&repository(), &[command, "--help"]);
        // The width of the help cuts lines anywhere.
        let help = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("and 4 where a"), "{command}: {help}");
    }
    let document = std::fs::read_to_string(repository().join("docs/output.md")).unwrap();
    assert!(document.contains("| 4 | A promise was not kept"), "docs/output.md has no exit code 4");
}

/// The journal of a simulation with `change` made to each record.
fn changed(journal: &[u8], mut change: impl FnMut(Record) -> Vec<Record>) -> Vec<u8> {
    let (header, reader) = Reader::open(journal).unwrap();
    let mut recorder = Recorder::new(&header);
    reader.flat_map(|record| change(record.unwrap())).for_each(|record| recorder.record(&record));
    std::mem::take(recorder.bytes())
}

#[test]
fn journals_of_live_machines_and_older_ones_are_judged() {
    let (scratch, file) = (Scratch::new(), quickstart());
    let words = ["sim", &file, "--until", "2s", "--quiet", "--journal", "j"];
    assert_eq!(maracas(scratch.path(), &words).status.code(), Some(0));
    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    let report = Report::from_journal(&journal).unwrap();
    assert!(report.promise.kept && report.cores.iter().all(|core| core.causes.is_none()));
    // As if the hypervisor had taken core 0 for 5 ms while control, of C = 2 ms, ran there.
    let spoiled = |notes: &'static [(&'static str, &'static str)]| {
        let mut is_done = false;
        changed(&journal, move |record| {
            let mut records = vec![record.clone()];
            if let Record::Event { at, event: Event::Ran(segment) } = record
                && segment.vcpu == VcpuId(0)
                && segment.mode == Mode::Foreground
                && at > Instant::ZERO + Duration::from_secs(1)
                && !is_done
            {
                is_done = true;
                let to = segment.to + Duration::from_millis(5);
                let usage = Usage { service: Duration::from_millis(5), ..Usage::default() };
                let (from, core) = (segment.to, CoreId(0));
                let more = Segment { from, to, usage, core, ..segment };
                records.push(Record::Event { at: to, event: Event::Ran(more) });
                records.extend(notes.iter().map(|(key, text)| {
                    let note = Note::read((*key).into(), None, (*text).into());
                    Record::Note { at: to, note }
                }));
            }
            records
        })
    };
    let of = |journal: &[u8]| Report::from_journal(journal).unwrap();
    let silent = of(&spoiled(&[]));
    assert_eq!((silent.tasks[0].verdict.word, silent.promise.kept), (Word::Over, false));
    let reported =
        of(&spoiled(&[("late", "0 5000000 5000000"), ("relief", "0 neighbour 30000000")]));
    let verdict = reported.tasks[0].verdict;
    assert_eq!((verdict.word, verdict.stolen, reported.promise.kept), (Word::Kept, 1, true));
    let causes = reported.cores[0].causes.as_ref().unwrap();
    assert_eq!((causes.late.count, causes.reliefs.len()), (1, 1));
    scratch.write("told", spoiled(&[("late", "0 5000000 5000000"), ("unheard", "of")]));
    let output = maracas(scratch.path(), &["top", "--journal", "told", "--json"]);
    let gauges: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = (&gauges["vcpus"][0]["stolen_periods"], &gauges["cores"][0]["late_alarms"]);
    assert_eq!(shown, (&1.into(), &1.into()), "{gauges:#}");
    // Notes alone change no decision.
    let note = |text: &str| {
        let note = Note::read("late".into(), None, text.into());
        Record::Note { at: Instant::ZERO, note }
    };
    let noted = changed(&journal, |record| vec![note("0 5000000 0"), record]);
    scratch.write("noted", noted);
    assert_eq!(maracas(scratch.path(), &["replay", "noted"]).status.code(), Some(0));
}
