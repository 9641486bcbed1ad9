//! A program that does what it can to get more than it was promised: it forks, execs, makes
//! threads and daemons, asks for real-time priority and for other cores, keeps the kernel busy,
//! stops and continues itself, and sleeps when it believes that it is measured. It gets its budget
//! and no more, and its neighbours keep theirs.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`). 6 s, and 60 s with
//! `MARACAS_ACCEPTANCE=full`. What it got is read from the runtime's meter and, independently,
//! from the kernel's own count for its control group (`cpu.stat` of v2).

mod common;
mod live;

use live::witness::repeated;
use live::{Run, Stage, sized};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, ptr, thread};

/// Under this variable this test program plays the hostile one; its value is the part.
const PART: &str = "MARACAS_HOSTILE";
/// Set, it tries to stop the runtime too.
const STOPS: &str = "MARACAS_HOSTILE_STOPS";
/// C and T of the hostile program.
const BUDGET_NS: f64 = 2e6;
const PERIOD_NS: f64 = 10e6;
/// What it may get beyond its budget, beside what was stolen.
const EXCESS: f64 = 0.01;

#[test]
fn a_hostile_program_gets_its_budget_and_no_more() {
    repeated(|| {
        if let Some(part) = env::var_os(PART) {
            hostile::play(&part.to_string_lossy());
            return;
        }
        let Some(stage) = Stage::enter(2, sized(60, 6)) else { return };
        stage.scratch.write("hostile.toml", scenario());
        let length = sized(Duration::from_secs(60), Duration::from_secs(6));
        let duration = format!("{}s", length.as_secs());
        let mut run = stage.start(&["hostile.toml", "--json", "--duration", &duration], &[]);
        let watched = watch(&run, length);
        let report = run.report();
        let gone = live::until(Duration::from_secs(1), || run.host.leftovers().none());
        assert!(gone.is_some(), "{:?}", run.host.leftovers());

        let hostile = report.task("hostile");
        let own = hostile.ns("foreground_ns");
        let promised = report.0["duration_ns"].as_f64().unwrap() / PERIOD_NS * BUDGET_NS;
        let surplus = hostile.ns("background_ns") / 1e6;
        eprintln!(
            "hostile, by the meter: {:.4} of its budget, and {surplus:.1} ms while the others \
             started",
            own / promised
        );
        let within = hostile.within(EXCESS);
        assert!(own < promised * (1.0 + within), "{own} of {promised} ns");
        watched.judge(within);
        report.task("same-core").got_its_budget();
        report.task("other-core").got_its_budget();
    });
}

/// The hostile program on core 0 and a neighbour on each core. None gets surplus time, so that
/// whatever exceeds C is an escape.
fn scenario() -> String {
    // Where the kernel cannot keep root's programs from it, they can, and the run is ended.
    let stops = if live::shuts_signals() { format!(", {STOPS} = \"1\"") } else { String::new() };
    if stops.is_empty() {
        eprintln!("before Linux 6.12 root's programs may stop the runtime: that is not tried");
    }
    let own = env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    format!(
        r#"
version = 1
[platform]
cores = 2
[policy]
name = "maracas"
background = "off"
[[program]]
name = "hostile"
command = ["{own}", "--exact", "a_hostile_program_gets_its_budget_and_no_more", "--nocapture"]
env = {{ {PART} = "all"{stops} }}
output = "null"
budget = "2ms"
period = "10ms"
core = 0
[[program]]
name = "same-core"
command = ["maracas", "work", "spin"]
output = "null"
budget = "3ms"
period = "10ms"
core = 0
[[program]]
name = "other-core"
command = ["maracas", "work", "spin"]
output = "null"
budget = "4ms"
period = "20ms"
core = 1
"#
    )
}

/// What was seen from outside while it ran.
#[derive(Default)]
struct Watched {
    /// The kernel's count at the first and at the last look, and the instants.
    first: Option<(Instant, f64)>,
    last: Option<(Instant, f64)>,
    /// The most processes and threads at one look.
    processes: usize,
    threads: usize,
    parts: BTreeSet<String>,
    /// Looks at which one of its processes was outside its group, its core or its class.
    escapes: Vec<String>,
}

/// Looks ten times a second at all processes of the hostile program, from the time on when all
/// programs have started: nothing can be stopped while one is being started.
fn watch(run: &Run, length: Duration) -> Watched {
    let mut watched = Watched::default();
    run.at(Duration::from_secs(1));
    let end = Instant::now() + length.saturating_sub(Duration::from_millis(1300));
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(100));
        watched.look(run);
    }
    watched
}

