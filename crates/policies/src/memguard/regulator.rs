//! The cores' regulators: allotments, prediction, donation, reclaim, spare bandwidth, statistics.

use super::settings::{Reserved, Settings, Spare};
use super::utilization::Level;
use alloc::vec::Vec;
use maracas_core::contract::{MemoryLimit, Mode, Statistic};
use maracas_core::{CoreId, Duration};

/// Underrun errors by size, (Q - used) / Q.
const ERROR_SIZES: [&str; 10] = [
    "underrun errors to 10%",
    "underrun errors to 20%",
    "underrun errors to 30%",
    "underrun errors to 40%",
    "underrun errors to 50%",
    "underrun errors to 60%",
    "underrun errors to 70%",
    "underrun errors to 80%",
    "underrun errors to 90%",
    "underrun errors to 100%",
];

/// What a regulator counted.
#[derive(Clone, Default, Debug)]
struct Counts {
    periods: u64,
    underruns: u64,
    errors: u64,
    sizes: [u64; 10],
    donated: u64,
    reclaimed: u64,
    throttled: u64,
}

/// One core's regulator.
#[derive(Clone, Debug)]
pub(super) struct Core {
    /// Its budget now, which rises above what was promised where budgets follow the utilization.
    reserved: Reserved,
    /// Q as it was promised.
    promised: u64,
    /// Reading of the core's meter at which the period began: `used = meter - base`.
    pub(super) base: u64,
    /// q: what it may use of this period as things stand.
    pub(super) allotted: u64,
    /// What it is predicted to use in the next period; `None` = no history yet.
    predicted: Option<u64>,
    pub(super) throttled: bool,
    /// Surplus time used all but what is kept for the foreground; it waits for the next period.
    pub(super) surplus_closed: bool,
    /// What the foreground used of this period.
    foreground: u64,
    /// It donated too much and could not get it back in this period.
    pub(super) underrun: bool,
    counts: Counts,
}

impl Core {
    fn new(reserved: Reserved) -> Self {
        Self {
            reserved,
            promised: reserved.quota,
            base: 0,
            allotted: reserved.quota,
            predicted: None,
            throttled: false,
            surplus_closed: false,
            foreground: 0,
            underrun: false,
            counts: Counts::default(),
        }
    }

    const fn limit(&self) -> u64 {
        self.base.saturating_add(self.allotted)
    }

    /// What surplus time leaves to the foreground now, of what is allotted: what the core donated
    /// may come back, and is the foreground's first. And that may always begin, since until it
    /// reads no VCPU knows that it will.
    fn kept(&self) -> u64 {
        let Reserved { quota, foreground, .. } = self.reserved;
        let Some(foreground) = foreground else { return 0 };
        let kept = foreground.saturating_sub(self.foreground).max(1).min(quota - 1);
        kept.saturating_sub(quota.saturating_sub(self.allotted))
    }

    /// A period ended in which it used so much.
    fn record(&mut self, used: u64, newest: u64) {
        let quota = self.reserved.quota;
        // What was kept from surplus time was not left unused for want of demand.
        let used = if self.surplus_closed { used.max(self.allotted) } else { used };
        self.counts.periods += 1;
        if self.underrun && used < quota {
            let missed = quota - used;
            self.counts.errors += 1;
            // An error of a tenth, and no more, is one "to 10%".
            let tenths = (u128::from(missed) * 10).div_ceil(u128::from(quota));
            self.counts.sizes[tenths.saturating_sub(1).min(9) as usize] += 1;
            // algorithms.md D.4: nothing is donated in the next period.
            self.predicted = Some(quota + missed);
            return;
        }
        let before = self.predicted.unwrap_or(used);
        // Rounded up: rounding never makes a core donate what it uses.
        self.predicted = Some((before * (newest - 1) + used).div_ceil(newest));
    }

    /// Takes its budget for a new period; returns what it donates.
    fn begin(&mut self, base: u64) -> u64 {
        self.base = base;
        (self.throttled, self.underrun, self.surplus_closed) = (false, false, false);
        self.foreground = 0;
        let Reserved { quota, soft, .. } = self.reserved;
        self.allotted = match self.predicted {
            // One request stays: only by using it does a core show that it wants more.
            Some(predicted) if soft => quota.min(predicted.max(1)),
            Some(_) | None => quota,
        };
        self.counts.donated += quota - self.allotted;
        quota - self.allotted
    }

