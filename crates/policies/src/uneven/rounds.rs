//! Rounds: how far each thread is ahead of its shares, and what must change places for that.
//!
//! The paper counts a thread's rounds on each class: one for every f * 30 ms received on fast
//! cores, one for every g * 30 ms on slow ones; whatever is furthest ahead on fast cores changes
//! places with whatever is furthest behind. That it is ahead by x rounds of which each is worth f *
//! 30 ms is here counted in time, `received - share * (what all received)`: the *lead* on that
//! class. Leads of all threads on a class sum to zero, whatever sleeps neither gains nor loses, and
//! small shares do not make small rounds: with a share of 1.5 %, a round on fast cores would be
//! 0.45 ms, and two threads would move for it each time.
//!
//! The choice among all ways to place the threads is by the sum over threads of their lead on the
//! class where they sit (0 for what waits): the less, the sooner all leads go back to zero (the
//! max-weight rule: L. Tassiulas, A. Ephremides, IEEE Trans. Automatic Control 37(12), 1992).

use super::estimate::{Class, MOST_CLASSES};
use maracas_core::{Duration, Instant};

/// Binary digits of a lead below the tick: what is rounded at each of thousands of looks sums up to
/// less than a tick.
pub(super) const LEAD_BITS: u32 = 16;

/// The rounds of one thread.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// By class, in parts of a whole core; of two classes, f and g.
    share: [u64; MOST_CLASSES],
    /// How far it is ahead, in ticks with [`LEAD_BITS`], as of the last settlement.
    lead: [i64; MOST_CLASSES],
    /// What it received since.
    gained: [Duration; MOST_CLASSES],
    /// How long it had something to run since, up to `since`.
    awake: Duration,
    since: Instant,
    asleep: bool,
    /// What one core all the time is, in the parts of its shares.
    whole: u64,
    /// Whether it had something to run since the last update.
    took_part: bool,
    /// It slept from one update to the next, so shares are for the others.
    left_out: bool,
}

impl Account {
    pub(super) const fn new(at: Instant) -> Self {
        Self {
            share: [0; MOST_CLASSES],
            lead: [0; MOST_CLASSES],
            gained: [Duration::ZERO; MOST_CLASSES],
            awake: Duration::ZERO,
            since: at,
            asleep: true,
            whole: 1,
            took_part: true,
            left_out: false,
        }
    }
    pub(super) const fn share(&self, class: Class) -> u64 {
        self.share[class]
    }
    pub(super) const fn set_shares(&mut self, by_class: [u64; MOST_CLASSES], whole: u64) {
        self.share = by_class;
        self.whole = whole;
    }
    /// What one core all the time is, in the parts of its shares.
    pub(super) const fn whole(&self) -> u64 {
        self.whole
    }
    /// Whether it has no shares because it slept for an interval.
    pub(super) const fn is_left_out(&self) -> bool {
        self.left_out
    }
    /// An interval between updates ends. A thread that slept throughout has no part any more, and
    /// nothing is owed to it.
    pub(super) const fn close_interval(&mut self) {
        if !self.took_part && self.asleep {
            self.left_out = true;
            (self.share, self.lead) = ([0; MOST_CLASSES], [0; MOST_CLASSES]);
        }
        self.took_part = !self.asleep;
    }
    pub(super) const fn lead(&self, class: Class) -> i64 {
        self.lead[class]
    }
    pub(super) fn gained(&mut self, class: Class, service: Duration) {
        self.gained[class] += service;
        self.took_part = true;
    }
    pub(super) fn woke(&mut self, at: Instant) {
        self.asleep = false;
        self.since = self.since.max(at);
        (self.took_part, self.left_out) = (true, false);
    }
    pub(super) fn slept(&mut self, at: Instant) {
        self.awake += at.saturating_since(self.since);
        self.since = self.since.max(at);
        self.asleep = true;
    }
    /// What it may claim of `class` until `now`, in any unit.
    fn claim(&self, class: Class) -> u128 {
        u128::from(self.share(class)) * u128::from(self.awake.ticks())
    }
}

