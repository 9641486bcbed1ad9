//! How late budgets ended: measured, and told to the journal.
//!
//! A budget is due to end where its meter reaches its limit, and ends when its threads are
//! stopped: what the meter counted beyond the limit by then is how late that was. At the end of a
//! run each core tells how often it was how late (key [`ENFORCED`]), and at once each time that was
//! long (key [`LATE`]), with the part that the hypervisor took.
//!
//! The kernel tells stolen time in steps of 10 ms only (`/proc/stat`, proc(5)). So what is taken
//! for stolen is never more, in sum, than has been stolen so far and one such step.

use super::Core;
use crate::Executor;
use maracas_core::journal::Record;
use maracas_core::{Duration, Instant, VcpuId};
use std::fmt::Write;

/// The key of a late end: core, nanoseconds late, nanoseconds of these that were stolen.
const LATE: &str = "late";
/// The key of a core's histogram: core, how many ends, nanoseconds of the latest, and how many fell
/// below 1 us, and into [2^(i-1), 2^i) us for i from 1 on.
const ENFORCED: &str = "enforced";
/// The key of the time that was stolen from a core during the run: core, nanoseconds.
const STEAL: &str = "steal";
/// The key of a look that the kernel's fair server or real-time throttling held up: core,
/// nanoseconds.
const RT_THROTTLE: &str = "rt-throttle";
/// For so long either takes a core from all real-time threads: 50 ms of each second, and up to two
/// ticks (kernel/sched/deadline.c, `fair_server_init`; kernel/sched/rt.c,
/// `sysctl_sched_rt_runtime`).
const THROTTLES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(45)..=Duration::from_millis(70);
/// The key of what a wake of an agent costs: median and 99th percentile in nanoseconds.
const WAKE_COST: &str = "wake-cost";
/// The kernel's step: one tick of its user interface (USER_HZ is 100 on every architecture that we
/// run on).
const STEP: Duration = Duration::from_millis(10);
/// The last holds all above 4 s.
const BUCKETS: usize = 24;

/// The lateness of one core.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    buckets: [u64; BUCKETS],
    longest: Duration,
    /// What was stolen before the run.
    stolen_before: Option<Duration>,
    /// What was taken for stolen of late ends.
    charged: Duration,
}

impl Lateness {
    fn add(&mut self, late: Duration) {
        let us = late.ticks() / 1000;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
        self.longest = self.longest.max(late);
    }
    /// The part of `late` that was stolen, where `stolen` was since the run began: on a host that
    /// never lost any time none is.
    fn charge(&mut self, late: Duration, stolen: Duration) -> Duration {
        let ever = self.stolen_before.unwrap_or_default() + stolen;
        if ever.is_zero() {
            return Duration::ZERO;
        }
        let part = late.min((stolen + STEP).saturating_sub(self.charged));
        self.charged += part;
        part
    }
}

impl<E: Executor> Core<E> {
    /// The run begins: what a wake costs is told, and time stolen from now on is the run's.
    pub fn begin(&mut self) {
        self.lateness.stolen_before = self.exec.stolen();
        let cost = self.waking.cost();
        self.note(WAKE_COST, format!("{} {}", cost.p50.ticks(), cost.p99.ticks()));
    }

    /// What was stolen from this core since the run began.
    fn stolen(&self) -> Duration {
        let before = self.lateness.stolen_before.unwrap_or_default();
        self.exec.stolen().map_or(Duration::ZERO, |now| now.saturating_sub(before))
    }

    /// A body was stopped at its limit, if that is why.
    pub(crate) fn note_end(&mut self, index: usize, limit: Option<Duration>) {
        let Some(limit) = limit else { return };
        let body = &self.bodies[index];
        let meter = body.meter(maracas_core::contract::Mode::Foreground);
        let (id, late) = (body.id, body.counted(meter.saturating_sub(limit)));
        self.lateness.add(late);
        self.note_late(Some(id), late);
        if let Some(cost) = self.waking.news() {
            self.note(WAKE_COST, format!("{} {}", cost.p50.ticks(), cost.p99.ticks()));
        }
    }

    /// Something was done so late: an end of this VCPU's budget, or a look for another reason.
    pub(crate) fn note_late(&mut self, vcpu: Option<VcpuId>, late: Duration) {
        if late < self.waking.notable() {
            return;
        }
        let stolen = self.stolen();
        // So long the kernel gives a core to ordinary threads, unless as much was just stolen.
        let fresh = stolen.saturating_sub(self.lateness.charged);
        let is_throttled = THROTTLES.contains(&late) && fresh < late;
        let part = match is_throttled {
            true => Duration::ZERO,
            false => self.lateness.charge(late, stolen),
        };
        let text = format!("{} {} {}", self.id.0, late.ticks(), part.ticks());
        let (at, key) = (self.exec.now(), LATE.to_string());
        self.notes.push(Record::Note { at, key, vcpu, text });
        if is_throttled {
            self.note(RT_THROTTLE, format!("{} {}", self.id.0, late.ticks()));
        }
    }

    /// The run ends: tells what is not told yet, how late budgets ended here, and what was stolen.
    pub fn end(&mut self) {
        self.tell_untold();
        let Lateness { buckets, longest, .. } = &self.lateness;
        let count: u64 = buckets.iter().sum();
        let mut text = format!("{} {count} {}", self.id.0, longest.ticks());
        for bucket in buckets {
            let _ = write!(text, " {bucket}");
        }
        self.note(ENFORCED, text);
        let stolen = self.stolen();
        self.note(STEAL, format!("{} {}", self.id.0, stolen.ticks()));
    }

    pub(crate) fn note(&mut self, key: &str, text: String) {
        let at: Instant = self.exec.now();
        self.notes.push(Record::Note { at, key: key.to_string(), vcpu: None, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_falls_into_powers_of_two() {
        let mut lateness = Lateness::default();
        for ns in [0, 999, 1000, 1999, 2000, 3_999_000, 10_000_000_000] {
            lateness.add(Duration::from_nanos(ns));
        }
        let filled: Vec<_> = lateness.buckets.iter().enumerate().filter(|(_, n)| **n > 0).collect();
        assert_eq!(filled, [(0, &2), (1, &2), (2, &1), (12, &1), (23, &1)]);
        assert_eq!(lateness.longest, Duration::from_secs(10));
    }

    #[test]
    fn no_more_is_stolen_than_was() {
        let ms = Duration::from_millis;
        let mut lateness = Lateness::default();
        assert_eq!(lateness.charge(ms(7), ms(0)), ms(0), "nothing was ever stolen");
        assert_eq!(lateness.charge(ms(7), ms(10)), ms(7));
        assert_eq!(lateness.charge(ms(20), ms(10)), ms(13), "with one step");
        assert_eq!(lateness.charge(ms(20), ms(10)), ms(0));
        assert_eq!(lateness.charge(ms(20), ms(40)), ms(20));
        // A host that lost time before: the first step may be on its way.
        let before = Some(ms(30));
        let mut lateness = Lateness { stolen_before: before, ..Lateness::default() };
        assert_eq!(lateness.charge(ms(7), ms(0)), ms(7));
        assert_eq!(lateness.charge(ms(7), ms(0)), ms(3));
    }
}
