//! Threads that execute scripts, as VCPUs have them.

use super::{Demands, NONE, State};
use crate::script::{Effect, ScriptedThreads, ThreadOutcome};
use maracas_core::script::Scripts;
use maracas_core::{Duration, Instant, Job, JobId, System};

impl Demands {
    /// The same with what programs with the workload `Script` do.
    pub(crate) fn take_scripts(&mut self, scripts: &Scripts, system: &System) {
        self.scripted = Some(Box::new(ScriptedThreads::new(scripts, system)));
    }
    /// What followed from what threads did since this was last asked.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        self.scripted.as_mut().map(|scripted| scripted.effects()).unwrap_or_default()
    }
    /// What each thread came to.
    pub(crate) fn acted(&self, now: Instant) -> Vec<ThreadOutcome> {
        let left = |thread: usize| {
            let own = &self.threads[thread];
            let demand = &self.vcpus[own.vcpu as usize];
            if demand.current == thread as u32 { demand.left } else { own.left }
        };
        self.scripted.as_ref().map(|scripted| scripted.acted(now, left)).unwrap_or_default()
    }
    pub(super) fn scripted(&mut self) -> &mut ScriptedThreads {
        self.scripted.as_mut().expect("a program with the workload Script has a script")
    }

    /// A thread has a piece of work. Returns whether its VCPU had some before.
    pub(crate) fn work(&mut self, thread: u32, left: Duration) -> bool {
        let own = &mut self.threads[thread as usize];
        own.state = State::Working;
        let demand = &mut self.vcpus[own.vcpu as usize];
        let had = demand.current != NONE;
        if !had {
            demand.woke = self.turn;
        }
        (demand.current, demand.left) = (thread, left);
        had
    }
    /// A thread has nothing to do.
    pub(crate) fn block(&mut self, thread: u32) {
        let own = &mut self.threads[thread as usize];
        own.state = State::Blocked;
        let demand = &mut self.vcpus[own.vcpu as usize];
        if demand.current == thread {
            own.left = demand.left;
        }
        demand.current = NONE;
    }
    /// A job of a thread is released.
    pub(crate) fn open_job(&mut self, thread: u32, now: Instant) -> Job {
        let demand = &mut self.vcpus[self.threads[thread as usize].vcpu as usize];
        let id = demand.id_of(demand.released);
        let deadline = now.saturating_add(demand.vcpu.reservation.deadline);
        demand.released += 1;
        demand.pending.push_back(deadline);
        Job { id, release: now, deadline }
    }
    /// A thread's job is complete. Returns it and its deadline.
    pub(crate) fn close_job(&mut self, thread: u32) -> Option<(JobId, Instant)> {
        let demand = &mut self.vcpus[self.threads[thread as usize].vcpu as usize];
        let deadline = demand.pending.pop_front()?;
        let id = demand.id_of(demand.completed);
        demand.completed += 1;
        Some((id, deadline))
    }
}
