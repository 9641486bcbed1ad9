//! What the machine law asks of the VCPUs.

use super::{Demands, NONE};
use maracas_core::contract::Mode;
use maracas_core::dispatch::Readings;
use maracas_core::{Duration, VcpuId};

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
        self.vcpus.get(vcpu.0 as usize).is_some_and(|demand| demand.woke == self.turn)
    }
}
