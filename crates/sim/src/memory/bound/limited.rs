//! How long work takes at most beside others whose reads, or whose time, are limited.
//!
//! While a job runs, one mix of others after the other runs beside it. Let the job spend `A_M` ns
//! beside mix M, in which a unit of its work takes `s_M` as long as alone; then its work is the sum
//! of `A_M / s_M`. A limit counts what some of the others do at a rate of at least `c_M`: reads per
//! ns, or 1 for time. All that is known of the job is then that it takes the sum of `A_M`, where
//! for every limit the sum of `c_M A_M` is at most what the limit lets through meanwhile. The
//! longest such time is a linear program. Its dual gives each limit a price, in ns for each read or
//! ns, and *for any prices p* that are not negative
//!
//! ```text
//! time <= mu work + sum of p B,    mu = the most of s_M (1 - sum of p c_M) over all mixes
//! ```
//!
//! since each `A_M` is at most `A_M (mu / s_M + sum of p c_M)`. So a bound needs no exact solution:
//! the prices are found by the simplex method, and mu from them by looking at every mix. Prices of
//! zero give the bound without limits. What B is depends on how long the job lasts, so prices are
//! sought for some lengths, and the least of all the bounds that these give is taken.
//!
//! # What a limit lets through
//! A window of X meets at most ceil(X/P) + 1 periods of length P, wherever it begins. In each of
//! them a limit of reads lets through Q; the last read before a core is closed may be done by a
//! fraction, and so may the last of each program before another one goes on: one more for each.
//! What a late stop lets through is owed to the next period. A limit of time is the budget of a
//! sporadic server that is always given it in its T: units of it come back T after they could be
//! used, so a window of X holds at most C of each T that it meets, too. On a core that may be
//! closed meanwhile it holds more, and no such limit is counted.
//!
//! # Rates
//! Others do not always do their most: one that uses the cache may miss seldom, read little, and
//! nevertheless be in the way all the time. So each range of miss ratios of each program counts as
//! a mix of its own (a cell). Beside cells, work takes as long as beside their upper ends, or
//! beside some of them alone, whichever is longer (1 in the head of the parent); and they read at
//! least as often as their lower ends do at the time per reference that their upper ends take at
//! most (1 and 2 there).

use super::{EDGE, MARGIN, Mixes, Slowed, time_of};
use crate::memory::shared::kind_of;
use crate::memory::solutions::{Entry, Solutions};
use maracas_core::memory::{MemoryUse, Profile};
use maracas_core::{CoreId, Duration};
use std::collections::BTreeMap;

/// So many mixes of cells are tried; the ranges are as fine as that allows.
const CELL_MIXES: usize = 256;
/// Steps of a miss ratio, an eighth of an octave each, that make a range: the finest that fits is
/// taken. The last one is all of them.
const WIDTHS: [usize; 6] = [1, 2, 4, 8, 24, 128];
/// Prices are sought for jobs that last for their work times two to the power of 0, 1 and so on.
const LENGTHS: u32 = 7;
/// Steps of the simplex method, which are some ten: any prices will do.
const PIVOTS: usize = 200;

/// What some programs together do at most in each period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The period, wherever it begins.
    pub period: Duration,
    /// What they do at most.
    pub most: Most,
    /// Which programs, by their place among the run's.
    pub programs: Vec<u32>,
}

/// What a [`Limit`] counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Most {
    /// Reads of memory.
    Reads(u64),
    /// Time on a core.
    Time(Duration),
}

/// A bound on the time that work takes beside limited others: `slowdown_ppm` millionths of it, and
/// the waits for each period that it meets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Time that a unit of work takes, in millionths.
    pub slowdown_ppm: u64,
    /// Periods of limits, and what each that is met adds at most.
    pub waits: Vec<(Duration, Duration)>,
    /// Time to bring its lines back into the cache, once a job.
    pub reload: Duration,
}

