//! What a run leaves on the host, looked for from outside: in `/proc`, in the control groups and
//! in `/run`, with nothing of the runtime's own code.

use super::TOKEN;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where the control sockets of root's runs are.
const SOCKETS: &str = "/run/maracas";

/// `<pid>-<start>`, as the runtime names its groups: its number and when it was started (field 22
/// of `proc_pid_stat(5)`), and the inode of its pid namespace where these tests run in a container.
pub(crate) fn identity(pid: u32) -> Option<String> {
    let start = stat_field(Path::new(&format!("/proc/{pid}")), 22)?;
    let namespace = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let is_initial = namespace == maracas_core::control::INITIAL_PID_NAMESPACE;
    let inside = if is_initial { String::new() } else { format!("-{namespace}") };
    Some(format!("{pid}-{start}{inside}"))
}

/// A field of `stat`, counted from 1 as the manual does; the name may hold blanks and ends at the
/// last parenthesis.
fn stat_field(process: &Path, number: usize) -> Option<String> {
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(number - 3).map(str::to_string)
}

/// A process of a run.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// Its command line.
    pub(crate) command: String,
    /// Its environment.
    pub(crate) environment: Vec<String>,
}

impl Process {
    /// Whether it is a guardian.
    pub(crate) fn is_guardian(&self) -> bool {
        self.command.contains("__guardian")
    }
    /// Where `/proc` shows it.
    pub(crate) fn directory(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pid))
    }
    /// A file there; empty where it has ended meanwhile.
    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.directory().join(file)).unwrap_or_default()
    }
    /// The scheduling policies of its threads (1 = `SCHED_FIFO`), with their priorities.
    pub(crate) fn policies(&self) -> Vec<(u32, u32)> {
        let field = |dir: &Path, number| stat_field(dir, number).and_then(|word| word.parse().ok());
        entries(&self.directory().join("task"))
            .iter()
            .filter_map(|dir| Some((field(dir, 41)?, field(dir, 40)?)))
            .collect()
    }
}

/// The traces of one run.
pub(crate) struct Host {
    token: String,
    identity: String,
}

/// What should not be there any more.
#[derive(Default, Debug)]
pub(crate) struct Leftovers {
    /// Threads of the run at real-time priority: process, policy, priority.
    pub(crate) real_time: Vec<(u32, u32, u32)>,
    /// Groups of the run that are frozen, or about to be.
    pub(crate) frozen: Vec<PathBuf>,
    /// Processes of the run.
    pub(crate) processes: Vec<(u32, String)>,
    /// Groups of the run.
    pub(crate) groups: Vec<PathBuf>,
    /// Files of the run.
    pub(crate) files: Vec<PathBuf>,
}

impl Leftovers {
    /// Whether nothing can harm others any more: no thread at real-time priority, no frozen group.
    pub(crate) fn harmless(&self) -> bool {
        self.real_time.is_empty() && self.frozen.is_empty()
    }
    /// Whether nothing is left at all.
    pub(crate) fn none(&self) -> bool {
        self.harmless()
            && self.processes.is_empty()
            && self.groups.is_empty()
            && self.files.is_empty()
    }
}

impl Host {
    pub(super) fn new(token: String, identity: String) -> Self {
        Self { token, identity }
    }
    /// How the runtime names its groups and its socket.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }
    /// Its control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        Path::new(SOCKETS).join(format!("{}.sock", self.identity))
    }
    /// All processes that descend from the run, zombies left out.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let own = format!("{TOKEN}={}", self.token);
        let mut processes: Vec<_> = processes().collect();
        processes.retain(|process| process.environment.contains(&own));
        processes
    }
    /// Its guardian, if one stands.
    pub(crate) fn guardian(&self) -> Option<Process> {
        self.processes().into_iter().find(Process::is_guardian)
    }
    /// The guardian of a runtime that lives, looked for among the runtime's children alone: a look
    /// at all processes takes tens of milliseconds where system calls are slow.
    pub(crate) fn guardian_beside(&self) -> Option<Process> {
        let runtime = self.identity.split('-').next().unwrap_or_default();
        let threads = entries(&Path::new("/proc").join(runtime).join("task"));
        let lists: Vec<_> = threads
            .iter()
            .filter_map(|thread| fs::read_to_string(thread.join("children")).ok())
            .collect();
        // Where the kernel lists no children (CONFIG_PROC_CHILDREN) all are looked at.
        if lists.is_empty() {
            return self.guardian();
        }
        let words = lists.iter().flat_map(|list| list.split_whitespace());
        let children = words.filter_map(|word| word.parse().ok()).map(|pid| {
            let process = Process { pid, command: String::new(), environment: Vec::new() };
            Process { command: process.read("cmdline").replace('\0', " "), ..process }
        });
        children.into_iter().find(Process::is_guardian)
    }
    /// Its directories in all hierarchies.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let mut groups: Vec<_> = houses().into_keys().collect();
        let own = |path: &Path| path.iter().any(|part| *part == *self.identity);
        groups.retain(|path| own(path));
        groups
    }
    /// Its files, of which its socket is one.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files = entries(Path::new(SOCKETS));
        files.retain(|path| path.to_string_lossy().contains(&self.identity));
        files
    }
    /// Everything that is still there of it.
    pub(crate) fn leftovers(&self) -> Leftovers {
        let (processes, groups) = (self.processes(), self.groups());
        // One list for the harm, by two ways: a process that lost its environment is in a group.
        let members = groups.iter().flat_map(|dir| members(dir));
        let mut pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        pids.extend(members);
        pids.sort_unstable();
        pids.dedup();
        let real_time = pids.into_iter().flat_map(|pid| {
            let process = Process { pid, command: String::new(), environment: Vec::new() };
            let raised = process.policies().into_iter().filter(|(policy, _)| *policy != 0);
            raised.map(move |(policy, priority)| (pid, policy, priority))
        });
        Leftovers {
            real_time: real_time.collect(),
            frozen: groups.iter().filter(|dir| is_frozen(dir)).cloned().collect(),
            files: self.files(),
            processes: processes.into_iter().map(|p| (p.pid, p.command)).collect(),
            groups,
        }
    }
}

