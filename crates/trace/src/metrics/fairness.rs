//! How VCPUs progressed on cores of uneven speed, counted by windows.
//!
//! A VCPU's **performance** is p = progress / reference (Kim and Huh, "Fairness-oriented Scheduling
//! Support for Multicore Systems", normalised to equal sharing, their Max-fair):
//!
//! * Progress: the instructions that it made in the run.
//! * Reference: what it would have made had, at every instant, all VCPUs that had something to run
//!   shared every class of cores equally. With n of them each is due N_k / n of its time on the N_k
//!   cores of class k; fewer than there are cores share the n fastest. Each part counts at the
//!   VCPU's own speed on that class.
//! * Both are taken over the time in which it **wanted** to run, whether it ran or not: what a VCPU
//!   does not ask for, nothing owes it, and a VCPU that sleeps shares with none.
//!
//! Programs have phases, so the reference is summed over windows of [`WINDOW`], each with the speed
//! that was measured in it. A class on which the VCPU ran less than [`GRAIN`] since its speed there
//! was last taken keeps the last one; before there is any, it has the first that is taken.

use crate::pieces::consumed_by;
use crate::report::{ClassReport, ClassUse, FairnessReport, SpeedReport};
use maracas_core::contract::{End, Segment};
use maracas_core::{Duration, Instant, Role, System, Vcpu, VcpuId};
use std::num::NonZeroU32;

/// Kim and Huh: shares are updated every 2 s; no policy answers a phase within less.
const WINDOW: Duration = Duration::from_secs(2);

/// Kim and Huh: time is shared out in rounds of 30 ms. From less no speed is taken, and what wanted
/// to run for less is not judged.
const GRAIN: Duration = Duration::from_millis(30);

/// Which part of its time a VCPU may be due on a class where its speed is not known: about so
/// much too good is its performance then at most.
const NEGLIGIBLE: f64 = 0.01;

/// Windows that are open: the one that lies at the latest event, and the one before, for what is
/// reported late.
const OPEN: usize = 2;

/// Counts the performance of every VCPU.
#[derive(Clone, Debug)]
pub(super) struct Fairness {
    classes: Vec<ClassReport>,
    /// The class of each core.
    class_of: Vec<u8>,
    ticks_per_ns: u64,
    parties: Vec<Party>,
    /// Where the first open window begins.
    begin: Instant,
    /// Everything that windows held, where they are to be listed.
    kept: Option<Vec<Window>>,
}

/// What one VCPU asked for and got in one closed window, in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) vcpu: VcpuId,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) wanted: u64,
    /// By class.
    pub(crate) runs: Vec<Run>,
}

/// One VCPU.
#[derive(Clone, Debug)]
struct Party {
    /// It serves the policy, not a user: no share is its due.
    service_vcpu: bool,
    /// The speedup that its user gave, in thousandths, if any.
    reported_milli: Option<NonZeroU32>,
    /// Since when it has something to run, as far as that is not yet in a window.
    wants: Option<Instant>,
    /// When it woke while it had something to run, as far as was reported.
    woke_again: Option<Instant>,
    /// Up to where its wanting is in windows.
    counted: Instant,
    open: [Cell; OPEN],
    speeds: Vec<Speed>,
    /// Ticks in closed windows.
    wanted: u64,
    /// Instructions of equal sharing, where the speed was known.
    reference: f64,
    /// At least so many more where it was not.
    unknown: f64,
}

/// What one VCPU asked for and got in one window.
#[derive(Clone, Debug)]
struct Cell {
    /// From when to when it wanted to run, in order.
    wanted: Vec<(Instant, Instant)>,
    /// By class.
    runs: Vec<Run>,
}

/// Time on one class and what was done in it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Run {
    pub(crate) ticks: u64,
    pub(crate) instructions: u64,
}

/// One VCPU on one class.
#[derive(Clone, Copy, Default, Debug)]
struct Speed {
    all: Run,
    /// Since the speed was last taken.
    recent: Run,
    /// Instructions per tick, as last taken.
    known: Option<f64>,
    /// Ticks of equal sharing that wait for the first.
    waiting: f64,
}

impl Run {
    const fn add(&mut self, more: Self) {
        self.ticks += more.ticks;
        self.instructions += more.instructions;
    }
    /// Instructions per tick; `None` where nothing was counted.
    fn speed(self) -> Option<f64> {
        let counted = self.ticks > 0 && self.instructions > 0;
        counted.then(|| self.instructions as f64 / self.ticks as f64)
    }
}

impl Party {
    fn new(classes: usize) -> Self {
        let cell = Cell { wanted: Vec::new(), runs: vec![Run::default(); classes] };
        Self {
            service_vcpu: false,
            reported_milli: None,
            wants: None,
            woke_again: None,
            counted: Instant::ZERO,
            open: std::array::from_fn(|_| cell.clone()),
            speeds: vec![Speed::default(); classes],
            wanted: 0,
            reference: 0.0,
            unknown: 0.0,
        }
    }

