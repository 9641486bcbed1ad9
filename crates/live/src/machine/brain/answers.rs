//! What those hear who asked: verdicts, ends, the list.

use super::{Brain, Known};
use crate::agent::lock;
use crate::machine::handle::{Refusal, VcpuStatus};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::End;
use maracas_core::{CoreId, Duration, Event, Reservation, VcpuId};

impl Brain<'_> {
    /// Answers who asked for a verdict or for an end.
    pub(super) fn answer(&mut self) {
        let mut withdrawn = Vec::new();
        for (id, verdict) in self.plan.verdicts() {
            let Some(at) = self.asked.iter().position(|asked| asked.id == *id) else { continue };
            let asked = self.asked.swap_remove(at);
            if let (Ok(_), Some(refusal)) = (verdict, self.too_heavy(*id, &asked.reservation)) {
                let known = if asked.new { self.known.remove(id) } else { None };
                let before = self.known.get(id).map(|known| Event::Changed(known.vcpu.clone()));
                withdrawn.extend(known.map(|_| Event::Left(*id)).or(before));
                let _ = asked.reply.try_send(Err(Refusal::NotAdmitted(refusal)));
                continue;
            }
            if verdict.is_err() && asked.new {
                self.known.remove(id);
            } else if let (Ok(_), Some(known)) = (verdict, self.known.get_mut(id)) {
                known.vcpu.reservation = asked.reservation;
                if let Some(demand) = &mut known.demand {
                    demand.change(asked.reservation);
                }
            }
            let _ = asked.reply.try_send(verdict.clone().map_err(Refusal::NotAdmitted));
        }
        let now = self.mailbox.clock.now();
        withdrawn.iter().for_each(|event| self.tell(now, event));
        while let Some((id, reply)) = self.destroyed.pop() {
            let seat = self.known.remove(&id).and_then(|known| known.seat);
            let unseat = |core: CoreId| lock(&self.cores[core.0 as usize]).unseat(id, End::Exited);
            let body = seat.and_then(unseat);
            body.iter().for_each(|body| self.remark(body));
            let _ = reply.try_send(Ok(body.map(Box::new)));
        }
    }

    /// What no policy may give away on this machine, whatever its own test says.
    fn too_heavy(&self, id: VcpuId, asked: &Reservation) -> Option<NotAdmitted> {
        let (rate, most) = (asked.utilization(), self.capacity);
        let reason = || {
            format!("{id} asks for {rate} of a core, of which {most} may be used; lower its budget")
        };
        (rate > most).then(|| NotAdmitted { reason: reason(), closest: None })
    }

    /// All VCPUs, by number.
    pub(super) fn list(&self) -> Vec<VcpuStatus> {
        let status = |(id, known): (&VcpuId, &Known)| {
            let mut status = VcpuStatus {
                id: *id,
                name: known.name.clone(),
                reservation: known.vcpu.reservation,
                core: known.seat.or_else(|| self.plan.home(*id)).unwrap_or_default(),
                mode: None,
                // What a carrier without a body has worked.
                foreground: self.errands.meter(*id),
                background: Duration::ZERO,
                threads: 0,
            };
            if let Some(seat) = known.seat
                && let Some(body) = lock(&self.cores[seat.0 as usize]).body(*id)
            {
                // An error only makes the numbers a little older.
                let _ = body.settle();
                body.describe(&mut status);
            }
            status
        };
        self.known.iter().map(status).collect()
    }
}