impl Watched {
    fn look(&mut self, run: &Run) {
        let group = format!("/maracas/{}/vcpu-0", run.host.identity());
        if let Some(used) = used_ns(run, &group) {
            let now = (Instant::now(), used);
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
        let (mut processes, mut threads) = (0, 0);
        for process in run.host.processes() {
            let part = format!("{PART}=");
            let part = process.environment.iter().find_map(|word| word.strip_prefix(&part));
            let Some(part) = part else { continue };
            let (member, status) = (process.read("cgroup"), process.read("status"));
            let policies = process.policies();
            // One that ended between the looks shows nothing; nor does one that is still held
            // before its first instruction, which is ours.
            if member.is_empty() || status.is_empty() || policies.is_empty() {
                continue;
            }
            self.parts.insert(part.to_string());
            processes += 1;
            threads += policies.len();
            let core = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            // The runtime's own promotions are FIFO below the agents' 98.
            let raised = policies.iter().any(|(policy, at)| *policy > 1 || *at >= 97);
            if !member.contains(&group) || core.is_none_or(|core| core.trim() != "0") || raised {
                let what = format!("{part}: core {core:?}, {policies:?}, groups {member}");
                self.escapes.push(what);
            }
        }
        self.processes = self.processes.max(processes);
        self.threads = self.threads.max(threads);
    }

    fn judge(&self, within: f64) {
        let (Some((begin, before)), Some((end, after))) = (self.first, self.last) else {
            eprintln!("the kernel's own count needs control groups v2; the meter alone was judged");
            return;
        };
        let (used, window) = (after - before, (end - begin).as_nanos() as f64);
        // A window that begins and ends anywhere holds at most one budget more than its periods.
        let promised = (window / PERIOD_NS + 1.0) * BUDGET_NS;
        eprintln!(
            "hostile, by the kernel: {:.4} of its budget, {:.2} % of the core over {:.1} s; up to \
             {} processes with {} threads, parts {:?}",
            used / (window / PERIOD_NS * BUDGET_NS),
            used / window * 100.0,
            window / 1e9,
            self.processes,
            self.threads,
            self.parts,
        );
        assert!(used < promised * (1.0 + within), "{used} of {promised} ns");
        assert!(self.escapes.is_empty(), "{:#?}", self.escapes);
        assert!(self.processes >= 8, "it was not hostile: {} processes", self.processes);
        assert!(self.parts.len() >= 4, "parts that ran: {:?}", self.parts);
    }
}

/// What the kernel says that the group has used, in nanoseconds.
fn used_ns(run: &Run, group: &str) -> Option<f64> {
    let groups = run.host.groups();
    let dir = groups.iter().find(|dir| dir.to_string_lossy().ends_with(group) && is_v2(dir))?;
    let stat = fs::read_to_string(dir.join("cpu.stat")).ok()?;
    let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    used.parse::<f64>().ok().map(|us| us * 1e3)
}

fn is_v2(dir: &Path) -> bool {
    dir.join("cgroup.events").exists()
}

/// The hostile side. Every refusal is what we hope for, so no result is looked at.
mod hostile {
    use super::*;
    use std::io::{BufReader, Read};
    use std::os::fd::FromRawFd;

    /// Processes of a storm at once, and daemons: enough to be a nuisance, and no more than a test
    /// machine bears.
    const STORM: usize = 40;
    const DAEMONS: usize = 3;
    /// What runs beside the daemons, each a program of its own.
    const BESIDE: [&str; 4] = ["exec", "kernel", "sleeper", "stopper"];
    /// The end of a pipe to which each part says that it has begun: above what this program opens.
    const BEGUN: i32 = 100;

    pub(super) fn play(part: &str) {
        let number = BESIDE.iter().position(|beside| *beside == part);
        let byte = number.map_or(u8::MAX, |number| number as u8);
        // SAFETY: one byte of our own; where nothing is open at this number it is refused.
        let _ = unsafe { libc::write(BEGUN, ptr::from_ref(&byte).cast(), 1) };
        match part {
            "all" => all(),
            "daemon" => {
                // SAFETY: no arguments.
                unsafe { libc::setsid() };
                grab();
                spin_for(Duration::from_secs(3600));
            }
            "kernel" => keep_the_kernel_busy(),
            "sleeper" => sleep_when_measured(),
            "stopper" => stop_and_go(),
            // An exec every few milliseconds, for ever.
            "exec" => {
                grab();
                spin_for(Duration::from_millis(3));
                exec("exec");
            }
            other => panic!("no part {other}"),
        }
    }

