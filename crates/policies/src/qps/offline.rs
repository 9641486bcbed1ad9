//! The off-line phase: rates on one grid, the quasi-partition, and the sets that host the masters.

use alloc::vec::Vec;
use core::cmp::Reverse;
use maracas_core::{Arrival, CoreId, Duration, Instant, Rate, System, Vcpu, VcpuId, gcd};

/// The finest grid of rates: sums of two rates and products with instants stay within 128 bits.
const FINEST: u64 = 1 << 62;

/// Parts of a core fine enough to express a reserve of a few nanoseconds a second.
const FINE: u64 = 1 << 30;

/// How many ticks each job gets beyond its budget where budgets are rounded and there is slack:
/// more than rounding was ever seen to take (`tests/random.rs`).
pub(super) const RESERVE: Duration = Duration::from_ticks(8);

/// All rates are whole multiples of 1 / `parts`, so that sums and comparisons are exact. The grid
/// is the least common multiple of all deadlines where that fits; else rates are rounded down to
/// it, by less than one tick in 2^61 (algorithms.md A.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Grid {
    pub(super) parts: u64,
    /// Share of each core that may be used.
    pub(super) capacity: u64,
    /// Whether every budget is a whole number of ticks: all instants at which windows may begin
    /// and end are multiples of the common denominator.
    pub(super) exact: bool,
}

impl Grid {
    pub(super) fn of(system: &System) -> Self {
        let share = system.capacity;
        let common = system.vcpus.iter().map(density).try_fold(share.den(), |parts, rate| {
            (parts / gcd(parts, rate.den())).checked_mul(rate.den()).filter(|p| *p <= FINEST)
        });
        let exact = common.is_some_and(|parts| {
            system.vcpus.iter().all(|vcpu| keeps_to(vcpu, system.ticks_per_ns, parts))
        });
        let least = common.unwrap_or(share.den());
        let parts = match common {
            Some(parts) if exact => parts,
            Some(_) => least * (FINE / least).max(1),
            None => least * (FINEST / least).max(1),
        };
        Self { parts, capacity: parts / share.den() * share.num(), exact }
    }
    /// `rate` on this grid, rounded down.
    pub(super) fn down(&self, rate: Rate) -> u64 {
        scaled(rate, self.parts, 0)
    }
    /// `rate` on this grid, rounded up.
    pub(super) fn up(&self, rate: Rate) -> u64 {
        scaled(rate, self.parts, rate.den() - 1)
    }
    /// Service at `rate` between two instants, and whether it is a whole number of ticks. Else it
    /// is the difference of two sums from the start, each rounded down: so the fluid schedule is
    /// never left by a whole tick, however many windows there are (algorithms.md A.6).
    #[inline]
    pub(super) fn service(&self, rate: u64, from: Instant, to: Instant) -> (Duration, bool) {
        let (ticks, rest) = self.divided(rate, (to - from).ticks());
        if rest == 0 {
            return (Duration::from_ticks(ticks), true);
        }
        let until = |at: Instant| self.divided(rate, at.ticks()).0;
        (Duration::from_ticks(until(to) - until(from)), false)
    }
    /// Quotient and rest of `rate` times `ticks`.
    #[inline]
    fn divided(&self, rate: u64, ticks: u64) -> (u64, u64) {
        if let Some(product) = rate.checked_mul(ticks) {
            return (product / self.parts, product % self.parts);
        }
        let (product, parts) = (u128::from(rate) * u128::from(ticks), u128::from(self.parts));
        ((product / parts) as u64, (product % parts) as u64)
    }
    /// `rate` as a fraction of a core.
    pub(super) const fn rate(&self, rate: u64) -> Rate {
        Rate::new(rate, self.parts)
    }
}

fn scaled(rate: Rate, parts: u64, add: u64) -> u64 {
    let product = u128::from(rate.num()) * u128::from(parts) + u128::from(add);
    (product / u128::from(rate.den())) as u64
}

