//! Puts a host right after a run: the one repair that guardian, `clean` and the next start share,
//! in the order of [`Protocol::REAL`]. Doing it twice, or two at a time, does no harm.

use super::Charge;
use crate::host::cgroup::{Hierarchies, Remains, STILL};
use crate::host::claim;
use crate::host::hardware::ThisHardware;
use crate::host::resctrl;
use crate::host::run_directory;
use crate::host::sched::{self, KernelPolicy};
use crate::host::{HardwareCore, Identity};
use maracas_live_core::protocol::{Protocol, Repair};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io, thread, time};

/// How often threads are read and demoted again until none is raised and none gone. Children of
/// raised threads start unraised, so a second pass finds nothing; ten are for threads with rights
/// of their own, and keep a program that forks all the time from holding up the rest.
const PASSES: usize = 10;

/// How often releasing and removing are tried, each with the half second of patience that
/// [`Remains::repair`] has with a busy group.
const TRIES: u32 = 10;

/// How long programs are killed again and again; usually they are gone after some milliseconds.
const KILLING: time::Duration = time::Duration::from_secs(1);

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Whose leavings they were.
    pub run: Identity,
    /// Threads taken back to `SCHED_OTHER`.
    pub demoted: usize,
    /// Groups thawed.
    pub thawed: usize,
    /// Processes killed.
    pub killed: BTreeSet<i32>,
    /// Processes moved back where they came from.
    pub released: BTreeSet<i32>,
    /// Control groups removed.
    pub groups: usize,
    /// Groups of resource control removed: parts of the cache, bandwidth, monitors.
    pub shares: usize,
    /// Files removed.
    pub files: Vec<PathBuf>,
}

impl Restored {
    /// Whether anything at all was to be put right.
    pub fn touched_anything(&self) -> bool {
        let leavings = self.groups > 0 || self.shares > 0 || !self.files.is_empty();
        self.touched_anyone() || leavings
    }
    /// Whether threads or processes were touched, not only empty groups and files removed.
    pub fn touched_anyone(&self) -> bool {
        let processes = !self.killed.is_empty() || !self.released.is_empty();
        self.demoted > 0 || self.thawed > 0 || processes
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, demoted, thawed, killed, released, groups, shares, files } = self;
        write!(
            f,
            "run {run}: demoted {demoted} threads, thawed {thawed} groups, killed {} processes, \
             released {}, removed {groups} groups and {} files",
            killed.len(),
            released.len(),
            files.len(),
        )?;
        if *shares > 0 { write!(f, ", and {shares} of resctrl") } else { Ok(()) }
    }
}

/// Puts right whatever the run of `charge`, which must be dead, has left.
///
/// # Errors
/// The obstacle that stayed after every try, named; everything that could be done was done.
pub fn restore(hierarchies: &Hierarchies, charge: &Charge) -> io::Result<Restored> {
    let (hosts, run) = (hierarchies, charge.run);
    let mut done = Restored {
        run,
        demoted: 0,
        thawed: 0,
        killed: BTreeSet::new(),
        released: BTreeSet::new(),
        groups: 0,
        shares: 0,
        files: Vec::new(),
    };
    let mut obstacle = Ok(());
    for station in Protocol::REAL.repair {
        match station {
            Repair::Demote => done.demoted += demote(hosts, run),
            Repair::Thaw => done.thawed += thaw(hosts, run),
            // Never part of a repair.
            Repair::Freeze => {}
            Repair::Kill => kill(hosts, run, &mut done),
            // What comes after goes all the same, here and below.
            Repair::MoveBack => obstacle = obstacle.and(release(hosts, run, &mut done)),
            // Control groups go inside the two steps before: programs and clients have subtrees
            // of their own. The shares of cache and bandwidth belong to cores.
            Repair::RemoveGroups => match resctrl::restore(&ThisHardware, run) {
                Ok(removed) => done.shares += removed,
                Err(error) => obstacle = obstacle.and(Err(error)),
            },
            Repair::Forget => {
                let found = run_directory::files_of_runs().into_iter();
                let found = found.filter(|(owner, _)| *owner == run).map(|(_, path)| path);
                let files = charge.files.iter().cloned().chain(found);
                done.files.extend(files.filter(|file| fs::remove_file(file).is_ok()));
                done.files.extend(claim::forget(run));
            }
        }
    }
    obstacle.map(|()| done)
}