/// Whether a process has ended, waited for or not.
pub(crate) fn has_ended(pid: u32) -> bool {
    let state = stat_field(Path::new(&format!("/proc/{pid}")), 3);
    state.is_none_or(|state| state == "Z" || state == "X")
}

/// Every process that can be looked at.
fn processes() -> impl Iterator<Item = Process> {
    entries(Path::new("/proc")).into_iter().filter_map(|directory| {
        let pid = directory.file_name()?.to_str()?.parse().ok()?;
        let words = |file| -> Option<Vec<String>> {
            let bytes = fs::read(directory.join(file)).ok()?;
            let words = bytes.split(|byte| *byte == 0).filter(|word| !word.is_empty());
            Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
        };
        Some(Process { pid, command: words("cmdline")?.join(" "), environment: words("environ")? })
    })
}

fn is_frozen(dir: &Path) -> bool {
    let state = |file| fs::read_to_string(dir.join(file)).unwrap_or_default();
    state("cgroup.freeze").starts_with('1') || state("freezer.state").starts_with("FR")
}

fn members(dir: &Path) -> Vec<u32> {
    let list = |file| fs::read_to_string(dir.join(file)).unwrap_or_default();
    let lists = [list("cgroup.procs"), list("tasks")].concat();
    lists.lines().filter_map(|line| line.parse().ok()).collect()
}

/// What a run could change for others: the directories named `maracas` with all below them in
/// every hierarchy, the hosts' switches for scheduling, and the controllers that are handed down.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Snapshot {
    groups: BTreeMap<PathBuf, String>,
    switches: BTreeMap<PathBuf, String>,
}

impl Snapshot {
    /// How it is now. Runs of others that live are left out.
    pub(crate) fn take() -> Self {
        let mut groups = houses();
        let busy: Vec<PathBuf> = groups.keys().filter(|path| is_alive(path)).cloned().collect();
        groups
            .retain(|path, _| !busy.iter().any(|of| of.starts_with(path) || path.starts_with(of)));
        let mut switches = BTreeMap::new();
        for path in entries(Path::new("/proc/sys/kernel")) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("sched_") || name.starts_with("perf_") {
                switches.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
            }
        }
        for root in hierarchies() {
            let path = root.join("cgroup.subtree_control");
            switches.insert(path.clone(), fs::read_to_string(&path).unwrap_or_default());
        }
        Self { groups, switches }
    }
}

/// Whether a path lies in the tree of a runtime that lives.
fn is_alive(path: &Path) -> bool {
    path.iter().map(|part| part.to_string_lossy()).any(|part| {
        let pid = part.split_once('-').and_then(|(pid, _)| pid.parse().ok());
        pid.and_then(identity).is_some_and(|run| run == part)
    })
}

/// Whether any run lives on this host.
pub(crate) fn a_run_lives() -> bool {
    houses().keys().any(|path| is_alive(path))
}

/// The mount points of all control group hierarchies.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mut roots = Vec::new();
    while let Some([_, place, kind, ..]) = words.next().as_deref() {
        if kind.starts_with("cgroup") {
            roots.push(PathBuf::from(place));
        }
    }
    roots
}

/// Every directory that is named `maracas` or lies below one, in every hierarchy, with its cores
/// where it has any.
fn houses() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for root in hierarchies() {
        let mut waiting = vec![root];
        while let Some(dir) = waiting.pop() {
            if dir.iter().any(|part| part == "maracas") {
                let cores = fs::read_to_string(dir.join("cpuset.cpus")).unwrap_or_default();
                found.insert(dir.clone(), cores);
            }
            waiting.extend(entries(&dir).into_iter().filter(|path| path.is_dir()));
        }
    }
    found
}

/// What stands in a directory; nothing where it is gone.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
