//! Sums over the VCPUs of a core, kept as they come and go: most admission tests by utilization are
//! answered by them, without going through all VCPUs again.
//!
//! Each VCPU counts in whole parts, rounded up, so that what [`bounds`](super::bounds) would say is
//! known within a few parts a VCPU. Only where that may lie on either side of the bound is it to be
//! computed. So the answers are the same.

use super::bounds;
use super::exact::Exact;
use super::priority;
use super::test::Test;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use maracas_core::{PPB, Rate, Reservation, Role, Vcpu};

/// Parts of a whole core.
pub(crate) const ONE: u128 = Exact::PARTS;

/// Beside what the VCPUs may be off: parts by which a bound may be off, and one to spare.
const SLACK: u128 = 4;

/// What some VCPUs come to in whole parts, each rounded up.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sum {
    parts: u128,
    vcpus: u128,
}

impl Sum {
    /// How many VCPUs.
    pub(crate) const fn vcpus(self) -> u128 {
        self.vcpus
    }
    /// What exact arithmetic finds is not more: it rounds up by less than two parts a step.
    pub(crate) const fn most(self) -> u128 {
        self.parts.saturating_add(2 * self.vcpus + SLACK)
    }
    /// What exact arithmetic finds is not less.
    pub(crate) const fn least(self) -> u128 {
        self.parts.saturating_sub(self.vcpus + SLACK)
    }
    fn add(&mut self, parts: u128) {
        (self.parts, self.vcpus) = (self.parts.saturating_add(parts), self.vcpus + 1);
    }
    fn remove(&mut self, parts: u128) {
        (self.parts, self.vcpus) = (self.parts - parts, self.vcpus - 1);
    }
    /// Whether exact arithmetic finds at most `bound`; `None` = that is too close to say.
    fn within(self, bound: u128) -> Option<bool> {
        if self.most() <= bound {
            return Some(true);
        }
        (self.least() > bound).then_some(false)
    }
}

/// One VCPU in whole parts.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// [`bounds::demand`].
    demand: u128,
    /// What the deciding test sums up.
    tested: u128,
}

/// The sums of one core's VCPUs.
#[derive(Clone, Default, Debug)]
struct OfCore {
    /// What those ask for that run programs.
    programs: Sum,
    /// The same of all.
    all: Sum,
    /// What the deciding test sums up, of all.
    tested: Sum,
    /// The greatest part in `tested`.
    heaviest: u128,
    /// The exact sums of what all ask for, and of what programs do, where they were computed.
    load: Cell<Option<Exact>>,
    programs_load: Cell<Option<Exact>>,
}

impl OfCore {
    fn forget(&self) {
        self.load.set(None);
        self.programs_load.set(None);
    }
}

/// The sums of all cores.
#[derive(Debug)]
pub(crate) struct Sums {
    test: Test,
    /// Cores of one list.
    cores: u128,
    /// What the VCPUs of one list may ask for together.
    capacity: u128,
    lists: Vec<OfCore>,
    /// The terms of the VCPU that was asked for last: it is tried on many cores.
    last: Cell<Option<(Reservation, Role, Terms)>>,
    /// By the number of VCPUs, Liu and Layland's bound as far as it was asked for.
    liu_layland: RefCell<Vec<u128>>,
}

