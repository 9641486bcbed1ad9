//! What a guardian does for a run of which an agent is stuck: the core of that agent alone is taken
//! down, and a run that stays stuck ends, with the reason said.
//!
//! This test binary plays every part, as in `guardian.rs`: run again as [`as_runtime`] it starts a
//! program on each of two cores, raises them, and says of two agents that they sleep and wake; run
//! again as [`as_guardian`] it is that runtime's guardian. No agent of the real machine runs.

#[path = "../../../tests/shared/witness.rs"]
mod witness;

use maracas_core::VcpuId;
use maracas_live::guardian::{self, Charge, Ending, Guardian};
use maracas_live::host::cgroup::{Freezer, Group, Hierarchies, Tree};
use maracas_live::host::platform::Platform;
use maracas_live::host::sched::{self, KernelPolicy};
use maracas_live::host::{HardwareCore, Identity};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};
use witness::repeated;

/// Says to a run of this binary that it is a runtime, and which [`Play`] it gives.
const PLAY: &str = "MARACAS_TEST_PLAY";
/// What the agents do until the play begins.
const HEALTHY: Duration = Duration::from_millis(300);
/// A turn of a healthy agent.
const TURN: Duration = Duration::from_millis(2);
/// For how long the agent is stuck that comes back.
const HANGS: Duration = Duration::from_millis(1_500);
/// The guardian relieves after 375 ms at most; thrice that, for a host that steals time.
const RELIEVED: Duration = Duration::from_millis(1_200);
/// It kills after five seconds; twice that.
const ENDED: Duration = Duration::from_secs(10);

// --- The parts.

/// Not a test by itself: the guardian's part, when run again with a guardian's arguments.
#[test]
fn as_guardian() {
    let arguments: Vec<OsString> = env::args_os().collect();
    let is_run = |word: &OsString| word.to_str().and_then(Identity::parse).is_some();
    if let Some(at) = arguments.iter().position(is_run) {
        let code = guardian::main(arguments.into_iter().skip(at));
        assert_eq!(code, std::process::ExitCode::SUCCESS);
    }
}

/// Not a test by itself: the runtime's part, when run again with a play. Never returns then.
#[test]
fn as_runtime() {
    if let Ok(play) = env::var(PLAY) {
        Runtime::start().unwrap().play(&play);
    }
}

/// A runtime of two agents, one program each.
struct Runtime {
    tree: Tree,
    guardian: Guardian,
    programs: Vec<(Group, Child)>,
    begun: Instant,
}

