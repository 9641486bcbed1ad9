//! Groups on the real host: freeze, thaw, kill, release, and nothing left behind.

use super::{can, is_root, turn};
use crate::host::cgroup::{Confinement, Freezer, Hierarchies, Remains, STILL, Tree};
use crate::host::sched::{self, KernelPolicy};
use crate::host::{HardwareCore, Identity, os_code, platform::Platform};
use maracas_core::VcpuId;
use maracas_core::control::INITIAL_PID_NAMESPACE;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{fs, thread};

fn spinner() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh starts")
}

fn cpu_time_ns(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

/// Waits up to two seconds for something that happens soon.
fn soon(mut condition: impl FnMut() -> bool) -> bool {
    let patience = Instant::now() + Duration::from_secs(2);
    while Instant::now() < patience {
        if condition() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
    }
    condition()
}

fn own_remains(hierarchies: &Hierarchies) -> usize {
    let own = Identity::own().expect("we are alive");
    Remains::find(hierarchies).iter().filter(|remains| remains.runtime == own).count()
}

fn stop_start_kill(hierarchies: &Hierarchies, freezer: Freezer) {
    let tree = Tree::create(hierarchies).expect("a tree");
    assert_eq!(tree.freezer(), freezer);
    let group = tree.vcpu(VcpuId(3)).expect("a group");
    if freezer == Freezer::V1 {
        let above = group.path().and_then(Path::parent).expect("a directory");
        let state = fs::read_to_string(above.join(STILL).join("freezer.state"));
        assert_eq!(state.expect("readable"), "FROZEN\n", "or each freeze is the host's first");
    }
    let mut child = spinner();
    let pid = child.id() as i32;
    group.add_process(pid).expect("joins");
    let mut numbers = Vec::new();
    group.threads(&mut numbers).expect("readable");
    assert_eq!(numbers, [pid]);
    group.processes(&mut numbers).expect("readable");
    assert_eq!(numbers, [pid]);
    assert!(group.is_populated().expect("readable"));

    group.freeze().expect("freezes");
    assert!(soon(|| group.is_frozen().expect("readable")), "frozen in time");
    let before = cpu_time_ns(pid);
    thread::sleep(Duration::from_millis(30));
    assert_eq!(cpu_time_ns(pid), before, "a frozen group uses no time");
    group.thaw().expect("thaws");
    assert!(soon(|| cpu_time_ns(pid) > before), "a thawed group runs again");
    assert!(!group.is_frozen().expect("readable"));

    group.freeze().expect("freezes");
    group.kill().expect("kills even what is frozen");
    assert!(child.wait().expect("collected").code().is_none(), "by a signal");
    assert!(soon(|| !group.is_populated().expect("readable")));
    group.remove().expect("removed");
    tree.remove().expect("removed");
    assert_eq!(own_remains(hierarchies), 0, "nothing left");
}

#[test]
fn v2_groups_stop_start_and_kill() {
    let _turn = turn();
    let hierarchies = Hierarchies::read().expect("readable");
    if can("v2 groups", is_root() && hierarchies.v2.is_some(), "root and cgroup v2") {
        stop_start_kill(&hierarchies, Freezer::V2);
    }
}

#[test]
fn the_v1_freezer_does_without_v2() {
    let _turn = turn();
    let mut hierarchies = Hierarchies::read().expect("readable");
    hierarchies.v2 = None;
    let possible = is_root() && hierarchies.v1("freezer").is_some();
    if can("v1 freezer", possible, "root and the v1 freezer") {
        stop_start_kill(&hierarchies, Freezer::V1);
    }
}

#[test]
fn a_host_without_groups_refuses_by_name() {
    let tree = Tree::create(&Hierarchies::default()).expect("an empty tree");
    assert_eq!((tree.freezer(), tree.confinement()), (Freezer::None, Confinement::Affinity));
    let group = tree.vcpu(VcpuId(0)).expect("an empty group");
    let error = group.freeze().expect_err("no freezer");
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(group.dir_fd().is_none() && group.events().is_none());
    group.confine(HardwareCore(0)).expect("nothing to do");
    group.remove().expect("nothing to remove");
    tree.remove().expect("nothing to remove");
}

#[test]
fn a_cpuset_holds_even_against_root() {
    let _turn = turn();
    let hierarchies = Hierarchies::read().expect("readable");
    let cores = Platform::detect().expect("readable").cores;
    if !can("cpuset", is_root() && cores.len() > 1, "root and two cores") {
        return;
    }
    let tree = Tree::create(&hierarchies).expect("a tree");
    let confined = tree.confinement() != Confinement::Affinity;
    if can("cpuset", confined, "a cpuset hierarchy") {
        let group = tree.vcpu(VcpuId(5)).expect("a group");
        let mut child = spinner();
        let pid = child.id() as i32;
        group.add_process(pid).expect("joins");
        for (core, other) in [(cores[0], cores[1]), (cores[1], cores[0])] {
            group.confine(core).expect("confines");
            assert!(soon(|| sched::affinity_of(pid).is_ok_and(|now| now == [core])));
            let refused = sched::set_affinity(pid, other).expect_err("outside of the cpuset");
            assert_eq!(os_code(&refused), Some(libc::EINVAL));
        }
        group.kill().expect("kills");
        child.wait().expect("collected");
        group.remove().expect("removed");
    }
    tree.remove().expect("removed");
    assert_eq!(own_remains(&hierarchies), 0);
}

/// A foreign process with a second thread: `sleep` would have one only.
fn two_threads() -> Child {
    let script = "import threading, time
spin = lambda: [None for _ in iter(int, 1)]
threading.Thread(target=spin, daemon=True).start()
time.sleep(60)";
    Command::new("python3").args(["-c", script]).spawn().expect("python3 starts")
}

fn threads_of(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut tids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

fn groups_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

#[test]
fn a_clients_thread_is_frozen_alone_and_sent_home() {
    let _turn = turn();
    let hierarchies = Hierarchies::read().expect("readable");
    let python = Command::new("python3").arg("--version").output().is_ok();
    if !can("client", is_root() && hierarchies.v2.is_some() && python, "root, v2 and python3") {
        return;
    }
    let tree = Tree::create(&hierarchies).expect("a tree");
    let mut process = two_threads();
    let pid = process.id() as i32;
    assert!(soon(|| threads_of(pid).len() == 2));
    let (before, tid) = (groups_of(pid), threads_of(pid)[1]);

    for crash in [false, true] {
        let client = tree.adopt(pid).expect("adopted");
        let group = client.vcpu(VcpuId(9)).expect("a threaded group");
        group.add_thread(tid).expect("joins");
        let mut tids = Vec::new();
        group.threads(&mut tids).expect("readable");
        assert_eq!(tids, [tid]);
        sched::set_fifo(tid, 1, true).expect("raised");
        group.freeze().expect("freezes");
        assert!(soon(|| group.is_frozen().expect("readable")));
        let (own, still) = (cpu_time_ns(pid), cpu_time_ns(tid));
        thread::sleep(Duration::from_millis(20));
        assert_eq!(cpu_time_ns(tid), still);
        assert!(cpu_time_ns(pid) >= own, "the rest of the process is not ours to stop");
        assert!(group.kill().is_err(), "clients are never killed");
        if crash {
            // Only the tree is left to show what to do.
            drop((group, client));
            let own = Identity::own().expect("alive");
            let remains = Remains::find(&hierarchies);
            let remains = remains.iter().find(|remains| remains.runtime == own).expect("found");
            assert!(remains.is_alive());
            let repaired = remains.repair().expect("repaired");
            assert_eq!((repaired.killed, repaired.released), (vec![], vec![pid]));
        } else {
            client.dismiss(&group).expect("dismissed");
            client.release().expect("released");
        }
        assert_eq!(groups_of(pid), before, "back where it came from");
        assert_eq!(groups_of(tid), before);
        assert_eq!(sched::policy_of(tid).expect("alive"), KernelPolicy::Other);
        let ran = cpu_time_ns(tid);
        assert!(soon(|| cpu_time_ns(tid) > ran), "and it runs");
    }
    process.kill().expect("killed");
    process.wait().expect("collected");
    tree.remove().expect("removed");
    assert_eq!(own_remains(&hierarchies), 0);
}

#[test]
fn what_a_dead_runtime_left_is_repaired() {
    let _turn = turn();
    let hierarchies = Hierarchies::read().expect("readable");
    if !can("repair", is_root() && hierarchies.v2.is_some(), "root and cgroup v2") {
        return;
    }
    let tree = Tree::create(&hierarchies).expect("a tree");
    let group = tree.vcpu(VcpuId(1)).expect("a group");
    // SAFETY: ignoring a signal is async-signal-safe.
    let mut stubborn = unsafe {
        let ignore = || {
            libc::signal(libc::SIGTERM, libc::SIG_IGN);
            Ok(())
        };
        Command::new("sleep").arg("60").pre_exec(ignore).spawn().expect("sleep starts")
    };
    let pid = stubborn.id() as i32;
    group.add_process(pid).expect("joins");
    sched::set_fifo(pid, 1, true).expect("raised");
    group.freeze().expect("freezes");
    drop((group, tree));

    let own = Identity::own().expect("alive");
    let remains = Remains::find(&hierarchies);
    let remains = remains.iter().find(|remains| remains.runtime == own).expect("found");
    let repaired = remains.repair().expect("repaired");
    assert_eq!((repaired.killed, repaired.released), (vec![pid], vec![]));
    assert!(stubborn.wait().expect("collected").code().is_none());
    assert_eq!(own_remains(&hierarchies), 0);
    let again = remains.repair().expect("twice does no harm");
    assert!(again.killed.is_empty());
}

#[test]
fn a_number_without_its_start_is_no_thread() {
    let own = Identity::own().expect("alive");
    assert!(own.is_alive());
    assert!(!Identity { start: own.start + 1, ..own }.is_alive(), "a reused number");
    assert_eq!(Identity::parse(&own.to_string()), Some(own));
    let inside = Identity { namespace: Some(4_026_532_200), ..own };
    assert_eq!(Identity::parse(&inside.to_string()), Some(inside));
    assert_eq!(Identity::parse("4711"), None);
    assert_eq!(Identity::parse("4711-88-1-2"), None);
    assert_eq!(Identity::parse("vcpu-3"), None);
}

#[test]
fn one_of_another_namespace_lives_for_as_long_as_some_process_may_be_there() {
    let own = Identity::own().expect("alive");
    // Its number is that of a process here, or of none: neither says anything.
    for pid in [own.pid, i32::MAX] {
        let there = Identity { pid, namespace: Some(u64::MAX), ..own };
        assert!(there.is_foreign() && !there.is_stopped());
        // Only the initial namespace shows that nothing is in another one.
        let is_known = crate::host::own_namespace().is_none();
        assert_eq!((there.is_alive(), there.is_doomed()), (!is_known, is_known));
    }
    if !can("namespaces", crate::host::own_namespace().is_none() && is_root(), "root") {
        return;
    }
    let words = ["--pid", "--fork", "--kill-child", "sleep", "60"];
    let mut outside = Command::new("unshare").args(words).spawn().expect("util-linux has it");
    let inside = format!("/proc/{}/ns/pid_for_children", outside.id());
    let mut namespace = None;
    // The kernel shows it from the first process on.
    assert!(soon(|| {
        namespace = fs::metadata(&inside).ok().map(|meta| meta.ino());
        namespace.is_some_and(|inode| inode != INITIAL_PID_NAMESPACE)
    }));
    let there = Identity { namespace, ..own };
    assert!(there.is_alive() && !there.is_doomed());
    outside.kill().expect("ours");
    outside.wait().expect("collected");
    assert!(soon(|| !there.is_alive() && there.is_doomed()));
}

#[test]
fn policies_are_set_and_read_back() {
    if !can("policies", is_root(), "root") {
        return;
    }
    let worker = thread::spawn(|| {
        let fifo = KernelPolicy::Fifo { priority: 3, reset_on_fork: true };
        sched::set_fifo(0, 3, true).expect("raised");
        assert_eq!(sched::policy_of(0).expect("readable"), fifo);
        sched::set_other(0).expect("lowered");
        assert_eq!(sched::policy_of(0).expect("readable"), KernelPolicy::Other);
        sched::affinity_of(0).expect("readable")
    });
    assert!(!worker.join().expect("no panic").is_empty());
    // Above the highest number that the kernel gives out (PID_MAX_LIMIT is 2^22).
    let missing = (1 << 22) + 1;
    let error = sched::set_fifo(missing, 1, true).expect_err("there is no such thread");
    assert!(sched::gone(&error));
    assert!(sched::unless_gone(Err(error)).is_ok());
}

/// Under this variable the test below is in groups with limits.
const INSIDE: &str = "MARACAS_TEST_INSIDE";

#[test]
fn programs_keep_the_limits_of_the_groups_that_the_run_came_from() {
    if std::env::var_os(INSIDE).is_some() {
        return inside_limits();
    }
    let _turn = turn();
    let hierarchies = Hierarchies::read().expect("readable");
    let needs =
        hierarchies.v2.is_some() && is_root() && Platform::detect().unwrap().cores.len() > 1;
    if !can("limits", needs, "root, cgroup v2 and two cores") {
        return;
    }
    let name = format!("test-{}.slice", std::process::id());
    // In v2 a group of processes in one that has none; in v1 one with a single core, or task limit.
    let v2 = hierarchies.v2.as_ref().map(|v2| v2.root.join(&name).join("b.scope"));
    let v1 = |controller: &str| hierarchies.v1(controller).map(|v1| v1.root.join(&name));
    let (cpuset, tasks) = (v1("cpuset"), v1("pids"));
    let dirs = [&v2, &cpuset, &tasks].map(Option::as_ref).into_iter().flatten();
    let dirs: Vec<_> = dirs.cloned().collect();
    dirs.iter().for_each(|dir| fs::create_dir_all(dir).expect("made"));
    if let Some(dir) = &cpuset {
        let core = Platform::detect().expect("readable").cores[0].to_string();
        fs::write(dir.join("cpuset.cpus"), core).expect("one of the host's");
        let nodes = fs::read_to_string(dir.parent().unwrap().join("cpuset.mems")).unwrap();
        fs::write(dir.join("cpuset.mems"), nodes.trim()).expect("the host's");
    }
    if let Some(dir) = &tasks {
        fs::write(dir.join("pids.max"), "500").expect("a limit");
    }
    let test = "host::tests::groups::programs_keep_the_limits_of_the_groups_that_the_run_came_from";
    let mut command = Command::new(std::env::current_exe().expect("we are one"));
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, &name);
    let doors: Vec<_> = dirs
        .iter()
        .map(|dir| fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs")).unwrap())
        .collect();
    // SAFETY: writing is async-signal-safe, and the files are open.
    unsafe {
        command.pre_exec(move || {
            doors.iter().try_for_each(|mut door| std::io::Write::write_all(&mut door, b"0"))
        });
    }
    let output = command.output().expect("it starts");
    for dir in dirs.iter().rev() {
        assert!(soon(|| fs::remove_dir(dir).is_ok()), "{} is left", dir.display());
    }
    if let Some(slice) = v2.as_ref().and_then(|dir| dir.parent()) {
        fs::remove_dir(slice).expect("empty");
    }
    let (reported, why) = (output.stdout, output.stderr);
    let (reported, why) = (String::from_utf8_lossy(&reported), String::from_utf8_lossy(&why));
    assert!(output.status.success() && reported.contains("1 passed"), "{reported}{why}");
}

/// Where the tree and a program of it stand, asked from inside of the limits.
fn inside_limits() {
    let name = std::env::var(INSIDE).expect("it is set");
    let hierarchies = Hierarchies::read().expect("readable");
    let own = groups_of(std::process::id() as i32);
    let tree = Tree::create(&hierarchies).expect("a tree");
    assert_eq!(tree.remarks(), [""; 0], "no limit is lost");
    let group = tree.vcpu(VcpuId(1)).expect("a group");
    let path = group.path().expect("v2").to_path_buf();
    let slice = hierarchies.v2.as_ref().expect("v2").root.join(&name);
    assert!(path.starts_with(slice.join("maracas")), "{}", path.display());
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    group.add_process(child.id() as i32).expect("joins");
    let line = |groups: &str, controller: &str| {
        let word = format!(":{controller}:");
        groups.lines().find(|line| line.contains(&word)).map(str::to_string)
    };
    let theirs = groups_of(child.id() as i32);
    // Its tasks and memory count where ours do.
    for controller in ["pids", "memory"] {
        assert_eq!(line(&theirs, controller), line(&own, controller), "{theirs}");
    }
    if tree.confinement() == Confinement::CpusetV1 {
        let group = line(&theirs, "cpuset").expect("it has one");
        assert!(group.contains(&format!(":/{name}/maracas/")), "{group}");
    }
    let cores = sched::affinity_of(std::process::id() as i32).expect("alive");
    if let (Confinement::CpusetV1, [only]) = (tree.confinement(), &cores[..]) {
        group.confine(*only).expect("its own");
        assert!(group.confine(HardwareCore(u32::from(only.0 == 0))).is_err(), "not of the slice");
    }
    group.kill().expect("killed");
    child.wait().expect("collected");
    group.remove().expect("removed");
    tree.remove().expect("removed");
    assert_eq!(own_remains(&hierarchies), 0);
    assert!(!slice.join("maracas").exists());
}

#[test]
fn a_limit_on_real_time_is_seen_before_it_kills() {
    let limited = |us: u64| {
        let limit = libc::rlimit { rlim_cur: us, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a system call on a structure of its own.
        let set = move || match unsafe { libc::setrlimit(libc::RLIMIT_RTTIME, &raw const limit) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: the same.
        unsafe { Command::new("sleep").arg("60").pre_exec(set).spawn().expect("sleep starts") }
    };
    for (us, seen) in [(200_000, Some(200_000)), (libc::RLIM_INFINITY, None)] {
        let mut child = limited(us);
        let found = sched::realtime_limit_us(child.id() as i32);
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert_eq!(found, seen);
    }
}