/// Divides what was received since the last settlement by what could be claimed, and carries the
/// differences into the leads. No thread is left ahead or behind by more than `most`: what one
/// cannot use, or has on its budget beyond its share, is divided among the others by their claims.
pub(super) fn settle(accounts: &mut [&mut Account], now: Instant, most: Duration) {
    for account in &mut *accounts {
        if !account.asleep {
            account.awake += now.saturating_since(account.since);
        }
        account.since = account.since.max(now);
    }
    for k in 0..MOST_CLASSES {
        if accounts.iter().all(|account| account.claim(k) == 0) {
            continue;
        }
        let received: Duration = accounts.iter().map(|account| account.gained[k]).sum();
        for account in &mut *accounts {
            account.lead[k] += fine(account.gained[k]);
        }
        divide(accounts, k, fine(received));
        // A thread that has no claim and nothing more of this class can never pay back what it was
        // ahead: that is void, or others would all be behind alike, and none of them more than
        // another.
        let mut void = 0;
        for account in &mut *accounts {
            if account.share[k] == 0 && account.gained[k].is_zero() {
                void += core::mem::take(&mut account.lead[k]);
            }
        }
        divide(accounts, k, -void);
        // First what is ahead: that may be all that others are behind by.
        for (low, high) in [(i64::MIN, fine(most)), (-fine(most), i64::MAX)] {
            let mut beyond = 0;
            for account in &mut *accounts {
                let kept = account.lead[k].clamp(low, high);
                beyond += kept - account.lead[k];
                account.lead[k] = kept;
            }
            divide(accounts, k, beyond);
        }
        center(accounts, k);
    }
    for account in accounts {
        (account.gained, account.awake) = ([Duration::ZERO; MOST_CLASSES], Duration::ZERO);
    }
}

/// Has the leads sum to zero again, but for less than a unit each, where threads left with theirs.
fn center(accounts: &mut [&mut Account], k: usize) {
    let sum: i128 = accounts.iter().map(|account| i128::from(account.lead[k])).sum();
    let mean = (sum / accounts.len().max(1) as i128) as i64;
    accounts.iter_mut().for_each(|account| account.lead[k] -= mean);
}

/// Takes `amount` from the leads on `class`, by claims; the parts sum to it exactly.
fn divide(accounts: &mut [&mut Account], class: Class, amount: i64) {
    let all: u128 = accounts.iter().map(|account| account.claim(class)).sum();
    let (mut before, mut taken) = (0_u128, 0_i64);
    for account in accounts {
        before += account.claim(class);
        let upto = scaled(amount, before, all);
        account.lead[class] -= upto - taken;
        taken = upto;
    }
}

/// `amount * part / all`, rounded towards zero; `part` is at most `all`.
fn scaled(amount: i64, part: u128, all: u128) -> i64 {
    // Claims are shares times ticks, perhaps 2^86. The last bits of such a one do not matter.
    let excess = (u128::BITS - all.leading_zeros()).saturating_sub(64);
    let (part, all) = (part >> excess, (all >> excess).max(1));
    let size = u128::from(amount.unsigned_abs()) * part.min(all) / all;
    if amount < 0 { -(size as i64) } else { size as i64 }
}

