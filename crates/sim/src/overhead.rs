//! What switching and deciding cost.

use maracas_core::Duration;

/// Costs that the simulator charges; all zero by default.
///
/// Every cost is time in which the core's VCPU makes no progress while its meter runs, as on a
/// real core where the kernel works in the VCPU's name. On an idle core the cost delays what
/// starts there next.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Overheads {
    /// Charged to the incoming VCPU whenever a core takes up a VCPU that it did not run at the
    /// instant before.
    pub context_switch: Duration,
    /// Charged on top to a VCPU that is taken up by another core than it ran on last (cold
    /// caches).
    pub migration: Duration,
    /// Charged per call of the policy, on the core where the first event happened that the
    /// decision answers; on core 0 where the policy's own wake called for it.
    pub decision: Duration,
    /// Charged per job release, on the core on whose line the VCPU stands, else where it last
    /// ran, else on core 0.
    pub release: Duration,
}

impl Overheads {
    /// Whether nothing is charged.
    pub const fn is_free(&self) -> bool {
        self.context_switch.is_zero()
            && self.migration.is_zero()
            && self.decision.is_zero()
            && self.release.is_zero()
    }
}
