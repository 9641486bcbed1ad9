use crate::Report;
use crate::testkit::{Background, Blocked, Exited, Preempted, Story};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::{End, Event, Plan, Usage};
use maracas_core::{CoreId, Duration, Role, Vcpu, VcpuId};
use proptest::prelude::*;
use std::num::NonZero;

const MS: u64 = 1_000_000;
/// A window.
const W: u64 = 2_000 * MS;

/// One segment: which VCPU, on which core, from when to when, how much was done, and why it ended.
#[derive(Clone, Copy)]
struct Ran(u32, u16, (u64, u64), u64, End);

/// A run of best-effort VCPUs with these speedups given beforehand, on so many cores of each class.
fn story(classes: &[(usize, u32)], reported: &[u32]) -> Story {
    let vcpu = |(id, &milli)| Vcpu { speedup_milli: NonZero::new(milli), ..Vcpu::best_effort(id) };
    let cores = classes.iter().map(|(cores, _)| cores).sum();
    let mut story = Story::new(cores, (0..).zip(reported).map(vcpu).collect());
    story.header.system = story.header.system.uneven(classes);
    story
}

/// Reports the segments as a machine would: each at its end.
fn tell(story: &mut Story, segments: &mut [Ran]) {
    segments.sort_by_key(|Ran(vcpu, _, span, ..)| (span.1, *vcpu));
    for &mut Ran(vcpu, core, (from, to), instructions, end) in segments {
        let service = Duration::from_ticks(to - from);
        let usage = Usage { service, instructions, ..Usage::default() };
        story.ran_with((vcpu, core, Background), (from, to), usage, end);
    }
}

fn performances(report: &Report) -> Vec<Option<f64>> {
    report.tasks.iter().map(|task| task.speed.as_ref().unwrap().performance).collect()
}

fn assert_close(got: Option<f64>, expected: f64) {
    assert!(got.is_some_and(|got| (got - expected).abs() < 1e-6), "{got:?}, not {expected}");
}

/// algorithms.md E.2: 2 fast and 4 slow cores, six VCPUs that always run, these speedups.
const SPEEDUPS: [u64; 6] = [2000, 1900, 1600, 1500, 1200, 1100];
const E2: [(usize, u32); 2] = [(2, 1000), (4, 500)];

/// Twelve windows in each of which VCPU i runs on fast cores for `fast[i]` sixtieths of it.
fn shared(reported: bool, fast: [u64; 6]) -> Report {
    let reported = SPEEDUPS.map(|speedup| if reported { speedup as u32 } else { 0 });
    let mut story = story(&E2, &reported);
    (0..6).for_each(|vcpu| _ = story.woke(vcpu, 0));
    let mut segments = Vec::new();
    for window in 0..12 {
        for (vcpu, (speedup, fast)) in (0..).zip(SPEEDUPS.iter().zip(fast)) {
            let (from, cut) = (window * W, window * W + W * fast / 60);
            // An instruction a tick on a slow core; which core of a class it is does not matter.
            if fast > 0 {
                segments.push(Ran(vcpu, 0, (from, cut), (cut - from) * speedup / 1000, Preempted));
            }
            if fast < 60 {
                let to = from + W;
                segments.push(Ran(vcpu, 2, (cut, to), to - cut, Preempted));
            }
        }
    }
    tell(&mut story, &mut segments);
    story.report(12 * W)
}

#[test]
fn the_vector_of_the_definitions() {
    let cases = [
        // Max-fair, max-perf, min-fair(85 %), similar-min-fair(0.2, 85 %).
        ([20; 6], [1.0, 1.0, 1.0]),
        ([60, 60, 0, 0, 0, 0], [1.0929, 0.8333, 0.7454]),
        ([60, 58, 2, 0, 0, 0], [1.0918, 0.8500, 0.7521]),
        ([59, 59, 2, 0, 0, 0], [1.0916, 0.8500, 0.7526]),
    ];
    for (fast, expected) in cases {
        let report = shared(true, fast);
        let fairness = report.fairness.as_ref().unwrap();
        let got = [fairness.throughput, fairness.min_fairness, fairness.uniformity];
        let got = got.map(|it| (it.unwrap() * 1e4).round() / 1e4);
        assert_eq!(got, expected, "{fast:?}");
        assert_eq!((fairness.judged, fairness.unknown), (6, 0));
        let ran: u64 =
            report.tasks[1].speed.as_ref().unwrap().classes.iter().map(|it| it.time_ns).sum();
        assert_eq!(ran, 12 * W);
    }
    // Of those on slow cores alone, what would gain the most is worst off.
    assert_eq!(shared(true, [60, 60, 0, 0, 0, 0]).fairness.unwrap().min_vcpu, Some(2));
}

