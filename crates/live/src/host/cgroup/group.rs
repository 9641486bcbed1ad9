//! One VCPU's group, and foreign processes of which single threads got VCPUs.

use super::{Confinement, Dirs, Hierarchies, core_list, uncount_pressure, write_file};
use crate::host::{HardwareCore, Identity, naming, sched, sys};
use maracas_core::VcpuId;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::{io, thread, time};

/// On a client's v2 group: its v2 group and its v1 cpuset before it was adopted.
pub(super) const ORIGIN: &str = "user.maracas.origin";
pub(super) const ORIGIN_CPUSET: &str = "user.maracas.cpuset";

/// What a group is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Members {
    Processes,
    Threads,
}

/// The files that stop and start a group, kept open: opening costs more than the act.
#[derive(Debug)]
enum FreezeSwitch {
    V2 { freeze: File, events: File },
    V1 { state: File },
    None,
}

/// The list of thread numbers.
#[derive(Debug)]
enum List {
    /// v2: kept open.
    Open(File),
    /// v1 keeps what an open file has once read for a second and longer, so it is opened anew.
    Path(PathBuf),
    None,
}

/// The control group of one VCPU. Dropping it closes files only; [`Group::remove`] removes it.
#[derive(Debug)]
pub struct Group {
    dirs: Dirs,
    members: Members,
    confinement: Confinement,
    freeze_switch: FreezeSwitch,
    tids: List,
    /// The directory of v2, for `PERF_FLAG_PID_CGROUP` and `CLONE_INTO_CGROUP`.
    dir: Option<OwnedFd>,
    /// Where a pid (or tid) is written to join, v2 first: one file a hierarchy.
    join_files: Vec<File>,
    /// Where the cores are written on which it may run, if a cpuset confines it.
    cores: Option<File>,
}

impl Group {
    pub(super) fn create(
        dirs: Dirs,
        members: Members,
        confinement: Confinement,
    ) -> io::Result<Group> {
        let opened = dirs.make().and_then(|()| Group::open(dirs.clone(), members, confinement));
        opened.inspect_err(|_| drop(dirs.remove()))
    }

    fn open(dirs: Dirs, members: Members, confinement: Confinement) -> io::Result<Group> {
        let threaded = members == Members::Threads;
        if let (true, Some(v2)) = (threaded, &dirs.v2) {
            write_file(&v2.join("cgroup.type"), "threaded")?;
        }
        dirs.v2.iter().for_each(|v2| uncount_pressure(v2));
        let freeze_switch = match (&dirs.v2, &dirs.freezer) {
            (Some(v2), _) => FreezeSwitch::V2 {
                freeze: open(&v2.join("cgroup.freeze"))?,
                events: open_read(&v2.join("cgroup.events"))?,
            },
            (None, Some(v1)) => FreezeSwitch::V1 { state: open(&v1.join("freezer.state"))? },
            (None, None) => FreezeSwitch::None,
        };
        let tids = match (&dirs.v2, dirs.freezer.as_ref().or(dirs.cpuset.as_ref())) {
            (Some(v2), _) => List::Open(open_read(&v2.join("cgroup.threads"))?),
            (None, Some(v1)) => List::Path(v1.join("tasks")),
            (None, None) => List::None,
        };
        let dir = dirs.v2.as_ref().map(File::open).transpose()?.map(OwnedFd::from);
        let join_files = join_files(&dirs, threaded)?;
        let cpuset = match confinement {
            Confinement::CpusetV1 => dirs.cpuset.as_ref(),
            Confinement::CpusetV2 => dirs.v2.as_ref(),
            Confinement::Affinity => None,
        };
        let cores = cpuset.map(|dir| open(&dir.join("cpuset.cpus"))).transpose()?;
        Ok(Group { dirs, members, confinement, freeze_switch, tids, dir, join_files, cores })
    }

