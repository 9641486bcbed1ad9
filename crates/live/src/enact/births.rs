//! Births and deaths of threads make a VCPU's budget event readable, so that a new thread is raised
//! at once. A program that does nothing but fork could wake the agent every 10 us so, and what the
//! agent takes is its neighbours' time: after a burst the agent does not listen for a while, and
//! looks by its alarm when the budget can be spent at the earliest.

use super::Core;
use crate::machine::vcpu::Post;
use crate::perf::SHORTEST_NS;
use maracas_core::{Duration, Instant};

/// How many births and deaths in a row wake the agent: eight threads that come and go with a job.
const BURST: u32 = 16;
/// How far births lie apart that are not in a row.
const APART: Duration = Duration::from_micros(200);
/// How long the agent does not listen: a thread may wait so long until it is raised. At 10 us a
/// look this bounds what births can cost to a few percent of a core.
const DEAF: Duration = Duration::from_millis(1);

/// What a body's event told lately beside its budget.
#[derive(Debug, Default)]
pub(crate) struct Births {
    last: Instant,
    burst: u32,
    /// Until when its event is not listened to.
    deaf_until: Option<Instant>,
}

impl Core {
    /// The event of this body fired though there is budget left.
    pub(super) fn hear_birth(&mut self, index: usize) {
        let now = self.clock.now();
        let body = &mut self.bodies[index];
        let births = &mut body.births;
        if now.saturating_since(births.last) > APART {
            births.burst = 0;
        }
        births.last = now;
        births.burst += 1;
        if births.burst > BURST {
            births.deaf_until = Some(now.saturating_add(DEAF));
            self.listen(index, false);
        }
    }

    /// The alarm rang: listens again to whom it is time for; to everybody's births, not only new
    /// ones, since what happened meanwhile makes the event readable at once.
    pub(super) fn hear_again(&mut self) {
        let now = self.clock.now();
        for index in 0..self.bodies.len() {
            let births = &mut self.bodies[index].births;
            if births.deaf_until.is_some_and(|until| until <= now) {
                births.deaf_until = None;
                // One that never paused goes on where it was.
                births.last = now;
                self.listen(index, true);
            }
        }
    }

    /// Listens to a body that goes to another core, if it was not listened to.
    pub(super) fn hear_leaving(&mut self, index: usize) {
        if self.bodies[index].births.deaf_until.take().is_some() {
            self.listen(index, true);
        }
    }

    /// Looks when the budget of a body that is not listened to can be spent at the earliest.
    pub(super) fn look_for_the_deaf(&mut self, now: Instant) {
        for body in &self.bodies {
            if let Some(until) = body.births.deaf_until {
                self.look_at = self.look_at.min(until);
                // One that is only watched has no budget to be spent.
                if matches!(body.post, Post::Foreground(_) | Post::Background) {
                    let rest = Duration::from_nanos(body.armed_rest_ns().max(SHORTEST_NS));
                    self.look_at = self.look_at.min(now.saturating_add(rest));
                }
            }
        }
    }

    fn listen(&mut self, index: usize, to: bool) {
        let body = &self.bodies[index];
        if let Some((fd, token)) = body.event() {
            let result = if to { self.poll.add(fd, token) } else { self.poll.remove(fd) };
            self.trouble = self.trouble.take().or(result.err());
        }
    }
}
