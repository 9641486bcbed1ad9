use crate::report::{Report, Verdict, Word};
use crate::testkit::*;
use maracas_core::contract::{Event, MemoryLimit, Usage};
use maracas_core::{CoreId, Duration, Role, Vcpu, VcpuId};
use std::num::NonZero;

/// The period of all VCPUs here, in nanoseconds.
const T: u64 = 10_000_000;
/// C.
const C: u64 = 2_000_000;
const MS: u64 = 1_000_000;

/// One VCPU with C = 2 ms every 10 ms on core 0 that always has something to run and is given so
/// much in its periods, one after the other.
fn given(delivered: &[u64]) -> Story {
    let mut story = Story::new(2, vec![vcpu(0, C, T)]);
    story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, C)]);
    story.woke(0, 0);
    for (place, &delivered) in delivered.iter().enumerate() {
        serve(&mut story, place as u64, delivered);
    }
    story
}

/// Gives it so much in period `place`, from its start on.
fn serve(story: &mut Story, place: u64, delivered: u64) {
    let from = place * T;
    story.ran((0, 0, Foreground), (from, from + delivered), LimitReached);
}

fn verdict(report: &Report) -> Verdict {
    report.tasks[0].verdict
}

/// Of `n` periods; streamed and from the journal alike.
fn judged(delivered: &[u64]) -> Verdict {
    verdict(&given(delivered).report(delivered.len() as u64 * T))
}

#[test]
fn within_the_tolerance_it_is_kept() {
    let mut delivered = [C; 200];
    // 1 % of C to either side is no error.
    (delivered[3], delivered[9]) = (C - C / 100, C + C / 100);
    let expected = Verdict {
        word: Word::Kept,
        judged: 200,
        tolerance_ns: C / 100,
        mean_off: Some(0.0),
        mean_off_of_all: Some(0.0),
        ..Verdict::default()
    };
    assert_eq!(judged(&delivered), expected);
    // One period in a hundred may be off, by a little in the mean.
    (delivered[50], delivered[150]) = (C - C / 10, C + C / 5);
    let verdict = judged(&delivered);
    assert_eq!((verdict.word, verdict.short, verdict.over), (Word::Kept, 1, 1));
    assert_eq!((verdict.short_worst_ns, verdict.over_worst_ns), (C / 10, C / 5));
    assert!(!verdict.is_broken());
}

#[test]
fn too_many_periods_off_break_it_to_their_side() {
    let with = |off: &[u64]| {
        let mut delivered = [C; 100];
        delivered[..off.len()].copy_from_slice(off);
        let verdict = judged(&delivered);
        assert!(verdict.is_broken());
        (verdict.word, verdict.short, verdict.over)
    };
    // Two in a hundred, though the mean is right.
    let little = C / 50;
    assert_eq!(with(&[C - little, C - little]), (Word::Short, 2, 0));
    assert_eq!(with(&[C + little, C + little]), (Word::Over, 0, 2));
    assert_eq!(with(&[C + little, C - little]), (Word::Both, 1, 1));
    // One, which is so large that the mean is off.
    assert_eq!(with(&[0]), (Word::Short, 1, 0));
    assert_eq!(with(&[3 * C]), (Word::Over, 0, 1));
}

#[test]
fn the_mean_may_be_off_though_no_period_is() {
    let low = judged(&[C - C / 125; 50]);
    assert_eq!((low.word, low.short, low.over), (Word::Short, 0, 0));
    assert!((low.mean_off.unwrap() + 0.008).abs() < 1e-9, "{low:?}");
    let high = judged(&[C + C / 125; 50]);
    assert_eq!((high.word, high.is_broken()), (Word::Over, true));
    // 0.5 % to either side is kept.
    assert_eq!(judged(&[C + C / 200; 50]).word, Word::Kept);
}

