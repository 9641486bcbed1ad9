//! Places in a foreground line become real-time priorities.
//!
//! Only the order counts, so whoever holds a priority that still fits keeps it: under rate-monotonic
//! order a VCPU is raised to the same priority for ever, and a raise is one call a thread.

use crate::machine::vcpu::{Live, Post};
use maracas_core::contract::Line;

/// Above all foreground; agents, the runtime and the guardian stand higher (98, 97, 99).
const CEILING: u8 = 81;
/// Below it stand priorities that other real-time programs of the host may use.
const LOWEST: u8 = 10;

/// Gives every body that is wanted in the foreground a priority in the order of the line.
pub(super) fn assign(line: &Line, bodies: &mut [Box<Live>]) {
    let wanted = |body: &Live| matches!(body.want, Post::Foreground(_));
    let mut rest = bodies.iter().filter(|body| wanted(body)).count();
    let mut above = CEILING;
    for (place, grant) in line.foreground.iter().enumerate() {
        let Some(index) = bodies.iter().position(|body| body.id == grant.vcpu && wanted(body))
        else {
            continue;
        };
        rest -= 1;
        // Room for those who come after; beyond 70 entries the last share one priority.
        let least = LOWEST.saturating_add(u8::try_from(rest).unwrap_or(u8::MAX)).min(above);
        let held = bodies[index].last_priority;
        let priority = if held < above && held >= least {
            held
        } else {
            let later = &line.foreground[place + 1..];
            let below = later
                .iter()
                .filter_map(|grant| bodies.iter().find(|body| body.id == grant.vcpu))
                .filter(|body| wanted(body) && body.last_priority < above)
                .map(|body| body.last_priority)
                .max();
            let middle = below.unwrap_or(LOWEST).midpoint(above);
            middle.clamp(least, above.saturating_sub(1).max(least))
        };
        bodies[index].want = Post::Foreground(priority);
        above = priority;
    }
}
