//! The smallest change by which a refused system would be admitted.
//!
//! What is admitted is asked of a closure, since no policy stands in this room. Each kind of
//! change is searched by bisection, as if admission were monotone in it; where a policy's
//! placement breaks that (bin packing may), a smaller change can exist, but every change that is
//! named was itself admitted.

use crate::cursor::LONGEST;
use crate::scenario::{Scenario, VcpuSpec};
use maracas_core::{CoreId, Duration, MAX_CORES, Reservation, System, VcpuId};
use std::fmt;

/// A budget below a tenth of what was asked for, or a period above ten times it, is no help to
/// anyone and is not named.
const USEFUL: u64 = 10;

/// The VCPUs that a change of all budgets is about.
const EVERYONE: &str = "every VCPU";

/// One change to one system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Let the VCPU run on any core.
    Unpin {
        /// Which.
        vcpu: VcpuId,
        /// Its pin until now.
        from: CoreId,
    },
    /// Lower one budget.
    Budget {
        /// Whose.
        vcpu: VcpuId,
        /// Until now.
        from: Duration,
        /// From now on.
        to: Duration,
    },
    /// Raise one period (and the deadline with it, where it is implicit).
    Period {
        /// Whose.
        vcpu: VcpuId,
        /// Until now.
        from: Duration,
        /// From now on.
        to: Duration,
    },
    /// Add cores.
    Cores {
        /// Until now.
        from: usize,
        /// From now on.
        to: usize,
    },
    /// Lower every budget to this many thousandths of itself.
    AllBudgets {
        /// Thousandths that are left.
        permille: u64,
    },
}

impl Change {
    /// Parts per million by which the changed number changes; 0 where no number does.
    pub fn ppm(&self) -> u64 {
        let ppm = |part: u64, whole: u64| {
            u64::try_from(u128::from(part) * 1_000_000 / u128::from(whole)).unwrap_or(u64::MAX)
        };
        match *self {
            Self::Unpin { .. } => 0,
            Self::Budget { from, to, .. } => ppm((from - to).ticks(), from.ticks()),
            Self::Period { from, to, .. } => ppm((to - from).ticks(), from.ticks()),
            Self::Cores { from, to } => ppm((to - from) as u64, from as u64),
            Self::AllBudgets { permille } => (1000 - permille) * 1000,
        }
    }

    /// Which VCPU it changes; `None` where it is not one.
    pub const fn vcpu(&self) -> Option<VcpuId> {
        match *self {
            Self::Unpin { vcpu, .. } | Self::Budget { vcpu, .. } | Self::Period { vcpu, .. } => {
                Some(vcpu)
            }
            Self::Cores { .. } | Self::AllBudgets { .. } => None,
        }
    }

    /// What to do, without saying to which VCPU.
    pub fn what(&self) -> String {
        let share = percent(self.ppm());
        match *self {
            Self::Unpin { from, .. } => format!("remove the pin core = {}", from.0),
            Self::Budget { from, to, .. } => {
                format!("lower budget from {from} to {to} ({share} less)")
            }
            Self::Period { from, to, .. } => {
                format!("raise period from {from} to {to} ({share} more)")
            }
            Self::Cores { from, to } => format!("raise cores from {from} to {to} ({share} more)"),
            Self::AllBudgets { permille } => {
                // Exact, since a rounded share might not be admitted.
                format!("lower the budget to {}.{} % of itself", permille / 10, permille % 10)
            }
        }
    }

    /// The system with this change made.
    #[must_use]
    pub fn apply(&self, system: &System) -> System {
        let mut system = system.clone();
        match *self {
            Self::Unpin { vcpu, .. } => vcpu_mut(&mut system, vcpu).pinned = None,
            Self::Budget { vcpu, to, .. } => {
                vcpu_mut(&mut system, vcpu).reservation.budget = to;
            }
            Self::Period { vcpu, to, .. } => {
                let reservation = &mut vcpu_mut(&mut system, vcpu).reservation;
                *reservation = with_period(*reservation, to);
            }
            Self::Cores { to, .. } => system.cores.resize(to, Default::default()),
            Self::AllBudgets { permille } => {
                for vcpu in system.vcpus.iter_mut().filter(|it| !it.reservation.is_none()) {
                    let budget = u128::from(vcpu.reservation.budget.ticks());
                    let less = (budget * u128::from(permille) / 1000).max(1) as u64;
                    vcpu.reservation.budget = Duration::from_ticks(less);
                }
            }
        }
        system
    }
}

fn vcpu_mut(system: &mut System, id: VcpuId) -> &mut maracas_core::Vcpu {
    let found = system.vcpus.iter_mut().find(|vcpu| vcpu.id == id);
    found.unwrap_or_else(|| panic!("a change names {id}, which the system does not have"))
}

const fn with_period(old: Reservation, period: Duration) -> Reservation {
    // D = T says that the user gave no deadline: it goes with the period.
    let implicit = old.deadline.ticks() == old.period.ticks();
    let deadline = if implicit { period } else { old.deadline };
    Reservation { period, deadline, ..old }
}

