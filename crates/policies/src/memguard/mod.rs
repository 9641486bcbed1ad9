//! MemGuard: memory bandwidth reserved core by core, around any policy.
//!
//! # Paper
//! H. Yun, G. Yao, R. Pellizzoni, M. Caccamo, L. Sha. "MemGuard: Memory Bandwidth Reservation
//! System for Efficient Performance Isolation in Multi-core Platforms." RTAS 2013,
//! doi:10.1109/RTAS.2013.6531079. Proportional sharing: the same authors, "Memory Bandwidth
//! Management for Efficient Performance Isolation in Multi-Core Platforms." IEEE Transactions on
//! Computers 65(2), 2016, doi:10.1109/TC.2015.2425889. Beside it, as options: budgets bank by bank,
//! C. Sullivan, A. Mamandipoor, C. Strickler, H. Yun. "Per-Bank Memory Bandwidth Regulation for
//! Predictable and Performant Real-Time System." RTAS 2026, arXiv:2603.26054; and by utilization,
//! A. Saeed and others. "Memory Utilization-Based Dynamic Bandwidth Regulation for Temporal
//! Isolation in Multi-Cores." RTAS 2022, doi:10.1109/RTAS54340.2022.00019.
//! # Model
//! A core's counter of memory reads (last-level cache misses) stops it when its budget is used;
//! with `count = "requests"` a counter of reads and write-backs, with `regulate = "banks"` one for
//! each bank of the memory. Which VCPU runs is the inner policy's business; a throttled core runs
//! nothing.
//! # How it works
//! Users write `memguard+NAME`. A period P gives core i the budget Q = floor(B P / 64) (`quota`),
//! of which q (`allotted`) stands to it: q = min(Q, predicted use) where it is soft; the rest goes
//! to the pool G (`pool`). The core's run queue gets the allowance `base + q`, a reading of its
//! meter. Reached, a soft core reclaims from G; if it can not, and used less than Q, it gets Q back
//! (an underrun); else it stays closed until the next period: throttled. A hard core has q = Q, and
//! reclaims nothing: it is throttled where that is used. Once all active cores are
//! throttled, `spare` decides. An active core is one that would run something now were it not
//! closed: the machine law applied to its run queue. An active core that is not regulated has no
//! budget to use up, so beside it there is no spare bandwidth.
//!
//! Where `foreground` is given, surplus time leaves to the foreground what that has not used of it
//! yet, and the last request of Q in any case: its grants get memory limits to that effect. There
//! it reclaims as a core does; if it gets nothing, it waits for the next period while the core
//! stays open. What was kept from it counts as used. Else all time is alike, as in the paper, and
//! so it is under a policy without a foreground, such as round-robin.
//! A VCPU with a bandwidth of its own gets the memory limit `base + quota` on its grants, anew in
//! each period; it neither donates nor reclaims. At its limit the inner policy takes it for blocked
//! (`vcpus.rs`), and so do load balancers.
//!
//! What is counted is the machine's affair ([`maracas_core::contract::Metered`]): all here goes by
//! what the meters say. Bank by bank the meter says what the bank that gets most had, so that a
//! core may do B on each bank at once; r_min is what one bank serves, and bounds the sum of B
//! there.
//!
//! With `regulate = "utilization"` the machine says at each period how long the memory controller
//! was busy, and all budgets rise and fall together to keep that at a target (`utilization.rs`),
//! never below what is reserved. None donates or reclaims.
//!
//! Each period begins with a metered wake at its nominal instant. The inner policy learns of
//! everything but spent allowances and memory limits; its run queues, homes, verdicts and service
//! requests are passed on as they are, and where nothing is reserved, so is the whole plan.
//! # Invariants
//! While there is no underrun, q of all cores and G sum to Q of all cores. Without reclaim and
//! `spare` no core reads more than Q in a period, or more than k Q in k periods if a machine stops
//! it late: what goes beyond a limit is owed to the next period. Surplus time alone never throttles
//! a core with `foreground`, where decisions come on time. Periods begin at k P, or P apart from an
//! early one, however late the machine is; what was read between the nominal instant and a late
//! decision is the old period's, and of several periods missed only one is replenished.
//! # What is given, and when
//! A hard core with demand all the time gets Q in each period, less what it owes, if the memory
//! serves that: the sum of Q is at most what it serves at worst (r_min), every core that runs
//! any VCPU is regulated, the others are hard too or not in an underrun, and there are only
//! requests that count: no write-backs where reads do, no devices. A core without a limit beside
//! an r_min is refused, unless no VCPU may run there; the rest cannot be seen from here. In a
//! window of P that holds the end of one period and the begin of the next a core may read 2 Q.
//!
//! Admission counts time alone. A core whose Q one VCPU has used is closed to the others too, for
//! up to P each time, service VCPUs of service requests too, and whatever was admitted may be late
//! by that. Where that must not be, `foreground` holds surplus time off, and those that read on
//! their budgets get bandwidths of their own, which sum to less than the core's.
//! # Where we differ from the paper
//! A prediction keeps at least one request, since a closed core shows no demand, and is rounded up.
//! The average begins with the first sample. A period that proportional sharing cut short records
//! only the cores that used it up, and underruns. Weights share r_min among all cores that have
//! one, busy or not. Write-backs count only where that is asked for, and then in one budget with
//! the reads; the authors' module of 2022 has a budget for each.
//!
//! Bank by bank a core that used up one bank is closed, while the regulator of Sullivan and others
//! is hardware, of which we know no more than the abstract and that it has a budget for each bank.
//! What a segment does is ascribed to the bank that gets most of it, so that programs on one core
//! that crowd different banks within a period get less than they might.
//! Of Saeed and others' feedback we know no more than that it regulates cores by what the memory
//! controller's counters say of its utilization: what utilization is here, the law that leads
//! budgets to it, one level for all cores, and reservations below it are ours.

