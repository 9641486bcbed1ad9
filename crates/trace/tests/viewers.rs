//! Traces in the formats of others, read back by small readers of their own and held against the
//! lists of the same journal.

mod common;

use common::all;
use maracas_trace::{btf, csv, sched_trace};
use std::collections::{BTreeMap, BTreeSet};

/// An execution: task, job, core, from, to.
type Run = (String, u32, u16, u64, u64);

/// What a job came to: release, deadline, completion, execution time.
type Job = (u64, u64, Option<u64>, u64);

fn lines(list: impl FnOnce(&mut Vec<u8>)) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    list(&mut out);
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
}

/// The executions of jobs by `pieces.csv`, whatever their mode.
fn listed_runs(journal: &[u8]) -> BTreeSet<Run> {
    let mut runs: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for line in &lines(|out| csv::pieces(journal, out).unwrap())[1..] {
        let number = |column: usize| line[column].parse::<u64>().unwrap();
        let (job, core) = (number(1) as u32 + 1, number(2) as u16);
        let (from, to) = (number(4), number(5));
        let of_task = runs.entry(line[0].clone()).or_default();
        match of_task.last_mut() {
            Some(last) if (last.1, last.2, last.4) == (job, core, from) => last.4 = to,
            _ => of_task.push((line[0].clone(), job, core, from, to)),
        }
    }
    runs.into_values().flatten().collect()
}

/// The jobs by `jobs.csv`.
fn listed_jobs(journal: &[u8]) -> BTreeMap<(String, u32), Job> {
    let listed = &lines(|out| csv::jobs(journal, out).unwrap())[1..];
    let job = |line: &Vec<String>| {
        let number = |column: usize| line[column].parse::<u64>().unwrap();
        let key = (line[0].clone(), number(1) as u32 + 1);
        (key, (number(9), number(10), line[11].parse().ok(), number(8)))
    };
    listed.iter().map(job).collect()
}

/// How long VCPUs without jobs ran, by the report.
fn reported_time(run: &common::Run) -> BTreeMap<String, u64> {
    let of = |task: &maracas_trace::report::TaskReport| task.foreground_ns + task.background_ns;
    run.report.tasks.iter().map(|task| (task.name.clone(), of(task))).collect()
}

/// A state of a job in BTF's chart of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Active,
    Running,
    Ready,
    Waiting,
    Terminated,
}

/// The state after `event`, by the chart.
fn next(state: Option<State>, event: &str) -> State {
    match (state, event) {
        (None, "activate") => State::Active,
        (Some(State::Active), "start") => State::Running,
        (Some(State::Ready), "resume") => State::Running,
        (Some(State::Running), "preempt") => State::Ready,
        (Some(State::Running), "wait") => State::Waiting,
        (Some(State::Running), "terminate") => State::Terminated,
        (Some(State::Waiting), "release") => State::Ready,
        _ => panic!("{event} in {state:?}"),
    }
}

/// What a BTF file says.
#[derive(Default)]
struct Btf {
    runs: BTreeSet<Run>,
    activated: BTreeMap<(String, u32), u64>,
    terminated: BTreeMap<(String, u32), u64>,
}

fn read_btf(journal: &[u8]) -> Btf {
    let mut said = Btf::default();
    let mut states = BTreeMap::new();
    let mut on: BTreeMap<u16, (String, u32, u64)> = BTreeMap::new();
    let mut last = 0;
    let all = lines(|out| assert!(btf::from_journal(journal, out).unwrap().is_empty()));
    let is_comment = |line: &&Vec<String>| line[0].starts_with('#');
    assert_eq!(all.iter().take_while(is_comment).count(), 4);
    for line in &all[4..] {
        let [time, source, instance, kind, target, job, event] = &line[..] else {
            panic!("seven columns, not {line:?}");
        };
        let (time, job) = (time.parse::<u64>().unwrap(), job.parse::<u32>().unwrap());
        assert!(time >= last && kind == "T", "{line:?} after {last}");
        last = time;
        let key = (target.clone(), job);
        let state = next(states.get(&key).copied(), event);
        states.insert(key.clone(), state);
        if event == "activate" {
            assert_eq!((source, instance), (&format!("STI_{target}"), &job.to_string()));
            said.activated.insert(key, time);
            continue;
        }
        let core: u16 = source.strip_prefix("Core_").unwrap().parse().unwrap();
        match event.as_str() {
            "start" | "resume" => {
                let before = on.insert(core, (target.clone(), job, time));
                assert_eq!(before, None, "{line:?}: the core is taken");
            }
            "release" => {}
            _ => {
                let (task, other, from) = on.remove(&core).expect("something runs there");
                assert_eq!((&task, other), (target, job), "{line:?}: another runs there");
                said.runs.insert((task, job, core, from, time));
            }
        }
        if state == State::Terminated {
            said.terminated.insert(key, time);
        }
    }
    assert!(on.is_empty(), "runs that never end: {on:?}");
    said
}