    /// It wanted to run until `to` at least; the second open window begins at `cut`.
    fn wanted_until(&mut self, to: Instant, cut: Instant) {
        let Some(since) = self.wants else { return };
        let from = since.max(self.counted);
        if from < to {
            self.open[0].wanted(from, to.min(cut));
            self.open[1].wanted(from.max(cut), to);
            (self.counted, self.wants) = (to, Some(to));
        }
    }

    /// Takes in what it used, spread evenly over the segment.
    fn used(&mut self, segment: &Segment, class: usize, cut: Instant) {
        let early = |amount| consumed_by(amount, segment.from, segment.to, cut);
        let all =
            Run { ticks: segment.usage.service.ticks(), instructions: segment.usage.instructions };
        let first = Run { ticks: early(all.ticks), instructions: early(all.instructions) };
        let rest = Run {
            ticks: all.ticks - first.ticks,
            instructions: all.instructions - first.instructions,
        };
        self.open[0].runs[class].add(first);
        self.open[1].runs[class].add(rest);
    }

    /// The first open window is over, and what it was due in it is known.
    fn close_window(&mut self, grain: u64) {
        let [first, _] = &mut self.open;
        self.wanted += first.ticks();
        first.wanted.clear();
        for (speed, run) in self.speeds.iter_mut().zip(&mut first.runs) {
            let run = std::mem::take(run);
            speed.all.add(run);
            speed.recent.add(run);
            if speed.recent.ticks >= grain && speed.recent.instructions > 0 {
                speed.known = speed.recent.speed();
                speed.recent = Run::default();
            }
            self.reference += speed.resolved();
        }
        self.open.rotate_left(1);
    }

    /// At the end: where no speed was taken, it is that of the little there was, or what the user
    /// said before; else it is bounded by the speeds on other classes.
    fn settle(&mut self, classes: &[ClassReport]) {
        let Some(last) = self.speeds.len().checked_sub(1) else { return };
        for speed in &mut self.speeds {
            speed.known = speed.known.or_else(|| speed.recent.speed());
        }
        let reported = f64::from(self.reported_milli.map_or(0, NonZeroU32::get)) / 1000.0;
        if reported > 0.0 {
            let (fastest, slowest) = (self.speeds[0].known, self.speeds[last].known);
            self.speeds[0].known = fastest.or_else(|| slowest.map(|speed| speed * reported));
            self.speeds[last].known = slowest.or_else(|| fastest.map(|speed| speed / reported));
        }
        self.reference += self.speeds.iter_mut().map(Speed::resolved).sum::<f64>();
        for (place, speed) in self.speeds.iter().enumerate().filter(|(_, it)| it.known.is_none()) {
            // No program loses more than the class's speed says, or gains by a slower class.
            let most_lost = f64::from(classes[place].speed_milli) / 1000.0;
            let bound = |(other, speed): (usize, &Speed)| {
                speed.known.map(|speed| if other < place { speed * most_lost } else { speed })
            };
            let bounds = self.speeds.iter().enumerate().filter_map(bound);
            self.unknown += speed.waiting * bounds.fold(0.0, f64::max);
        }
    }

    const fn is_judged(&self, grain: u64) -> bool {
        !self.service_vcpu && self.wanted >= grain
    }

    /// Its progress by that of equal sharing, once settled.
    fn performance(&self, grain: u64) -> Option<f64> {
        let sum = |of: fn(&Speed) -> u64| self.speeds.iter().map(of).sum::<u64>();
        let (ticks, done) = (sum(|speed| speed.all.ticks), sum(|speed| speed.all.instructions));
        let waiting: f64 = self.speeds.iter().map(|speed| speed.waiting).sum();
        if !self.is_judged(grain) {
            None
        } else if ticks == 0 {
            // Its speed is not known, but nothing by anything is nothing.
            Some(0.0)
        } else if done == 0 || waiting > self.wanted as f64 * NEGLIGIBLE {
            None
        } else {
            Some(done as f64 / self.reference)
        }
    }

    /// The most that its performance can be where it is not known.
    fn performance_at_most(&self, grain: u64) -> Option<f64> {
        let done: u64 = self.speeds.iter().map(|speed| speed.all.instructions).sum();
        let bounded = self.is_judged(grain) && self.performance(grain).is_none() && done > 0;
        bounded.then(|| done as f64 / (self.reference + self.unknown))
    }
}

