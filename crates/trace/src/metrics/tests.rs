use super::Metrics;
use crate::report::{Report, TaskReport};
use crate::testkit::*;
use maracas_core::contract::{self, Event, JobRun, MemoryLimit, Observer, Usage};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Job, JobId, Vcpu, VcpuId};
use proptest::prelude::*;
use std::num::NonZero;

mod cut;

const FORE: (u32, u16, maracas_core::contract::Mode) = (0, 0, Foreground);
const BACK: (u32, u16, maracas_core::contract::Mode) = (0, 0, Background);

/// One VCPU with C = 4 every 10, with or without jobs, on two cores.
fn one(jobs: bool) -> Story {
    let vcpu = vcpu(0, 4, 10);
    Story::new(2, vec![if jobs { vcpu.periodic() } else { vcpu }])
}

/// Preemptions, migrations, task migrations.
fn moves(report: &Report) -> [u64; 3] {
    let task = &report.tasks[0];
    [task.preemptions, task.migrations, task.task_migrations]
}

#[test]
fn pieces_of_jobs() {
    // Job 0: two pieces on core 0, one on core 1; job 1 begins on core 0.
    let mut story = one(true);
    story.released(0, 0, 0, 10).ran(FORE, (0, 1), Preempted).ran(FORE, (2, 3), Preempted);
    story.ran((0, 1, Foreground), (3, 5), Blocked).completed(0, 0, 5);
    assert_eq!(moves(&story.report(10)), [2, 1, 0]);
    story.released(0, 1, 10, 20).ran(FORE, (12, 14), Blocked).completed(0, 1, 14);
    assert_eq!(moves(&story.report(20)), [2, 1, 1]);
    // Job 2 on the same core as job 1: the gap between jobs is nothing.
    story.released(0, 2, 20, 30).ran(FORE, (21, 24), Blocked).completed(0, 2, 24);
    assert_eq!(moves(&story.report(30)), [2, 1, 1]);
}

/// That it is the same as by events, `tests/tests/priorities.rs` holds for every report.
#[test]
fn jobs_are_taken_as_wholes_once_one_is_complete() {
    let mut metrics = Metrics::new(&one(true).header);
    let pieces = [contract::Piece { from: t(10), to: t(13), core: CoreId(0), end: Blocked }];
    let id = JobId { vcpu: VcpuId(0), index: 1 };
    let job = Job { id, release: t(10), deadline: t(20) };
    let run = JobRun { job, completed: t(13), pieces: &pieces };
    assert!(!metrics.tasks[0].job(&run));
    let before = Job { id: JobId { index: 0, ..id }, release: t(0), deadline: t(10) };
    let ran = contract::Piece { from: t(0), to: t(2), ..pieces[0] };
    metrics.job(&JobRun { job: before, completed: t(2), pieces: &[ran] });
    assert!(metrics.tasks[0].job(&run));
}

#[test]
fn touching_and_empty_segments_are_no_preemptions() {
    // simso#23: resumed at once, and resumed for no time at all, while nothing else ran.
    let mut story = one(true);
    story.released(0, 0, 0, 10);
    story.ran(FORE, (0, 2), Preempted).ran(FORE, (2, 2), Preempted).ran(FORE, (2, 3), LimitReached);
    story.ran((0, 1, Foreground), (3, 3), Preempted);
    story.ran(BACK, (3, 5), Blocked).completed(0, 0, 5);
    let report = story.report(10);
    assert_eq!(moves(&report), [0, 0, 0]);
    assert_eq!((report.tasks[0].foreground_ns, report.tasks[0].background_ns), (3, 2));
}

#[test]
fn one_segment_may_hold_the_end_of_a_job() {
    // Both jobs are released; the machine goes on from job 0 to job 1 within the segment [0, 6),
    // then moves job 1: one migration, of job 1.
    let mut story = one(true);
    story.released(0, 0, 0, 10).released(0, 1, 1, 11).completed(0, 0, 4);
    story.ran(FORE, (0, 6), Moved).ran((0, 1, Foreground), (6, 8), Blocked).completed(0, 1, 8);
    assert_eq!(moves(&story.report(20)), [1, 1, 0]);
    // Job 2 starts on core 0 though job 1 ended on core 1.
    story.released(0, 2, 20, 30).ran(FORE, (20, 22), Blocked).completed(0, 2, 22);
    assert_eq!(moves(&story.report(30)), [1, 1, 1]);
}

