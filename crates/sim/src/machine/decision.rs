//! The conversation with the policy: events given, decisions taken, answers carried out.

use super::Machine;
use crate::memory::Contention;
use crate::workload::{NONE, Standing};
use maracas_core::contract::{Event, Grant, MemoryLimit, Mode, decide};
use maracas_core::dispatch::Readings;
use maracas_core::{CoreId, CoreSet, Duration, Instant, VcpuId};

/// How many failing service requests and spent allowances a policy may answer at one instant.
const ANSWERS: usize = 1_000;

impl<C: Contention> Machine<'_, C> {
    /// Reports to the policy an event that happens now; where decisions come late, by the next one.
    #[inline]
    pub(super) fn tell(&mut self, core: usize, event: &Event) {
        if C::BARE {
            (self.reported, self.due) = (true, self.now);
        } else if !self.reported {
            self.reported = true;
            self.decider = core;
            self.due = self.due.min(self.now.saturating_add(self.delay()));
        }
        if C::BARE || self.options.late.is_zero() {
            self.outcome.events += 1;
            self.observer.event(self.now, event);
            self.policy.on_event(self.now, event);
        } else {
            self.inbox.push((self.now, event.clone()));
        }
    }

    #[inline]
    pub(super) fn deliver(&mut self) {
        if !self.inbox.is_empty() {
            self.empty_inbox();
        }
    }

    fn empty_inbox(&mut self) {
        for (at, event) in self.inbox.drain(..) {
            self.outcome.events += 1;
            self.observer.event(at, &event);
            self.policy.on_event(at, &event);
        }
    }

    /// How late the next decision comes.
    #[inline]
    pub(super) fn delay(&mut self) -> Duration {
        if C::BARE || self.options.late.is_zero() {
            return Duration::ZERO;
        }
        self.lateness.uniform(Duration::ZERO, self.options.late)
    }

    /// Asks the policy and enacts its plan, again and again until nothing more happens.
    /// `concerned` has the cores that the law was not applied to, and is empty afterwards.
    pub(super) fn take_decision(&mut self, concerned: &mut CoreSet) {
        if self.plan.wake <= self.now && self.plan.wake_metered {
            self.meter();
            self.report_busy();
        }
        for asked in 0.. {
            assert!(asked < ANSWERS || asked < self.most_decisions(), "{}", self.no_rest());
            if !C::BARE {
                self.deliver();
            }
            self.demands.turn += 1;
            self.reported = false;
            decide(self.policy, self.now, &mut self.plan);
            self.outcome.decisions += 1;
            if !C::BARE
                && let Some(locks) = &mut self.demands.locks
            {
                locks.take_homes(&self.plan);
            }
            self.observer.planned(self.now, &self.plan);
            self.take_lines(concerned);
            self.take_answers(concerned);
            self.take_service_request(concerned);
            if !concerned.is_empty() {
                self.apply_law(concerned);
                concerned.clear();
            }
            self.charge(self.decider, self.options.overheads.decision);
            if !self.reported {
                self.decider = 0;
                self.due = self.plan.wake.saturating_add(self.delay());
                return;
            }
        }
    }
    /// Within one instant every core can stop one segment, and every VCPU be seen to wake or be
    /// answered once. Only service requests that fail and allowances that are spent already can
    /// go on for ever, where the policy answers each by the next.
    fn most_decisions(&self) -> usize {
        self.cores.len() + 3 * self.demands.len() + ANSWERS
    }
    fn no_rest(&self) -> String {
        let times = self.most_decisions();
        format!("at {} the policy changed its mind {times} times and found no rest", self.now)
    }

    /// Notes what stands on which run queue and when grants ahead begin to count there, and holds
    /// the policy to standing on one only. Puts the cores into `concerned` of which the law may
    /// want something else than what runs.
    pub(super) fn take_lines(&mut self, concerned: &mut CoreSet) {
        let audits = !C::BARE && self.options.audit;
        if self.plan.dirty().is_empty() && !audits {
            return;
        }
        let mut broken = false;
        let several = self.plan.dirty().only().is_none();
        for id in self.plan.dirty().iter() {
            let core = u32::from(id.0);
            let run_queue = self.plan.run_queue(id);
            let mut due = Instant::NEVER;
            let mut note = |grant: &Grant| {
                if grant.from > self.now {
                    due = due.min(grant.from);
                }
                let Some(demand) = self.demands.get_mut(grant.vcpu) else { return };
                if demand.run_queue != core && demand.run_queue != NONE {
                    let other = self.plan.run_queue(CoreId(demand.run_queue as u16));
                    let same = |other: &Grant| other.vcpu == grant.vcpu;
                    broken |= other.foreground.iter().any(same)
                        || !other.background.is_empty() && other.background.iter().any(same);
                }
                demand.run_queue = core;
            };
            run_queue.foreground.iter().for_each(&mut note);
            if !run_queue.background.is_empty() {
                run_queue.background.iter().for_each(note);
            }
            // For one core the law is as soon asked as this.
            if !(C::BARE && several && self.keeps_running(id, due)) {
                concerned.insert(id);
            }
            let own = &mut self.cores[id.0 as usize];
            own.due = due;
            if own.running == NONE {
                self.nexts.set(id.0 as usize, due);
            }
        }
        if (broken || audits)
            && let Err(why) = self.plan.audit()
        {
            panic!("at {} the policy broke the contract: {why}", self.now);
        }
    }

    /// Whether what runs on a core of a bare run goes on by a grant that is the same as before and
    /// the first on its run queue, where the first grant ahead begins at `due`. It has not come to
    /// its end or limit, where it would have been stopped at this instant, or the law asked.
    #[inline]
    fn keeps_running(&self, id: CoreId, due: Instant) -> bool {
        let (own, run_queue) = (&self.cores[id.0 as usize], self.plan.run_queue(id));
        let keeps = |grant: &Grant| {
            grant.vcpu.0 == own.running
                && grant.until == own.until
                && grant.memory == MemoryLimit::NEVER
                && grant.from <= self.now
                && !grant.lapses
                && self.demands.runnable(grant.vcpu)
        };
        run_queue.foreground.first().is_some_and(keeps)
            && own.mode == Mode::Foreground
            && own.due == due
            && run_queue.allowance == MemoryLimit::NEVER
    }

    /// Lets in the VCPUs that the policy admitted.
    pub(super) fn take_answers(&mut self, concerned: &mut CoreSet) {
        for place in 0..self.plan.verdicts().len() {
            let (vcpu, verdict) = &self.plan.verdicts()[place];
            let (vcpu, admitted) = (*vcpu, verdict.is_ok());
            self.outcome.admissions.push((vcpu, verdict.clone()));
            let Some(demand) = self.demands.get_mut(vcpu) else { continue };
            if demand.standing == Standing::In {
                self.take_change(vcpu, admitted);
            } else if demand.standing == Standing::Asking {
                demand.standing = if admitted { Standing::In } else { Standing::Out };
                self.start_programs(vcpu.0, concerned);
            }
        }
    }

    /// A VCPU that is there asks for another reservation.
    pub(super) fn ask_for_change(&mut self, id: u32) {
        let change = self.changes[id as usize];
        let Some(demand) = self.demands.get_mut(change.vcpu) else { return };
        if demand.standing != Standing::In {
            return;
        }
        let mut wanted = demand.vcpu.clone();
        wanted.reservation = change.reservation;
        self.asked.push(id);
        self.tell(0, &Event::Changed(wanted));
    }
    /// The first of its requests was answered.
    fn take_change(&mut self, vcpu: VcpuId, granted: bool) {
        let of = |id: &u32| self.changes[*id as usize].vcpu == vcpu;
        let Some(place) = self.asked.iter().position(of) else { return };
        let change = self.changes[self.asked.remove(place) as usize];
        if granted {
            self.demands.change(vcpu, change.reservation, change.cost);
        }
    }
}
