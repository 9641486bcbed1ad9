//! A hierarchy that is lent: its cores decide alone.

use super::{Hierarchies, Hierarchy, Qps};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::mem;
use maracas_core::contract::{Apart, Part};
use maracas_core::{CoreId, CoreSet, Event, Instant, Plan, Policy, VcpuId};

/// The policy of the cores of one hierarchy. Without what it borrows it knows no task.
struct Own {
    hierarchies: Hierarchies,
}

impl Part for Own {}

impl Policy for Own {
    fn on_event(&mut self, _: Instant, event: &Event) {
        self.hierarchies.learn(event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        plan.wake = self.hierarchies.list[0].plan(now, plan);
    }
}

impl Qps {
    /// Exchanges what stands here of a hierarchy with what stands in its part.
    fn exchange(&mut self, own: &mut Own) {
        let hierarchy = own.hierarchies.first;
        mem::swap(self.hierarchies.at(hierarchy), own.hierarchies.at(hierarchy));
    }
}

/// The part as it was made by [`Qps::part`].
fn own(part: &mut dyn Part) -> Option<&mut Own> {
    let part: &mut dyn Any = part;
    part.downcast_mut()
}

impl Apart for Qps {
    fn group(&self, core: CoreId) -> CoreSet {
        self.hierarchies.list[self.seats[usize::from(core.0)].hierarchy].cores()
    }
    fn part(&self, core: CoreId) -> Box<dyn Part> {
        let first = self.seats[usize::from(core.0)].hierarchy;
        let Hierarchy { grid, manner, .. } = self.hierarchies.list[first];
        let list = alloc::vec![Hierarchy::new(grid, manner)];
        let (homes, precise) = (Arc::default(), manner.precise);
        Box::new(Own { hierarchies: Hierarchies { homes, first, precise, list } })
    }
    fn begins_on(&self, vcpu: VcpuId) -> Option<CoreId> {
        let home = self.hierarchies.homes.get(vcpu)?;
        let own = &self.hierarchies.list[home.hierarchy];
        Some(own.sets[own.task(home.slot)?.set].core)
    }
    fn is_settled(&self) -> bool {
        let is_answered = self.table.is_settled() && !self.table.owes() && self.asked.is_empty();
        is_answered && self.noted.is_empty()
    }
    fn lend(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.hierarchies.homes = Arc::clone(&self.hierarchies.homes);
        self.exchange(own);
    }
    fn take_back(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.hierarchies.homes = Arc::default();
        self.exchange(own);
        let hierarchy = own.hierarchies.first;
        self.due.set(hierarchy, self.hierarchies.at(hierarchy).agenda.next());
    }
    fn plan_alone(&mut self, core: CoreId, now: Instant, plan: &mut Plan) {
        let hierarchy = self.seats[usize::from(core.0)].hierarchy;
        self.noted.retain(|noted| *noted != hierarchy);
        self.decide(hierarchy, now, plan);
        plan.wake = self.due.at(hierarchy);
    }
}
