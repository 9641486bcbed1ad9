//! Tasks whose releases are not known before: sporadic ones, and those with a deadline before the
//! period's end, which count as sporadic ones with that period.

use super::DpWrap;
use maracas_core::{Arrival, Duration, Job, System, Vcpu};

/// How much of a job's work may be undone at its deadline, as what is kept for tasks that wait is
/// rounded: a tick for each of them.
pub(super) fn tolerance(system: &System) -> Duration {
    let waits = |vcpu: &&Vcpu| matches!(standing(vcpu).0, Standing::Waits { .. });
    Duration::from_ticks(system.vcpus.iter().filter(waits).count() as u64)
}

/// Whether a task has a share of the strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// Always, from its offset on.
    Periodic,
    /// From a release to its deadline.
    Active,
    /// Not until its next job, which begins at `from` at the soonest: where the last one's deadline
    /// was.
    Waits { from: u64 },
    /// Never again.
    Gone,
}

/// How a task stands before its first job, and when that is released at the soonest, in ticks.
pub(super) fn standing(vcpu: &Vcpu) -> (Standing, u64) {
    match vcpu.arrival {
        Arrival::Periodic { offset } if vcpu.reservation.deadline >= vcpu.reservation.period => {
            (Standing::Periodic, offset.ticks())
        }
        Arrival::Periodic { .. } | Arrival::Sporadic | Arrival::None => {
            (Standing::Waits { from: 0 }, 0)
        }
    }
}

impl DpWrap {
    /// A job was released; if its task is one of these, it begins by and by.
    pub(super) fn arrive(&mut self, job: &Job) {
        let Some(place) = self.places.get(job.id.vcpu).copied() else { return };
        if matches!(self.tasks[place].standing, Standing::Active | Standing::Waits { .. }) {
            self.arrived.push((job.release.ticks(), place));
        }
    }

    /// The first job that begins before the slice ends, and when.
    pub(super) fn next_within(&self) -> Option<(u64, usize)> {
        let begins = self.arrived.iter().filter_map(|(at, place)| {
            let Standing::Waits { from } = self.tasks[*place].standing else { return None };
            Some((from.max(*at), *place)).filter(|(at, _)| *at < self.end)
        });
        begins.min()
    }

    /// At the beginning of a slice: who is past its deadline waits, and whose next job is there is
    /// active. When the slice must end, and whether any task waits.
    pub(super) fn open_windows(&mut self) -> (u64, bool) {
        let (start, mut limit) = (self.start, u64::MAX);
        let (mut waits, mut shares) = (None, false);
        for place in 0..self.tasks.len() {
            let deadline = self.tasks[place].release.saturating_add(self.tasks[place].period);
            if self.tasks[place].standing == Standing::Active && deadline <= start {
                self.tasks[place].standing = Standing::Waits { from: deadline };
            }
            if let Standing::Waits { from } = self.tasks[place].standing {
                self.tasks[place].given = 0;
                self.tasks[place].release = start;
                if from <= start
                    && let Some(at) = self.take_arrival(place, start)
                {
                    self.tasks[place].release = from.max(at);
                    self.tasks[place].standing = Standing::Active;
                }
            }
            let task = &self.tasks[place];
            // Of one that waits, the first deadline that it may have.
            let end = task.release.saturating_add(task.period).max(start + 1);
            match task.standing {
                Standing::Active => limit = limit.min(end),
                Standing::Waits { .. } => waits = Some(waits.unwrap_or(u64::MAX).min(end)),
                Standing::Periodic => shares = true,
                Standing::Gone => {}
            }
        }
        // Where all wait, the slice ends when the first job comes.
        let shares = shares || limit < u64::MAX;
        (waits.filter(|_| shares).map_or(limit, |end| end.min(limit)), waits.is_some())
    }

    /// The longest strip that leaves `kept` ticks free from the slice's second tick on.
    pub(super) fn most(&self, kept: u64) -> u64 {
        let (length, cores) = (self.end - self.start, self.run_queues.len() as u64);
        let all = length.saturating_mul(cores);
        if kept == 0 {
            return all;
        }
        // Something is kept, so there is a second tick. Each core on which the strip lies does one
        // tick of it before that.
        let later = (all - cores).saturating_sub(kept);
        all.min(later / (length - 1) * length + later % (length - 1) + 1)
    }

    /// The first job of the task that was released by `now`, which begins.
    fn take_arrival(&mut self, place: usize, now: u64) -> Option<u64> {
        let own = |(at, other): &(u64, usize)| *other == place && *at <= now;
        let first = self.arrived.iter().filter(|one| own(one)).map(|one| one.0).min()?;
        let index = self.arrived.iter().position(|one| *one == (first, place))?;
        self.arrived.swap_remove(index);
        Some(first)
    }

    /// How much of the slice is free from so many ticks after its beginning on.
    fn room(&self, from: u64) -> u64 {
        let ((core, filled), length) = (self.strip, self.end - self.start);
        let cores = (self.run_queues.len() - 1 - core) as u64;
        (length - filled.max(from)).saturating_add(cores.saturating_mul(length - from))
    }

    /// A job of a task that waits begins within the slice.
    pub(super) fn enter(&mut self, place: usize, at: u64) {
        if self.end == u64::MAX {
            // All wait: another slice begins with it.
            self.end = at.max(self.start);
            return;
        }
        self.take_arrival(place, at);
        let from = at.max(self.start) - self.start;
        let task = &self.tasks[place];
        let (whole, rest) = task.share_of((self.end - at).min(task.period));
        let left = self.end - self.start - from;
        let others = (0..).zip(&self.tasks).filter(|(other, _)| *other != place);
        let waits = others.filter(|(_, task)| matches!(task.standing, Standing::Waits { .. }));
        let kept: u64 = waits.map(|(_, task)| task.share_of(left).0).sum();
        let room = self.room(from);
        let task = &mut self.tasks[place];
        // One more tick if there is room beside what is kept for the others.
        let more = u64::from(rest > 0 && whole + kept < room);
        task.chunk = (whole + more).min(left).min(room);
        self.counts.short += u64::from(task.chunk < whole);
        (task.release, task.given, task.standing) = (at, task.chunk, Standing::Active);
        let before = task.core;
        self.run_queues[before.0 as usize].retain(|other| *other != place);
        self.stale.insert(before);
        self.append(place, from);
        self.stale.insert(self.tasks[place].core);
        self.cross(place);
    }

    /// Has what was left of a task's jobs at their deadlines, as decisions came late or jobs needed
    /// more than C, stand behind the others, on the core where it was.
    pub(super) fn leave_rest(&mut self, place: usize) {
        let task = &mut self.tasks[place];
        task.cut = None;
        if !task.backlog.is_idle() {
            task.given = task.cost.ticks();
            self.run_queues[task.core.0 as usize].push(place);
        }
    }
}
