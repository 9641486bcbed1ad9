//! The memory that a simulation needs does not grow with the time that is simulated: a run of
//! hours must fit where one of seconds does.

mod common;

use common::Scratch;
use std::path::Path;
use std::process::{Command, Stdio};

/// By how much the long run's peak may exceed the short one's. The long run has 190 000 jobs more,
/// so that even a word kept of each would take 1.5 MiB.
const BOUND_KIB: u64 = 1024;

/// Runs of one length whose least peak counts: by where threads and pages come to lie, a run now
/// and then takes up to 1.6 MiB more than others of its length, seldom three in turn.
const RUNS: usize = 3;

/// Twelve tasks with 194 jobs a second on 4 cores, 20 % each.
fn taskset() -> String {
    let periods = [50, 60, 70, 40, 100, 50, 60, 80, 45, 120, 65, 75];
    let rows = periods.map(|ms| format!("{},{}\n", 200 * ms, 1_000 * ms));
    format!("cost_us,period_us\n{}", rows.concat())
}

/// The peak resident memory in KiB of a run with the table, as the kernel counted it.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it and has the figure")]
fn peak_kib(directory: &Path, policy: &str, until: &str) -> u64 {
    let child = Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(["sim", "--taskset", "t.csv", "--cores", "4", "--policy", policy, "--until", until])
        .current_dir(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut status = 0;
    // SAFETY: all zeros are a valid `rusage`, of plain numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the child is ours and not waited for; both pointers are to live variables.
    let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
    assert_eq!((waited, status), (child.id() as i32, 0), "{policy} until {until}");
    usage.ru_maxrss as u64
}

/// This process's own peak. The kernel counts it as the child's, too, until that one's program is
/// loaded, so a smaller one could not be seen.
fn own_peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_longer_run_needs_no_more_memory() {
    let scratch = Scratch::new();
    scratch.write("t.csv", taskset());
    for policy in ["p-edf", "g-edf", "run", "qps"] {
        let least = |until| (0..RUNS).map(|_| peak_kib(scratch.path(), policy, until)).min();
        let [short, long] = ["10s", "1000s"].map(|until| least(until).unwrap());
        let own = own_peak_kib();
        assert!(short > own, "{policy}: {short} KiB cannot be distinguished from our own {own}");
        assert!(long <= short + BOUND_KIB, "{policy}: {short} KiB at 10 s and {long} at 1000 s");
    }
}