impl Line {
    /// How long `work` takes at most that is done within `window` from its begin.
    #[must_use]
    pub fn time_for(&self, work: Duration, window: Duration) -> Duration {
        let ticks = u128::from(work.ticks()) * u128::from(self.slowdown_ppm);
        let waits = self.waits.iter().map(|(period, wait)| {
            u128::from(wait.ticks()) * u128::from(periods_met(window, *period))
        });
        let ticks = ticks.div_ceil(1_000_000) + waits.sum::<u128>();
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        // A job is complete at a whole tick.
        Duration::from_ticks(ticks.saturating_add(self.reload.ticks()).saturating_add(1))
    }
}

/// How many periods a window meets at most.
fn periods_met(window: Duration, period: Duration) -> u64 {
    window.ticks().div_ceil(period.ticks().max(1)) + 1
}

/// A program on another core that misses so often, more or less.
struct Cell<'a> {
    program: u32,
    use_: &'a MemoryUse,
    stretch: f64,
    /// How it counts for the law.
    entry: Entry,
    least: f64,
    most: f64,
}

/// All mixes of cells on other cores: by place, how long work takes at most beside it or a part of
/// it, and by cell the longest time per reference there.
struct Tried<'a> {
    cells: Vec<Vec<Cell<'a>>>,
    slowdowns: Vec<f64>,
    /// By core with cells, by mix: the highest latency of its reads, ns.
    latencies: Vec<Vec<f64>>,
}

impl<'a> Tried<'a> {
    fn new(cells: Vec<Vec<Cell<'a>>>) -> Self {
        let count = count(&cells);
        let latencies = vec![vec![0.0; count]; cells.len()];
        Self { slowdowns: vec![1.0; count], latencies, cells }
    }
    fn len(&self) -> usize {
        self.slowdowns.len()
    }
    /// The cells of a mix, by core with cells; `None` = that core idles.
    fn mix(&self, mut place: usize) -> Vec<Option<&Cell<'a>>> {
        let digit = |cells: &Vec<Cell<'a>>| {
            let digit = place % (cells.len() + 1);
            place /= cells.len() + 1;
            digit
        };
        let digits: Vec<usize> = self.cells.iter().map(digit).collect();
        let cells = self.cells.iter().zip(digits);
        cells.map(|(cells, digit)| digit.checked_sub(1).map(|at| &cells[at])).collect()
    }
    /// Takes for each mix the most of it and of all its parts.
    fn with_parts(&mut self) {
        let mut stride = 1;
        for core in 0..self.cells.len() {
            let radix = self.cells[core].len() + 1;
            for place in (0..self.slowdowns.len()).filter(|place| place / stride % radix > 0) {
                let without = place - place / stride % radix * stride;
                let less = self.slowdowns[without];
                self.slowdowns[place] = self.slowdowns[place].max(less);
                for (other, latencies) in self.latencies.iter_mut().enumerate() {
                    if other != core {
                        latencies[place] = latencies[place].max(latencies[without]);
                    }
                }
            }
            stride *= radix;
        }
    }
    /// At what rate at least programs of `limit` do what it counts, by mix.
    fn rates(&self, limit: &Limit) -> Vec<f64> {
        let rate = |place: usize| {
            let mix = self.mix(place);
            let there = mix.iter().enumerate().filter_map(|(core, cell)| Some((core, (*cell)?)));
            let counted = there.filter(|(_, cell)| limit.programs.contains(&cell.program));
            let rates = counted.map(|(core, cell)| match limit.most {
                Most::Time(_) => 1.0,
                Most::Reads(_) => cell.reads_per_ns(self.latencies[core][place]),
            });
            rates.sum()
        };
        (0..self.len()).map(rate).collect()
    }
}

fn count(cells: &[Vec<Cell<'_>>]) -> usize {
    cells.iter().fold(1, |count: usize, cells| count.saturating_mul(cells.len() + 1))
}

impl Cell<'_> {
    /// Reads that it does at least where no read takes longer.
    fn reads_per_ns(&self, latency_ns: f64) -> f64 {
        self.least / time_of(self.use_, self.stretch, self.most, latency_ns) / MARGIN
    }
}

