//! Placement: the core with the most slack per VCPU among those that accept the newcomer
//! (MARACAS, Algorithm 2, FIND_HOST_CPU).
//!
//! Where we differ from the printed lines: `host` is undefined there where no core passes; we
//! answer "none". An empty core would divide by zero; its slack per VCPU is infinite, as line 25
//! takes it. Ties go to the lowest core, which the strict `>` of line 7 implies. VCPUs that carry
//! the monitor and migrations do not count in the slack, but do in the test; I/O VCPUs count in
//! both with the (2-U)U that they may consume. All VCPUs bound to a core count, blocked ones too:
//! placement must not depend on what happens to sleep. The test includes the page colours that a
//! VCPU requires (`color.rs`).

use crate::parts::bounds;
use crate::parts::exact::Exact;
use crate::parts::priority;
use crate::parts::sums::{self, Sum};
use crate::parts::table::Table;
use core::cmp::Ordering;
use maracas_core::{CoreId, Vcpu};

/// Slack per VCPU of a core, SPV.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Spv {
    /// (1 - sum of U) / v.
    Finite(Exact),
    /// No VCPU is there.
    Infinite,
}

/// What the VCPUs that count on a core ask of it together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    sum: Exact,
    vcpus: usize,
}

impl Load {
    /// Of those among `vcpus` that run programs.
    pub(crate) fn of<'a>(vcpus: impl IntoIterator<Item = &'a Vcpu>) -> Self {
        let vcpus = vcpus.into_iter().filter(|vcpu| !priority::serves_requests(vcpu.role));
        vcpus.fold(Self { sum: Exact::ZERO, vcpus: 0 }, Self::with)
    }
    /// Of those bound to `core` that run programs.
    fn on(table: &Table, core: CoreId) -> Self {
        let vcpus = table.programs(core).vcpus() as usize;
        Self { sum: table.asked_by_programs(core), vcpus }
    }
    /// With one more.
    pub(crate) fn with(self, vcpu: &Vcpu) -> Self {
        Self { sum: self.sum.plus(bounds::demand(vcpu)), vcpus: self.vcpus + 1 }
    }
    /// Without one of them. Sums too fine to be exact lose too much, which makes a core look
    /// emptier: a move from it then looks worse than it is.
    pub(crate) fn without(self, vcpu: &Vcpu) -> Self {
        Self { sum: self.sum.minus(bounds::demand(vcpu)), vcpus: self.vcpus - 1 }
    }
    /// How many.
    pub(crate) const fn vcpus(self) -> usize {
        self.vcpus
    }
    /// SPV: (1 - sum of U) / v (section V.A).
    pub(crate) fn spv(self) -> Spv {
        match self.vcpus {
            0 => Spv::Infinite,
            v => Spv::Finite(Exact::ONE.minus(self.sum).over(v)),
        }
    }
}

/// FIND_HOST_CPU: where `new_vcpu` must live.
pub(crate) fn find_host(table: &Table, new_vcpu: &Vcpu) -> Option<CoreId> {
    // Algorithm 2, line 2: `None` stands for a slack of 0.
    let mut host = None;
    // Algorithm 2, line 3.
    for core in table.cores() {
        // Algorithm 2, line 7, which is asked before line 4: it takes less time.
        if !has_more_slack(table, core, host) {
            continue;
        }
        // Algorithm 2, line 4.
        if table.fits(core, new_vcpu) {
            host = Some(core);
        }
    }
    // Algorithm 2, line 12.
    host
}

/// Whether the slack per VCPU of `core` is above that of `other`; above 0 where that is `None`. The
/// exact one is asked for only where sums in whole parts leave it open.
fn has_more_slack(table: &Table, core: CoreId, other: Option<CoreId>) -> bool {
    let sum = table.programs(core);
    let Some(other) = other else {
        return sum.most() < sums::ONE || Load::on(table, core).spv() > Spv::Finite(Exact::ZERO);
    };
    let its = table.programs(other);
    match nearly_compare(sum, its) {
        Some(order) => order.is_gt(),
        None => {
            let (one, two) = (Load::on(table, core), Load::on(table, other));
            one != two && one.spv() > two.spv()
        }
    }
}

/// How the SPVs of two sums compare, where that is certain.
fn nearly_compare(one: Sum, other: Sum) -> Option<Ordering> {
    if one.vcpus() == 0 || other.vcpus() == 0 {
        return Some(other.vcpus().cmp(&one.vcpus()));
    }
    // (1 - sum) / v, times both v. Exact arithmetic rounds a quotient up by less than a part.
    let rounding = one.vcpus() * other.vcpus();
    let slack = |sum: u128, by: Sum| sums::ONE.saturating_sub(sum) * by.vcpus();
    if slack(one.most(), other) > slack(other.least(), one) + rounding {
        return Some(Ordering::Greater);
    }
    (slack(one.least(), other) + rounding < slack(other.most(), one)).then_some(Ordering::Less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::table::{Family, Test};
    use alloc::vec::Vec;
    use maracas_core::{Duration, Instant, System};

    fn percent(id: u32, n: u64) -> Vcpu {
        Vcpu::new(id, Duration::from_millis(n), Duration::from_millis(100))
    }
    fn on(core: u16, mut vcpu: Vcpu) -> Vcpu {
        vcpu.pinned = Some(CoreId(core));
        vcpu
    }
    fn table(cores: usize, vcpus: Vec<Vcpu>) -> Table {
        let system = System::new(cores, vcpus);
        let test = Test::LiuLayland;
        let mut table = Table::new(&system, Family::FixedPriority, test, find_host);
        assert!(table.fill(&system, false).accepted());
        table
    }
    fn finite(num: u128, den: u128) -> Spv {
        Spv::Finite(Exact::new(num, den))
    }

    #[test]
    fn ten_and_thirty_percent_leave_thirty_each() {
        let table = table(1, alloc::vec![percent(0, 10), percent(1, 30)]);
        assert_eq!(Load::of(table.on(CoreId(0))).spv(), finite(30, 100));
    }

    #[test]
    fn newcomers_go_where_most_slack_per_vcpu_is() {
        // algorithms.md G.3: 14 %, 45 %, 90 % and infinite slack per VCPU.
        let mut vcpus = Vec::new();
        for (core, n) in [(0, 14), (0, 12), (0, 10), (0, 8), (1, 5), (1, 5), (2, 10)] {
            vcpus.push(on(core, percent(vcpus.len() as u32, n)));
        }
        let mut table = table(4, vcpus);
        let slack = [finite(14, 100), finite(45, 100), finite(90, 100), Spv::Infinite];
        assert!(table.cores().map(|core| Load::of(table.on(core)).spv()).eq(slack));
        assert_eq!(table.arrive(&percent(10, 60), Instant::ZERO), Some(CoreId(3)));
        assert_eq!(table.arrive(&percent(11, 60), Instant::ZERO), Some(CoreId(2)));
        // 45 % on core1 is the most, and 60 % beside 10 % passes with three VCPUs.
        assert_eq!(table.arrive(&percent(12, 60), Instant::ZERO), Some(CoreId(1)));
        assert_eq!(table.arrive(&percent(13, 60), Instant::ZERO), None);
    }

    #[test]
    fn a_full_core_is_no_host() {
        let table = table(1, alloc::vec![percent(0, 100)]);
        assert_eq!(Load::of(table.on(CoreId(0))).spv(), finite(0, 1));
        assert_eq!(find_host(&table, &percent(1, 1)), None);
    }
}