    /// Stops every thread of the group: 4 us until the last instruction with v2, 7 us with v1 (and
    /// 110 us where no other group of the host is frozen).
    /// A thread inside the kernel stops on its way out, a blocked one when it would run again.
    ///
    /// # Errors
    /// `Unsupported` where the host has no freezer.
    pub fn freeze(&self) -> io::Result<()> {
        match &self.freeze_switch {
            FreezeSwitch::V2 { freeze, .. } => freeze.write_all_at(b"1", 0),
            FreezeSwitch::V1 { state } => state.write_all_at(b"FROZEN", 0),
            FreezeSwitch::None => Err(no_group("freezer")),
        }
    }

    /// Lets every thread of the group run again: 17 us until the first instruction with v2.
    ///
    /// # Errors
    /// `Unsupported` where the host has no freezer.
    pub fn thaw(&self) -> io::Result<()> {
        match &self.freeze_switch {
            FreezeSwitch::V2 { freeze, .. } => freeze.write_all_at(b"0", 0),
            FreezeSwitch::V1 { state } => state.write_all_at(b"THAWED", 0),
            FreezeSwitch::None => Err(no_group("freezer")),
        }
    }

    /// Whether every thread of the group has stopped. A group that has just been asked to freeze is
    /// not frozen yet; an empty one freezes at once.
    ///
    /// # Errors
    /// `Unsupported` where the host has no freezer.
    pub fn is_frozen(&self) -> io::Result<bool> {
        let mut text = [0u8; 64];
        match &self.freeze_switch {
            FreezeSwitch::V2 { events, .. } => {
                let length = events.read_at(&mut text, 0)?;
                Ok(holds(&text[..length], b"frozen 1"))
            }
            FreezeSwitch::V1 { state } => {
                let length = state.read_at(&mut text, 0)?;
                Ok(holds(&text[..length], b"FROZEN"))
            }
            FreezeSwitch::None => Err(no_group("freezer")),
        }
    }

    /// Whether any process is left in the group.
    ///
    /// # Errors
    /// `Unsupported` where there is no group; the kernel's error where it was removed.
    pub fn is_populated(&self) -> io::Result<bool> {
        if let FreezeSwitch::V2 { events, .. } = &self.freeze_switch {
            let mut text = [0u8; 64];
            let length = events.read_at(&mut text, 0)?;
            return Ok(holds(&text[..length], b"populated 1"));
        }
        let mut tids = Vec::new();
        self.threads(&mut tids)?;
        Ok(!tids.is_empty())
    }

