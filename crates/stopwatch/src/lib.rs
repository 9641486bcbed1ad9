//! Clocks around each step of a policy: with warm caches, and with cold ones.
//!
//! A room of its own since it measures nanoseconds: it is compiled with all optimization, while
//! what draws the sets and prints the tables (`maracas bench primitives`) is compiled with none.

#![forbid(unsafe_code)]

use maracas_core::Policy;
use maracas_sweep::primitives::replay::Time;
use maracas_sweep::primitives::{Step, Stopwatch, Stream, Summary, replay, steady};
use std::fs;
use std::hint::black_box;
use std::mem::discriminant;
use std::time::Instant;

/// The clock of this process, and what reading it costs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    /// Time between two readings with nothing in between, in nanoseconds.
    pub cost: u32,
    /// In what steps it goes, in nanoseconds.
    pub resolution: u32,
}

impl Clock {
    /// Times nothing at all, many times in `repetitions` runs as streams are timed.
    pub fn calibrate(repetitions: usize) -> Self {
        let mut clock = Self { origin: Instant::now(), cost: 0, resolution: 0 };
        let run = |_| (0..20_000).map(|_| clock.empty()).collect::<Vec<_>>();
        let runs: Vec<_> = (0..repetitions).map(run).collect();
        let summary = Summary::of(steady(&runs).into_iter().flatten().collect());
        clock.cost = summary.map_or(0, |summary| summary.mean.round() as u32);
        clock.resolution = grain(runs.into_iter().flatten().flatten().collect());
        clock
    }

    /// Times every step of `stream`, run again on `policy`, as [`replay()`] says.
    ///
    /// # Panics
    /// Where the policy does not decide as it did when the stream was recorded.
    pub fn times(mut self, stream: &Stream, policy: &mut dyn Policy, cores: usize) -> Vec<Time> {
        replay(stream, policy, cores, &mut self)
    }

    fn empty(&self) -> Option<u32> {
        let from = self.read();
        black_box(());
        u32::try_from(self.read() - from).ok()
    }

    #[inline]
    fn read(&self) -> u64 {
        // 584 years of nanoseconds fit.
        self.origin.elapsed().as_nanos() as u64
    }
}

/// Times every step, right after the one before.
impl Stopwatch for Clock {
    #[inline]
    fn prepare(&mut self, _: Step) -> bool {
        true
    }
    #[inline]
    fn read(&mut self) -> u64 {
        Self::read(self)
    }
}

/// What a cold clock warms down before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colder {
    /// Single steps, up to about so many of each kind.
    Steps(usize),
    /// Whole calls, up to about so many: their first step comes cold, the others after it.
    Calls(usize),
}

/// Times some steps or calls, evenly spread, each after the caches were filled with something else.
#[derive(Debug)]
pub struct Cold {
    clock: Clock,
    buffer: Vec<u64>,
    whole_calls: bool,
    kinds: Vec<Kind>,
    /// Whether the call under way is timed.
    timing: bool,
    /// Whether the step before was a decision, so that a call begins.
    begins: bool,
}

/// Steps that are alike: all decisions are, so that their times are those of a fair sample.
#[derive(Debug)]
struct Kind {
    step: Step,
    /// One of so many is timed.
    stride: usize,
    seen: usize,
}

impl Kind {
    fn holds(&self, step: Step) -> bool {
        discriminant(&self.step) == discriminant(&step)
    }
}

impl Cold {
    /// Will time some of `steps`.
    pub fn new(clock: Clock, steps: &[Step], colder: Colder) -> Self {
        let (whole_calls, most) = match colder {
            Colder::Steps(most) => (false, most),
            Colder::Calls(most) => (true, most),
        };
        let mut kinds: Vec<Kind> = Vec::new();
        // A call is counted by its decision.
        let counted = |step: &&Step| !whole_calls || matches!(step, Step::Decide { .. });
        for step in steps.iter().filter(counted) {
            match kinds.iter_mut().find(|kind| kind.holds(*step)) {
                Some(kind) => kind.seen += 1,
                None => kinds.push(Kind { step: *step, stride: 1, seen: 1 }),
            }
        }
        for kind in &mut kinds {
            kind.stride = kind.seen.div_ceil(most.max(1));
            kind.seen = 0;
        }
        let buffer = vec![0; walked_bytes() / size_of::<u64>()];
        Self { clock, buffer, whole_calls, kinds, timing: false, begins: true }
    }

