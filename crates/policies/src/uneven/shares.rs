//! Shares of fast and slow cores in integers: what every rule of this folder works with.

/// Parts into which one core's time is cut for each thread: lcm(1..=16) = 720720, so that the
/// fractions that people write are whole, times 64 for the others.
pub(super) const UNIT: u64 = 720_720 * 64;

/// How many threads share how many cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// n.
    pub(crate) threads: u64,
    /// Fast cores that can be taken: N_f, at most n.
    pub(crate) fast: u64,
    /// Slow cores that can be taken: N_s, at most n - `fast`.
    pub(crate) slow: u64,
}

impl Places {
    /// `threads` threads on so many fast and slow cores.
    pub(crate) fn new(threads: usize, fast_cores: usize, slow_cores: usize) -> Self {
        let threads = threads as u64;
        let fast = threads.min(fast_cores as u64);
        Self { threads, fast, slow: (threads - fast).min(slow_cores as u64) }
    }
    /// A share of one: a whole core all the time.
    pub(crate) const fn whole(self) -> u64 {
        self.threads * UNIT
    }
    /// The share of all cores that each thread has, c: at most one.
    pub(crate) const fn each(self) -> u64 {
        (self.fast + self.slow) * UNIT
    }
    /// The share of fast cores that each thread has where all have the same, N_f / n.
    pub(crate) const fn even(self) -> u64 {
        self.fast * UNIT
    }
}

/// How much faster a thread runs on a fast core: a ratio of two speeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Speedup {
    /// Instructions per second on a fast core; never less than `slow`.
    pub(crate) fast: u64,
    /// The same on a slow core; never 0.
    pub(crate) slow: u64,
}