    /// A descriptor that polls `POLLPRI` when the group becomes empty, frozen or the opposite.
    /// Only with v2.
    pub fn events(&self) -> Option<BorrowedFd<'_>> {
        match &self.freeze_switch {
            FreezeSwitch::V2 { events, .. } => Some(events.as_fd()),
            FreezeSwitch::V1 { .. } | FreezeSwitch::None => None,
        }
    }

    /// Puts the numbers of the group's threads into `tids`, which is cleared first; a thread may
    /// end or be born meanwhile.
    ///
    /// # Errors
    /// `Unsupported` where there is no group.
    pub fn threads(&self, tids: &mut Vec<i32>) -> io::Result<()> {
        match &self.tids {
            List::Open(file) => numbers(file, tids),
            List::Path(path) => numbers(&open_read(path)?, tids),
            List::None => Err(no_group("group")),
        }
    }

    /// Like [`Group::threads`] for the processes; for a client's threads, their process.
    ///
    /// # Errors
    /// `Unsupported` where there is no group.
    pub fn processes(&self, pids: &mut Vec<i32>) -> io::Result<()> {
        let dir = self.dirs.each().next().ok_or_else(|| no_group("group"))?;
        let dir = match self.members {
            Members::Threads => dir.parent().unwrap_or(dir),
            Members::Processes => dir,
        };
        numbers(&open_read(&dir.join("cgroup.procs"))?, pids)
    }

    /// Moves a process with all its threads into the group (24 us: once, at the start).
    ///
    /// # Errors
    /// ESRCH when it has ended; `InvalidInput` for a group of single threads.
    pub fn add_process(&self, pid: i32) -> io::Result<()> {
        self.add(Members::Processes, pid)
    }

    /// Moves one thread of the client into the group.
    ///
    /// # Errors
    /// ESRCH when it has ended; `InvalidInput` for a group of whole processes.
    pub fn add_thread(&self, tid: i32) -> io::Result<()> {
        self.add(Members::Threads, tid)
    }

    fn add(&self, members: Members, number: i32) -> io::Result<()> {
        if members != self.members {
            let message = format!("{number}: this group takes {:?} only", self.members);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let text = number.to_string();
        self.join_files.iter().try_for_each(|join_file| join_file.write_all_at(text.as_bytes(), 0))
    }

    /// Lets the group run on one core only. With a cpuset its programs cannot change that; without
    /// one it sets the affinity of the threads that are there now. A running thread moves too.
    ///
    /// # Errors
    /// EINVAL for a core that is offline or not ours.
    pub fn confine(&self, core: HardwareCore) -> io::Result<()> {
        if let Some(cores) = &self.cores {
            return cores.write_all_at(core_list(&[core]).as_bytes(), 0);
        }
        let mut tids = Vec::new();
        match self.threads(&mut tids) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            result => result?,
        }
        tids.iter().try_for_each(|tid| sched::unless_gone(sched::set_affinity(*tid, core)))
    }

    /// What confines this group.
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// The directory's descriptor, for a counter of the whole group
    /// (`PERF_FLAG_PID_CGROUP`). Only with v2.
    pub fn dir_fd(&self) -> Option<BorrowedFd<'_>> {
        self.dir.as_ref().map(AsFd::as_fd)
    }

    /// The group's directory in v2 or, without it, in the first hierarchy there is.
    pub fn path(&self) -> Option<&Path> {
        self.dirs.each().next().map(PathBuf::as_path)
    }

    /// The files that a starting process writes "0" into to join, in order.
    pub(crate) fn join_files(&self) -> impl Iterator<Item = RawFd> {
        self.join_files.iter().map(AsRawFd::as_raw_fd)
    }

    /// Kills every process of the group, frozen or not, and returns at once; without the kernel's
    /// switch for it (before Linux 5.14) when they are gone, the group thawed.
    ///
    /// # Errors
    /// What lives on after half a second; `InvalidInput` for a client's threads: those are
    /// released, never killed.
    pub fn kill(&self) -> io::Result<()> {
        if self.members == Members::Threads {
            let message = "a client's threads are released, not killed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.dirs.each().next().map_or(Ok(()), |dir| kill_all(dir))
    }

    /// Kills as [`Group::kill`] does where the kernel has no switch for it.
    #[cfg(test)]
    pub(in crate::host) fn kill_by_list(&self) -> io::Result<()> {
        self.dirs.each().next().map_or(Ok(()), |dir| kill_each(dir))
    }

    /// Removes the group, waiting up to 500 ms for killed processes to be gone.
    ///
    /// # Errors
    /// EBUSY when a process is still in it, named with the path.
    pub fn remove(self) -> io::Result<()> {
        self.dirs.remove()
    }
}

/// A foreign process of which single threads get VCPUs.
#[derive(Debug)]
pub struct Client {
    process: Identity,
    dirs: Dirs,
    confinement: Confinement,
    origin: Dirs,
}

impl Client {
    pub(super) fn adopt(
        tree: &Dirs,
        pid: i32,
        confinement: Confinement,
        hierarchies: &Hierarchies,
    ) -> io::Result<Client> {
        let process = Identity::of(pid)?;
        let dirs = tree.child(&format!("client-{process}"));
        let (v2, cpuset) = hierarchies.origin(pid)?;
        let origin = Dirs { v2, freezer: None, cpuset };
        let client = Client { process, dirs, confinement, origin };
        client.take_in().inspect_err(|_| drop(client.dirs.remove()))?;
        Ok(client)
    }

