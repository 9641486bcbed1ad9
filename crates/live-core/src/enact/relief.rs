//! A core whose agent is stuck: what a neighbour's agent does about it, and what the agent corrects
//! when it is back.
//!
//! A neighbour demotes and freezes every VCPU of the core, and nothing else: it reads no meter
//! there, since that would wait for the stuck core. What the VCPUs took meanwhile is on their
//! meters, and missing from their next budgets. The guardian does the same from outside (the room
//! `live`, its guardian), and leaves nothing here but a count.

use super::Core;
use crate::{Executor, Handle, Level};
use maracas_core::Duration;
use maracas_core::journal::{Note, Reliever};

/// What others have done to a core in the name of the guardian.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Relief {
    /// How often it began or ended to demote and freeze what is there.
    pub count: u32,
    /// For how long the core's agent had been stuck when that happened last.
    pub stuck: Duration,
}

impl<E: Executor> Core<E> {
    /// A neighbour acts for this core's agent, which has been stuck for so long. It freezes by
    /// `freeze`, since what this core's executor would do it by stands still too. Nothing is
    /// started here until the agent is back.
    pub fn relieve(&mut self, stuck: Duration, freeze: impl FnMut(&E::Handle)) {
        if self.is_relieved {
            return;
        }
        self.take_down(freeze);
        let (core, by, stuck_ns) = (self.id, Reliever::Neighbour, stuck.ticks());
        self.note(Note::Relief { core, by, stuck_ns });
    }

    /// Demotes and freezes every VCPU here, by `freeze`, and starts none any more.
    pub fn take_down(&mut self, mut freeze: impl FnMut(&E::Handle)) {
        self.is_relieved = true;
        let mut result = Ok(());
        for vcpu_handle in &mut self.vcpu_handles {
            result = result.and(vcpu_handle.demote());
            freeze(&vcpu_handle.handle);
        }
        if let Err(error) = result {
            self.trouble.get_or_insert(error);
        }
    }

    /// Whether the guardian ever acted here.
    pub const fn was_relieved(&self) -> bool {
        self.reliefs > 0
    }

    /// A VCPU handle is as it is held, whatever the guardian did to it.
    pub fn hold_again(&mut self, index: usize) {
        let vcpu_handle = &mut self.vcpu_handles[index];
        vcpu_handle.forget_classes();
        vcpu_handle.handle.forget_freezer();
        self.exec.freeze(&vcpu_handle.handle, vcpu_handle.level == Level::Frozen);
    }

    /// This core's agent is back: what others did here meanwhile is undone, as far as the law wants
    /// it otherwise.
    pub(crate) fn recover(&mut self, relief: Option<Relief>) {
        if let Some(relief) = relief.filter(|relief| relief.count != self.reliefs) {
            self.reliefs = relief.count;
            let (core, by, stuck_ns) = (self.id, Reliever::Guardian, relief.stuck.ticks());
            self.note(Note::Relief { core, by, stuck_ns });
            #[cfg(feature = "faults")]
            if self.fault == Some(crate::Fault::StalePriority) {
                return;
            }
            (0..self.vcpu_handles.len()).for_each(|index| self.hold_again(index));
            self.stirred = true;
        }
        if std::mem::take(&mut self.is_relieved) {
            for vcpu_handle in
                self.vcpu_handles.iter().filter(|vcpu_handle| vcpu_handle.level != Level::Frozen)
            {
                self.exec.freeze(&vcpu_handle.handle, false);
            }
            self.stirred = true;
        }
    }
}
