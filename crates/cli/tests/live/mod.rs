//! What the live tests share: the right to the cores, a run of the real binary, and a look at the
//! host that finds whatever the run has left there.
//!
//! The tests are small enough for every build. With `MARACAS_ACCEPTANCE=full` in the environment
//! they have their full size (docs/guarantees.md): 10 s of quickstart, 50, 20 and 20
//! kills, 60 s of a hostile program. They print what they measured (`--nocapture` shows it).
//!
//! Means and medians are asserted on, never single values: those belong to the host. Times are
//! parts of budgets or multiples of what a wake costs here; means may be off by what was stolen.
#![allow(dead_code, reason = "every test binary uses its part")]

#[path = "../../../../tests/shared/bounds.rs"]
pub(crate) mod bounds;
pub(crate) mod host;
#[path = "../../../../tests/shared/host.rs"]
pub(crate) mod measure;
#[path = "../../../../tests/shared/witness.rs"]
pub(crate) mod witness;

use crate::common::{Scratch, maracas, repository, text};
use bounds::{Rite, Turn, kill_at_limit, needs};
use host::Host;
use maracas_live::host::platform::Platform;
use measure::{MEAN_ERROR, Steal, median_error, widened};
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The variable by which everything that descends from a run is known, whatever group, session or
/// parent it has later.
pub(crate) const TOKEN: &str = "MARACAS_TEST_RUN";

/// The exit code of `maracas run` where a promise was not kept.
pub(crate) const BROKEN: i32 = 4;

/// So many times what a decision takes is the longest period that the scenarios of the tests need:
/// two VCPUs of 40 % with two decisions each leave a tenth of their core, which is 40; three jobs
/// of half a core on two cores have their agents act 21 times a period under `run`, in 15 % of
/// each, which is 70.
const DECISIONS_IN_ROOM: f64 = 70.0;
/// By which factor a cost may differ between two measurements: 76 to 130 us were seen within a
/// minute of one virtual machine.
const MEASURED_APART: f64 = 2.0;

/// Whether the full sizes are asked for.
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
    _turn: Turn,
}

/// Waits until nothing runs, for tests that measure the host and need none of its rights.
pub(crate) fn quiet(seconds: u64) -> Turn {
    Turn::wait(Duration::from_secs(seconds))
}

impl Stage {
    /// Waits for the cores. `None`, after a skip, where this host has fewer than `cores` or cannot
    /// enforce budgets. `seconds` is what all runs of the test are to take: after ten times that
    /// and 20 s the test has failed.
    pub(crate) fn enter(cores: usize, seconds: u64) -> Option<Self> {
        let _turn = Turn::wait(Duration::from_secs(seconds));
        let there = Platform::detect().expect("the platform is readable").cores.len();
        if !needs(there >= cores, "two cores") {
            return None;
        }
        // No other run may have the cores; what dead runs left is cleaned up.
        until(Duration::from_secs(60), || !host::a_run_lives());
        maracas(&repository(), &["clean"]);
        if !needs(support().starts_with("full"), "budgets enforced by the full means of the doctor")
        {
            return None;
        }
        // While nothing runs.
        measure::wake();
        Some(Self { scratch: Scratch::new(), _turn })
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
        let limit = kill_at_limit(&child);
        let (host, born) = (Host::new(token, identity), Instant::now());
        Run { host, child, out, err, born, before: Steal::now(), _limit: limit }
    }

    /// A path in the scratch directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes a scenario, all its times twice, four or more times as long where agents leave no
    /// room for it as it is; how many times. That is for slow hosts: where what wakes cost here
    /// explains no such periods, the test has failed.
    pub(crate) fn admitted(&self, name: &str, text: &str) -> u64 {
        admitted(name, shortest_period(text), |times| {
            self.scratch.write(name, stretched(text, times));
            let output = self.maracas(&["check", name, "--machine", "live"]);
            (!output.status.success()).then(|| said(&output))
        })
    }

    /// Runs a command of the binary to its end.
    pub(crate) fn maracas(&self, words: &[&str]) -> Output {
        maracas(self.scratch.path(), words)
    }
}

