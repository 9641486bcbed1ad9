//! Real programs with enforced budgets. Assertions are on means and medians only: single late
//! periods are the host's (steal, unpreempted system calls), and are printed. Times are parts of
//! budgets or multiples of what a wake costs on this host; means may be off by what was stolen.

use crate::support::host::{MEAN_ERROR, wake};
use crate::support::witness::repeated;
use crate::support::{
    Ran, SPIN, Static, background, per_period, run, run_beside, run_with, setup, shell, system,
    try_run, turn,
};
use maracas_core::{Duration, Event, Instant, Plan, Policy, Rate};
use maracas_live::host::costs::WakeCost;
use maracas_live::sense::Senses;
use maracas_live::{Error, Means};
use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// VCPUs 0 and 1, and each as much surplus time as the other.
fn both_got_their_budgets(ran: &Ran) {
    let records = ran.untroubled();
    (0..2).for_each(|vcpu| ran.got_its_budget(vcpu, MEAN_ERROR));
    let (first, second) = (background(records, 0), background(records, 1));
    assert!((first / second - 1.0).abs() < 0.1, "background {first} s and {second} s");
}

#[test]
fn two_spinning_programs_get_their_budgets_and_share_the_rest() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0), (3_000, 10_000, 0)]);
        let programs = vec![shell(0, SPIN), shell(1, SPIN)];
        let policy = Box::new(Static::new(&system));
        let Some(ran) = run(setup(&system, programs, 5), policy) else { return };
        both_got_their_budgets(&ran);
    });
}

#[test]
fn processes_of_one_vcpu_share_its_budget() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
        let four = format!("for i in 1 2 3; do ({SPIN}) & done; {SPIN}");
        let programs = vec![shell(0, &four), shell(1, SPIN)];
        let policy = Box::new(Static::new(&system));
        let Some(ran) = run(setup(&system, programs, 5), policy) else { return };
        both_got_their_budgets(&ran);
    });
}

#[test]
fn surplus_time_is_used_while_the_background_head_sleeps() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
        let programs = vec![shell(0, SPIN), shell(1, "while :; do sleep 0.003; done")];
        let policy = Box::new(Static::new(&system));
        let Some(ran) = run(setup(&system, programs, 5), policy) else { return };
        let records = ran.untroubled();
        ran.got_its_budget(0, MEAN_ERROR);
        // A tenth of the core at least, whatever else uses it: all but 2 ms of 10 is surplus.
        let (spin, sleep) = (background(records, 0), background(records, 1));
        assert!(spin > 0.5 && spin > sleep, "surplus {spin} s and {sleep} s");
    });
}

#[test]
fn without_events_budgets_are_kept_by_clocks_and_timers() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0), (3_000, 10_000, 0)]);
        let setup = setup(&system, vec![shell(0, SPIN), shell(1, SPIN)], 4);
        let means = Means { events: false, ..Means::FULL };
        let Some(ran) = run_with(setup, means, Box::new(Static::new(&system))) else { return };
        ran.untroubled();
        let WakeCost { p50, .. } = wake();
        for (vcpu, budget_us) in [(0, 2_000.0), (1, 3_000.0)] {
            // Periods in which the agent was late are not made up for, hence not 0.5 %: each may
            // end by a wake late, and 5 % are allowed beside.
            let late = p50.ticks() as f64 / 1e3 / budget_us;
            ran.got_its_budget(vcpu, 0.05 + late);
        }
    });
}

#[test]
fn a_run_leaves_the_host_as_it_was() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0), (2_000, 10_000, 0)]);
        // One program that does not react, and one whose child outlives it.
        let stubborn = format!("trap '' TERM; {SPIN}");
        let orphan = format!("({SPIN}) & sleep 0.3");
        let programs = vec![shell(0, &stubborn), shell(1, &orphan)];
        let policy = Box::new(Static::new(&system));
        let Some(ran) = run(setup(&system, programs, 1), policy) else { return };
        ran.untroubled();
        assert_eq!(ran.outcome.programs.len(), 2);
        // The tests of this process share the name of their tree.
        let _turn = turn(Duration::from_secs(1));
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts are readable");
        let hierarchies = mounts.lines().filter(|line| line.contains(" - cgroup"));
        for root in hierarchies.filter_map(|line| line.split(' ').nth(4)) {
            let house = std::path::Path::new(root).join("maracas");
            let own = format!("{}-", std::process::id());
            let rooms = std::fs::read_dir(house).into_iter().flatten().flatten();
            let left = rooms.filter(|room| room.file_name().to_string_lossy().starts_with(&own));
            assert_eq!(left.count(), 0, "a group of this run is left in {root}");
        }
    });
}

