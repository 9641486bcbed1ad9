//! A region of a cache: colours (or ways) that the same parts of the cache have in common. Here is
//! what holds how much of one, and how that moves.
//!
//! While a region fills up, by dose (lines that came), its sets keep S = kept(T) lines of the T
//! that ever came; a line that finds its set full overwrites another of the set. With constant
//! rates of coming lines, a_i the share of program i, this is
//!
//! ```text
//! dE_i/dT = a_i - (1 - dS/dT) E_i / S
//! E_i(T)  = a_i S(T) + (E_i(T0) - a_i S(T0)) exp(worn(T0) - worn(T))
//! ```
//!
//! which is E_i += m_i dt while all sets have room, and when none has, E -> E* + (E0 - E*)
//! exp(-M dt / P) as of West, Zaroo, Waldspurger and Zhang ("Online Cache Modeling for Commodity
//! Multicore Processors", 2010). In between some sets are full already: the binomial of [`Sets`].
//!
//! Under random replacement all lines of a region are alike. Under LRU the region is a stack of
//! lines by age, of which the upper T_k keep kept(T_k), and what comes pushes all of it down. On
//! top is what those that run have used since they were switched in, shared by them as above;
//! below, what programs used when they ran before and have not used since, by the time of that.

mod stack;

use super::super::clamp::Clamp;
use super::sets::Sets;
use libm::{exp, expm1};
use maracas_core::memory::Replacement;
use stack::Stack;

/// A program holds what it can within this many lines: lines are whole.
const HALF_A_LINE: f64 = 0.5;

/// What one running program brings into a region.
#[derive(Clone, Debug)]
pub(super) struct Inflow {
    /// Its place among all that run.
    pub(super) at: usize,
    pub(super) program: usize,
    /// Lines per nanosecond.
    pub(super) rate: f64,
    /// The share of its lines that it uses again per nanosecond, and of those that it does not in
    /// the time that passes; `None` = not computed yet.
    pub(super) reuse: f64,
    pub(super) unused: Option<f64>,
    /// By how much fewer lines come per nanosecond for each line that it gains here.
    pub(super) follows: f64,
    /// Lines of its working set that fall here.
    pub(super) wanted: f64,
    /// Lines of them that it can hold at most, alone. What it misses beyond replaces its own.
    pub(super) limit: f64,
    /// What it holds here, and LRU: those of these lines that it used since it was switched in.
    /// Kept here so that they are looked for once in a call, not in each of its sums.
    pub(super) held: f64,
    pub(super) fresh: f64,
    /// Where the region stands: its share of what comes, and how many of its lines that share
    /// evictions are more than that share of them all.
    pub(super) share: f64,
    pub(super) beyond: f64,
}

/// What all running programs bring into a region.
#[derive(Clone, Default, Debug)]
pub(super) struct Placed {
    pub(super) inflows: Vec<Inflow>,
    /// What they can hold together.
    pub(super) together_at_most: f64,
    /// All of them hold all they can, and the stack is settled: nothing changes here until others
    /// run, or all is filled anew.
    pub(super) full: bool,
}

impl Inflow {
    pub(super) const NONE: Self = Self {
        at: 0,
        program: 0,
        rate: 0.0,
        reuse: 0.0,
        unused: None,
        follows: 0.0,
        wanted: 0.0,
        limit: 0.0,
        held: 0.0,
        fresh: 0.0,
        share: 0.0,
        beyond: 0.0,
    };

    /// Its lines among which evictions are shared.
    #[inline]
    fn sharing(&self, young: bool) -> f64 {
        if young { self.fresh } else { self.held }
    }
    #[inline]
    fn holds_all(&self) -> bool {
        self.held + HALF_A_LINE >= self.limit
    }
}

/// A region.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// In which of the caches.
    pub(super) cache: usize,
    /// Its colours (or ways).
    pub(super) bits: u64,
    pub(super) lines: f64,
    /// In how many sets these lines stand, and in which kind of them.
    pub(super) sets: f64,
    pub(super) kind: usize,
    /// Lines held, by program.
    pub(super) held: Vec<f64>,
    /// By program: the share of its misses that fell here when it was asked for last.
    pub(super) missed: Vec<f64>,
    /// By program: the lines that it held here then.
    pub(super) reported: Vec<f64>,
    /// LRU: what was used when.
    stack: Stack,
}

