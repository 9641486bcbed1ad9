//! Exact response times under preemptive fixed priorities on one core.

use alloc::vec::Vec;
use maracas_core::admission::{Measure, TestResult};
use maracas_core::{Duration, Role, Vcpu};

/// Joseph and Pandya, The Computer Journal 1986; Audsley et al. 1993: the least fixed point of
/// R = C_i + sum over more urgent j of ceil(R / T_j) C_j, against the deadline. No blocking.
/// `vcpus` come in priority order.
///
/// An I/O VCPU counts with what it may consume in a window of its declared period, (2-U)UT (spec
/// algorithms.md F.6), so it must keep that period: at an inherited one it would stand elsewhere in
/// the order.
pub(crate) fn response_times(vcpus: &[Vcpu]) -> TestResult {
    let mut list = Vec::with_capacity(vcpus.len());
    let mut urgent: Vec<(u64, u64)> = Vec::with_capacity(vcpus.len());
    let mut before = None;
    for vcpu in vcpus {
        let cost = cost(vcpu);
        let limit = vcpu.reservation.deadline.min(vcpu.reservation.period);
        let response = fixed_point(cost, before.unwrap_or(0), limit.ticks(), &urgent);
        before = response;
        list.push((vcpu.id, response.map(Duration::from_ticks), limit));
        urgent.push((cost, vcpu.reservation.period.ticks()));
    }
    let accepted = list.iter().all(|(_, response, _)| response.is_some());
    TestResult { test: "rta", measure: Measure::Responses(list), accepted }
}

/// What one period of `vcpu` may cost the less urgent, rounded up to ticks.
fn cost(vcpu: &Vcpu) -> u64 {
    let (c, t) = (vcpu.reservation.budget.ticks(), vcpu.reservation.period.ticks());
    match vcpu.role {
        Role::Io if c <= t => {
            // (2-U)UT = 2C - C^2/T.
            let (c, t) = (u128::from(c), u128::from(t));
            u64::try_from((2 * c * t - c * c).div_ceil(t)).unwrap_or(u64::MAX)
        }
        Role::Io | Role::Main | Role::Monitor | Role::Migration => c,
    }
}

/// `before` is the response time of the least of the `urgent`, or 0: that and C_i is no more than
/// the least fixed point, since R - C_i holds all that the urgent do until then.
fn fixed_point(cost: u64, before: u64, limit: u64, urgent: &[(u64, u64)]) -> Option<u64> {
    let mut response = u128::from(cost) + u128::from(before);
    while response <= u128::from(limit) {
        // At most the limit, so it fits.
        let window = response as u64;
        let interference = |&(c, t): &(u64, u64)| u128::from(window.div_ceil(t)) * u128::from(c);
        let next = u128::from(cost) + urgent.iter().map(interference).sum::<u128>();
        if next == response {
            return Some(window);
        }
        response = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_of_f5() {
        let ticks = Duration::from_ticks;
        let set: Vec<_> = [(1, 4), (2, 6), (3, 12)]
            .iter()
            .enumerate()
            .map(|(i, &(c, t))| Vcpu::new(i as u32, ticks(c), ticks(t)))
            .collect();
        let result = response_times(&set);
        let responses = [1, 3, 10].map(|r| Some(ticks(r)));
        let Measure::Responses(list) = &result.measure else { panic!("{result}") };
        assert!(list.iter().map(|(_, r, _)| *r).eq(responses), "{result}");
        assert!(result.accepted);
    }

    #[test]
    fn overload_is_beyond_the_deadline() {
        let ticks = Duration::from_ticks;
        let set = [Vcpu::new(0, ticks(5), ticks(8)), Vcpu::new(1, ticks(5), ticks(12))];
        let result = response_times(&set);
        assert_eq!(
            alloc::format!("{result}"),
            "rta: vcpu0 5ns of 8ns, vcpu1 beyond 12ns (refused)"
        );
    }
}
