//! Schedulability tests by utilization: Liu-Layland, hyperbolic, EDF, GFB. No floats: sums and
//! products are exact fractions, roots are found by whole-number search.

use super::exact::Exact;
use super::priority;
use core::cmp::Reverse;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, PPB, Rate, Role, Vcpu};

/// What `vcpu` asks of a core in the long run: C/T, and (2-U)U for an I/O VCPU, which may consume
/// that much in a window of one period (algorithms.md F.6). On a slower core it may be owed more
/// than fits into a period: that is too much whatever its role, so it counts as it is.
pub(crate) fn demand(vcpu: &Vcpu) -> Exact {
    let (u, r) = (Exact::from(vcpu.reservation.utilization()), &vcpu.reservation);
    match vcpu.role {
        Role::Io if r.budget <= r.period => Exact::whole(2).minus(u).times(u),
        Role::Io | Role::Main | Role::Monitor | Role::Migration => u,
    }
}

/// C/D for a deadline before the period's end, else C/T.
pub(crate) fn density(vcpu: &Vcpu) -> Exact {
    let r = &vcpu.reservation;
    Exact::from(Rate::of(r.budget, r.deadline.min(r.period)))
}

/// The sum of what `of` says of each VCPU.
pub(crate) fn total(vcpus: &[Vcpu], of: impl Fn(&Vcpu) -> Exact) -> Exact {
    vcpus.iter().fold(Exact::ZERO, |sum, vcpu| sum.plus(of(vcpu)))
}

fn ratio(test: &'static str, value: Exact, bound: Exact) -> TestResult {
    let measure = Measure::Ratio { value: value.ppb_up(), bound: bound.ppb_down() };
    TestResult { test, measure, accepted: value <= bound }
}

/// The share of a core that reservations may take.
pub(crate) fn capacity(vcpus: &[Vcpu], capacity: Rate, cores: usize) -> TestResult {
    let bound = Exact::from(capacity).times(Exact::whole(cores as u128));
    ratio("capacity", total(vcpus, demand), bound)
}

/// Liu and Layland, JACM 1973, theorem 5: the sum of U is at most n(2^(1/n) - 1). Decided in whole
/// parts per billion, the sum rounded up and the bound down. For deadlines before the period's
/// end the densities take the place of the utilizations.
pub(crate) fn liu_layland(vcpus: &[Vcpu]) -> TestResult {
    let shortest = shortest(vcpus);
    let value = total(vcpus, |vcpu| demand_by_deadline(vcpu, shortest)).ppb_up();
    let bound = liu_layland_ppb(vcpus.len());
    TestResult { test: "ll", measure: Measure::Ratio { value, bound }, accepted: value <= bound }
}

/// Bini, Buttazzo and Buttazzo, IEEE ToC 2003: the product of (U + 1) is at most 2.
pub(crate) fn hyperbolic(vcpus: &[Vcpu]) -> TestResult {
    let shortest = shortest(vcpus);
    let product = vcpus.iter().fold(Exact::ONE, |product, vcpu| {
        product.times(demand_by_deadline(vcpu, shortest).plus(Exact::ONE))
    });
    ratio("hyperbolic", product, Exact::whole(2))
}

/// EDF on one core: the sum of U is at most 1 (Liu and Layland 1973, theorem 7); with deadlines
/// before the period's end the sum of the densities, which is sufficient.
pub(crate) fn edf(vcpus: &[Vcpu]) -> TestResult {
    ratio("edf", total(vcpus, density), Exact::ONE)
}

/// Goossens, Funk and Baruah, Real-Time Systems 2003: global EDF on `cores` cores misses nothing
/// where the sum of U is at most m - (m - 1) max U; with densities for deadlines before the
/// period's end.
pub(crate) fn gfb(vcpus: &[Vcpu], cores: usize) -> TestResult {
    let heaviest = vcpus.iter().map(density).max().unwrap_or(Exact::ZERO);
    let m = cores as u128;
    let bound = Exact::whole(m).minus(Exact::whole(m - 1).times(heaviest));
    ratio("gfb", total(vcpus, density), bound)
}

/// The least deadline or period among those that stand in rate-monotonic order.
fn shortest(vcpus: &[Vcpu]) -> Duration {
    let ordered = vcpus.iter().filter(|vcpu| !priority::serves_requests(vcpu.role));
    let spans = ordered.map(|vcpu| vcpu.reservation.deadline.min(vcpu.reservation.period));
    spans.min().unwrap_or(Duration::MAX)
}

/// The bounds hold for rate-monotonic order, above which service VCPUs stand. One with the shortest
/// period of its core would stand there by right and take no less of any window, so it counts as
/// if it had that period.
pub(crate) fn demand_by_deadline(vcpu: &Vcpu, shortest: Duration) -> Exact {
    let r = &vcpu.reservation;
    match vcpu.role {
        Role::Monitor | Role::Migration => {
            Exact::from(Rate::of(r.budget, r.deadline.min(r.period).min(shortest)))
        }
        _ if r.deadline >= r.period => demand(vcpu),
        Role::Io => demand(vcpu).times(Exact::from(Rate::of(r.period, r.deadline))),
        Role::Main => density(vcpu),
    }
}

