//! The tries, one function a capability, in one table.

use super::subject::{Subject, now_ns};
use super::{Capability, Finding, Latency, State};
use crate::host::cgroup::{Confinement, Freezer, Group, Tree, cgroup_mounts};
use crate::host::launch::{Signals, fork, seal_trial};
use crate::host::platform::Platform;
use crate::host::sched::{self, KernelPolicy};
use crate::host::{HardwareCore, sys};
use crate::perf::Service;
use maracas_live_core::priority;
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as abi;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};
use std::{io, ptr, thread};

/// How often the freezer's latency is taken.
const ROUNDS: usize = 15;
/// Time of a subject that must be counted: what it runs between two ticks of a clock (CONFIG_HZ is
/// 1000 at most) can be no rounding.
const BUDGET_NS: u64 = 1_000_000;
/// How long an event may take before it counts as missing, on a core that real-time threads of
/// others leave 50 ms a second of.
const PATIENCE_MS: i32 = 2000;

/// What the tries work with.
pub(super) struct Bench<'a> {
    platform: &'a Platform,
    tree: &'a Tree,
    group: &'a Group,
    core: HardwareCore,
    cores: &'a [HardwareCore],
    subject: Subject,
    pub(super) latency: Option<Latency>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        platform: &'a Platform,
        tree: &'a Tree,
        group: &'a Group,
        core: HardwareCore,
        cores: &'a [HardwareCore],
    ) -> io::Result<Bench<'a>> {
        group.confine(core)?;
        let subject = Subject::start(group, core)?;
        Ok(Bench { platform, tree, group, core, cores, subject, latency: None })
    }
}

/// One row of the table.
pub(super) struct Try {
    pub(super) capability: Capability,
    /// Proof that it works, or the refusal. Facts always "work".
    act: fn(&mut Bench<'_>) -> io::Result<String>,
    is_fact: bool,
    pub(super) remedy: &'static str,
    fallback: &'static str,
}

impl Try {
    pub(super) fn find(&self, bench: &mut Bench<'_>) -> Finding {
        let result = (self.act)(bench);
        let state = match (&result, self.is_fact) {
            (_, true) => State::Fact,
            (Ok(_), false) => State::Works,
            (Err(_), false) => State::Missing,
        };
        let lost = state == State::Missing;
        Finding {
            capability: self.capability,
            state,
            proof: result.unwrap_or_else(|error| error.to_string()),
            remedy: if lost { self.remedy } else { "" },
            fallback: if lost { self.fallback } else { "" },
        }
    }
}

const fn attempt(
    capability: Capability,
    act: fn(&mut Bench<'_>) -> io::Result<String>,
    remedy: &'static str,
    fallback: &'static str,
) -> Try {
    Try { capability, act, is_fact: false, remedy, fallback }
}

const fn fact(capability: Capability, act: fn(&mut Bench<'_>) -> io::Result<String>) -> Try {
    Try { capability, act, is_fact: true, remedy: "", fallback: "" }
}

const PERFMON: &str = "root, CAP_PERFMON, or kernel.perf_event_paranoid 0";

/// All tries; the kill comes last among those that need the spinning subject.
pub(super) const TABLE: [Try; 17] = [
    attempt(
        Capability::Fifo,
        fifo,
        "root or CAP_SYS_NICE; with RT_GROUP_SCHED a cpu group with real-time runtime",
        "stop and continue signals, best effort with errors of milliseconds",
    ),
    attempt(
        Capability::Freezer,
        freezer,
        "root, or a delegated cgroup v2 subtree",
        "background shared by the kernel's fair class, not by the policy",
    ),
    attempt(Capability::StopSignal, stop_signal, "", "simulation only"),
    attempt(
        Capability::Cpuset,
        cpuset,
        "root and the cpuset controller, v1 or v2",
        "an affinity only, which a program may change itself",
    ),
    attempt(
        Capability::Seal,
        seal,
        "root; Linux with Landlock, 5.13 against inspection, 6.12 against signals",
        "started programs keep what the proof names as open",
    ),
    attempt(
        Capability::GroupBudget,
        group_budget,
        PERFMON,
        "timer at the earliest exhaustion plus the sum of the threads' counters",
    ),
    attempt(
        Capability::SwitchRecords,
        switch_records,
        PERFMON,
        "use within a period counted whole at its start (deferrable, not sporadic)",
    ),
    attempt(
        Capability::MemoryLock,
        memory_lock,
        "CAP_IPC_LOCK or a higher memlock limit",
        "agents may wait for a page fault",
    ),
    attempt(
        Capability::Pidfd,
        pidfd,
        "Linux 5.3, and a system call filter that lets pidfd_open pass",
        "simulation only",
    ),
    attempt(Capability::TimerSlack, timer_slack, "", "timers up to 50 us late without SCHED_FIFO"),
    attempt(
        Capability::Deadline,
        deadline,
        "root or CAP_SYS_NICE, and free deadline bandwidth",
        "left out of comparisons",
    ),
    attempt(
        Capability::GroupKill,
        group_kill,
        "cgroup v2 and Linux 5.14",
        "signals to each process until the group is empty",
    ),
    fact(Capability::Cores, cores),
    fact(Capability::RealtimeThrottle, realtime_throttle),
    fact(Capability::FairServer, fair_server),
    fact(Capability::Preemption, preemption),
    fact(Capability::Steal, steal),
];

fn fifo(bench: &mut Bench<'_>) -> io::Result<String> {
    let pid = bench.subject.pid;
    sched::set_fifo(pid, 1, true)?;
    let policy = sched::policy_of(pid)?;
    sched::set_other(pid)?;
    match policy {
        KernelPolicy::Fifo { .. } => Ok("a process in our group became SCHED_FIFO".to_owned()),
        KernelPolicy::Other | KernelPolicy::Foreign(_) => Err(io::Error::other("not set")),
    }
}

/// Freezes and thaws the spinning subject and reads off its own clock when it stopped and went on.
fn freezer(bench: &mut Bench<'_>) -> io::Result<String> {
    let kind = match bench.tree.freezer() {
        Freezer::V2 => "v2",
        Freezer::V1 => "v1",
        Freezer::None => return Err(io::Error::other("no hierarchy takes a group of ours")),
    };
    let other = bench.platform.cores.iter().find(|core| **core != bench.core);
    let (group, subject) = (bench.group, &bench.subject);
    // From another core where there is one, or the subject would have stopped for us already.
    let latency = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            other.map_or(Ok(()), |core| sched::set_affinity(0, *core))?;
            measure(group, subject)
        });
        measuring.join().unwrap_or_else(|_| Err(io::Error::other("the thread died")))
    })?;
    bench.latency = Some(latency);
    let us = |ns: u64| format!("{}.{}", ns / 1000, ns % 1000 / 100);
    let (off, on) = (us(latency.freeze_ns), us(latency.thaw_ns));
    Ok(format!("{kind}: a spinning process stopped in {off} us and went on in {on} us"))
}

