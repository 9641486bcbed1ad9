//! Memory that is left alone for a while.
//!
//! After a thread gives up the content of memory (`MADV_DONTNEED`), it waits until its event was
//! read here, and empties the pages afterwards: when, is not reported. A page taken in between
//! would be away when it is emptied, and come back full. The thread is within its system call,
//! where neither the freezer nor a signal stops it; it only needs a core.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Ten times as long as the kernel lets a fair thread wait behind real-time ones (one second, by
/// its fair server).
const TIME: Duration = Duration::from_secs(10);
/// As many ranges as are kept apart; beyond that they are one from the first to the last.
const MOST: usize = 256;

/// A range, and the instant at which it is free again.
type Held = (Range<usize>, Instant);

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<Held>> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    held.retain(|(_, until)| *until > now);
    held
}

/// Leaves `range` alone from now on.
pub(super) fn add(range: Range<usize>) {
    let mut held = held();
    let until = Instant::now() + TIME;
    held.retain(|(other, _)| range.start > other.start || other.end > range.end);
    held.push((range, until));
    if held.len() > MOST {
        let start = held.iter().map(|(range, _)| range.start).min().unwrap_or(0);
        let end = held.iter().map(|(range, _)| range.end).max().unwrap_or(0);
        *held = vec![(start..end, until)];
    }
}

/// The pages that may be moved.
pub(super) fn without(pages: &[usize]) -> Vec<usize> {
    let held = held();
    let free = |page: &&usize| !held.iter().any(|(range, _)| range.contains(*page));
    pages.iter().filter(free).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_left_alone() {
        // Addresses that no other test has.
        let base = usize::MAX / 2;
        add(base + 10..base + 20);
        add(base + 5..base + 30);
        add(base + 40..base + 41);
        assert_eq!(without(&[base, base + 7, base + 12, base + 35, base + 40]), [base, base + 35]);
        assert_eq!(held().iter().filter(|(range, _)| range.start >= base).count(), 2);
    }
}
