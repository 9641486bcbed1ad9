//! What VCPUs that left, or changed, still hold: the one rule by which room that was given up
//! becomes free, for every policy that admits at run time.
//!
//! A *hold* is a reservation that counts in every test beside those of the VCPUs that are there.
//! So at each instant the set of all that is there or held passes the policy's test. Room is free
//! when its hold ends; a newcomer that would fit then, and not before, waits for its answer.
//!
//! # Deadline order: until the deadline of the last job that was released
//! A. Srinivasan, J. H. Anderson, "Fair Scheduling of Dynamic Task Systems on Multiprocessors",
//! Journal of Systems and Software 77, 2005: a task may leave when it is ahead of its share no
//! longer (its zero-lag time). Of a job that used all of C that is its deadline.
//! *One core.* Let a job miss its deadline d, and let b be the last instant before d at which no
//! job released before b with a deadline by d was pending. All that runs in [b, d) are jobs
//! released in it that are due by d, and each asks for C at most, which is C/D times the length of
//! its window [r, r + D]. In that window its task is there or held. So they ask for no more than
//! the integral of the densities of all that is there or held over [b, d), at most d - b.
//! *Global EDF, test of Goossens, Funk and Baruah (2003).* Their proof holds EDF against a schedule
//! in which each job runs at its density from release to deadline, and looks at the window of one
//! job only: in it, the sum of densities must be at most m - (m - 1) times that job's own. The job
//! counts in the test all through its window, so the test at each instant is enough. A job whose
//! task left before it was complete counts as one of the length that it got.
//! *After a change* the denser one of both counts until the deadline of the last job released
//! before it: of one task no two windows overlap.
//!
//! # Fixed priorities: until all busy windows that were open have closed
//! M. Joseph, P. Pandya, "Finding Response Times in a Real-Time System", The Computer Journal 1986:
//! where a set passes, a window in which jobs of some priority or above are pending all the time is
//! no longer than the response time of the least urgent of them, which is within its period. Let a
//! task leave at t. All windows that hold work of it opened before t, so each of them closes within
//! the longest period of those that are there or come before it closes; and all that ran in it is
//! there or held when it closes, so that the set that passed bounds it. For sporadic servers what
//! was used must have come back too: else coming and going would bring budgets at will. When the
//! core rests (nothing pending, or nothing on a budget) no window is open. *After a change* of C
//! alone the greater C counts so long; of T or D, the greatest C with the shortest T and D, if that
//! keeps the order. Else the change waits until the core rests.
//!
//! # Shares of all cores (U-EDF, QPS): until the deadline of the last job that was released
//! Up to then a job may still use what was set aside for it, and the rates of all that is there or
//! held are within the cores. Under U-EDF a hold is a place in its order too, and who came and did
//! not begin holds its own up to then. What else a newcomer waits for is said in the policy's file.

use alloc::vec::Vec;
use maracas_core::{CoreId, Duration, Instant, Vcpu, VcpuId};

/// What a VCPU that left, or changed, still holds.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) core: CoreId,
    /// The reservation that counts. One that is still there counts as this instead.
    pub(crate) vcpu: Vcpu,
    /// From then on it is free, at the latest.
    pub(crate) until: Instant,
    /// If the core rests, it is free from then on.
    back: Instant,
    /// When it began, where it lasts as long as windows that were open then.
    opened: Option<Instant>,
}

/// All that is held.
#[derive(Clone, Default, Debug)]
pub(crate) struct Holds(Vec<Hold>);

impl Holds {
    /// Whether nothing is.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// What is held of `core`.
    pub(crate) fn on(&self, core: CoreId) -> impl Iterator<Item = &Hold> {
        self.0.iter().filter(move |hold| hold.core == core)
    }
    /// When the first of them ends.
    pub(crate) fn next(&self) -> Instant {
        self.0.iter().map(|hold| hold.until).min().unwrap_or(Instant::NEVER)
    }
    /// Ends those that have lasted long enough at `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|hold| hold.until > now);
    }
    /// `vcpu` counts on `core` until `deadline`.
    pub(crate) fn until_deadline(&mut self, core: CoreId, vcpu: Vcpu, deadline: Instant) {
        self.0.push(Hold { core, vcpu, until: deadline, back: Instant::ZERO, opened: None });
    }
    /// `vcpu` counts on `core` until the windows open at `at` have closed, the longest of which is
    /// `longest`, and not before `back`.
    pub(crate) fn until_windows_close(
        &mut self,
        core: CoreId,
        vcpu: Vcpu,
        at: Instant,
        back: Instant,
        longest: Duration,
    ) {
        let until = back.max(at + longest);
        self.0.push(Hold { core, vcpu, until, back, opened: Some(at) });
    }
    /// One with this period came to `core`: its windows may have opened before it came.
    pub(crate) fn joined(&mut self, core: CoreId, period: Duration) {
        for hold in self.0.iter_mut().filter(|hold| hold.core == core) {
            if let Some(opened) = hold.opened {
                hold.until = hold.until.max(opened + period);
            }
        }
    }
    /// No VCPU on `core` has anything to do that was promised: no window is open.
    pub(crate) fn rest(&mut self, core: CoreId) {
        let here = self.0.iter_mut().filter(|hold| hold.core == core);
        here.for_each(|hold| hold.until = hold.until.min(hold.back));
    }
    /// `vcpu` came back to `core`, where it counts by itself.
    pub(crate) fn forget(&mut self, core: CoreId, vcpu: VcpuId) {
        self.0.retain(|hold| hold.core != core || hold.vcpu.id != vcpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_ends_by_itself_or_when_its_core_rests() {
        let (at, ticks) = (Instant::from_ticks, Duration::from_ticks);
        let vcpu = |id| Vcpu::new(id, ticks(2), ticks(10));
        let mut holds = Holds::default();
        holds.until_deadline(CoreId(0), vcpu(0), at(9));
        holds.until_windows_close(CoreId(1), vcpu(1), at(5), at(8), ticks(20));
        assert_eq!(holds.next(), at(9));
        // A newcomer with a longer period may wait for what ran before it came.
        holds.joined(CoreId(1), ticks(30));
        holds.expire(at(25));
        assert_eq!(holds.on(CoreId(1)).map(|hold| hold.until).collect::<Vec<_>>(), [at(35)]);
        // What was used has come back, but another VCPU may have waited for it until the rest.
        holds.rest(CoreId(1));
        assert_eq!(holds.next(), at(8));
        holds.expire(at(25));
        assert!(holds.is_empty());
    }
}