/// Where a region stands on the curve of its sets, seen by the programs that run.
struct Stand {
    /// Lines of those that share evictions.
    total: f64,
    /// After how many trials sets keep so many; 0 in a crowd, which never asks.
    trials: f64,
    /// How often lines have been overwritten there.
    worn: f64,
    /// The share of coming lines that overwrite another, per line of those that share evictions.
    taken: f64,
    /// Lines per nanosecond that come.
    inflow: f64,
    /// Those what run hold together what they can: they take lines from each other alone, in those
    /// sets on which more of their lines fall than these have ways.
    crowded: bool,
    /// Only lines used since their programs were switched in share evictions.
    young: bool,
}

impl Stand {
    fn taken(&self, sets: &Sets) -> f64 {
        match (self.total > 0.0, self.crowded) {
            (false, _) => 0.0,
            (true, true) => 1.0 / self.total,
            (true, false) => (1.0 - sets.room(self.trials)).at_least(0.0) / self.total,
        }
    }
}

/// How a region is after some time.
#[derive(Clone, Copy)]
struct After {
    /// By what share a line is still there.
    stays: f64,
    /// How many of those that share evictions there are.
    total: f64,
}

impl After {
    /// Lines of a running program then.
    #[inline]
    fn held_by(&self, stand: &Stand, inflow: &Inflow) -> f64 {
        let others = inflow.held - inflow.sharing(stand.young);
        others + (inflow.share * self.total + inflow.beyond * self.stays)
    }
}

/// Nothing comes that would change anything.
fn rests(inflows: &[Inflow]) -> bool {
    inflows.iter().all(|inflow| inflow.rate <= 0.0 || inflow.holds_all())
}

impl Region {
    pub(super) fn new(cache: usize, bits: u64, programs: usize) -> Self {
        let none = || vec![0.0; programs];
        let (held, missed, reported) = (none(), none(), none());
        Self {
            cache,
            bits,
            lines: 0.0,
            sets: 0.0,
            kind: 0,
            held,
            missed,
            reported,
            stack: Stack::new(programs),
        }
    }

    /// The part of this region within `bits`, with its share of every program's lines.
    pub(super) fn part(&self, bits: u64) -> Self {
        let bits = self.bits & bits;
        let share = f64::from(bits.count_ones()) / f64::from(self.bits.count_ones());
        let mut part = Self { bits, ..self.clone() };
        part.held.iter_mut().for_each(|lines| *lines *= share);
        part.missed.iter_mut().for_each(|missed| *missed *= share);
        part.reported.iter_mut().for_each(|reported| *reported *= share);
        part.stack.scale(share);
        part
    }

    /// `program` has no lines here any more.
    pub(super) fn empty(&mut self, program: usize) {
        self.held[program] = 0.0;
        self.stack.empty(program);
    }

    pub(super) fn occupied(&self) -> f64 {
        self.held.iter().sum()
    }

    /// Fills in what programs that run hold here.
    fn look_up(&self, inflows: &mut [Inflow]) {
        for inflow in inflows {
            inflow.held = self.held[inflow.program];
            inflow.fresh = self.stack.on_top(inflow.program);
        }
    }
    /// What those that run can hold together.
    pub(super) fn together_at_most(&self, sets: &Sets, inflows: &[Inflow]) -> f64 {
        let wanted: f64 = inflows.iter().map(|inflow| inflow.wanted).sum();
        sets.kept(sets.trials_of(wanted / self.sets)) * self.sets
    }

    /// Where the region stands. A program that holds all it can brings no more than others take
    /// from it, so `inflows` are cut to that. `at_most` = what they can hold together.
    fn stand(
        &self,
        sets: &Sets,
        replacement: Replacement,
        at_most: f64,
        inflows: &mut [Inflow],
    ) -> Stand {
        let (mut together, mut fresh) = (0.0, 0.0);
        for inflow in inflows.iter() {
            together += inflow.held;
            fresh += inflow.fresh;
        }
        let crowded = together + HALF_A_LINE >= at_most;
        let young = replacement == Replacement::Lru && !crowded;
        let total = match replacement {
            _ if crowded => together,
            Replacement::Random => self.occupied(),
            Replacement::Lru => fresh,
        };
        // A crowd is all that matters to itself, wherever on the curve it is.
        let trials = if crowded { 0.0 } else { sets.trials(total / self.sets) };
        let worn = if crowded { 0.0 } else { sets.worn(trials) };
        let mut stand = Stand { total, trials, worn, taken: 0.0, inflow: 0.0, crowded, young };
        stand.taken = stand.taken(sets);
        let (mut others, mut replaced, mut some_full) = (0.0, 0.0, false);
        for inflow in inflows.iter() {
            if inflow.holds_all() {
                replaced += inflow.sharing(young) * stand.taken;
                some_full = true;
            } else {
                others += inflow.rate;
            }
        }
        stand.inflow = others;
        if some_full {
            // They replace also what they take from each other: R = replaced (others + R).
            let loss =
                if others > 0.0 { others / (1.0 - replaced).at_least(f64::EPSILON) } else { 0.0 };
            for inflow in inflows.iter_mut().filter(|inflow| inflow.holds_all()) {
                inflow.rate = inflow.rate.at_most(inflow.sharing(young) * stand.taken * loss);
            }
            stand.inflow = inflows.iter().map(|inflow| inflow.rate).sum();
        }
        stand
    }

