//! What switching, deciding and service requests cost in simulation.

use crate::Duration;

/// Costs that the simulator charges; all zero by default.
///
/// The first four are time in which the core's VCPU makes no progress while its meter runs, as on
/// a real core where the kernel works in the VCPU's name. On an idle core the cost delays what
/// starts there next. The others are work of the VCPU that carries a service request.
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
    /// Service that reading the memory counters takes its service VCPU.
    pub sample: Duration,
    /// E_lock of MARACAS, section V.B: service that taking one run queue's lock takes the service
    /// VCPU of a migration. There are two.
    pub lock: Duration,
    /// E_struct: service that moving a VCPU's structures takes.
    pub structure: Duration,
    /// E_page: service that copying one page to another colour takes.
    pub page_copy: Duration,
}

impl Overheads {
    /// Nothing is charged.
    pub const FREE: Self = Self {
        context_switch: Duration::ZERO,
        migration: Duration::ZERO,
        decision: Duration::ZERO,
        release: Duration::ZERO,
        sample: Duration::ZERO,
        lock: Duration::ZERO,
        structure: Duration::ZERO,
        page_copy: Duration::ZERO,
    };

    /// Service of moving a VCPU with so many pages to copy.
    #[must_use]
    pub fn migration_service_request(&self, pages: u64) -> Duration {
        self.lock * 2 + self.structure + self.page_copy * pages
    }
    /// Whether nothing is charged to those that run.
    pub const fn is_free(&self) -> bool {
        self.context_switch.is_zero()
            && self.migration.is_zero()
            && self.decision.is_zero()
            && self.release.is_zero()
    }
}