pub(crate) mod register;
mod regulator;
mod settings;
mod utilization;
mod vcpus;

use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{
    End, Entry, Grant, MemoryLimit, Meters, Mode, Segment, Statistic, decide,
};
use maracas_core::dispatch::{self, Readings};
use maracas_core::params::Params;
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Job, JobId, Plan, Policy, System};
use regulator::Regulator;
use settings::Settings;
use vcpus::Vcpus;

pub(crate) const PAPER: &str = "Yun, Yao, Pellizzoni, Caccamo and Sha, MemGuard, RTAS 2013";

/// The inner policy's verdict, and what is wrong with the reservations.
pub(crate) fn admit(inner: &Entry, system: &System, params: &Params) -> Verdict {
    let mut verdict = (inner.admit)(system, params);
    let (settings, objections) = Settings::read(system, params);
    verdict.objections.extend(objections);
    verdict.regulation = Some(Box::new(settings.regulation(system)));
    verdict
}

pub(crate) fn build(
    inner: &Entry,
    system: &System,
    params: &Params,
) -> Result<Box<dyn Policy>, Verdict> {
    Ok(Box::new(MemGuard::around(inner, system, params)?))
}

struct MemGuard {
    inner: Box<dyn Policy>,
    /// The inner policy's.
    plan: Plan,
    settings: Settings,
    regulator: Regulator,
    vcpus: Vcpus,
    /// The latest instant at which anything happened: which was reported, or for which the inner
    /// policy or a period had waited.
    latest: Instant,
    /// When the cores' next period begins.
    cores_next: Instant,
    /// When the VCPUs' next period begins.
    vcpus_next: Instant,
}

impl MemGuard {
    fn around(inner: &Entry, system: &System, params: &Params) -> Result<Self, Verdict> {
        let verdict = admit(inner, system, params);
        if !verdict.accepted() {
            return Err(verdict);
        }
        let settings = Settings::read(system, params).0;
        let regulator = Regulator::new(&settings);
        let mut vcpus = Vcpus::default();
        for vcpu in &system.vcpus {
            vcpus.set_quota(vcpu.id, settings.quota(vcpu.bandwidth));
        }
        let first = Instant::ZERO.saturating_add(settings.period);
        Ok(Self {
            inner: (inner.build)(system, params)?,
            plan: Plan::new(system.cores.len()),
            cores_next: if regulator.regulates() { first } else { Instant::NEVER },
            vcpus_next: if vcpus.any_limited() { first } else { Instant::NEVER },
            latest: Instant::ZERO,
            settings,
            regulator,
            vcpus,
        })
    }

