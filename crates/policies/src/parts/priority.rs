//! Fixed priorities: the order, and the admission parameter of the policies that use it.

use super::test::Test;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Role, Vcpu, VcpuId};

/// Parameter: the test that decides on each core.
pub(crate) const ADMISSION: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["ll", "hyperbolic", "rta"]),
    help: "the test that decides on each core: ll = sum of U at most n(2^(1/n) - 1) (Liu and \
           Layland 1973), hyperbolic = product of (U + 1) at most 2 (Bini et al. 2003), rta = \
           exact response times (Joseph and Pandya 1986)",
};

/// The test that the user chose.
pub(crate) fn chosen(params: &Params, spec: &ParamSpec) -> Test {
    match params.choice(spec) {
        "hyperbolic" => Test::Hyperbolic,
        "rta" => Test::Rta,
        "none" => Test::Capacity,
        _ => Test::LiuLayland,
    }
}

/// By which span fixed priorities go, the shortest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// D: deadline-monotonic, which is rate-monotonic where D = T (J. Y.-T. Leung, J. Whitehead,
    /// "On the Complexity of Fixed-Priority Scheduling of Periodic, Real-Time Tasks", Performance
    /// Evaluation 2(4), 1982).
    Deadline,
    /// T: rate-monotonic whatever the deadlines.
    Period,
}

/// The span of `vcpu` that counts.
pub(crate) fn span(vcpu: &Vcpu, by: By) -> Duration {
    let r = &vcpu.reservation;
    match by {
        By::Deadline => r.deadline.min(r.period),
        By::Period => r.period,
    }
}

/// Rate-monotonic order, deadline-monotonic where a deadline lies before the period's end; ties
/// by id. Smaller is more urgent. Above this order stand the service VCPUs of service requests.
pub(crate) fn of(vcpu: &Vcpu) -> (Duration, VcpuId) {
    let served = serves_requests(vcpu.role);
    (if served { Duration::ZERO } else { span(vcpu, By::Deadline) }, vcpu.id)
}

/// Whether a VCPU of this role runs service requests and nothing else: it has the highest priority
/// of its core and no surplus time (MARACAS, section V; for the monitor likewise).
pub(crate) const fn serves_requests(role: Role) -> bool {
    match role {
        Role::Monitor | Role::Migration => true,
        Role::Main | Role::Io => false,
    }
}
