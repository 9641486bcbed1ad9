//! Fixed priorities: the order.

use maracas_core::{Duration, Role, Vcpu, VcpuId};

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