impl Cell {
    /// How long the VCPU wanted to run.
    fn ticks(&self) -> u64 {
        self.wanted.iter().map(|(from, to)| (*to - *from).ticks()).sum()
    }
    /// `None` where it neither wanted to run nor did.
    fn held(&self, vcpu: VcpuId, (from, to): (Instant, Instant)) -> Option<Window> {
        let (wanted, runs) = (self.ticks(), self.runs.clone());
        let held = wanted > 0 || runs.iter().any(|run| run.ticks > 0);
        held.then_some(Window { vcpu, from, to, wanted, runs })
    }
    fn wanted(&mut self, from: Instant, to: Instant) {
        match self.wanted.last_mut() {
            Some((_, last)) if *last == from => *last = to.max(from),
            _ if from < to => self.wanted.push((from, to)),
            Some(_) | None => {}
        }
    }
}

impl Speed {
    /// The instructions of equal sharing that waited for a speed, where there is one by now.
    fn resolved(&mut self) -> f64 {
        self.known.map_or(0.0, |speed| speed * std::mem::take(&mut self.waiting))
    }
}

impl Fairness {
    /// `None` where all cores are equally fast: there is nothing to show.
    pub(super) fn of(system: &System) -> Option<Box<Self>> {
        if system.is_even() {
            return None;
        }
        let of_class = |class: usize| {
            let cores = system.core_ids().zip(&system.cores);
            cores.filter(move |(_, core)| usize::from(core.class) == class).map(|(id, _)| id.0)
        };
        let classes = system.classes.iter().enumerate().map(|(class, it)| ClassReport {
            speed_milli: it.speed_milli,
            cores: of_class(class).collect(),
        });
        Some(Box::new(Self {
            classes: classes.collect(),
            class_of: system.cores.iter().map(|core| core.class).collect(),
            ticks_per_ns: system.ticks_per_ns.max(1),
            parties: Vec::new(),
            begin: Instant::ZERO,
            kept: None,
        }))
    }