    /// Begins the periods that are due. When the VCPUs' period began, if one did.
    fn begin_periods(&mut self, now: Instant) -> Option<Instant> {
        let period = self.settings.period;
        if self.cores_next <= now {
            self.cores_next = next(self.cores_next, period, now);
            self.regulator.start_period(false);
        }
        if self.vcpus_next > now {
            return None;
        }
        self.vcpus_next = next(self.vcpus_next, period, now);
        self.vcpus.replenish();
        Some(self.vcpus_next - period)
    }

    /// Asks the inner policy, after it was given the VCPUs whose memory limits rose, and again
    /// where its verdicts raise some. Returns the cores whose run queues it changed.
    fn ask(&mut self, now: Instant, plan: &mut Plan) -> CoreSet {
        let began = self.begin_periods(now);
        let mut risen = self.vcpus.risen(began.unwrap_or(self.latest));
        let mut fresh = CoreSet::EMPTY;
        loop {
            for (at, event) in risen {
                self.inner.on_event(at, &event);
            }
            decide(&mut *self.inner, now, &mut self.plan);
            self.plan.dirty().iter().for_each(|core| fresh.insert(core));
            for &vcpu in self.plan.rehomed() {
                plan.set_home(vcpu, self.plan.home(vcpu));
            }
            for (vcpu, verdict) in self.plan.verdicts() {
                self.vcpus.answered(*vcpu, verdict.is_ok());
                plan.answer(*vcpu, verdict.clone());
            }
            risen = self.vcpus.risen(self.latest);
            if risen.is_empty() {
                break;
            }
        }
        if !self.vcpus.any_limited() {
            self.vcpus_next = Instant::NEVER;
        } else if self.vcpus_next == Instant::NEVER {
            self.vcpus_next = next(Instant::ZERO, self.settings.period, now);
        }
        fresh
    }

    /// Whether surplus time on `core` leaves something to the foreground. Under a policy that
    /// promises nothing all time is surplus time, and there is no VCPU to leave it to.
    fn keeps(&self, core: CoreId) -> bool {
        self.regulator.keeps(core) && !self.plan.run_queue(core).foreground.is_empty()
    }

    /// In which mode `core` would run someone now were it not closed.
    fn active(&self, core: CoreId, now: Instant) -> Option<Mode> {
        let run = dispatch::next(self.plan.run_queue(core), now, 0, &self.vcpus)?;
        Some(if self.keeps(core) { run.mode } else { Mode::Foreground })
    }

    /// Overflows and spare bandwidth, until there is nothing left to do.
    fn regulate(&mut self, now: Instant) {
        let active: Vec<_> =
            (0..self.plan.cores() as u16).map(|core| self.active(CoreId(core), now)).collect();
        let active = |core: CoreId| active[core.0 as usize];
        self.regulator.overflow(active);
        while self.regulator.spare(active) {
            // The period begins when the last active core used its budget, or the last one that
            // had not was left with nothing to run; not when we learnt of it.
            self.cores_next = next(self.latest, self.settings.period, now);
            self.regulator.start_period(true);
            self.regulator.overflow(active);
        }
    }

    /// Takes over the run queues of `fresh` cores, and sets the memory marks that moved.
    fn copy_lines(&self, fresh: CoreSet, plan: &mut Plan) {
        for core in (0..plan.cores() as u16).map(CoreId) {
            let (inner, outer) = (self.plan.run_queue(core), plan.run_queue(core));
            let left = self.keeps(core).then(|| self.regulator.surplus(core)).flatten();
            let foreground = |grant: &Grant| grant.memory.min(self.vcpus.limit(grant.vcpu));
            let background = |grant: &Grant| {
                let at = |left| self.vcpus.memory(grant.vcpu).saturating_add(left);
                foreground(grant).min(left.map_or(MemoryLimit::NEVER, |left| MemoryLimit(at(left))))
            };
            let stale = || {
                let mut lists = inner.foreground.iter().zip(&outer.foreground);
                lists.any(|(inner, outer)| outer.memory != foreground(inner)) || {
                    let mut lists = inner.background.iter().zip(&outer.background);
                    lists.any(|(inner, outer)| outer.memory != background(inner))
                }
            };
            if !fresh.contains(core) && !stale() {
                continue;
            }
            let run_queue = plan.run_queue_mut(core);
            run_queue.foreground.clone_from(&inner.foreground);
            run_queue.background.clone_from(&inner.background);
            run_queue.background_allowed = inner.background_allowed;
            run_queue.foreground.iter_mut().for_each(|grant| grant.memory = foreground(grant));
            run_queue.background.iter_mut().for_each(|grant| grant.memory = background(grant));
        }
    }

