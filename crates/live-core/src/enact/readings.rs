//! What is known of a VCPU handle, as the machine law asks for it.

use crate::{Handle, VcpuHandle};
use maracas_core::contract::Mode;
use maracas_core::{Duration, VcpuId, dispatch as law};

/// What is known of one VCPU handle, whichever VCPU the law asks for: for that handle's grants
/// alone.
pub(crate) struct Reading<'a, H>(pub(crate) &'a VcpuHandle<H>);

impl<H: Handle> law::Readings for Reading<'_, H> {
    fn runnable(&self, _: VcpuId) -> bool {
        self.0.is_runnable()
    }
    fn meter(&self, _: VcpuId, mode: Mode) -> Duration {
        self.0.meter(mode)
    }
    fn memory(&self, _: VcpuId) -> u64 {
        self.0.reads()
    }
}