    /// Keeps all that windows hold from now on.
    pub(super) fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }

    /// What was kept.
    pub(super) fn into_kept(self) -> Vec<Window> {
        self.kept.unwrap_or_default()
    }

    pub(super) fn introduce(&mut self, vcpu: &Vcpu) {
        let party = self.party(vcpu.id);
        party.service_vcpu = matches!(vcpu.role, Role::Monitor | Role::Migration);
        party.reported_milli = vcpu.speedup_milli;
    }

    /// `vcpu` has something to run from `at` on.
    pub(super) fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        self.advance(at);
        let party = self.party(vcpu);
        match party.wants {
            None => party.wants = Some(at),
            Some(_) => party.woke_again = Some(at),
        }
    }

    pub(super) fn ran(&mut self, segment: &Segment) {
        self.advance(segment.to);
        // A core that the header does not announce has no class.
        let Some(&class) = self.class_of.get(usize::from(segment.core.0)) else { return };
        let cut = self.cut();
        let party = self.party(segment.vcpu);
        // The wake that ends a block may be reported before the block itself.
        let woken = party.wants.max(party.woke_again.take());
        party.wants = Some(party.wants.map_or(segment.from, |since| since.min(segment.from)));
        party.wanted_until(segment.to, cut);
        party.used(segment, usize::from(class), cut);
        if matches!(segment.end, End::Blocked | End::Exited) {
            party.wants = woken.filter(|woken| *woken > segment.to);
        }
    }

    /// `vcpu` is gone, or was never let in.
    pub(super) fn left(&mut self, vcpu: VcpuId, at: Instant) {
        self.advance(at);
        let cut = self.cut();
        let party = self.party(vcpu);
        party.wanted_until(at, cut);
        party.wants = None;
    }

    /// What `vcpu` got, and the same of all. Only after [`Fairness::finished`].
    pub(super) fn report(&self, vcpu: VcpuId) -> Option<SpeedReport> {
        let party = self.parties.get(vcpu.0 as usize)?;
        let used = |speed: &Speed| ClassUse {
            time_ns: speed.all.ticks / self.ticks_per_ns,
            instructions: speed.all.instructions,
            ips: speed.all.speed().map(|per_tick| per_tick * self.ticks_per_ns as f64 * 1e9),
        };
        let speed = |speed: Option<&Speed>| speed.and_then(|speed| speed.all.speed());
        let (fastest, slowest) = (speed(party.speeds.first()), speed(party.speeds.last()));
        Some(SpeedReport {
            classes: party.speeds.iter().map(used).collect(),
            wanted_ns: party.wanted / self.ticks_per_ns,
            speedup: fastest.zip(slowest).map(|(fastest, slowest)| fastest / slowest),
            performance: party.performance(self.grain()),
            performance_at_most: party.performance_at_most(self.grain()),
        })
    }

    /// The figures of the whole, over the VCPUs given.
    pub(super) fn summary<'a>(
        &self,
        tasks: impl Iterator<Item = (u32, &'a SpeedReport)>,
    ) -> FairnessReport {
        let (mut performances, mut bounds) = (Vec::new(), Vec::new());
        let mut unknown = 0;
        for (id, speed) in tasks {
            let party = &self.parties[id as usize];
            match speed.performance {
                Some(performance) => performances.push((id, performance)),
                None => unknown += u64::from(party.is_judged(self.grain())),
            }
            bounds.extend(speed.performance_at_most.map(|most| (id, most)));
        }
        let all = performances.iter().chain(&bounds).copied();
        let least = all.min_by(|a, b| a.1.total_cmp(&b.1));
        let count = performances.len() as f64;
        let mean = performances.iter().map(|(_, p)| p).sum::<f64>() / count;
        let variance = performances.iter().map(|(_, p)| (p - mean).powi(2)).sum::<f64>() / count;
        FairnessReport {
            classes: self.classes.clone(),
            judged: performances.len() as u64,
            unknown,
            throughput: (count > 0.0).then_some(mean),
            min_fairness: least.map(|(_, performance)| performance),
            min_vcpu: least.map(|(id, _)| id),
            uniformity: (mean > 0.0).then(|| 1.0 - variance.sqrt() / mean),
        }
    }

    /// The same with all windows closed at `end`.
    pub(super) fn finished(&self, end: Instant) -> Self {
        let mut fairness = self.clone();
        fairness.advance(end);
        for _ in 0..OPEN {
            fairness.close_window(end.min(fairness.cut()));
        }
        for party in &mut fairness.parties {
            party.settle(&fairness.classes);
        }
        fairness
    }

    const fn window(&self) -> Duration {
        Duration::from_ticks(WINDOW.ticks() * self.ticks_per_ns)
    }

    /// Where the second open window begins.
    fn cut(&self) -> Instant {
        self.begin.saturating_add(self.window())
    }

    const fn grain(&self) -> u64 {
        GRAIN.ticks() * self.ticks_per_ns
    }

    fn party(&mut self, vcpu: VcpuId) -> &mut Party {
        let (index, classes) = (vcpu.0 as usize, self.classes.len());
        if self.parties.len() <= index {
            self.parties.resize_with(index + 1, || Party::new(classes));
        }
        &mut self.parties[index]
    }

    /// Closes windows until `at` lies in an open one.
    #[inline]
    fn advance(&mut self, at: Instant) {
        let window = self.window();
        while at >= self.begin.saturating_add(window * OPEN as u64) {
            self.close_window(self.cut());
        }
    }

    /// Closes the first open window, which lasts until `end`.
    fn close_window(&mut self, end: Instant) {
        let (cut, grain) = (self.cut(), self.grain());
        for party in &mut self.parties {
            // A VCPU that runs, or waits, since long ago and learns of only when it stops.
            party.wanted_until(end, cut);
        }
        self.share_out();
        if let Some(kept) = &mut self.kept {
            let held =
                |(id, party): (u32, &Party)| party.open[0].held(VcpuId(id), (self.begin, end));
            kept.extend((0..).zip(&self.parties).filter_map(held));
        }
        for party in &mut self.parties {
            party.close_window(grain);
        }
        self.begin = end;
    }

    /// What every party is due of the first open window.
    fn share_out(&mut self) {
        let mut changes = Vec::new();
        for (place, party) in self.parties.iter().enumerate().filter(|(_, it)| !it.service_vcpu) {
            for (from, to) in &party.open[0].wanted {
                changes.extend([(*from, true, place), (*to, false, place)]);
            }
        }
        changes.sort_unstable();
        let (mut last, mut sharers) = (self.begin, 0);
        // What a VCPU that wanted to run all the time would be due so far, by class.
        let mut due = vec![0.0; self.classes.len()];
        for (at, wants, place) in changes {
            let passed = at.saturating_since(last).ticks() as f64;
            for (due, share) in due.iter_mut().zip(equal_shares(&self.classes, sharers)) {
                *due += share * passed;
            }
            let sign = if wants { -1.0 } else { 1.0 };
            for (speed, due) in self.parties[place].speeds.iter_mut().zip(&due) {
                speed.waiting += sign * due;
            }
            sharers = if wants { sharers + 1 } else { sharers - 1 };
            last = at;
        }
    }
}

/// Which part of its time each of `sharers` VCPUs would be on each class if all were shared
/// equally: of fewer than there are cores, the fastest.
fn equal_shares(classes: &[ClassReport], sharers: usize) -> impl Iterator<Item = f64> {
    let mut left = sharers;
    classes.iter().map(move |class| {
        let cores = class.cores.len().min(left);
        left -= cores;
        cores as f64 / sharers.max(1) as f64
    })
}

#[cfg(test)]
mod tests;