#[test]
fn a_speed_that_is_not_known_leaves_the_performance_open() {
    // Nothing given, and four that were on one class alone.
    let report = shared(false, [60, 58, 2, 0, 0, 0]);
    let known: Vec<_> = performances(&report).iter().map(Option::is_some).collect();
    assert_eq!(known, [false, true, true, false, false, false]);
    let fairness = report.fairness.as_ref().unwrap();
    assert_eq!((fairness.judged, fairness.unknown), (2, 4));
    let speed = report.tasks[1].speed.as_ref().unwrap();
    assert_close(speed.speedup, 1.9);
    assert_eq!(speed.classes[1].ips, Some(1e9));
    let speed = report.tasks[0].speed.as_ref().unwrap();
    assert_eq!((speed.speedup, speed.classes[1].ips, speed.classes[1].time_ns), (None, None, 0));
    // All alone on one class each.
    let report = shared(false, [60, 60, 0, 0, 0, 0]);
    let fairness = report.fairness.as_ref().unwrap();
    assert_eq!((fairness.judged, fairness.unknown, fairness.throughput), (0, 6, None));
    // On fast cores alone they may lose half on slow ones, and have 3/2 of their due then; those
    // on slow cores alone may gain nothing on fast ones, and have it all.
    let bounds = report.tasks.iter().map(|it| it.speed.as_ref().unwrap().performance_at_most);
    bounds.zip([1.5, 1.5, 1.0, 1.0, 1.0, 1.0]).for_each(|(got, it)| assert_close(got, it));
    assert_close(fairness.min_fairness, 1.0);
    assert_eq!(fairness.uniformity, None);
}

#[test]
fn equal_cores_have_nothing_to_show() {
    for classes in [[(2, 1000), (0, 500)], [(0, 1000), (2, 500)]] {
        let mut story = story(&classes, &[0]);
        tell(&mut story, &mut [Ran(0, 0, (0, W), 9, Preempted)]);
        let report = story.report(W);
        assert_eq!((&report.fairness, &report.tasks[0].speed), (&None, &None));
    }
}

#[test]
fn each_phase_counts_at_its_own_speed() {
    // One fast and one slow core, two VCPUs that change places within each window. The first has
    // a speedup of 4 for two windows, and none from then on, when it goes on the fast core for
    // three quarters of the time.
    let mut story = story(&[(1, 1000), (1, 250)], &[0, 0]);
    let mut segments = Vec::new();
    for window in 0..4 {
        let from = window * W;
        let (fast, quarters) = if window < 2 { (4, 1) } else { (1, 3) };
        let (cut, to) = (from + W * quarters / 4, from + W);
        segments.push(Ran(0, 0, (from, cut), (cut - from) / MS * fast, Preempted));
        segments.push(Ran(0, 1, (cut, to), (to - cut) / MS, Preempted));
        segments.push(Ran(1, 1, (from, cut), (cut - from) / MS, Preempted));
        segments.push(Ran(1, 0, (cut, to), (to - cut) / MS * 2, Preempted));
    }
    tell(&mut story, &mut segments);
    let report = story.report(4 * W);
    // In the first phase a quarter of the time at 4 and three at 1, against a half of each.
    let (done, due) = (2.0 * 1.75 + 2.0 * 1.0, 2.0 * 2.5 + 2.0 * 1.0);
    assert_close(performances(&report)[0], done / due);
    let (done, due) = (2.0 * 1.75 + 2.0 * 1.25, 4.0 * 1.5);
    assert_close(performances(&report)[1], done / due);
}