#[test]
fn work_between_jobs_is_no_job() {
    // Anytime: the job ends at 3, its optional part runs in the background on core 1, is cut short
    // twice, and gives way to the next job within a segment.
    let mut story = one(true);
    story.released(0, 0, 0, 10).completed(0, 0, 3).ran(FORE, (0, 4), LimitReached);
    story.ran((0, 1, Background), (5, 6), Preempted).released(0, 1, 10, 20);
    story.ran((0, 1, Background), (8, 11), Preempted).ran((0, 1, Foreground), (12, 14), Blocked);
    story.completed(0, 1, 14);
    // Job 1: [10, 11) and [12, 14), on another core than job 0.
    assert_eq!(moves(&story.report(20)), [1, 0, 1]);
}

#[test]
fn preemptions_without_jobs() {
    let mut story = one(false);
    story.woke(0, 0);
    story.ran(FORE, (0, 4), LimitReached).ran(BACK, (4, 5), Preempted); // then cut short: 1
    story.ran(BACK, (7, 8), Metered).ran(BACK, (8, 9), LimitReached); // stops at the limit: 2
    story.ran(FORE, (10, 12), Blocked).woke(0, 15); // blocks by itself
    story.ran((0, 1, Foreground), (15, 16), Moved).ran(FORE, (16, 17), Preempted); // moved twice
    assert_eq!(moves(&story.report(17)), [2, 2, 0]);
    // It stands preempted when the run ends.
    assert_eq!(moves(&story.report(20)), [3, 2, 0]);
}

#[test]
fn misses_and_tardiness() {
    let mut story = one(true);
    story.released(0, 0, 0, 10).ran(FORE, (0, 10), Blocked).completed(0, 0, 10); // just in time
    story.released(0, 1, 10, 20).ran(FORE, (10, 23), Metered).completed(0, 1, 23); // 3 late
    story.released(0, 2, 20, 30).released(0, 3, 30, 40).ran(FORE, (23, 31), Metered);
    let jobs = |report: &Report| {
        let task = &report.tasks[0];
        [task.jobs, task.completed, task.misses, task.tardiness_max_ns]
    };
    // Job 2 is due at the very end and unfinished; job 3 is not due yet, nor released at 30.
    assert_eq!(jobs(&story.report(30)), [3, 2, 2, 3]);
    assert_eq!(jobs(&story.report(35)), [4, 2, 2, 5]);
    assert_eq!(jobs(&story.report(40)), [4, 2, 3, 10]);
    let report = story.report(40);
    assert_eq!((report.tasks[0].response_max_ns, report.tasks[0].response_mean_ns), (13, 11.5));
    assert_eq!(report.total.misses, 3);
}

#[test]
fn delivered_in_own_periods() {
    // It wakes at 3, so its periods are [3, 13), [13, 23), [23, 33): it gets 4, 5 and 2.
    let mut story = one(false);
    story.woke(0, 3).ran(FORE, (4, 8), LimitReached).ran(BACK, (8, 11), Preempted);
    story.ran(FORE, (14, 18), LimitReached);
    story.ran(FORE, (22, 24), Preempted).ran(FORE, (30, 31), Metered);
    let delivered = |task: &TaskReport| task.delivered.clone();
    let report = story.report(33);
    let got = delivered(&report.tasks[0]);
    assert_eq!((got.periods, got.periods_without_demand), (3, 0));
    assert_eq!(got.mean_ns, Some(11.0 / 3.0));
    assert_eq!((got.error_p50_ns, got.error_p99_ns, got.error_max_ns), (Some(1), Some(2), Some(2)));
    assert_eq!(got.error_mean_ns, Some(1.0));
    // At 32 the third period is not whole.
    assert_eq!(delivered(&story.report(32).tasks[0]).periods, 2);
}

