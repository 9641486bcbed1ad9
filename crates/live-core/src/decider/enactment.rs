//! A decision becomes what the cores do: moves and stops first, then starts.

use super::*;

impl<H: Host> Decider<H> {
    /// Makes the cores do what the plan says: all moves and stops, then all starts; on the cores of
    /// `touched` whatever the plan says. The cores whose own agents must move what runs there are
    /// put into `called`, which must be empty. The agent of `own` acts, which woke and enforced at
    /// `woke`, where that is known.
    pub(super) fn enact(
        &mut self,
        touched: &mut CoreSet,
        own: CoreId,
        woke: Option<Instant>,
        decided: Instant,
        called: &mut CoreSet,
    ) {
        debug_assert!(called.is_empty(), "{called:?} would be touched, and its cause late");
        // The older one counts: what was put off has waited since then.
        let cause = self.late_cause.take().or(self.cause);
        for core in self.plan.dirty().iter() {
            #[cfg(feature = "faults")]
            if self.conceals(core, own) {
                continue;
            }
            self.host.core(core).follow(self.plan.run_queue(core), decided);
        }
        self.moves(own, called);
        if !called.is_empty() {
            self.late_cause = cause;
        }
        for cores in [self.plan.dirty(), called, &self.arrived] {
            touched.insert_all(cores);
        }
        self.arrived.clear();
        let since = |core: CoreId| woke.filter(|_| core == own);
        // Each visit of a core takes its lock.
        if let Some(core) = touched.only() {
            self.host.core(core).carry_out(since(core), cause, decided);
            return;
        }
        for core in touched.iter() {
            self.host.core(core).stop(since(core), decided);
        }
        for core in touched.iter() {
            self.host.core(core).start(since(core), decided);
        }
        for core in touched.iter() {
            self.host.core(core).note_first(cause, decided);
        }
    }

    /// Brings every VCPU handle to the core where the plan has its VCPU. Not while a program is
    /// being started: that holds the lock which confining a group to a core takes, perhaps while
    /// our own foreground keeps it off the cores, and budgets would not be enforced until it has
    /// one (a second was measured). What was put off is done with the next decision after.
    fn moves(&mut self, own: CoreId, called: &mut CoreSet) {
        if self.group().is_some() && self.cores.len() == 1 {
            return;
        }
        if self.held > 0 {
            self.behind = true;
            return;
        }
        let all = std::mem::take(&mut self.behind);
        if all {
            let stay = |vcpu_handle: &mut VcpuHandleOf<H>| vcpu_handle.is_leaving = false;
            for core in &self.cores {
                self.host.core(*core).vcpu_handles().iter_mut().for_each(stay);
            }
        }
        let cores = if all { self.cores.iter().copied().collect() } else { *self.plan.dirty() };
        for to in cores.iter() {
            let mut place = 0;
            while let Some((at, vcpu)) = self.away(to, place) {
                self.bring(vcpu, to, own, called);
                place = at + 1;
            }
        }
        for place in 0..self.plan.rehomed().len() {
            let vcpu = self.plan.rehomed()[place];
            if let Some(to) = self.plan.home(vcpu) {
                self.bring(vcpu, to, own, called);
            }
        }
    }

    /// The first VCPU in the run queue of `to`, from `place` on, that sits on another core, and its
    /// place there.
    fn away(&self, to: CoreId, place: usize) -> Option<(usize, VcpuId)> {
        let run_queue = self.plan.run_queue(to);
        let grants = run_queue.foreground.iter().chain(&run_queue.background);
        let mut vcpus = grants.map(|grant| grant.vcpu).enumerate().skip(place);
        vcpus.find(|(_, vcpu)| self.slot(*vcpu).is_some_and(|slot| slot != to))
    }

    /// Stop before move: a thread that is queued moves ten times cheaper than one that runs. What
    /// runs on another core than ours would run on after it was demoted, if only on surplus time,
    /// and the kernel would have to stop it for us; so it is left to the agent there, and nothing
    /// else runs there while it is awake. That core is `called` then.
    fn bring(&mut self, vcpu: VcpuId, to: CoreId, own: CoreId, called: &mut CoreSet) {
        let Some(from) = self.slot(vcpu).filter(|from| *from != to) else { return };
        let mut there = self.host.core(from);
        if from != own && there.must_stop(vcpu) {
            there.stir();
            there
                .vcpu_handle(vcpu)
                .into_iter()
                .for_each(|vcpu_handle| vcpu_handle.is_leaving = true);
            drop(there);
            self.host.core(to).stir();
            self.behind = true;
            called.insert(from);
            return;
        }
        drop(there);
        // Refused, it is reported, and tried again with the next decision for that core.
        self.transfer(vcpu, from, to);
    }

    /// Takes a VCPU handle from one core to another. Where that fails it is reported, and the VCPU
    /// handle is on the other's hands all the same.
    pub(super) fn transfer(&mut self, vcpu: VcpuId, from: CoreId, to: CoreId) -> bool {
        let vcpu_handle = self.host.core(from).detach(vcpu, End::Moved);
        let place = self.place_on(to);
        let Some(mut vcpu_handle) = vcpu_handle else { return false };
        // A decider of a group knows it by where its jobs are.
        self.known.get_mut(&vcpu).into_iter().for_each(|known| known.slot = Some(to));
        let places = [self.plan.place(from), self.plan.place(to)];
        if let Ok([from, to]) = self.jobs.get_disjoint_mut(places) {
            from.transfer(vcpu, to);
        }
        self.arrived.insert(to);
        self.host.sits(vcpu, to);
        let sits = vcpu_handle.sit(place);
        self.host.core(to).attach(vcpu_handle, sits)
    }

    /// What a VCPU handle must know of a core to sit there.
    pub(super) fn place_on(&mut self, core: CoreId) -> Place<<HandleOf<H> as Handle>::Site> {
        self.host.core(core).place()
    }

    /// Lets agents look again when the policy wants to be asked or a job is due: that of the core
    /// for whose sake it is, if that is known, so that what is decided is carried out where it is
    /// decided; else that of `own`.
    pub(super) fn wake_up(&mut self, own: CoreId) {
        let service_request = match self.service_requests.look() {
            Some(look) => self.host.now().saturating_add(look),
            None => Instant::NEVER,
        };
        let is_known = self.cores.iter().any(|core| self.plan.core_wake(*core) == self.plan.wake);
        for &id in &self.cores {
            let jobs_due = self.jobs[self.plan.place(id)].due();
            let mut wake_at = self.plan.core_wake(id).min(jobs_due);
            if id == own {
                wake_at = wake_at.min(service_request).min(self.holds_end());
                wake_at = if is_known { wake_at } else { wake_at.min(self.plan.wake) };
            }
            self.host.core(id).wake_at(wake_at);
        }
    }
}
