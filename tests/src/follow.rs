//! What events say of the VCPUs: what has something to run, and what the meters read.

use maracas_core::contract::{End, Mode};
use maracas_core::dispatch::Readings;
use maracas_core::{Duration, Event, VcpuId};

/// One VCPU.
#[derive(Clone, Copy, Default, Debug)]
struct Known {
    runnable: bool,
    meters: [Duration; 2],
    memory: u64,
}

/// All VCPUs as the events describe them, for decisions on time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Followed {
    known: Vec<Known>,
    /// How often any VCPU began or ceased to be runnable.
    pub(crate) changes: u64,
}

impl Followed {
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Ran(segment) => {
                let known = self.of(segment.vcpu);
                known.meters[segment.mode as usize] += segment.usage.service;
                known.memory += segment.usage.metered();
                self.set(segment.vcpu, !matches!(segment.end, End::Blocked | End::Exited));
            }
            Event::Released(job) => self.set(job.id.vcpu, true),
            Event::Woke { vcpu, .. } => self.set(*vcpu, true),
            Event::Left(vcpu) => self.set(*vcpu, false),
            Event::Completed(_)
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
    fn of(&mut self, vcpu: VcpuId) -> &mut Known {
        let index = vcpu.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, Known::default());
        }
        &mut self.known[index]
    }
    fn set(&mut self, vcpu: VcpuId, runnable: bool) {
        let known = self.of(vcpu);
        let changed = known.runnable != runnable;
        known.runnable = runnable;
        self.changes += u64::from(changed);
    }
}

impl Readings for Followed {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        self.known.get(vcpu.0 as usize).is_some_and(|known| known.runnable)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        self.known.get(vcpu.0 as usize).map_or(Duration::ZERO, |known| known.meters[mode as usize])
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.known.get(vcpu.0 as usize).map_or(0, |known| known.memory)
    }
}
