//! Has one slot of the kernel's tables by more VCPUs, one after the other, than there are slots.
//!
//! A program that spins is a thread of one VCPU after the other. Each has a budget of its own, a
//! meter that begins at 0, and leaves; the run queue still has a grant without an end of the one
//! before it, which belongs to nobody.

use super::{CORE, Programs, Result, attach, foreground, raise, spinner, tell};
use maracas_kernel::{Grant, Queue, Scheduler, VCPUS};
use std::time::{Duration, Instant};

/// How many have the slot.
const TIMES: u32 = VCPUS + 76;
/// What each may run, in nanoseconds, and how far its meter may be off: the emulator's other core
/// has its turn for 50 us (docs/lab.md).
const BUDGET_NS: u64 = 300_000;
const OFF_NS: u64 = 75_000;
/// How often something is looked at, and for how long at most.
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_millis(500);

/// What came of all.
#[derive(Default)]
struct Seen {
    /// Had their budget and no more.
    served: u32,
    /// The one before it was refused a thread.
    refused: u32,
    /// Let go of the slot.
    left: u32,
}

/// Waits until something is so. Whether it is.
fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_so()? {
            return Ok(true);
        }
        std::thread::sleep(LOOK);
    }
    Ok(false)
}

pub(super) fn run(object: &str) -> Result<()> {
    let mut programs = Programs(vec![spinner(&["spin", "confined"])?]);
    let thread = programs.0[0].id() as i32;
    let mut scheduler = attach(object, 1)?;
    raise()?;
    tell(&mut programs.0)?;
    let mut seen = Seen::default();
    for number in (0..TIMES).map(|time| time * VCPUS) {
        serve(&mut scheduler, thread, number, &mut seen)?;
        while scheduler.next_event()?.is_some() {}
    }
    let Seen { served, refused, left } = seen;
    println!("slot had_by {TIMES} served {served} refused {refused} left {left}");
    scheduler.check()?;
    Ok(())
}

/// The VCPU of this number comes, uses its budget, and leaves.
fn serve(scheduler: &mut Scheduler, thread: i32, number: u32, seen: &mut Seen) -> Result<()> {
    let before = number.checked_sub(VCPUS);
    scheduler.clear(number);
    scheduler.settle(number, CORE)?;
    let is_refused = |before| scheduler.join(thread, before).is_err();
    seen.refused += u32::from(before.is_none_or(is_refused));
    scheduler.join(thread, number)?;
    let mut queue = Queue::default();
    let stale = before.map(|before| Grant::new(before, u64::MAX));
    let own = Grant::new(number, BUDGET_NS);
    assert!(stale.into_iter().chain([own]).all(|it| queue.push_foreground(it)), "it has room");
    scheduler.send(CORE, &queue)?;
    let is_spent = until(|| Ok(foreground(scheduler, number) + OFF_NS >= BUDGET_NS))?;
    std::thread::sleep(LOOK);
    let is_held = foreground(scheduler, number) <= BUDGET_NS + OFF_NS;
    seen.served += u32::from(is_spent && is_held);
    let has_left = until(|| {
        scheduler.tend(number, true, Duration::ZERO)?;
        Ok(scheduler.vcpu(number).is_idle)
    })?;
    seen.left += u32::from(has_left);
    Ok(())
}
