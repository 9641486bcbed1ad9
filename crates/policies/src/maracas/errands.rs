//! Errands: a plan has room for one at a time, so the monitor and the migrations take turns.

use maracas_core::VcpuId;
use maracas_core::contract::{Errand, Plan, Refused};

/// The VCPU that is away on an errand, and whether the monitor waits to go. A migration is decided
/// only when no VCPU is away: what it would be decided on changes meanwhile.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Errands {
    away: Option<(VcpuId, Errand)>,
    sample: Option<VcpuId>,
}

impl Errands {
    /// The monitor must read the counters, at once or as soon as the one that is away is back.
    pub(super) fn sample(&mut self, monitor: VcpuId) {
        if !matches!(self.away, Some((_, Errand::Sample))) {
            self.sample = Some(monitor);
        }
    }
    /// Whether a migration may begin: no VCPU is away, and the monitor does not wait.
    pub(super) const fn free(&self) -> bool {
        self.away.is_none() && self.sample.is_none()
    }
    /// Sends `carrier`.
    pub(super) fn send(&mut self, carrier: VcpuId, errand: Errand) {
        assert!(self.free(), "{carrier} is sent while {:?} is away", self.away);
        self.away = Some((carrier, errand));
    }
    /// The machine did `errand`; false where no VCPU was sent for that.
    pub(super) fn done(&mut self, errand: &Errand) -> bool {
        self.away.take_if(|(_, away)| away == errand).is_some()
    }
    /// The machine could not do what it was sent for: which errand that was, if any.
    pub(super) fn failed(&mut self, what: &Refused) -> Option<Errand> {
        let failed = |away: &Errand| match (what, away) {
            (Refused::Sample, Errand::Sample) => true,
            (Refused::Move(moved), Errand::Move { vcpu, .. }) => moved == vcpu,
            (Refused::Sample | Refused::Move(_) | Refused::Start(_) | Refused::Stop(_), _) => false,
        };
        self.away.take_if(|(_, away)| failed(away)).map(|(_, errand)| errand)
    }
    /// Lets the next one go, and writes into `plan` what is away.
    pub(super) fn show(&mut self, plan: &mut Plan) {
        if self.away.is_none() {
            self.away = self.sample.take().map(|monitor| (monitor, Errand::Sample));
        }
        plan.errand = self.away;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::CoreId;

    #[test]
    fn one_at_a_time_and_the_monitor_first() {
        let (monitor, mover) = (VcpuId(7), VcpuId(8));
        let mut plan = Plan::new(1);
        let errand = Errand::Move { vcpu: VcpuId(1), to: CoreId(0), colors: 0 };
        let mut errands = Errands::default();
        errands.send(mover, errand);
        errands.sample(monitor);
        errands.show(&mut plan);
        assert_eq!(plan.errand, Some((mover, errand)));
        // Another's failure is not its own.
        assert_eq!(errands.failed(&Refused::Move(VcpuId(2))), None);
        assert_eq!(errands.failed(&Refused::Move(VcpuId(1))), Some(errand));
        assert!(!errands.free());
        errands.show(&mut plan);
        assert_eq!(plan.errand, Some((monitor, Errand::Sample)));
        errands.sample(monitor);
        assert!(!errands.done(&errand) && errands.done(&Errand::Sample));
        errands.show(&mut plan);
        assert_eq!(plan.errand, None);
        assert!(errands.free());
    }
}