impl Sums {
    /// For `lists` lists of `cores` cores each, of which `capacity` may be taken.
    pub(crate) fn new(test: Test, lists: usize, cores: usize, capacity: Rate) -> Self {
        let all = Exact::from(capacity).times(Exact::whole(cores as u128));
        Self {
            test,
            cores: cores as u128,
            capacity: all.parts_up().saturating_sub(1),
            lists: alloc::vec![OfCore::default(); lists],
            last: Cell::new(None),
            liu_layland: RefCell::default(),
        }
    }
    /// How many cores a list is of.
    pub(crate) const fn cores(&self) -> u128 {
        self.cores
    }
    /// `vcpu` came to `list`.
    pub(crate) fn add(&mut self, list: usize, vcpu: &Vcpu) {
        let terms = self.terms(vcpu);
        let own = &mut self.lists[list];
        own.all.add(terms.demand);
        own.tested.add(terms.tested);
        own.heaviest = own.heaviest.max(terms.tested);
        if !priority::serves_requests(vcpu.role) {
            own.programs.add(terms.demand);
        }
        own.forget();
    }
    /// `vcpu` left `list`, where `others` stay.
    pub(crate) fn remove(&mut self, list: usize, vcpu: &Vcpu, others: &[Vcpu]) {
        let terms = self.terms(vcpu);
        let heaviest = self.lists[list].heaviest;
        let heaviest = if self.test == Test::Gfb && terms.tested == heaviest {
            others.iter().map(|other| self.terms(other).tested).max().unwrap_or(0)
        } else {
            heaviest
        };
        let own = &mut self.lists[list];
        own.all.remove(terms.demand);
        own.tested.remove(terms.tested);
        own.heaviest = heaviest;
        if !priority::serves_requests(vcpu.role) {
            own.programs.remove(terms.demand);
        }
        own.forget();
    }
    /// What those on `list` ask for that run programs.
    pub(crate) fn programs(&self, list: usize) -> Sum {
        self.lists[list].programs
    }
    /// What all on `list` ask for.
    pub(crate) fn all(&self, list: usize) -> Sum {
        self.lists[list].all
    }
    /// The exact sum of what those on `list` ask for, which are `vcpus`.
    pub(crate) fn load(&self, list: usize, vcpus: &[Vcpu]) -> Exact {
        let load = &self.lists[list].load;
        let exact = load.get().unwrap_or_else(|| bounds::total(vcpus, bounds::demand));
        load.set(Some(exact));
        exact
    }
    /// The same of those that run programs.
    pub(crate) fn programs_load(&self, list: usize, vcpus: &[Vcpu]) -> Exact {
        let load = &self.lists[list].programs_load;
        let of = |vcpu: &Vcpu| match priority::serves_requests(vcpu.role) {
            true => Exact::ZERO,
            false => bounds::demand(vcpu),
        };
        let exact = load.get().unwrap_or_else(|| bounds::total(vcpus, of));
        load.set(Some(exact));
        exact
    }

    /// Whether the capacity and the deciding test accept `vcpu` besides those on `list`; `None` =
    /// they must be asked.
    pub(crate) fn accept(&self, list: usize, vcpu: &Vcpu) -> Option<bool> {
        let (own, terms) = (&self.lists[list], self.terms(vcpu));
        let (mut all, mut tested) = (own.all, own.tested);
        all.add(terms.demand);
        tested.add(terms.tested);
        let carries = all.vcpus() > own.programs.vcpus() + 1;
        let test = match self.test {
            Test::Capacity => Some(true),
            Test::Edf => tested.within(ONE),
            Test::Gfb => self.gfb(tested, own.heaviest.max(terms.tested)),
            // Service VCPUs count by the others' periods.
            Test::LiuLayland if carries || priority::serves_requests(vcpu.role) => None,
            Test::LiuLayland => tested.within(self.liu_layland(tested.vcpus() as usize)),
            Test::Hyperbolic
            | Test::Rta
            | Test::GlobalBak
            | Test::GlobalBcl
            | Test::GlobalFfDbf
            | Test::GlobalRta
            | Test::GlobalFixed(..)
            | Test::Qpa => None,
        };
        match (all.within(self.capacity), test) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            (Some(true) | None, None) | (None, Some(true)) => None,
        }
    }

    /// m - (m - 1) max U, with U a part too great at most.
    fn gfb(&self, tested: Sum, heaviest: u128) -> Option<bool> {
        let bound = |u: u128| (self.cores * ONE).saturating_sub((self.cores - 1).saturating_mul(u));
        if tested.most() <= bound(heaviest) {
            return Some(true);
        }
        (tested.least() > bound(heaviest.saturating_sub(1))).then_some(false)
    }
    /// Liu and Layland's bound for so many VCPUs, a part too low at most.
    fn liu_layland(&self, vcpus: usize) -> u128 {
        let mut known = self.liu_layland.borrow_mut();
        for n in known.len()..=vcpus {
            let ppb = bounds::liu_layland_ppb(n);
            known.push(u128::from(ppb) * ONE / u128::from(PPB));
        }
        known[vcpus]
    }
    fn terms(&self, vcpu: &Vcpu) -> Terms {
        if let Some((reservation, role, terms)) = self.last.get()
            && (reservation, role) == (vcpu.reservation, vcpu.role)
        {
            return terms;
        }
        let demand = bounds::demand(vcpu).parts_up();
        let tested = match self.test {
            Test::Edf | Test::Gfb => bounds::density(vcpu).parts_up(),
            Test::LiuLayland => {
                bounds::demand_by_deadline(vcpu, vcpu.reservation.period).parts_up()
            }
            Test::Capacity
            | Test::Hyperbolic
            | Test::Rta
            | Test::GlobalBak
            | Test::GlobalBcl
            | Test::GlobalFfDbf
            | Test::GlobalRta
            | Test::GlobalFixed(..)
            | Test::Qpa => demand,
        };
        let terms = Terms { demand, tested };
        self.last.set(Some((vcpu.reservation, vcpu.role, terms)));
        terms
    }
}