    fn take_in(&self) -> io::Result<()> {
        let Client { process, dirs, origin, .. } = self;
        dirs.make()?;
        // Written before the move: at no instant is a client in our tree without its way back.
        if let Some(dir) = &dirs.v2 {
            mark(dir, ORIGIN, origin.v2.as_deref())?;
            mark(dir, ORIGIN_CPUSET, origin.cpuset.as_deref())?;
            write_file(&dir.join("cgroup.procs"), &process.pid.to_string())?;
        }
        if let (Confinement::CpusetV2, Some(dir)) = (self.confinement, &dirs.v2) {
            write_file(&dir.join("cgroup.subtree_control"), "+cpuset")?;
        }
        Ok(())
    }

    /// The process.
    pub fn process(&self) -> Identity {
        self.process
    }

    /// Creates the group of a VCPU for threads of this process ([`Group::add_thread`]).
    ///
    /// # Errors
    /// When a directory cannot be made or its files not opened, named with the path.
    pub fn vcpu(&self, vcpu: VcpuId) -> io::Result<Group> {
        let dirs = self.dirs.child(&format!("vcpu-{}", vcpu.0));
        Group::create(dirs, Members::Threads, self.confinement)
    }

    /// Ends one VCPU of the client: its threads run on, thawed, as `SCHED_OTHER`, in the groups of
    /// their process.
    ///
    /// # Errors
    /// When a thread could not be moved or the group not be removed.
    pub fn dismiss(&self, group: &Group) -> io::Result<()> {
        release_threads(&group.dirs, &self.dirs, &self.origin)?;
        group.dirs.remove()
    }

    /// Moves the process back where it came from and removes its group; its VCPUs must have been
    /// dismissed. A process that has ended is no error.
    ///
    /// # Errors
    /// When the process cannot be moved or a group is left.
    pub fn release(self) -> io::Result<()> {
        release(&self.dirs, &self.origin)
    }
}

/// How often a list of threads is read until it is empty; what makes more all the time is left.
const PASSES: u32 = 10;

/// Thaws and demotes a client's threads and moves them out of `group` into `client` (v2, whose
/// threads must stay inside the process' domain) and into the origin's v1 groups.
pub(super) fn release_threads(group: &Dirs, client: &Dirs, origin: &Dirs) -> io::Result<()> {
    thaw_dirs(group)?;
    let mut tids = Vec::new();
    let moves = [
        (&group.v2, &client.v2, "cgroup.threads"),
        (&group.freezer, &client.freezer, "tasks"),
        (&group.cpuset, &origin.cpuset, "tasks"),
    ];
    for (from, to, file) in moves {
        let (Some(from), Some(to)) = (from, to) else { continue };
        // A thread that moves may have borne others since the list was read.
        for _ in 0..PASSES {
            if !from.exists() {
                break;
            }
            numbers(&open_read(&from.join(file))?, &mut tids)?;
            if tids.is_empty() {
                break;
            }
            for tid in &tids {
                sched::unless_gone(sched::set_other(*tid))?;
                unless_moved(write_file(&to.join(file), &tid.to_string()))?;
            }
        }
    }
    Ok(())
}

