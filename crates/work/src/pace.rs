//! How work proceeds: passes in one or more threads, a look at the clock after each pass, a
//! progress line now and then, and an end at SIGTERM.
//!
//! The first thread both works and reports, so that a VCPU with this work has no extra thread
//! whose wakes would disturb what is measured.

use super::Common;
use maracas_console::failure::Failure;
use maracas_console::output;
use maracas_console::signals::stop_flag;
use maracas_core::Duration;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Work that is done in passes of roughly 0.1 to 10 ms each.
pub(super) trait Kernel {
    /// Does one pass and returns how many iterations it was.
    fn pass(&mut self) -> u64;
    /// What else a line says; of the first thread's kernel.
    fn extra(&self) -> Extra {
        Extra::new()
    }
}

/// One thread's count on a cache line of its own, so that counting disturbs no other thread.
#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

impl Count {
    /// Adds the iterations of a pass, for the progress lines and for the runtime.
    fn add(&self, done: u64) {
        self.0.fetch_add(done, Ordering::Relaxed);
        maracas_client::progress(done);
    }
}

/// Runs one kernel per thread until the end.
pub(super) fn drive<K: Kernel>(
    name: &'static str,
    threads: u32,
    common: &Common,
    make: impl Fn(u32) -> K + Sync,
) -> Result<(), Failure> {
    let stop = stop_flag()?;
    let counts: Vec<Count> = (0..threads).map(|_| Count::default()).collect();
    let sum = || counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum();
    std::thread::scope(|scope| {
        for (index, count) in counts.iter().enumerate().skip(1) {
            let (make, stop) = (&make, &stop);
            std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn_scoped(scope, move || {
                    let mut kernel = make(index as u32);
                    while !stop.load(Ordering::Relaxed) {
                        count.add(kernel.pass());
                    }
                })
                .inspect_err(|_| stop.store(true, Ordering::Relaxed))
                .map_err(|error| Failure::about("a thread cannot be started", error))?;
        }
        let mut kernel = make(0);
        let mut progress = Progress::new(name, common);
        let result = loop {
            counts[0].add(kernel.pass());
            let result = progress.look(sum, || kernel.extra());
            if result.is_err() || progress.over() || stop.load(Ordering::Relaxed) {
                break result;
            }
        };
        stop.store(true, Ordering::Relaxed);
        result.and_then(|()| progress.last(sum(), kernel.extra()))
    })
}

/// CPU time of this process so far, in nanoseconds.
fn process_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Further numbers of a progress line, by name.
pub(super) type Extra = Vec<(&'static str, Value)>;

/// Prints progress lines.
pub(super) struct Progress {
    name: &'static str,
    start: Instant,
    now: Instant,
    next: Instant,
    every: std::time::Duration,
    end: Option<Instant>,
    json: bool,
    quiet: bool,
    previous: (Instant, u64, u64),
}

impl Progress {
    pub(super) fn new(name: &'static str, common: &Common) -> Self {
        let now = Instant::now();
        let every = std_duration(common.report);
        Self {
            name,
            start: now,
            now,
            next: now + every,
            every,
            end: common.duration.and_then(|duration| now.checked_add(std_duration(duration))),
            json: common.json,
            quiet: common.quiet,
            previous: (now, 0, process_cpu_ns()),
        }
    }

    /// Looks at the clock and prints a line where one is due.
    pub(super) fn look(
        &mut self,
        count: impl Fn() -> u64,
        extra: impl Fn() -> Extra,
    ) -> Result<(), Failure> {
        self.now = Instant::now();
        if self.now < self.next {
            return Ok(());
        }
        // From the schedule, not from now: a late line does not delay those that follow.
        while self.next <= self.now {
            self.next += self.every;
        }
        let (before, count_before, cpu_before) = self.previous;
        let (count, cpu) = (count(), process_cpu_ns());
        self.previous = (self.now, count, cpu);
        if self.quiet {
            return Ok(());
        }
        let took = self.now.duration_since(before);
        self.line("progress", count, count - count_before, took, cpu - cpu_before, extra())
    }

    /// Whether the asked-for duration has passed.
    pub(super) fn over(&self) -> bool {
        self.end.is_some_and(|end| self.now >= end)
    }

    /// Prints the sum of everything.
    pub(super) fn last(&self, count: u64, extra: Extra) -> Result<(), Failure> {
        let took = self.start.elapsed();
        self.line("total", count, count, took, process_cpu_ns(), extra)
    }

    fn line(
        &self,
        kind: &str,
        count: u64,
        done: u64,
        took: std::time::Duration,
        cpu_ns: u64,
        extra: Extra,
    ) -> Result<(), Failure> {
        let elapsed_s = self.start.elapsed().as_secs_f64();
        let per_second = done as f64 / took.as_secs_f64().max(1e-9);
        let cpu_s = cpu_ns as f64 / 1e9;
        // Per second of CPU time: what interference slows down, whatever the budget was.
        let per_cpu_second = done as f64 / cpu_s.max(1e-9);
        if self.json {
            let mut object = Map::new();
            object.insert("work".into(), self.name.into());
            object.insert("kind".into(), kind.into());
            object.insert("elapsed_s".into(), rounded(elapsed_s));
            object.insert("iterations".into(), count.into());
            object.insert("per_second".into(), rounded(per_second));
            object.insert("per_cpu_second".into(), rounded(per_cpu_second));
            object.insert("cpu_s".into(), rounded(cpu_s));
            object.extend(extra.into_iter().map(|(name, value)| (name.to_string(), value)));
            return output::line(&Value::Object(object).to_string());
        }
        let mut text = format!(
            "{} {kind} at {elapsed_s:.3}s: {count} iterations, {per_second:.0}/s, \
             {per_cpu_second:.0} per CPU second, {cpu_s:.3}s of CPU time",
            self.name
        );
        for (name, value) in extra {
            text.push_str(&format!(", {name} {value}"));
        }
        output::line(&text)
    }
}

/// A number to six decimals: more would only be noise.
pub(super) fn rounded(number: f64) -> Value {
    Value::from((number * 1e6).round() / 1e6)
}

/// The standard library's duration of the same length.
pub(super) fn std_duration(duration: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(duration.ticks())
}
