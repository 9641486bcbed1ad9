//! How many threads a VCPU may have to be raised.
//!
//! Raising and lowering takes the agent a system call a thread, twice a period, and all others on
//! the core wait meanwhile. So a VCPU with more threads than can be raised and lowered in half a
//! millisecond stays in the background. What a call takes is measured where there are many: 1 us on
//! fast hosts, several on slow ones.

use maracas_core::Duration;

/// What raising and lowering one VCPU may take in a period.
const MOST: Duration = Duration::from_micros(500);
/// What a call takes at least: what fast hosts were measured to take.
const LEAST: Duration = Duration::from_micros(1);
/// So many threads are always raised, and calls are not measured.
const FEW: usize = 32;
/// The call is believed to take what the shortest of so many changes needed: others were
/// interrupted, or lost the core to a hypervisor.
const KEPT: usize = 8;

/// What setting the class of a thread takes on this core.
#[derive(Debug)]
pub(crate) struct Crowd {
    recent: [Duration; KEPT],
    next: usize,
    /// With more threads than this a VCPU is not raised.
    most: usize,
}

impl Default for Crowd {
    fn default() -> Self {
        let recent = [LEAST; KEPT];
        Self { recent, next: 0, most: most(&recent) }
    }
}

impl Crowd {
    /// Whether a change of so many threads is to be measured.
    pub(crate) const fn measures(threads: usize) -> bool {
        threads > FEW
    }
    /// The classes of `threads` threads were set in this time.
    pub(crate) fn took(&mut self, threads: usize, time: Duration) {
        if Self::measures(threads) {
            let each = Duration::from_nanos(time.ticks() / threads as u64);
            self.recent[self.next % KEPT] = each.max(LEAST);
            self.next = self.next.wrapping_add(1);
            self.most = most(&self.recent);
        }
    }
    /// With more threads than this a VCPU is not raised.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }
}

/// How many threads can be raised and lowered, where calls took so long.
fn most(recent: &[Duration; KEPT]) -> usize {
    let call = recent.iter().min().copied().unwrap_or(LEAST);
    // Once up and once down.
    ((MOST.ticks() / (call * 2).ticks()) as usize).max(FEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_a_call_is_the_fewer_threads_are_raised() {
        let most = |call: Duration| {
            let mut crowd = Crowd::default();
            (0..KEPT).for_each(|_| crowd.took(100, call * 100));
            crowd.most()
        };
        let us = Duration::from_micros;
        assert_eq!(Crowd::default().most(), 250);
        assert_eq!([us(1), us(2), us(5), us(50)].map(most), [250, 125, 50, 32]);
        assert_eq!(most(Duration::from_nanos(300)), 250, "no more than was ever tried");
    }

    #[test]
    fn what_interrupted_some_changes_does_not_count() {
        let mut crowd = Crowd::default();
        (0..3 * KEPT).for_each(|round| {
            let call = Duration::from_micros(if round % KEPT == 0 { 2 } else { 90 });
            crowd.took(100, call * 100);
        });
        assert_eq!(crowd.most(), 125);
        crowd.took(FEW, Duration::from_secs(1));
        assert_eq!(crowd.most(), 125, "few are not measured");
    }
}
