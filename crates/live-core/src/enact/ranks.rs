//! Places in a foreground run queue become real-time priorities.
//!
//! Only the order counts, so a VCPU that holds a priority that still fits keeps it: under
//! rate-monotonic order a VCPU is raised to the same priority for ever, and a raise is one call a
//! thread.

use super::crowd::Crowd;
use crate::priority::FOREGROUND;
use crate::{Level, VcpuHandle};

/// What decides who is raised and how high.
#[derive(Debug, Default)]
pub(crate) struct Ranks {
    /// How many threads a VCPU may have to be raised.
    pub(crate) crowd: Crowd,
    /// The VCPU handles that are wanted in the foreground, in the order of the run queue: where on
    /// the core each stands, and which priority it had last (0 = none yet). Kept so that no
    /// enforcement asks for memory.
    pub(crate) order: Vec<(usize, u8)>,
}

impl Ranks {
    /// Gives every VCPU handle that is wanted in the foreground a priority in their order.
    pub(crate) fn assign<H>(&mut self, vcpu_handles: &mut [VcpuHandle<H>]) {
        assign_in_order(&mut self.order);
        for (index, priority) in &self.order {
            vcpu_handles[*index].want = Level::Foreground(*priority);
        }
    }
}

/// Priorities by place, in place of those that were held.
fn assign_in_order(order: &mut [(usize, u8)]) {
    let mut above = FOREGROUND.end;
    for place in 0..order.len() {
        let own = order[place].1;
        // Room for those that come after; beyond 71 entries the last share one priority.
        let rest = u8::try_from(order.len() - place - 1).unwrap_or(u8::MAX);
        let most = above.saturating_sub(1).max(FOREGROUND.start);
        let least = FOREGROUND.start.saturating_add(rest).min(most);
        let priority = if (least..=most).contains(&own) {
            own
        } else {
            let later = order[place + 1..].iter().map(|(_, later)| *later);
            let below = later.filter(|later| *later < above).max().unwrap_or(0);
            let below = below.max(FOREGROUND.start);
            below.midpoint(above).clamp(least, most)
        };
        order[place].1 = priority;
        above = priority;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Priorities held, places in the run queue, and what comes out.
    fn assigned(held: &[u8]) -> Vec<u8> {
        let mut order: Vec<_> = held.iter().copied().enumerate().collect();
        assign_in_order(&mut order);
        order.into_iter().map(|(_, priority)| priority).collect()
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