impl<'a> Mixes<'a> {
    /// The bounds that limits on others give on the time of a job of `program`; none where others
    /// are not limited, or it may run on several cores.
    pub(super) fn lines(&mut self, program: usize) -> Vec<Line> {
        let mut cores = self.places[program].iter();
        let (Some(core), None) = (cores.next(), cores.next()) else { return Vec::new() };
        let Some(work) = self.programs[program].workload.most() else { return Vec::new() };
        let Some(profile) = self.profile(program) else { return Vec::new() };
        let Some(cells) = self.cells_beside(program, core) else { return Vec::new() };
        let among = |it: &u32| cells.iter().flatten().any(|cell| cell.program == *it);
        let limits: Vec<&Limit> =
            self.limits.iter().filter(|limit| limit.programs.iter().any(among)).collect();
        if limits.is_empty() {
            return Vec::new();
        }
        let mut tried = Tried::new(cells);
        let mut reload = Duration::ZERO;
        for (_, use_) in &profile.phases {
            reload = reload.max(self.try_phase(program, use_, core, &mut tried));
        }
        tried.with_parts();
        let rates: Vec<Vec<f64>> = limits.iter().map(|limit| tried.rates(limit)).collect();
        let mut lines: Vec<Line> = Vec::new();
        for length in 0..LENGTHS {
            let window = Duration::from_ticks(work.ticks().saturating_mul(1 << length));
            let line = self.line(&limits, &rates, &tried.slowdowns, work, window);
            let line = Line { reload, ..line };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// What runs on each other core, by ranges of miss ratios; `None` where these are too many.
    fn cells_beside(&self, program: usize, core: CoreId) -> Option<Vec<Vec<Cell<'a>>>> {
        let others = || self.system.core_ids().filter(|other| *other != core);
        let beside = |width: usize| {
            let cells = others().map(|other| self.cells_on(other, program, width));
            cells.filter(|cells| !cells.is_empty()).collect::<Vec<_>>()
        };
        WIDTHS.iter().map(|width| beside(*width)).find(|cells| count(cells) <= CELL_MIXES)
    }

    fn cells_on(&self, core: CoreId, program: usize, width: usize) -> Vec<Cell<'a>> {
        let own = self.programs[program].vcpu;
        let stretch = self.stretch(core);
        let mut cells = Vec::new();
        for other in (0..self.programs.len()).filter(|it| self.places[*it].contains(core)) {
            let profile: Option<&'a Profile> = self.profile(other);
            let phases = profile.filter(|_| self.programs[other].vcpu != own);
            for (_, use_) in phases.iter().flat_map(|profile| &profile.phases) {
                let most = self.misses(other, use_, core).most();
                let least = self.cache.as_ref().map_or(most, |it| it.best_miss_ratio(use_, None));
                cells.extend(self.cells_of(other, use_, stretch, (least.min(most), most), width));
            }
        }
        cells
    }