#[test]
fn before_a_class_was_tried_it_has_the_speed_of_the_first_try() {
    let mut story = story(&[(1, 1000), (1, 500)], &[0, 0]);
    let mut segments = Vec::new();
    for window in 0..4 {
        let (from, to) = (window * W, (window + 1) * W);
        let (ours, theirs) = if window < 3 { (0, 1) } else { (1, 0) };
        segments.push(Ran(0, ours, (from, to), 2000 / (1 + u64::from(ours)), Preempted));
        segments.push(Ran(1, theirs, (from, to), 3000 / (1 + u64::from(theirs)), Preempted));
    }
    tell(&mut story, &mut segments);
    let report = story.report(4 * W);
    assert_close(performances(&report)[0], 7000.0 / 6000.0);
    assert_close(performances(&report)[1], 7500.0 / 9000.0);
}

#[test]
fn fewer_than_cores_share_the_fastest() {
    // Three on 2 fast and 4 slow cores: each is due 2/3 of its time on a fast one.
    let mut story = story(&E2, &[2000; 3]);
    let mut segments = [
        Ran(0, 0, (0, W), 4000, Preempted),
        Ran(1, 1, (0, W), 4000, Preempted),
        Ran(2, 2, (0, W), 2000, Preempted),
    ];
    tell(&mut story, &mut segments);
    let report = story.report(W);
    let due = 2.0 / 3.0 * 4000.0 + 1.0 / 3.0 * 2000.0;
    let expected = [4000.0 / due, 4000.0 / due, 2000.0 / due];
    performances(&report).into_iter().zip(expected).for_each(|(got, it)| assert_close(got, it));
    // Two have a fast core each and need not know how slow the others are.
    let mut story = self::story(&E2, &[0; 2]);
    let segments = [Ran(0, 0, (0, W), 4000, Preempted), Ran(1, 1, (0, W), 3000, Preempted)];
    tell(&mut story, &mut segments.clone());
    assert_eq!(performances(&story.report(W)), [Some(1.0), Some(1.0)]);
}

#[test]
fn what_sleeps_shares_with_none() {
    // Alone for a window, then another comes, sleeps, comes back, and leaves.
    let mut story = story(&[(1, 1000), (1, 500)], &[2000, 2000]);
    let quarter = W / 4;
    story.woke(0, 0).woke(1, W).woke(1, W + 2 * quarter);
    let mut segments = [
        Ran(0, 0, (0, W), 8, Preempted),
        // Both want to run: they should have a half of each core, and the second has the fast one.
        Ran(1, 0, (W, W + quarter), 2, Blocked),
        Ran(0, 1, (W, W + quarter), 1, Preempted),
        Ran(0, 0, (W + quarter, W + 2 * quarter), 2, Preempted),
        Ran(1, 0, (W + 2 * quarter, W + 3 * quarter), 2, Exited),
        Ran(0, 1, (W + 2 * quarter, W + 3 * quarter), 1, Preempted),
        Ran(0, 0, (W + 3 * quarter, 2 * W), 2, Preempted),
    ];
    tell(&mut story, &mut segments);
    story.event(2 * W, Event::Left(VcpuId(1)));
    let report = story.report(2 * W);
    assert_close(performances(&report)[0], 14.0 / (8.0 + 1.5 + 2.0 + 1.5 + 2.0));
    assert_close(performances(&report)[1], 4.0 / 3.0);
    let wanted = |vcpu: usize| report.tasks[vcpu].speed.as_ref().unwrap().wanted_ns;
    assert_eq!((wanted(0), wanted(1)), (2 * W, 2 * quarter));
}

#[test]
fn late_arrivals_share_from_then_on() {
    // Fair shares of 1 + 1 cores: the first two have half of each, then all three a third.
    let mut story = story(&[(1, 1000), (1, 500)], &[0, 0]);
    let third = W / 3;
    let mut segments = Vec::new();
    for (vcpu, core) in [(0, 0), (1, 1)] {
        segments.push(Ran(vcpu, core, (0, W / 2), (2 - u64::from(core)) * 600, Preempted));
        segments.push(Ran(vcpu, 1 - core, (W / 2, W), (1 + u64::from(core)) * 600, Preempted));
    }
    tell(&mut story, &mut segments);
    let vcpu = Vcpu { role: Role::Main, ..Vcpu::best_effort(2) };
    story.event(W, Event::Arrived(vcpu)).woke(2, W);
    story.planned(W, |plan: &mut Plan| plan.answer(VcpuId(2), Ok(CoreId(0))));
    let mut segments = Vec::new();
    for turn in 0..3 {
        let span = (W + turn * third, W + (turn + 1) * third);
        let (fast, slow) = (turn as u32, (turn as u32 + 1) % 3);
        segments.push(Ran(fast, 0, span, 800, Preempted));
        segments.push(Ran(slow, 1, span, 400, Preempted));
    }
    tell(&mut story, &mut segments);
    let report = story.report(2 * W);
    performances(&report).into_iter().for_each(|got| assert_close(got, 1.0));
    assert_eq!(report.fairness.unwrap().judged, 3);
}

