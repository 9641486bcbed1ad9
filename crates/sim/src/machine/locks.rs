//! The law on cores whose jobs share resources: the run queue's order, but for jobs that hold one,
//! wait for one, or give way to one that does ([`crate::locks`]).

use super::Machine;
use crate::locks::{Locks, Next};
use crate::memory::Contention;
use crate::workload::NONE;
use maracas_core::contract::{End, Event, Grant, Limit, MemoryLimit, Mode};
use maracas_core::dispatch::{Readings, Running, counts};
use maracas_core::{CoreId, CoreSet, Duration, VcpuId};

impl<C: Contention> Machine<'_, C> {
    /// The job at work of `vcpu` is the next one, if it was not yet.
    pub(super) fn begin_job(&mut self, vcpu: u32) {
        let Some(mut locks) = self.demands.locks.take() else { return };
        let demand = self.demands.of(vcpu);
        if locks.cuts(vcpu)
            && demand.has_pending()
            && let Some(piece) = locks.begin(vcpu, demand.job_at_work(), self.demands.left(vcpu))
        {
            self.demands.set_left(vcpu, piece);
        }
        self.demands.locks = Some(locks);
    }
    /// The job at work of `vcpu` was complete.
    pub(super) fn end_job(&mut self, vcpu: u32) {
        if let Some(locks) = &mut self.demands.locks {
            locks.complete(vcpu);
        }
        self.begin_job(vcpu);
    }

    /// The piece of `vcpu` on `core` ends within a job, or with it. Returns whether the job goes
    /// on.
    pub(super) fn pass_cut(&mut self, vcpu: u32, core: usize, concerned: &mut CoreSet) -> bool {
        let Some(locks) = &mut self.demands.locks else { return false };
        let Some(next) = locks.next(vcpu, self.now) else { return false };
        concerned.insert(CoreId(core as u16));
        // Without a resource its section makes no progress.
        let left = match next {
            Next::Asked => Duration::MAX,
            Next::GaveBack(left) => left,
        };
        self.demands.set_left(vcpu, left);
        !left.is_zero()
    }

    /// Counts who was blocked up to now. Called before anything happens now.
    pub(super) fn count_blocking(&mut self) {
        let Some(mut locks) = self.demands.locks.take() else { return };
        if !locks.is_counted(self.now) {
            let first = |core| self.first_pending(core);
            let stands =
                |vcpu: &u32| self.demands.of(*vcpu).on == NONE || locks.awaited(*vcpu).is_some();
            let cores = 0..self.cores.len();
            let blocked: Vec<u32> = cores.filter_map(first).filter(stands).collect();
            locks.count(self.now, blocked.into_iter());
        }
        self.demands.locks = Some(locks);
    }

    /// The VCPU with the first pending job of a core.
    fn first_pending(&self, core: usize) -> Option<u32> {
        self.pending(core).map(|grant| grant.vcpu.0).next()
    }
    fn pending(&self, core: usize) -> impl Iterator<Item = &Grant> {
        let entries = self.plan.run_queue(CoreId(core as u16)).foreground.iter();
        entries.filter(|grant| {
            counts(grant, self.now, &self.demands) && self.demands.runnable(grant.vcpu)
        })
    }

    /// Has all cores run what the law says.
    pub(super) fn apply_law_with_locks(&mut self) {
        let Some(mut locks) = self.demands.locks.take() else { return };
        for core in 0..self.cores.len() {
            self.settle(core);
        }
        self.grant(&mut locks);
        let mut wanted: Vec<_> =
            (0..self.cores.len()).map(|core| self.first_of(core, &locks)).collect();
        if locks.helps() {
            help(&mut wanted, &locks);
        }
        for (core, choice) in wanted.iter().enumerate() {
            match choice {
                Some(run) if run.vcpu.0 == self.cores[core].running => {
                    self.cores[core].until = run.until;
                    self.retime(core);
                }
                None if self.cores[core].running == NONE => {}
                Some(_) | None => self.choices.push((core, *choice)),
            }
        }
        for place in 0..self.choices.len() {
            let core = self.choices[place].0;
            let vcpu = self.cores[core].running;
            if vcpu == NONE {
                continue;
            }
            let moves = wanted.iter().flatten().any(|run| run.vcpu.0 == vcpu);
            self.stop(
                core,
                match moves {
                    true => End::Moved,
                    false if locks.is_suspended(vcpu) => End::Blocked,
                    false => End::Preempted,
                },
            );
        }
        for (core, choice) in std::mem::take(&mut self.choices) {
            if let Some(run) = choice {
                self.start(core, run);
            }
        }
        self.demands.locks = Some(locks);
    }

    /// Issues and grants requests.
    fn grant(&mut self, locks: &mut Locks) {
        let is_first = |vcpu: u32| {
            let core = self.demands.of(vcpu).run_queue;
            core != NONE && self.first_pending(core as usize) == Some(vcpu)
        };
        let suspended: Vec<bool> =
            (0..self.demands.len() as u32).map(|vcpu| locks.is_suspended(vcpu)).collect();
        for (vcpu, work) in locks.settle(self.now, is_first) {
            self.demands.set_left(vcpu, work);
            if suspended[vcpu as usize] && self.demands.of(vcpu).on == NONE {
                let woke = Event::Woke { vcpu: VcpuId(vcpu), on_behalf: None, exact: true };
                self.tell(self.place_of(vcpu), &woke);
            }
        }
    }

    /// What a core runs by its own run queue.
    fn first_of(&self, core: usize, locks: &Locks) -> Option<Running> {
        let donor = locks.donor(self.pending(core).map(|grant| grant.vcpu.0));
        let may_run = |grant: &&Grant| {
            let vcpu = grant.vcpu.0;
            let spent = grant.until != Limit::NEVER
                && self.demands.meter(grant.vcpu, Mode::Foreground) >= grant.until.0;
            !spent && donor != Some(vcpu) && !locks.is_suspended(vcpu)
        };
        let first = self.pending(core).filter(may_run);
        first.min_by_key(|grant| locks.order(grant.vcpu.0)).map(|grant| Running {
            vcpu: grant.vcpu,
            mode: Mode::Foreground,
            until: grant.until,
            memory: grant.memory,
        })
    }
}

/// Gives the cores on which jobs spin to the holders that run nowhere, of several that wait for one
/// the first's.
fn help(wanted: &mut [Option<Running>], locks: &Locks) {
    let mut spinning: Vec<(u64, usize, u32)> = Vec::new();
    for (core, run) in wanted.iter().enumerate() {
        let Some(vcpu) = run.map(|run| run.vcpu.0) else { continue };
        if let Some(holder) = locks.awaited(vcpu) {
            spinning.push((locks.turn(vcpu), core, holder));
        }
    }
    spinning.sort_unstable();
    for (_, core, holder) in spinning {
        if wanted.iter().flatten().all(|run| run.vcpu.0 != holder) {
            wanted[core] = Some(Running {
                vcpu: VcpuId(holder),
                mode: Mode::Foreground,
                until: Limit::NEVER,
                memory: MemoryLimit::NEVER,
            });
        }
    }
}
