//! The shipped examples do what their head comments say; simulations repeat byte for byte; replay
//! is exact and finds one altered event.

mod common;

use common::{Scratch, maracas, repository, text};
use maracas_core::contract::Event;
use maracas_core::journal::{Reader, Record, Recorder};
use maracas_core::{Duration, Instant};
use std::path::PathBuf;

fn examples() -> Vec<PathBuf> {
    let directory = std::fs::read_dir(repository().join("examples")).unwrap();
    let mut files: Vec<_> = directory.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert!(!files.is_empty());
    files
}

/// The `maracas ...` commands in a file's head comment, with what follows two spaces after.
fn commands(head: &str) -> Vec<(Vec<String>, String)> {
    head.lines()
        .map_while(|line| line.strip_prefix('#'))
        .filter_map(|line| line.trim().strip_prefix("maracas "))
        .map(|line| {
            // `maracas sim   FILE` is aligned with its neighbours; a remark follows the file.
            let mut words = line.split_whitespace();
            let mut arguments = vec![words.next().unwrap().to_string()];
            let mut remark = Vec::new();
            let mut takes_value = false;
            for word in words {
                if !remark.is_empty() {
                    remark.push(word);
                } else if word.starts_with("--") || word.ends_with(".toml") || takes_value {
                    let options =
                        ["--set", "--until", "--policy", "--machine", "--sense", "--locks"];
                    takes_value = options.contains(&word);
                    arguments.push(word.to_string());
                } else {
                    remark.push(word);
                }
            }
            (arguments, remark.join(" "))
        })
        .collect()
}

#[test]
fn every_command_in_the_head_comments_works() {
    for path in examples() {
        let head = std::fs::read_to_string(&path).unwrap();
        let commands = commands(&head);
        assert!(!commands.is_empty(), "{} names no command", path.display());
        let needs_rights = |words: &[String]| ["run", "bench"].contains(&words[0].as_str());
        for (arguments, remark) in commands.iter().filter(|(words, _)| !needs_rights(words)) {
            let words: Vec<_> = arguments.iter().map(String::as_str).collect();
            let output = maracas(&repository(), &words);
            let refused = words[0] == "check" && remark.contains("refused")
                || words.contains(&"--suggest") && remark.contains("smallest change");
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            let code = Some(i32::from(refused));
            assert_eq!(output.status.code(), code, "maracas {words:?}: {stdout}{stderr}");
            assert_ne!(stdout, "", "maracas {words:?} printed nothing");
        }
    }
}

#[test]
fn a_simulation_repeats_byte_for_byte() {
    for path in examples() {
        let file = path.to_str().unwrap();
        let run = |journal: &str, scratch: &Scratch| {
            let words = ["sim", file, "--json", "--until", "300ms", "--late", "200us"];
            let words = [&words[..], &["--seed", "7", "--journal", journal]].concat();
            let output = maracas(scratch.path(), &words);
            (output.status.code(), output.stdout, std::fs::read(scratch.path().join(journal)).ok())
        };
        let scratch = Scratch::new();
        let (first, second) = (run("a", &scratch), run("b", &scratch));
        assert!(matches!(first.0, Some(0 | 1)), "{file}");
        assert!(first == second, "{file}: two runs differ");
    }
}

#[test]
fn json_holds_what_is_promised() {
    let output = maracas(&repository(), &["sim", "examples/periodic.toml", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["machine"], &json["seed"]), (&"sim".into(), &7.into()));
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let tasks = json["tasks"].as_array().unwrap();
    let numbers = ["jobs", "preemptions", "migrations", "misses", "foreground_ns", "background_ns"];
    for number in numbers {
        let sum: u64 = tasks.iter().map(|task| task[number].as_u64().unwrap()).sum();
        assert_eq!(json["total"][number].as_u64(), Some(sum), "{number}");
    }
    assert!(json["total"]["jobs"].as_u64().unwrap() > 100);
}

/// The same journal with the `nth` event altered, every record and checksum valid.
fn with_event(journal: &[u8], nth: usize, alter: impl Fn(&mut Instant, &mut Event)) -> Vec<u8> {
    let (header, reader) = Reader::open(journal).unwrap();
    let mut recorder = Recorder::new(&header);
    let mut seen = 0;
    for record in reader {
        let mut record = record.unwrap();
        if let Record::Event { at, event } = &mut record {
            if seen == nth {
                alter(at, event);
            }
            seen += 1;
        }
        recorder.record(&record);
    }
    assert!(seen > nth, "only {seen} events");
    std::mem::take(recorder.bytes())
}