    /// Times some steps of `stream`, run again on `policy`, as [`replay()`] says.
    ///
    /// # Panics
    /// Where the policy does not decide as it did when the stream was recorded.
    pub fn times(&mut self, stream: &Stream, policy: &mut dyn Policy, cores: usize) -> Vec<Time> {
        replay(stream, policy, cores, self)
    }

    /// Whether it is the turn of such a step, or of the call that begins with it.
    fn due(&mut self, step: Step) -> bool {
        let whole_calls = self.whole_calls;
        let Some(kind) = self.kinds.iter_mut().find(|kind| whole_calls || kind.holds(step)) else {
            return false;
        };
        kind.seen += 1;
        kind.seen.is_multiple_of(kind.stride)
    }

    /// Writes to every line of the buffer, so that what was cached goes.
    fn evict(&mut self) {
        // 64 bytes a line on all machines that we know.
        for word in self.buffer.iter_mut().step_by(8) {
            *word += 1;
        }
        black_box(&mut self.buffer);
    }
}

impl Stopwatch for Cold {
    fn prepare(&mut self, step: Step) -> bool {
        let first = std::mem::replace(&mut self.begins, matches!(step, Step::Decide { .. }));
        if self.whole_calls && !first {
            return self.timing;
        }
        self.timing = self.due(step);
        if self.timing {
            self.evict();
        }
        self.timing
    }
    #[inline]
    fn read(&mut self) -> u64 {
        self.clock.read()
    }
}

/// The difference of the two times that are read most often: a clock that goes in steps of 10 ns
/// shows a time of 23 ns as 20 or as 30.
fn grain(mut times: Vec<u32>) -> u32 {
    times.sort_unstable();
    let mut counts: Vec<(usize, u32)> =
        times.chunk_by(|a, b| a == b).map(|equal| (equal.len(), equal[0])).collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    match counts.as_slice() {
        [(_, first), (_, second), ..] => first.abs_diff(*second),
        [] | [_] => 1,
    }
}

/// What is walked through to empty the second-level cache: twice its size, where 2 MiB stand for
/// a size that the kernel does not say.
pub fn walked_bytes() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
    let size = text.ok().and_then(|text| text.trim().strip_suffix('K')?.parse::<usize>().ok());
    2 * size.map_or(2 << 20, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_sweep::primitives::Cause;

    const DECIDE: Step = Step::Decide { cause: Cause::Release, updates_tree: false };

    fn chosen(steps: &[Step], colder: Colder) -> Vec<bool> {
        let mut watch = Cold::new(Clock::calibrate(1), steps, colder);
        steps.iter().map(|step| watch.prepare(*step)).collect()
    }

    #[test]
    fn some_of_each_kind_are_timed_or_whole_calls() {
        let call = [Step::Release, Step::Release, DECIDE];
        let steps = [call, call].concat();
        // Four releases: every second one; two decisions: both.
        let single = chosen(&steps, Colder::Steps(2));
        assert_eq!(single, [false, true, true, false, true, true]);
        let whole = chosen(&steps, Colder::Calls(1));
        assert_eq!(whole, [false, false, false, true, true, true]);
    }

    #[test]
    fn the_grain_of_a_clock_is_seen() {
        assert_eq!(grain(vec![20, 30, 20, 30, 20, 4711, 4712]), 10);
        assert_eq!(grain(vec![21, 22, 21]), 1);
        assert_eq!(grain(vec![5]), 1);
    }
}