#[test]
fn btf_says_what_the_lists_say() {
    for (policy, run) in all() {
        let said = read_btf(&run.journal);
        let (jobs, runs) = (listed_jobs(&run.journal), listed_runs(&run.journal));
        let of_jobs = said.runs.iter().filter(|run| run.1 > 0).cloned().collect::<BTreeSet<_>>();
        assert_eq!(of_jobs, runs, "{policy}");
        for (key, (release, _, completed, _)) in &jobs {
            assert_eq!(said.activated.get(key), Some(release), "{policy}: {key:?}");
            assert_eq!(said.terminated.get(key), completed.as_ref(), "{policy}: {key:?}");
        }
        assert_eq!(said.activated.keys().filter(|key| key.1 > 0).count(), jobs.len(), "{policy}");
        let mut time: BTreeMap<String, u64> = BTreeMap::new();
        said.runs.iter().for_each(|run| *time.entry(run.0.clone()).or_default() += run.4 - run.3);
        assert_eq!(time, reported_time(&run), "{policy}");
        // Servers block and leave, too.
        if policy == "maracas" {
            assert_eq!(said.terminated.keys().collect::<Vec<_>>(), [&("vcpu3".to_string(), 0)]);
        }
    }
}

/// A record of sched_trace: type, core, pid, job, and two words.
type Record = (u8, u8, u16, u32, [u64; 2]);

fn read_st(journal: &[u8]) -> (Vec<Record>, Vec<String>) {
    let mut file = Vec::new();
    let remarks = sched_trace::from_journal(journal, &mut file).unwrap();
    assert_eq!(file.len() % 24, 0);
    let record = |bytes: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let pid = u16::from_le_bytes([bytes[2], bytes[3]]);
        let job = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        (bytes[0], bytes[1], pid, job, [word(8), word(16)])
    };
    (file.chunks(24).map(record).collect(), remarks)
}

fn name_of(words: [u64; 2]) -> String {
    let bytes = words.map(u64::to_le_bytes).concat();
    String::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
}

#[test]
fn sched_trace_says_what_the_lists_say() {
    for (policy, run) in all() {
        let (records, remarks) = read_st(&run.journal);
        assert!(remarks.is_empty(), "{remarks:?}");
        let of = |kind: u8| records.iter().filter(move |record| record.0 == kind);
        let names: BTreeMap<u16, String> =
            of(1).map(|(_, _, pid, _, words)| (*pid, name_of(*words))).collect();
        assert_eq!(names.len(), run.report.tasks.len(), "{policy}");
        for (task, record) in run.report.tasks.iter().zip(of(2)) {
            let (wcet, period) = (record.4[0] & 0xffff_ffff, record.4[0] >> 32);
            assert_eq!((wcet, period), (task.budget_ns, task.period_ns), "{policy}");
        }
        let timed = || records.iter().filter(|record| (3..=9).contains(&record.0));
        assert!(timed().zip(timed().skip(1)).all(|(a, b)| a.4[0] <= b.4[0]), "{policy}: in order");
        let mut jobs: BTreeMap<(String, u32), Job> = BTreeMap::new();
        let mut runs = BTreeSet::new();
        let mut on: BTreeMap<u8, (u16, u32, u64, u64)> = BTreeMap::new();
        for (kind, core, pid, job, [at, word]) in timed().copied() {
            let key = (names[&pid].clone(), job);
            match kind {
                3 => assert_eq!(jobs.insert(key, (at, word, None, 0)), None),
                5 => assert_eq!(on.insert(core, (pid, job, at, word & 0xffff_ffff)), None),
                6 => {
                    let (task, number, from, before) = on.remove(&core).unwrap();
                    assert_eq!((task, number, word - before), (pid, job, at - from), "{policy}");
                    runs.insert((key.0, job, u16::from(core), from, at));
                }
                7 => {
                    assert_eq!(word & 1, 0, "none is cut off");
                    let known = jobs.get_mut(&key).unwrap();
                    (known.2, known.3) = (Some(at), word >> 1);
                }
                8 | 9 => assert_eq!(word, 0),
                other => panic!("type {other}"),
            }
        }
        assert_eq!(runs, read_btf(&run.journal).runs, "{policy}");
        let mut listed = listed_jobs(&run.journal);
        // What an unfinished job got is in no completion.
        listed.values_mut().filter(|job| job.2.is_none()).for_each(|job| job.3 = 0);
        assert_eq!(jobs, listed, "{policy}");
        if policy == "maracas" {
            // The one that sleeps: blocked and woken, and never woken twice.
            let sleeper = records.iter().filter(|record| record.2 == 3);
            let turns: Vec<u8> = sleeper.map(|it| it.0).filter(|it| [8, 9].contains(it)).collect();
            assert!(turns.len() > 20 && turns[0] == 8, "{turns:?}");
            assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
        }
    }
}