    /// Lets `time` nanoseconds pass.
    pub(super) fn advance(
        &mut self,
        sets: &Sets,
        replacement: Replacement,
        time: f64,
        placed: &mut Placed,
    ) {
        if time <= 0.0 {
            return;
        }
        let Placed { inflows, together_at_most, full: is_full } = placed;
        let at_most = *together_at_most;
        if replacement == Replacement::Lru {
            self.stack.used(time, inflows);
        }
        self.look_up(inflows);
        if rests(inflows) {
            *is_full = inflows.iter().all(Inflow::holds_all) && self.stack.is_settled();
            return;
        }
        let mut left = time;
        // Each stretch but the last ends where one program, or all, have come to hold all they can.
        for stretch in 0..=inflows.len() + 1 {
            let mut stand = self.stand(sets, replacement, at_most, inflows);
            if stretch == 0 && inflows.iter().any(|inflow| inflow.follows > 0.0) {
                self.follow(&mut stand, left, inflows);
            }
            if stand.inflow <= 0.0 {
                return;
            }
            for inflow in inflows.iter_mut() {
                inflow.share = inflow.rate / stand.inflow;
                inflow.beyond = inflow.sharing(stand.young) - inflow.share * stand.total;
            }
            let (full, after) = if stretch <= inflows.len() {
                self.first_full(sets, &stand, left, at_most, inflows)
            } else {
                (left, self.after(sets, &stand, left))
            };
            self.pass(sets, replacement, &stand, (full, after), inflows);
            left -= full;
            if left <= 0.0 {
                return;
            }
            self.look_up(inflows);
        }
    }

    /// A program that is near its balance stays there: its misses fall as its lines grow, and it
    /// brings what it misses on average of `time`. With k = `follows`, x = lines since its misses
    /// were computed: dx/dt = gain - k x (1 - own) - loss x, where `own` of its lines replace
    /// others of it.
    fn follow(&self, stand: &mut Stand, time: f64, inflows: &mut [Inflow]) {
        let loss = stand.taken * stand.inflow;
        for inflow in inflows.iter_mut().filter(|inflow| inflow.follows > 0.0) {
            if inflow.holds_all() {
                continue;
            }
            let since = inflow.held - self.reported[inflow.program];
            let gain = inflow.rate - inflow.sharing(stand.young) * loss;
            let own = inflow.sharing(stand.young) * stand.taken;
            let pull = inflow.follows * (1.0 - own) + loss;
            let way = (gain - inflow.follows * since) / pull;
            let mean = way * (1.0 + expm1(-pull * time) / (pull * time));
            inflow.rate = (inflow.rate - inflow.follows * (since + mean)).at_least(0.0);
        }
        stand.inflow = inflows.iter().map(|inflow| inflow.rate).sum();
    }

    /// How the region is after `time`.
    fn after(&self, sets: &Sets, stand: &Stand, time: f64) -> After {
        if stand.crowded {
            let stays = exp(-stand.inflow * time / stand.total);
            return After { stays, total: stand.total };
        }
        let later = stand.trials + sets.trials_of(stand.inflow * time / self.sets);
        let (worn, kept) = sets.worn_and_kept(later);
        After { stays: exp(stand.worn - worn), total: kept * self.sets }
    }