fn measure(group: &Group, subject: &Subject) -> io::Result<Latency> {
    let (mut freezes, mut thaws) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        // Only what runs can be seen to stop.
        subject.runs_after(now_ns())?;
        let begun = now_ns();
        group.freeze()?;
        let frozen = frozen(group);
        freezes.push(subject.latest_ns().saturating_sub(begun));
        let begun = now_ns();
        // Thawed in any case: nothing may stay frozen.
        group.thaw()?;
        frozen?;
        thaws.push(subject.runs_after(begun)?.saturating_sub(begun));
    }
    Ok(Latency { freeze_ns: median(&mut freezes), thaw_ns: median(&mut thaws) })
}

/// Freezes and thaws the subject without waiting for it, at the priority of an agent where that is
/// allowed; what both calls take together, the median.
pub(super) fn calls(bench: &Bench<'_>) -> io::Result<Option<maracas_core::Duration>> {
    if bench.tree.freezer() == Freezer::None {
        return Ok(None);
    }
    let group = bench.group;
    let call = || {
        let begun = now_ns();
        let frozen = group.freeze();
        // Thawed in any case: nothing may stay frozen.
        group.thaw()?;
        frozen.map(|()| now_ns() - begun)
    };
    let times: io::Result<Vec<u64>> = thread::scope(|scope| {
        let calling = scope.spawn(|| {
            // An ordinary thread is delayed by others, of which a median says little.
            let _ = sched::set_fifo(0, priority::AGENT, true);
            (0..ROUNDS).map(|_| call()).collect()
        });
        calling.join().unwrap_or_else(|_| Err(io::Error::other("the thread died")))
    });
    Ok(Some(maracas_core::Duration::from_nanos(median(&mut times?))))
}

fn frozen(group: &Group) -> io::Result<()> {
    let begun = now_ns();
    while !group.is_frozen()? {
        if now_ns() - begun > PATIENCE_MS as u64 * 1_000_000 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the group did not freeze"));
        }
        thread::yield_now();
    }
    Ok(())
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn stop_signal(bench: &mut Bench<'_>) -> io::Result<String> {
    let pid = bench.subject.pid;
    sys::kill(pid, libc::SIGSTOP)?;
    // SAFETY: our own child; a stop is reported once and nothing is collected.
    let stopped = unsafe { libc::waitpid(pid, ptr::null_mut(), libc::WUNTRACED) } == pid;
    let at = now_ns();
    sys::kill(pid, libc::SIGCONT)?;
    bench.subject.runs_after(at)?;
    if stopped {
        Ok("a process stopped and went on".to_owned())
    } else {
        Err(io::Error::other("the process did not stop"))
    }
}

