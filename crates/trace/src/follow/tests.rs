use super::*;
use crate::testkit::*;
use maracas_core::contract::{Grant, MemoryLimit};

/// Writes down what is reported to it, in ticks.
#[derive(Default, Debug)]
struct Diary(Vec<String>);

impl Diary {
    fn note(&mut self, vcpu: VcpuId, what: &str, from: Instant, to: Instant) {
        self.0.push(format!("{vcpu} {what} {}-{}", from.ticks(), to.ticks()));
    }
}

impl Listener for Diary {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.0.push(format!("{vcpu} is {name}"));
    }
    fn span(&mut self, span: &Span) {
        let what = format!("{:?} on {}", span.mode, span.core);
        self.note(span.vcpu, &what, span.from, span.to);
    }
    fn wait(&mut self, wait: &Wait) {
        let what = if wait.throttled.is_some() { "throttled" } else { "ready" };
        self.note(wait.vcpu, what, wait.from, wait.to);
    }
    fn idle(&mut self, vcpu: VcpuId, from: Instant, to: Instant) {
        self.note(vcpu, "idle", from, to);
    }
    fn budget(&mut self, vcpu: VcpuId, at: Instant, left: Duration) {
        self.0.push(format!("{vcpu} has {} left at {}", left.ticks(), at.ticks()));
    }
}

fn diary(story: &Story, end: u64) -> Vec<String> {
    let journal = story.journal(end);
    let (diary, reported_end) = Follower::journal(&journal, |_| Diary::default()).unwrap();
    assert_eq!(reported_end, t(end));
    diary.0
}

/// One VCPU, and a decision at 0 that lets it run so.
fn story(foreground: Vec<Grant>, background: Vec<Grant>) -> Story {
    let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
    story.woke(0, 0).planned(0, |plan| {
        plan.run_queue_mut(CoreId(0)).foreground = foreground;
        plan.run_queue_mut(CoreId(0)).background = background.into();
    });
    story
}

#[test]
fn readings_do_not_cut_a_run() {
    let mut story = story(vec![], vec![grant(0, u64::MAX)]);
    story.ran((0, 0, Background), (1, 3), Metered).ran((0, 0, Background), (3, 5), Metered);
    story.ran((0, 0, Foreground), (5, 6), Metered).ran((0, 0, Foreground), (8, 9), Blocked);
    story.woke(0, 11).event(13, Event::Left(VcpuId(0)));
    let expected = [
        "vcpu0 is spin",
        "vcpu0 ready 0-1",
        "vcpu0 Background on core0 1-5",
        "vcpu0 Foreground on core0 5-6",
        "vcpu0 ready 6-8",
        "vcpu0 Foreground on core0 8-9",
        "vcpu0 idle 9-11",
        "vcpu0 ready 11-13",
    ];
    assert_eq!(diary(&story, 20), expected);
}

#[test]
fn a_budget_that_changes_while_it_is_used() {
    let mut story = story(vec![grant(0, 4)], vec![]);
    // At 2 the limit goes from 4 to 10; the segment around that is reported later.
    story.planned(2, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 10)]);
    story.ran((0, 0, Foreground), (0, 6), Preempted);
    story.planned(7, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 12)]);
    let left: Vec<_> = diary(&story, 9).into_iter().filter(|line| line.contains("left")).collect();
    let expected = [
        "vcpu0 has 4 left at 0",
        "vcpu0 has 4 left at 0",
        "vcpu0 has 8 left at 2",
        "vcpu0 has 4 left at 6",
        "vcpu0 has 6 left at 7",
    ];
    assert_eq!(left, expected);
}

#[test]
fn a_closed_door_throttles_only_what_has_no_budget() {
    let mut story = story(vec![grant(0, 4)], vec![grant(0, u64::MAX)]);
    story.planned(1, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = false);
    // It waits its turn with budget left; then it has none, and the memory gate is what keeps it
    // out.
    story.ran((0, 0, Foreground), (2, 6), LimitReached);
    story.planned(9, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = true);
    story.ran((0, 0, Background), (10, 11), Preempted);
    let expected = [
        "vcpu0 ready 0-2",
        "vcpu0 Foreground on core0 2-6",
        "vcpu0 throttled 6-9",
        "vcpu0 ready 9-10",
        "vcpu0 Background on core0 10-11",
        "vcpu0 ready 11-12",
    ];
    let reported: Vec<_> =
        diary(&story, 12).into_iter().filter(|line| line.contains('-')).collect();
    assert_eq!(reported, expected);
}

#[test]
fn a_spent_allowance_throttles_all() {
    let mut story = story(vec![grant(0, 4)], vec![]);
    story.planned(0, |plan| plan.run_queue_mut(CoreId(0)).allowance = MemoryLimit(100));
    story.ran((0, 0, Foreground), (0, 2), Preempted);
    story.event(2, Event::AllowanceSpent { core: CoreId(0) });
    story.planned(5, |plan| plan.run_queue_mut(CoreId(0)).allowance = MemoryLimit(200));
    story.ran((0, 0, Foreground), (5, 7), LimitReached);
    let reported: Vec<_> = diary(&story, 8).into_iter().filter(|line| line.contains('-')).collect();
    let expected = [
        "vcpu0 Foreground on core0 0-2",
        "vcpu0 throttled 2-5",
        "vcpu0 Foreground on core0 5-7",
        "vcpu0 ready 7-8",
    ];
    assert_eq!(reported, expected);
}

#[test]
fn a_vcpu_at_its_memory_mark_is_throttled() {
    let marked = |memory| Grant { memory: MemoryLimit(memory), ..grant(0, u64::MAX) };
    let mut story = story(vec![marked(100)], vec![]);
    let usage = Usage { service: Duration::from_ticks(2), reads: 100, ..Usage::default() };
    story.ran_with((0, 0, Foreground), (0, 2), usage, MemorySpent);
    story.planned(5, |plan| plan.run_queue_mut(CoreId(0)).foreground = vec![marked(200)]);
    story.ran((0, 0, Foreground), (6, 7), Preempted);
    let reported: Vec<_> = diary(&story, 8).into_iter().filter(|line| line.contains('-')).collect();
    let expected = [
        "vcpu0 Foreground on core0 0-2",
        "vcpu0 throttled 2-5",
        "vcpu0 ready 5-6",
        "vcpu0 Foreground on core0 6-7",
        "vcpu0 ready 7-8",
    ];
    assert_eq!(reported, expected);
}
