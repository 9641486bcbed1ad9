//! Repeats a live test where the host itself kept a core from everything, with an independent
//! witness of that. Included by path, as it belongs to no crate.
//!
//! A hypervisor may stop a core for tens of milliseconds and say nothing of it: what it reports as
//! stolen is only part of that on some hosts. No scheduler keeps a budget meanwhile. So one thread
//! a core, above all agents, sleeps for [`SLEEP`] again and again and adds up by how much it woke
//! too late. A test that failed while a core was lost in this way is repeated, [`TRIES`] runs in
//! all; a test that fails undisturbed, or in every run, has failed. Repeats are said and counted
//! as skips are.
#![allow(dead_code, reason = "every test binary uses its part")]

use maracas_live::host::platform::Platform;
use maracas_live::host::{HardwareCore, sched};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fmt};

/// Runs of a test at most.
const TRIES: u32 = 3;
/// How long the witness sleeps: a third of what it is to notice, and rare enough to cost the agents
/// half a percent of a core at 20 us a wake.
const SLEEP: Duration = Duration::from_millis(4);
/// A lateness of the witness that no scheduler can make up for within a period of the tests.
const STALL: Duration = Duration::from_millis(8);
/// The part of a run, one in so many, that may be lost to smaller ones.
const LOST_PART: u32 = 100;
/// A witness that is later than this notes it: less is what waking costs.
const LATE: Duration = Duration::from_millis(1);
/// The file, named by this variable, to which every repeat adds a line. `cargo xtask ci` names it.
const SKIPS: &str = "MARACAS_SKIPS";

/// Runs `test`; again where it failed and the host was at fault.
pub(crate) fn repeated(test: impl Fn()) {
    repeat(|| witnessed(|| catch_unwind(AssertUnwindSafe(&test))), say);
}

fn repeat(run: impl Fn() -> (thread::Result<()>, Lost), say: impl Fn(&Lost)) {
    for left in (0..TRIES).rev() {
        let (result, lost) = run();
        let Err(panic) = result else { return };
        if left == 0 || !lost.is_disturbance() {
            resume_unwind(panic);
        }
        say(&lost);
    }
}

/// What `run` gives, of the first run that the host did not disturb, or of the one that it
/// disturbed least: for a run that several tests judge.
pub(crate) fn undisturbed<T>(run: impl Fn() -> T) -> T {
    let (mut best, mut least) = witnessed(&run);
    for _ in 1..TRIES {
        if !least.is_disturbance() {
            break;
        }
        say(&least);
        let (result, lost) = witnessed(&run);
        if lost.sum < least.sum {
            (best, least) = (result, lost);
        }
    }
    best
}

/// What was lost of the core that lost most.
#[derive(Clone, Copy, Default, Debug)]
struct Lost {
    longest: Duration,
    sum: Duration,
    of: Duration,
}

impl Lost {
    fn is_disturbance(&self) -> bool {
        self.longest >= STALL || self.sum * LOST_PART > self.of
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { longest, sum, of } = self;
        write!(f, "a core was lost for {sum:?} of {of:?}, for {longest:?} at once")
    }
}

/// Says that the test is repeated, past the test harness, and counts it.
fn say(lost: &Lost) {
    let test = thread::current().name().unwrap_or("a test").to_string();
    let _ = io::stderr().write_all(format!("repeated: {test}: {lost}\n").as_bytes());
    if let Some(path) = env::var_os(SKIPS) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let line = b"repeated: a core was lost to the host meanwhile\n";
        let written = file.and_then(|mut file| file.write_all(line));
        written.unwrap_or_else(|error| panic!("{SKIPS}: {}: {error}", path.display()));
    }
}

/// Runs it with a witness on every core. Where none may be raised, nothing is known to be lost.
fn witnessed<T>(run: impl FnOnce() -> T) -> (T, Lost) {
    let over = Arc::new(AtomicBool::new(false));
    let cores = Platform::detect().map(|platform| platform.cores).unwrap_or_default();
    let start = |core: &HardwareCore| {
        let (core, over) = (*core, Arc::clone(&over));
        thread::spawn(move || watch(core, &over))
    };
    let witnesses: Vec<JoinHandle<Lost>> = cores.iter().map(start).collect();
    let result = run();
    over.store(true, Ordering::Release);
    let lost = witnesses.into_iter().map(|it| it.join().unwrap_or_default());
    (result, lost.max_by_key(|lost| (lost.sum, lost.longest)).unwrap_or_default())
}

/// Sleeps on `core` until all is over.
fn watch(core: HardwareCore, over: &AtomicBool) -> Lost {
    let raised = sched::set_affinity(0, core).and_then(|()| sched::set_fifo(0, 99, true));
    let (begun, mut lost) = (Instant::now(), Lost::default());
    while raised.is_ok() && !over.load(Ordering::Acquire) {
        let asleep = Instant::now();
        thread::sleep(SLEEP);
        let late = asleep.elapsed().saturating_sub(SLEEP);
        if late > LATE {
            lost.sum += late;
            lost.longest = lost.longest.max(late);
        }
    }
    lost.of = begun.elapsed();
    lost
}

#[test]
fn only_what_the_host_took_is_a_disturbance() {
    let ms = Duration::from_millis;
    let is =
        |longest, sum, of| Lost { longest: ms(longest), sum: ms(sum), of: ms(of) }.is_disturbance();
    assert!(!is(0, 0, 1000) && !is(7, 10, 1000));
    assert!(is(8, 8, 10_000) && is(2, 11, 1000));
}

#[test]
fn only_what_fails_disturbed_is_repeated() {
    // How many runs of three it takes, of which the first so many fail.
    let runs_of = |fail: u32, sum_ms: u64| {
        let runs = std::cell::Cell::new(0);
        let lost = Lost {
            sum: Duration::from_millis(sum_ms),
            of: Duration::from_secs(1),
            ..Lost::default()
        };
        let run = || {
            runs.set(runs.get() + 1);
            (if runs.get() > fail { Ok(()) } else { Err(Box::new("failed") as _) }, lost)
        };
        let result = catch_unwind(AssertUnwindSafe(|| repeat(run, |_| ())));
        (runs.get(), result.is_ok())
    };
    assert_eq!(runs_of(0, 100), (1, true));
    assert_eq!(runs_of(1, 0), (1, false), "the host was not at fault");
    assert_eq!(runs_of(2, 100), (3, true));
    assert_eq!(runs_of(3, 100), (3, false), "each time");
}