#[test]
fn twice_what_a_wake_costs_is_no_error() {
    let story = |notes: &[(u64, &str)]| {
        let mut story = Story::new(2, vec![vcpu(0, C, T)]);
        notes.iter().for_each(|(at, text)| _ = story.reported(*at, "wake-cost", text));
        story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, C)]);
        story.woke(0, 0);
        // By 50 us more and less in turn.
        (0..40).for_each(|at| {
            serve(&mut story, at, if at % 2 == 0 { C + 50_000 } else { C - 50_000 })
        });
        story.live(40 * T)
    };
    assert_eq!(verdict(&story(&[])).word, Word::Both);
    assert_eq!(verdict(&story(&[(0, "24999 90000")])).word, Word::Both);
    let report = story(&[(0, "25000 90000"), (0, "20000 99000")]);
    let cost = report.promise.wake_cost.unwrap();
    assert_eq!((cost.p50_ns, cost.p99_ns), (25_000, 99_000), "the largest that was reported");
    assert_eq!((verdict(&report).word, verdict(&report).tolerance_ns), (Word::Kept, 50_000));
}

/// A hundred periods: in number 10 it runs `over` too long, and so much less in those after.
fn overrun(over: u64) -> Vec<u64> {
    let mut delivered = vec![C; 100];
    delivered[10] += over;
    let mut debt = over;
    for later in &mut delivered[11..] {
        let paid = debt.min(C);
        *later -= paid;
        debt -= paid;
    }
    delivered
}

/// Reports at the end of the overrun of period 10 how late the agent was and how much was stolen.
fn reported(over: u64, core: u16, late: u64, stolen: u64) -> Story {
    let mut story = given(&overrun(over));
    story.reported(10 * T + C + over, "late", &format!("{core} {late} {stolen}"));
    story
}

#[test]
fn what_was_stolen_is_not_held_against_any() {
    let over = 3 * MS;
    assert_eq!(judged(&overrun(over)).word, Word::Both);
    // All of it was stolen: the overrun, and the two periods in which it is paid back.
    let report = reported(over, 0, over, over).live(100 * T);
    let expected = Verdict {
        word: Word::Kept,
        judged: 97,
        stolen: 3,
        tolerance_ns: C / 100,
        mean_off: Some(0.0),
        mean_off_of_all: Some(0.0),
        ..Verdict::default()
    };
    assert_eq!((verdict(&report), report.promise.kept), (expected, true));
    // Errors show all periods.
    assert_eq!(report.tasks[0].delivered.error_max_ns, Some(over));
    // Little less than the error, by less than the tolerance, explains it; less does not.
    let near = reported(over, 0, over, over - C / 100).live(100 * T);
    assert_eq!(verdict(&near).stolen, 3);
    let less = verdict(&reported(over, 0, over, over - C / 100 - 1).live(100 * T));
    // It would explain the first period of the debt, which is smaller; but that belongs to the
    // period that is paid back, so that the mean counts both.
    assert_eq!((less.word, less.stolen, less.judged), (Word::Both, 0, 100));
    assert_eq!((less.over, less.over_worst_ns, less.short), (1, over, 2));
    assert_eq!(less.mean_off, Some(0.0));
    // On another core, or long before, it explains nothing.
    assert_eq!(verdict(&reported(over, 1, over, over).live(100 * T)).stolen, 0);
    let mut story = given(&overrun(over));
    story.reported(8 * T, "late", &format!("0 {over} {over}"));
    assert_eq!(verdict(&story.live(100 * T)).stolen, 0);
    // Lateness of which nothing was stolen is the machine's own.
    let own = reported(over, 0, over, 0).live(100 * T);
    assert_eq!((verdict(&own).stolen, own.promise.kept), (0, false));
}