/// A time as leads are counted; more than a day is a day.
pub(super) const fn fine(time: Duration) -> i64 {
    const DAY: u64 = 1 << 46;
    let ticks = if time.ticks() < DAY { time.ticks() } else { DAY };
    (ticks << LEAD_BITS) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::vec::Vec;

    const FAST: Class = 0;
    const SLOW: Class = 1;

    fn two(fast: u64, slow: u64) -> [u64; MOST_CLASSES] {
        let mut shares = [0; MOST_CLASSES];
        (shares[FAST], shares[SLOW]) = (fast, slow);
        shares
    }
    fn ticks(n: u64) -> Duration {
        Duration::from_ticks(n)
    }
    /// Awake since 0, with a share of the fast cores of so many hundredths.
    fn account(hundredths: u64) -> Account {
        let mut account = Account::new(Instant::ZERO);
        account.set_shares(two(hundredths, 100 - hundredths), 100);
        account.woke(Instant::ZERO);
        account
    }
    fn settled(accounts: &mut [Account], now: u64, most: u64) -> Vec<[i64; 2]> {
        let mut all: Vec<&mut Account> = accounts.iter_mut().collect();
        settle(&mut all, Instant::from_ticks(now), ticks(most));
        let whole = |lead: i64| (lead + (1 << LEAD_BITS >> 1)) >> LEAD_BITS;
        accounts.iter().map(|it| [FAST, SLOW].map(|class| whole(it.lead(class)))).collect()
    }

    /// One fast core for 100 ticks, of which 75 and 25 are due: it was used 50 and 50.
    #[test]
    fn a_lead_is_what_was_received_beyond_the_share() {
        let mut accounts = [account(75), account(25)];
        for account in &mut accounts {
            account.gained(FAST, ticks(50));
            account.gained(SLOW, ticks(50));
        }
        assert_eq!(settled(&mut accounts, 100, 60), [[-25, 25], [25, -25]]);
        // Asleep for the second half of the next 100: its claims count half.
        accounts[1].slept(Instant::from_ticks(150));
        accounts[0].gained(FAST, ticks(70));
        assert_eq!(settled(&mut accounts, 200, 60)[0][0], -25 + 70 - 60);
    }

    /// 100 of 100 for one whose share is nothing: what is beyond the limit of 60 is taken from the
    /// claims of the others, 3 to 1.
    #[test]
    fn what_is_too_much_is_shared_by_the_others() {
        let mut accounts = [account(0), account(75), account(25)];
        accounts[0].gained(FAST, ticks(100));
        let leads = settled(&mut accounts, 100, 60);
        assert!(leads.iter().map(|leads| leads[0]).eq([60, -45, -15]), "{leads:?}");
    }

    /// A thread that has no share and nothing more is ahead no more; what has is not behind alike
    /// for it.
    #[test]
    fn a_debt_that_cannot_be_repaid_is_void() {
        let mut accounts = [account(0), account(50), account(50)];
        accounts[0].gained(FAST, ticks(40));
        accounts[1].gained(FAST, ticks(60));
        let fast = |leads: Vec<[i64; 2]>| leads.iter().map(|leads| leads[0]).collect::<Vec<_>>();
        assert_eq!(fast(settled(&mut accounts, 100, 60)), [40, 10, -50]);
        accounts[1].gained(FAST, ticks(60));
        accounts[2].gained(FAST, ticks(40));
        assert_eq!(fast(settled(&mut accounts, 200, 60)), [0, 40, -40]);
    }

    #[test]
    fn leads_sum_to_zero_within_the_limits() {
        let mut rng = Rng(7);
        let mut accounts: Vec<Account> = (0..9).map(|_| account(rng.below(101))).collect();
        for now in 1..2000 {
            for account in &mut accounts {
                match rng.below(5) {
                    0 => account.slept(Instant::from_ticks(now * 100 - rng.below(100))),
                    1 => account.woke(Instant::from_ticks(now * 100 - rng.below(100))),
                    side => account.gained(side as usize % 2, ticks(rng.below(300))),
                }
            }
            if now % 50 == 0 {
                // A thread that leaves takes its lead with it.
                let place = rng.below(accounts.len() as u64) as usize;
                accounts[place] = account(rng.below(101));
            }
            settled(&mut accounts, now * 100, 5000);
            for side in [FAST, SLOW] {
                let sum: i64 = accounts.iter().map(|account| account.lead(side)).sum();
                assert!(sum.abs() <= 9, "leads sum to {sum} of 2^-16 ticks");
                let most = accounts.iter().map(|account| account.lead(side).abs()).max();
                assert!(most.is_some_and(|most| most >> LEAD_BITS <= 20_000), "{most:?}");
            }
        }
    }

    /// Claims of 2^80 and more, and a machine that was away for a year.
    #[test]
    fn nothing_overflows() {
        let mut accounts = [account(75), account(25)];
        accounts[0].set_shares(two(1 << 40, 1 << 38), 1 << 40);
        let year = 365 * 86_400 * 1_000_000_000_u64;
        accounts[1].gained(FAST, ticks(year));
        let leads = settled(&mut accounts, year, 60_000_000);
        assert!(leads[0][0] < 0 && leads[1][0] == -leads[0][0], "{leads:?}");
    }
}