/// The least number of times, a power of two, for which `says` gives no reason to refuse a scenario
/// whose shortest period is so many times `period`. A refusal at periods for which what wakes cost
/// here leaves room is a failure.
pub(crate) fn admitted(name: &str, period: Duration, says: impl Fn(u64) -> Option<String>) -> u64 {
    let mut times = 1;
    while let Some(why) = says(times) {
        let (refused, enough) = (period * times as u32, enough_period());
        assert!(
            refused < enough,
            "{name} is refused with a period of {refused:?}, and what wakes cost on this host \
             explains no more than {enough:?}: {why}"
        );
        times *= 2;
    }
    if times > 1 {
        eprintln!("{name}: times are {times} times as long on this host");
    }
    times
}

/// The longest period that a host of such wakes may need for a scenario of these tests.
fn enough_period() -> Duration {
    Duration::from_nanos((measure::decision_ns() * DECISIONS_IN_ROOM * MEASURED_APART) as u64)
}

/// What a command printed, both ways.
fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// A scenario with so many times its budgets, its periods and what its jobs take.
fn stretched(text: &str, times: u64) -> String {
    let line = |line: &str| {
        let is_time = TIMES.iter().any(|key| line.starts_with(key));
        let word = |word: &str| {
            let ns = nanoseconds(word).filter(|_| is_time);
            ns.map_or_else(|| word.to_string(), |ns| format!("{}ns", ns * times))
        };
        line.split('"').map(word).collect::<Vec<_>>().join("\"") + "\n"
    };
    text.lines().map(line).collect()
}

/// The keys of a scenario in whose values times are those of jobs.
const TIMES: [&str; 4] = ["budget = ", "period = ", "command = ", "workload = "];

/// The shortest period of a scenario.
fn shortest_period(text: &str) -> Duration {
    let period = |line: &str| nanoseconds(line.strip_prefix("period = \"")?.strip_suffix('"')?);
    Duration::from_nanos(text.lines().filter_map(period).min().expect("a period"))
}

/// A time such as `5ms` or `4600us`, in nanoseconds.
fn nanoseconds(word: &str) -> Option<u64> {
    let (number, unit) = word.split_at_checked(word.len().checked_sub(2)?)?;
    let unit = match unit {
        "ms" => 1_000_000,
        "us" => 1_000,
        _ => return None,
    };
    number.parse::<u64>().ok().map(|number| number * unit)
}

/// By what means this host enforces budgets.
fn support() -> &'static str {
    doctor()["support"].as_str().expect("doctor names the sensor")
}

/// Whether a program that runs as root is kept from sending signals to the runtime: since Linux
/// 6.12 (`docs/security.md`).
pub(crate) fn shuts_signals() -> bool {
    let rows = doctor()["capabilities"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["capability"] == "sealed programs").expect("it is tried");
    !row["proof"].as_str().expect("text").contains("signals to others")
}

/// What the doctor says of this host; asked once a process.
fn doctor() -> &'static Value {
    static ONCE: OnceLock<Value> = OnceLock::new();
    ONCE.get_or_init(|| {
        let doctor = || maracas(&repository(), &["doctor", "--json"]);
        // A process of the doctor may have no turn for a while beside builds.
        let output = (0..4)
            .fold(doctor(), |output, _| if output.stdout.is_empty() { doctor() } else { output });
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("doctor: {error}; {}", text(&output.stderr)))
    })
}

/// A `maracas run` that goes on. Dropped, it is killed, its guardian cleans up.
pub(crate) struct Run {
    /// Its traces on the host.
    pub(crate) host: Host,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    born: Instant,
    before: Steal,
    _limit: Rite,
}