#[test]
fn replay_is_exact_and_finds_an_altered_event() {
    let scratch = Scratch::new();
    let quickstart = repository().join("examples/quickstart.toml");
    let words =
        ["sim", quickstart.to_str().unwrap(), "--until", "200ms", "--journal", "j", "--quiet"];
    assert_eq!(maracas(scratch.path(), &words).status.code(), Some(0));
    let output = maracas(scratch.path(), &["replay", "j"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).starts_with("exact: "));

    let journal = std::fs::read(scratch.path().join("j")).unwrap();
    // A segment that used less than it did: the budget that is left differs from here on.
    let (_, reader) = Reader::open(&journal).unwrap();
    let mut events = Vec::new();
    for record in reader {
        if let Record::Event { event, .. } = record.unwrap() {
            events.push(event);
        }
    }
    let used =
        |event: &Event| matches!(event, Event::Ran(segment) if !segment.usage.service.is_zero());
    let half = events.len() / 2;
    let nth = half + events[half..].iter().position(used).unwrap();
    scratch.write(
        "altered",
        with_event(&journal, nth, |_, event| {
            if let Event::Ran(segment) = event {
                segment.usage.service =
                    segment.usage.service.saturating_sub(Duration::from_ticks(7));
            }
        }),
    );
    let output = maracas(scratch.path(), &["replay", "altered"]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}{}", text(&output.stderr));
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    for part in ["differs at record ", "the event before it is record ", "journal ", "replay "] {
        assert!(stdout.contains(part), "{part} is not in: {stdout}");
    }
    let json = maracas(scratch.path(), &["replay", "altered", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["exact"], false);
}

#[test]
fn a_closed_output_is_no_crash() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["work", "spin", "--report", "10ms", "--duration", "5s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn work_ends_cleanly_at_sigterm() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::{Command, Stdio};
    for work in ["spin", "m_jump", "mwalk", "hog", "periodic", "anytime"] {
        let child = Command::new(env!("CARGO_BIN_EXE_maracas"))
            .args(["work", work, "--json", "--report", "50ms"])
            .env_remove("MARACAS_SOCKET")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{work}");
        let last = text(&output.stdout).lines().last().unwrap_or_default().to_string();
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!((&last["work"], &last["kind"]), (&work.into(), &"total".into()));
        assert!(last["iterations"].as_u64().unwrap() > 0, "{work}: {last}");
    }
}

#[test]
fn an_interrupted_simulation_leaves_no_file() {
    use rustix::process::{Pid, Signal, kill_process};
    let scratch = Scratch::new();
    scratch.write("t.csv", "cost_us,period_us\n1,10\n1,10\n");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["sim", "--taskset", "t.csv", "--cores", "1", "--policy", "p-edf"])
        .args(["--until", "3600s", "--quiet", "--journal", "j", "--trace", "t"])
        .args(["--csv", "lists"])
        .current_dir(scratch.path())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(scratch.names().len(), 4, "{:?}", scratch.names());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(scratch.names(), ["t.csv"]);
}

#[test]
fn charts_traces_and_lists_are_written() {
    let scratch = Scratch::new();
    let file = repository().join("examples/periodic.toml");
    let file = file.to_str().unwrap();
    let words = ["sim", file, "--quiet", "--journal", "j", "--trace", "t", "--csv", "."];
    let output = maracas(scratch.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scratch.names(), ["j", "jobs.csv", "pieces.csv", "samples.csv", "speeds.csv", "t"]);
    let jobs = std::fs::read_to_string(scratch.path().join("jobs.csv")).unwrap();
    // 2 s of periods 10, 20, 50 and 100 ms.
    assert_eq!(jobs.lines().count(), 1 + 200 + 100 + 40 + 20);

    for chart in [&["gantt", "j", "--to", "50ms"][..], &["gantt", file, "--to", "50ms"]] {
        let output = maracas(scratch.path(), chart);
        let stdout = text(&output.stdout);
        assert!(stdout.contains("sensor") && stdout.contains("50ms"), "{stdout}");
    }
    let svg = maracas(scratch.path(), &["gantt", "j", "--cores", "--svg", "x.svg"]);
    assert_eq!((svg.status.code(), text(&svg.stdout).as_str()), (Some(0), ""));
    let svg = std::fs::read_to_string(scratch.path().join("x.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
}

/// The format of a trace is that of its ending; from a journal it is the same, byte for byte.
#[test]
fn traces_in_other_formats_are_written() {
    let scratch = Scratch::new();
    let file = repository().join("examples/periodic.toml");
    let file = file.to_str().unwrap();
    let read = |name: &str| std::fs::read(scratch.path().join(name)).unwrap();
    for (ending, begin) in
        [("btf", &b"#version 2.1.3\n"[..]), ("ST", b"\x01"), ("pftrace", b"\x0a")]
    {
        let (one, two) = (format!("one.{ending}"), format!("two.{ending}"));
        let words = ["sim", file, "--quiet", "--journal", "j", "--trace", &one];
        let output = maracas(scratch.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(read(&one).starts_with(begin), "{ending}");
        let output = maracas(scratch.path(), &["replay", "j", "--trace", &two]);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
        assert!(read(&one) == read(&two), "{ending}");
    }
    let refused = maracas(scratch.path(), &["replay", "j", "--trace", "j"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));

    scratch.write("wide.csv", "cost_us,period_us\n1,10\n");
    let words = ["sim", "--taskset", "wide.csv", "--policy", "p-edf", "--cores", "300"];
    let refused = maracas(scratch.path(), &[&words[..], &["--trace", "wide.st"]].concat());
    let why = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{why}");
    assert!(why.contains("256 cores and there are 300") && why.contains(".btf"), "{why}");
    assert!(!scratch.names().iter().any(|name| name.starts_with("wide.st")), "nothing is left");
}

#[test]
fn a_refusal_is_answered_with_the_verdict() {
    for command in ["check", "sim"] {
        let output = maracas(&repository(), &[command, "examples/overload.toml"]);
        let stdout = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{stdout}");
        assert!(stdout.contains("slow is refused"), "{stdout}");
        assert!(stdout.contains("0.833333 of 0.779763"), "{stdout}");
    }
    let words = ["check", "examples/overload.toml", "--suggest", "--json"];
    let json = maracas(&repository(), &words);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["admitted"], false);
    assert!(!json["suggestions"].as_array().unwrap().is_empty());
}
