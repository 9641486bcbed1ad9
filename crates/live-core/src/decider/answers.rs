//! What callers are answered: verdicts, ends, the list.

use super::{Decider, Known};
use crate::{Handle, Host, ManagedCore, Refusal, Reply, VcpuStatus};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::End;
use maracas_core::{Duration, Event, Vcpu, VcpuId};
use std::collections::BTreeMap;

impl<H: Host> Decider<H> {
    /// Answers those that asked for a verdict or for an end.
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
                // What was refused needs no withdrawal; a VCPU that exists keeps what it had.
                _ = asked.new && known.remove(id).is_some();
            } else if !is_taken {
                // The caller has given up: no thread would be bound to it, or the change stays
                // unknown.
                withdrawn.extend(withdraw(known, *id, asked.new));
            } else if let Some(known) = known.get_mut(id) {
                known.vcpu.reservation = asked.reservation;
                let jobs = known.slot.map(|core| &mut self.jobs[self.plan.place(core)]);
                if let Some(demand) = jobs.and_then(|jobs| jobs.of(*id)) {
                    demand.change(asked.reservation);
                }
            }
        }
        if !withdrawn.is_empty() {
            let now = self.host.now();
            withdrawn.iter().for_each(|event| self.tell(now, event));
        }
        while let Some((id, reply)) = self.destroyed.pop() {
            // There will be no verdict on what was asked of it.
            for asked in self.asked.extract_if(.., |asked| asked.id == id) {
                let _ = asked.reply.give(Err(Refusal::Unknown(id)));
            }
            let slot = self.known.remove(&id).and_then(|known| known.slot);
            slot.into_iter().for_each(|core| self.jobs(core).remove(id));
            let vcpu_handle = slot.and_then(|core| self.host.core(core).detach(id, End::Exited));
            if let Some(vcpu_handle) = &vcpu_handle {
                self.remark(vcpu_handle.handle.remarks(id));
            }
            // The caller has given up, or there was none: the supervisor lets its threads go.
            if let Err(Ok(vcpu_handle)) = reply.give(Ok(vcpu_handle.map(Box::new))) {
                self.host.leave(id, vcpu_handle);
            }
        }
    }

    /// Whether the machine can have this VCPU beside those that it has, whatever the policy says.
    ///
    /// # Errors
    /// Why not, and the way out.
    pub(super) fn can_have(&mut self, vcpu: &Vcpu) -> Result<(), String> {
        // What it is promised is known by what it reads.
        if vcpu.bandwidth.is_some()
            && !self.cores.iter().all(|core| self.host.core(*core).counts().reads)
        {
            return Err(
                "its bandwidth cannot be kept: this run counts no reads VCPU by VCPU; drop \
                        it, or give a VCPU of the scenario a bandwidth"
                    .into(),
            );
        }
        let there = self.known.len();
        self.cores.first().map_or(Ok(()), |core| self.host.core(*core).has_room(there))
    }

    /// All VCPUs, by number.
    pub(super) fn list(&mut self) -> Vec<VcpuStatus> {
        let Self { known, host, plan, service_requests, .. } = self;
        let status = |(id, known): (&VcpuId, &Known)| {
            let mut status = VcpuStatus {
                id: *id,
                name: known.name.clone(),
                reservation: known.vcpu.reservation,
                core: known.slot.or_else(|| plan.home(*id)).unwrap_or_default(),
                mode: None,
                // What a service VCPU without a VCPU handle has worked.
                foreground: service_requests.meter(*id),
                background: Duration::ZERO,
                threads: 0,
            };
            if let Some(slot) = known.slot
                && let Some(vcpu_handle) = host.core(slot).read(*id)
            {
                status.describe(vcpu_handle);
            }
            status
        };
        known.iter().map(status).collect()
    }
}

/// Forgets a VCPU that was new, or what was asked of one that exists; what is to be reported to the
/// policy for that.
fn withdraw(known: &mut BTreeMap<VcpuId, Known>, id: VcpuId, new: bool) -> Option<Event> {
    if new {
        return known.remove(&id).map(|_| Event::Left(id));
    }
    known.get(&id).map(|known| Event::Changed(known.vcpu.clone()))
}
