//! Errands: work that the policy gives to a carrier VCPU, from its begin to its answer.
//!
//! An errand begins when a plan shows it and none is under way. Its carrier wakes, works it off
//! under the line like any other VCPU, and blocks. The answer is told before the end of the stint
//! in which the work was done.

use super::Machine;
use crate::memory::Contention;
use crate::workload::Standing;
use maracas_core::contract::{Errand, Event, Refused};
use maracas_core::{CoreId, CoreSet, Duration, VcpuId};

impl<C: Contention> Machine<'_, C> {
    /// Begins the errand in the plan, unless one is under way.
    pub(super) fn take_errand(&mut self, concerned: &mut CoreSet) {
        let (None, Some((carrier, errand))) = (self.errand, self.plan.errand) else { return };
        let Some(work) = self.errand_work(carrier, errand) else {
            return self.tell_failed(carrier, errand);
        };
        self.errand = Some((carrier, errand));
        self.demands.send(carrier.0, work);
        self.woke(carrier.0, false, None, concerned);
    }

    /// The carrier's work; `None` where this errand cannot be done, or not by that VCPU.
    fn errand_work(&mut self, carrier: VcpuId, errand: Errand) -> Option<Duration> {
        let demand = self.demands.get_mut(carrier)?;
        if !demand.carries() || demand.standing != Standing::In {
            return None;
        }
        let costs = &self.options.overheads;
        match errand {
            Errand::Sample => C::SAMPLES.then_some(costs.sample),
            Errand::Move { vcpu, colors, .. } => {
                let moved = self.demands.get_mut(vcpu)?;
                if moved.standing != Standing::In || moved.carries() {
                    return None;
                }
                let programs = self.demands.of(vcpu.0).programs();
                let pages = programs.iter().map(|one| self.contention.pages_to_copy(*one, colors));
                Some(costs.migration_errand(pages.sum()))
            }
        }
    }

    /// The carrier has done its work on `core`.
    pub(super) fn finish_errand(&mut self, core: usize) {
        let Some((carrier, errand)) = self.errand.take() else { return };
        self.settle_all();
        match errand {
            Errand::Sample => {
                if let Some(totals) = self.contention.totals(self.now) {
                    let sample = totals.since(&self.sampled);
                    self.sampled.clone_from(totals);
                    self.tell(core, Event::Sampled(sample));
                }
            }
            Errand::Move { vcpu, colors, .. } => {
                if self.demands.of(vcpu.0).standing != Standing::In {
                    return self.tell_failed(carrier, errand);
                }
                for place in 0..self.demands.of(vcpu.0).programs().len() {
                    let program = self.demands.of(vcpu.0).programs()[place];
                    self.contention.recolor(self.now, program, colors);
                }
            }
        }
        self.tell(core, Event::ErrandDone(errand));
    }

    fn tell_failed(&mut self, carrier: VcpuId, errand: Errand) {
        let known = (carrier.0 as usize) < self.demands.len();
        let core = if known { self.place_of(carrier.0) } else { 0 };
        let what = match errand {
            Errand::Sample => Refused::Sample,
            Errand::Move { vcpu, .. } => Refused::Move(vcpu),
        };
        self.tell(core, Event::Failed { core: CoreId(core as u16), what });
    }
}