fn cpuset(bench: &mut Bench<'_>) -> io::Result<String> {
    let kind = match bench.tree.confinement() {
        Confinement::CpusetV1 => "v1",
        Confinement::CpusetV2 => "v2",
        Confinement::Affinity => return Err(io::Error::other("no cpuset takes a group of ours")),
    };
    let other = bench.platform.cores.iter().find(|core| **core != bench.core);
    let left = other.is_some_and(|other| sched::set_affinity(bench.subject.pid, *other).is_ok());
    if left || sched::affinity_of(bench.subject.pid)? != [bench.core] {
        return Err(io::Error::other(format!("{kind}: a process left its core")));
    }
    Ok(format!("{kind}: a process was held on core {}", bench.core))
}

fn seal(_: &mut Bench<'_>) -> io::Result<String> {
    let (rights, files, signals) = seal_trial(&cgroup_mounts()?)?;
    let inspection = signals != Signals::Open;
    let doors = [
        (rights, "its rights"),
        (files, "the group files"),
        (inspection, "the inspection of others"),
        (signals == Signals::Shut, "signals to others"),
    ];
    let open: Vec<&str> = doors.iter().filter(|door| !door.0).map(|door| door.1).collect();
    if open.is_empty() {
        return Ok("a process gave up its rights, the group files and foreign signals".to_owned());
    }
    Err(io::Error::other(format!("a program keeps {}", open.join(" and "))))
}

