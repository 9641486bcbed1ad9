use crate::testkit::{
    Background, Blocked, Exited, Foreground, LimitReached, Metered, Story, figure, vcpu,
};
use crate::{btf, sched_trace};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The events of a BTF file, without its four lines of header.
fn events(journal: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    btf::from_journal(journal, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().skip(4).map(str::to_string).collect()
}

fn of<'a>(events: &'a [String], who: &str) -> Vec<&'a str> {
    let part = format!(",T,{who},");
    events.iter().filter(|line| line.contains(&part)).map(String::as_str).collect()
}

#[test]
fn modes_are_one_and_moves_are_two() {
    let events = events(&figure().journal(24_000));
    // Foreground and background on one core are one execution; where it waited in between, two.
    let spin = [
        "0,STI_spin,0,T,spin,0,activate",
        "0,Core_0,0,T,spin,0,start",
        "4000,Core_0,0,T,spin,0,preempt",
        "5000,Core_0,0,T,spin,0,resume",
        "14000,Core_0,0,T,spin,0,wait",
    ];
    assert_eq!(of(&events, "spin,0"), spin);
    let sort = [
        "0,STI_sort,1,T,sort,1,activate",
        "0,Core_1,0,T,sort,1,start",
        "2000,Core_1,0,T,sort,1,preempt",
        "4000,Core_0,0,T,sort,1,resume",
        "5000,Core_0,0,T,sort,1,terminate",
    ];
    assert_eq!(of(&events, "sort,1"), sort);
    let after = events.iter().position(|line| line.contains("spin,0,resume")).unwrap();
    assert_eq!(events[after - 1], sort[4], "what leaves a core is said before what comes");
}

/// A job that waits in the middle, time after it, and an end that is reported late.
#[test]
fn jobs_that_block_and_ends_that_come_late() {
    let mut story = Story::new(1, vec![vcpu(0, 40, 100).periodic()]);
    story.released(0, 0, 0, 100).ran((0, 0, Foreground), (0, 10), Blocked).woke(0, 15);
    story.completed(0, 0, 30).ran((0, 0, Foreground), (20, 50), Metered);
    story.ran((0, 0, Background), (50, 60), Blocked);
    story.released(0, 1, 100, 200).ran((0, 0, Foreground), (100, 120), Blocked);
    story.completed(0, 1, 125).released(0, 2, 200, 300).completed(0, 2, 210);
    // Known only after the segment around it.
    story.released(0, 3, 300, 400).ran((0, 0, Foreground), (300, 340), LimitReached);
    story.completed(0, 3, 330).ran((0, 0, Foreground), (400, 410), Exited);
    let journal = story.journal(500);
    let events = events(&journal);
    let first = [
        "0,STI_spin,1,T,spin,1,activate",
        "0,Core_0,0,T,spin,1,start",
        "10,Core_0,0,T,spin,1,wait",
        "15,Core_0,0,T,spin,1,release",
        "20,Core_0,0,T,spin,1,resume",
        "30,Core_0,0,T,spin,1,terminate",
    ];
    assert_eq!(of(&events, "spin,1"), first);
    let late = ["release", "resume", "terminate"].map(|it| format!("125,Core_0,0,T,spin,2,{it}"));
    assert_eq!(of(&events, "spin,2")[3..], late);
    let never_ran = [
        "200,STI_spin,3,T,spin,3,activate",
        "210,Core_0,0,T,spin,3,start",
        "210,Core_0,0,T,spin,3,terminate",
    ];
    assert_eq!(of(&events, "spin,3"), never_ran);
    assert_eq!(of(&events, "spin,4").last(), Some(&"330,Core_0,0,T,spin,4,terminate"));
    let outside = [
        "30,STI_spin,0,T,spin,0,activate",
        "30,Core_0,0,T,spin,0,start",
        "60,Core_0,0,T,spin,0,wait",
        "330,Core_0,0,T,spin,0,release",
        "330,Core_0,0,T,spin,0,resume",
        "340,Core_0,0,T,spin,0,preempt",
        "400,Core_0,0,T,spin,0,resume",
        "410,Core_0,0,T,spin,0,terminate",
    ];
    assert_eq!(of(&events, "spin,0"), outside);
    let mut file = Vec::new();
    assert!(sched_trace::from_journal(&journal, &mut file).unwrap().is_empty());
    let completions: Vec<u64> = file
        .chunks(24)
        .filter(|record| record[0] == 7)
        .map(|record| u64::from_le_bytes(record[8..16].try_into().unwrap()))
        .collect();
    assert_eq!(completions, [30, 125, 210, 330]);
}