    /// The ranges of miss ratios of one that misses as often as `least` at least and `most`.
    fn cells_of(
        &self,
        program: usize,
        use_: &'a MemoryUse,
        stretch: f64,
        (least, most): (f64, f64),
        width: usize,
    ) -> Vec<Cell<'a>> {
        // Every use is known to the solutions since `ways_on`.
        let Some(kind) = self.solutions.known(&kind_of(use_, stretch)) else { return Vec::new() };
        if most <= 0.0 {
            return Vec::new();
        }
        let steps: Vec<(Entry, f64, f64)> = Solutions::steps_below(kind, most).collect();
        let mut cells = Vec::new();
        for (at, range) in steps.chunks(width).enumerate() {
            let (entry, top, middle) = range[0];
            let below = steps.get((at + 1) * width).map_or(0.0, |(_, top, _)| *top);
            let (low, high) = (below.max(least), top.max(middle * EDGE));
            let program = program as u32;
            cells.push(Cell { program, use_, stretch, entry, least: low, most: high });
            if below <= least {
                break;
            }
        }
        cells
    }

    /// Notes how long work of one phase takes beside each mix, and others' reads; returns the time
    /// that its lines take to come back.
    fn try_phase(
        &mut self,
        program: usize,
        use_: &'a MemoryUse,
        core: CoreId,
        tried: &mut Tried<'a>,
    ) -> Duration {
        let stretch = self.stretch(core);
        let misses = self.misses(program, use_, core);
        let best = self.cache.as_ref().map_or(1.0, |cache| cache.best_miss_ratio(use_, None));
        let reference = self.soonest(use_, best);
        let (mixes, _) = self.mixes_beside(program, core);
        let of = Slowed { use_, stretch, mixes: &mixes };
        // What it loses while it fills its part, against the least that it takes otherwise.
        let least = time_of(use_, stretch, misses.steady, 0.0);
        let reload = misses.fills.map(|part| self.fill_ns(&of, part, core, least));
        let steady = if reload == Some(None) { 1.0 } else { misses.steady };
        let mut own = self.own_steps(&of, steady);
        // While it fills its part it only slows others down: its own loss is counted above.
        let filling = self.own_steps(&of, misses.most()).into_iter().next();
        own.extend(filling.map(|(entry, _)| (entry, 0.0)));
        for place in 0..tried.len() {
            let mut slowest = time_of(use_, stretch, 0.0, 0.0);
            self.latencies_in(tried, place, None);
            for (entry, ratio) in &own {
                let latency = self.latencies_in(tried, place, Some(*entry));
                slowest = slowest.max(time_of(use_, stretch, *ratio, latency));
            }
            let known = tried.slowdowns[place];
            tried.slowdowns[place] = known.max(slowest / reference * MARGIN);
        }
        let reload_ns = reload.flatten().unwrap_or(0.0) * MARGIN;
        self.ticks(reload_ns)
    }

    /// Solves the law for a mix and one more; notes the others' latencies and returns its own.
    fn latencies_in(&mut self, tried: &mut Tried<'a>, place: usize, own: Option<Entry>) -> f64 {
        let entries: Vec<Option<Entry>> =
            tried.mix(place).iter().map(|cell| cell.map(|cell| cell.entry)).collect();
        let mut set: Vec<Entry> = entries.iter().flatten().copied().collect();
        set.extend(&self.devices);
        set.extend(own);
        set.sort_unstable();
        let solved = self.solutions.of(&set);
        let latency =
            |entry: Entry| set.binary_search(&entry).map_or(0.0, |at| solved[at].latency_ns);
        for (latencies, entry) in tried.latencies.iter_mut().zip(entries) {
            latencies[place] = latencies[place].max(entry.map_or(0.0, latency));
        }
        own.map_or(0.0, latency)
    }

    /// The best bound for a job of so much work that lasts for `window`, which holds for all.
    fn line(
        &self,
        limits: &[&Limit],
        rates: &[Vec<f64>],
        slowdowns: &[f64],
        work: Duration,
        window: Duration,
    ) -> Line {
        let ticks_per_ns = self.system.ticks_per_ns as f64;
        let each: Vec<f64> = limits.iter().map(|limit| limit.lets_through(ticks_per_ns)).collect();
        let met = limits.iter().map(|limit| periods_met(window, limit.period) as f64);
        let most: Vec<f64> = each.iter().zip(met).map(|(each, met)| each * met).collect();
        let work_ns = work.ticks() as f64 / ticks_per_ns;
        let prices = prices(slowdowns, rates, work_ns, &most);
        let slowdown = (0..slowdowns.len()).map(|place| {
            let paid = prices.iter().zip(rates).map(|(price, rates)| price * rates[place]);
            slowdowns[place] * (1.0 - paid.sum::<f64>())
        });
        let slowdown = slowdown.fold(1.0, f64::max);
        let mut waits: BTreeMap<Duration, f64> = BTreeMap::new();
        for ((limit, price), each) in limits.iter().zip(&prices).zip(&each) {
            *waits.entry(limit.period).or_default() += price * each;
        }
        let waits = waits.into_iter().map(|(period, ns)| (period, self.ticks(ns)));
        Line {
            slowdown_ppm: (slowdown * 1e6).ceil() as u64,
            waits: waits.filter(|(_, wait)| !wait.is_zero()).collect(),
            reload: Duration::ZERO,
        }
    }

    /// Nanoseconds in ticks, upwards.
    fn ticks(&self, ns: f64) -> Duration {
        Duration::from_ticks((ns * self.system.ticks_per_ns as f64).ceil() as u64)
    }
}

