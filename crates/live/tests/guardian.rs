//! What guardian and `clean` leave of a run that is killed at random instants: nothing.
//!
//! This test binary plays every part: run again as [`as_runtime`] it starts programs, takes in a
//! client and promotes, demotes, freezes, thaws and ends VCPUs as fast as it can; run again as
//! [`as_guardian`] it is that runtime's guardian.

#[path = "../../../tests/shared/bounds.rs"]
mod bounds;
#[path = "../../../tests/shared/witness.rs"]
mod witness;

use bounds::{Turn, kill_at_limit, skip};
use maracas_core::VcpuId;
use maracas_live::clean::clean;
use maracas_live::control;
use maracas_live::guardian::{self, Charge, Guardian};
use maracas_live::host::cgroup::{Client, Freezer, Group, Hierarchies, Tree};
use maracas_live::host::sched::{self, KernelPolicy};
use maracas_live::host::{HardwareCore, Identity};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};
use witness::repeated;

/// Says to a run of this binary that it is a runtime, and with which mark its programs bear.
const MARK: &str = "MARACAS_TEST_MARK";
/// The process that the runtime must take in as a client.
const CLIENT: &str = "MARACAS_TEST_CLIENT";
/// How many rounds each test plays; more by the environment variable of this name.
const ROUNDS: &str = "MARACAS_TEST_ROUNDS";
/// The promise: this long after the death nothing is left, in the median of the rounds.
const PROMISE: Duration = Duration::from_millis(200);
/// How long any repair may take, on a host that is as busy as it likes.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a round takes in all: up to 80 ms of life, starts and a repair.
const ROUND: Duration = Duration::from_millis(500);

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

/// Not a test by itself: the runtime's part, when run again with a mark. Never returns then.
#[test]
fn as_runtime() {
    if let Ok(mark) = env::var(MARK) {
        let client = env::var(CLIENT).ok().and_then(|pid| pid.parse().ok());
        Runtime::start(mark, client.unwrap()).unwrap().play();
    }
}

struct Runtime {
    tree: Tree,
    guardian: Guardian,
    mark: String,
    random: u64,
    programs: Vec<(Group, Vec<i32>)>,
    client: Option<(Client, Group, i32)>,
    client_pid: i32,
    next: u32,
}

impl Runtime {
    fn start(mark: String, client_pid: i32) -> io::Result<Self> {
        let tree = Tree::create(&Hierarchies::read()?)?;
        let socket = control::socket_path()?;
        fs::create_dir_all(control::directory())?;
        fs::write(&socket, "")?;
        // Where programs count; the guardian does not get the names of such files and finds them by
        // pattern.
        fs::write(counter(tree.run()), "")?;
        let charge = Charge { run: tree.run(), files: vec![socket] };
        let words = ["as_guardian", "--exact", "--nocapture", "--test-threads=1"];
        let words = words.map(OsString::from).to_vec();
        let guardian = Guardian::start_as(charge, env::current_exe()?, words)?;
        let random = tree.run().start ^ u64::from(std::process::id());
        let programs = Vec::new();
        Ok(Self { tree, guardian, mark, random, programs, client: None, client_pid, next: 0 })
    }

    fn random(&mut self, below: u64) -> u64 {
        // Xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    fn play(mut self) -> ! {
        self.say();
        loop {
            self.guardian.heartbeats().beat(0);
            if readable(self.guardian.watch().as_raw_fd()) {
                self.guardian.revive().unwrap();
                self.say();
            }
            self.act().unwrap();
            thread::sleep(Duration::from_micros(200));
        }
    }

    fn say(&self) {
        eprintln!("guardian {}", self.guardian.pid());
    }

    fn vcpu(&mut self) -> VcpuId {
        self.next += 1;
        VcpuId(self.next)
    }

