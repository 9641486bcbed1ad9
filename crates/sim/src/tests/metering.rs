//! What policies have counted beyond reads: write-backs, the requests to one bank, and how long the
//! memory controller is busy.

use super::memory::{memory, strides};
use super::*;
use crate::memory::{Contention, Resident, SharedMemory};
use maracas_core::contract::{Metered, Meters, Usage};
use maracas_core::memory::{MemoryUse, Pattern};

const CORE: CoreId = CoreId(0);

/// A memory of 16 banks with a program alone on it, of which this is counted.
fn alone(use_: MemoryUse, counts: Metered) -> SharedMemory {
    let system = System::new(1, vec![task(0, 5, 10)]);
    let mut model = SharedMemory::new(&system, &memory(vec![Some(use_)]));
    model.meter(Meters { counts, controller: true });
    model.resolve(at(0), &[Some(Resident { vcpu: VcpuId(0), program: 0 })]);
    model
}

/// What is counted when the meter reads `metered` for the first time.
fn when(use_: &MemoryUse, counts: Metered, metered: u64) -> Usage {
    let mut model = alone(use_.clone(), counts);
    let time = model.time_to_meter(CORE, metered);
    let counted = model.advance(CORE, time).counted;
    let mut model = alone(use_.clone(), counts);
    let before = model.advance(CORE, time - ticks(1)).counted;
    assert!(before.metered() < metered, "{before:?}");
    counted
}

#[test]
fn write_backs_count_where_they_are_asked_for() {
    // One write-back a read.
    let counted = when(&strides(), Metered::Requests, 1_000);
    let near = |is: u64, of: u64| is.abs_diff(of) <= 1;
    assert!(near(counted.reads, 500) && near(counted.writes, 500), "{counted:?}");
    assert_eq!(counted.metered(), 1_000);
    let counted = when(&strides(), Metered::Reads, 1_000);
    assert_eq!((counted.reads, counted.writes, counted.metered), (1_000, 1_000, None));
    // Three in ten: 1,000 of 1,300 requests are reads.
    let some = MemoryUse { writebacks_milli: 300, ..strides() };
    let counted = when(&some, Metered::Requests, 1_300);
    assert!(near(counted.reads, 1_000) && near(counted.writes, 300), "{counted:?}");
}

#[test]
fn a_pattern_that_takes_all_banks_loads_each_with_a_sixteenth() {
    let of = |pattern, counts| {
        let counted = when(&MemoryUse { pattern, ..strides() }, counts, 100);
        (counted.reads, counted.metered())
    };
    assert_eq!(of(Pattern::Random, Metered::BankReads), (1_600, 100));
    assert_eq!(of(Pattern::Jump, Metered::BankRequests), (800, 100));
    for single in [Pattern::SameBank, Pattern::PrivateBank] {
        assert_eq!(of(single, Metered::BankReads), (100, 100));
        assert_eq!(of(single, Metered::BankRequests), (50, 100));
    }
}

#[test]
fn the_controller_is_busy_while_a_read_waits() {
    // It asks all the time.
    let busy = |use_| {
        let mut model = alone(use_, Metered::Reads);
        model.advance(CORE, ticks(1_000_000));
        model.busy(at(1_000_000)).unwrap().ticks()
    };
    assert_eq!(busy(strides()), 1_000_000);
    // It thinks 1,000 ns after each read of some 50.
    let seldom = busy(MemoryUse { think_ps: 1_000_000, ..strides() });
    assert!((40_000..60_000).contains(&seldom), "{seldom}");
    // It is counted only where that is asked for.
    let system = System::new(1, vec![task(0, 5, 10)]);
    let mut model = SharedMemory::new(&system, &memory(vec![Some(strides())]));
    assert_eq!(model.busy(at(0)), None);
}

/// Runs VCPU 0 for ever, asks for the controller, and is woken every 1,000 ticks.
#[derive(Default)]
struct Watcher {
    reported: Vec<(u64, u64, u64)>,
}

impl Policy for Watcher {
    fn on_event(&mut self, at: Instant, event: &Event) {
        if let Event::Utilized { busy, of } = event {
            self.reported.push((at.ticks(), busy.ticks(), of.ticks()));
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if now == Instant::ZERO {
            *plan.run_queue_mut(CORE) = Script::run_queue(&[always(0)], &[]);
        }
        plan.wake = Instant::from_ticks((now.ticks() / 1_000 + 1) * 1_000);
        plan.wake_metered = true;
    }
    fn meters(&self) -> Meters {
        Meters { controller: true, ..Meters::default() }
    }
}

#[test]
fn it_is_reported_at_metered_wakes() {
    let system = System::new(1, vec![task(0, 5, 10)]);
    let memory = memory(vec![Some(strides())]);
    let mut policy = Watcher::default();
    let options = Options::new(at(3_500));
    let model = SharedMemory::new(&system, &memory);
    run_with(&system, &[job(0, 100_000)], &mut policy, &options, &mut (), model);
    assert_eq!(
        policy.reported,
        [(1_000, 1_000, 1_000), (2_000, 1_000, 1_000), (3_000, 1_000, 1_000)]
    );
}