impl Limit {
    /// Reads, or ns, in one period.
    fn lets_through(&self, ticks_per_ns: f64) -> f64 {
        match self.most {
            Most::Reads(reads) => reads as f64 + 1.0 + self.programs.len() as f64,
            Most::Time(time) => time.ticks() as f64 / ticks_per_ns,
        }
    }
}

/// Prices by the simplex method on the full table, for the most of the sum of `slowdowns z` where
/// the sum of z is `work` and for each limit that of `rates slowdowns z` is `most`, at most. The
/// first row stands for what is maximized, the second for the work, the others for limits; the last
/// column for their right sides.
fn prices(slowdowns: &[f64], rates: &[Vec<f64>], work: f64, most: &[f64]) -> Vec<f64> {
    let (mixes, rows) = (slowdowns.len(), rates.len() + 2);
    let slack = |row: usize| (1..rows).map(move |at| if at == row { 1.0 } else { 0.0 });
    let mut table: Vec<Vec<f64>> = Vec::with_capacity(rows);
    table.push(slowdowns.iter().map(|it| -it).chain(slack(0)).chain([0.0]).collect());
    table.push(vec![1.0; mixes].into_iter().chain(slack(1)).chain([work]).collect());
    for (at, (rates, most)) in rates.iter().zip(most).enumerate() {
        let row = rates.iter().zip(slowdowns).map(|(rate, slowdown)| rate * slowdown);
        table.push(row.chain(slack(at + 2)).chain([*most]).collect());
    }
    let last = mixes + rows - 1;
    for _ in 0..PIVOTS {
        let columns = 0..last;
        let Some(column) = columns.min_by(|a, b| table[0][*a].total_cmp(&table[0][*b])) else {
            break;
        };
        if table[0][column] > -1e-9 {
            break;
        }
        let ratio = |row: usize| table[row][last] / table[row][column];
        let grows = (1..rows).filter(|row| table[*row][column] > 1e-12);
        let Some(row) = grows.min_by(|a, b| ratio(*a).total_cmp(&ratio(*b))) else { break };
        pivot(&mut table, row, column);
    }
    table[0][mixes + 1..last].iter().map(|price| price.max(0.0)).collect()
}

fn pivot(table: &mut [Vec<f64>], row: usize, column: usize) {
    let by = table[row][column];
    table[row].iter_mut().for_each(|it| *it /= by);
    let pivot = table[row].clone();
    for (_, other) in table.iter_mut().enumerate().filter(|(at, _)| *at != row) {
        let by = other[column];
        other.iter_mut().zip(&pivot).for_each(|(it, own)| *it -= by * own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_those_of_the_linear_program() {
        // Alone, or beside one that doubles the time and reads 0.1 a ns: it may do so for 500 ns.
        let (slowdowns, rates) = ([1.0, 2.0], vec![vec![0.0, 0.1]]);
        let prices = prices(&slowdowns, &rates, 1_000.0, &[50.0]);
        // 500 ns beside it are 250 of work, and 750 alone: each of 50 reads costs 5 ns.
        assert!((prices[0] - 5.0).abs() < 1e-9, "{prices:?}");
        // It is there for all of the job: its reads are worth nothing.
        assert_eq!(super::prices(&slowdowns, &rates, 1_000.0, &[500.0]), [0.0]);
    }

    #[test]
    fn a_line_charges_every_period_that_may_be_met() {
        let [ms, us] = [Duration::from_millis, Duration::from_micros];
        let waits = vec![(ms(1), us(10))];
        let line = Line { slowdown_ppm: 1_100_000, waits, reload: us(3) };
        let takes = ms(11) + us(10) * 12 + us(3) + Duration::from_ticks(1);
        assert_eq!(line.time_for(ms(10), us(10_500)), takes);
    }
}