/// Whether all releases and deadlines of a task are multiples of so many ticks. Sporadic releases
/// are taken to be whole nanoseconds.
fn keeps_to(vcpu: &Vcpu, ticks_per_ns: u64, ticks: u64) -> bool {
    let r = &vcpu.reservation;
    let released = match vcpu.arrival {
        Arrival::Periodic { offset } => offset.ticks(),
        Arrival::Sporadic | Arrival::None => ticks_per_ns,
    };
    let spans = [r.period.ticks(), r.deadline.ticks(), released];
    spans.iter().all(|span| span.is_multiple_of(ticks))
}

/// C/D. A task with a deadline before its period's end is a sporadic task with that period.
pub(super) fn density(vcpu: &Vcpu) -> Rate {
    Rate::of(vcpu.reservation.budget, vcpu.reservation.deadline.min(vcpu.reservation.period))
}

/// What a set holds. The order is that of ties: masters by their sets, then tasks by their ids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Item {
    /// The master server of a major set, by that set's place.
    Master(usize),
    /// A task.
    Task(VcpuId),
}

/// One execution set as the off-line phase leaves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Blueprint {
    pub(super) core: CoreId,
    /// Items and their rates, in the order in which they were packed.
    pub(super) items: Vec<(Item, u64)>,
    pub(super) rate: u64,
    /// What the set needs beyond its own core; zero = a minor set.
    pub(super) excess: u64,
    /// The set that holds this one's master.
    pub(super) host: Option<usize>,
}

/// Which bin takes the next item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fit {
    First,
    Best,
    Worst,
}

#[derive(Clone, Default)]
struct Bin {
    items: Vec<(Item, u64)>,
    sum: u64,
}

/// The quasi-partition (QPACK): by decreasing rate, each item into a bin where it fits, else into
/// the emptiest one, which it makes a major set. As that item is its set's lightest and the others
/// fit on a core, every item's rate is at least the excess.
fn quasi_partition(items: &mut [(Item, u64)], bins: usize, capacity: u64, fit: Fit) -> Vec<Bin> {
    let is_master = |item: &Item| matches!(item, Item::Master(_));
    items.sort_by_key(|(item, rate)| (Reverse(*rate), is_master(item), *item));
    let mut bins = alloc::vec![Bin::default(); bins];
    for &(item, rate) in items.iter() {
        let fits = |bin: &&mut Bin| bin.sum + rate <= capacity;
        let found = match fit {
            Fit::First => bins.iter_mut().find(fits),
            Fit::Best => bins.iter_mut().filter(fits).min_by_key(|bin| Reverse(bin.sum)),
            Fit::Worst => bins.iter_mut().filter(fits).min_by_key(|bin| bin.sum),
        };
        let chosen = match found {
            Some(bin) => Some(bin),
            None => bins.iter_mut().min_by_key(|bin| bin.sum),
        };
        if let Some(bin) = chosen {
            bin.items.push((item, rate));
            bin.sum += rate;
        }
    }
    bins
}

/// The processor hierarchy: one set a core, each set before the one that holds its master. Tasks of
/// minor sets are packed anew with the masters of each round, until no set is major.
///
/// The items must ask at most for `cores` times the capacity together, and each for a core's.
pub(super) fn hierarchy(
    grid: &Grid,
    tasks: impl Iterator<Item = (VcpuId, u64)>,
    cores: usize,
    fit: Fit,
) -> Vec<Blueprint> {
    let mut items: Vec<(Item, u64)> = tasks.map(|(id, rate)| (Item::Task(id), rate)).collect();
    let mut sets: Vec<Blueprint> = Vec::with_capacity(cores);
    loop {
        let bins = quasi_partition(&mut items, cores - sets.len(), grid.capacity, fit);
        items.clear();
        let last_round = bins.iter().all(|bin| bin.sum <= grid.capacity);
        for bin in bins {
            let excess = bin.sum.saturating_sub(grid.capacity);
            if excess == 0 && !last_round {
                items.extend(bin.items);
                continue;
            }
            let place = sets.len();
            if excess > 0 {
                items.push((Item::Master(place), excess));
            }
            for (item, _) in &bin.items {
                if let Item::Master(guest) = item {
                    sets[*guest].host = Some(place);
                }
            }
            let core = CoreId(place as u16);
            let Bin { items, sum: rate } = bin;
            sets.push(Blueprint { core, items, rate, excess, host: None });
        }
        if last_round {
            return sets;
        }
    }
}

