//! What the machine law asks of the VCPUs.

use super::{Demands, NONE};
use maracas_core::contract::Mode;
use maracas_core::dispatch::Readings;
use maracas_core::{Duration, VcpuId};

/// Which VCPUs woke since the policy was asked last: it is told of all before.
#[derive(Default)]
pub(crate) struct Wakes {
    /// How often the policy was asked.
    asked: u64,
    /// By VCPU, how often it had been when it woke last, plus one.
    woke: Vec<u64>,
}

impl Wakes {
    /// The policy is asked.
    pub(crate) const fn ask(&mut self) {
        self.asked += 1;
    }
    /// A VCPU that had nothing to run has something.
    pub(super) fn woke(&mut self, vcpu: u32) {
        let vcpu = vcpu as usize;
        if self.woke.len() <= vcpu {
            self.woke.resize(vcpu + 1, 0);
        }
        self.woke[vcpu] = self.asked + 1;
    }
    #[inline]
    fn has_woken(&self, vcpu: u32) -> bool {
        self.woke.get(vcpu as usize).is_some_and(|woke| *woke == self.asked + 1)
    }
}

impl Readings for Demands {
    #[inline]
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.0 as usize).is_some_and(|demand| demand.current != NONE)
    }
    #[inline]
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.vcpus[vcpu.0 as usize].meters[mode as usize]
    }
    #[inline]
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.vcpus[vcpu.0 as usize].memory
    }
    #[inline]
    fn has_woken(&self, vcpu: VcpuId) -> bool {
        self.wakes.has_woken(vcpu.0)
    }
}