impl Run {
    /// The runtime's process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
    /// The control socket, once it is there.
    pub(crate) fn socket(&self) -> PathBuf {
        let path = self.host.socket();
        let there = until(Duration::from_secs(20), || path.exists());
        assert!(there.is_some(), "no {}; {}{}", path.display(), self.said(), self.printed());
        path
    }
    /// What it printed on standard output: its report, or a refusal.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
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
    /// How it ended, once it is over; `None` where a signal ended it.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
    /// Waits for its end, in order: with success, or with a promise that was not kept. Whether a
    /// broken one matters to a test is for the test to say.
    pub(crate) fn finish(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        let code = status.code().filter(|code| [0, BROKEN].contains(code));
        code.unwrap_or_else(|| panic!("{status}: {}", self.said()))
    }
    /// Waits for its end and demands a report that says what the exit code says.
    pub(crate) fn report(&mut self) -> Report {
        let code = self.finish();
        let stolen = self.before.parts();
        self.said().lines().for_each(|line| eprintln!("run: {line}"));
        let json: Value = serde_json::from_slice(&fs::read(&self.out).unwrap()).unwrap();
        if let Some(kept) = json["promise"]["kept"].as_bool() {
            assert_eq!(code, if kept { 0 } else { BROKEN }, "{}", json["promise"]);
        }
        Report(json, stolen)
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

/// The report that `run --json` and `sim --json` print, and the part of the run that was stolen
/// from each core.
pub(crate) struct Report(pub(crate) Value, Vec<f64>);

impl Report {
    /// From what a command printed; demands success.
    pub(crate) fn of(output: &Output) -> Self {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        Self(serde_json::from_slice(&output.stdout).unwrap(), Vec::new())
    }
    /// All VCPUs.
    pub(crate) fn tasks(&self) -> Vec<Task<'_>> {
        let tasks = self.0["tasks"].as_array().unwrap();
        tasks.iter().map(|task| Task(task, &self.1)).collect()
    }
    /// The VCPU of this name.
    pub(crate) fn task(&self, name: &str) -> Task<'_> {
        let named = self.tasks().into_iter().find(|task| task.name() == name);
        named.unwrap_or_else(|| panic!("no {name} in {}", self.0))
    }
    /// The part of the run in which the hypervisor left us this core.
    pub(crate) fn left(&self, core: usize) -> f64 {
        1.0 - self.1.get(core).copied().unwrap_or(0.0)
    }
}

/// One VCPU of a report, and what was stolen from the cores.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a>(&'a Value, &'a [f64]);

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
    /// The word of its verdict.
    pub(crate) fn verdict(&self) -> &str {
        self.0["verdict"]["word"].as_str().unwrap_or_else(|| panic!("no verdict in {}", self.0))
    }
    /// By what fraction a figure that stands for its time may be off: `within`, and what was
    /// stolen.
    pub(crate) fn within(&self, within: f64) -> f64 {
        let cores: Vec<_> = self.cores().into_iter().map(|core| core as usize).collect();
        widened(within, self.1, &cores)
    }
    /// Demands that it always had something to run and got its budget: the mean within half a
    /// percent, stolen periods left out, and the median period near C.
    pub(crate) fn got_its_budget(&self) {
        let off = self.delivered("mean_ns") / self.ns("budget_ns") - 1.0;
        // What the verdict judged has no stolen periods; where all were stolen there is none.
        let off = self.0["verdict"]["mean_off"].as_f64().unwrap_or(off);
        self.is_near_its_budget(off);
    }
    /// The same over all whole periods, of a program that never waits once it has begun. While it
    /// begins it does, for instance for a lock of the kernel: what it takes over its budget in such
    /// a period, which is not judged, is paid back in others that are.
    pub(crate) fn got_its_budget_in_all(&self) {
        self.is_near_its_budget(self.delivered("mean_of_all_ns") / self.ns("budget_ns") - 1.0);
    }
    /// Demands that a mean is `off` its budget by little, and that the median period is.
    fn is_near_its_budget(&self, off: f64) {
        let (name, budget) = (self.name(), self.ns("budget_ns"));
        let (periods, median) = (self.delivered("periods"), self.delivered("error_p50_ns"));
        eprintln!(
            "{name}: mean {:+.4} % off C, error p50 {:.1} us, p99 {:.1} us, {periods} periods",
            off * 100.0,
            median / 1e3,
            self.delivered("error_p99_ns") / 1e3,
        );
        assert!(periods > 0.0, "{name}: no period had full demand");
        let (within, verdict) = (self.within(MEAN_ERROR), &self.0["verdict"]);
        assert!(off.abs() < within, "{name}: mean {off:+.4} of C off, {within} may be; {verdict}");
        let most = median_error(budget);
        assert!(median < most, "{name}: median error {median} ns, {most} ns may be");
    }
}

/// The middle one.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
