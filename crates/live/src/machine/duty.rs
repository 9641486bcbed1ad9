//! A core that stands for a slower one: it runs programs only for a share of the time.
//!
//! A real-time thread of ours takes the core for the rest of every cycle. It stands above all
//! foreground and below agents and freeze threads, and it spins: on an idle core other programs
//! would run fast. The kernel charges what it takes to no meter of a VCPU, so a VCPU that is
//! counted q nanoseconds here has had q / share of the slow core ([`maracas_live_core::Stretch`]).
//!
//! A cycle is short ([`CYCLE`]), so that programs see a slow core and not one that stops. Its two
//! switches took 8 us from the program that ran (a VM without preemption in the kernel), which is
//! 1.6 % of a core at half a duty, and with their interrupts the program did 1 to 2 % less in its
//! time.
//!
//! # What is left for others
//! Spinning and foreground together must leave a tenth of the core to ordinary threads, or the
//! kernel's fair server takes the core from all real-time threads for 50 ms a second. So
//! reservations may take less of a slower core's time than of a full one's ([`capacity`]). Where
//! foreground takes all that it may, background has that tenth, of the real core's time.

use super::error::Error;
use crate::clock::{Clock, thread_ns};
use crate::host::HardwareCore;
use crate::host::sched::is_on;
use crate::setup::Setup;
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Duration, Instant, Rate};
use std::sync::atomic::{AtomicBool, Ordering};

/// The length of a cycle, as a mean: time slices and device waits of ordinary programs are a
/// millisecond and longer. What a program waits for less long ends in a stop and seems longer.
const CYCLE: Duration = Duration::from_millis(1);

/// The largest denominator of a share: a cycle's microseconds resolve no finer one.
const LARGEST: u64 = 1000;

/// The part of a core's time that real-time threads may take without the fair server stepping in:
/// measured at 9/10 that it does not, and at 93/100 that it does.
const REAL_TIME: (u64, u64) = (9, 10);

/// The share of a core's time that reservations may take where it runs programs `share` of the
/// time: of a full core 9/10; of a slower one so much that spinning and foreground together take
/// 9/10 of the real one, for example 4/5 where `share` is 1/2.
pub const fn capacity(share: Rate) -> Rate {
    let (num, den) = (share.num() as u128, share.den() as u128);
    let (most, whole) = (REAL_TIME.0 as u128, REAL_TIME.1 as u128);
    // most / whole - (1 - num / den), over num / den.
    let left = (num * whole).saturating_sub(den * (whole - most));
    if left == 0 { Rate::ZERO } else { Rate::new(left as u64, (num * whole) as u64) }
}

impl Setup {
    /// The share of its time in which `core` runs programs.
    pub(crate) fn share(&self, core: CoreId) -> Rate {
        self.duty.get(usize::from(core.0)).copied().unwrap_or(Rate::ONE)
    }

    /// Refuses shares that no duty cycle can give.
    pub(super) fn check_duty(&self, fifo: bool) -> Result<(), Error> {
        for core in self.system.core_ids() {
            let share = self.share(core);
            let why = if share > Rate::ONE {
                format!("{core} cannot run programs {share} of the time; a full core runs them 1")
            } else if share.den() > LARGEST || capacity(share) == Rate::ZERO {
                format!(
                    "{core} cannot run programs {share} of the time; it must be above 1/10, and a \
                     fraction of numbers up to {LARGEST}"
                )
            } else if share < Rate::ONE && !fifo {
                format!("{core} can be slowed down only with SCHED_FIFO; see `maracas doctor`")
            } else {
                continue;
            };
            return Err(Error::Duty(why));
        }
        Ok(())
    }

    /// What the journal says of cores that are slowed down: one note each, with the key
    /// `emulated`.
    pub(super) fn duty_notes(&self) -> impl Iterator<Item = Record> {
        let slowed = self.system.core_ids().map(|core| (core, self.share(core)));
        slowed.filter(|(_, share)| *share < Rate::ONE).map(|(core, share)| {
            let text = format!("{core} runs programs {share} of the time");
            Record::Note { at: Instant::ZERO, note: Note::Emulated(text) }
        })
    }
}

