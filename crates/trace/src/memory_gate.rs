//! What memory and closed background keep from running on a core, by the machine law.

use maracas_core::contract::{Grant, MemoryLimit, RunQueue};
use maracas_core::dispatch::{self, Readings};
use maracas_core::{Instant, VcpuId};

/// A core's run queue, held against its memory meter.
#[derive(Clone, Default, Debug)]
pub(crate) struct MemoryGate {
    run_queue: RunQueue,
    /// What the core's memory meter reads at least: a trace learns of it when an allowance is
    /// spent.
    meter: u64,
}

impl MemoryGate {
    /// Whether the gate of a core with this run queue may ever keep a VCPU out.
    pub(crate) fn matters(run_queue: &RunQueue) -> bool {
        Self::may_close(run_queue) || run_queue.has_memory_limits()
    }
    /// The same, but for what stands in the foreground with a memory limit.
    #[inline]
    pub(crate) fn matters_for_background(run_queue: &RunQueue) -> bool {
        let is_limited = |grant: &Grant| grant.memory != MemoryLimit::NEVER;
        Self::may_close(run_queue)
            || !run_queue.background.is_empty() && run_queue.background.iter().any(is_limited)
    }
    /// Whether it may do so for the whole core, or all of its background.
    pub(crate) fn may_close(run_queue: &RunQueue) -> bool {
        !run_queue.background_allowed || run_queue.allowance != MemoryLimit::NEVER
    }
    /// The run queue.
    pub(crate) const fn run_queue(&self) -> &RunQueue {
        &self.run_queue
    }
    /// Whether it keeps a VCPU out, or may do so without a further record.
    pub(crate) fn may_keep_out(&self) -> bool {
        dispatch::may_keep_out(&self.run_queue, self.meter)
    }
    /// Whether surplus time may not be used.
    pub(crate) const fn is_background_closed(&self) -> bool {
        !self.run_queue.background_allowed
    }
    /// Whether the allowance is spent.
    pub(crate) const fn is_spent(&self) -> bool {
        self.run_queue.allowance.is_reached(self.meter)
    }
    /// The foreground grants of a core whose allowance of memory is spent: its VCPUs are kept from
    /// their budgets.
    pub(crate) fn kept_from_budgets(&self) -> &[Grant] {
        if self.is_spent() { &self.run_queue.foreground } else { &[] }
    }
    /// The allowance was spent.
    pub(crate) fn spent(&mut self) {
        if self.run_queue.allowance != MemoryLimit::NEVER {
            self.meter = self.meter.max(self.run_queue.allowance.0);
        }
    }
    /// The core has another run queue. It takes the memory of the old one.
    pub(crate) fn run_queue_changed(&mut self, run_queue: &RunQueue) {
        self.run_queue.foreground.clone_from(&run_queue.foreground);
        self.run_queue.background.clone_from(&run_queue.background);
        self.run_queue.background_allowed = run_queue.background_allowed;
        self.run_queue.allowance = run_queue.allowance;
    }
    /// The VCPUs that it keeps out at `now`, as far as some entry of theirs goes.
    pub(crate) fn kept_out<'a>(
        &'a self,
        now: Instant,
        readings: &'a impl Readings,
    ) -> impl Iterator<Item = VcpuId> + 'a {
        dispatch::kept_out(&self.run_queue, now, self.meter, readings)
    }
    /// Whether it alone keeps `vcpu` from running at `now`, by any of its entries.
    pub(crate) fn keeps_out(&self, vcpu: VcpuId, now: Instant, readings: &impl Readings) -> bool {
        let mut entitled = dispatch::entitled(&self.run_queue, now, self.meter, readings);
        self.kept_out(now, readings).any(|kept| kept == vcpu)
            && !entitled.any(|running| running.vcpu == vcpu)
    }
}
