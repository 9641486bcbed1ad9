//! Started programs: held, confined, shut in; a hostile one tries every way out that is known.

use super::*;
use crate::host::cgroup::{Confinement, Hierarchies, Tree};
use crate::host::platform::Platform;
use crate::host::sched::{self, KernelPolicy};
use crate::host::tests::{can, is_root, turn};
use maracas_core::VcpuId;
use std::time::{Duration, Instant};

fn command(argv: &[&str]) -> Command {
    let argv = argv.iter().map(OsString::from).collect();
    Command { argv, output: Output::Null, ..Command::default() }
}

/// A file of our own for a program's output.
fn scratch(name: &str) -> PathBuf {
    env::temp_dir().join(format!("maracas-test-{}-{name}", std::process::id()))
}

/// Runs one program in a group of its own and returns how it ended and what it wrote.
fn run(mut command: Command, name: &str) -> (Exit, String, Seal) {
    let path = scratch(name);
    command.output = Output::File(path.clone());
    let tree = Tree::create(&Hierarchies::read().expect("readable")).expect("a tree");
    let group = tree.vcpu(VcpuId(7)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let mut child = spawn(&command, &group, core).expect("starts");
    child.release().expect("released");
    let exit = child.wait().expect("collected");
    let (seal, written) = (child.seal, fs::read_to_string(&path).expect("written"));
    fs::remove_file(path).expect("ours");
    group.kill().expect("whatever is left");
    group.remove().expect("removed");
    tree.remove().expect("removed");
    (exit, written, seal)
}

#[test]
fn programs_are_found_before_anything_starts() {
    let message = |argv: &[&str]| resolve(&command(argv)).map_err(|error| error.to_string());
    let sh = resolve(&command(&["sh"])).expect("every host has sh");
    assert!(sh.is_absolute() && sh.ends_with("sh"));
    assert_eq!(message(&["maracas"]), Ok(env::current_exe().expect("we are one")));
    assert_eq!(message(&["no-such-thing"]), Err("no-such-thing: no such program on PATH".into()));
    assert_eq!(message(&["/etc/passwd"]), Err("/etc/passwd: no such program".into()));
    assert_eq!(message(&[]), Err("no program given".into()));
    let mut elsewhere = command(&["./sh"]);
    elsewhere.dir = sh.parent().map(PathBuf::from);
    assert!(resolve(&elsewhere).is_ok_and(|path| path.ends_with("sh")), "from its directory");
}

#[test]
fn a_program_waits_for_its_release() {
    let _turn = turn();
    if !can("release", is_root(), "root") {
        return;
    }
    let path = scratch("release");
    let tree = Tree::create(&Hierarchies::read().expect("readable")).expect("a tree");
    let group = tree.vcpu(VcpuId(2)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let mut hello = command(&["sh", "-c", "echo $GREETING; exit 3"]);
    hello.env.insert("GREETING".into(), "hello".into());
    hello.output = Output::File(path.clone());
    let mut child = spawn(&hello, &group, core).expect("starts");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(fs::read_to_string(&path).expect("created"), "", "not an instruction yet");
    assert_eq!(child.try_wait().expect("ours"), None);
    let mut pids = Vec::new();
    if tree.freezer() != crate::host::cgroup::Freezer::None {
        group.processes(&mut pids).expect("readable");
        assert_eq!(pids, [child.pid], "in its group from the start");
    }
    assert_eq!(sched::affinity_of(child.pid).expect("alive"), [core]);
    assert_eq!(sched::policy_of(child.pid).expect("alive"), KernelPolicy::Other);
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(3));
    assert_eq!(fs::read_to_string(&path).expect("written"), "hello\n");
    fs::remove_file(path).expect("ours");
    group.remove().expect("removed");
    tree.remove().expect("removed");
}

#[test]
fn a_program_that_cannot_be_executed_says_why() {
    let _turn = turn();
    if !can("failure", is_root(), "root") {
        return;
    }
    let path = scratch("not-a-program");
    fs::write(&path, "\u{1}\u{2}").expect("writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    let tree = Tree::create(&Hierarchies::read().expect("readable")).expect("a tree");
    let group = tree.vcpu(VcpuId(4)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let broken = command(&[path.to_str().expect("plain")]);
    let mut child = spawn(&broken, &group, core).expect("starts");
    assert!(child.failure().is_none(), "not yet known");
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(127));
    let failure = child.failure().expect("known").to_string();
    assert!(failure.contains("cannot be executed") && failure.contains("format"), "{failure}");

    let mut nowhere = command(&["true"]);
    nowhere.dir = Some("/no/such/place".into());
    let error = spawn(&nowhere, &group, core).expect_err("refused").to_string();
    assert!(error.contains("true") && error.contains("working directory"), "{error}");
    fs::remove_file(path).expect("ours");
    group.remove().expect("removed");
    tree.remove().expect("removed");
}

/// Each line of output is one way out that was open.
const HOSTILE: &str = r#"
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
runtime, core, other, sibling = (int(word) for word in sys.argv[1:5])
points = sys.argv[5:]
def attempt(name, act):
    try:
        if act() is not False: print("OPEN", name, flush=True)
    except (OSError, subprocess.SubprocessError, ValueError): pass
def write(path, text):
    with open(path, "w") as f: f.write(text)
def tool(*argv):
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
def both():
    os.sched_setaffinity(0, [core, other])
    return len(os.sched_getaffinity(0)) > 1
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0: raise OSError(ctypes.get_errno())
attempt("fifo", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
attempt("rr", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -5))
attempt("chrt", lambda: tool("chrt", "-f", "1", "true"))
if other >= 0:
    attempt("affinity", lambda: os.sched_setaffinity(0, [other]))
    attempt("affinity of both", both)
for point in points:
    for name in ("cgroup.procs", "tasks", "cgroup.threads"):
        if os.path.exists(point + "/" + name):
            attempt(point + "/" + name, lambda: write(point + "/" + name, str(os.getpid())))
            for pid in (runtime, os.getppid(), 1):
                path = "/proc/%d/root%s/%s" % (pid, point, name)
                attempt(path, lambda: write(path, str(os.getpid())))
    attempt("mkdir " + point, lambda: os.mkdir(point + "/escape"))
    attempt("umount " + point, lambda: tool("umount", point))
    attempt("remount " + point, lambda: tool("mount", "-o", "remount,bind,rw", point))
attempt("sysctl", lambda: write("/proc/sys/kernel/sched_rt_runtime_us", "950000"))
attempt("sysrq", lambda: write("/proc/sysrq-trigger", "h"))
attempt("core offline", lambda: write("/sys/devices/system/cpu/cpu%d/online" % max(other, 1), "1"))
attempt("user namespace", lambda: call(272 if os.uname().machine == "x86_64" else 97, 0x10000000))
attempt("unshare", lambda: tool("unshare", "-Urm", "true"))
attempt("mount namespace", lambda: call(272 if os.uname().machine == "x86_64" else 97, 0x00020000))
import resource
attempt("limits", lambda: resource.prlimit(runtime, resource.RLIMIT_NOFILE, (9999, 9999)))
attempt("runtime's affinity", lambda: os.sched_setaffinity(runtime, os.sched_getaffinity(runtime)))
attempt("its policy", lambda: os.sched_setscheduler(runtime, os.SCHED_OTHER, os.sched_param(0)))
attempt("its nice", lambda: os.setpriority(os.PRIO_PROCESS, runtime, 0))
x86 = os.uname().machine == "x86_64"
zero = ctypes.create_string_buffer(48)
zero[0] = 48
attempt("sibling's class", lambda: os.sched_setscheduler(sibling, os.SCHED_IDLE, os.sched_param(0)))
attempt("sibling's parameter", lambda: os.sched_setparam(sibling, os.sched_param(0)))
attempt("sibling's attributes", lambda: call(314 if x86 else 274, sibling, zero, 0))
attempt("sibling's nice", lambda: os.setpriority(os.PRIO_PROCESS, sibling, 19))
attempt("the group's nice", lambda: os.setpriority(os.PRIO_PGRP, sibling, 19))
attempt("the user's nice", lambda: os.setpriority(os.PRIO_USER, 0, 19))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
attempt("signal runtime", lambda: os.kill(runtime, 0))
attempt("signal init", lambda: os.kill(1, 0))
attempt("ptrace", lambda: call(101 if os.uname().machine == "x86_64" else 117, 16, runtime, 0, 0))
attempt("memory", lambda: open("/proc/%d/mem" % runtime, "rb"))
for number in range(3, 40):
    attempt("descriptor", lambda: os.open("/proc/%d/fd/%d" % (runtime, number), os.O_RDONLY))
attempt("setns", lambda: os.open("/proc/%d/ns/mnt" % runtime, os.O_RDONLY))
attempt("inherited", lambda: len([f for f in os.listdir("/proc/self/fd") if int(f) > 3]) > 0)
# What must still work for ordinary programs: threads, children, its own signals, files.
import threading
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
child = os.fork()
if child == 0:
    os.setsid()
    if os.fork() == 0:
        import time; time.sleep(60)
    os._exit(0)
os.waitpid(child, 0)
sleeper = subprocess.Popen(["sleep", "60"]); sleeper.terminate(); sleeper.wait()
os.chown(os.devnull, -1, -1)
nice = os.getpriority(os.PRIO_PROCESS, 0)
same = ctypes.create_string_buffer(48)
# struct sched_attr: its size, and the nice value at byte 16; below its own no program may go.
same[0] = 48
same[16] = nice % 256
if nice >= 0: call(314 if x86 else 274, 0, same, 0)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.setpriority(os.PRIO_PROCESS, 0, max(nice, 1))
scratch = "/tmp/maracas-hostile-%d" % os.getpid()
write(scratch, "x"); os.unlink(scratch)
print("done", flush=True)
"#;

#[test]
fn a_hostile_program_stays_inside() {
    let _turn = turn();
    let python = std::process::Command::new("python3").arg("--version").output().is_ok();
    let hierarchies = Hierarchies::read().expect("readable");
    let needs = "root, cgroup v2 and python3";
    if !can("hostile", is_root() && python && hierarchies.v2.is_some(), needs) {
        return;
    }
    let cores = Platform::detect().expect("readable").cores;
    let other = cores.get(1).map_or("-1".to_owned(), HardwareCore::to_string);
    let mut argv = vec!["python3".into(), "-c".into(), HOSTILE.into()];
    let tree = Tree::create(&hierarchies).expect("a tree");
    let group = tree.vcpu(VcpuId(7)).expect("a group");
    let beside = tree.vcpu(VcpuId(8)).expect("another");
    let mut sibling = spawn(&command(&["sleep", "60"]), &beside, cores[0]).expect("starts");
    sibling.release().expect("released");
    argv.extend([std::process::id().to_string(), cores[0].to_string(), other]);
    argv.push(sibling.pid.to_string());
    let points = crate::host::cgroup::cgroup_mounts().expect("readable");
    argv.extend(points.iter().map(|point| point.display().to_string()));
    let argv = argv.iter().map(OsString::from).collect();
    let hostile = Command { argv, ..Command::default() };

    let path = scratch("hostile");
    let inside = Command { output: Output::File(path.clone()), ..hostile };
    let mut child = spawn(&inside, &group, cores[0]).expect("starts");
    let end = |sibling: Child, group: Group, tree: Tree| {
        beside.kill().expect("kills");
        sibling.wait().expect("collected");
        beside.remove().expect("removed");
        group.remove().expect("removed");
        tree.remove().expect("removed");
    };
    // It unmounts what it can: on a host where it could, it is never let go.
    let shut = child.seal.rights && child.seal.files;
    if !can("hostile", shut, "a host that lets us close rights and files") {
        group.kill().expect("kills");
        child.wait().expect("collected");
        return end(sibling, group, tree);
    }
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(0));
    let written = fs::read_to_string(&path).expect("written");
    fs::remove_file(path).expect("ours");
    let seal = child.seal;
    let open: Vec<&str> = written.lines().filter(|line| line.starts_with("OPEN")).collect();
    let allowed =
        |line: &str| !seal.signals && ["signal", "ptrace"].iter().any(|word| line.contains(word));
    assert!(open.iter().all(|line| allowed(line)), "{seal:?} {open:?}");
    assert!(written.ends_with("done\n"), "ordinary acts still work: {written}");

    // The double-forked, setsid grandchild is still in the group, and falls with it.
    let mut pids = Vec::new();
    group.processes(&mut pids).expect("readable");
    assert_eq!(pids.len(), 1, "{pids:?}");
    group.kill().expect("kills");
    end(sibling, group, tree);
}

#[test]
fn without_a_cpuset_a_program_cannot_change_its_affinity() {
    let _turn = turn();
    let python = std::process::Command::new("python3").arg("--version").output().is_ok();
    let mut hierarchies = Hierarchies::read().expect("readable");
    hierarchies.v1.retain(|v1| !v1.controllers.iter().any(|name| name == "cpuset"));
    if !can("affinity", is_root() && python, "root and python3") {
        return;
    }
    let tree = Tree::create(&hierarchies).expect("a tree");
    let group = tree.vcpu(VcpuId(5)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let script = r#"
import os, threading
def attempt(who):
    try: os.sched_setaffinity(who, range(64)); print("OPEN", who, flush=True)
    except PermissionError: print("refused", flush=True)
attempt(0); attempt(os.getpid()); attempt(os.getppid())
t = threading.Thread(target=lambda: attempt(threading.get_native_id())); t.start(); t.join()
print(sorted(os.sched_getaffinity(0)), flush=True)
"#;
    let path = scratch("affinity");
    let mut escaping = command(&["python3", "-c", script]);
    escaping.output = Output::File(path.clone());
    let mut child = spawn(&escaping, &group, core).expect("starts");
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(0));
    let written = fs::read_to_string(&path).expect("written");
    fs::remove_file(path).expect("ours");
    let cpuset = tree.confinement() != Confinement::Affinity;
    let seal = child.seal;
    group.remove().expect("removed");
    tree.remove().expect("removed");
    assert!(seal.core, "{seal:?}");
    let refused = "refused\n".repeat(4);
    // Where v2 has the controller the kernel cuts the mask instead.
    let expected = if cpuset { String::new() } else { refused };
    assert!(written.starts_with(&expected), "{written}");
    assert!(written.ends_with(&format!("[{core}]\n")), "{written}");
}

/// A process that is never there for long: its child goes on in its place.
const RELAY: &str = "import os\nwhile True:\n    if os.fork(): os._exit(0)";

#[test]
fn a_program_that_forks_all_the_time_is_killed_without_the_switch_too() {
    let _turn = turn();
    let python = std::process::Command::new("python3").arg("--version").output().is_ok();
    let hierarchies = Hierarchies::read().expect("readable");
    if !can("relay", is_root() && python && hierarchies.v2.is_some(), "root, v2 and python3") {
        return;
    }
    let tree = Tree::create(&hierarchies).expect("a tree");
    let group = tree.vcpu(VcpuId(9)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let mut child = spawn(&command(&["python3", "-c", RELAY]), &group, core).expect("starts");
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(0), "it runs from child to child");
    assert!(group.is_populated().expect("readable"));
    group.kill_by_list().expect("kills");
    assert!(!group.is_populated().expect("readable"));
    group.remove().expect("removed");
    tree.remove().expect("removed");
}

#[test]
fn another_user_is_that_user_and_nothing_more() {
    let _turn = turn();
    if !can("user", is_root(), "root") {
        return;
    }
    let runtime = std::process::id();
    let script = format!(
        "id -u; id -G; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status
         for try in 'taskset -cp 0' 'chrt -op 0' 'renice 5' 'kill -0' 'prlimit -n100 -p'; do
             $try {runtime} 2>/dev/null >&2 && echo \"OPEN $try\"
         done; true"
    );
    let mut id = command(&["sh", "-c", &script]);
    id.user = Some(User { uid: 65534, gid: 65534 });
    id.groups = vec![4_711, 65_534];
    let (exit, written, seal) = run(id, "user");
    assert_eq!(exit, Exit::Code(0));
    assert!(written.starts_with("65534\n65534 4711\n"), "{written}");
    assert!(written.contains("CapEff:\t0000000000000000"), "{written}");
    assert!(written.contains("NoNewPrivs:\t1"), "{written}");
    assert!(!written.contains("OPEN"), "the runtime is out of its reach: {written}");
    assert!(seal.rights);
}

#[test]
fn a_runtime_that_dies_takes_the_waiting_program_along() {
    let _turn = turn();
    if !can("gate", is_root(), "root") {
        return;
    }
    let tree = Tree::create(&Hierarchies::read().expect("readable")).expect("a tree");
    let group = tree.vcpu(VcpuId(6)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    let mut child = spawn(&command(&["sleep", "60"]), &group, core).expect("starts");
    // What the kernel does with the pipe when the runtime dies.
    child.gate = None;
    let begun = Instant::now();
    assert_eq!(child.wait().expect("collected"), Exit::Code(0));
    assert!(begun.elapsed() < Duration::from_secs(30));
    group.remove().expect("removed");
    tree.remove().expect("removed");
}

#[test]
fn a_program_has_the_groups_and_variables_of_its_user_and_opens_its_own_output() {
    let _turn = turn();
    if !can("account", is_root(), "root") {
        return;
    }
    let account = Account {
        user: User { uid: 65_534, gid: 65_534 },
        groups: vec![65_534, 4_712],
        known: Some(("a-user".into(), "/nowhere".into())),
    };
    let mut reported = command(&["sh", "-c", "echo $USER $LOGNAME $HOME; id -G"]);
    reported.env.insert("HOME".into(), "/as/given".into());
    reported.belongs_to(&account);
    // A directory that the user may write to, so that the file is the user's own.
    let directory = scratch("owned");
    fs::create_dir(&directory).expect("made");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("ours");
    let tree = Tree::create(&Hierarchies::read().expect("readable")).expect("a tree");
    let group = tree.vcpu(VcpuId(3)).expect("a group");
    let core = Platform::detect().expect("readable").cores[0];
    reported.output = Output::File(directory.join("out"));
    let mut child = spawn(&reported, &group, core).expect("starts");
    child.release().expect("released");
    assert_eq!(child.wait().expect("collected"), Exit::Code(0));
    let written = fs::read_to_string(directory.join("out")).expect("written");
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(directory.join("out")).unwrap());
    // One that only root may write to is refused, as it would be to the user.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("ours");
    reported.output = Output::File(directory.join("other"));
    let refused = spawn(&reported, &group, core).expect_err("not its to write").to_string();
    fs::remove_dir_all(&directory).expect("ours");
    group.remove().expect("removed");
    tree.remove().expect("removed");
    assert_eq!(written, "a-user a-user /as/given\n65534 4712\n");
    assert_eq!(owner, 65_534);
    assert!(refused.contains("output"), "{refused}");
}