    /// One operation, in the order of the protocol.
    fn act(&mut self) -> io::Result<()> {
        match self.random(10) {
            0 if self.programs.len() < 3 => self.enrol_program(),
            1 if self.client.is_none() => self.enrol_client(),
            2 => self.stop_one(),
            3..=5 => self.each(|group, tid| {
                sched::unless_gone(sched::set_fifo(tid, 10, true))?;
                group.thaw()
            }),
            6 => self.each(|group, tid| {
                sched::unless_gone(sched::set_other(tid))?;
                group.freeze()
            }),
            7 => self.each(|group, _| group.freeze()),
            8 => self.each(|group, _| group.thaw()),
            _ => self.each(|_, tid| {
                sched::unless_gone(sched::set_other(tid))?;
                sched::unless_gone(sched::set_affinity(tid, HardwareCore(0)))?;
                sched::unless_gone(sched::set_fifo(tid, 11, true))
            }),
        }
    }

    fn each(&mut self, mut act: impl FnMut(&Group, i32) -> io::Result<()>) -> io::Result<()> {
        for (group, pids) in &self.programs {
            pids.iter().try_for_each(|pid| act(group, *pid))?;
        }
        match &self.client {
            Some((_, group, tid)) => act(group, *tid),
            None => Ok(()),
        }
    }

    /// A program that ignores SIGTERM and forks all the time, and one that sleeps.
    fn enrol_program(&mut self) -> io::Result<()> {
        let vcpu = self.vcpu();
        let group = self.tree.vcpu(vcpu)?;
        let mut pids = Vec::new();
        for script in ["trap '' TERM; while :; do sleep 0.01; done", "sleep 1000; :"] {
            let path = group.path().unwrap().join("cgroup.procs");
            let mut command = Command::new("sh");
            command.args(["-c", script, &self.mark]).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: a write of a constant to a path made before; born inside, as the launcher
            // does it.
            unsafe { command.pre_exec(move || fs::write(&path, "0")) };
            pids.push(command.spawn()?.id() as i32);
        }
        self.programs.push((group, pids));
        Ok(())
    }

    fn enrol_client(&mut self) -> io::Result<()> {
        let client = self.tree.adopt(self.client_pid)?;
        let vcpu = self.vcpu();
        let group = client.vcpu(vcpu)?;
        group.add_thread(self.client_pid)?;
        self.client = Some((client, group, self.client_pid));
        Ok(())
    }

    fn stop_one(&mut self) -> io::Result<()> {
        if self.random(2) == 0 {
            let Some((client, group, _)) = self.client.take() else { return Ok(()) };
            client.dismiss(&group)?;
            return client.release();
        }
        let Some((group, pids)) = self.programs.pop() else { return Ok(()) };
        pids.iter().try_for_each(|pid| sched::unless_gone(sched::set_other(*pid)))?;
        group.thaw()?;
        group.kill()?;
        group.remove()
    }
}

fn readable(fd: i32) -> bool {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry of our own.
    unsafe { libc::poll(&raw mut entry, 1, 0) == 1 }
}

// --- The stage.

/// A runtime under test, its client, and what the host looked like before.
struct Stage {
    mark: String,
    client: Child,
    origin: String,
    runtime: Child,
    run: Identity,
    lines: BufReader<std::process::ChildStderr>,
    guardian: i32,
}