    fn all() {
        grab();
        let begun = begun();
        for _ in 0..DAEMONS {
            // Twice forked, and a session of its own later: its parent is init.
            fork(|| {
                fork(|| exec("daemon"));
            });
        }
        for part in BESIDE {
            fork(|| exec(part));
        }
        // All must have begun before the storm takes what budget there is. A start of this program
        // takes a slow host as long as many budgets.
        let mut waited_for = BTreeSet::from_iter(0..BESIDE.len() as u8);
        for byte in BufReader::new(begun).bytes().map_while(Result::ok) {
            waited_for.remove(&byte);
            if waited_for.is_empty() {
                break;
            }
        }
        for _ in 0..4 {
            thread::spawn(|| {
                loop {
                    grab();
                    escape();
                    spin_for(Duration::from_millis(20));
                }
            });
        }
        let mut alive = 0;
        loop {
            while alive < STORM {
                alive += usize::from(fork(|| spin_for(Duration::from_millis(5))) > 0);
            }
            alive -= collect();
        }
    }

    /// Where parts say that they have begun: a pipe, whose other end they inherit as [`BEGUN`].
    /// They do not wait where it is full.
    fn begun() -> fs::File {
        let mut ends = [0; 2];
        // SAFETY: an array of two, and descriptors of our own.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::dup2(ends[1], BEGUN), BEGUN);
            libc::fcntl(BEGUN, libc::F_SETFL, libc::O_NONBLOCK);
            fs::File::from_raw_fd(ends[0])
        }
    }

    /// Real-time priority, the best nice value and all cores, for this thread.
    fn grab() {
        // SAFETY: plain arguments and structures of our own.
        unsafe {
            let mut cores: libc::cpu_set_t = std::mem::zeroed();
            (0..64).for_each(|core| libc::CPU_SET(core, &mut cores));
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cores);
            libc::CPU_CLR(0, &mut cores);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &cores);
            let highest = libc::sched_param { sched_priority: 99 };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &highest);
            libc::sched_setscheduler(0, libc::SCHED_RR, &highest);
            libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        }
    }

    /// Out of the group, and harm to the process that keeps us there.
    fn escape() {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset"];
        for root in roots.map(PathBuf::from) {
            let _ = fs::write(root.join("cgroup.procs"), "0");
            let _ = fs::write(root.join("tasks"), "0");
        }
        // SAFETY: plain arguments. Our parent is the runtime.
        unsafe {
            if env::var_os(STOPS).is_some() {
                libc::kill(libc::getppid(), libc::SIGSTOP);
            }
            libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWCGROUP);
        }
    }

    /// 64 MB reads of /dev/zero: one system call of milliseconds.
    fn keep_the_kernel_busy() {
        let mut zero = fs::File::open("/dev/zero").unwrap();
        let mut buffer = vec![0; 64 << 20];
        loop {
            grab();
            let _ = zero.read_exact(&mut buffer);
        }
    }

    /// Blocks just before it would be noticed: short of a tick, of a budget, of a slice.
    fn sleep_when_measured() {
        loop {
            for us in [50, 300, 900, 1900, 3900] {
                spin_for(Duration::from_micros(us));
                thread::sleep(Duration::from_micros(30));
                thread::yield_now();
            }
        }
    }

    /// Stops and continues children in quick succession, itself among the stopped.
    fn stop_and_go() {
        let child = fork(|| spin_for(Duration::from_secs(3600)));
        loop {
            for signal in [libc::SIGSTOP, libc::SIGCONT] {
                // SAFETY: plain arguments; our own child.
                unsafe { libc::kill(child, signal) };
                spin_for(Duration::from_micros(700));
            }
        }
    }

    fn spin_for(time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    }

    /// Runs `act` in a child, which then ends.
    fn fork(act: impl FnOnce()) -> i32 {
        // SAFETY: the child uses this thread alone, never unwinds and ends by _exit.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                act();
                libc::_exit(0);
            }
            child
        }
    }

    /// Waits for a child of the storm; how many have ended. The others never end.
    fn collect() -> usize {
        // SAFETY: no status is asked for.
        let ended = unsafe { libc::waitpid(-1, ptr::null_mut(), 0) };
        usize::from(ended > 0)
    }

    /// Becomes this test program again, in another part.
    fn exec(part: &str) {
        let own = CString::new(env::current_exe().unwrap().as_os_str().as_bytes()).unwrap();
        let word = |word: &str| CString::new(word).unwrap();
        let test = word("a_hostile_program_gets_its_budget_and_no_more");
        let words = [own.clone(), word("--exact"), test, word("--nocapture")];
        let others = env::vars().filter(|(name, _)| name != PART);
        let mut variables: Vec<_> =
            others.map(|(name, value)| word(&format!("{name}={value}"))).collect();
        variables.push(word(&format!("{PART}={part}")));
        let pointers = |strings: &[CString]| {
            strings.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        let (words, variables) = (pointers(&words), pointers(&variables));
        // SAFETY: both lists end with null and outlive the call.
        unsafe {
            libc::execve(own.as_ptr(), words.as_ptr(), variables.as_ptr());
            libc::_exit(127);
        }
    }
}