/// Demotes, thaws and gives full bandwidth, and leaves the rest: for a run that is being killed, or
/// of which a core went off line.
pub fn relieve(hierarchies: &Hierarchies, run: Identity) {
    for station in Protocol::LAST_RELIEF {
        match station {
            Repair::Demote => _ = demote(hierarchies, run),
            Repair::Thaw => {
                thaw(hierarchies, run);
                resctrl::lift(&ThisHardware, run);
            }
            Repair::Freeze | Repair::Kill | Repair::MoveBack => {}
            Repair::RemoveGroups | Repair::Forget => {}
        }
    }
}

/// The groups of the VCPUs of one core, in every hierarchy.
pub(super) struct OnCore(BTreeSet<PathBuf>);

/// Takes every thread of the run's VCPUs that may run on `core` (on any core where it is unknown)
/// back to `SCHED_OTHER`, and finds their groups. No lock of the kernel is taken that one that is
/// stuck might hold.
pub(super) fn relieve_core(
    hierarchies: &Hierarchies,
    run: Identity,
    core: Option<HardwareCore>,
) -> OnCore {
    let mut groups = BTreeSet::new();
    demote_where(hierarchies, run, |dir, tid| {
        let may_run = |core| sched::affinity_of(tid).is_ok_and(|cores| cores.contains(&core));
        let is_there = core.is_none_or(may_run);
        if is_there {
            groups.extend(group_of(dir));
        }
        is_there
    });
    OnCore(groups)
}

impl OnCore {
    /// Freezes them. Waits for a lock of the whole host (`cgroup_mutex`). What is gone meanwhile
    /// needs it no more.
    pub(super) fn freeze(&self) {
        for dir in &self.0 {
            for (file, free, freeze) in
                [("cgroup.freeze", "0", "1"), ("freezer.state", "THAWED", "FROZEN")]
            {
                let file = dir.join(file);
                let state = fs::read_to_string(&file).unwrap_or_default();
                let _ = if state.starts_with(free) { fs::write(&file, freeze) } else { Ok(()) };
            }
        }
    }
}

/// Takes every thread of the run's VCPUs back to `SCHED_OTHER`. Returns how many were raised.
fn demote(hierarchies: &Hierarchies, run: Identity) -> usize {
    demote_where(hierarchies, run, |_, _| true)
}

/// Takes those threads of the run's VCPUs back to `SCHED_OTHER` for which `is_meant`, given their
/// group and their number, says so, until a pass finds none raised and none gone. Returns how many
/// were raised.
fn demote_where(
    hierarchies: &Hierarchies,
    run: Identity,
    mut is_meant: impl FnMut(&Path, i32) -> bool,
) -> usize {
    let mut demoted = 0;
    for _ in 0..PASSES {
        let (mut raised, mut gone) = (0, false);
        let dirs = directories(hierarchies, run);
        for dir in dirs.iter().filter(|dir| is_of_vcpu(dir)) {
            let tids = [dir.join("cgroup.threads"), dir.join("tasks")];
            for tid in tids.iter().flat_map(|file| numbers(file)) {
                if !is_meant(dir, tid) {
                    continue;
                }
                match sched::policy_of(tid) {
                    Ok(KernelPolicy::Other) => {}
                    // A thread that is not ours to change must not hold up the others.
                    Ok(_) => raised += usize::from(sched::set_other(tid).is_ok()),
                    // It may have borne a raised child since the list was read.
                    Err(_) => gone = true,
                }
            }
        }
        demoted += raised;
        if raised == 0 && !gone {
            break;
        }
    }
    demoted
}

/// Thaws every group of the run. Returns how many were frozen, or about to be.
fn thaw(hierarchies: &Hierarchies, run: Identity) -> usize {
    let mut thawed = 0;
    // One group is frozen so that freezing others costs less, and is empty.
    for dir in directories(hierarchies, run).iter().filter(|dir| !dir.ends_with(STILL)) {
        for (file, frozen, free) in [("cgroup.freeze", "1", "0"), ("freezer.state", "FR", "THAWED")]
        {
            let file = dir.join(file);
            let state = fs::read_to_string(&file).unwrap_or_default();
            if state.starts_with(frozen) && fs::write(&file, free).is_ok() {
                thawed += 1;
            }
        }
    }
    thawed
}