#[test]
fn periods_without_full_demand_are_left_out() {
    let mut story = one(false);
    // [0, 10): blocked from 2; [10, 20), [20, 30): blocked; [30, 35) too, and is cut short.
    story.woke(0, 0).ran(FORE, (0, 2), Blocked).woke(0, 35);
    story.ran(FORE, (35, 39), LimitReached).ran(FORE, (45, 50), LimitReached);
    // [55, 65): blocks at its last instant, so that [65, 75) has its demand.
    story.ran(FORE, (61, 65), Blocked).woke(0, 65).ran(FORE, (65, 70), Preempted);
    let report = story.report(75);
    let got = &report.tasks[0].delivered;
    assert_eq!((got.periods, got.periods_without_demand), (4, 3));
    assert_eq!((got.mean_ns, got.error_max_ns), (Some(18.0 / 4.0), Some(1)));
    assert_eq!(got.mean_of_all_ns, Some(20.0 / 7.5));
}

/// C = 4, T = 10. It blocks at 2 and wakes at 5: from then on two may be used in each [5, 15), and
/// the two that were used in each [10, 20).
#[test]
fn a_budget_that_a_block_split_is_due_by_parts() {
    let split = |pieces: &[(u64, u64)], end| {
        let mut story = one(false);
        story.woke(0, 0).ran(FORE, (0, 2), Blocked).woke(0, 5);
        pieces.iter().for_each(|piece| _ = story.ran(FORE, *piece, Preempted));
        let delivered = story.report(end).tasks[0].delivered.clone();
        let errors = (delivered.error_mean_ns, delivered.error_max_ns);
        (delivered.periods, errors, delivered.mean_of_all_ns)
    };
    // At once, and as late as may be: parts are due at 15, 20, 25, 30, and their periods end there.
    let at_once = split(&[(5, 7), (10, 12), (15, 17), (20, 22)], 30);
    assert_eq!(at_once, (2, (Some(0.0), Some(0)), Some(4.0)));
    let late = split(&[(13, 15), (18, 20), (23, 25), (28, 30)], 30);
    assert_eq!(late, (2, (Some(0.0), Some(0)), Some(4.0)));
    // One of the first part comes after 15: a period short by one, and the next over by one.
    let missed = split(&[(14, 15), (15, 20), (20, 22)], 30);
    assert_eq!(missed.1, (Some(1.0), Some(1)));
    // One of the second part comes before 10.
    let early = split(&[(5, 8), (10, 12), (15, 17), (20, 22)], 30);
    assert_eq!(early.1, (Some(0.5), Some(1)));
}

