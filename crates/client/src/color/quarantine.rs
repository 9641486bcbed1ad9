//! Memory that is left alone for a while.
//!
//! After a thread gives up the content of memory (`MADV_DONTNEED`), it waits until its event was
//! read here, and empties the pages afterwards: when, is not reported. A page taken in between
//! would be away when it is emptied, and come back full. The thread is within its system call,
//! where neither the freezer nor a signal stops it; it only needs a core.

use super::swap::NoForks;
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

/// What is held. Locked only while no fork is under way, since a child would find it locked for
/// good; and an array, since nothing may be allocated then.
static HELD: Mutex<[Option<Held>; MOST]> = Mutex::new([const { None }; MOST]);

/// Locks the ranges, without those whose time is over. The caller has [`NoForks`].
fn held() -> MutexGuard<'static, [Option<Held>; MOST]> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    for place in &mut *held {
        place.take_if(|(_, until)| *until <= now);
    }
    held
}

/// Leaves `range` alone from now on.
pub(super) fn add(range: Range<usize>) {
    let _forks = NoForks::now();
    let mut held = held();
    let until = Instant::now() + TIME;
    for place in &mut *held {
        place.take_if(|(other, _)| range.start <= other.start && other.end <= range.end);
    }
    if let Some(place) = held.iter_mut().find(|place| place.is_none()) {
        *place = Some((range, until));
        return;
    }
    let all = held
        .iter_mut()
        .filter_map(Option::take)
        .fold(range, |all, (other, _)| all.start.min(other.start)..all.end.max(other.end));
    held[0] = Some((all, until));
}

/// The pages that may be moved.
pub(super) fn without(pages: &[usize]) -> Vec<usize> {
    let mut free = Vec::with_capacity(pages.len());
    let _forks = NoForks::now();
    let held = held();
    let is_free = |page: &&usize| !held.iter().flatten().any(|(range, _)| range.contains(*page));
    free.extend(pages.iter().filter(is_free));
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    #[test]
    fn what_is_given_up_is_left_alone() {
        // Addresses that no other test has.
        let base = usize::MAX / 2;
        add(base + 10..base + 20);
        add(base + 5..base + 30);
        add(base + 40..base + 41);
        assert_eq!(without(&[base, base + 7, base + 12, base + 35, base + 40]), [base, base + 35]);
        assert_eq!(held().iter().flatten().filter(|(range, _)| range.start >= base).count(), 2);
    }

    #[test]
    fn a_child_can_ask_whatever_its_parents_threads_were_doing() {
        without(&[]);
        let over = AtomicBool::new(false);
        let failed = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    without(&[1]);
                    thread::yield_now();
                }
            });
            let failed =
                (0..200).map(|_| child_ends_with(|| without(&[1]).len())).find(|s| *s != 1);
            over.store(true, Ordering::Relaxed);
            failed
        });
        assert_eq!(failed, None);
    }

    /// The exit status of a forked child that ends with what `call` returns, or 200 and the signal
    /// that ended it: SIGALRM after five seconds.
    fn child_ends_with(call: impl Fn() -> usize) -> i32 {
        let mut status = 0;
        // SAFETY: the child calls what it may, and nothing of it returns from here.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(5);
                libc::_exit(call() as i32);
            }
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        }
        if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            200 + libc::WTERMSIG(status)
        }
    }
}
