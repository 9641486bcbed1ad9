//! By which test a VCPU is admitted.

use super::global::fixed::Fixed;
use super::priority::By;
use maracas_core::params::{Kind, ParamSpec, Params};

/// The test that decides, besides the capacity that always does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    /// Nothing but the capacity.
    Capacity,
    /// EDF by utilization or density.
    Edf,
    /// EDF by processor demand.
    Qpa,
    /// Global EDF by Goossens, Funk and Baruah.
    Gfb,
    /// Global EDF by Baker.
    GlobalBak,
    /// Global EDF by Bertogna, Cirinei and Lipari.
    GlobalBcl,
    /// Global EDF by forced-forward demand.
    GlobalFfDbf,
    /// Global EDF by response times.
    GlobalRta,
    /// Global fixed priorities in this order.
    GlobalFixed(Fixed, By),
    /// Liu and Layland's bound for fixed priorities.
    LiuLayland,
    /// The hyperbolic bound for fixed priorities.
    Hyperbolic,
    /// Exact response times for fixed priorities.
    Rta,
}

impl Test {
    /// Whether it speaks of one set of sporadic tasks. That may grow while the system runs: who
    /// comes late is a sporadic task of the greater set. But it is not exchanged for another: jobs
    /// that the one delayed would meet the other, and neither passing says that both do.
    pub(crate) const fn is_of_one_set(self) -> bool {
        match self {
            Self::GlobalBak
            | Self::GlobalBcl
            | Self::GlobalFfDbf
            | Self::GlobalRta
            | Self::GlobalFixed(..)
            | Self::Qpa => true,
            Self::Capacity
            | Self::Edf
            | Self::Gfb
            | Self::LiuLayland
            | Self::Hyperbolic
            | Self::Rta => false,
        }
    }
}

/// Parameter of partitioned fixed priorities: the test that decides on each core.
pub(crate) const FIXED_PRIORITIES: ParamSpec = ParamSpec {
    name: "admission",
    kind: Kind::Choice(&["ll", "hyperbolic", "rta"]),
    help: "the test that decides on each core: ll = sum of U at most n(2^(1/n) - 1) (Liu and \
           Layland 1973), hyperbolic = product of (U + 1) at most 2 (Bini et al. 2003), rta = \
           exact response times (Joseph and Pandya 1986)",
};

/// The test of fixed priorities that the user chose.
pub(crate) fn chosen(params: &Params, spec: &ParamSpec) -> Test {
    match params.choice(spec) {
        "hyperbolic" => Test::Hyperbolic,
        "rta" => Test::Rta,
        "none" => Test::Capacity,
        _ => Test::LiuLayland,
    }
}
