//! Real programs with enforced budgets. Assertions are on means and medians only: single late
//! periods are the host's (steal, unpreempted system calls), and are printed.

use crate::support::{
    SPIN, Static, background, per_period, run, run_with, setup, shell, summary, system, turn,
};
use maracas_core::{Duration, Event, Instant, Plan, Policy, Rate};
use maracas_live::{Error, Means};
use std::os::unix::process::CommandExt;

/// Runs or says why not.
macro_rules! run_or_skip {
    ($setup:expr, $policy:expr) => {
        match run($setup, Box::new($policy)) {
            Ok(run) => run,
            Err(error) => return eprintln!("skipped: {error}"),
        }
    };
}

#[test]
fn two_spinning_programs_get_their_budgets_and_share_the_rest() {
    let system = system(1, &[(2_000, 10_000, 0), (3_000, 10_000, 0)]);
    let programs = vec![shell(0, SPIN), shell(1, SPIN)];
    let (records, outcome) = run_or_skip!(setup(&system, programs, 5), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    for (vcpu, budget_us) in [(0, 2_000.0), (1, 3_000.0)] {
        let (mean, p50, p99) = summary(&per_period(&records, &system, vcpu), budget_us);
        let share = background(&records, vcpu);
        eprintln!(
            "vcpu{vcpu}: mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}, bg {share:.3} s"
        );
        assert!((mean / budget_us - 1.0).abs() < 0.005, "mean {mean} us of {budget_us} us");
        assert!(p50 < 30.0, "median error {p50} us");
    }
    let (first, second) = (background(&records, 0), background(&records, 1));
    assert!((first / second - 1.0).abs() < 0.1, "background {first} s and {second} s");
}

#[test]
fn processes_of_one_vcpu_share_its_budget() {
    let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
    let four = format!("for i in 1 2 3; do ({SPIN}) & done; {SPIN}");
    let programs = vec![shell(0, &four), shell(1, SPIN)];
    let (records, outcome) = run_or_skip!(setup(&system, programs, 5), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    for vcpu in [0, 1] {
        let (mean, p50, p99) = summary(&per_period(&records, &system, vcpu), 2_000.0);
        let share = background(&records, vcpu);
        eprintln!(
            "vcpu{vcpu}: mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}, bg {share:.3} s"
        );
        assert!((mean / 2_000.0 - 1.0).abs() < 0.005, "mean {mean} us of 2000 us");
        assert!(p50 < 30.0, "median error {p50} us");
    }
    let (first, second) = (background(&records, 0), background(&records, 1));
    assert!((first / second - 1.0).abs() < 0.1, "background {first} s and {second} s");
}

#[test]
fn surplus_time_is_used_while_the_background_head_sleeps() {
    let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
    let programs = vec![shell(0, SPIN), shell(1, "while :; do sleep 0.003; done")];
    let (records, outcome) = run_or_skip!(setup(&system, programs, 5), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    let (mean, p50, p99) = summary(&per_period(&records, &system, 0), 2_000.0);
    let (spin, sleep) = (background(&records, 0), background(&records, 1));
    eprintln!("mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}, bg {spin:.3} s, {sleep:.3} s");
    assert!((mean / 2_000.0 - 1.0).abs() < 0.005, "mean {mean} us of 2000 us");
}

#[test]
fn without_events_budgets_are_kept_by_clocks_and_timers() {
    let system = system(1, &[(2_000, 10_000, 0), (3_000, 10_000, 0)]);
    let setup = setup(&system, vec![shell(0, SPIN), shell(1, SPIN)], 4);
    let means = Means { events: false, ..Means::FULL };
    let (records, outcome) = match run_with(setup, means, Box::new(Static::new(&system))) {
        Ok(run) => run,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert_eq!(outcome.trouble, [""; 0]);
    for (vcpu, budget_us) in [(0, 2_000.0), (1, 3_000.0)] {
        let (mean, p50, p99) = summary(&per_period(&records, &system, vcpu), budget_us);
        eprintln!("vcpu{vcpu}: mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}");
        // Periods in which the agent was late are not made up for, hence not 0.5 %.
        assert!((mean / budget_us - 1.0).abs() < 0.05, "mean {mean} us of {budget_us} us");
        assert!(p50 < 200.0, "median error {p50} us");
    }
}

#[test]
fn a_run_leaves_the_host_as_it_was() {
    let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
    // One program that does not listen, and one whose child outlives it.
    let deaf = format!("trap '' TERM; {SPIN}");
    let orphan = format!("({SPIN}) & sleep 0.3");
    let programs = vec![shell(0, &deaf), shell(1, &orphan)];
    let (_, outcome) = run_or_skip!(setup(&system, programs, 1), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    assert_eq!(outcome.programs.len(), 2);
    // The tests of this process share the name of their tree.
    let _turn = turn();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts are readable");
    let hierarchies = mounts.lines().filter(|line| line.contains(" - cgroup"));
    for root in hierarchies.filter_map(|line| line.split(' ').nth(4)) {
        let house = std::path::Path::new(root).join("maracas");
        let own = format!("{}-", std::process::id());
        let rooms = std::fs::read_dir(house).into_iter().flatten().flatten();
        let left = rooms.filter(|room| room.file_name().to_string_lossy().starts_with(&own));
        assert_eq!(left.count(), 0, "a group of this run is left in {root}");
    }
}

/// Works for half a second.
struct Brittle(Static);

impl Policy for Brittle {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.0.on_event(at, event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        assert!(now < Instant::ZERO + Duration::from_millis(500), "a bug of the policy's");
        self.0.plan(now, plan);
    }
}

#[test]
fn a_policy_that_panics_ends_the_run_and_leaves_nobody_raised() {
    let system = system(1, &[(2_000, 10_000, 0)]);
    let marker = format!("maracas_test_{}=1; {SPIN}", std::process::id());
    let mut setup = setup(&system, vec![shell(0, &marker)], 30);
    // The thread that slows a core down must end too.
    setup.duty = vec![Rate::new(1, 2)];
    let began = std::time::Instant::now();
    match run(setup, Box::new(Brittle(Static::new(&system)))) {
        Err(Error::Panicked(_)) => {}
        Err(error) => return eprintln!("skipped: {error}"),
        Ok(_) => panic!("the run went on without its policy"),
    }
    assert!(began.elapsed().as_secs() < 25, "it ended when the policy did");
    let alive = std::fs::read_dir("/proc").expect("processes are listed").flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
        !own && String::from_utf8_lossy(&line).contains(&marker)
    });
    assert!(!alive, "the program was ended with the run");
}

#[test]
fn a_crowd_is_not_raised_and_takes_nobodys_time() {
    let system = system(1, &[(3_000, 10_000, 0), (4_000, 10_000, 0)]);
    let crowd = format!("i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; {SPIN}");
    let programs = vec![shell(0, &crowd), shell(1, SPIN)];
    let (records, outcome) = run_or_skip!(setup(&system, programs, 5), Static::new(&system));
    assert_eq!(outcome.trouble, [""; 0]);
    let (mean, p50, p99) = summary(&per_period(&records, &system, 1), 4_000.0);
    let crowd = per_period(&records, &system, 0);
    let share = background(&records, 0);
    eprintln!(
        "neighbour: mean {mean:.1} us, |off| p50 {p50:.1} p99 {p99:.1}; the crowd was raised in \
         {} periods, bg {share:.3} s",
        crowd.len()
    );
    assert!((mean / 4_000.0 - 1.0).abs() < 0.005, "mean {mean} us of 4000 us");
    assert!(crowd.len() < 300, "raised in {} of 500 periods", crowd.len());
    assert!(share > 0.2, "{share} s of surplus time");
}

/// Under this variable this test program is a thread that calls `exec` while it is raised.
const EXEC: &str = "MARACAS_TEST_EXEC";

/// A thread that is not its process's first waits until it is raised, and becomes a shell: it takes
/// the number of the first thread and keeps its class, and the kernel records neither.
fn become_a_shell() {
    let thread = std::thread::spawn(|| {
        // SAFETY: a plain question of the calling thread.
        while unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK == 0 {}
        let marker = format!("maracas_test_exec={}; {SPIN}", std::env::var(EXEC).expect("set"));
        panic!("{}", std::process::Command::new("sh").args(["-c", &marker]).exec());
    });
    thread.join().expect("the shell goes on in its place");
}

/// How often the shell of run `marker` is there, and how often at real-time priority then.
fn sample_classes(marker: &str) -> (u32, u32) {
    let is_shell = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    };
    let (mut seen, mut raised, mut shell) = (0, 0, None);
    for _ in 0..700 {
        std::thread::sleep(std::time::Duration::from_micros(5_300));
        if shell.is_none() {
            let entries = std::fs::read_dir("/proc").expect("processes are listed").flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            shell = pids.filter(|pid| *pid != std::process::id() as i32).find(is_shell);
        }
        if let Some(Ok(class)) = shell.map(maracas_live::host::sched::policy_of) {
            seen += 1;
            raised += u32::from(class != maracas_live::host::sched::KernelPolicy::Other);
        }
    }
    (seen, raised)
}

#[test]
fn a_thread_that_calls_exec_stays_within_its_budget() {
    if std::env::var_os(EXEC).is_some() {
        return become_a_shell();
    }
    let system = system(1, &[(3_500, 10_000, 0), (9_000, 20_000, 0)]);
    let own = std::env::current_exe().expect("this program has a path");
    let mut program = shell(0, "");
    let name = "budget::a_thread_that_calls_exec_stays_within_its_budget";
    program.command.argv = vec![own.into(), "--exact".into(), name.into()];
    let run_id = std::process::id().to_string();
    program.command.env.insert(EXEC.into(), run_id.clone().into());
    let setup = setup(&system, vec![program, shell(1, SPIN)], 4);
    let (run, (seen, raised)) = std::thread::scope(|scope| {
        let samples = scope.spawn(|| sample_classes(&format!("maracas_test_exec={run_id}")));
        let run = run(setup, Box::new(Static::new(&system)));
        (run, samples.join().expect("the samples are taken"))
    });
    let (records, outcome) = match run {
        Ok(run) => run,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    assert_eq!(outcome.trouble, [""; 0]);
    let (mean, p50, _) = summary(&per_period(&records, &system, 1), 9_000.0);
    let own = summary(&per_period(&records, &system, 0), 3_500.0).0;
    eprintln!(
        "neighbour: mean {mean:.1} us, |off| p50 {p50:.1}; mean of who called exec {own:.1} us; \
         raised in {raised} of {seen} samples"
    );
    assert!((mean / 9_000.0 - 1.0).abs() < 0.005, "mean {mean} us of 9000 us");
    assert!(seen > 100, "the shell was seen {seen} times only");
    assert!(raised * 2 < seen, "raised in {raised} of {seen} samples, with 35 % of the core");
}