#[test]
fn what_is_reported_late_is_observed_and_periods_do_not_pile_up() {
    // Decisions go on; the lateness of period 10 is reported some wakes after the periods behind
    // it.
    let over = 3 * MS;
    let mut story = given(&[]);
    for (at, delivered) in overrun(over).into_iter().enumerate() {
        serve(&mut story, at as u64, delivered);
        story.planned((at as u64 + 1) * T, |plan| _ = plan.run_queue_mut(CoreId(0)));
        if at == 20 {
            story.reported(10 * T + C + over, "late", &format!("0 {over} {over}"));
        }
    }
    assert_eq!(verdict(&story.live(100 * T)).stolen, 3);
    // Gauges count them before the end, once all is reported.
    let journal = story.journal(100 * T);
    let (header, reader) = maracas_core::journal::Reader::open(&journal).unwrap();
    let mut metrics = crate::Metrics::new(&header);
    let mut stolen = Vec::new();
    reader.for_each(|record| {
        metrics.record(&record.unwrap());
        stolen.push(metrics.gauges().vcpus[0].stolen_periods);
    });
    let before_the_end = stolen[stolen.len() - 20];
    assert_eq!((stolen[30], before_the_end), (0, 3), "{stolen:?}");
}

#[test]
fn a_long_debt_of_stolen_time_is_paid_back_in_stolen_periods() {
    // 7 ms too long are paid back in three periods of nothing and one of 1 ms.
    let report = reported(7 * MS, 0, 7 * MS, 7 * MS).live(100 * T);
    let it = verdict(&report);
    assert_eq!((it.word, it.stolen, it.judged), (Word::Kept, 5, 95));
    // More than was owed is no VCPU's debt.
    let mut delivered = overrun(7 * MS);
    delivered[15] = 0;
    let mut story = given(&delivered);
    story.reported(10 * T + 9 * MS, "late", &format!("0 {} {}", 7 * MS, 7 * MS));
    let it = verdict(&story.live(100 * T));
    assert_eq!((it.stolen, it.short, it.short_worst_ns), (5, 1, C));
}

#[test]
fn what_a_period_takes_in_which_it_waited_is_paid_back_in_no_judged_one() {
    // It waits in period 0 at 9 ms, when it had 5 ms too much; two periods and a half of the next
    // pay that back.
    let mut story = given(&[]);
    story.ran((0, 0, Foreground), (0, 7 * MS), Blocked).woke(0, 8 * MS);
    serve(&mut story, 3, C - MS);
    (4..100).for_each(|at| serve(&mut story, at, C));
    let it = verdict(&story.report(100 * T));
    assert_eq!((it.word, it.judged, it.short, it.mean_off), (Word::Kept, 96, 0, Some(0.0)));
    // What is short by more than that is.
    let mut story = given(&[]);
    story.ran((0, 0, Foreground), (0, 3 * MS), Blocked).woke(0, 8 * MS);
    (2..100).for_each(|at| serve(&mut story, at, C));
    let it = verdict(&story.report(100 * T));
    assert_eq!((it.word, it.judged, it.short, it.short_worst_ns), (Word::Short, 99, 1, C));
}

#[test]
fn strictly_stolen_periods_are_judged() {
    let journal = reported(3 * MS, 0, 3 * MS, 3 * MS).journal(100 * T);
    let (header, reader) = maracas_core::journal::Reader::open(&journal).unwrap();
    let mut metrics = crate::Metrics::new(&header).strict();
    reader.for_each(|record| _ = metrics.record(&record.unwrap()));
    let report = metrics.report(t(100 * T));
    let it = verdict(&report);
    assert_eq!((it.word, it.judged, it.stolen), (Word::Both, 100, 3));
    assert_eq!((it.short, it.over, report.promise.kept), (2, 1, false));
    assert!(report.promise.strict);
}

#[test]
fn what_was_never_served_is_short_however_long_it_lasts() {
    let mut story = given(&[]);
    story.ran((0, 0, Foreground), (1_000_000 * T, 1_000_000 * T + C), LimitReached);
    let it = verdict(&story.report(1_000_001 * T));
    assert_eq!((it.word, it.short, it.judged), (Word::Short, 1_000_000, 1_000_001));
}