impl Stage {
    fn set(name: &str, round: u64) -> Self {
        let mark = format!("maracas-test-{name}-{}-{round}", std::process::id());
        let client = Command::new("sleep").arg("1000").spawn().unwrap();
        let origin = fs::read_to_string(format!("/proc/{}/cgroup", client.id())).unwrap();
        let mut runtime = Command::new(env::current_exe().unwrap())
            .args(["as_runtime", "--exact", "--nocapture", "--test-threads=1"])
            .env(MARK, &mark)
            .env(CLIENT, client.id().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let run = Identity::of(runtime.id() as i32).unwrap();
        let lines = BufReader::new(runtime.stderr.take().unwrap());
        let mut stage = Self { mark, client, origin, runtime, run, lines, guardian: 0 };
        stage.guardian = stage.next_guardian();
        stage
    }

    fn next_guardian(&mut self) -> i32 {
        let mut seen = String::new();
        loop {
            let before = seen.len();
            let read = self.lines.read_line(&mut seen).unwrap();
            assert!(read > 0, "the runtime ended: {seen}");
            if let Some(pid) = seen[before..].strip_prefix("guardian ") {
                return pid.trim().parse().unwrap();
            }
        }
    }

    fn kill_runtime(&mut self) {
        self.runtime.kill().unwrap();
        self.runtime.wait().unwrap();
    }

    fn kill_guardian(&self) {
        // SAFETY: the process of our own runtime, which has not reaped it.
        assert_eq!(unsafe { libc::kill(self.guardian, libc::SIGKILL) }, 0);
    }

    /// What is left of the run: threads, groups, files, or a client that is not as it was.
    fn leavings(&mut self) -> Vec<String> {
        let mut left = marked(&self.mark);
        for hierarchy in Hierarchies::read().iter().flat_map(|h| h.v2.iter().chain(&h.v1)) {
            let tree = hierarchy.root.join("maracas").join(self.run.to_string());
            if tree.exists() {
                left.push(format!("group {}", tree.display()));
            }
        }
        let socket = control::directory().join(format!("{}.sock", self.run));
        if socket.exists() {
            left.push(format!("socket {}", socket.display()));
        }
        if counter(self.run).exists() {
            left.push(format!("counter {}", counter(self.run).display()));
        }
        let pid = self.client.id() as i32;
        if let Ok(Some(status)) = self.client.try_wait() {
            left.push(format!("the client ended: {status}"));
        } else if sched::policy_of(pid).unwrap() != KernelPolicy::Other {
            left.push("the client is raised".into());
        }
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        if groups != self.origin {
            left.push(format!("the client is in {groups}"));
        }
        left
    }

    /// Waits until nothing is left and says how long it took.
    fn watch(&mut self, patience: Duration) -> Duration {
        let start = Instant::now();
        loop {
            let left = self.leavings();
            let took = start.elapsed();
            if left.is_empty() {
                return took;
            }
            assert!(took < patience, "after {took:?}: {left:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in [&mut self.runtime, &mut self.client] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where the programs of a VCPU of `run` count their progress.
fn counter(run: Identity) -> PathBuf {
    control::directory().join(format!("{run}.vcpu1.progress"))
}

/// Living processes whose arguments hold the mark, raised or not.
fn marked(mark: &str) -> Vec<String> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let bears = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()))
    };
    pids.filter(bears).map(|pid| format!("process {pid} {:?}", sched::policy_of(pid))).collect()
}

/// What this host lacks to play, if anything.
fn missing() -> Option<&'static str> {
    const GROUPS: &str = "a writable cgroup v2 hierarchy";
    let Ok(tree) = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies)) else {
        return Some(GROUPS);
    };
    let freezer = tree.freezer();
    let _ = tree.remove();
    let mut child = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let fifo = sched::set_fifo(child.id() as i32, 1, true);
    let _ = child.kill();
    let _ = child.wait();
    match (freezer, fifo) {
        (Freezer::V2, Ok(())) => None,
        (Freezer::V2, Err(_)) => Some("the right to SCHED_FIFO"),
        (Freezer::V1 | Freezer::None, _) => Some(GROUPS),
    }
}

