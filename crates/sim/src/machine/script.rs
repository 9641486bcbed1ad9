//! What follows from what threads with scripts do.

use super::Machine;
use crate::memory::Contention;
use crate::script::Effect;
use maracas_core::CoreSet;
use maracas_core::contract::Event;

impl<C: Contention> Machine<'_, C> {
    /// Carries out what threads did: who has work now, who waits, which jobs began and ended.
    pub(super) fn perform(&mut self, concerned: &mut CoreSet) {
        let effects = self.demands.effects();
        if effects.is_empty() {
            return;
        }
        self.set_changed = true;
        for effect in effects {
            match effect {
                Effect::Work { thread, left, woke } => {
                    let vcpu = self.demands.vcpu_of(thread);
                    let had_work = self.demands.work(thread, left);
                    if woke {
                        self.woke(vcpu, had_work, None, concerned);
                    } else if !had_work {
                        self.concern(vcpu, concerned);
                    }
                }
                Effect::Block(thread) => self.demands.block(thread),
                Effect::Alarm(thread, at) => self.agenda.push(at, super::Kind::Wake, thread),
                Effect::Release(thread) => {
                    let core = self.place_of(self.demands.vcpu_of(thread));
                    let job = self.demands.open_job(thread, self.now);
                    self.outcome.released += 1;
                    self.tell(core, &Event::Released(job));
                    self.charge(core, self.options.overheads.release);
                }
                Effect::Complete(thread) => {
                    let core = self.place_of(self.demands.vcpu_of(thread));
                    if let Some((id, deadline)) = self.demands.close_job(thread) {
                        self.outcome.completed += 1;
                        self.outcome.missed += u64::from(self.now > deadline);
                        self.tell(core, &Event::Completed(id));
                    }
                }
            }
        }
    }
}