fn group_budget(bench: &mut Bench<'_>) -> io::Result<String> {
    let dir =
        bench.group.dir_fd().ok_or_else(|| io::Error::other("needs a cgroup v2 group of ours"))?;
    let service = Service::open(dir, bench.core.0)?;
    let before = service.count()?;
    let end = Instant::now() + Duration::from_millis(PATIENCE_MS as u64);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
        if service.count()? - before >= BUDGET_NS {
            return Ok("1 ms of a spinning process was counted".to_owned());
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the time of a spinning process was not counted"))
}

fn attributes(config: u32) -> abi::perf_event_attr {
    abi::perf_event_attr {
        size: size_of::<abi::perf_event_attr>() as u32,
        type_: abi::PERF_TYPE_SOFTWARE,
        config: u64::from(config),
        ..Default::default()
    }
}

/// An open event with the two pages of ring that it needs to wake anyone.
struct Watched {
    file: File,
    ring: *mut libc::c_void,
}

/// One page for the kernel's word and one for records, of whatever size pages have here.
fn ring_bytes() -> usize {
    // SAFETY: plain arguments; the answer is positive on every Linux.
    2 * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

impl Watched {
    fn open(attr: &mut abi::perf_event_attr, pid: i32, core: i32, flags: u64) -> io::Result<Self> {
        let flags = flags | u64::from(abi::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: a structure of our own whose size field is right; the descriptor is ours.
        unsafe {
            let fd = perf::perf_event_open(attr, pid, core, -1, flags as libc::c_ulong);
            let file = File::from_raw_fd(sys::check(fd.into())? as i32);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let ring =
                libc::mmap(ptr::null_mut(), ring_bytes(), protection, libc::MAP_SHARED, fd, 0);
            if ring == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Watched { file, ring })
        }
    }

    fn wakes(&self) -> bool {
        let fd = self.file.as_raw_fd();
        let mut wait = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure of our own.
        unsafe {
            libc::poll(&raw mut wait, 1, PATIENCE_MS) == 1 && wait.revents & libc::POLLIN != 0
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.ring, ring_bytes()) };
    }
}

fn switch_records(bench: &mut Bench<'_>) -> io::Result<String> {
    let mut attr = attributes(abi::PERF_COUNT_SW_DUMMY);
    attr.set_context_switch(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = 1;
    let event = Watched::open(&mut attr, -1, bench.core.0 as i32, 0)?;
    // The subject shares its core with a short sleeper of ours, so the core surely switches.
    let core = bench.core;
    let sleeper = thread::spawn(move || {
        let _ = sched::set_affinity(0, core);
        for _ in 0..3 {
            thread::sleep(Duration::from_micros(200));
        }
    });
    let woken = event.wakes();
    let _ = sleeper.join();
    if woken {
        Ok(format!("core {} reported its switches", bench.core))
    } else {
        Err(io::Error::new(io::ErrorKind::TimedOut, "no record came"))
    }
}

/// In a throw-away process, since the lock is the whole process' affair.
fn memory_lock(_: &mut Bench<'_>) -> io::Result<String> {
    let child = fork(None, || {
        // SAFETY: plain arguments; ends the throw-away process.
        unsafe {
            let locked = libc::mlockall(libc::MCL_CURRENT) == 0;
            libc::_exit(if locked { 0 } else { *libc::__errno_location() });
        }
    })?;
    let mut status = 0;
    // SAFETY: our own child and a status of our own.
    unsafe { libc::waitpid(child.pid, &raw mut status, 0) };
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok("a process locked its memory".to_owned()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn pidfd(bench: &mut Bench<'_>) -> io::Result<String> {
    sys::pidfd_open(bench.subject.pid).map(|_| "a process was opened".to_owned())
}

fn timer_slack(_: &mut Bench<'_>) -> io::Result<String> {
    let set = || {
        // SAFETY: plain arguments; the slack is the thread's own.
        unsafe {
            sys::check(libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0).into())?;
            sys::check(libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0).into())
        }
    };
    let slack = thread::spawn(set).join().map_err(|_| io::Error::other("the thread died"))??;
    Ok(format!("set to {slack} ns; SCHED_FIFO threads have none"))
}

/// A throw-away thread asks for 1 ms in 10 ms on no particular core. An exclusive cpuset, needed
/// for one particular core, is not tried: it would rebuild the host's scheduling domains.
fn deadline(_: &mut Bench<'_>) -> io::Result<String> {
    let set = || {
        // SAFETY: a structure of our own with its size; it concerns the calling thread alone.
        unsafe {
            let mut attr: libc::sched_attr = std::mem::zeroed();
            attr.size = size_of::<libc::sched_attr>() as u32;
            attr.sched_policy = libc::SCHED_DEADLINE as u32;
            attr.sched_runtime = 1_000_000;
            attr.sched_deadline = 10_000_000;
            attr.sched_period = 10_000_000;
            sys::check(libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0))
        }
    };
    thread::spawn(set).join().map_err(|_| io::Error::other("the thread died"))??;
    Ok("a thread without a core of its own; an exclusive cpuset was not tried".to_owned())
}

fn group_kill(bench: &mut Bench<'_>) -> io::Result<String> {
    let path = bench.group.path().map(|dir| dir.join("cgroup.kill"));
    if !path.is_some_and(|path| path.exists()) {
        return Err(io::Error::other("no cgroup.kill"));
    }
    bench.group.freeze()?;
    let killed = bench.group.kill();
    bench.group.thaw()?;
    killed?;
    if bench.subject.ends() {
        Ok("a frozen process died with its group".to_owned())
    } else {
        Err(io::Error::new(io::ErrorKind::TimedOut, "the process lives"))
    }
}

fn cores(bench: &mut Bench<'_>) -> io::Result<String> {
    let (given, usable) = (bench.cores.len(), bench.platform.cores.len());
    Ok(format!("{given} asked for, {usable} usable, {} online", bench.platform.online))
}

fn realtime_throttle(_: &mut Bench<'_>) -> io::Result<String> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/sched_rt_{name}_us"));
    let (runtime, period) = (read("runtime")?, read("period")?);
    Ok(format!("{} us in {} us", runtime.trim(), period.trim()))
}

/// Since 6.12 a deadline server gives fair tasks 50 ms a second; only debugfs shows how much.
fn fair_server(bench: &mut Bench<'_>) -> io::Result<String> {
    let path = format!("/sys/kernel/debug/sched/fair_server/cpu{}/runtime", bench.core);
    if let Ok(runtime) = fs::read_to_string(path) {
        return Ok(format!("{} ns a second on core {}", runtime.trim(), bench.core));
    }
    let present = bench.platform.kernel_version().is_some_and(|version| version >= (6, 12));
    let words = if present {
        "in this kernel, its share not visible: at most 0.90 of a core for the foreground"
    } else {
        "not in this kernel, which came before 6.12"
    };
    Ok(words.to_owned())
}

fn preemption(bench: &mut Bench<'_>) -> io::Result<String> {
    let tick = bench.platform.tick_hz.map_or("unknown".to_owned(), |hz| hz.to_string());
    Ok(format!("{}, tick {tick} Hz", bench.platform.preemption))
}

fn steal(_: &mut Bench<'_>) -> io::Result<String> {
    let stat = fs::read_to_string("/proc/stat")?;
    // The eighth number of the first line, in ticks of 10 ms (proc_stat(5)).
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    Ok(match ticks {
        Some(0u64) => "none so far".to_owned(),
        Some(ticks) => {
            format!("{} ms since boot; it is charged to the thread that it interrupts", ticks * 10)
        }
        None => "not shown".to_owned(),
    })
}