fn rounds(usual: u64) -> u64 {
    env::var(ROUNDS).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Plays rounds of `act`, each at a random instant of a run's life.
fn play(name: &str, usual: u64, act: impl Fn(&mut Stage) -> Duration) {
    let rounds = rounds(usual);
    let _turn = Turn::wait(ROUND * rounds as u32);
    if let Some(what) = missing() {
        return skip(what);
    }
    let mut times = Vec::new();
    for round in 0..rounds {
        let mut stage = Stage::set(name, round);
        let _rite = kill_at_limit(&stage.runtime);
        // Golden-ratio steps spread the instants evenly over 80 ms.
        let instant = (round * 618_034 % 1_000_000) * 80 / 1_000_000;
        thread::sleep(Duration::from_millis(instant));
        times.push(act(&mut stage));
    }
    times.sort();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!("{name}: {rounds} rounds, clean after {median:?} (median), {longest:?} (longest)");
    assert!(median < PROMISE, "clean after {median:?} in the median");
}

#[test]
fn the_guardian_cleans_up_after_a_killed_runtime() {
    repeated(|| {
        play("runtime", 10, |stage| {
            stage.kill_runtime();
            stage.watch(PATIENCE)
        });
    });
}

#[test]
fn a_killed_guardian_is_replaced() {
    repeated(|| {
        play("guardian", 5, |stage| {
            stage.kill_guardian();
            let start = Instant::now();
            let before = std::mem::replace(&mut stage.guardian, 0);
            stage.guardian = stage.next_guardian();
            assert_ne!(stage.guardian, before);
            let replaced = start.elapsed();
            thread::sleep(Duration::from_millis(20));
            stage.kill_runtime();
            stage.watch(PATIENCE);
            replaced
        });
    });
}

#[test]
fn clean_repairs_where_both_were_killed() {
    repeated(|| {
        play("both", 5, |stage| {
            stage.kill_guardian();
            stage.kill_runtime();
            let report = clean().unwrap();
            let ours = |restored: &&guardian::restore::Restored| restored.run == stage.run;
            let restored = report.restored.iter().find(ours).cloned();
            assert_eq!(report.obstacles, []);
            // A guardian started in time by the dying runtime is fine, too.
            if let Some(restored) = restored {
                assert!(restored.to_string().contains("removed"), "{restored}");
            }
            stage.watch(PATIENCE)
        });
    });
}

#[test]
fn clean_leaves_a_living_run_alone() {
    repeated(|| {
        play("living", 1, |stage| {
            thread::sleep(Duration::from_millis(50));
            let report = clean().unwrap();
            assert!(report.living.contains(&stage.run), "{report}");
            assert!(!report.restored.iter().any(|restored| restored.run == stage.run), "{report}");
            assert!(stage.run.is_alive());
            stage.kill_runtime();
            stage.watch(PATIENCE)
        });
    });
}

#[test]
fn a_stopped_runtime_is_relieved_of_its_threads() {
    repeated(|| {
        play("stopped", 1, |stage| {
            thread::sleep(Duration::from_millis(200));
            // SAFETY: our own child.
            assert_eq!(unsafe { libc::kill(stage.run.pid, libc::SIGSTOP) }, 0);
            // A second of patience, and two looks.
            thread::sleep(Duration::from_millis(2_000));
            let raised: Vec<String> = marked(&stage.mark)
                .into_iter()
                .filter(|process| process.contains("Fifo"))
                .collect();
            assert_eq!(raised, Vec::<String>::new());
            assert_eq!(sched::policy_of(stage.client.id() as i32).unwrap(), KernelPolicy::Other);
            stage.kill_runtime();
            stage.watch(PATIENCE)
        });
    });
}

/// Time that all threads of a process have had.
fn service_ns(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |text: String| text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    tasks.filter_map(|task| of(fs::read_to_string(task.path().join("schedstat")).ok()?)).sum()
}

#[test]
fn a_guardian_leaves_at_goodbye() {
    repeated(|| {
        let _turn = Turn::wait(Duration::from_secs(2));
        if let Some(what) = missing() {
            return skip(what);
        }
        let charge =
            Charge { run: Identity::own().unwrap(), files: vec![PathBuf::from("/nowhere")] };
        let words =
            ["as_guardian", "--exact", "--nocapture", "--test-threads=1"].map(OsString::from);
        let guardian =
            Guardian::start_as(charge, env::current_exe().unwrap(), words.to_vec()).unwrap();
        let pid = guardian.pid() as i32;
        assert_eq!(
            sched::policy_of(pid).unwrap(),
            KernelPolicy::Fifo { priority: 99, reset_on_fork: false }
        );
        let before = service_ns(pid);
        thread::sleep(Duration::from_secs(2));
        eprintln!("the guardian used {} ns in two seconds", service_ns(pid) - before);
        assert!(!readable(guardian.watch().as_raw_fd()));
        guardian.goodbye();
        assert!(Identity::of(pid).is_err(), "the guardian is still there");
    });
}