    /// When the first program, or all together, come to hold all they can; `time` at the latest.
    /// And how the region is then.
    fn first_full(
        &self,
        sets: &Sets,
        stand: &Stand,
        time: f64,
        at_most: f64,
        inflows: &[Inflow],
    ) -> (f64, After) {
        let over = |after: &After| {
            let mut together = 0.0;
            inflows.iter().any(|inflow| {
                let held = after.held_by(stand, inflow);
                together += held;
                held > inflow.limit && !inflow.holds_all()
            }) || together > at_most && !stand.crowded
        };
        let mut at_high = self.after(sets, stand, time);
        if !over(&at_high) {
            return (time, at_high);
        }
        let (mut low, mut high) = (0.0, time);
        while (high - low) * stand.inflow > HALF_A_LINE / 2.0 {
            let middle = (low + high) / 2.0;
            let after = self.after(sets, stand, middle);
            if over(&after) { (high, at_high) = (middle, after) } else { low = middle }
        }
        (high, at_high)
    }

    /// Lets `time` pass in which no program comes to hold all it can.
    fn pass(
        &mut self,
        sets: &Sets,
        replacement: Replacement,
        stand: &Stand,
        (time, after): (f64, After),
        inflows: &mut [Inflow],
    ) {
        for inflow in inflows.iter() {
            let later = after.held_by(stand, inflow);
            self.held[inflow.program] = later.clamp(0.0, inflow.limit.at_least(inflow.held));
        }
        match replacement {
            Replacement::Lru => {
                let more = sets.trials_of(stand.inflow * time / self.sets);
                if stand.crowded {
                    self.stack.wear(after.stays, &self.held);
                } else {
                    let from = (stand.total, after.total);
                    self.stack.sink(sets, self.sets, from, more, &mut self.held);
                }
            }
            Replacement::Random if stand.crowded => {}
            Replacement::Random => {
                let runs = |program| inflows.iter().any(|inflow| inflow.program == program);
                for (program, held) in self.held.iter_mut().enumerate() {
                    *held *= if *held > 0.0 && !runs(program) { after.stays } else { 1.0 };
                }
            }
        }
    }

    /// Where things go from here; inflows are cut to what comes.
    pub(super) fn flow(&self, sets: &Sets, replacement: Replacement, placed: &mut Placed) -> Flow {
        let Placed { inflows, together_at_most, .. } = placed;
        self.look_up(inflows);
        if rests(inflows) {
            return Flow::NONE;
        }
        let stand = self.stand(sets, replacement, *together_at_most, inflows);
        let (lines, free) = match stand.crowded {
            true => (stand.total, 0.0),
            false => (self.lines, (self.lines - stand.total).at_least(0.0)),
        };
        let taken = stand.taken * stand.inflow;
        Flow { inflow: stand.inflow, taken, lines, free, young: stand.young }
    }
}

/// How lines come and go in a region at present.
pub(super) struct Flow {
    /// Lines per nanosecond that come.
    inflow: f64,
    /// The share of the lines that share evictions that goes per nanosecond.
    taken: f64,
    /// Lines that are replaced, and those of them that no program that runs holds.
    lines: f64,
    free: f64,
    young: bool,
}

impl Flow {
    const NONE: Self = Self { inflow: 0.0, taken: 0.0, lines: 0.0, free: 0.0, young: false };

    /// What it means for a program of the region.
    pub(super) fn drift(&self, program: &Inflow) -> Drift {
        if self.inflow <= 0.0 {
            return Drift::NONE;
        }
        let sharing = program.sharing(self.young);
        Drift {
            gain: program.rate - sharing * self.taken,
            own: sharing * self.taken / self.inflow,
            full: program.rate - sharing * self.inflow / self.lines,
            turnover: self.lines / self.inflow,
            filling: self.free / self.inflow,
        }
    }
}

/// Where a program's lines go from here, at present rates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    /// Lines that it gains per nanosecond.
    pub(super) gain: f64,
    /// The same as soon as no set has room.
    pub(super) full: f64,
    /// The share of its coming lines that replace others of its own.
    pub(super) own: f64,
    /// Nanoseconds in which as many lines come as there are.
    pub(super) turnover: f64,
    /// Nanoseconds in which as many lines come as those that run do not hold.
    pub(super) filling: f64,
}

impl Drift {
    /// Nothing comes.
    pub(super) const NONE: Self =
        Self { gain: 0.0, full: 0.0, own: 0.0, turnover: f64::INFINITY, filling: f64::INFINITY };

    /// The drift in two regions at once: the quicker one decides when to look again.
    pub(super) fn add(&mut self, other: &Self) {
        self.gain += other.gain;
        self.full += other.full;
        self.own = self.own.at_least(other.own);
        self.turnover = self.turnover.at_most(other.turnover);
        self.filling = self.filling.at_most(other.filling);
    }
}
