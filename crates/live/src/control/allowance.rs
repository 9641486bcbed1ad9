//! How often a user may ask for changes.
//!
//! Creating, changing and ending a VCPU costs the machine about 1 ms: the policy's admission test
//! and, for threads that are moved, control groups that are changed while nothing may be frozen.
//! Ten of them a second are 1 % of a core; twenty at once are what a program with a VCPU for each
//! of its threads asks for at its start. Counted by user and not by connection or process, of which
//! a user can have any number. A client that asks for more is not refused: its request waits.

use super::connection::Connection;
use super::{Desk, Served};
use maracas_core::control::Request;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Changes that may come at once.
const AT_ONCE: u32 = 20;
/// One more every so often.
const EVERY: Duration = Duration::from_millis(100);
/// So many threads are moved at the cost of one change: 24 us each, and a look before and after.
const THREADS: usize = 16;
/// More threads are never moved for one request: 6 to 10 ms, for which nothing is frozen.
pub(super) const MOST_THREADS: usize = 256;

/// What each user has left, as the instant at which it has all of it again.
#[derive(Debug, Default)]
pub(super) struct Allowances(BTreeMap<u32, Instant>);

impl Allowances {
    /// Takes one change off a user's allowance.
    ///
    /// # Errors
    /// Where it is used up: when the next one is there.
    pub(super) fn take(&mut self, user: u32, now: Instant) -> Result<(), Instant> {
        let full = self.0.entry(user).or_insert(now);
        *full = (*full).max(now);
        let most = now + EVERY * (AT_ONCE - 1);
        if *full > most {
            return Err(now + (*full - most));
        }
        *full += EVERY;
        Ok(())
    }

    /// Takes what moving so many threads costs beyond the first, into debt if need be.
    pub(super) fn moved(&mut self, user: u32, threads: usize, now: Instant) {
        let more = threads.min(MOST_THREADS) / THREADS;
        let full = self.0.entry(user).or_insert(now);
        *full = (*full).max(now) + EVERY * u32::try_from(more).unwrap_or(AT_ONCE);
    }
}

impl<R: Served> Desk<R> {
    /// Milliseconds until the first request is due that was put off; -1 = there is none.
    pub(super) fn patience(&self) -> i32 {
        let first = self.clients.iter().filter_map(Connection::due).min();
        let wait = first.map(|due| due.saturating_duration_since(Instant::now()));
        // Rounded up, or it would be asked again and again for the last millisecond.
        wait.map_or(-1, |wait| i32::try_from(wait.as_millis()).map_or(i32::MAX, |ms| ms + 1))
    }

    /// The clients whose request was put off and is due.
    pub(super) fn due(&self) -> Vec<RawFd> {
        let now = Instant::now();
        let due = self.clients.iter().filter(|client| client.due().is_some_and(|due| due <= now));
        due.map(AsRawFd::as_raw_fd).collect()
    }

    /// Until when a client's request must wait, if it must. What is refused anyway need not.
    pub(super) fn must_wait(&mut self, at: usize, request: &Request) -> Option<Instant> {
        let client = &self.clients[at];
        let changes =
            matches!(request, Request::Create(_) | Request::Set { .. } | Request::Destroy { .. });
        let peer = client.peer();
        let refused = !client.greeted() || client.slot().is_some() || !peer.is_there();
        if !changes || refused || peer.place.may(request).is_err() {
            return None;
        }
        self.allowances.take(peer.user, Instant::now()).err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_at_once_and_ten_a_second() {
        let (mut allowances, begin) = (Allowances::default(), Instant::now());
        (0..AT_ONCE).for_each(|_| assert_eq!(allowances.take(7, begin), Ok(())));
        let next = begin + EVERY;
        assert_eq!(allowances.take(7, begin), Err(next));
        assert_eq!(allowances.take(7, begin), Err(next), "asking costs nothing");
        assert_eq!(allowances.take(8, begin), Ok(()), "another user's is its own");
        assert_eq!(allowances.take(7, next), Ok(()));
        assert_eq!(allowances.take(7, next), Err(next + EVERY));
        let mut granted = 0;
        for ms in 0..60_000 {
            let now = begin + Duration::from_secs(100) + Duration::from_millis(ms);
            granted += u32::from(allowances.take(7, now).is_ok());
        }
        assert_eq!(granted, AT_ONCE + 60 * 10 - 1);
    }

    #[test]
    fn many_threads_cost_more() {
        let (mut allowances, begin) = (Allowances::default(), Instant::now());
        assert_eq!(allowances.take(7, begin), Ok(()));
        allowances.moved(7, 1, begin);
        allowances.moved(7, 10_000, begin);
        // 1 and 16 of 20 are gone.
        (0..3).for_each(|_| assert_eq!(allowances.take(7, begin), Ok(())));
        assert!(allowances.take(7, begin).is_err());
    }
}
