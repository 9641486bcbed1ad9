//! MemGuard: memory bandwidth reserved core by core, around any policy.
//!
//! # Paper
//! H. Yun, G. Yao, R. Pellizzoni, M. Caccamo, L. Sha. "MemGuard: Memory Bandwidth Reservation
//! System for Efficient Performance Isolation in Multi-core Platforms." RTAS 2013,
//! doi:10.1109/RTAS.2013.6531079. Proportional sharing: the same authors, "Memory Bandwidth
//! Management for Efficient Performance Isolation in Multi-Core Platforms." IEEE Transactions on
//! Computers 65(2), 2016, doi:10.1109/TC.2015.2425889.
//! # Model
//! A core's counter of memory reads (last-level cache misses) stops it when its budget is used.
//! Which VCPU runs is the inner policy's business; a throttled core runs nothing.
//! # How it works
//! Users write `memguard+NAME`. A period P gives core i the budget Q = floor(B P / 64) (`quota`),
//! of which q (`allotted`) stands to it: q = min(Q, predicted use) where it is soft; the rest goes
//! to the pool G (`pool`). The core's line gets the allowance `base + q`, a reading of its meter.
//! Reached, the core reclaims from G; if it can not, and used less than Q, it gets Q back (an
//! underrun); else it stays closed until the next period: throttled. Once all active cores are
//! throttled, `spare` decides. An active core is one that would run something now were it not
//! closed: the machine law applied to its line.
//! A VCPU with a bandwidth of its own gets the memory mark `base + quota` on its grants, anew in
//! each period; it neither donates nor reclaims.
//! Each period begins with a metered wake at its nominal instant. The inner policy hears of
//! everything but spent allowances; its lines, homes, verdicts and errands are passed on as they
//! are, and where nothing is reserved, so is the whole plan.
//! # Invariants
//! While there is no underrun, q of all cores and G sum to Q of all cores. Without reclaim no core
//! reads more than Q in a period, or more than k Q in k periods if a machine stops it late: what
//! goes beyond a mark is owed to the next period. A hard core with demand gets at least Q in each
//! period, less what it owes. Periods begin at k P, or P apart from an early one, however late the
//! machine is; what was read between the nominal instant and a late decision is the old period's,
//! and of several periods missed only one is replenished.
//! # Where we differ from the paper
//! A prediction keeps at least one request, since a closed core shows no demand, and is rounded
//! up. The average begins with the first sample. A period that proportional sharing cut short
//! records only the cores that used it up. Weights share r_min among all cores that have one,
//! busy or not. Reads alone are regulated, as in the paper; the module regulates write-backs too.

pub(crate) mod register;
mod regulator;
mod settings;
mod vcpus;

use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Entry, Figure, Grant, decide};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, System, dispatch};
use regulator::Regulator;
use settings::Settings;
use vcpus::Vcpus;

pub(crate) const PAPER: &str = "Yun, Yao, Pellizzoni, Caccamo and Sha, MemGuard, RTAS 2013";

