//! What runs where: the law enacted on the cores, meters, progress and charges.

use super::{Core, Machine};
use crate::memory::Contention;
use crate::workload::NONE;
use maracas_core::contract::{End, Event, Grant, Limit, Mode, Segment, Usage};
use maracas_core::dispatch::{Readings, Running, due, next};
use maracas_core::{CoreId, CoreSet, Duration, Instant, VcpuId};

impl<C: Contention> Machine<'_, C> {
    /// `vcpu` became runnable: the core on whose run queue it stands must look again.
    #[inline]
    pub(super) fn concern(&self, vcpu: u32, concerned: &mut CoreSet) {
        let core = self.demands.of(vcpu).run_queue;
        if core == NONE {
            return;
        }
        let core = CoreId(core as u16);
        let run_queue = self.plan.run_queue(core);
        // It may have been taken off since it was seen there. A long list is left to the law, which
        // ends at the first that can run.
        let stands = |grant: &Grant| grant.vcpu.0 == vcpu;
        if !run_queue.background.is_empty() || run_queue.foreground.iter().any(stands) {
            concerned.insert(core);
        }
    }

    /// Has the cores run what the law says: first all stops, then all starts.
    pub(super) fn apply_law(&mut self, cores: &CoreSet) {
        if self.shares() {
            self.apply_law_with_locks();
        } else if let Some(core) = cores.only() {
            // Nearly always. None moves where only one core may change.
            if let Some(choice) = self.choose(core) {
                let core = core.0 as usize;
                if self.cores[core].running != NONE {
                    self.stop(core, End::Preempted);
                }
                if let Some(run) = choice {
                    self.start(core, run);
                }
            }
        } else {
            self.apply_law_to_many(cores);
        }
        if C::CONTENDS {
            self.report_spent(cores);
        }
    }

    /// Whether the law need not be applied to `cores` before the decision that follows at once:
    /// where it can only start a VCPU on one idle core, and nothing but the decision will see that.
    /// What the decision leaves as it is starts after it, at the same instant.
    #[inline]
    pub(super) fn may_wait(&self, cores: &CoreSet) -> bool {
        !C::CONTENDS
            && self.due <= self.now
            && (C::BARE || !self.options.hidden_wakes)
            && cores.only().is_some_and(|core| self.cores[core.0 as usize].running == NONE)
    }

    fn apply_law_to_many(&mut self, cores: &CoreSet) {
        for id in cores.iter() {
            let core = id.0 as usize;
            let Some(choice) = self.choose(id) else { continue };
            let away = |run: &Running| self.demands.of(run.vcpu.0).on;
            if choice.is_some_and(|run| away(&run) != NONE && away(&run) != core as u32) {
                self.moving.extend(choice.map(|run| run.vcpu.0));
            }
            self.choices.push((core, choice));
        }
        if !self.choices.is_empty() {
            self.switch();
        }
    }

    /// What the law says that a core should run; `None` where it does so already.
    #[inline(always)] // Nearly every decision asks for one core; an answer by memory costs a third.
    fn choose(&mut self, id: CoreId) -> Option<Option<Running>> {
        let core = id.0 as usize;
        // The law looks at meters where grants have limits alone, and what goes on without one,
        // where none is ahead, ends when it was to end.
        let own = &self.cores[core];
        let is_unlimited = C::BARE && own.until == Limit::NEVER && own.due == Instant::NEVER;
        if !is_unlimited {
            self.settle(core);
        }
        let mut choice = self.next(core);
        let Core { running, mode, .. } = self.cores[core];
        let goes_on = |run: &Running| run.vcpu.0 == running && run.mode == mode;
        if is_unlimited && let Some(run) = choice.filter(goes_on) {
            if run.until == Limit::NEVER {
                return None;
            }
            self.settle(core);
            choice = self.next(core);
        }
        let own = &mut self.cores[core];
        match choice {
            Some(run) if goes_on(&run) => {
                own.until = run.until;
                self.set_memory_limit(core, run.memory);
                self.retime(core);
                None
            }
            None if own.running == NONE => None,
            Some(_) | None => Some(choice),
        }
    }

    /// What the law says that a core should run.
    #[inline(always)]
    fn next(&self, core: usize) -> Option<Running> {
        let read = if C::CONTENDS { self.meters[core].reading } else { 0 };
        next(self.plan.run_queue(CoreId(core as u16)), self.now, read, &self.demands)
    }

    /// Has the cores run what was chosen for them.
    #[inline]
    fn switch(&mut self) {
        for place in 0..self.choices.len() {
            let core = self.choices[place].0;
            let vcpu = self.cores[core].running;
            if vcpu != NONE {
                let moves = self.moving.contains(&vcpu);
                self.stop(core, if moves { End::Moved } else { End::Preempted });
            }
        }
        self.moving.clear();
        for place in 0..self.choices.len() {
            if let (core, Some(run)) = self.choices[place] {
                self.start(core, run);
            }
        }
        self.choices.clear();
    }

    pub(super) fn start(&mut self, core: usize, run: Running) {
        let now = self.now;
        let demand = self.demands.of_mut(run.vcpu.0);
        assert!(demand.on == NONE, "{} would run on core{} and core{core}", run.vcpu, demand.on);
        demand.on = core as u32;
        if C::CONTENDS {
            self.set_changed = true;
        }
        let migrates = demand.last != NONE && demand.last != core as u32;
        let hidden = if C::BARE { None } else { demand.hidden.take() };
        self.set_memory_limit(core, run.memory);
        let own = &mut self.cores[core];
        own.idle += now - own.idle_since;
        own.running = run.vcpu.0;
        (own.mode, own.until) = (run.mode, run.until);
        (own.from, own.synced) = (now, now);
        own.switched = own.resident != (run.vcpu.0, now);
        own.start_cost = Duration::ZERO;
        if own.switched {
            self.outcome.context_switches += 1;
            if !C::BARE {
                let costs = &self.options.overheads;
                let migration = if migrates { costs.migration } else { Duration::ZERO };
                own.start_cost = costs.context_switch + migration;
                if !own.start_cost.is_zero() {
                    own.stalled = own.stalled.max(now) + own.start_cost;
                }
            }
        }
        self.retime(core);
        if let Some(on_behalf) = hidden {
            self.tell(core, &Event::Woke { vcpu: run.vcpu, on_behalf, exact: false });
        }
    }

    pub(super) fn stop(&mut self, core: usize, end: End) {
        self.settle(core);
        let own = &mut self.cores[core];
        let vcpu = own.running;
        let demand = self.demands.of_mut(vcpu);
        demand.on = NONE;
        if C::CONTENDS {
            self.set_changed = true;
        }
        if own.from == self.now {
            // The segment stayed empty: nothing saw it, so it leaves no trace.
            self.outcome.context_switches -= u64::from(own.switched);
            if !C::BARE {
                own.stalled = own.stalled.max(self.now) - own.start_cost;
            }
        } else {
            demand.last = core as u32;
            own.resident = (vcpu, self.now);
            self.report(core, end);
        }
        let own = &mut self.cores[core];
        own.running = NONE;
        own.idle_since = self.now;
        self.nexts.set(core, own.due);
    }

    /// Whether what a core runs goes on by another grant where it reached the limit of one.
    pub(super) fn goes_on(&self, core: usize) -> bool {
        let (own, id) = (&self.cores[core], CoreId(core as u16));
        let run_queue = self.plan.run_queue(id);
        let is_own = |grant: &Grant| grant.is_ahead() && grant.vcpu.0 == own.running;
        let has_more = match own.mode {
            Mode::Foreground => run_queue.foreground.iter().any(is_own),
            Mode::Background => run_queue.background.iter().any(is_own),
        };
        has_more
            && self.next(core).is_some_and(|run| (run.vcpu.0, run.mode) == (own.running, own.mode))
    }

    /// Grants that were given ahead begin to count on a core.
    pub(super) fn begin_due(&mut self, core: usize, concerned: &mut CoreSet) {
        let id = CoreId(core as u16);
        self.cores[core].due = due(self.plan.run_queue(id), self.now);
        concerned.insert(id);
    }

    /// Reports the running segment up to now.
    #[inline(always)] // A part of each stop.
    pub(super) fn report(&mut self, core: usize, end: End) {
        let Core { running, mode, from, .. } = self.cores[core];
        let segment = Segment {
            vcpu: VcpuId(running),
            core: CoreId(core as u16),
            mode,
            from,
            to: self.now,
            usage: Usage { service: self.now - from, ..self.take_counts(core) },
            end,
        };
        self.tell(core, &Event::Ran(segment));
    }

    /// Reads all meters: reports every running segment, which goes on as a new one.
    pub(super) fn meter(&mut self) {
        for core in 0..self.cores.len() {
            if self.cores[core].running != NONE && self.cores[core].from < self.now {
                self.settle(core);
                self.report(core, End::Metered);
                let own = &mut self.cores[core];
                own.from = self.now;
                own.resident = (own.running, self.now);
                (own.switched, own.start_cost) = (false, Duration::ZERO);
                self.demands.of_mut(own.running).last = core as u32;
            }
        }
    }

    /// Accounts the running VCPU's meter and progress up to now.
    #[inline(always)]
    pub(super) fn settle(&mut self, core: usize) {
        let own = &self.cores[core];
        if own.running != NONE && own.synced != self.now {
            self.account(core);
        }
    }

    #[inline(always)] // A part of each stop.
    fn account(&mut self, core: usize) {
        let own = &mut self.cores[core];
        let time = self.now - own.synced;
        let productive = self.now.saturating_since(own.stalled.max(own.synced));
        let productive = if C::BARE { time } else { productive };
        let (running, mode) = (own.running, own.mode);
        own.synced = self.now;
        let work = self.progress(core, productive);
        self.demands.serve(running, mode, time, work);
    }

    /// Computes anew when the running VCPU ends its piece or reaches a limit, the core's memory
    /// meter its allowance, or a grant ahead begins to count. It must be settled.
    #[inline(always)] // A part of each start.
    pub(super) fn retime(&mut self, core: usize) {
        let own = &self.cores[core];
        // Where other programs run than before, speeds are stale until they are resolved anew:
        // all of them where cores slow each other down, else only those that will be retimed then.
        if own.running == NONE || C::COUPLED && self.set_changed {
            return;
        }
        let left = self.demands.left(own.running);
        let mut next = Instant::NEVER;
        if left != Duration::MAX {
            let time = self.contention.time_for(CoreId(core as u16), left);
            let from = if C::BARE { self.now } else { self.now.max(own.stalled) };
            next = from.saturating_add(time);
        }
        if own.until != Limit::NEVER {
            let meter = self.demands.meter(VcpuId(own.running), own.mode);
            next = next.min(self.now.saturating_add(own.until.0.saturating_sub(meter)));
        }
        if C::CONTENDS {
            next = next.min(self.memory_due(core));
        }
        self.nexts.set(core, next.min(own.due));
    }

    /// Charges a core with work of the kernel's: its VCPU makes no progress meanwhile.
    #[inline]
    pub(super) fn charge(&mut self, core: usize, cost: Duration) {
        if C::BARE || cost.is_zero() {
            return;
        }
        self.settle(core);
        let own = &mut self.cores[core];
        own.stalled = own.stalled.max(self.now) + cost;
        self.retime(core);
    }

    /// The core to which things about `vcpu` are ascribed: where it runs, else its run queue's,
    /// else where it last ran, else core 0.
    #[inline]
    pub(super) fn place_of(&self, vcpu: u32) -> usize {
        let demand = self.demands.of(vcpu);
        if demand.on != NONE {
            demand.on as usize
        } else if demand.run_queue != NONE {
            demand.run_queue as usize
        } else if demand.last != NONE {
            demand.last as usize
        } else {
            0
        }
    }
}