impl Runtime {
    fn start() -> io::Result<Self> {
        let tree = Tree::create(&Hierarchies::read()?)?;
        let charge = Charge { run: tree.run(), files: Vec::new() };
        let words = ["as_guardian", "--exact", "--nocapture", "--test-threads=1"];
        let words = words.map(OsString::from).to_vec();
        let guardian = Guardian::start_as(charge, env::current_exe()?, words)?;
        let cores = cores();
        guardian.agents_on(&cores);
        let mut programs = Vec::new();
        for (number, core) in cores.iter().enumerate() {
            let group = tree.vcpu(VcpuId(number as u32))?;
            group.confine(*core)?;
            let path = group.path().unwrap().join("cgroup.procs");
            let mut command = Command::new("sleep");
            command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null());
            // SAFETY: a write of a constant to a path made before; born inside, as the launcher
            // does it.
            unsafe { command.pre_exec(move || fs::write(&path, "0")) };
            let program = command.spawn()?;
            sched::set_affinity(program.id() as i32, *core)?;
            programs.push((group, program));
        }
        let runtime = Self { tree, guardian, programs, begun: Instant::now() };
        runtime.raise(0)?;
        runtime.raise(1)?;
        Ok(runtime)
    }

    fn raise(&self, agent: usize) -> io::Result<()> {
        let (group, program) = &self.programs[agent];
        sched::set_fifo(program.id() as i32, 10, true)?;
        group.thaw()
    }

    /// Lives until it is killed or called. Agent 1 is the one that is stuck, if any is.
    fn play(self, play: &str) -> ! {
        let pids: Vec<_> = self.programs.iter().map(|(_, program)| program.id()).collect();
        // As agents are, or a busy host would make both late.
        sched::set_fifo(0, 98, true).unwrap();
        eprintln!("programs {} {}", pids[0], pids[1]);
        let heartbeats = self.guardian.heartbeats();
        let mut seen = [heartbeats.reliefs(0), heartbeats.reliefs(1)];
        loop {
            let since = self.begun.elapsed();
            for (agent, seen) in seen.iter_mut().enumerate() {
                // One that hangs sleeps on beyond what it asked for; one that spins never sleeps.
                if agent == 1 && play == "hangs" && (HEALTHY..HEALTHY + HANGS).contains(&since) {
                    continue;
                }
                heartbeats.wakes(agent, now_ns());
                if heartbeats.reliefs(agent) != *seen {
                    *seen = heartbeats.reliefs(agent);
                    eprintln!("agent {agent} was relieved");
                    self.raise(agent).unwrap();
                }
                if agent == 0 || play != "spins" || since < HEALTHY {
                    heartbeats.sleeps(agent, now_ns() + 2 * TURN.as_nanos() as u64);
                }
            }
            thread::sleep(TURN);
            if let Some(why) = self.guardian.ending().filter(|_| play == "obeys") {
                self.end(why);
            }
        }
    }

    /// The orderly end.
    fn end(self, why: Ending) -> ! {
        eprintln!("ending since {why}");
        let heartbeats = self.guardian.heartbeats();
        for (agent, (group, mut program)) in self.programs.into_iter().enumerate() {
            sched::unless_gone(sched::set_other(program.id() as i32)).unwrap();
            group.thaw().unwrap();
            heartbeats.rest(agent);
            group.kill().unwrap();
            program.wait().unwrap();
            group.remove().unwrap();
        }
        self.tree.remove().unwrap();
        self.guardian.goodbye();
        eprintln!("ended in order");
        std::process::exit(0);
    }
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure that we give.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cores() -> Vec<HardwareCore> {
    Platform::detect().map_or_else(|_| Vec::new(), |host| host.cores.into_iter().take(2).collect())
}

// --- The stage.

/// A runtime under test.
struct Stage {
    runtime: Child,
    run: Identity,
    output: PathBuf,
    programs: Vec<i32>,
}

impl Stage {
    fn set(play: &str) -> Self {
        let name = format!("maracas-stuck-{play}-{}", std::process::id());
        let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let output = if output.is_dir() { output } else { env::temp_dir() }.join(name);
        let runtime = Command::new(env::current_exe().unwrap())
            .args(["as_runtime", "--exact", "--nocapture", "--test-threads=1"])
            .env(PLAY, play)
            .stdout(Stdio::null())
            .stderr(File::create(&output).unwrap())
            .spawn()
            .unwrap();
        let run = Identity::of(runtime.id() as i32).unwrap();
        let mut stage = Self { runtime, run, output, programs: Vec::new() };
        stage.wait(ENDED, |stage| {
            let said = stage.said();
            let line = said.lines().find_map(|line| line.strip_prefix("programs "));
            let pids = line.map(|line| line.split(' ').flat_map(str::parse).collect());
            stage.programs = pids.unwrap_or_default();
            stage.programs.len() == 2
        });
        stage
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// Waits until something is so, and fails with what was said if it is not in time.
    fn wait(&mut self, patience: Duration, mut is_so: impl FnMut(&mut Self) -> bool) -> Duration {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < patience, "not after {patience:?}: {}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// Whether the program of an agent is raised, and whether its group is frozen.
    fn state(&self, agent: usize) -> (bool, bool) {
        let policy = sched::policy_of(self.programs[agent]);
        let raised = matches!(policy, Ok(KernelPolicy::Fifo { .. }));
        let run = self.run.to_string();
        let v2 = Hierarchies::read().unwrap().v2.unwrap();
        let dirs = [&v2.root, &v2.own].map(|base| base.join("maracas").join(&run));
        let files = dirs.map(|dir| dir.join(format!("vcpu-{agent}/cgroup.freeze")));
        let frozen = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|text| text == "1\n");
        (raised, files.iter().any(frozen))
    }

    /// Whether nothing is left: neither runtime nor programs nor groups.
    fn is_clean(&mut self) -> bool {
        let ended = self.runtime.try_wait().unwrap().is_some();
        let gone = self.programs.iter().all(|pid| Identity::of(*pid).is_err());
        let v2 = Hierarchies::read().unwrap().v2.unwrap();
        let dirs = [&v2.root, &v2.own].map(|base| base.join("maracas").join(self.run.to_string()));
        ended && gone && !dirs.iter().any(|dir| dir.exists())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.runtime.kill();
        let _ = self.runtime.wait();
        let _ = fs::remove_file(&self.output);
    }
}

/// The reason why this host cannot play, if there is one.
fn missing() -> Option<String> {
    if cores().len() < 2 {
        return Some("needs two cores".into());
    }
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies)).ok()?;
    let freezer = tree.freezer();
    let _ = tree.remove();
    let mut child = Command::new("sleep").arg("1000").spawn().ok()?;
    let fifo = sched::set_fifo(child.id() as i32, 1, true);
    let _ = child.kill();
    let _ = child.wait();
    match (freezer, fifo) {
        (Freezer::V2, Ok(())) => None,
        (Freezer::V2, Err(error)) => Some(format!("needs the right to raise threads: {error}")),
        (Freezer::V1 | Freezer::None, _) => Some("needs a writable cgroup v2 hierarchy".into()),
    }
}