/// Moves the processes of a client's group back to their origin and removes the group.
pub(super) fn release(client: &Dirs, origin: &Dirs) -> io::Result<()> {
    let mut pids = Vec::new();
    if let Some(dir) = client.v2.as_deref().filter(|dir| dir.exists()) {
        thaw_dirs(client)?;
        numbers(&open_read(&dir.join("cgroup.procs"))?, &mut pids)?;
        let home = origin.v2.as_deref().filter(|home| home.join("cgroup.procs").exists());
        // An origin that has been removed meanwhile: then the first above our tree that takes
        // processes (client, runtime and house are below its base), the root at last.
        let above = dir.ancestors().skip(3).filter(|dir| dir.join("cgroup.procs").exists());
        for pid in &pids {
            let mut moved = Ok(());
            for home in home.into_iter().chain(above.clone()) {
                moved = unless_moved(write_file(&home.join("cgroup.procs"), &pid.to_string()));
                if moved.is_ok() {
                    break;
                }
            }
            moved?;
        }
    }
    let above = |dir: &PathBuf| dir.ancestors().nth(3).unwrap_or(dir).to_path_buf();
    // Where a core goes off line, the kernel itself moves what a VCPU's cpuset of v1 held into the
    // client's.
    let cpuset = origin.cpuset.clone().filter(|home| home.join("tasks").exists());
    for (from, home) in [
        (&client.freezer, client.freezer.as_ref().map(above)),
        (&client.cpuset, cpuset.or(client.cpuset.as_ref().map(above))),
    ] {
        let (Some(from), Some(home)) = (from.as_ref().filter(|it| it.exists()), home) else {
            continue;
        };
        numbers(&open_read(&from.join("tasks"))?, &mut pids)?;
        for tid in &pids {
            unless_moved(write_file(&home.join("tasks"), &tid.to_string()))?;
        }
    }
    client.remove()
}

fn thaw_dirs(dirs: &Dirs) -> io::Result<()> {
    if let Some(dir) = dirs.v2.as_deref().filter(|dir| dir.exists()) {
        write_file(&dir.join("cgroup.freeze"), "0")?;
    }
    if let Some(dir) = dirs.freezer.as_deref().filter(|dir| dir.exists()) {
        write_file(&dir.join("freezer.state"), "THAWED")?;
    }
    Ok(())
}

/// Kills every process of a group by its directory, by the group's own switch where there is one.
///
/// # Errors
/// Without the switch (before Linux 5.14): what lives on after half a second.
pub(super) fn kill_all(dir: &Path) -> io::Result<()> {
    if dir.join("cgroup.kill").exists() {
        return write_file(&dir.join("cgroup.kill"), "1");
    }
    kill_each(dir)
}

/// Kills one process after the other. A group whose processes have children all the time is
/// stopped first, or the children would be missed for ever.
fn kill_each(dir: &Path) -> io::Result<()> {
    let forms = [("cgroup.freeze", "1", "0"), ("freezer.state", "FROZEN", "THAWED")];
    let freeze_switch = forms.into_iter().find(|(file, ..)| dir.join(file).exists());
    let mut pids = Vec::new();
    let patience = time::Instant::now() + time::Duration::from_millis(500);
    loop {
        if let Some((file, stop, _)) = freeze_switch {
            write_file(&dir.join(file), stop)?;
            await_frozen(dir);
        }
        let killed = processes_below(dir, &mut pids)
            .and_then(|()| pids.iter().try_for_each(|pid| sys::kill(*pid, libc::SIGKILL)));
        // In v1 the signal waits until then; in v2 nothing may stay frozen either.
        if let Some((file, _, go)) = freeze_switch {
            write_file(&dir.join(file), go)?;
        }
        killed?;
        if pids.is_empty() {
            return Ok(());
        }
        if time::Instant::now() > patience {
            let message = format!("{}: processes {pids:?} outlive their kill", dir.display());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(time::Duration::from_millis(1));
    }
}

/// Waits until a group that was asked to freeze has stopped. Not for ever: a thread inside the
/// kernel stops on its way out only, and has no children before.
fn await_frozen(dir: &Path) {
    let patience = time::Instant::now() + time::Duration::from_millis(20);
    let state = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap_or_default();
    let frozen =
        || state("cgroup.events").contains("frozen 1") || state("freezer.state") == "FROZEN\n";
    while !frozen() && time::Instant::now() < patience {
        thread::sleep(time::Duration::from_micros(100));
    }
}

/// The processes of a group and of all groups below it.
fn processes_below(dir: &Path, pids: &mut Vec<i32>) -> io::Result<()> {
    numbers(&open_read(&dir.join("cgroup.procs"))?, pids)?;
    let mut below = Vec::new();
    for group in super::remains::children(dir) {
        processes_below(&group, &mut below)?;
        pids.append(&mut below);
    }
    Ok(())
}

/// A thread that has ended, or is ending, need not be moved.
fn unless_moved(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound || sched::gone(&error) => Ok(()),
        result => result,
    }
}