/// Gives what slack there is, as far as needed, to the jobs of major sets, so that rounded budgets
/// make none of them late: the hosts' slack raises the masters, and those raise their sets' items.
pub(super) fn reserve(grid: &Grid, sets: &mut [Blueprint], deadline: impl Fn(VcpuId) -> Duration) {
    let mut wanted: Vec<u64> = Vec::with_capacity(sets.len());
    let wants = |item: &Item, wanted: &[u64]| match item {
        Item::Master(guest) => wanted[*guest],
        Item::Task(vcpu) => grid.up(Rate::of(RESERVE, deadline(*vcpu))),
    };
    for set in sets.iter() {
        let sum: u64 = set.items.iter().map(|(item, _)| wants(item, &wanted)).sum();
        // Every item must stay as heavy as the excess, or the others would not fit on a core.
        let stays = |(item, rate): &(Item, u64)| {
            rate + wants(item, &wanted) >= set.excess + sum && sum <= grid.capacity
        };
        wanted.push(if set.excess > 0 && set.items.iter().all(stays) { sum } else { 0 });
    }
    let mut granted = alloc::vec![0; sets.len()];
    for place in (0..sets.len()).rev() {
        let set = &mut sets[place];
        let is_major = set.excess > 0;
        let share = |item: &Item| match item {
            Item::Task(_) if !is_major => 0,
            Item::Task(_) | Item::Master(_) => wants(item, &wanted),
        };
        let sum: u64 = set.items.iter().map(|(item, _)| share(item)).sum();
        let gets = if is_major { granted[place] } else { sum.min(grid.capacity - set.rate) };
        if gets == 0 {
            continue;
        }
        set.rate += gets;
        set.excess += if is_major { gets } else { 0 };
        let (mut left, mut shares) = (gets, sum);
        for (item, rate) in &mut set.items {
            let own = share(item);
            let part = (u128::from(left) * u128::from(own) / u128::from(shares.max(1))) as u64;
            (left, shares) = (left - part, shares - own);
            *rate += part;
            if let Item::Master(guest) = item {
                granted[*guest] = part;
            }
        }
    }
}

/// How much of a job's work may be undone at its deadline where budgets are rounded to whole ticks.
///
/// Let the service that a class gets by the ends of its set's windows be off by at most `e` ticks
/// from its rate (0 in a minor set, which has all of its core), and let the set hold `n` masters,
/// whose budgets are rounded cumulatively. By EDF's demand bound less than `n + 2e` ticks of them
/// are undone at the end of a window; with the rounding itself a master, and so each class of its
/// set, is off by at most `n + 2e + 1`, and by one more where it runs alone. The same holds for
/// the jobs of tasks beside the masters. Not proven where sets change between QPS mode and EDF:
/// what was undone then is not made good by later windows (`tests/random.rs` tries).
pub(super) fn tolerance(sets: &[Blueprint]) -> Duration {
    let undone = |host: &Blueprint, off: u64| {
        let masters = host.items.iter().filter(|(item, _)| matches!(item, Item::Master(_)));
        (masters.count() as u64).saturating_add(off.saturating_mul(2))
    };
    let mut off: Vec<u64> = alloc::vec![0; sets.len()];
    let mut most = 0;
    for (place, set) in sets.iter().enumerate().rev() {
        if let Some(host) = set.host {
            off[place] = undone(&sets[host], off[host]).saturating_add(2);
        }
        let rounding = u64::from(set.excess > 0);
        most = most.max(undone(set, off[place]).saturating_add(rounding));
    }
    Duration::from_ticks(most)
}