/// n(2^(1/n) - 1) in parts per billion, rounded down: the greatest b with (1 + b/n)^n <= 2.
pub(crate) fn liu_layland_ppb(n: usize) -> u64 {
    if n == 0 {
        return PPB;
    }
    let holds = |b: &u64| power_at_most_two(u128::from(*b), n);
    let (mut low, mut high) = (0, PPB);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if holds(&middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Whether (1 + b/n)^n <= 2 with b in parts per billion; rounds up to 2^-62 in each step.
fn power_at_most_two(b: u128, n: usize) -> bool {
    const BITS: u32 = 62;
    let base = (1 << BITS) + (b << BITS).div_ceil(u128::from(PPB) * n as u128);
    let mut power = base;
    for _ in 1..n {
        power = (power * base).div_ceil(1 << BITS);
        if power > 2 << BITS {
            return false;
        }
    }
    power <= 2 << BITS
}

/// VCPUs by decreasing density, ties by id: the order in which packings take them.
pub(crate) fn heaviest_first(vcpus: &mut [Vcpu]) {
    vcpus.sort_by_cached_key(|vcpu| (Reverse(density(vcpu)), vcpu.id));
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use maracas_core::Duration;

    fn vcpus(list: &[(u64, u64)]) -> Vec<Vcpu> {
        let vcpu = |(i, &(c, t)): (usize, &(u64, u64))| {
            Vcpu::new(i as u32, Duration::from_ticks(c), Duration::from_ticks(t)).periodic()
        };
        list.iter().enumerate().map(vcpu).collect()
    }

    #[test]
    fn liu_layland_table() {
        // algorithms.md F.5, six decimals rounded to nearest.
        let table = [1_000_000, 828_427, 779_763, 756_828, 743_492, 734_772, 728_627, 724_062];
        for (n, millionths) in (1..).zip(table) {
            assert_eq!((liu_layland_ppb(n) + 500) / 1000, millionths, "n = {n}");
        }
        // The limit is ln 2 = 0.693147.
        assert_eq!(liu_layland_ppb(5_000) / 1_000_000, 693);
    }

    #[test]
    fn vector_of_f5() {
        let set = vcpus(&[(1, 4), (2, 6), (3, 12)]);
        let ll = liu_layland(&set);
        assert_eq!(ll.measure, Measure::Ratio { value: 833_333_334, bound: 779_763_149 });
        let hyperbolic = hyperbolic(&set);
        assert_eq!(hyperbolic.measure, Measure::Ratio { value: 2_083_333_334, bound: 2 * PPB });
        assert!(!ll.accepted && !hyperbolic.accepted);
    }

    #[test]
    fn equality_is_accepted() {
        assert!(hyperbolic(&vcpus(&[(1, 2), (1, 3)])).accepted);
        assert!(edf(&vcpus(&[(1, 3), (1, 3), (1, 3)])).accepted);
        assert!(!edf(&vcpus(&[(1, 3), (1, 3), (1_000_001, 3_000_000)])).accepted);
        assert!(liu_layland(&vcpus(&[(7, 7)])).accepted);
        // m - (m-1) max U = 2 - 1/2 = 3/2.
        assert!(gfb(&vcpus(&[(1, 2), (1, 2), (1, 2)]), 2).accepted);
        assert!(!gfb(&vcpus(&[(2, 20), (2, 20), (21, 22)]), 2).accepted);
    }

    #[test]
    fn io_vcpus_count_more() {
        let mut set = vcpus(&[(1, 10)]);
        set[0].role = Role::Io;
        assert_eq!(demand(&set[0]), Exact::new(19, 100));
        set[0].reservation.deadline = Duration::from_ticks(5);
        assert_eq!(demand_by_deadline(&set[0], Duration::MAX), Exact::new(38, 100));
    }

    #[test]
    fn service_vcpus_count_as_if_they_had_the_shortest_period() {
        let mut set = vcpus(&[(1, 1000), (4, 10), (6, 15)]);
        set[0].role = Role::Monitor;
        let value = |result: TestResult| match result.measure {
            Measure::Ratio { value, .. } => value,
            Measure::Responses(_) | Measure::Tardiness(_) => 0,
        };
        // 1/10 + 4/10 + 6/15, 1.1 x 1.4 x 1.4, and in the long run 1/1000 + 4/10 + 6/15.
        assert_eq!(value(liu_layland(&set)), 900_000_000);
        assert_eq!(value(hyperbolic(&set)), 2_156_000_000);
        assert_eq!(value(capacity(&set, Rate::ONE, 1)), 801_000_000);
    }
}
