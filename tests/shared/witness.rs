//! Judges a live test by the median of its runs, with an independent witness of what the host took
//! meanwhile. Included by path, as it belongs to no crate.
//!
//! A hypervisor may stop a core for tens of milliseconds and say nothing of it: what it reports as
//! stolen is only part of that on some hosts. No scheduler keeps a budget meanwhile. So one thread
//! a core, above all agents, sleeps for [`SLEEP`] again and again and adds up by how much it woke
//! too late. A run that failed while a core was lost in this way counts for nothing, [`DISTURBED`]
//! of them at most. A test that failed undisturbed is run twice more, and both runs must succeed:
//! its median run does. What the witness does not see, as it sleeps most of the time, may spoil one
//! run of three; what the project does wrong more often than that has failed. Each repeat is said
//! and counted as skips are, the failed run of three by the test's name.
#![allow(dead_code, reason = "every test binary uses its part")]

use maracas_live::host::platform::Platform;
use maracas_live::host::{HardwareCore, sched};
use std::cell::Cell;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, fmt};

/// Of so many runs that the host disturbed the last one is judged as if it had not.
const DISTURBED: usize = 3;
/// Runs of a test at most: those disturbed but for the last, and three that are judged.
const RUNS: usize = DISTURBED - 1 + 3;
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

thread_local! {
    /// Which run of its test this thread is at.
    static RUN: Cell<usize> = const { Cell::new(0) };
    /// What was lost while the shared run was made that this one judges.
    static SHARED_LOST: Cell<Option<Lost>> = const { Cell::new(None) };
}

/// Runs `test`, and judges its median run. See the file's head.
pub(crate) fn repeated(test: impl Fn()) {
    let run = |number| {
        RUN.set(number);
        SHARED_LOST.set(None);
        let (result, lost) = witnessed(|| catch_unwind(AssertUnwindSafe(&test)));
        (result, SHARED_LOST.get().map_or(lost, |shared| lost.max(shared)))
    };
    repeat(run, say);
}

fn repeat(run: impl Fn(usize) -> (thread::Result<()>, Lost), say: impl Fn(&str, &str)) {
    let (mut disturbed, mut succeeded, mut failed) = (0, 0, 0);
    for number in 0..RUNS {
        let (result, lost) = run(number);
        match result {
            Ok(()) => succeeded += 1,
            Err(panic) if lost.is_disturbance() => {
                disturbed += 1;
                if disturbed == DISTURBED {
                    resume_unwind(panic);
                }
                say("a core was lost to the host meanwhile", &lost.to_string());
            }
            Err(panic) => {
                failed += 1;
                if failed == 2 {
                    resume_unwind(panic);
                }
                let test = thread::current().name().unwrap_or("a test").to_string();
                say(&format!("{test} failed, perhaps in one run of three"), &lost.to_string());
            }
        }
        if succeeded > failed {
            return;
        }
    }
    unreachable!("{RUNS} runs decide")
}

/// A run that several tests of a binary judge, made once for the first run of each of them, once
/// for the second where one has to be repeated, and so on.
pub(crate) struct Shared<T>([OnceLock<Option<(T, Lost)>>; RUNS]);

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self([const { OnceLock::new() }; RUNS])
    }
    /// The run that `play` makes on what `enter` gives, for the run of the test that asks, or made
    /// when another test asked. `None` where `enter` gives that.
    pub(crate) fn get<S>(
        &self,
        enter: impl FnOnce() -> Option<S>,
        play: impl FnOnce(&S) -> T,
    ) -> Option<&T> {
        let make = || enter().map(|stage| witnessed(|| play(&stage)));
        let made = self.0[RUN.get()].get_or_init(make);
        let (value, lost) = made.as_ref()?;
        SHARED_LOST.set(Some(*lost));
        Some(value)
    }
}

/// Which part of a core was lost in the shared run that this test judges, as its witness saw it.
pub(crate) fn lost_part() -> f64 {
    let lost = SHARED_LOST.get().unwrap_or_default();
    lost.sum.as_secs_f64() / lost.of.as_secs_f64().max(1e-9)
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
    /// The one that disturbed more.
    fn max(self, other: Self) -> Self {
        if other.is_disturbance() { other } else { self }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { longest, sum, of } = self;
        write!(f, "lost {sum:?} of {of:?}, {longest:?} at once")
    }
}

/// Says why the test is repeated, past the test harness, and counts it.
fn say(why: &str, lost: &str) {
    let test = thread::current().name().unwrap_or("a test").to_string();
    let _ = io::stderr().write_all(format!("repeated: {test}: {why}: {lost}\n").as_bytes());
    if let Some(path) = env::var_os(SKIPS) {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let line = format!("repeated: {why}\n");
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
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
fn the_median_of_the_runs_that_the_host_did_not_disturb_counts() {
    // How many runs it takes and whether it succeeds: `.` succeeds, `F` fails, `D` fails disturbed.
    let runs_of = |plays: &str| {
        let (runs, said) = (Cell::new(0), Cell::new(0));
        let run = |number: usize| {
            runs.set(number + 1);
            let play = plays.as_bytes()[number];
            let sum = Duration::from_millis(if play == b'D' { 100 } else { 0 });
            let lost = Lost { sum, of: Duration::from_secs(1), ..Lost::default() };
            (if play == b'.' { Ok(()) } else { Err(Box::new("failed") as _) }, lost)
        };
        let say = |_: &str, _: &str| said.set(said.get() + 1);
        let result = catch_unwind(AssertUnwindSafe(|| repeat(run, say)));
        let repeated = plays[..runs.get() - 1].matches(|play| play != '.').count();
        assert_eq!(said.get(), repeated, "{plays}: each failed run but the last one is said");
        (runs.get(), result.is_ok())
    };
    assert_eq!(runs_of("."), (1, true));
    assert_eq!(runs_of("F.."), (3, true), "the median run succeeds");
    assert_eq!(runs_of("FF"), (2, false), "it does not");
    assert_eq!(runs_of("F.F"), (3, false));
    assert_eq!(runs_of("D."), (2, true), "the host was at fault");
    assert_eq!(runs_of("DD."), (3, true));
    assert_eq!(runs_of("DDD"), (3, false), "each time");
    assert_eq!(runs_of("DFD.."), (5, true));
    assert_eq!(runs_of("DFD.F"), (5, false));
}

#[test]
fn a_shared_run_is_made_anew_for_a_repeat_alone() {
    static MADE: Shared<usize> = Shared::new();
    let of = |run, value| {
        RUN.set(run);
        MADE.get(|| Some(value), |&value| value).copied()
    };
    assert_eq!((of(0, 7), of(0, 8), of(1, 9), of(0, 10)), (Some(7), Some(7), Some(9), Some(7)));
}