/// The life of the thread that takes its core for all but `share` of every cycle, until `halt`. Not
/// of what those above it take: `taken` is what they have had in all. Programs have `share` of the
/// rest, as on a slower core they would lose the same time to agents and not twice as much of what
/// they have.
///
/// What it takes is its own processor time, with the switches to it and from it, and its part of a
/// cycle does not shrink where it begins late or is interrupted. Each cycle begins at an instant
/// that was fixed before, so that lateness does not add up. But where this thread itself did not
/// get the core for a whole cycle and longer, no program of ours did, and that is not made up for.
///
/// On another core than `core` it takes nothing: a core that goes offline gives its threads to the
/// others, where no share is set for this one.
///
/// Cycles are of uneven length, or a program that waits and works by turns would fall into step
/// with them, and its speed would jump where its turn is about a cycle long.
pub(super) fn live(
    share: Rate,
    core: HardwareCore,
    clock: &Clock,
    wake_cost: Duration,
    taken: impl Fn() -> Duration,
    halt: &AtomicBool,
) {
    // Two switches and a timer a cycle may take a twentieth of it.
    let length = CYCLE.max(wake_cost * 40);
    let jitter = Duration::from_nanos(length.ticks() / 2);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let own = || Duration::from_nanos(thread_ns());
    // What those above had when a cycle began, and how much of that no cycle has been without yet.
    let (mut above, mut without) = (taken(), Duration::ZERO);
    // What this thread's own time is to be.
    let mut until = own();
    let mut begin = clock.now();
    while !halt.load(Ordering::Acquire) {
        let cycle = length.saturating_sub(jitter) + draw(&mut random, jitter);
        let had = taken();
        without += had.saturating_sub(std::mem::replace(&mut above, had));
        let left = cycle.saturating_sub(without);
        without = without.saturating_sub(cycle);
        until += left.saturating_sub(share.floor_of(left));
        while own() < until && is_on(core) && !halt.load(Ordering::Acquire) {}
        begin += cycle;
        let now = clock.now();
        if now > begin + length || !is_on(core) {
            (begin, until) = (now + share.floor_of(cycle), own());
        }
        clock.sleep_until(begin);
    }
}

/// Below twice `jitter`: by how much the next cycle is longer than the shortest (xorshift,
/// Marsaglia 2003).
fn draw(random: &mut u64, jitter: Duration) -> Duration {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    Duration::from_nanos(*random % (2 * jitter.ticks()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::platform::Platform;
    use crate::host::sched;

    #[test]
    fn a_core_is_taken_for_its_part_of_the_cycles_and_no_other_core_is() {
        // In milliseconds of 200, at a quarter of the duty: three quarters of it, or less beside
        // others, since nothing is real-time here.
        let spent = |core: HardwareCore, there: HardwareCore| {
            let halt = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let spin = scope.spawn(|| {
                    sched::set_affinity(0, there).expect("a core of this process");
                    let none = || Duration::ZERO;
                    live(Rate::new(1, 4), core, &Clock::start(), Duration::ZERO, none, &halt);
                    thread_ms()
                });
                std::thread::sleep(std::time::Duration::from_millis(200));
                halt.store(true, Ordering::Release);
                spin.join().expect("it ends")
            })
        };
        let cores = Platform::detect().expect("readable").cores;
        let (here, away) = (cores[0], HardwareCore(u32::MAX));
        let (taken, left) = (spent(here, here), spent(away, here));
        eprintln!("taken {taken:.1} ms, elsewhere {left:.1} ms");
        assert!(taken > 5.0, "{taken} ms");
        assert!(left < taken / 2.0, "{left} ms of another core, {taken} ms of its own");
    }

    /// The processor time of the calling thread.
    fn thread_ms() -> f64 {
        crate::clock::thread_ns() as f64 / 1e6
    }

    #[test]
    fn a_tenth_of_the_real_core_is_always_left() {
        let of = |num, den| capacity(Rate::new(num, den));
        assert_eq!(of(1, 1), Rate::new(9, 10));
        assert_eq!(of(1, 2), Rate::new(8, 10));
        assert_eq!(of(1, 4), Rate::new(6, 10));
        assert_eq!([of(1, 10), of(1, 50), of(0, 1)], [Rate::ZERO; 3]);
    }
}
