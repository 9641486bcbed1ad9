//! Demand that comes as jobs: live, the runtime itself is the source of releases.

use maracas_core::{Arrival, Duration, Event, Instant, Job, JobId, Reservation, Vcpu, VcpuId};
use std::ops::Range;

/// The jobs of one VCPU.
///
/// A VCPU whose programs never report an end of a job is taken as always runnable in its present
/// job, which ends when it has received C, and with the next release at the latest: otherwise a
/// program that knows nothing of jobs would hold its core for ever under a job policy.
#[derive(Debug)]
pub struct Demand {
    vcpu: VcpuId,
    reservation: Reservation,
    next: Instant,
    released: u32,
    completed: u32,
    observed: bool,
}

impl Demand {
    /// The demand of `vcpu`, whose first program begins at `now`; `None` for a VCPU without jobs.
    /// Releases keep to the grid of offset and period; a sporadic VCPU releases at its highest
    /// rate.
    pub fn new(vcpu: &Vcpu, now: Instant) -> Option<Self> {
        let reservation = vcpu.reservation;
        let first = match vcpu.arrival {
            Arrival::Periodic { offset } => Instant::ZERO + offset,
            Arrival::Sporadic => now,
            Arrival::None => return None,
        };
        let late = now.saturating_since(first).ticks().div_ceil(reservation.period.ticks().max(1));
        let next = first + reservation.period * late;
        let vcpu = vcpu.id;
        Some(Self { vcpu, reservation, next, released: 0, completed: 0, observed: false })
    }
    /// When the next job is released.
    pub const fn next_due(&self) -> Instant {
        self.next
    }
    /// What is due by `now`, one event a call, each at its nominal instant.
    pub fn next_event(&mut self, now: Instant) -> Option<(Instant, Event)> {
        if self.next > now {
            return None;
        }
        let at = self.next;
        if !self.observed && self.completed < self.released {
            self.completed += 1;
            let index = self.completed - 1;
            return Some((at, Event::Completed(JobId { vcpu: self.vcpu, index })));
        }
        let id = JobId { vcpu: self.vcpu, index: self.released };
        self.released += 1;
        self.next = at + self.reservation.period.max(Duration::from_nanos(1));
        let deadline = at + self.reservation.deadline;
        Some((at, Event::Released(Job { id, release: at, deadline })))
    }
    /// A program says that this job is done; which jobs end by that, in order: those before it of
    /// which it never learned too. None where that cannot be.
    pub fn complete(&mut self, index: u32) -> Range<u32> {
        self.observed |= index < self.released;
        if !(self.completed..self.released).contains(&index) {
            return 0..0;
        }
        let ended = self.completed..index + 1;
        self.completed = ended.end;
        ended
    }
    /// Whether a released job has not ended.
    pub const fn is_pending(&self) -> bool {
        self.completed < self.released
    }
    /// Ends the present job of a silent program, which has received C.
    pub fn presume_complete(&mut self) -> Option<JobId> {
        let presumed = !self.observed && self.completed < self.released;
        self.completed += u32::from(presumed);
        presumed.then(|| JobId { vcpu: self.vcpu, index: self.completed - 1 })
    }
    /// C, as a job of a silent program may receive it.
    pub const fn cost(&self) -> Duration {
        self.reservation.budget
    }
    /// The reservation was changed; the next release stays where it is.
    pub const fn change(&mut self, reservation: Reservation) {
        self.reservation = reservation;
    }
    /// Whether jobs were released and no program ever reported an end.
    pub const fn is_silent(&self) -> bool {
        self.released > 0 && !self.observed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn releases_keep_to_the_grid_and_silent_programs_pile_up_nothing() {
        let vcpu = Vcpu::new(4, ms(2), ms(10)).periodic();
        let mut demand = Demand::new(&vcpu, Instant::ZERO + ms(15)).unwrap();
        let id = |index| JobId { vcpu: VcpuId(4), index };
        assert_eq!(demand.next_due(), Instant::ZERO + ms(20));
        assert_eq!(demand.next_event(Instant::ZERO + ms(19)), None);
        let now = Instant::ZERO + ms(31);
        let mut seen = Vec::new();
        while let Some((_, event)) = demand.next_event(now) {
            seen.push(event);
        }
        let job = |index, at| {
            let release = Instant::ZERO + ms(at);
            Event::Released(Job { id: id(index), release, deadline: release + ms(10) })
        };
        assert_eq!(seen, [job(0, 20), Event::Completed(id(0)), job(1, 30)]);
        assert!(demand.is_silent());
        assert_eq!(demand.presume_complete(), Some(id(1)));
        assert_eq!(demand.presume_complete(), None);
        assert!(demand.next_event(Instant::ZERO + ms(40)).is_some());
        assert_eq!(demand.complete(0), 0..0, "job 0 has ended already");
        assert!(!demand.is_silent(), "but the program has spoken");
        assert_eq!(demand.presume_complete(), None);
        assert_eq!(demand.complete(2), 2..3);
        assert_eq!(demand.complete(2), 0..0, "job 2 has ended");
        assert_eq!(demand.complete(3), 0..0, "job 3 was not released");
    }

    #[test]
    fn jobs_of_which_a_program_never_learned_end_with_the_next() {
        let vcpu = Vcpu::new(4, ms(2), ms(10)).periodic();
        let mut demand = Demand::new(&vcpu, Instant::ZERO).unwrap();
        let release = |demand: &mut Demand, until| {
            std::iter::from_fn(|| demand.next_event(Instant::ZERO + ms(until))).count()
        };
        release(&mut demand, 0);
        assert_eq!(demand.complete(0), 0..1);
        assert_eq!(release(&mut demand, 50), 5);
        assert_eq!(demand.complete(4), 1..5);
        assert!(demand.is_pending());
        assert_eq!(demand.complete(5), 5..6);
        assert!(!demand.is_pending());
    }
}
