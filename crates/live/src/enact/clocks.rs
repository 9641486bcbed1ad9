//! The next best where the host gives no events: the threads' own clocks, read at the earliest
//! exhaustion and every millisecond.
//!
//! A VCPU whose clocks moved since the last look is runnable; one that stood still although it was
//! first in its line is taken as blocked. Stints are what was gained between two looks.

use super::Core;
use crate::machine::vcpu::Post;
use maracas_core::contract::{End, Mode, Refused, Stint, Usage};
use maracas_core::{Duration, Event, Instant};

/// Between two looks while anything may run: 1.5 % of a core for the agent.
const LOOK: Duration = Duration::from_millis(1);

impl Core {
    /// Reads all clocks and tells what they gained; `false` where there are events instead.
    pub(super) fn read_clocks(&mut self) -> bool {
        if self.means.events {
            return false;
        }
        let now = self.clock.now();
        let since = std::mem::replace(&mut self.looked_at, now);
        let long = now.saturating_since(since) >= LOOK;
        let mut first = true;
        for index in 0..self.bodies.len() {
            let body = &mut self.bodies[index];
            let (id, before) = (body.id, body.is_runnable());
            let result = body.rescan().and_then(|()| body.settle());
            let mode = body.mode();
            let moved = body.untold_ns(mode) > 0;
            let may_run = matches!(body.post, Post::Foreground(_) | Post::Background);
            if moved && !before {
                body.suppose_runnable();
                self.stirred = true;
                self.outbox.push((now, Event::Woke { vcpu: id, on_behalf: None, exact: false }));
            } else if !moved && before && may_run && long && first {
                body.suppose_blocked();
                self.stirred = true;
                self.tell_clock(index, mode, End::Blocked, now);
            }
            first &= !may_run || !moved;
            if moved {
                self.tell_clock(index, mode, End::Metered, now);
            }
            self.report(result, Refused::Sample);
        }
        true
    }

    /// Tells what a body gained in `mode` and the policy does not know yet.
    pub(super) fn tell_clock(&mut self, index: usize, mode: Mode, end: End, to: Instant) {
        let core = self.id;
        let body = &mut self.bodies[index];
        let service_ns = body.untold_ns(mode);
        if service_ns == 0 && end != End::Blocked {
            return;
        }
        body.told_ns[mode as usize] += service_ns;
        body.last_told = Some(self.outbox.len());
        let from = body.began(to, service_ns);
        let usage = Usage { service: Duration::from_nanos(service_ns), ..Usage::default() };
        let stint = Stint { vcpu: body.id, core, mode, from, to, usage, end };
        self.outbox.push((to, Event::Ran(stint)));
    }

    /// Chooses when to read the clocks again: at the earliest exhaustion of who may run.
    pub(super) fn look_by_clock(&mut self, now: Instant) {
        if self.means.events {
            return;
        }
        let lists = [(&self.line.foreground, true), (&self.line.background, false)];
        for (grants, foreground) in lists {
            for grant in grants {
                let Some(body) = self.bodies.iter().find(|body| body.id == grant.vcpu) else {
                    continue;
                };
                let here = match body.post {
                    Post::Foreground(_) => foreground,
                    Post::Background => !foreground,
                    Post::Watched | Post::Frozen => false,
                };
                if here && body.is_runnable() {
                    let rest = grant.until.0.saturating_sub(body.meter(body.mode()));
                    let rest = self.waking.polling(body.counted(rest).min(LOOK));
                    let look = now.saturating_add(rest);
                    self.look_at = self.look_at.min(look);
                }
            }
        }
        if !self.bodies.is_empty() {
            let look = self.waking.polling(LOOK);
            self.look_at = self.look_at.min(now.saturating_add(look));
        }
    }
}
