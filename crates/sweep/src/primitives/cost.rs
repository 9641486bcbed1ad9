//! What the measured times come to, primitive by primitive.

use super::replay::Time;
use super::stream::{Call, Cause, Step, Stream};

/// What is measured. Defined in one sentence each in `docs/overheads.md`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Primitive {
    /// The policy learns of one released job.
    Release,
    /// The policy learns of one completed job.
    Completion,
    /// The policy learns of one ended segment and what it used.
    Segment,
    /// The policy decides, for whatever reason.
    Schedule,
    /// The policy decides after releases.
    ScheduleRelease,
    /// The policy decides after completions.
    ScheduleCompletion,
    /// The policy decides because a budget is spent or a window ends.
    BudgetTimer,
    /// The policy decides after its own last plan ended segments.
    ScheduleSwitch,
    /// RUN decides and updates its tree on the way: part of the four above.
    TreeUpdate,
    /// One call in all: the policy learns of all its events and decides.
    Call,
}

impl Primitive {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Release,
        Self::Completion,
        Self::Segment,
        Self::Schedule,
        Self::ScheduleRelease,
        Self::ScheduleCompletion,
        Self::BudgetTimer,
        Self::ScheduleSwitch,
        Self::TreeUpdate,
        Self::Call,
    ];

    /// The word for tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Completion => "completion",
            Self::Segment => "segment",
            Self::Schedule => "schedule",
            Self::ScheduleRelease => "schedule-release",
            Self::ScheduleCompletion => "schedule-completion",
            Self::BudgetTimer => "budget-timer",
            Self::ScheduleSwitch => "schedule-switch",
            Self::TreeUpdate => "tree-update",
            Self::Call => "call",
        }
    }

    /// The decision that has this cause.
    pub const fn deciding(cause: Cause) -> Self {
        match cause {
            Cause::Release => Self::ScheduleRelease,
            Cause::Completion => Self::ScheduleCompletion,
            Cause::Timer => Self::BudgetTimer,
            Cause::Switch => Self::ScheduleSwitch,
        }
    }
}

/// Times by primitive, in nanoseconds.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    times: [Vec<u32>; Primitive::ALL.len()],
    /// How often each was done, timed or not.
    counts: [u64; Primitive::ALL.len()],
    jobs: u64,
}

impl Samples {
    /// Adds the times of all steps of one run of `stream`, each less `clock` for the clock itself.
    pub fn add_steps(&mut self, stream: &Stream, times: &[Time], clock: u32) {
        for (step, time) in stream.steps().zip(times) {
            let time = time.map(|time| time.saturating_sub(clock));
            self.jobs += u64::from(step == Step::Release);
            match step {
                Step::Release => self.push(Primitive::Release, time),
                Step::Completion => self.push(Primitive::Completion, time),
                Step::Segment => self.push(Primitive::Segment, time),
                Step::Other => {}
                Step::Decide { cause, updates_tree } => {
                    self.push(Primitive::Schedule, time);
                    self.push(Primitive::deciding(cause), time);
                    if updates_tree {
                        self.push(Primitive::TreeUpdate, time);
                    }
                }
            }
        }
    }

    /// Adds the times of the whole calls of one run, those of which all steps were timed.
    pub fn add_calls(&mut self, stream: &Stream, times: &[Time], clock: u32) {
        for time in call_times(stream, times, clock) {
            self.push(Primitive::Call, time);
        }
    }

    fn push(&mut self, primitive: Primitive, time: Time) {
        self.counts[primitive as usize] += 1;
        self.times[primitive as usize].extend(time);
    }

    /// What the times of `primitive` come to; `None` where there are none.
    pub fn summary(&self, primitive: Primitive) -> Option<Summary> {
        Summary::of(self.times[primitive as usize].clone())
    }
    /// How often `primitive` is done for each job released.
    pub fn per_job(&self, primitive: Primitive) -> f64 {
        self.counts[primitive as usize] as f64 / self.jobs.max(1) as f64
    }
}

/// The time of each call: the sum over its steps, each less `clock`.
pub fn call_times(stream: &Stream, times: &[Time], clock: u32) -> Vec<Time> {
    let mut rest = times;
    let of_call = |call: Call<'_>| {
        let (own, after) = rest.split_at_checked(call.events.len() + 1)?;
        rest = after;
        let less = |time: &Time| time.map(|time| time.saturating_sub(clock));
        own.iter().try_fold(0_u32, |sum, time| Some(sum.saturating_add(less(time)?)))
    };
    stream.calls().map(of_call).collect()
}

/// Some times in nanoseconds; percentiles by nearest rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// How many.
    pub samples: usize,
    /// The middle one.
    pub median: u32,
    /// The mean of those up to `p999`, which are what the papers keep.
    pub mean: f64,
    /// The 99th percentile.
    pub p99: u32,
    /// The 99.9th percentile: the largest that the papers keep.
    pub p999: u32,
    /// The largest of all.
    pub max: u32,
}

impl Summary {
    /// Of `times`; `None` where there are none.
    pub fn of(mut times: Vec<u32>) -> Option<Self> {
        times.sort_unstable();
        let max = *times.last()?;
        let rank = |per_mille: usize| (times.len() * per_mille).div_ceil(1000);
        let at = |per_mille| times[rank(per_mille) - 1];
        let kept = &times[..rank(999)];
        let sum: u64 = kept.iter().map(|time| u64::from(*time)).sum();
        Some(Self {
            samples: times.len(),
            median: at(500),
            mean: sum as f64 / kept.len() as f64,
            p99: at(990),
            p999: at(999),
            max,
        })
    }
}