    /// Whether whatever would run in this mode waits for the next period.
    const fn is_closed(&self, mode: Mode) -> bool {
        self.throttled || self.surplus_closed && matches!(mode, Mode::Background)
    }

    /// Overflow by whatever runs in `mode`: it used so much, with what is kept from it, which is at
    /// least its allotment.
    fn overflow(&mut self, mode: Mode, used: u64, pool: &mut u64, q_min: u64) {
        let Reserved { quota, soft, .. } = self.reserved;
        if soft && *pool > 0 {
            let wanted = if used < quota { quota - self.allotted } else { q_min };
            let taken = wanted.min(*pool);
            *pool -= taken;
            self.allotted += taken;
            self.counts.reclaimed += taken;
        } else if used < quota {
            self.underrun = true;
            self.counts.underruns += 1;
            self.allotted = quota;
        } else {
            self.counts.throttled += u64::from(!self.surplus_closed);
            match mode {
                Mode::Foreground => self.throttled = true,
                Mode::Background => self.surplus_closed = true,
            }
        }
    }

    fn statistics(&self, core: CoreId, statistics: &mut Vec<Statistic>) {
        let Counts { periods, underruns, errors, sizes, donated, reclaimed, throttled } =
            self.counts;
        let named = [
            ("regulated periods", periods),
            ("underruns", underruns),
            ("underrun errors", errors),
            ("donated requests", donated),
            ("reclaimed requests", reclaimed),
            ("throttled periods", throttled),
        ];
        let named = named.into_iter().chain(ERROR_SIZES.into_iter().zip(sizes));
        statistics.extend(named.map(|(name, value)| Statistic {
            name,
            core: Some(core),
            vcpu: None,
            value,
        }));
    }
}

/// All cores' regulators and what they share.
#[derive(Clone, Debug)]
pub(super) struct Regulator {
    /// By core; `None` = not regulated.
    pub(super) cores: Vec<Option<Core>>,
    /// Every core's memory meter, as far as it was reported.
    meters: Vec<u64>,
    /// G: what was donated in this period and not reclaimed.
    pub(super) pool: u64,
    /// No VCPU is regulated until the next period.
    pub(super) sharing: bool,
    /// How often spare bandwidth was given away.
    pub(super) phases: u64,
    newest: u64,
    q_min: u64,
    spare: Spare,
    /// How far all budgets stand above what was promised; `None` = they stay.
    level: Option<Level>,
}