macro_rules! stage {
    ($play:expr) => {
        match missing() {
            None => Stage::set($play),
            Some(why) => return eprintln!("skipped: {why}"),
        }
    };
}

#[test]
fn the_core_of_a_stuck_agent_alone_is_taken_down_and_the_agent_learns_of_it() {
    repeated(|| {
        let mut stage = stage!("hangs");
        stage.wait(HEALTHY, |stage| stage.state(1) == (true, false));
        let took = stage.wait(HEALTHY + RELIEVED, |stage| {
            assert_eq!(
                stage.state(0),
                (true, false),
                "the other core is let alone: {}",
                stage.said()
            );
            stage.state(1) == (false, true)
        });
        stage.wait(HANGS + RELIEVED, |stage| stage.state(1) == (true, false));
        eprintln!("relieved {took:?} after the stage was set, and raised again");
        let said = stage.said();
        assert!(said.contains("agent 1 was relieved"), "{said}");
        assert!(said.contains("maracas: guardian: core1's agent has been stuck for"), "{said}");
        assert!(!said.contains("agent 0 was relieved") && !said.contains("core0"), "{said}");
        assert_eq!(stage.runtime.try_wait().unwrap(), None, "the run goes on: {said}");
        stage.runtime.kill().unwrap();
        stage.wait(ENDED, Stage::is_clean);
    });
}

#[test]
fn a_run_with_an_agent_that_spins_is_killed_and_the_reason_is_said() {
    repeated(|| {
        let mut stage = stage!("spins");
        let took = stage.wait(ENDED, Stage::is_clean);
        eprintln!("clean {took:?} after the stage was set: {}", stage.said());
        assert!(took > Duration::from_secs(4), "it is given time to come back: {took:?}");
        let said = stage.said();
        for word in ["core1's agent has been late for 3", "asked the run to end", "killed the run"]
        {
            assert!(said.contains(word), "{word}: {said}");
        }
    });
}

#[test]
fn a_stopped_run_is_continued_to_end_in_order() {
    repeated(|| {
        let mut stage = stage!("obeys");
        thread::sleep(HEALTHY);
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::kill(stage.run.pid, libc::SIGSTOP) }, 0);
        let took = stage.wait(RELIEVED, |stage| (0..2).all(|agent| stage.state(agent).1));
        assert_eq!((stage.state(0).0, stage.state(1).0), (false, false), "{took:?}");
        stage.wait(ENDED, Stage::is_clean);
        let said = stage.said();
        for word in ["the runtime has been stopped for 3", "asked the run to end", "ended in order"]
        {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!said.contains("killed the run"), "{said}");
    });
}