#[test]
fn without_demand_nothing_is_judged() {
    // It blocks in every period.
    let mut story = given(&[]);
    let block = |story: &mut Story, at: u64, until: u64| {
        story.ran((0, 0, Foreground), (at * T, at * T + MS), Blocked).woke(0, until);
    };
    (0..60).for_each(|at| block(&mut story, at, (at + 1) * T));
    assert_eq!(verdict(&story.report(60 * T)).word, Word::NoDemand);
    assert_eq!(verdict(&given(&[]).report(0)).word, Word::NoPeriod);
    // The few that had it are chance, unless they are too many of all.
    let mut few = story;
    few.ran((0, 0, Foreground), (61 * T, 61 * T), Metered).ran(
        (0, 0, Foreground),
        (61 * T, 61 * T + C),
        Blocked,
    );
    assert_eq!(verdict(&few.report(62 * T)).word, Word::Short, "1 of 62 is too many");
}

#[test]
fn what_takes_more_than_c_from_others_is_over_though_it_blocks() {
    let blocking = |delivered: u64, periods: u64| {
        let mut story = given(&[]);
        for at in 0..periods {
            story.ran((0, 0, Foreground), (at * T, at * T + delivered), Blocked);
            story.woke(0, (at + 1) * T);
        }
        story.report(periods * T)
    };
    let report = blocking(C + 7 * MS, 60);
    let it = verdict(&report);
    assert_eq!((it.word, it.judged, it.over, report.promise.kept), (Word::Over, 0, 0, false));
    assert_eq!(it.mean_off_of_all, Some(3.5));
    let parts = crate::table::promise::parts(&it, false);
    assert_eq!(parts, ["over: mean of all periods +350.0 %"]);
    // Up to one C more in all may be what it brought along, a tenth what switching costs.
    assert_eq!(verdict(&blocking(C + C / 5, 5)).word, Word::NoDemand);
    assert_eq!(verdict(&blocking(C + C / 5, 6)).word, Word::Over);
    assert_eq!(verdict(&blocking(C + C / 10, 1_000)).word, Word::NoDemand);
}

#[test]
fn only_foreground_time_that_the_policy_grants_is_a_promise() {
    // No run queue ever had a grant of foreground time.
    let mut story = Story::new(1, vec![vcpu(0, C, T)]);
    story.woke(0, 0).ran((0, 0, Background), (0, 20 * T), Metered);
    let report = story.report(20 * T);
    assert_eq!((verdict(&report), report.promise.kept), (Verdict::default(), true));
    // I/O VCPUs have others' periods; others have no reservation.
    let io = Vcpu { role: Role::Io, ..vcpu(0, C, T) };
    for vcpu in [io, Vcpu::best_effort(0)] {
        let mut story = Story::new(1, vec![vcpu]);
        story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, C)]);
        story.woke(0, 0).ran((0, 0, Background), (0, 20 * T), Metered);
        assert_eq!(verdict(&story.report(20 * T)).word, Word::None);
    }
}