impl Regulator {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            cores: settings.cores.iter().map(|reserved| reserved.map(Core::new)).collect(),
            meters: alloc::vec![0; settings.cores.len()],
            pool: 0,
            sharing: false,
            phases: 0,
            newest: settings.newest,
            q_min: settings.q_min,
            spare: settings.spare,
            level: settings.utilization.map(Level::new),
        }
    }

    /// Whether any core is regulated.
    pub(super) fn regulates(&self) -> bool {
        self.cores.iter().any(Option::is_some)
    }

    /// Whether surplus time leaves anything of `core` to the foreground.
    pub(super) fn keeps(&self, core: CoreId) -> bool {
        self.cores[core.0 as usize].as_ref().is_some_and(|core| core.reserved.foreground.is_some())
    }

    /// What the meter of `core` counted was reported.
    pub(super) fn count(&mut self, core: CoreId, mode: Mode, metered: u64) {
        self.meters[core.0 as usize] += metered;
        if let (Some(core), Mode::Foreground) = (&mut self.cores[core.0 as usize], mode) {
            core.foreground += metered;
        }
    }

    /// The memory controller was busy for so long.
    pub(super) fn utilized(&mut self, busy: Duration, of: Duration) {
        if let Some(level) = &mut self.level {
            level.utilized(busy, of);
        }
    }

    /// Reading of the core's meter at which it closes.
    pub(super) fn limit(&self, core: CoreId) -> MemoryLimit {
        match &self.cores[core.0 as usize] {
            Some(core) if !self.sharing => MemoryLimit(core.limit()),
            Some(_) | None => MemoryLimit::NEVER,
        }
    }

    /// What surplus time may still read on the core; `None` = as much as it likes.
    pub(super) fn surplus(&self, core: CoreId) -> Option<u64> {
        let meter = self.meters[core.0 as usize];
        match &self.cores[core.0 as usize] {
            Some(core) if !self.sharing && core.is_closed(Mode::Background) => Some(0),
            Some(core) if !self.sharing => Some(core.limit().saturating_sub(meter + core.kept())),
            Some(_) | None => None,
        }
    }

    /// A new period begins (algorithms.md D.2, PERIOD START). Where it begins early, because all
    /// active cores used their budgets, the others' shortened period says nothing of what they
    /// need, unless they did not get back what they had donated.
    pub(super) fn start_period(&mut self, early: bool) {
        self.pool = 0;
        let sharing = core::mem::take(&mut self.sharing);
        let held_back = self.cores.iter().flatten().any(|core| core.is_closed(Mode::Background));
        self.level.iter_mut().for_each(|level| level.step(held_back));
        for (core, meter) in self.cores.iter_mut().zip(&self.meters) {
            let Some(core) = core else { continue };
            // Beyond its limit it owes to the new period.
            let base = if sharing { *meter } else { core.limit().min(*meter) };
            if !early || core.is_closed(Mode::Background) || core.underrun {
                core.record(base - core.base, self.newest);
            }
            if let Some(level) = &self.level {
                core.reserved.quota = level.of(core.promised);
            }
            self.pool += core.begin(base);
        }
    }

    /// Deals with every core that used its allotment (algorithms.md D.2, OVERFLOW), or whose
    /// surplus time used its part. `active` says in which mode a core would run someone now were it
    /// not closed.
    pub(super) fn overflow(&mut self, active: impl Fn(CoreId) -> Option<Mode>) {
        if self.sharing {
            return;
        }
        for ((id, core), meter) in (0..).map(CoreId).zip(&mut self.cores).zip(&self.meters) {
            let Some(core) = core else { continue };
            let runs = active(id).unwrap_or(Mode::Foreground);
            loop {
                let mode = if *meter >= core.limit() { Mode::Foreground } else { runs };
                let kept = if mode == Mode::Background { core.kept() } else { 0 };
                if core.is_closed(mode) || *meter + kept < core.limit() {
                    break;
                }
                core.overflow(mode, *meter - core.base + kept, &mut self.pool, self.q_min);
            }
        }
    }

    /// Deals with spare bandwidth if all active cores are throttled (algorithms.md D.3). True if a
    /// new period must begin at once. An active core without a budget has not used one up.
    pub(super) fn spare(&mut self, active: impl Fn(CoreId) -> Option<Mode>) -> bool {
        if self.sharing || self.spare == Spare::Off {
            return false;
        }
        let waits = |core: &Option<Core>, mode| core.as_ref().is_some_and(|it| it.is_closed(mode));
        let mut cores = (0..).map(CoreId).zip(&self.cores);
        let used_up = self.cores.iter().any(|core| waits(core, Mode::Background))
            && cores.all(|(id, core)| active(id).is_none_or(|mode| waits(core, mode)));
        self.phases += u64::from(used_up);
        self.sharing = used_up && self.spare == Spare::Share;
        used_up && self.spare == Spare::Proportional
    }

    pub(super) fn statistics(&self, statistics: &mut Vec<Statistic>) {
        for (id, core) in (0..).map(CoreId).zip(&self.cores) {
            if let Some(core) = core {
                core.statistics(id, statistics);
            }
        }
        let phases = ("spare phases", self.phases);
        let level = self.level.iter().flat_map(Level::counted);
        statistics.extend([phases].into_iter().chain(level).map(|(name, value)| Statistic {
            name,
            core: None,
            vcpu: None,
            value,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_core_donated_is_the_foregrounds_first() {
        let reserved = Reserved { quota: 100, soft: true, foreground: Some(60) };
        let mut core = Core::new(reserved);
        assert_eq!(core.kept(), 60);
        core.predicted = Some(90);
        assert_eq!((core.begin(0), core.kept()), (10, 50));
        // At 40 surplus time asks for what was donated, has it back, and goes no further.
        let mut pool = 10;
        core.overflow(Mode::Background, 40 + core.kept(), &mut pool, 5);
        assert_eq!((core.allotted, core.kept(), pool), (100, 60, 0));
        core.overflow(Mode::Background, 40 + core.kept(), &mut pool, 5);
        assert!(core.is_closed(Mode::Background) && !core.is_closed(Mode::Foreground));
    }
}
