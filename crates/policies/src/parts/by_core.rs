//! A value for each VCPU, kept by core, and one list of where each is, so that what a core has can
//! be lent whole ([`Apart`](maracas_core::contract::Apart)).

use super::jobs::ByVcpu;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZero;
use maracas_core::{CoreId, VcpuId};

/// Where a VCPU is.
#[derive(Clone, Copy, Debug)]
struct Home {
    core: CoreId,
    /// One more than its slot there. Never 0, so that the list takes 8 bytes a VCPU.
    end: NonZero<u32>,
}

impl Home {
    fn new(core: CoreId, slot: usize) -> Self {
        Self { core, end: NonZero::<u32>::MIN.saturating_add(slot as u32) }
    }
    const fn slot(self) -> usize {
        self.end.get() as usize - 1
    }
}

const _: () = assert!(size_of::<Option<Home>>() == 8);

/// The values of the VCPUs of one core.
#[derive(Debug)]
struct Slots<T> {
    values: Vec<Option<T>>,
    /// Those without a VCPU.
    free: Vec<usize>,
}

impl<T> Slots<T> {
    const fn new() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

/// A value for each VCPU of all cores, or of one.
#[derive(Debug)]
pub(crate) struct ByCore<T> {
    /// Where all are. Shared with what decides for one core, and changed only while it is not.
    homes: Arc<ByVcpu<Home>>,
    /// The core of the first of `cores`.
    first: CoreId,
    cores: Vec<Slots<T>>,
}

impl<T> ByCore<T> {
    /// Of so many cores from `first` on, without a VCPU.
    pub(crate) fn new(first: CoreId, cores: usize) -> Self {
        let cores = core::iter::repeat_with(Slots::new).take(cores).collect();
        Self { homes: Arc::default(), first, cores }
    }
    fn place(&self, core: CoreId) -> usize {
        usize::from(core.0).wrapping_sub(usize::from(self.first.0))
    }
    /// The value of `vcpu`, if it is on one of these cores.
    #[inline]
    pub(crate) fn get(&self, vcpu: VcpuId) -> Option<&T> {
        let home = *self.homes.get(vcpu)?;
        self.cores.get(self.place(home.core))?.values.get(home.slot())?.as_ref()
    }
    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, vcpu: VcpuId) -> Option<&mut T> {
        let home = *self.homes.get(vcpu)?;
        let place = self.place(home.core);
        self.cores.get_mut(place)?.values.get_mut(home.slot())?.as_mut()
    }
    /// Puts in the value of a VCPU, which is on `core` from now on.
    pub(crate) fn insert(&mut self, vcpu: VcpuId, core: CoreId, value: T) {
        let place = self.place(core);
        let Slots { values, free } = &mut self.cores[place];
        let slot = free.pop().unwrap_or(values.len());
        match values.get_mut(slot) {
            Some(room) => *room = Some(value),
            None => values.push(Some(value)),
        }
        Arc::make_mut(&mut self.homes).insert(vcpu, Home::new(core, slot));
    }
    /// Takes out the value of a VCPU.
    pub(crate) fn remove(&mut self, vcpu: VcpuId) -> Option<T> {
        let home = Arc::make_mut(&mut self.homes).remove(vcpu)?;
        let place = self.place(home.core);
        let Slots { values, free } = self.cores.get_mut(place)?;
        free.push(home.slot());
        values.get_mut(home.slot())?.take()
    }

    /// Lends the values of the only core of `other`, at the same cost however many there are.
    pub(crate) fn lend(&mut self, other: &mut Self) {
        other.homes = Arc::clone(&self.homes);
        self.exchange(other);
    }
    /// Takes it back.
    pub(crate) fn take_back(&mut self, other: &mut Self) {
        other.homes = Arc::default();
        self.exchange(other);
    }
    fn exchange(&mut self, other: &mut Self) {
        let place = self.place(other.first);
        mem::swap(&mut self.cores[place], &mut other.cores[0]);
    }
}
