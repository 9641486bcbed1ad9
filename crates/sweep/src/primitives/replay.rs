//! Running a recorded stream again, step by step, with a clock of the caller's around each step.

use super::stream::{Step, Stream};
use maracas_core::contract::decide;
use maracas_core::{Plan, Policy};

/// A clock, and what is to be done before a step is timed.
pub trait Stopwatch {
    /// Called before each step, outside the time taken; whether the step is to be timed.
    fn prepare(&mut self, step: Step) -> bool;
    /// The reading, in nanoseconds from any origin.
    fn read(&mut self) -> u64;
}

/// What a step took as the stopwatch read it; `None` where it was not timed.
pub type Time = Option<u32>;

/// Runs `stream` again on `policy`, which was built anew as for the recording. Returns the time of
/// every step, in order.
///
/// # Panics
/// Where the plans are not the recorded ones by their wakes and their dirty cores; whole plans were
/// compared when the stream was recorded.
pub fn replay(
    stream: &Stream,
    policy: &mut dyn Policy,
    cores: usize,
    watch: &mut impl Stopwatch,
) -> Vec<Time> {
    let mut plan = Plan::new(cores);
    let mut times = Vec::with_capacity(stream.steps().count());
    for call in stream.calls() {
        let mut steps = call.steps();
        for (at, event) in call.events {
            let step = steps.next().unwrap_or(Step::Other);
            times.push(timed(watch, step, || policy.on_event(*at, event)));
        }
        let step = steps.next().unwrap_or(Step::Other);
        times.push(timed(watch, step, || decide(policy, call.now, &mut plan)));
        assert_eq!(
            (*plan.dirty(), plan.wake),
            (call.dirty, call.wake),
            "the plan at {} is not the recorded one",
            call.now
        );
    }
    times
}

#[inline]
fn timed(watch: &mut impl Stopwatch, step: Step, act: impl FnOnce()) -> Time {
    if !watch.prepare(step) {
        act();
        return None;
    }
    let from = watch.read();
    act();
    let to = watch.read();
    Some(u32::try_from(to - from).unwrap_or(u32::MAX))
}

/// What each step takes, from several runs of one stream: the mean of the middle half of its times,
/// rounded; of three runs the median. What interrupts and the host add to one run is gone, and
/// where the clock ticks coarsely, the mean over runs that began at different places of a tick
/// sees finer than one does. A step must be timed in all runs or none.
///
/// # Panics
/// Where the runs are not of one stream.
pub fn steady(runs: &[Vec<Time>]) -> Vec<Time> {
    let steps = runs.first().map_or(0, Vec::len);
    assert!(runs.iter().all(|run| run.len() == steps), "runs of different streams");
    let mut of_one = Vec::with_capacity(runs.len());
    (0..steps)
        .map(|step| {
            of_one.clear();
            of_one.extend(runs.iter().filter_map(|run| run[step]));
            of_one.sort_unstable();
            let cut = if of_one.len() < 3 { 0 } else { (of_one.len() / 4).max(1) };
            let kept = &of_one[cut..of_one.len() - cut];
            let (sum, count) = (kept.iter().map(|t| u64::from(*t)).sum::<u64>(), kept.len() as u64);
            // A mean of 32-bit numbers fits in 32 bits.
            (sum + count / 2).checked_div(count).map(|mean| mean as u32)
        })
        .collect()
}
