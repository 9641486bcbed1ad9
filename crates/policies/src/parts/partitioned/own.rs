//! A partition that is lent: one core decides alone.

use super::{Order, Partition, Partitioned, Tasks};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::mem;
use maracas_core::contract::{Apart, Part};
use maracas_core::{CoreId, Event, Instant, Plan, Policy};

/// The policy of one core. Without what it borrows it knows no task.
struct Own {
    tasks: Tasks,
}

impl Own {
    fn new(core: CoreId, order: Order, all: &Tasks) -> Self {
        let (precise, ahead) = (all.precise, all.ahead);
        let partitions = alloc::vec![Partition::new(order)];
        Self { tasks: Tasks { precise, ahead, homes: Arc::default(), first: core, partitions } }
    }
}

impl Part for Own {}

impl Policy for Own {
    fn on_event(&mut self, _: Instant, event: &Event) {
        self.tasks.learn(event);
    }
    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        let core = self.tasks.first;
        self.tasks.on(core).decide(core, plan);
    }
}

impl Partitioned {
    /// Exchanges what stands here of a core with what stands in its part.
    fn exchange(&mut self, own: &mut Own) {
        let core = own.tasks.first;
        mem::swap(self.tasks.on(core), own.tasks.on(core));
    }
}

/// The part as it was made by [`Partitioned::part`].
fn own(part: &mut dyn Part) -> Option<&mut Own> {
    let part: &mut dyn Any = part;
    part.downcast_mut()
}

impl Apart for Partitioned {
    fn part(&self, core: CoreId) -> Box<dyn Part> {
        Box::new(Own::new(core, self.order, &self.tasks))
    }
    fn is_settled(&self) -> bool {
        self.table.is_settled() && !self.table.owes() && self.news.is_empty()
    }
    fn lend(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.tasks.homes = Arc::clone(&self.tasks.homes);
        self.exchange(own);
    }
    fn take_back(&mut self, part: &mut dyn Part) {
        let Some(own) = own(part) else { return };
        own.tasks.homes = Arc::default();
        self.exchange(own);
    }
}
