//! Fixed priorities: the order, and the admission parameter of the policies that use it.

use super::table::Test;
use maracas_core::params::{Kind, ParamSpec, Params};
use maracas_core::{Duration, Vcpu, VcpuId};

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

/// Rate-monotonic order, deadline-monotonic where a deadline lies before the period's end; ties
/// by id. Smaller is more urgent.
pub(crate) fn of(vcpu: &Vcpu) -> (Duration, VcpuId) {
    (vcpu.reservation.deadline.min(vcpu.reservation.period), vcpu.id)
}
