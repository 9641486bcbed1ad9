//! What is known of the VCPU handles of a core, as the machine law asks for it.

use crate::{Handle, VcpuHandle};
use maracas_core::contract::Mode;
use maracas_core::{Duration, VcpuId, dispatch as law};

/// What is known of the VCPU handles of a core, as the law asks for it.
pub(crate) struct Readings<'a, H>(pub(crate) &'a [VcpuHandle<H>]);

impl<H: Handle> law::Readings for Readings<'_, H> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.of(vcpu).is_some_and(VcpuHandle::is_runnable)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.of(vcpu).map_or(Duration::ZERO, |vcpu_handle| vcpu_handle.meter(mode))
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.of(vcpu).map_or(0, VcpuHandle::reads)
    }
}

impl<H> Readings<'_, H> {
    fn of(&self, vcpu: VcpuId) -> Option<&VcpuHandle<H>> {
        self.0.iter().find(|vcpu_handle| vcpu_handle.id == vcpu)
    }
}
