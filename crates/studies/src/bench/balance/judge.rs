//! A run's journal held against what load balancing promises (docs/balance.md): what a move delays
//! and by how much, what it costs, and what it does to surplus time.

use super::story::{Life, Move, Raise, Story};
use maracas_core::contract::{Mode, Segment};
use maracas_core::{CoreId, Duration, Instant, Vcpu, VcpuId};

/// How late a period may be and still count as on time: a wake of the runtime's agents is later
/// than this in fewer than one of a thousand cases (docs/guarantees.md, "What breaks it").
const ON_TIME: Duration = Duration::from_millis(1);
/// A budget has been received when all of it but this part has: what enforcement may be off by in
/// the mean (docs/guarantees.md).
const REST: u64 = 200;

/// A period in which a VCPU did not get what was granted, or whose next budget came too late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Late {
    pub(super) vcpu: VcpuId,
    /// When it began.
    pub(super) begin: Instant,
    /// When it should have ended.
    pub(super) due: Instant,
    /// By how much it ended later.
    pub(super) by: Duration,
}

/// All periods of all VCPUs.
#[derive(Clone, Default, Debug)]
pub(super) struct Periods {
    /// How many could be judged: whole ones, with something to run throughout.
    pub(super) judged: u64,
    pub(super) late: Vec<Late>,
}

impl Periods {
    /// A period begins where a budget is granted: where the limit is raised. It is on time where
    /// that much has been received, and the whole budget C been granted anew, T later.
    pub(super) fn of(story: &Story) -> Self {
        let mut periods = Self::default();
        for vcpu in story.vcpus() {
            if let Some(life) = story.lives.get(&vcpu.id) {
                periods.add(vcpu, life, life.left.unwrap_or(story.end));
            }
        }
        periods
    }

    fn add(&mut self, vcpu: &Vcpu, life: &Life, end: Instant) {
        let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
        let rest = Duration::from_ticks(budget.ticks() / REST);
        let mut service = Service::of(&life.foreground);
        let mut limits = life.raises.iter().copied();
        let mut limit = limits.next();
        let mut last = None;
        for Raise { at, limit: granted } in &life.raises {
            let due = *at + period;
            let received = service.reaches(granted.saturating_sub(rest));
            let again = *granted + budget.saturating_sub(rest);
            while limit.is_some_and(|raise| raise.limit < again) {
                limit = limits.next();
            }
            let renewed = limit.map(|raise| raise.at);
            let known = |at: Option<Instant>| at.unwrap_or(end);
            let ended = known(received).max(known(renewed));
            let unknown = ended == end && ended < due + ON_TIME;
            if unknown || life.was_blocked(*at, ended) {
                continue;
            }
            self.judged += 1;
            // A budget that is granted in pieces is late in all of them, and once.
            let pieces = last.is_some_and(|last: Late| *at < last.due);
            if ended > due + ON_TIME && !pieces {
                let by = ended.saturating_since(due);
                let late = Late { vcpu: vcpu.id, begin: *at, due, by };
                last = Some(late);
                self.late.push(late);
            }
        }
    }

    /// The late periods that `moved` fell into, of VCPUs on the two cores.
    pub(super) fn late_by<'a>(
        &'a self,
        story: &'a Story,
        moved: &'a Move,
    ) -> impl Iterator<Item = Late> + 'a {
        // Recolouring comes before, on the VCPU's own budget where it was, and delays no other.
        let within = |late: &Late| {
            moved.done.is_some_and(|done| late.begin <= done && done <= late.due + late.by)
        };
        let near = |late: &Late| {
            let core = story.core_of(late.vcpu, moved.ordered);
            late.vcpu == moved.vcpu || core == Some(moved.from) || core == Some(moved.to)
        };
        self.late.iter().copied().filter(move |late| within(late) && near(late))
    }
}

impl Life {
    /// Whether it had nothing to run at any instant between.
    fn was_blocked(&self, from: Instant, to: Instant) -> bool {
        self.blocked
            .iter()
            .any(|(since, until)| *since < to && until.is_none_or(|until| until > from))
    }
}

/// When a VCPU's foreground meter reached a reading; asked for growing readings.
struct Service<'a> {
    segments: std::slice::Iter<'a, Segment>,
    segment: Option<&'a Segment>,
    before: Duration,
}

impl<'a> Service<'a> {
    fn of(segments: &'a [Segment]) -> Self {
        let mut segments = segments.iter();
        let segment = segments.next();
        Self { segments, segment, before: Duration::ZERO }
    }
    /// `None` where it never does.
    fn reaches(&mut self, reading: Duration) -> Option<Instant> {
        while let Some(segment) = self.segment {
            let service = segment.usage.service;
            if self.before + service < reading {
                self.before += service;
                self.segment = self.segments.next();
                continue;
            }
            // It is spread evenly over the segment.
            let part = reading.saturating_sub(self.before).ticks();
            let length = (segment.to - segment.from).ticks();
            let gone = u128::from(length) * u128::from(part) / u128::from(service.ticks().max(1));
            return Some(segment.from + Duration::from_ticks(gone as u64));
        }
        None
    }
}