    fn set_allowances(&self, plan: &mut Plan) {
        for core in (0..plan.cores() as u16).map(CoreId) {
            let allowance = self.plan.run_queue(core).allowance.min(self.regulator.limit(core));
            if plan.run_queue(core).allowance != allowance {
                plan.run_queue_mut(core).allowance = allowance;
            }
        }
    }

    /// A VCPU ran: how its segment ended for the inner policy.
    fn ran(&mut self, segment: &Segment) -> End {
        self.regulator.count(segment.core, segment.mode, segment.usage.metered());
        let end = self.vcpus.ran(segment);
        // Surplus time used its part of the core's budget: that is the core's affair, and not the
        // VCPU's.
        let surplus = end == End::MemorySpent && segment.mode == Mode::Background;
        if surplus && self.regulator.keeps(segment.core) { End::Preempted } else { end }
    }
}

/// The first instant after `now` that lies a whole number of periods after `from`, which is past.
fn next(from: Instant, period: Duration, now: Instant) -> Instant {
    let over = now.saturating_since(from).ticks() % period.ticks();
    now.saturating_add(Duration::from_ticks(period.ticks() - over))
}

impl Policy for MemGuard {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.latest = self.latest.max(at);
        match event {
            Event::Ran(segment) => {
                let end = self.ran(segment);
                return self.inner.on_event(at, &Event::Ran(Segment { end, ..*segment }));
            }
            Event::Released(Job { id: JobId { vcpu, .. }, .. }) | Event::Woke { vcpu, .. } => {
                self.vcpus.woke(*vcpu, at);
                if self.vcpus.hold(*vcpu, at, event) {
                    return;
                }
            }
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                self.vcpus.ask(vcpu.id, self.settings.quota(vcpu.bandwidth));
            }
            Event::Left(vcpu) => self.vcpus.left(*vcpu),
            Event::Utilized { busy, of } => return self.regulator.utilized(*busy, *of),
            // The meters say so too: the segment that ended so was reported before. A late event,
            // when the limit lies higher already, must not count.
            Event::AllowanceSpent { .. } => return,
            Event::Completed(_)
            | Event::Sampled(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
        self.inner.on_event(at, event);
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let waited_for = [self.plan.wake, self.cores_next, self.vcpus_next].into_iter();
        let due = waited_for.filter(|wake| *wake <= now).max();
        self.latest = self.latest.max(due.unwrap_or(Instant::ZERO));
        let fresh = self.ask(now, plan);
        if self.regulator.regulates() {
            self.regulate(now);
        }
        self.copy_lines(fresh, plan);
        self.set_allowances(plan);
        plan.service_request = self.plan.service_request;
        let period = self.cores_next.min(self.vcpus_next);
        plan.wake = period.min(self.plan.wake);
        for core in (0..self.plan.cores() as u16).map(CoreId) {
            plan.set_core_wake(core, self.plan.core_wake(core));
        }
        plan.wake_metered = period <= self.plan.wake && period < Instant::NEVER
            || plan.wake == self.plan.wake && self.plan.wake_metered;
    }

    fn meters(&self) -> Meters {
        self.settings.meters()
    }

    fn statistics(&self) -> Vec<Statistic> {
        let mut statistics = self.inner.statistics();
        if self.regulator.regulates() {
            self.regulator.statistics(&mut statistics);
        }
        statistics
    }
}

#[cfg(test)]
mod tests;
