//! How late budgets ended: measured, and noted in the journal.
//!
//! A budget is due to end where its meter reaches its limit, and ends when its threads are stopped:
//! what the meter counted beyond the limit by then is how late that was. At the end of a run each
//! core notes how often it was how late ([`Note::Enforced`]), and at once each time that was long
//! ([`Note::Late`]), with the part that the hypervisor took.
//!
//! The kernel counts stolen time in steps of 10 ms only (`/proc/stat`, proc(5)). So what is taken
//! for stolen is never more, in sum, than has been stolen so far and one such step.

use super::Core;
use crate::{Executor, WakeCost};
use maracas_core::journal::{Note, Record};
use maracas_core::{Buckets, CoreId, Duration, Instant, VcpuId};

/// For so long either takes a core from all real-time threads: 50 ms of each second, and up to two
/// ticks (kernel/sched/deadline.c, `fair_server_init`; kernel/sched/rt.c,
/// `sysctl_sched_rt_runtime`).
const THROTTLES: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(45)..=Duration::from_millis(70);
/// The kernel's step: one tick of its user interface (USER_HZ is 100 on every architecture that we
/// run on).
const STEP: Duration = Duration::from_millis(10);

/// How late budgets ended on one core.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Microseconds.
    late: Buckets<0>,
    longest: Duration,
}

impl Default for Ends {
    fn default() -> Self {
        Self { late: Buckets::with_room(), longest: Duration::ZERO }
    }
}

impl Ends {
    /// One more did, so late.
    #[inline]
    pub(crate) fn add(&mut self, late: Duration) {
        self.late.add(late.ticks() / 1000);
        self.longest = self.longest.max(late);
    }
    /// What is to be said of them at the end of a run.
    pub(crate) fn note(&self, core: CoreId) -> Note {
        let Self { late, longest } = self;
        let (count, longest_ns) = (late.count(), longest.ticks());
        Note::Enforced { core, count, longest_ns, lateness: late.clone() }
    }
}

/// The lateness of one core.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    ends: Ends,
    /// What was stolen before the run.
    stolen_before: Option<Duration>,
    /// What was taken for stolen of late ends.
    charged: Duration,
}

impl Lateness {
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

/// What a wake costs, as a note.
const fn reported(cost: WakeCost) -> Note {
    Note::WakeCost { p50_ns: cost.p50.ticks(), p99_ns: cost.p99.ticks() }
}

impl<E: Executor> Core<E> {
    /// The run begins: what a wake costs is noted, and time stolen from now on is the run's.
    pub fn begin(&mut self) {
        self.lateness.stolen_before = self.exec.stolen();
        let cost = self.waking.cost();
        self.note(reported(cost));
    }

    /// What was stolen from this core since the run began.
    fn stolen(&self) -> Duration {
        let before = self.lateness.stolen_before.unwrap_or_default();
        self.exec.stolen().map_or(Duration::ZERO, |now| now.saturating_sub(before))
    }

    /// A VCPU handle was stopped at its limit, if that is why.
    pub(crate) fn note_end(&mut self, index: usize, limit: Option<Duration>) {
        let Some(limit) = limit else { return };
        let vcpu_handle = &self.vcpu_handles[index];
        let meter = vcpu_handle.meter(maracas_core::contract::Mode::Foreground);
        let (id, late) = (vcpu_handle.id, vcpu_handle.counted(meter.saturating_sub(limit)));
        self.lateness.ends.add(late);
        self.note_late(Some(id), late);
        if let Some(cost) = self.waking.news() {
            self.note(reported(cost));
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
        let (core, late_ns, stolen_ns) = (self.id, late.ticks(), part.ticks());
        self.note(Note::Late { core, vcpu, late_ns, stolen_ns });
        if is_throttled {
            self.note(Note::KeptOff { core, took_ns: late_ns });
        }
    }

    /// The run ends: notes what is not noted yet, how late budgets ended here, and what was stolen.
    pub fn end(&mut self) {
        self.report_unreported();
        let core = self.id;
        self.note(self.lateness.ends.note(core));
        let stolen_ns = self.stolen().ticks();
        self.note(Note::Steal { core, stolen_ns });
    }

    pub(crate) fn note(&mut self, note: Note) {
        let at: Instant = self.exec.now();
        self.notes.push(Record::Note { at, note });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_falls_into_powers_of_two() {
        let mut ends = Ends::default();
        for ns in [0, 999, 1000, 1999, 2000, 3_999_000, 10_000_000_000] {
            ends.add(Duration::from_nanos(ns));
        }
        let buckets = ends.late.counts().iter().enumerate();
        let filled: Vec<_> = buckets.filter(|(_, n)| **n > 0).collect();
        assert_eq!(filled, [(0, &2), (1, &2), (2, &1), (12, &1), (24, &1)]);
        assert_eq!(ends.longest, Duration::from_secs(10));
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