#[test]
fn starving_is_a_performance_of_nothing() {
    let mut story = story(&[(1, 1000), (1, 500)], &[2000; 3]);
    (0..3).for_each(|vcpu| _ = story.woke(vcpu, 0));
    let mut segments = [Ran(0, 0, (0, W), 20, Preempted), Ran(1, 1, (0, W), 10, Preempted)];
    tell(&mut story, &mut segments);
    let report = story.report(W);
    let expected = [Some(2.0), Some(1.0), Some(0.0)];
    assert_eq!(performances(&report), expected);
    let fairness = report.fairness.as_ref().unwrap();
    assert_eq!((fairness.min_fairness, fairness.min_vcpu), (Some(0.0), Some(2)));
}

#[test]
fn service_vcpus_and_refused_ones_share_nothing() {
    let mut story = story(&[(1, 1000), (1, 500)], &[2000, 2000]);
    story.header.system.vcpus[1].role = Role::Migration;
    story.event(0, Event::Arrived(Vcpu::best_effort(2))).woke(0, 0).woke(1, 0).woke(2, 0);
    let refusal = NotAdmitted { reason: "no room".into(), closest: None };
    story.planned(0, |plan: &mut Plan| plan.answer(VcpuId(2), Err(refusal)));
    let mut segments = [Ran(0, 0, (0, W), 20, Preempted), Ran(1, 1, (0, W), 10, Preempted)];
    tell(&mut story, &mut segments);
    let report = story.report(W);
    assert_eq!(performances(&report), [Some(1.0), None]);
    assert_eq!(report.fairness.as_ref().map(|it| (it.judged, it.unknown)), Some((1, 0)));
}

#[test]
fn uncounted_progress_is_unknown_and_little_demand_is_not_judged() {
    let mut story = story(&[(1, 1000), (1, 500)], &[2000; 2]);
    let mut segments = [Ran(0, 0, (0, W), 0, Preempted), Ran(1, 1, (0, 29 * MS), 10, Blocked)];
    tell(&mut story, &mut segments);
    let report = story.report(W);
    assert_eq!(performances(&report), [None, None]);
    assert_eq!(report.fairness.as_ref().map(|it| (it.judged, it.unknown)), Some((0, 1)));
}

#[test]
fn a_segment_over_many_windows_is_all_there() {
    // What was running all along is reported at its end, long after its windows were closed.
    let mut story = story(&[(1, 1000), (1, 500)], &[2000; 2]);
    (0..2).for_each(|vcpu| _ = story.woke(vcpu, 0));
    let mut segments: Vec<Ran> =
        (0..20).map(|at| Ran(1, 1, (at * W, (at + 1) * W), 10, Preempted)).collect();
    segments.push(Ran(0, 0, (0, 20 * W), 400, Preempted));
    tell(&mut story, &mut segments);
    let report = story.report(20 * W);
    assert_close(performances(&report)[0], 400.0 / 300.0);
    assert_close(performances(&report)[1], 200.0 / 300.0);
    assert_eq!(report.tasks[0].speed.as_ref().unwrap().wanted_ns, 20 * W);
}

