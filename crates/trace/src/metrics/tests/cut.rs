//! Journals that were cut: what is judged is what is told.

use super::*;
use crate::report::Word;
use maracas_core::journal::{self, Recorder};

/// C = 4 every 10 on core 0, promised from the begin, of `cores` cores; VCPU 1 is promised nothing.
fn promised(cores: usize) -> Story {
    let mut story = Story::new(cores, vec![vcpu(0, 4, 10), vcpu(1, 1, 10)]);
    story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 100)]);
    story.woke(0, 0).ran(FORE, (0, 4), LimitReached).ran(FORE, (10, 14), LimitReached);
    story
}

/// The report of its journal without the end, at the last instant of its records.
fn cut(story: &Story) -> Report {
    let mut bytes = story.journal(1);
    bytes.pop();
    let found = journal::mend(&mut bytes).unwrap();
    let report = Report::from_journal(&bytes).unwrap();
    let cut = report.promise.cut.unwrap();
    assert_eq!((cut.byte, report.promise.kept), (found.offset as u64, false));
    assert_eq!(cut.left_out_bytes, found.left_out as u64);
    report
}

/// Its word, and how many periods were judged, were short and were without demand.
fn judged(report: &Report) -> (Word, [u64; 3]) {
    let (task, verdict) = (&report.tasks[0], &report.tasks[0].verdict);
    (verdict.word, [verdict.judged, verdict.short, task.delivered.periods_without_demand])
}

#[test]
fn what_may_be_under_way_is_not_judged() {
    // It may have run on core 0 since 14, while core 1 told more.
    let mut story = promised(2);
    story.ran((1, 1, Foreground), (0, 95), Preempted);
    assert_eq!(judged(&cut(&story)), (Word::Kept, [1, 0, 0]));
    assert_eq!(judged(&story.report(95)), (Word::Short, [9, 7, 0]), "with an end it is all told");
    // All cores are told of up to 95: it got nothing in seven periods.
    story.ran((1, 0, Foreground), (14, 95), Preempted);
    assert_eq!(judged(&cut(&story)), (Word::Short, [9, 7, 0]));
}

#[test]
fn while_it_is_blocked_nothing_is_under_way() {
    let mut story = promised(2);
    story.ran(FORE, (14, 15), Blocked).woke(1, 95);
    // [10, 20) and the seven whole periods after it.
    assert_eq!(judged(&cut(&story)), (Word::NoDemand, [1, 0, 8]));
    story.woke(0, 96);
    assert_eq!(judged(&cut(&story)), judged(&story.report(96)));
}

/// What ran when another reservation was granted is metered then, by a record that is cut off.
#[test]
fn a_reservation_that_was_just_granted_closes_no_period() {
    let mut story = Story::new(1, vec![vcpu(0, 10, 10)]);
    story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 100)]);
    story.woke(0, 0).event(35, Event::Changed(vcpu(0, 5, 10)));
    story.planned(35, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
    assert_eq!(judged(&cut(&story)), (Word::NoPeriod, [0, 0, 0]));
    story.ran(FORE, (0, 35), Metered);
    let told = judged(&cut(&story));
    assert_eq!((told.1[..2].to_vec(), told), (vec![3, 0], judged(&story.report(35))));
}

#[test]
fn jobs_that_may_have_ended_are_no_misses() {
    let misses = |story: &Story| {
        let task = &cut(story).tasks[0];
        (task.jobs, task.misses, task.tardiness_max_ns)
    };
    let mut story = Story::new(1, vec![vcpu(0, 4, 10).periodic()]);
    // It ended in time, which the record that is cut off says.
    story.released(0, 0, 0, 10).ran(FORE, (0, 10), Blocked);
    assert_eq!(misses(&story), (1, 0, 0));
    // It may have run since 10.
    story.completed(0, 0, 10).released(0, 1, 10, 20).released(0, 2, 20, 30).released(0, 3, 30, 40);
    assert_eq!(misses(&story), (3, 0, 0), "that of 30 is not released before 30");
    // It ran until 35 and goes on: of the one that was due at 20 nothing is left open.
    story.ran(FORE, (10, 35), Metered);
    assert_eq!(misses(&story), (4, 2, 15));
    // It waits since 35, and may have gone on in time for the one that is due at 40.
    story.woke(0, 90);
    assert_eq!(misses(&story), (4, 2, 15));
}

#[test]
fn a_preemption_that_may_be_none_is_none() {
    let mut story = promised(2);
    story.ran(BACK, (14, 16), Preempted).woke(1, 30);
    assert_eq!(cut(&story).tasks[0].preemptions, story.report(16).tasks[0].preemptions);
}

/// Times in milliseconds: C = 40, T = 100, and what it got in each period, from its begin on.
fn live(machine: &str, got: &[u64]) -> Story {
    const MS: u64 = 1_000_000;
    let mut story = Story::new(1, vec![vcpu(0, 40 * MS, 100 * MS)]);
    story.header.machine = machine.into();
    let all = grant(0, u64::MAX);
    story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![all]);
    story.woke(0, 0);
    for (period, ms) in (0..).zip(got) {
        let from = period * 100 * MS;
        story.planned(from, |_| {});
        story.ran(FORE, (from, from + ms * MS), LimitReached);
    }
    story
}

/// That an alarm was late, and what was stolen then, is reported later.
#[test]
fn of_a_live_run_the_last_second_is_not_judged() {
    let mut got = [40; 30];
    got[25] = 20;
    // The last record is of 2.94 s: periods count up to 1.94 s.
    assert_eq!(judged(&cut(&live("live", &got))), (Word::Kept, [19, 0, 0]));
    assert_eq!(judged(&cut(&live("sim", &got))), (Word::Short, [29, 1, 0]));
    got[5] = 20;
    assert_eq!(judged(&cut(&live("live", &got))), (Word::Short, [19, 1, 0]));
}

/// It blocks in each period and takes more than C: by what was stolen of the core, for all that is
/// known before a run's end.
#[test]
fn what_may_have_been_stolen_breaks_no_promise() {
    let took_too_much = |machine| {
        let mut story = live(machine, &[]);
        for period in 0..40 {
            let (from, ms) = (period * 100_000_000, 1_000_000);
            story.woke(0, from).ran(FORE, (from, from + 60 * ms), Blocked);
        }
        judged(&cut(&story)).0
    };
    assert_eq!((took_too_much("live"), took_too_much("sim")), (Word::NoDemand, Word::Over));
}

#[test]
fn progress_on_uneven_cores_is_left_out() {
    let report = cut(&uneven());
    assert_eq!((report.fairness, report.tasks[0].speed.clone()), (None, None));
}

#[test]
fn a_journal_of_no_record_is_of_nothing() {
    let mut bytes = std::mem::take(Recorder::new(&promised(1).header).bytes());
    assert_eq!(journal::mend(&mut bytes).map(|cut| cut.at), Some(t(0)));
    let report = Report::from_journal(&bytes).unwrap();
    assert_eq!((report.duration_ns, report.tasks.len()), (0, 2));
}