/// Kills what the run had started and removes its groups, again and again until they are gone: a
/// program that was just being started may enter its group after the kill. Where the kernel has no
/// `cgroup.kill` nothing is done; [`Remains::repair`] kills one by one then.
fn kill(hierarchies: &Hierarchies, run: Identity, done: &mut Restored) {
    let patience = time::Instant::now() + KILLING;
    loop {
        let mut dirs = directories(hierarchies, run);
        dirs.retain(|dir| is_program(dir));
        let killable = dirs.iter().any(|dir| dir.join("cgroup.kill").exists());
        if !killable || time::Instant::now() > patience {
            return;
        }
        for dir in dirs {
            done.killed.extend(numbers(&dir.join("cgroup.procs")));
            let switch = dir.join("cgroup.kill");
            // What fails here is gone already, or tried again.
            let _ = if switch.exists() { fs::write(switch, "1") } else { Ok(()) };
            done.groups += usize::from(fs::remove_dir(dir).is_ok());
        }
        thread::sleep(time::Duration::from_micros(500));
    }
}

/// Whether a group is one of programs that the run started: directly below the run's directory.
fn is_program(dir: &Path) -> bool {
    let name = |dir: &Path| Some(dir.file_name()?.to_str()?.to_string());
    let below_run = dir.parent().and_then(name).as_deref().is_some_and(is_run);
    below_run && name(dir).is_some_and(|name| name.starts_with("vcpu-"))
}

/// Whether a group is a VCPU's or lies below one. A client's own group holds threads that have no
/// VCPU: their priority is their own affair.
fn is_of_vcpu(dir: &Path) -> bool {
    let names = dir.iter().filter_map(|name| name.to_str());
    names.skip_while(|name| !is_run(name)).any(|name| name.starts_with("vcpu-"))
}

/// The group of the VCPU to which a group belongs.
fn group_of(dir: &Path) -> Option<PathBuf> {
    let is_vcpu = |dir: &&Path| {
        let name = dir.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("vcpu-"))
    };
    // The outermost, since a program may make groups of any name in its own.
    let mut above = dir.ancestors().take_while(|dir| is_of_vcpu(dir)).collect::<Vec<_>>();
    above.reverse();
    above.into_iter().find(is_vcpu).map(Path::to_path_buf)
}

fn is_run(name: &str) -> bool {
    Identity::parse(name).is_some()
}

/// Releases the run's clients and removes what is left of its tree; begins anew where a group
/// turns out not to be empty.
fn release(hierarchies: &Hierarchies, run: Identity, done: &mut Restored) -> io::Result<()> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        let Some(remains) = Remains::of(hierarchies, run) else { return Ok(()) };
        match remains.repair() {
            Ok(repaired) => {
                done.killed.extend(repaired.killed);
                done.released.extend(repaired.released);
                done.groups += repaired.groups;
            }
            Err(error) => {
                last = Err(error);
                relieve(hierarchies, run);
                thread::sleep(time::Duration::from_millis(1));
            }
        }
    }
    last
}

/// The threads or processes that a group lists; 0 stands for one that has exited, and would be
/// taken for the caller.
fn numbers(file: &Path) -> Vec<i32> {
    let list = fs::read_to_string(file).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).filter(|number| *number != 0).collect()
}

/// Every directory of the run, in every hierarchy, parents first.
fn directories(hierarchies: &Hierarchies, run: Identity) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in hierarchies.v2.iter().chain(&hierarchies.v1) {
        hierarchy.trees_of(run).iter().for_each(|dir| descend(dir, &mut found));
    }
    found
}

fn descend(dir: &Path, found: &mut Vec<PathBuf>) {
    found.push(dir.to_path_buf());
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            descend(&entry.path(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_of_vcpus_are_demoted() {
        let ours = |path: &str| is_of_vcpu(Path::new(path));
        assert!(ours("/sys/fs/cgroup/maracas/4711-88/vcpu-3"));
        assert!(ours("/sys/fs/cgroup/maracas/4711-88/vcpu-3/made-by-it"));
        assert!(ours("/sys/fs/cgroup/maracas/4711-88/client-5-9/vcpu-4"));
        assert!(!ours("/sys/fs/cgroup/maracas/4711-88/client-5-9"), "its other threads");
        assert!(!ours("/vcpu-1/maracas/4711-88"));
    }

    #[test]
    fn the_group_of_a_vcpu_is_the_outermost_of_its_name() {
        let group = |path: &str| group_of(Path::new(path));
        let own = "/sys/fs/cgroup/vcpu-9/maracas/4711-88/client-5-9/vcpu-3";
        assert_eq!(group(own), Some(own.into()));
        assert_eq!(group(&format!("{own}/vcpu-4/deep")), Some(own.into()));
        assert_eq!(group("/sys/fs/cgroup/maracas/4711-88"), None);
    }
}
