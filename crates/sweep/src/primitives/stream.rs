//! What a policy was given and asked in one simulated run.

use maracas_core::admission::Verdict;
use maracas_core::contract::{End, Entry, Event, Observer, Segment};
use maracas_core::journal::{PlanHash, Replay};
use maracas_core::params::Params;
use maracas_core::{CoreSet, Instant, Plan, Policy, Program, System};
use maracas_sim::Options;
use std::fmt;

/// Why the policy was asked, by the most telling of the events since the last time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// At least one job was released.
    Release,
    /// A job completed, and none was released.
    Completion,
    /// The wake that the policy asked for, or a limit that was reached: a budget is spent or a
    /// window ends.
    Timer,
    /// Only segments that the plan before ended: what was preempted or moved is reported to the
    /// policy.
    Switch,
}

/// One thing that a policy is made to do: learn of an event, or decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Learns that a job was released.
    Release,
    /// Learns that a job completed.
    Completion,
    /// Learns that a segment ended.
    Segment,
    /// Learns anything else.
    Other,
    /// Decides.
    Decide {
        /// Why.
        cause: Cause,
        /// Whether the reduction tree was updated in it.
        updates_tree: bool,
    },
}

impl Step {
    const fn of(event: &Event) -> Self {
        match event {
            Event::Released(_) => Self::Release,
            Event::Completed(_) => Self::Completion,
            Event::Ran(_) => Self::Segment,
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => Self::Other,
        }
    }
}

/// The events since the last decision, and then one decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// The events that the policy gets, with the instants at which they happened.
    pub events: &'a [(Instant, Event)],
    /// When it is asked.
    pub now: Instant,
    /// Why.
    pub cause: Cause,
    /// Whether RUN's tree is updated: its figure "tree updates" rises.
    pub updates_tree: bool,
    /// The cores whose run queue changes.
    pub dirty: CoreSet,
    /// When the policy wants to be asked again.
    pub wake: Instant,
}

impl Call<'_> {
    /// What the policy does, in order: it learns of every event, then decides.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let decide = Step::Decide { cause: self.cause, updates_tree: self.updates_tree };
        self.events.iter().map(|(_, event)| Step::of(event)).chain([decide])
    }
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Where its events end among all.
    end: usize,
    now: Instant,
    cause: Cause,
    updates_tree: bool,
    dirty: CoreSet,
    wake: Instant,
    /// Of the whole plan afterwards, as journals have it.
    hash: u64,
}

/// What a policy was given and asked in one run, in order.
#[derive(Clone, Default, Debug)]
pub struct Stream {
    events: Vec<(Instant, Event)>,
    asked: Vec<Asked>,
    hash: PlanHash,
}

impl Stream {
    /// The calls in order.
    pub fn calls(&self) -> impl Iterator<Item = Call<'_>> {
        let mut from = 0;
        self.asked.iter().map(move |asked| {
            let events = &self.events[from..asked.end];
            from = asked.end;
            let Asked { now, cause, updates_tree, dirty, wake, .. } = *asked;
            Call { events, now, cause, updates_tree, dirty, wake }
        })
    }
    /// All steps in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.calls().flat_map(|call| call.steps().collect::<Vec<_>>())
    }
    /// How many jobs were released.
    pub fn jobs(&self) -> u64 {
        self.steps().filter(|step| *step == Step::Release).count() as u64
    }

    /// Runs the stream again on a policy that was built anew, holds every plan against the
    /// recorded one, and notes where the reduction tree was updated.
    fn attend(&mut self, policy: &mut dyn Policy, cores: usize) -> Result<(), Unlike> {
        let (mut from, mut updates) = (0, tree_updates(policy));
        let mut replay = Replay::new(policy, cores);
        for asked in &mut self.asked {
            for (at, event) in &self.events[from..asked.end] {
                replay.event(*at, event);
            }
            from = asked.end;
            if replay.decide(asked.now) != asked.hash {
                return Err(Unlike::Replay(asked.now));
            }
            let before = std::mem::replace(&mut updates, tree_updates(replay.policy()));
            asked.updates_tree = updates > before;
        }
        Ok(())
    }
}

/// How often the policy says that it updated a reduction tree.
fn tree_updates(policy: &dyn Policy) -> u64 {
    let statistics = policy.statistics();
    statistics
        .iter()
        .find(|statistic| statistic.name == "tree updates")
        .map_or(0, |statistic| statistic.value)
}

impl Observer for Stream {
    fn event(&mut self, at: Instant, event: &Event) {
        self.events.push((at, event.clone()));
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        let from = self.asked.last().map_or(0, |asked| asked.end);
        let cause = cause(&self.events[from..]);
        let (end, hash) = (self.events.len(), self.hash.update(plan));
        let (dirty, wake) = (*plan.dirty(), plan.wake);
        self.asked.push(Asked { end, now, cause, updates_tree: false, dirty, wake, hash });
    }
}

fn cause(events: &[(Instant, Event)]) -> Cause {
    let any = |reported: fn(&Event) -> bool| events.iter().any(|(_, event)| reported(event));
    if any(|event| matches!(event, Event::Released(_))) {
        Cause::Release
    } else if any(|event| matches!(event, Event::Completed(_))) {
        Cause::Completion
    } else if events.is_empty()
        || any(|event| matches!(event, Event::Ran(segment) if timed(segment)))
    {
        Cause::Timer
    } else {
        Cause::Switch
    }
}

/// Whether a timer ended or read the segment.
pub(super) const fn timed(segment: &Segment) -> bool {
    match segment.end {
        End::LimitReached | End::Metered => true,
        End::Blocked | End::Preempted | End::MemorySpent | End::Moved | End::Exited => false,
    }
}

/// Why there is no stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unlike {
    /// The policy does not admit the system.
    Refused(Box<Verdict>),
    /// The policy, built anew and given the same, decided otherwise at this instant: it is not a
    /// pure value, and its times would mean nothing.
    Replay(Instant),
}

impl fmt::Display for Unlike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(verdict) => match (verdict.objections.first(), verdict.refused.first()) {
                (Some(why), _) => write!(f, "{why}"),
                (None, Some((_, refused))) => write!(f, "{refused}"),
                (None, None) => f.write_str("the system is not admitted"),
            },
            Self::Replay(at) => {
                write!(f, "the policy decides otherwise at {at} when given the same")
            }
        }
    }
}

/// Simulates `programs` on `system` under the policy up to `until`, and keeps what the policy is
/// given and asked. Events after the last decision are left out.
///
/// # Errors
/// Where the policy refuses the system, or is not the same twice.
pub fn record(
    system: &System,
    programs: &[Program],
    entry: &Entry,
    params: &Params,
    until: Instant,
) -> Result<Stream, Unlike> {
    let build =
        || (entry.build)(system, params).map_err(|verdict| Unlike::Refused(Box::new(verdict)));
    let mut stream = Stream::default();
    let mut policy = build()?;
    let options = Options::new(until);
    _ = maracas_sim::run(system, programs, policy.as_mut(), &options, &mut stream);
    let reported = stream.asked.last().map_or(0, |asked| asked.end);
    stream.events.truncate(reported);
    stream.attend(build()?.as_mut(), system.cores.len())?;
    Ok(stream)
}
