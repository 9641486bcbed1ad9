//! By which test a VCPU is admitted.

use super::global::fixed::Fixed;
use super::priority::By;

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
    /// The test of global EDF that a user's word means; nothing but the capacity for `none`.
    pub(crate) fn of_global_edf(word: &str) -> Self {
        match word {
            "gfb" => Self::Gfb,
            "bak" => Self::GlobalBak,
            "bcl" => Self::GlobalBcl,
            "ff-dbf" => Self::GlobalFfDbf,
            "rta" => Self::GlobalRta,
            _ => Self::Capacity,
        }
    }
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