#[test]
fn a_period_in_parts_that_become_one_ends_with_the_last_of_them() {
    // C = 8, T = 10. Six are used when it is granted the same at 6: two may be used at once, and
    // six from 10 on, with which the two become one when they come back at 16.
    let story = |blocks_at| {
        let mut story = Story::new(1, vec![vcpu(0, 8, 10)]);
        story.woke(0, 0).ran(FORE, (0, 6), Preempted).event(6, Event::Changed(vcpu(0, 8, 10)));
        story.planned(6, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
        story.ran(FORE, (7, 12), Preempted).ran(FORE, (17, blocks_at), Blocked);
        let delivered = story.woke(0, 40).report(60).tasks[0].delivered.clone();
        (delivered.periods, delivered.error_max_ns)
    };
    // The six were due by 20: they have no full demand where it blocks before.
    assert_eq!(story(18), (2, Some(8)), "[40, 50) and [50, 60) alone");
    assert_eq!(story(20), (3, Some(8)));
}

/// What comes back before what may be used is over is one with it.
#[test]
fn a_changed_budget_whose_parts_touch_is_whole() {
    // C = 8, T = 10. Three are used when it is granted the same at 6: five last until they come
    // back, and all eight are due by 16.
    let mut story = Story::new(1, vec![vcpu(0, 8, 10)]);
    story.woke(0, 0).ran(FORE, (0, 3), Preempted).event(6, Event::Changed(vcpu(0, 8, 10)));
    story.planned(6, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
    let delivered = story.ran(FORE, (7, 12), Preempted).report(16).tasks[0].delivered.clone();
    assert_eq!((delivered.periods, delivered.error_max_ns), (1, Some(3)));
}

#[test]
fn periods_that_were_cut_count_by_their_length_whatever_t_becomes() {
    // Nine tenths of a period of 1000; then two and a half of 10, the last of which is cut.
    let mut story = Story::new(1, vec![vcpu(0, 400, 1000)]);
    story.woke(0, 0).ran(FORE, (0, 1), Blocked).woke(0, 900);
    story.ran(FORE, (900, 901), Blocked).event(902, Event::Changed(vcpu(0, 4, 10)));
    story.planned(902, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
    let delivered = story.woke(0, 910).report(930).tasks[0].delivered.clone();
    assert!(delivered.periods_without_demand <= 2, "{delivered:?}");
}

#[test]
fn a_vcpu_whose_jobs_are_done_asks_for_nothing() {
    let periods = |story: &Story, end| {
        let delivered = &story.report(end).tasks[0].delivered;
        (delivered.periods, delivered.periods_without_demand)
    };
    // Its core is taken away before the program comes to block.
    let mut story = one(true);
    story.released(0, 0, 0, 10).ran(FORE, (0, 3), Preempted).completed(0, 0, 3);
    // Job 1 takes all of C and more, and when it is done the next one is there.
    story.released(0, 1, 10, 20).ran(FORE, (10, 14), LimitReached);
    story.released(0, 2, 20, 30).completed(0, 1, 22).ran(FORE, (20, 24), LimitReached);
    assert_eq!(periods(&story, 30), (2, 1));
    // Job 4 is announced before it is released, and done before anything of its period is said.
    story.released(0, 3, 30, 40).completed(0, 2, 33).ran(FORE, (30, 34), LimitReached);
    story.released(0, 4, 40, 50).completed(0, 3, 38).completed(0, 4, 45);
    story.ran(FORE, (41, 45), Preempted).ran(FORE, (50, 54), LimitReached);
    assert_eq!(periods(&story, 60), (3, 3));
    // What has no jobs is judged by its blocks alone.
    let mut story = one(false);
    story.woke(0, 0).ran(FORE, (0, 3), Preempted).completed(0, 0, 3);
    assert_eq!(periods(&story, 10), (1, 0));
}

#[test]
fn a_starved_vcpu_is_judged() {
    let mut story = one(false);
    story.woke(0, 0).ran(FORE, (0, 4), LimitReached);
    let report = story.report(40);
    let got = &report.tasks[0].delivered;
    assert_eq!((got.periods, got.error_p50_ns, got.mean_ns), (4, Some(4), Some(1.0)));
}

#[test]
fn service_is_spread_evenly_over_a_segment() {
    // Half of the wall time is the VCPU's: 10 of [5, 25) = 2.5 + 5 + 2.5, in whole units 2, 5, 3.
    let mut story = one(false);
    let usage = Usage { service: Duration::from_ticks(10), ..Usage::default() };
    story.woke(0, 0).ran_with(FORE, (5, 25), usage, Metered);
    let report = story.report(30);
    let got = &report.tasks[0].delivered;
    assert_eq!((got.periods, got.mean_ns), (3, Some(10.0 / 3.0)));
    assert_eq!((got.error_max_ns, got.error_mean_ns), (Some(2), Some(4.0 / 3.0)));
    assert_eq!((report.tasks[0].foreground_ns, report.cores[0].foreground_ns), (10, 20));
}

#[test]
fn a_wake_reported_before_the_block_it_ended() {
    let mut story = one(false);
    story.woke(0, 0).woke(0, 12).ran(FORE, (0, 4), Blocked).ran(FORE, (12, 16), LimitReached);
    let late = story.report(30).tasks[0].delivered.clone();
    // As if the wake had been reported in order: [0, 10) lacks demand, and [10, 12).
    let mut story = one(false);
    story.woke(0, 0).ran(FORE, (0, 4), Blocked).woke(0, 12).ran(FORE, (12, 16), LimitReached);
    let ordered = story.report(30).tasks[0].delivered.clone();
    assert_eq!((ordered.periods, ordered.periods_without_demand), (1, 1));
    assert_eq!((late.periods, late.periods_without_demand), (1, 1));
}

#[test]
fn time_of_cores_and_shares() {
    let mut story = Story::new(2, vec![vcpu(0, 4, 10), vcpu(1, 2, 10)]);
    story.woke(0, 0).woke(1, 0);
    story.planned(0, |plan| {
        let run_queue = plan.run_queue_mut(CoreId(0));
        run_queue.foreground = vec![grant(0, 4), grant(1, 2)];
        run_queue.background = vec![grant(0, u64::MAX), grant(1, u64::MAX)].into();
    });
    story.ran(FORE, (0, 4), LimitReached).ran((1, 0, Foreground), (4, 6), LimitReached);
    story.ran(BACK, (6, 9), Preempted);
    story.planned(9, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = false);
    story.planned(12, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = true);
    story.ran((1, 0, Background), (12, 13), Blocked).ran(BACK, (13, 14), Blocked);
    // Closed again, but no VCPU is kept out: idle.
    story.planned(14, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = false);
    let report = story.report(20);
    let core = &report.cores[0];
    assert_eq!([core.foreground_ns, core.background_ns], [6, 5]);
    assert_eq!([core.throttled_ns, core.idle_ns], [3, 6]);
    assert_eq!((core.decisions, report.total.decisions), (4, 4));
    assert_eq!((report.cores[1].idle_ns, report.cores[1].decisions), (20, 0));
    let shares: Vec<_> = report.tasks.iter().map(|t| (t.share, t.background_share)).collect();
    assert_eq!(shares, [(0.4, 0.8), (0.15, 0.2)]);
    assert_eq!(report.tasks[0].cores, [0]);
}

#[test]
fn a_spent_allowance_throttles_the_foreground_too() {
    let mut story = one(false);
    story.woke(0, 0);
    story.planned(0, |plan| {
        let run_queue = plan.run_queue_mut(CoreId(0));
        run_queue.foreground = vec![grant(0, 4)];
        run_queue.allowance = MemoryLimit(100);
    });
    story.ran(FORE, (0, 2), Preempted).event(2, Event::AllowanceSpent { core: CoreId(0) });
    story.planned(5, |plan| plan.run_queue_mut(CoreId(0)).allowance = MemoryLimit(200));
    story.ran(FORE, (5, 7), LimitReached);
    let core = &story.report(10).cores[0];
    assert_eq!([core.foreground_ns, core.throttled_ns, core.idle_ns], [4, 3, 3]);
}

#[test]
fn a_vcpu_at_its_own_memory_mark_is_held_and_throttles_an_idle_core() {
    let limited = maracas_core::Vcpu { bandwidth: NonZero::new(6_400), ..vcpu(0, 4, 10) };
    let mut story = Story::new(1, vec![limited, vcpu(1, 2, 10)]);
    let marked = |memory| {
        move |plan: &mut maracas_core::Plan| {
            let run_queue = plan.run_queue_mut(CoreId(0));
            run_queue.foreground = vec![grant(0, 4), grant(1, 2)];
            run_queue.foreground[0].memory = MemoryLimit(memory);
        }
    };
    let usage = Usage { service: Duration::from_ticks(1), reads: 100, ..Usage::default() };
    story.woke(0, 0).woke(1, 0).planned(0, marked(100));
    // At its limit from 1 on; the other runs until 3, then no VCPU until the limit moves at 8.
    story.ran_with(FORE, (0, 1), usage, MemorySpent).ran((1, 0, Foreground), (1, 3), LimitReached);
    story.planned(8, marked(200)).ran(FORE, (8, 9), Preempted);
    let report = story.report(9);
    let core = &report.cores[0];
    assert_eq!([core.foreground_ns, core.throttled_ns, core.idle_ns], [4, 5, 0]);
    assert_eq!([report.tasks[0].held_ns, report.tasks[1].held_ns], [7, 0]);
    // Held again, up to the end.
    story.ran_with(FORE, (9, 11), usage, MemorySpent);
    let report = story.report(14);
    assert_eq!([report.cores[0].throttled_ns, report.tasks[0].held_ns], [8, 10]);
    // It has nothing to run: no VCPU is kept out.
    story.event(14, Event::Left(VcpuId(0)));
    let report = story.report(20);
    assert_eq!([report.cores[0].throttled_ns, report.tasks[0].held_ns], [8, 10]);
}

#[test]
fn the_whole_run_s_memory_and_the_figures_are_kept_in_the_journal() {
    let report = figure().report(24_000);
    let memory = report.memory.clone().unwrap();
    assert_eq!((memory.requests, memory.latency_mean_cycles), (50, Some(2.4)));
    assert_eq!((memory.devices[0].name.as_str(), memory.devices[0].requests), ("network card", 10));
    let sampled = report.controller.as_ref().unwrap();
    assert_eq!((sampled.requests, sampled.sampled_ns), (40, 8_000));
    let first = &report.statistics[0];
    assert_eq!((first.name.as_str(), first.core, first.value), ("throttle steps up", None, 3));
    assert_eq!((report.statistics[3].core, report.statistics[3].value), (Some(1), 4));
}

#[test]
fn arrivals_verdicts_and_changes() {
    let mut story = one(false);
    let refusal =
        maracas_core::admission::NotAdmitted { reason: "it is full".into(), closest: None };
    story.event(0, Event::Arrived(vcpu(1, 3, 10))).event(0, Event::Arrived(vcpu(2, 9, 10)));
    story.named(1, "late");
    story.planned(0, |plan| {
        plan.answer(VcpuId(1), Ok(CoreId(0)));
        plan.answer(VcpuId(2), Err(refusal));
    });
    story.woke(1, 0).ran((1, 0, Foreground), (0, 3), LimitReached);
    story.event(12, Event::Changed(vcpu(1, 5, 20)));
    story.planned(12, |plan| plan.answer(VcpuId(1), Ok(CoreId(0))));
    story.ran((1, 0, Foreground), (12, 17), LimitReached).event(33, Event::Left(VcpuId(1)));
    let report = story.report(100);
    let names: Vec<_> = report.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["spin", "late"], "vcpu2 was refused");
    let late = &report.tasks[1];
    assert_eq!((late.budget_ns, late.period_ns), (5, 20));
    // [0, 10) with 3 of 3, [12, 32) with 5 of 5; what began at 10 and at 32 is not whole.
    assert_eq!((late.delivered.periods, late.delivered.error_max_ns), (2, Some(0)));
}

#[test]
fn verdicts_answer_requests_in_their_order() {
    for (first, budget, period) in [(true, 5, 20), (false, 3, 10)] {
        let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
        story.woke(0, 0).event(0, Event::Changed(vcpu(0, 5, 20)));
        story.event(0, Event::Changed(vcpu(0, 3, 10)));
        let refusal =
            maracas_core::admission::NotAdmitted { reason: "it is full".into(), closest: None };
        story.planned(0, |plan| {
            for granted in [first, !first] {
                let verdict = if granted { Ok(CoreId(0)) } else { Err(refusal.clone()) };
                plan.answer(VcpuId(0), verdict);
            }
        });
        let task = &story.report(100).tasks[0];
        assert_eq!((task.budget_ns, task.period_ns), (budget, period));
    }
}

#[test]
fn periods_begin_and_end_with_the_reservation() {
    // Without a reservation until 20, then (2, 5) until 31, then none again, and (4, 10) from 40.
    let changes = [(20, vcpu(0, 2, 5)), (31, Vcpu::best_effort(0)), (40, vcpu(0, 4, 10))];
    let mut story = Story::new(1, vec![Vcpu::best_effort(0)]);
    story.woke(0, 0).ran(FORE, (0, 18), Metered);
    for (at, vcpu) in changes {
        story.event(at, Event::Changed(vcpu));
        story.planned(at, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
        story.ran(FORE, (at, at + 2), LimitReached);
    }
    // [20, 25) with 2 and [25, 30) with 0 of 2; [40, 50) with 2 of 4.
    let delivered = &story.report(50).tasks[0].delivered;
    assert_eq!((delivered.periods, delivered.mean_ns), (3, Some(4.0 / 3.0)));
    assert_eq!((delivered.error_p50_ns, delivered.error_max_ns), (Some(2), Some(2)));
}

#[test]
fn ticks_are_scaled_and_gaps_are_reported() {
    let mut story = Story::new(1, vec![vcpu(0, 40, 100)]);
    story.header.system.ticks_per_ns = 10;
    story.woke(0, 0).ran(FORE, (0, 40), LimitReached);
    let report = story.report(100);
    assert_eq!((report.duration_ns, report.tasks[0].foreground_ns), (10, 4));
    assert_eq!((report.tasks[0].budget_ns, report.cores[0].idle_ns), (4, 6));
    let mut metrics = crate::Metrics::new(&story.header);
    assert_eq!(metrics.record(&Record::Gap(3)), None);
    assert_eq!(metrics.report(t(0)).lost_records, 3);
}

proptest! {
    /// Whatever segments come: no service is lost or made up, and nothing panics.
    #[test]
    fn service_is_conserved(
        segments in prop::collection::vec(
            (0_u32..3, 0_u16..2, any::<bool>(), 0_u64..30, 0_u64..40, 0_u64..=100, 0_usize..6),
            1..60,
        ),
    ) {
        let mut story = Story::new(2, (0..3).map(|id| vcpu(id, 4, 10)).collect());
        let mut free = [0; 2];
        let mut service = [[0; 2]; 3];
        let mut wall = [0; 2];
        for (vcpu, core, foreground, gap, length, percent, end) in segments {
            let mode = if foreground { Foreground } else { Background };
            let end = [Blocked, Preempted, LimitReached, Moved, Metered, Exited][end];
            let from = free.iter().max().unwrap() + gap;
            free[usize::from(core)] = from + length;
            let got = length * percent / 100;
            service[vcpu as usize][usize::from(!foreground)] += got;
            wall[usize::from(!foreground)] += length;
            let usage = Usage { service: Duration::from_ticks(got), ..Usage::default() };
            story.ran_with((vcpu, core, mode), (from, from + length), usage, end);
        }
        let end = *free.iter().max().unwrap();
        let report = story.report(end);
        for (task, [foreground, background]) in report.tasks.iter().zip(service) {
            prop_assert_eq!((task.foreground_ns, task.background_ns), (foreground, background));
            let got = &task.delivered;
            let all = got.mean_of_all_ns.unwrap_or(0.0)
                * (got.periods + got.periods_without_demand) as f64;
            prop_assert!(all <= foreground as f64 + 1e-6, "{} > {}", all, foreground);
        }
        for core in &report.cores {
            let parts = core.foreground_ns + core.background_ns + core.throttled_ns + core.idle_ns;
            prop_assert_eq!(parts, end);
        }
        let foreground = report.cores.iter().map(|core| core.foreground_ns).sum::<u64>();
        let background = report.cores.iter().map(|core| core.background_ns).sum::<u64>();
        prop_assert_eq!([foreground, background], wall);
    }
}

#[test]
fn periods_of_jobs_begin_at_the_first_release() {
    // It starts up from 0 on and gets its first job at 7: what ran before is in no period.
    let mut story = one(true);
    story.woke(0, 0).ran(FORE, (0, 3), Metered).released(0, 0, 7, 17);
    story.ran(FORE, (3, 11), Blocked).completed(0, 0, 11);
    story.released(0, 1, 17, 27).ran(FORE, (17, 27), Metered);
    let delivered = story.report(30).tasks[0].delivered.clone();
    // [7, 17) got 4 and blocked; [17, 27) got 10 and did not.
    assert_eq!((delivered.periods, delivered.periods_without_demand), (1, 1));
    assert_eq!((delivered.mean_ns, delivered.mean_of_all_ns), (Some(10.0), Some(7.0)));
}

#[test]
fn a_budget_on_a_class_is_delivered_in_time_of_that_class() {
    // C = 4 every 10 on core 0, of full speed; core 1 has 3/4 of it.
    let on_fast = Vcpu { class: Some(0), ..vcpu(0, 4, 10) };
    let on_slow = Vcpu { class: Some(1), ..vcpu(0, 4, 10) };
    let whichever = vcpu(0, 4, 10);
    let delivered = |vcpu: &Vcpu, core: u16, service: u64| {
        let mut story = Story::new(2, vec![vcpu.clone()]);
        story.header.system = story.header.system.uneven(&[(1, 1000), (1, 750)]);
        story.woke(0, 0);
        for period in 0..6 {
            // In two segments: what is left of a tick is not lost.
            let (from, to) = (10 * period, 10 * period + service);
            story.ran((0, core, Foreground), (from, from + 1), Preempted);
            story.ran((0, core, Foreground), (from + 1, to), LimitReached);
        }
        let report = story.report(60);
        assert_eq!(report.tasks[0].foreground_ns, 6 * service, "the meter's time");
        let delivered = report.tasks[0].delivered.clone();
        (delivered.mean_ns.unwrap(), delivered.error_max_ns.unwrap())
    };
    assert_eq!(delivered(&on_fast, 0, 4), (4.0, 0));
    // 6 of 3/4 are 4.5: in turn 4 and 5.
    assert_eq!(delivered(&on_fast, 1, 6), (4.5, 1));
    assert_eq!(delivered(&on_fast, 1, 4), (3.0, 1));
    assert_eq!(delivered(&on_slow, 1, 4), (4.0, 0));
    assert_eq!(delivered(&on_slow, 0, 4), (4.0, 0), "a faster core owes no less");
    assert_eq!(delivered(&whichever, 1, 4), (4.0, 0));
}