/// A wake that is reported before the block that it ends, as several cores may do it.
#[test]
fn a_wake_reported_early_is_not_lost() {
    let mut story = story(&[(1, 1000), (1, 500)], &[2000]);
    story.woke(0, 0).woke(0, 600 * MS);
    tell(&mut story, &mut [Ran(0, 0, (0, 500 * MS), 10, Blocked)]);
    let wanted = |story: &Story| story.report(1000 * MS).tasks[0].speed.as_ref().unwrap().wanted_ns;
    assert_eq!(wanted(&story), 900 * MS);
    // It blocks, wakes at 700, and a segment that ended before is reported after that.
    tell(&mut story, &mut [Ran(0, 0, (600 * MS, 620 * MS), 10, Blocked)]);
    story.woke(0, 700 * MS);
    tell(&mut story, &mut [Ran(0, 0, (630 * MS, 650 * MS), 10, Blocked)]);
    assert_eq!(wanted(&story), (500 + 20 + 20 + 300) * MS);
}

prop_compose! {
    /// Two or three classes and at least as many VCPUs as cores, each with a speed on every class
    /// for each of three windows.
    fn crowds()(
        cores in prop::collection::vec(1_usize..4, 2..4),
        more in 0_usize..4,
    )(
        speeds in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(1_u64..5_000, cores.len()), 3),
            cores.iter().sum::<usize>() + more,
        ),
        cores in Just(cores),
    ) -> (Vec<usize>, Vec<Vec<Vec<u64>>>) {
        (cores, speeds)
    }
}

proptest! {
    #[test]
    fn equal_shares_score_one((cores, speeds) in crowds()) {
        let classes: Vec<_> = (0..).zip(&cores).map(|(k, n)| (*n, 1000 - 100 * k)).collect();
        let n = speeds.len() as u64;
        let mut story = story(&classes, &vec![0; speeds.len()]);
        (0..n).for_each(|vcpu| _ = story.woke(vcpu as u32, 0));
        let length = W / n;
        let mut segments = Vec::new();
        for (vcpu, phases) in (0..).zip(&speeds) {
            for (window, phase) in (0..).zip(phases) {
                let (mut at, mut core) = (window * W, 0);
                for (count, speed) in cores.iter().zip(phase) {
                    let to = at + length * *count as u64;
                    segments.push(Ran(vcpu, core, (at, to), speed * *count as u64, Preempted));
                    (at, core) = (to, core + *count as u16);
                }
            }
        }
        tell(&mut story, &mut segments);
        let report = story.report(3 * W);
        let fairness = report.fairness.unwrap();
        prop_assert_eq!((fairness.judged, fairness.unknown), (n, 0));
        for figure in [fairness.throughput, fairness.min_fairness, fairness.uniformity] {
            prop_assert!((figure.unwrap() - 1.0).abs() < 1e-6, "{figure:?}");
        }
    }

    /// Whatever comes, in whatever order: no service is lost or made up, nothing panics, and
    /// no VCPU wants more than all the time there is.
    #[test]
    fn service_is_conserved(
        steps in prop::collection::vec(
            (0_u32..3, 0_u16..3, 0_u64..90, 0_u64..50, 0_u64..1_000, 0_usize..5, 0_u64..90),
            1..60,
        ),
    ) {
        let mut story = story(&[(1, 1000), (1, 700), (1, 400)], &[0; 3]);
        let mut sums = [[(0, 0); 3]; 3];
        for (vcpu, core, from, length, instructions, what, wake) in steps {
            let (from, to) = (from * 100 * MS, (from + length) * 100 * MS);
            let end = [Blocked, Preempted, Exited, Preempted, Blocked][what];
            let usage = Usage {
                service: Duration::from_ticks(to - from),
                instructions,
                ..Usage::default()
            };
            story.ran_with((vcpu, core, Background), (from, to), usage, end);
            if what > 2 {
                story.woke(vcpu, wake * 100 * MS);
            }
            let (time, count) = &mut sums[vcpu as usize][usize::from(core)];
            *time += to - from;
            *count += instructions;
        }
        let end = 14_000 * MS;
        let report = story.report(end);
        for (task, sums) in report.tasks.iter().zip(sums) {
            let speed = task.speed.as_ref().unwrap();
            let got: Vec<_> =
                speed.classes.iter().map(|class| (class.time_ns, class.instructions)).collect();
            prop_assert_eq!(got, sums);
            prop_assert!(speed.wanted_ns <= end, "{}", speed.wanted_ns);
            let finite = speed.performance.is_none_or(|it| it.is_finite() && it >= 0.0);
            prop_assert!(finite, "{:?}", speed.performance);
        }
    }
}