/// Single changes after each of which `admits` accepts `system`, the smallest first; where there
/// is none, the one factor that would have to be taken from every budget. Empty where even that
/// does not help, or where the system is admitted as it is.
pub fn changes(system: &System, admits: &dyn Fn(&System) -> bool) -> Vec<Change> {
    if admits(system) {
        return Vec::new();
    }
    let works = |change: &Change| admits(&change.apply(system));
    let mut found = Vec::new();
    for vcpu in &system.vcpus {
        let unpin = vcpu.pinned.map(|from| Change::Unpin { vcpu: vcpu.id, from });
        found.extend(unpin.filter(&works));
        if vcpu.reservation.is_none() {
            continue;
        }
        found.extend(smaller_budget(vcpu.id, vcpu.reservation.budget, &works));
        found.extend(longer_period(vcpu.id, vcpu.reservation.period, &works));
    }
    let from = system.cores.len();
    // Where the cache is split, a core more would need a part of it, which the file does not name;
    // where cores are uneven, a class.
    if system.is_even() && system.cores.iter().all(|core| core.colors.is_none()) {
        let cores = |to| Change::Cores { from, to: to as usize };
        found.extend(bisect(from as u64, MAX_CORES as u64, |to| works(&cores(to))).map(cores));
    }
    if found.is_empty() {
        let scaled = |less| Change::AllBudgets { permille: 1000 - less };
        found.extend(bisect(0, 999, |less| works(&scaled(less))).map(scaled));
    }
    // The sort is stable: among equals the first VCPU of the file comes first.
    found.sort_by_key(Change::ppm);
    found
}

fn smaller_budget(
    vcpu: VcpuId,
    from: Duration,
    works: &impl Fn(&Change) -> bool,
) -> Option<Change> {
    let change = |to| Change::Budget { vcpu, from, to: Duration::from_ticks(to) };
    // Bisect the amount taken away.
    let most = from.ticks() - from.ticks().div_ceil(USEFUL);
    let less = bisect(0, most, |less| works(&change(from.ticks() - less)))?;
    let exact = from.ticks() - less;
    let grain = grain(exact);
    let friendly = exact / grain * grain;
    Some(change(if works(&change(friendly)) { friendly } else { exact }))
}

fn longer_period(vcpu: VcpuId, from: Duration, works: &impl Fn(&Change) -> bool) -> Option<Change> {
    let change = |to| Change::Period { vcpu, from, to: Duration::from_ticks(to) };
    let most = from.ticks().saturating_mul(USEFUL).min(LONGEST.ticks());
    let exact = bisect(from.ticks(), most, |to| works(&change(to)))?;
    let friendly = exact.next_multiple_of(grain(exact));
    Some(change(if works(&change(friendly)) { friendly } else { exact }))
}

/// The place of the third significant digit: what people write.
const fn grain(ticks: u64) -> u64 {
    let mut grain = 1;
    while ticks / grain >= 1000 {
        grain *= 10;
    }
    grain
}

/// The least number in `(bad, good]` that is `ok`, if `good` is, and `ok` is monotone.
fn bisect(mut bad: u64, mut good: u64, ok: impl Fn(u64) -> bool) -> Option<u64> {
    if bad >= good || !ok(good) {
        return None;
    }
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if ok(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

impl Scenario {
    /// A change as a sentence with the key to edit, its new value and its place:
    /// `camera: lower budget from 4ms to 3.12ms (22 % less) at quickstart.toml:12`.
    pub fn describe(&self, change: &Change) -> String {
        let (name, line) = match *change {
            Change::Unpin { vcpu, .. } => {
                let spec = self.vcpu(vcpu);
                (spec.name.as_str(), spec.core_at.unwrap_or(spec.at).line)
            }
            Change::Budget { vcpu, .. } => {
                (self.vcpu(vcpu).name.as_str(), self.vcpu(vcpu).budget_at.line)
            }
            Change::Period { vcpu, .. } => {
                (self.vcpu(vcpu).name.as_str(), self.vcpu(vcpu).period_at.line)
            }
            Change::Cores { .. } => ("platform", self.places.cores.line),
            Change::AllBudgets { .. } => (EVERYONE, 0),
        };
        let what = match change.vcpu().map(|vcpu| self.vcpu(vcpu)) {
            Some(VcpuSpec { deadline_at: Some(at), vcpu, .. })
                if matches!(change, Change::Period { .. })
                    && vcpu.reservation.deadline == vcpu.reservation.period =>
            {
                format!("{}, and its deadline (line {}) with it", change.what(), at.line)
            }
            _ => change.what(),
        };
        if line == 0 {
            format!("{name}: {what}")
        } else {
            format!("{name}: {what} at {}:{line}", self.file)
        }
    }
}

impl fmt::Display for Change {
    /// The change where nothing has a name or a place: `vcpu2: lower budget from 4ms to 3ms ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(vcpu) = self.vcpu() {
            write!(f, "{vcpu}: ")?;
        } else if matches!(self, Self::AllBudgets { .. }) {
            write!(f, "{EVERYONE}: ")?;
        }
        f.write_str(&self.what())
    }
}

/// Per cent with one decimal below ten.
fn percent(ppm: u64) -> String {
    let tenths = (ppm + 500) / 1000;
    if tenths < 100 && !tenths.is_multiple_of(10) {
        format!("{}.{} %", tenths / 10, tenths % 10)
    } else {
        format!("{} %", (ppm + 5000) / 10_000)
    }
}

#[cfg(test)]
mod tests;
