//! An agent that never comes to an end: its policy spins. The guardian relieves its core and ends
//! the run, which is therefore a process of its own here.

use crate::support::bounds::{kill_at_limit, needs};
use crate::support::witness::repeated;
use crate::support::{SPIN, Static, able, header, setup, shell, system, turn};
use maracas_core::{Duration, Event, Instant, Plan, Policy};
use maracas_live::control;
use maracas_live::guardian::{self, Charge, Guardian};
use maracas_live::host::Identity;
use maracas_live::host::sched::{self, KernelPolicy};
use maracas_live::{Machine, Means};
use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::{env, fs, thread, time};

/// Under this variable this test program is the run; its value is the mark of its programs.
const RUN: &str = "MARACAS_TEST_SPINNING";
/// The mark of the programs: an environment variable that they inherit.
const MARK: &str = "MARACAS_TEST_STUCK";
/// The time from which the policy spins, by the clock of the run.
const STUCK: Duration = Duration::from_millis(500);
/// A policy that is never stopped goes on by itself, for the machine on which this test fails.
const SPINS: time::Duration = time::Duration::from_secs(20);
/// The guardian's promise: so long after an agent got stuck the run has ended, with its reason.
const ENDED: time::Duration = time::Duration::from_secs(8);
/// After 250 ms programs of that core are not raised any more; two looks beside, for slow hosts.
const RELIEVED: time::Duration = time::Duration::from_millis(1000);

/// Not a test by itself: the guardian's part, when run again with a guardian's arguments.
#[test]
fn as_guardian() {
    let arguments: Vec<OsString> = env::args_os().collect();
    let is_run = |word: &OsString| word.to_str().and_then(Identity::parse).is_some();
    if let Some(at) = arguments.iter().position(is_run) {
        let code = guardian::main(arguments.into_iter().skip(at));
        assert_eq!(code, ExitCode::SUCCESS);
    }
}

/// Plans as [`Static`] does, for half a second; then it spins.
struct Spinning(Static);

impl Policy for Spinning {
    fn on_event(&mut self, at: Instant, event: &Event) {
        self.0.on_event(at, event);
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if now >= Instant::ZERO + STUCK {
            // The test's clock starts here.
            eprintln!("stuck");
            let begun = time::Instant::now();
            while begun.elapsed() < SPINS {
                std::hint::spin_loop();
            }
        }
        self.0.plan(now, plan);
    }
}

/// The run's part: programs on all cores, under a guardian.
fn play(mark: &str) {
    let system = system(2, &[(6_000, 10_000, 0), (6_000, 10_000, 1)]);
    let programs = [0, 1].map(|vcpu| {
        let mut program = shell(vcpu, SPIN);
        program.command.env.insert(MARK.into(), mark.into());
        program
    });
    let charge = Charge { run: Identity::own().expect("ours"), files: Vec::new() };
    let words = ["stuck::as_guardian", "--exact", "--nocapture", "--test-threads=1"];
    let own = env::current_exe().expect("this program has a path");
    let guardian = Guardian::start_as(charge, own, words.map(OsString::from).to_vec());
    let setup = setup(&system, programs.to_vec(), 30);
    let (header, policy) = (header(&setup), Box::new(Spinning(Static::new(&system))));
    let machine = Machine::with_means(setup, Means::FULL, policy, header).expect("it can run");
    let outcome = machine.guarded_by(guardian.expect("it starts")).run(|_| ());
    // Its reason, where the runtime was let end in order.
    panic!("the run ended: {outcome:?}");
}

/// The processes of the run that live, each with whether it is raised.
fn programs(mark: &str) -> Vec<(i32, bool)> {
    let wanted = format!("{MARK}={mark}");
    let pids = fs::read_dir("/proc").expect("processes are listed").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
    });
    let raised = |pid| sched::policy_of(pid).is_ok_and(|policy| policy != KernelPolicy::Other);
    ours.map(|pid| (pid, raised(pid))).collect()
}

/// The run's process, which does not outlive the test; its guardian cleans up after it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads standard error of the run until `word` comes, or its end.
fn receive(child: &mut Child, word: &str) -> String {
    let (mut said, mut byte) = (String::new(), [0]);
    let stderr = child.stderr.as_mut().expect("a pipe");
    while !said.contains(word) && stderr.read(&mut byte).expect("readable") == 1 {
        said.push(char::from(byte[0]));
    }
    said
}

#[test]
fn a_spinning_agent_is_relieved_and_the_run_ends_with_the_reason() {
    repeated(|| {
        const TEST: &str = "stuck::a_spinning_agent_is_relieved_and_the_run_ends_with_the_reason";
        if let Some(mark) = env::var_os(RUN) {
            return play(&mark.to_string_lossy());
        }
        let _turn = turn(Duration::from_secs(2));
        if !able(Means::FULL, 2) {
            return;
        }
        // This thread must see it though an agent spins on a core, and programs on the other.
        let above = crate::support::host::Above::all();
        if !needs(above.is_ok(), "the right to SCHED_FIFO") {
            return;
        }
        let mark = format!("{}", std::process::id());
        let own = env::current_exe().expect("this program has a path");
        let child = Command::new(own)
            .args(["--exact", TEST, "--nocapture"])
            .env(RUN, &mark)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let _rite = kill_at_limit(&child);
        let Killed(child) = &mut Killed(child);
        let run = Identity::of(child.id() as i32).expect("our child");
        let said = receive(child, "stuck\n");
        assert!(said.contains("stuck\n"), "it ended before: {said}");
        let stuck = time::Instant::now();
        assert_eq!(programs(&mark).len(), 2, "the programs run");

        thread::sleep(RELIEVED);
        let raised: Vec<_> = programs(&mark).into_iter().filter(|(_, raised)| *raised).collect();
        // One agent spins under the lock of the policy; the other is stuck with it.
        assert_eq!(raised, [], "raised {:?} after the agent got stuck", stuck.elapsed());

        let mut ended = None;
        while ended.is_none() && stuck.elapsed() < ENDED {
            ended = child.try_wait().expect("our child");
            thread::sleep(time::Duration::from_millis(10));
        }
        let after = stuck.elapsed();
        assert!(ended.is_some(), "the run goes on {after:?} after its agent got stuck");
        eprintln!("ended after {after:?}: {ended:?}");
        assert!(!ended.is_some_and(|status| status.success()), "it was no success");
        let said = receive(child, "\u{0}");
        assert!(said.contains("guardian") && said.contains("core"), "no reason: {said}");
        // The guardian may need a moment for the groups.
        let begun = time::Instant::now();
        let socket = control::directory().join(format!("{run}.sock"));
        while !programs(&mark).is_empty() && begun.elapsed() < time::Duration::from_secs(2) {
            thread::sleep(time::Duration::from_millis(10));
        }
        assert_eq!(programs(&mark), [], "programs are left");
        assert!(!socket.exists(), "{} is left", socket.display());
    });
}