/// The inner policy's verdict, and what is wrong with the reservations.
pub(crate) fn admit(inner: &Entry, system: &System, params: &Params) -> Verdict {
    let mut verdict = (inner.admit)(system, params);
    verdict.objections.extend(Settings::read(system, params).1);
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
    /// The latest instant of which anything was told.
    told: Instant,
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
            vcpus.limit(vcpu.id, quota(&settings, vcpu.bandwidth));
        }
        let first = Instant::ZERO.saturating_add(settings.period);
        Ok(Self {
            inner: (inner.build)(system, params)?,
            plan: Plan::new(system.cores.len()),
            cores_next: if regulator.regulates() { first } else { Instant::NEVER },
            vcpus_next: if vcpus.any_limited() { first } else { Instant::NEVER },
            told: Instant::ZERO,
            settings,
            regulator,
            vcpus,
        })
    }

    /// Begins the periods that are due. True if a VCPU's mark changed.
    fn begin_periods(&mut self, now: Instant) -> bool {
        let period = self.settings.period;
        if self.cores_next <= now {
            self.cores_next = next(self.cores_next, period, now);
            self.regulator.start_period(false);
        }
        if !self.vcpus.any_limited() {
            self.vcpus_next = Instant::NEVER;
        } else if self.vcpus_next == Instant::NEVER {
            self.vcpus_next = next(Instant::ZERO, period, now);
        } else if self.vcpus_next <= now {
            self.vcpus_next = next(self.vcpus_next, period, now);
            return self.vcpus.replenish();
        }
        false
    }

    /// Overflows and spare bandwidth, until there is nothing left to do.
    fn regulate(&mut self, now: Instant, plan: &Plan) {
        let regulator = &mut self.regulator;
        regulator.overflow();
        while regulator.spare(|core| dispatch::next(plan.line(core), 0, &self.vcpus).is_some()) {
            // The period begins when the last core used its budget, not when we learnt of it.
            self.cores_next = next(self.told, self.settings.period, now);
            regulator.start_period(true);
            regulator.overflow();
        }
    }

    /// Takes over the lines that the inner policy changed; sets memory marks there, and everywhere
    /// if any moved.
    fn copy_lines(&self, marks_moved: bool, plan: &mut Plan) {
        let memory = |grant: &Grant| grant.memory.min(self.vcpus.mark(grant.vcpu));
        for core in (0..plan.cores() as u16).map(CoreId) {
            let (inner, outer) = (self.plan.line(core), plan.line(core));
            let fresh = self.plan.dirty().contains(core);
            let differs = |(inner, outer): (&Grant, &Grant)| outer.memory != memory(inner);
            let stale = marks_moved && !fresh && {
                let mut lists = inner.foreground.iter().zip(&outer.foreground);
                lists.any(differs) || inner.background.iter().zip(&outer.background).any(differs)
            };
            if !fresh && !stale {
                continue;
            }
            let line = plan.line_mut(core);
            line.foreground.clone_from(&inner.foreground);
            line.background.clone_from(&inner.background);
            line.background_allowed = inner.background_allowed;
            for grant in line.foreground.iter_mut().chain(&mut line.background) {
                grant.memory = memory(grant);
            }
        }
    }

    fn set_allowances(&self, plan: &mut Plan) {
        for core in (0..plan.cores() as u16).map(CoreId) {
            let allowance = self.plan.line(core).allowance.min(self.regulator.mark(core));
            if plan.line(core).allowance != allowance {
                plan.line_mut(core).allowance = allowance;
            }
        }
    }
}

/// A VCPU's reads per period; one at least where it has a budget at all.
fn quota(settings: &Settings, bandwidth: u64) -> u64 {
    if bandwidth == 0 { 0 } else { settings.requests(bandwidth).max(1) }
}

/// The first instant after `now` that lies a whole number of periods after `from`, which is past.
fn next(from: Instant, period: Duration, now: Instant) -> Instant {
    let over = now.saturating_since(from).ticks() % period.ticks();
    now.saturating_add(Duration::from_ticks(period.ticks() - over))
}

impl Policy for MemGuard {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.told = self.told.max(at);
        match event {
            Event::Ran(stint) => {
                self.regulator.count(stint.core, stint.usage.reads);
                self.vcpus.ran(stint);
            }
            Event::Released(job) => self.vcpus.woke(job.id.vcpu, at),
            Event::Woke { vcpu, .. } => self.vcpus.woke(*vcpu, at),
            Event::Arrived(vcpu) | Event::Changed(vcpu) => {
                self.vcpus.ask(vcpu.id, quota(&self.settings, vcpu.bandwidth));
            }
            Event::Left(vcpu) => self.vcpus.left(*vcpu),
            // The meters say so too: the stint that ended so was told before. A word that comes
            // late, when the mark lies higher already, must not count.
            Event::AllowanceSpent { .. } => return,
            Event::Completed(_)
            | Event::Sampled(_)
            | Event::ErrandDone(_)
            | Event::Failed { .. } => {}
        }
        self.inner.on_event(at, event);
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        decide(&mut *self.inner, now, &mut self.plan);
        let mut marks_moved = false;
        for (vcpu, verdict) in self.plan.verdicts() {
            marks_moved |= self.vcpus.answered(*vcpu, verdict.is_ok());
            plan.answer(*vcpu, verdict.clone());
        }
        marks_moved |= self.begin_periods(now);
        self.copy_lines(marks_moved, plan);
        if self.regulator.regulates() {
            self.regulate(now, plan);
        }
        self.set_allowances(plan);
        for &vcpu in self.plan.rehomed() {
            plan.set_home(vcpu, self.plan.home(vcpu));
        }
        plan.errand = self.plan.errand;
        let period = self.cores_next.min(self.vcpus_next);
        plan.wake = period.min(self.plan.wake);
        plan.wake_metered = period <= self.plan.wake && period < Instant::NEVER
            || plan.wake == self.plan.wake && self.plan.wake_metered;
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.inner.figures();
        if self.regulator.regulates() {
            self.regulator.figures(&mut figures);
        }
        figures
    }
}

#[cfg(test)]
mod tests;
