//! What locks around the scheduler would add: recorded calls queue for a lock that each holds as
//! long as its primitives take.
//!
//! A pure computation over nominal instants, so that jobs which are released together do compete.
//! A lock serves in the order of arrival; whatever holds it is not interrupted. It is a model:
//! cache lines that move between cores with the lock, and spinning itself, cost nothing here.

use super::cost::{Primitive, Samples, Summary};
use super::replay::Time;
use super::stream::{Call, Stream, timed};
use maracas_core::Event;

/// Which lock a caller takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lock(pub usize);

/// A VCPU needs a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// When, in nanoseconds.
    pub at: u64,
    /// Which.
    pub lock: Lock,
    /// For how long, in nanoseconds.
    pub cost: u64,
}

/// What each primitive takes, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Costs([u64; Primitive::ALL.len()]);

impl Costs {
    /// One number of each primitive's summary; 0 for what was never done.
    pub fn of(samples: &Samples, number: impl Fn(&Summary) -> u32) -> Self {
        Self(Primitive::ALL.map(|primitive| {
            samples.summary(primitive).map_or(0, |summary| u64::from(number(&summary)))
        }))
    }
    /// From a function, for computations by hand.
    pub fn from_fn(cost: impl Fn(Primitive) -> u64) -> Self {
        Self(Primitive::ALL.map(cost))
    }
    const fn get(&self, primitive: Primitive) -> u64 {
        self.0[primitive as usize]
    }
}

/// The VCPU that takes the lock in `stream`, in order, where each core acts for itself as in
/// LITMUS^RT:
/// * the releases of one instant are handled together, by one interrupt;
/// * every core on which a job completes calls the scheduler;
/// * so does every core whose task is stopped by a plan, and the one whose timer expires.
///
/// Each holds it for what its primitives take.
pub fn requests(stream: &Stream, lock: Lock, costs: &Costs) -> Vec<Request> {
    let mut requests = Vec::new();
    for call in stream.calls() {
        let at = call.now.ticks();
        requests.extend(callers(&call, costs).map(|cost| Request { at, lock, cost }));
    }
    requests
}

/// The same callers, where each call took its time of `calls`, of which every caller of that call
/// has an equal part: a hundred releases hold the lock longer than one.
pub fn measured_requests(stream: &Stream, lock: Lock, calls: &[Time]) -> Vec<Request> {
    let nothing = Costs::from_fn(|_| 0);
    let mut requests = Vec::new();
    for (call, time) in stream.calls().zip(calls) {
        let (at, time) = (call.now.ticks(), u64::from(time.unwrap_or(0)));
        let count = callers(&call, &nothing).count() as u64;
        let cost = |place| time * (place + 1) / count - time * place / count;
        requests.extend((0..count).map(|place| Request { at, lock, cost: cost(place) }));
    }
    requests
}

/// For how long each caller of one instant holds the lock.
fn callers<'a>(call: &'a Call<'_>, costs: &'a Costs) -> impl Iterator<Item = u64> + 'a {
    let events = || call.events.iter().map(|(_, event)| event);
    let releases = events().filter(|event| matches!(event, Event::Released(_))).count() as u64;
    let release = releases * costs.get(Primitive::Release) + costs.get(Primitive::ScheduleRelease);
    let expired = call.events.is_empty().then(|| costs.get(Primitive::BudgetTimer));
    let completes =
        move |vcpu| events().any(|event| matches!(event, Event::Completed(id) if id.vcpu == vcpu));
    let stops = move |vcpu| {
        events().any(|event| matches!(event, Event::Ran(segment) if segment.vcpu == vcpu))
    };
    let segment = costs.get(Primitive::Segment);
    let completion = costs.get(Primitive::Completion) + costs.get(Primitive::ScheduleCompletion);
    let on_cores = events().filter_map(move |event| match event {
        Event::Completed(id) => Some(completion + if stops(id.vcpu) { segment } else { 0 }),
        // Reported with its completion, under the same lock.
        Event::Ran(own) if completes(own.vcpu) => None,
        Event::Ran(own) if timed(own) => Some(segment + costs.get(Primitive::BudgetTimer)),
        Event::Ran(_) => Some(segment + costs.get(Primitive::ScheduleSwitch)),
        Event::Released(_)
        | Event::Woke { .. }
        | Event::AllowanceSpent { .. }
        | Event::Sampled(_)
        | Event::Utilized { .. }
        | Event::Arrived(_)
        | Event::Left(_)
        | Event::Changed(_)
        | Event::ServiceDone(_)
        | Event::Failed { .. } => None,
    });
    on_cores.chain((releases > 0).then_some(release)).chain(expired)
}

/// How long callers waited.
#[derive(Clone, PartialEq, Debug)]
pub struct Waits {
    /// How many callers there were.
    pub requests: usize,
    /// The part of them that had to wait at all.
    pub waited: f64,
    /// The mean wait in nanoseconds, those that did not wait included.
    pub mean: f64,
    /// The 99th percentile, in nanoseconds.
    pub p99: u64,
    /// The longest, in nanoseconds.
    pub max: u64,
    /// For how long each lock was held, in nanoseconds.
    pub held: Vec<u64>,
}

/// Lets `requests`, which are in order of time, queue for `locks` locks.
///
/// # Panics
/// Where a request names a lock beyond `locks`, or comes before the one before it.
pub fn queue(requests: &[Request], locks: usize) -> Waits {
    let (mut free, mut held) = (vec![0; locks], vec![0; locks]);
    let mut waits = Vec::with_capacity(requests.len());
    let mut last = 0;
    for &Request { at, lock: Lock(lock), cost } in requests {
        assert!(at >= last, "a request at {at} comes after one at {last}");
        last = at;
        let from = at.max(free[lock]);
        waits.push(from - at);
        free[lock] = from + cost;
        held[lock] += cost;
    }
    waits.sort_unstable();
    let count = waits.len().max(1) as f64;
    let waiting = waits.iter().filter(|wait| **wait > 0).count();
    let rank = (waits.len() * 99).div_ceil(100);
    Waits {
        requests: waits.len(),
        waited: waiting as f64 / count,
        mean: waits.iter().sum::<u64>() as f64 / count,
        p99: rank.checked_sub(1).map_or(0, |place| waits[place]),
        max: waits.last().copied().unwrap_or(0),
        held,
    }
}
