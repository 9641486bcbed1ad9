//! A core whose agent is stuck: what a neighbour's agent does about it, and what the agent sets
//! right when it is back.
//!
//! A neighbour demotes and freezes every VCPU of the core, and nothing else: it reads no meter
//! there, since that would wait for the stuck core. What the VCPUs took meanwhile is on their
//! meters, and missing from their next budgets. The guardian does the same from outside
//! ([`crate::guardian`]), without a word to us but a count.

use super::Core;
use super::brake::Brakes;
use crate::guardian::Hearts;
use crate::machine::vcpu::Post;
use maracas_core::Duration;
use maracas_core::journal::{Note, Reliever};

impl Core {
    /// A neighbour acts for this core's agent, which has been stuck for so long; `brakes` are those
    /// of the neighbour, since this core's own stand still too. Nothing is started here until the
    /// agent is back.
    pub(crate) fn relieve(&mut self, stuck: Duration, brakes: &Brakes) {
        if self.is_relieved {
            return;
        }
        self.take_down(brakes);
        let (core, by, stuck_ns) = (self.id, Reliever::Neighbour, stuck.ticks());
        self.note(Note::Relief { core, by, stuck_ns });
    }

    /// Demotes and freezes every VCPU here, by these brakes, and starts none any more.
    pub(crate) fn take_down(&mut self, brakes: &Brakes) {
        self.is_relieved = true;
        let mut result = Ok(());
        for body in &mut self.bodies {
            result = result.and(body.demote());
            brakes.post(&body.brake, true);
        }
        if let Err(error) = result {
            self.trouble.get_or_insert(error);
        }
    }

    /// This core's agent is back: what others did here meanwhile is undone, as far as the law wants
    /// it otherwise.
    pub(super) fn recover(&mut self, hearts: Option<&Hearts>) {
        let agent = usize::from(self.id.0);
        let reliefs = hearts.map_or(self.reliefs, |hearts| hearts.reliefs(agent));
        if reliefs != self.reliefs {
            self.reliefs = reliefs;
            let stuck_ns =
                hearts.map_or(0, |hearts| hearts.relieved_after(agent).as_nanos() as u64);
            self.note(Note::Relief { core: self.id, by: Reliever::Guardian, stuck_ns });
            for body in &mut self.bodies {
                body.forget_classes();
                body.brake.forget();
                self.brakes.post(&body.brake, body.post == Post::Frozen);
            }
            self.stirred = true;
        }
        if std::mem::take(&mut self.is_relieved) {
            for body in self.bodies.iter().filter(|body| body.post != Post::Frozen) {
                self.brakes.post(&body.brake, false);
            }
            self.stirred = true;
        }
    }
}