/// Works for half a second; says when it stopped.
struct Brittle(Static, Arc<OnceLock<std::time::Instant>>);

impl Policy for Brittle {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.0.on_event(at, event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if now >= Instant::ZERO + Duration::from_millis(500) {
            self.1.get_or_init(std::time::Instant::now);
            panic!("a bug of the policy's");
        }
        self.0.plan(now, plan);
    }
}

#[test]
fn a_policy_that_panics_ends_the_run_and_leaves_nothing_raised() {
    repeated(|| {
        let system = system(1, &[(2_000, 10_000, 0)]);
        let marker = format!("maracas_test_{}=1; {SPIN}", std::process::id());
        let mut setup = setup(&system, vec![shell(0, &marker)], 20);
        // The thread that slows a core down must end too.
        setup.duty = vec![Rate::new(1, 2)];
        let broke = Arc::default();
        let policy = Box::new(Brittle(Static::new(&system), Arc::clone(&broke)));
        match try_run(setup, Means::FULL, policy, Senses::default()) {
            Some(Err(Error::Panicked(why))) => eprintln!("{why}"),
            Some(Err(error)) => panic!("{error}"),
            Some(Ok(_)) => panic!("the run went on without its policy"),
            None => return,
        }
        let after = broke.get().expect("the policy panicked").elapsed();
        assert!(after.as_secs() < 10, "it ended {after:?} after the policy");
        let alive =
            std::fs::read_dir("/proc").expect("processes are listed").flatten().any(|entry| {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let own = entry.file_name().to_string_lossy() == std::process::id().to_string();
                !own && String::from_utf8_lossy(&line).contains(&marker)
            });
        assert!(!alive, "the program was ended with the run");
    });
}

#[test]
fn a_crowd_is_not_raised_and_takes_no_others_time() {
    repeated(|| {
        let system = system(1, &[(3_000, 10_000, 0), (4_000, 10_000, 0)]);
        let crowd = format!("i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; {SPIN}");
        let programs = vec![shell(0, &crowd), shell(1, SPIN)];
        let policy = Box::new(Static::new(&system));
        let Some(ran) = run(setup(&system, programs, 5), policy) else { return };
        let records = ran.untroubled();
        let crowd = per_period(records, &system, 0);
        let share = background(records, 0);
        eprintln!("the crowd was raised in {} periods, bg {share:.3} s", crowd.len());
        // While the crowd grows it is raised, and where calls are dear the agent and both budgets
        // fill the core: then the kernel gives it to ordinary threads for 50 ms, once.
        ran.got_its_budget(1, 0.02);
        assert!(crowd.len() < 300, "raised in {} of 500 periods", crowd.len());
        assert!(share > 0.2, "{share} s of surplus time");
    });
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
fn sample_classes(marker: &str, over: &AtomicBool) -> (u32, u32) {
    let is_shell = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker)
    };
    let (mut seen, mut raised, mut shell) = (0, 0, None);
    while !over.load(Ordering::Acquire) {
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
    repeated(|| {
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
        let marker = format!("maracas_test_exec={run_id}");
        let policy = Box::new(Static::new(&system));
        let ran = run_beside(setup, policy, |over| sample_classes(&marker, over));
        let Some((ran, (seen, raised))) = ran else { return };
        ran.untroubled();
        eprintln!("what called exec was raised in {raised} of {seen} samples");
        ran.got_its_budget(1, MEAN_ERROR);
        assert!(seen > 100, "the shell was seen {seen} times only");
        assert!(raised * 2 < seen, "raised in {raised} of {seen} samples, with 35 % of the core");
    });
}
