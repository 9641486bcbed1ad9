//! Where what is known of VCPUs stands: by core, behind one list of where each is, so that what a
//! core has can be lent whole ([`super::own`]).

use super::vcpu::State;
use crate::parts::jobs::ByVcpu;
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

/// What is known of the VCPUs of one core.
#[derive(Default, Debug)]
struct Slots {
    states: Vec<Option<State>>,
    /// Those without a VCPU.
    free: Vec<usize>,
}

/// What is known of the VCPUs of all cores, or of one.
#[derive(Debug)]
pub(super) struct States {
    /// Where all are. Shared with what decides for one core, and changed only while it is not.
    homes: Arc<ByVcpu<Home>>,
    /// The core of the first of `cores`.
    first: CoreId,
    cores: Vec<Slots>,
}

impl States {
    /// Of so many cores from `first` on, without a VCPU.
    pub(super) fn new(first: CoreId, cores: usize) -> Self {
        let cores = core::iter::repeat_with(Slots::default).take(cores).collect();
        Self { homes: Arc::default(), first, cores }
    }
    fn place(&self, core: CoreId) -> usize {
        usize::from(core.0).wrapping_sub(usize::from(self.first.0))
    }
    /// What is known of `vcpu`, if it is on one of these cores.
    #[inline]
    pub(super) fn get(&self, vcpu: VcpuId) -> Option<&State> {
        let home = *self.homes.get(vcpu)?;
        self.cores.get(self.place(home.core))?.states.get(home.slot())?.as_ref()
    }
    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, vcpu: VcpuId) -> Option<&mut State> {
        let home = *self.homes.get(vcpu)?;
        let place = self.place(home.core);
        self.cores.get_mut(place)?.states.get_mut(home.slot())?.as_mut()
    }
    /// Takes in what is known of a VCPU, which is on the core that it says.
    pub(super) fn insert(&mut self, state: State) {
        let (vcpu, core) = (state.id, state.core);
        let place = self.place(core);
        let Slots { states, free } = &mut self.cores[place];
        let slot = free.pop().unwrap_or(states.len());
        match states.get_mut(slot) {
            Some(room) => *room = Some(state),
            None => states.push(Some(state)),
        }
        Arc::make_mut(&mut self.homes).insert(vcpu, Home::new(core, slot));
    }
    /// Takes out what is known of a VCPU.
    pub(super) fn remove(&mut self, vcpu: VcpuId) -> Option<State> {
        let home = Arc::make_mut(&mut self.homes).remove(vcpu)?;
        let place = self.place(home.core);
        let Slots { states, free } = self.cores.get_mut(place)?;
        free.push(home.slot());
        states.get_mut(home.slot())?.take()
    }
    /// The VCPU is on another core from now on.
    pub(super) fn migrate(&mut self, vcpu: VcpuId, to: CoreId) {
        if let Some(state) = self.remove(vcpu) {
            self.insert(State { core: to, ..state });
        }
    }

    /// Lends what is known of the VCPUs of the only core of `other`.
    pub(super) fn lend(&mut self, other: &mut Self) {
        other.homes = Arc::clone(&self.homes);
        self.exchange(other);
    }
    /// Takes it back.
    pub(super) fn take_back(&mut self, other: &mut Self) {
        other.homes = Arc::default();
        self.exchange(other);
    }
    fn exchange(&mut self, other: &mut Self) {
        let place = self.place(other.first);
        mem::swap(&mut self.cores[place], &mut other.cores[0]);
    }
}
