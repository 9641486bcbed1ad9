//! A core that decides alone, while no VCPU comes, goes or waits for an answer.
//!
//! Nothing is lent where what one core does concerns others by itself: where background time is
//! throttled, VCPUs are moved, or I/O VCPUs inherit periods; nor with grants ahead, which whatever
//! decides for all cores gives, nor until a new reservation has set in.

use super::cores::Cores;
use super::{Ahead, Maracas, Settings};
use alloc::boxed::Box;
use core::any::Any;
use maracas_core::contract::{Apart, Part};
use maracas_core::{CoreId, Event, Instant, Plan, Policy};

/// The policy of one core.
struct Own {
    cores: Cores,
    /// When none of its VCPUs was on a budget last, of all decisions since it was lent.
    rested: Option<Instant>,
}

impl Own {
    fn new(settings: Settings, core: CoreId) -> Self {
        Self { cores: Cores::new(settings, core, 1), rested: None }
    }
}

impl Part for Own {}

impl Policy for Own {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.cores.learn(at, event, |_| false);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.cores.note_due(now);
        if let Some(core) = self.cores.stale.pop_first() {
            if self.cores.look(core, now) {
                self.rested = Some(now);
            }
            self.cores.write(core, now, plan);
        }
        plan.wake = self.cores.next();
    }
}

/// The part as it was made by [`Maracas::part`].
fn own(part: &mut dyn Part) -> Option<&mut Own> {
    let part: &mut dyn Any = part;
    part.downcast_mut()
}

impl Maracas {
    /// Whether cores can decide alone at all.
    pub(super) fn can_lend(&self) -> bool {
        let alone = self.monitor.is_none() && self.balance.is_none();
        alone && self.cores.settings.ahead == Ahead::Nothing
    }
}

impl Apart for Maracas {
    fn part(&self, core: CoreId) -> Box<dyn Part> {
        Box::new(Own::new(self.cores.settings, core))
    }
    fn is_settled(&self) -> bool {
        let answered = self.table.is_settled() && !self.table.owes() && self.changing.is_empty();
        answered && self.io_vcpus == 0 && self.cores.stale.is_empty()
    }
    fn lend(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.rested = None;
        self.cores.lend(&mut own.cores);
    }
    fn take_back(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        self.cores.take_back(&mut own.cores);
        if let Some(at) = own.rested.take() {
            self.table.rest(own.cores.first, at);
        }
    }
    fn plan_alone(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        if self.cores.stale.contains(core) || self.cores.next_of(core) <= now {
            self.cores.stale.remove(core);
            self.refresh(core, now, plan);
        }
        plan.wake = self.cores.next_of(core);
    }
}