impl Story {
    /// Where a VCPU ran last before `at`, or first after.
    pub(super) fn core_of(&self, vcpu: VcpuId, at: Instant) -> Option<CoreId> {
        let life = self.lives.get(&vcpu)?;
        let all = || life.foreground.iter().chain(&life.background);
        let before = all().filter(|segment| segment.from < at).max_by_key(|segment| segment.from);
        before.or_else(|| all().min_by_key(|segment| segment.from)).map(|segment| segment.core)
    }

    /// The part of a core that each VCPU on `core` had of its surplus time within a window, in the
    /// mean; those that left before its end or came there within do not count.
    pub(super) fn surplus(&self, core: CoreId, from: Instant, to: Instant) -> Option<f64> {
        let stays = |vcpu: &&Vcpu| {
            let left = self.lives.get(&vcpu.id).and_then(|life| life.left);
            let here = |at| self.core_of(vcpu.id, at) == Some(core);
            left.is_none_or(|left| left > to) && here(from) && here(to)
        };
        let each: Vec<f64> = self
            .vcpus()
            .filter(stays)
            .filter_map(|vcpu| Some(self.lives.get(&vcpu.id)?.took(Mode::Background, from, to)))
            .collect();
        let length = to.saturating_since(from).ticks() as f64;
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64 / length)
    }

    /// SPV, the slack per VCPU of section V.A, by the reservations of those that are there at
    /// `there`, if they stood where they did at `placed`.
    pub(super) fn spv(&self, core: CoreId, there: Instant, placed: Instant) -> f64 {
        Load::of(self.rates(core, there, placed)).spv()
    }

    /// Whether one of those on the core with less slack per VCPU could make it more even by going
    /// to the other one, as [`Self::spv`] sees them: where not, there is nothing to move.
    pub(super) fn could_even(&self, there: Instant, placed: Instant) -> bool {
        let [one, other] = super::CORES.map(|core| {
            let rates: Vec<f64> = self.rates(core, there, placed).collect();
            (Load::of(rates.iter().copied()), rates)
        });
        let (full, other) = if one.0.spv() < other.0.spv() { (one, other) } else { (other, one) };
        let gap = |full: Load, other: Load| (other.spv() - full.spv()).abs();
        let evens = |rate: &f64| gap(full.0.with(-1.0, -rate), other.0.with(1.0, *rate));
        full.1.len() > 1 && full.1.iter().any(|rate| evens(rate) < gap(full.0, other.0))
    }

    /// What those ask for that are on a core, as [`Self::spv`] sees them.
    fn rates(&self, core: CoreId, there: Instant, placed: Instant) -> impl Iterator<Item = f64> {
        let is_there = move |vcpu: &&Vcpu| {
            let left = self.lives.get(&vcpu.id).and_then(|life| life.left);
            left.is_none_or(|left| left > there) && self.core_of(vcpu.id, placed) == Some(core)
        };
        self.vcpus().filter(is_there).map(|vcpu| {
            vcpu.reservation.budget.ticks() as f64 / vcpu.reservation.period.ticks() as f64
        })
    }
}

/// What the VCPUs of a core ask for together: how many, and which part of it.
#[derive(Clone, Copy)]
struct Load {
    count: f64,
    sum: f64,
}

impl Load {
    fn of(rates: impl Iterator<Item = f64>) -> Self {
        rates.fold(Self { count: 0.0, sum: 0.0 }, |load, rate| load.with(1.0, rate))
    }
    fn with(self, count: f64, sum: f64) -> Self {
        Self { count: self.count + count, sum: self.sum + sum }
    }
    fn spv(self) -> f64 {
        (1.0 - self.sum) / self.count
    }
}

impl Life {
    /// Its service of a mode within a window, in ticks.
    fn took(&self, mode: Mode, from: Instant, to: Instant) -> f64 {
        let segments = match mode {
            Mode::Foreground => &self.foreground,
            Mode::Background => &self.background,
        };
        let part = |segment: &Segment| {
            let within = segment.to.min(to).saturating_since(segment.from.max(from)).ticks();
            let length = segment.to.saturating_since(segment.from).ticks();
            let service = segment.usage.service.ticks() as f64;
            if length == 0 { 0.0 } else { service * within as f64 / length as f64 }
        };
        segments.iter().map(part).sum()
    }
}
