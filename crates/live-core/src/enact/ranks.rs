//! Places in a foreground run queue become real-time priorities.
//!
//! Only the order counts, so a VCPU that holds a priority that still fits keeps it: under
//! rate-monotonic order a VCPU is raised to the same priority for ever, and a raise is one call a
//! thread.

use super::crowd::Crowd;
use crate::priority::FOREGROUND;
use crate::{Level, VcpuHandle};
use maracas_core::contract::{Grant, RunQueue};

/// What decides who is raised and how high. What [`Ranks::assign`] works with is kept so that no
/// enforcement asks for memory.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    /// How many threads a VCPU may have to be raised.
    pub(crate) crowd: Crowd,
    /// The VCPUs wanted in the foreground, by their place in the run queue.
    order: Vec<usize>,
    held: Vec<u8>,
    given: Vec<u8>,
}

impl Ranks {
    /// Gives every VCPU handle that is wanted in the foreground a priority in the order of the run
    /// queue.
    pub(crate) fn assign<H>(&mut self, run_queue: &RunQueue, vcpu_handles: &mut [VcpuHandle<H>]) {
        let wanted = |vcpu_handle: &VcpuHandle<H>| matches!(vcpu_handle.want, Level::Foreground(_));
        let place = |grant: &Grant| {
            vcpu_handles
                .iter()
                .position(|vcpu_handle| vcpu_handle.id == grant.vcpu && wanted(vcpu_handle))
        };
        self.order.clear();
        self.order.extend(run_queue.foreground.iter().filter_map(place));
        self.held.clear();
        self.held.extend(self.order.iter().map(|index| vcpu_handles[*index].last_priority));
        assign_in_order(&self.held, &mut self.given);
        for (index, priority) in self.order.iter().zip(&self.given) {
            vcpu_handles[*index].want = Level::Foreground(*priority);
        }
    }
}

/// Priorities by place, given those that were held (0 = none yet).
fn assign_in_order(held: &[u8], given: &mut Vec<u8>) {
    given.clear();
    let mut above = FOREGROUND.end;
    for (place, &own) in held.iter().enumerate() {
        // Room for those that come after; beyond 71 entries the last share one priority.
        let rest = u8::try_from(held.len() - place - 1).unwrap_or(u8::MAX);
        let most = above.saturating_sub(1).max(FOREGROUND.start);
        let least = FOREGROUND.start.saturating_add(rest).min(most);
        let priority = if (least..=most).contains(&own) {
            own
        } else {
            let later = held[place + 1..].iter().filter(|later| **later < above);
            let below = later.max().copied().unwrap_or(0).max(FOREGROUND.start);
            below.midpoint(above).clamp(least, most)
        };
        given.push(priority);
        above = priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Priorities held, places in the run queue, and what comes out.
    fn assigned(held: &[u8]) -> Vec<u8> {
        let mut given = Vec::new();
        assign_in_order(held, &mut given);
        given
    }

    #[test]
    fn a_priority_that_fits_is_kept() {
        assert_eq!(assigned(&[0, 0, 0]), [45, 27, 18]);
        assert_eq!(assigned(&[45, 27, 18]), [45, 27, 18]);
        assert_eq!(assigned(&[45, 18]), [45, 18], "one that leaves changes no other");
        assert_eq!(assigned(&[45, 0, 27, 18]), [45, 36, 27, 18], "a newcomer goes between");
        assert_eq!(assigned(&[27, 45, 18]), [27, 22, 18], "only one out of order changes");
    }

    #[test]
    fn the_order_is_strict_as_long_as_there_is_room() {
        let many = assigned(&[0; 70]);
        assert!(many.windows(2).all(|pair| pair[0] > pair[1]), "{many:?}");
        assert!(many.iter().all(|priority| FOREGROUND.contains(priority)));
        let too_many = assigned(&[0; 90]);
        assert!(too_many.windows(2).all(|pair| pair[0] >= pair[1]), "{too_many:?}");
        assert!(too_many.iter().all(|priority| FOREGROUND.contains(priority)));
    }
}