#[test]
fn what_a_format_cannot_say_is_said() {
    let mut story = Story::new(1, vec![vcpu(0, 1_000_000_000, 5_000_000_000)]);
    story.named(0, "a long name, with ünicode").ran((0, 0, Foreground), (0, 7), LimitReached);
    let journal = story.journal(10);
    let mut file = Vec::new();
    let remarks = btf::from_journal(&journal, &mut file).unwrap();
    assert_eq!(remarks, ["BTF has no commas in names; written as a long name_ with ünicode"]);
    file.clear();
    let remarks = sched_trace::from_journal(&journal, &mut file).unwrap();
    assert_eq!(remarks.len(), 2, "{remarks:?}");
    assert!(remarks[0].contains("15 bytes") && remarks[1].contains("4.29 s"), "{remarks:?}");
    assert_eq!((&file[8..24], file[24]), (&b"a long name, wi\0"[..], 2));
    assert_eq!(file[36..40], [255; 4], "the longest period");

    let cores = Story::new(257, vec![vcpu(0, 1, 10)]);
    let refused = sched_trace::check(&cores.header).unwrap_err().to_string();
    assert!(refused.contains("256 cores and there are 257"), "{refused}");
    let written = sched_trace::from_journal(&cores.journal(1), &mut Vec::new());
    assert_eq!(written.unwrap_err().to_string(), refused);
    assert!(sched_trace::check(&Story::new(256, vec![vcpu(0, 1, 10)]).header).is_ok());
    assert!(btf::from_journal(&cores.journal(1), &mut Vec::new()).is_ok());
}

/// What a live machine may report of a VCPU in a row: whether a job is released, a pause, a run and
/// its end, and how long before or after that end the first job that is under way was over.
type Turn = (bool, u64, u64, u8, Option<i64>);

fn told(turns: &[Turn]) -> (Story, u64, u64) {
    let mut story = Story::new(1, vec![vcpu(0, 40, 100).periodic()]);
    let (mut now, mut ran, mut released, mut over) = (0, 0, 0, 0);
    for (release, pause, length, end, completed) in turns.iter().copied() {
        now += pause;
        if release {
            story.released(0, released, now, now + 100);
            released += 1;
        }
        let end = [Metered, LimitReached, Blocked, Exited][usize::from(end)];
        story.ran((0, 0, Foreground), (now, now + length), end);
        now += length;
        ran += length;
        if let Some(at) = completed.filter(|_| over < released) {
            story.completed(0, over, now.saturating_add_signed(at));
            over += 1;
        }
    }
    (story, now + 50, ran)
}

proptest! {
    /// Whatever is reported, and however late: every job follows the chart, in the order of time,
    /// and no time on the core is lost.
    #[test]
    fn every_job_follows_the_chart(
        turns in prop::collection::vec(
            (any::<bool>(), 0..9_u64, 1..20_u64, 0..4_u8, prop::option::of(-30..30_i64)), 1..40,
        )
    ) {
        let (story, end, ran) = told(&turns);
        let (mut states, mut since) = (BTreeMap::new(), BTreeMap::new());
        let (mut last, mut on) = (0, 0);
        for line in events(&story.journal(end)) {
            let columns: Vec<&str> = line.split(',').collect();
            let time = columns[0].parse::<u64>().unwrap();
            let (job, event) = (columns[5], columns[6]);
            prop_assert!(time >= last, "{line} after {last}");
            last = time;
            let state = states.entry(job.to_owned()).or_insert("terminated");
            *state = match (*state, event) {
                ("terminated", "activate") => "active",
                ("active", "start") | ("ready", "resume") => "running",
                ("running", "preempt") | ("waiting", "release") => "ready",
                ("running", "wait") => "waiting",
                ("running", "terminate") => "terminated",
                (state, _) => {
                    let what = format!("{line} while {state}");
                    return Err(TestCaseError::fail(what));
                }
            };
            match event {
                "start" | "resume" => _ = since.insert(job.to_owned(), time),
                "preempt" | "wait" | "terminate" => on += time - since[job],
                _ => {}
            }
        }
        prop_assert_eq!(on, ran);
    }
}