#[test]
fn what_is_held_by_a_limit_of_memory_is_not_judged() {
    let limited = Vcpu { bandwidth: NonZero::new(6_400), ..vcpu(0, C, T) };
    let mut story = Story::new(1, vec![limited]);
    let run_queue = |story: &mut Story, at, memory| {
        story.planned(at, |plan| {
            let run_queue = plan.run_queue_mut(CoreId(0));
            run_queue.foreground = vec![grant(0, 100 * C)];
            run_queue.foreground[0].memory = MemoryLimit(memory);
        });
    };
    run_queue(&mut story, 0, 100);
    let usage = Usage { service: Duration::from_ticks(MS), reads: 100, ..Usage::default() };
    // At its limit from 1 ms to 25 ms.
    story.woke(0, 0).ran_with((0, 0, Foreground), (0, MS), usage, MemorySpent);
    run_queue(&mut story, 25 * MS, 1_000);
    (3..10).for_each(|at| serve(&mut story, at, C));
    let it = verdict(&story.report(10 * T));
    assert_eq!((it.word, it.held, it.judged), (Word::Kept, 3, 7));
    // The same by the allowance of the core.
    let mut story = Story::new(1, vec![vcpu(0, C, T)]);
    let allowed = |allowance| {
        move |plan: &mut maracas_core::Plan| {
            let run_queue = plan.run_queue_mut(CoreId(0));
            run_queue.foreground = vec![grant(0, 100 * C)];
            run_queue.allowance = MemoryLimit(allowance);
        }
    };
    story.planned(0, allowed(100)).woke(0, 0).ran((0, 0, Foreground), (0, MS), Preempted);
    story.event(MS, Event::AllowanceSpent { core: CoreId(0) });
    story.planned(25 * MS, allowed(200));
    (3..10).for_each(|at| serve(&mut story, at, C));
    let it = verdict(&story.report(10 * T));
    assert_eq!((it.word, it.held, it.judged), (Word::Kept, 3, 7));
    // All of them held: nothing is left to be judged.
    story.event(10 * T, Event::AllowanceSpent { core: CoreId(0) });
    (10..11).for_each(|at| serve(&mut story, at, C));
    assert_eq!(verdict(&story.report(11 * T)).held, 4);
}

#[test]
fn errors_have_their_signs() {
    let mut delivered = vec![C; 100];
    delivered[..2].fill(C - 300);
    delivered[2..40].fill(C - 5);
    delivered[98..].fill(C + 700);
    let report = given(&delivered).report(100 * T);
    let it = &report.tasks[0].delivered;
    let signed = [it.signed_error_p1_ns, it.signed_error_p50_ns, it.signed_error_p99_ns];
    assert_eq!(signed, [Some(-300), Some(0), Some(700)]);
    assert_eq!(
        (it.error_p50_ns, it.error_p99_ns, it.error_max_ns),
        (Some(0), Some(700), Some(700))
    );
}

#[test]
fn a_changed_reservation_is_judged_by_what_was_promised_then() {
    // C doubles after ten periods, and is kept before and after.
    let mut story = given(&[C; 10]);
    story.event(10 * T, Event::Changed(vcpu(0, 2 * C, T)));
    story.planned(10 * T, |plan| plan.answer(VcpuId(0), Ok(CoreId(0))));
    (10..20).for_each(|at| serve(&mut story, at, 2 * C));
    let it = verdict(&story.report(20 * T));
    assert_eq!((it.word, it.judged, it.mean_off), (Word::Kept, 20, Some(0.0)));
}

#[test]
fn after_the_agents_end_nothing_is_promised() {
    // The last decision is at 95 ms; until the meters are read at 112 ms it runs on.
    let journal = |machine: &str, last: u64| {
        let mut story = given(&[C; 10]);
        story.header.machine = machine.into();
        story.planned(last, |plan| _ = plan.run_queue_mut(CoreId(0)));
        story.ran((0, 0, Foreground), (10 * T, 11 * T + C), Metered);
        story.planned(11 * T + C, |plan| _ = plan.run_queue_mut(CoreId(0)));
        story.live(11 * T + C)
    };
    let live = journal("live", 95 * MS);
    let (it, delivered) = (verdict(&live), &live.tasks[0].delivered);
    assert_eq!((it.word, it.judged, delivered.error_max_ns), (Word::Kept, 9, Some(0)));
    // A simulation ends when it ends.
    let it = verdict(&journal("sim", 95 * MS));
    assert_eq!((it.word, it.judged, it.over), (Word::Over, 11, 1));
    // Where the last decision is long ago, agents were stuck.
    let mut stuck = given(&[C]);
    stuck.header.machine = "live".into();
    stuck.planned(C, |plan| _ = plan.run_queue_mut(CoreId(0)));
    let it = verdict(&stuck.live(200 * T));
    assert_eq!((it.word, it.judged, it.short), (Word::Short, 200, 199));
}
