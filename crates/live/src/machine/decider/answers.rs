//! What those hear who asked: verdicts, ends, the list.

use super::{Decider, Known};
use crate::agent::lock;
use crate::executor::vcpu::describe;
use crate::machine::handle::{Refusal, VcpuStatus};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::End;
use maracas_core::{CoreId, Duration, Event, Vcpu, VcpuId};
use std::collections::BTreeMap;

impl Decider<'_> {
    /// Answers who asked for a verdict or for an end.
    pub(super) fn answer(&mut self) {
        let mut withdrawn = Vec::new();
        for (id, verdict) in self.plan.verdicts() {
            let Some(at) = self.asked.iter().position(|asked| asked.id == *id) else { continue };
            let asked = self.asked.swap_remove(at);
            let too_heavy = NotAdmitted::too_heavy(*id, &asked.reservation, self.capacity);
            let known = &mut self.known;
            if let (Ok(_), Some(refusal)) = (verdict, too_heavy) {
                withdrawn.extend(withdraw(known, *id, asked.new));
                let _ = asked.reply.give(Err(Refusal::NotAdmitted(refusal)));
                continue;
            }
            let is_taken = asked.reply.give(verdict.clone().map_err(Refusal::NotAdmitted)).is_ok();
            if verdict.is_err() {
                // What was refused needs no withdrawal; who exists keeps what it had.
                _ = asked.new && known.remove(id).is_some();
            } else if !is_taken {
                // Who asked has given up: nobody would bind a thread to it, or knows of the change.
                withdrawn.extend(withdraw(known, *id, asked.new));
            } else if let Some(known) = known.get_mut(id) {
                known.vcpu.reservation = asked.reservation;
                if let Some(demand) = &mut known.demand {
                    demand.change(asked.reservation);
                }
            }
        }
        let now = self.mailbox.clock.now();
        withdrawn.iter().for_each(|event| self.tell(now, event));
        while let Some((id, reply)) = self.destroyed.pop() {
            let slot = self.known.remove(&id).and_then(|known| known.slot);
            let detach = |core: CoreId| lock(&self.cores[core.0 as usize]).detach(id, End::Exited);
            let vcpu_handle = slot.and_then(detach);
            vcpu_handle.iter().for_each(|vcpu_handle| self.remark(vcpu_handle));
            // Who asked has given up, or nobody did: the supervisor lets its threads go.
            if let Err(Ok(vcpu_handle)) = reply.give(Ok(vcpu_handle.map(Box::new))) {
                self.mailbox.leave(id, vcpu_handle);
            }
        }
    }

    /// Whether `vcpu` is promised bandwidth and nobody counts what it reads.
    pub(super) fn is_blind_to(&self, vcpu: &Vcpu) -> bool {
        let counts = || self.cores.iter().all(|core| lock(core).counts().reads);
        vcpu.bandwidth > 0 && !counts()
    }

    /// All VCPUs, by number.
    pub(super) fn list(&self) -> Vec<VcpuStatus> {
        let status = |(id, known): (&VcpuId, &Known)| {
            let mut status = VcpuStatus {
                id: *id,
                name: known.name.clone(),
                reservation: known.vcpu.reservation,
                core: known.slot.or_else(|| self.plan.home(*id)).unwrap_or_default(),
                mode: None,
                // What a service VCPU without a VCPU handle has worked.
                foreground: self.service_requests.meter(*id),
                background: Duration::ZERO,
                threads: 0,
            };
            if let Some(slot) = known.slot
                && let Some(vcpu_handle) = lock(&self.cores[slot.0 as usize]).vcpu_handle(*id)
            {
                // An error only makes the numbers a little older.
                let _ = vcpu_handle.settle();
                describe(vcpu_handle, &mut status);
            }
            status
        };
        self.known.iter().map(status).collect()
    }
}

/// Forgets a VCPU that was new, or what was asked of one that exists; what the policy is to be told
/// for that.
fn withdraw(known: &mut BTreeMap<VcpuId, Known>, id: VcpuId, new: bool) -> Option<Event> {
    if new {
        return known.remove(&id).map(|_| Event::Left(id));
    }
    known.get(&id).map(|known| Event::Changed(known.vcpu.clone()))
}
