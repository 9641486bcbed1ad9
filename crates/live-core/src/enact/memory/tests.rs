use super::*;
use crate::Core;
use crate::fake::{Fake, Script, core};
use maracas_core::contract::{Grant, Limit, RunQueue};
use std::rc::Rc;

#[test]
fn a_mark_is_reached_in_proportion() {
    let at = Instant::from_ticks;
    assert_eq!(interpolated((at(100), 10), (at(200), 20), 15), at(150));
    assert_eq!(interpolated((at(100), 10), (at(200), 20), 20), at(200));
    assert_eq!(interpolated((at(100), 10), (at(100), 20), 15), at(100));
    assert_eq!(interpolated((at(100), 10), (at(200), 10), 10), at(200));
    let most = (at(u64::MAX), u64::MAX);
    assert_eq!(interpolated((at(0), 0), most, 1), at(1));
}

#[test]
fn alarms_that_come_early_in_a_row_are_put_off() {
    let (at, wait) =
        (|micros| Instant::ZERO + Duration::from_micros(micros), Duration::from_micros(100));
    let mut rings = Rings::default();
    let ring = |rings: &mut Rings, micros| {
        rings.rang(at(micros), wait);
        rings.shortest(wait)
    };
    let early = [1000, 1010, 1020, 1030].map(|micros| ring(&mut rings, micros));
    assert_eq!(early, [0; 4], "each comes closer to the mark");
    // 100 us at 250 run queues a microsecond.
    assert_eq!(ring(&mut rings, 1040), 25_000);
    assert_eq!(ring(&mut rings, 1100), 25_000);
    assert_eq!(ring(&mut rings, 1200), 0, "after a while it is the first again");
    let slow = Rings { in_a_row: EARLY + 1, ..Rings::default() };
    assert_eq!(slow.shortest(Duration::from_micros(800)), 8 * 25_000);
}

/// A core with VCPU 0, of which a thread is believed to run there, and a meter of a script.
fn with_core(act: impl FnOnce(&mut Core<Fake>, &Script)) {
    let script = Rc::new(Script::default());
    script.counted.set(Some(1000));
    act(&mut core(&script, 1), &script);
}

/// A run queue of VCPU 0 with a budget that does not end, up to these readings of the core's meter
/// and of its own.
fn run_queue(allowance: u64, memory: u64) -> RunQueue {
    let (allowance, memory) = (MemoryLimit(allowance), MemoryLimit(memory));
    let grant = Grant { memory, ..Grant::new(VcpuId(0), Limit::NEVER) };
    RunQueue { foreground: vec![grant], allowance, ..RunQueue::default() }
}

/// Applies the law, and lets the core's agent fall asleep.
fn apply(core: &mut Core<Fake>) {
    core.judge();
    core.stops();
    core.starts();
    core.sleep();
}

/// What has been reported: reads and how the segment ended, or `spent`.
fn reported(core: &mut Core<Fake>) -> Vec<String> {
    core.drain();
    let word = |(_, event): (Instant, Event)| match event {
        Event::Ran(segment) => Some(format!("{} {:?}", segment.usage.reads, segment.end)),
        Event::AllowanceSpent { .. } => Some("spent".to_string()),
        Event::Woke { .. }
        | Event::Released(_)
        | Event::Completed(_)
        | Event::Sampled(_)
        | Event::Utilized { .. }
        | Event::Arrived(_)
        | Event::Left(_)
        | Event::Changed(_)
        | Event::ServiceDone(_)
        | Event::Failed { .. } => None,
    };
    core.outbox.drain(..).filter_map(word).collect()
}

fn level(core: &Core<Fake>) -> Level {
    core.vcpu_handles[0].level
}

fn follow(core: &mut Core<Fake>, run_queue: &RunQueue) {
    core.follow(run_queue, Instant::ZERO);
    apply(core);
}

#[test]
fn a_core_closes_at_its_allowance_once_and_opens_with_a_higher_one() {
    with_core(|core, script| {
        follow(core, &run_queue(100, u64::MAX));
        assert!(matches!(level(core), Level::Foreground(_)));
        assert_eq!(script.armed.get(), Some(1100), "what it had counted before belongs to no VCPU");
        script.counted.set(Some(1099));
        apply(core);
        assert!(matches!(level(core), Level::Foreground(_)), "one is left");
        assert_eq!(reported(core), [""; 0]);
        script.counted.set(Some(1130));
        apply(core);
        assert_eq!((level(core), core.is_closed()), (Level::Frozen, true));
        assert_eq!(script.armed.get(), None);
        assert_eq!(reported(core), ["130 Preempted", "spent"]);
        let notes: Vec<_> = core.take_notes().collect();
        let [Record::Note { note: Note::Closed { core: at, beyond, .. }, .. }] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert_eq!((*at, *beyond), (core.id, 30), "30 beyond the mark");
        // While no VCPU of ours may run, others are counted.
        script.counted.set(Some(5000));
        apply(core);
        assert_eq!(reported(core), [""; 0], "reported once");
        follow(core, &run_queue(130, u64::MAX));
        assert_eq!(level(core), Level::Frozen, "it is there already");
        assert_eq!(reported(core), ["spent"], "another allowance");
        follow(core, &run_queue(131, u64::MAX));
        assert!(matches!(level(core), Level::Foreground(_)));
        assert_eq!(script.armed.get(), Some(5001));
        // The same allowance again, after it was open.
        script.counted.set(Some(5001));
        apply(core);
        assert_eq!(reported(core), ["1 Preempted", "spent"]);
        follow(core, &run_queue(u64::MAX, u64::MAX));
        assert!(matches!(level(core), Level::Foreground(_)));
    });
}

#[test]
fn a_vcpu_stops_at_its_own_memory_mark() {
    with_core(|core, script| {
        follow(core, &run_queue(u64::MAX, 50));
        assert!(matches!(level(core), Level::Foreground(_)));
        assert_eq!(script.armed.get(), Some(1050));
        let soon = script.now().saturating_add(LOOK);
        assert!(core.look_at <= soon, "nothing reports it: it is looked for");
        assert_eq!(reported(core), [""; 0]);
        core.suppose_running(VcpuId(0));
        script.counted.set(Some(1050));
        apply(core);
        assert_eq!((level(core), core.is_closed()), (Level::Frozen, false));
        assert_eq!(reported(core), ["50 MemorySpent"]);
        follow(core, &run_queue(u64::MAX, 51));
        assert!(matches!(level(core), Level::Foreground(_)));
    });
}

#[test]
fn what_was_read_here_is_reported_before_a_body_goes() {
    with_core(|core, script| {
        follow(core, &run_queue(1000, u64::MAX));
        script.counted.set(Some(1007));
        let vcpu_handle = core.detach(VcpuId(0), End::Moved);
        assert_eq!(vcpu_handle.map(|vcpu_handle| vcpu_handle.unreported_reads()), Some(0));
        assert_eq!(reported(core), ["7 Moved"]);
    });
}
