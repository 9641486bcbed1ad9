//! By which test a VCPU is admitted.

/// The test that decides, besides the capacity that always does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    /// Nothing but the capacity.
    Capacity,
    /// EDF by utilization or density.
    Edf,
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
    /// Liu and Layland's bound for fixed priorities.
    LiuLayland,
    /// The hyperbolic bound for fixed priorities.
    Hyperbolic,
    /// Exact response times for fixed priorities.
    Rta,
}
