//! What the live tests share: the right to the cores, a run of the real binary, and a look at the
//! host that finds whatever the run has left there.
//!
//! The acceptance tests are small enough for every build. With `MARACAS_ACCEPTANCE=full` in the
//! environment they have the sizes of the project's acceptance: 10 s of quickstart, 50, 20 and 20
//! kills, 60 s of a hostile program. They print what they measured (`--nocapture` shows it).
//!
//! Means and medians are asserted on, never single values: those belong to the host (live notes,
//! section 11.9).
#![allow(dead_code, reason = "every test binary uses its part")]

pub(crate) mod host;

use crate::common::{Scratch, maracas, repository, text};
use host::Host;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The variable by which everything that descends from a run is known, whatever group, session or
/// parent it has later.
pub(crate) const TOKEN: &str = "MARACAS_TEST_RUN";

/// The least part of its budget by which a mean may be off.
pub(crate) const MEAN_ERROR: f64 = 0.005;
/// The median error that is allowed.
pub(crate) const MEDIAN_ERROR_NS: f64 = 30_000.0;

/// Whether the sizes of the project's acceptance are asked for.
pub(crate) fn is_full() -> bool {
    std::env::var("MARACAS_ACCEPTANCE").is_ok_and(|size| size == "full")
}

/// The first where the full size is asked for, else the second.
pub(crate) fn sized<T>(full: T, small: T) -> T {
    if is_full() { full } else { small }
}

/// The right to all cores: runs at the same time would take each other's budgets, in this process
/// or another.
pub(crate) struct Stage {
    /// Where the test's files are.
    pub(crate) scratch: Scratch,
    _lock: File,
}

impl Stage {
    /// Waits for the cores. `None`, and one line, where this host cannot enforce budgets in full.
    pub(crate) fn enter() -> Option<Self> {
        let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("live.lock")).unwrap();
        // SAFETY: plain arguments; the lock ends with the file.
        assert_eq!(unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX) }, 0);
        // Nor may somebody else's run have the cores; what dead runs left is cleaned up.
        until(Duration::from_secs(60), || !host::somebody_runs());
        maracas(&repository(), &["clean"]);
        let output = maracas(&repository(), &["doctor", "--json"]);
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("doctor: {error}; {}", text(&output.stderr)));
        let rung = json["rung"].as_str().expect("doctor names the rung");
        if rung.starts_with("full") {
            return Some(Self { scratch: Scratch::new(), _lock: lock });
        }
        // Past the test harness, which keeps what passing tests print to itself.
        let line = format!("skipped: needs budgets enforced in full; this host offers: {rung}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        None
    }

    /// Starts a run; `words` follow `maracas run`. `env` is given to it, and so to all programs.
    pub(crate) fn start(&self, words: &[&str], env: &[(&str, &str)]) -> Run {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{number}", std::process::id());
        let (out, err) = (self.file(&format!("out{number}")), self.file(&format!("err{number}")));
        let child = Command::new(env!("CARGO_BIN_EXE_maracas"))
            .arg("run")
            .args(words)
            .current_dir(self.scratch.path())
            .env_remove("MARACAS_SOCKET")
            .env(TOKEN, &token)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let identity = host::identity(child.id()).expect("a child that was not waited for");
        Run { host: Host::new(token, identity), child, out, err, born: Instant::now() }
    }

    /// A path in the scratch directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs a command of the binary to its end.
    pub(crate) fn maracas(&self, words: &[&str]) -> Output {
        maracas(self.scratch.path(), words)
    }
}

/// A `maracas run` that goes on. Dropped, it is killed, its guardian cleans up.
pub(crate) struct Run {
    /// Its traces on the host.
    pub(crate) host: Host,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    born: Instant,
}

impl Run {
    /// The runtime's process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
    /// The control socket, once it is there.
    pub(crate) fn socket(&self) -> PathBuf {
        let path = self.host.socket();
        let there = until(Duration::from_secs(5), || path.exists());
        assert!(there.is_some(), "no {}; {}", path.display(), self.said());
        path
    }
    /// Waits until this long after the start.
    pub(crate) fn at(&self, age: Duration) {
        thread::sleep(age.saturating_sub(self.born.elapsed()));
    }
    /// What it said on standard error.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }
    /// Kills the runtime and nothing else.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }
    /// Collects a runtime that was killed.
    pub(crate) fn reap(&mut self) {
        self.child.wait().unwrap();
    }
    /// Whether it is over.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
    /// Waits for its end and demands success.
    pub(crate) fn finish(&mut self) {
        let status = self.child.wait().unwrap();
        let said = text(&fs::read(&self.err).unwrap());
        assert_eq!(status.code(), Some(0), "{said}");
    }
    /// Waits for its end and demands a report.
    pub(crate) fn report(&mut self) -> Report {
        self.finish();
        let said = self.said();
        said.lines().for_each(|line| eprintln!("run: {line}"));
        Report(serde_json::from_slice(&fs::read(&self.out).unwrap()).unwrap())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The guardian has the cores for a moment longer; the next run must not meet it.
        until(Duration::from_secs(2), || self.host.leftovers().none());
    }
}

/// Waits until `holds`; how long that took, or `None` after `patience`.
pub(crate) fn until(patience: Duration, mut holds: impl FnMut() -> bool) -> Option<Duration> {
    let begin = Instant::now();
    loop {
        if holds() {
            return Some(begin.elapsed());
        }
        if begin.elapsed() > patience {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The report that `run --json` and `sim --json` print.
pub(crate) struct Report(pub(crate) Value);

impl Report {
    /// From what a command printed; demands success.
    pub(crate) fn of(output: &Output) -> Self {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        Self(serde_json::from_slice(&output.stdout).unwrap())
    }
    /// All VCPUs.
    pub(crate) fn tasks(&self) -> Vec<Task<'_>> {
        self.0["tasks"].as_array().unwrap().iter().map(Task).collect()
    }
    /// The VCPU of this name.
    pub(crate) fn task(&self, name: &str) -> Task<'_> {
        let named = self.tasks().into_iter().find(|task| task.name() == name);
        named.unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }
}

/// One VCPU of a report.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a>(&'a Value);

impl Task<'_> {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap()
    }
    /// A figure in nanoseconds.
    pub(crate) fn ns(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_else(|| panic!("no {key} in {}", self.0))
    }
    /// Cores on which it ran.
    pub(crate) fn cores(&self) -> Vec<u64> {
        self.0["cores"].as_array().unwrap().iter().map(|core| core.as_u64().unwrap()).collect()
    }
    /// A figure of its own periods.
    pub(crate) fn delivered(&self, key: &str) -> f64 {
        self.0["delivered"][key].as_f64().unwrap_or_else(|| panic!("no {key} in {}", self.0))
    }
    /// Demands that it always had something to run and got its budget: the mean within half a
    /// percent, the median error below 30 us.
    pub(crate) fn got_its_budget(&self) {
        let (name, budget) = (self.name(), self.ns("budget_ns"));
        let (mean, median) = (self.delivered("mean_ns"), self.delivered("error_p50_ns"));
        let (periods, p99) = (self.delivered("periods"), self.delivered("error_p99_ns"));
        let off = (mean / budget - 1.0) * 100.0;
        eprintln!(
            "{name}: mean {off:+.4} % off C, error p50 {:.1} us, p99 {:.1} us, {periods} periods",
            median / 1e3,
            p99 / 1e3,
        );
        assert!((mean / budget - 1.0).abs() < MEAN_ERROR, "{name}: mean {mean} of {budget} ns");
        assert!(median < MEDIAN_ERROR_NS, "{name}: median error {median} ns");
    }
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