fn mark(dir: &Path, name: &str, origin: Option<&Path>) -> io::Result<()> {
    let Some(origin) = origin.and_then(Path::to_str) else { return Ok(()) };
    sys::set_attribute(dir, name, origin).map_err(naming(format_args!("{} {name}", dir.display())))
}

fn join_files(dirs: &Dirs, threaded: bool) -> io::Result<Vec<File>> {
    let file = |v1: bool| match (threaded, v1) {
        (false, _) => "cgroup.procs",
        (true, false) => "cgroup.threads",
        (true, true) => "tasks",
    };
    let places = [(&dirs.v2, false), (&dirs.freezer, true), (&dirs.cpuset, true)];
    let there = places.into_iter().filter_map(|(dir, v1)| Some(dir.as_ref()?.join(file(v1))));
    there
        .map(|path| OpenOptions::new().write(true).open(&path).map_err(naming(path.display())))
        .collect()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(naming(path.display()))
}

fn open_read(path: &Path) -> io::Result<File> {
    File::open(path).map_err(naming(path.display()))
}

/// Reads a file of one number a line from its start, without allocating once `into` has grown.
///
/// Leaves out 0. A thread that has exited has no number any more, and is listed as 0 until it has
/// left its core (`task_pid_vnr`; seen on Linux 7.3, not on 6.1). All calls take 0 for the caller:
/// an agent that demoted "it" was found at `SCHED_OTHER`.
pub(super) fn numbers(file: &File, into: &mut Vec<i32>) -> io::Result<()> {
    into.clear();
    let mut text = [0u8; 4096];
    let (mut offset, mut number) = (0, 0i32);
    loop {
        let length = file.read_at(&mut text, offset)?;
        if length == 0 {
            break;
        }
        offset += length as u64;
        for byte in &text[..length] {
            if byte.is_ascii_digit() {
                // Thread numbers stay below 2^22 (PID_MAX_LIMIT).
                number = number * 10 + i32::from(byte - b'0');
            } else if number != 0 {
                into.push(std::mem::take(&mut number));
            }
        }
    }
    if number != 0 {
        into.push(number);
    }
    Ok(())
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn no_group(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("this host gives no {what}; see `doctor`"))
}

#[cfg(test)]
mod tests {
    use super::numbers;
    use std::fs::{self, File};

    #[test]
    fn a_thread_that_has_exited_is_not_taken_for_the_caller() {
        let path = std::env::temp_dir().join(format!("maracas-numbers-{}", std::process::id()));
        // Longer than what is read at once, so that a number is cut in two.
        let many: String = (1..=1000).map(|number| format!("{}\n0\n", number * 1001)).collect();
        let mut found = vec![7];
        for (text, expected) in [("", vec![]), ("0\n", vec![]), ("10\n0\n203\n0", vec![10, 203])] {
            fs::write(&path, text).unwrap();
            numbers(&File::open(&path).unwrap(), &mut found).unwrap();
            assert_eq!(found, expected, "{text:?}");
        }
        fs::write(&path, many).unwrap();
        numbers(&File::open(&path).unwrap(), &mut found).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(found, (1..=1000).map(|number| number * 1001).collect::<Vec<_>>());
    }
}
