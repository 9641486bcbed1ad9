//! Control groups: the freezer, the kill switch, the budget's scope and the core confinement.
//!
//! # Layout
//! The tree alone shows a fresh process which run it belongs to and what to do with each group. In
//! every hierarchy that we use (v2; v1 `freezer` where there is no v2; v1 `cpuset`), below our own
//! group or the next one above it that serves as well (`place`), so that programs keep the limits
//! of memory, tasks and cores under which the run was started. Where that is closed to us the tree
//! stands higher up, and [`Tree::remarks`] says which limit is lost. In the v1 `memory` and `pids`
//! hierarchies programs stay in our own groups:
//!
//! ```text
//! maracas/
//!   4711-88123/                    a runtime: process number and start instant
//!     still/                       v1 freezer only: empty, and frozen as long as the run lasts
//!     vcpu-3/                      programs that we started: ours to kill
//!     client-5022-90001/           a foreign process that asked for VCPUs: to be released.
//!                                  xattr user.maracas.origin, .cpuset: where it came from
//!       vcpu-4/                    one or more of its threads (v2 type `threaded`)
//!     runtime/                     the runtime itself, where its own group hands cpusets down
//! ```
//!
//! A runtime's directory whose process is dead is a [`Remains`]. We never use the v1 `cpu`
//! hierarchy: a child group there has `rt_runtime` 0, so nothing in it could become `SCHED_FIFO`.
//! A foreground thread must therefore stay in that hierarchy's root.
//!
//! # Confinement
//! A program is confined to its core by a cpuset of its VCPU (v1, or v2 with the controller), which
//! it cannot leave as long as the group files are closed to it (`launch`). Without either,
//! only an affinity is set, which a program may change; [`Tree::confinement`] says which it is.
//! In v2 a group with processes hands no controller down. Where the runtime is alone in its group,
//! as in a service of systemd's, it enters one below it for as long as the tree stands.

mod group;
mod mounts;
pub(crate) mod owner;
mod place;
mod remains;

pub use group::{Client, Group};
pub(in crate::host) use mounts::cgroup_mounts;
pub use mounts::{Hierarchies, Hierarchy};
pub use remains::{Remains, Repaired};

use super::{HardwareCore, Identity, naming, sys};
use maracas_core::VcpuId;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io, thread, time};

/// The directory that holds all runtimes of a host.
const HOUSE: &str = "maracas";
/// In a runtime's directory of the v1 freezer: an empty group, frozen all the time. The kernel
/// changes its own code, on all cores, when the first group of the host is frozen and when the last
/// one is thawed (`freezer_active` in `kernel/cgroup/legacy_freezer.c`). So no freeze of ours is
/// the first.
pub(crate) const STILL: &str = "still";
/// In a runtime's directory of v2: the runtime itself, where it left its own group so that this
/// one may hand cpusets down.
const RUNTIME: &str = "runtime";
/// On a runtime's directory: the groups above it in which this runtime, or another one beside it,
/// handed cpusets down, which must not be so any more when the last of them has ended; one a line,
/// the highest first.
const ENABLED: &str = "user.maracas.enabled";

/// Which freezer this host gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freezer {
    /// `cgroup.freeze`: 4 us to the last instruction.
    V2,
    /// The v1 freezer hierarchy: about as fast, where `STILL` could be made.
    V1,
    /// None: background cannot be stopped by group.
    None,
}

/// What keeps a program on its core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confinement {
    /// A v1 cpuset.
    CpusetV1,
    /// The v2 cpuset controller.
    CpusetV2,
    /// Only the threads' affinity, which a program may change itself.
    Affinity,
}

/// One group's directory in each hierarchy that we use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Dirs {
    v2: Option<PathBuf>,
    freezer: Option<PathBuf>,
    cpuset: Option<PathBuf>,
}

impl Dirs {
    fn each(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.v2, &self.freezer, &self.cpuset].into_iter().flatten()
    }

    fn child(&self, name: &str) -> Dirs {
        let below = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| dir.join(name));
        Dirs { v2: below(&self.v2), freezer: below(&self.freezer), cpuset: below(&self.cpuset) }
    }

    /// Makes the directories; a v1 cpuset takes the memory nodes of its parent, and its cores.
    fn make(&self) -> io::Result<()> {
        for dir in self.each() {
            fs::create_dir_all(dir).map_err(naming(dir.display()))?;
        }
        self.cpuset.as_deref().map_or(Ok(()), inherit_cpuset)
    }

    /// Removes the directories; a group just emptied by a kill may be busy for some milliseconds.
    fn remove(&self) -> io::Result<()> {
        self.each().try_for_each(|dir| remove_dir(dir))
    }
}

/// The runtime's part of the control groups. Dropping it removes nothing: what a dead runtime
/// leaves is found again by [`Remains`].
#[derive(Debug)]
pub struct Tree {
    run: Identity,
    dirs: Dirs,
    freezer: Freezer,
    confinement: Confinement,
    hierarchies: Hierarchies,
    remarks: Vec<String>,
}

impl Tree {
    /// Creates the tree of this process in the hierarchies of this host. With none usable the
    /// tree is empty, and its groups refuse what they cannot do.
    ///
    /// # Errors
    /// When `/proc` is unreadable. A hierarchy that refuses us is left out, not an error.
    pub fn create(hierarchies: &Hierarchies) -> io::Result<Tree> {
        let run = Identity::own()?;
        let path = Path::new(HOUSE).join(run.to_string());
        let mut dirs = Dirs::default();
        let mut confinement = Confinement::Affinity;
        let mut remarks = Vec::new();
        if let Some(v2) = &hierarchies.v2 {
            dirs.v2 = claim(place::places(v2), &path, &mut remarks, |dir| {
                dir.join("cgroup.freeze").exists() && !is_invalid(dir)
            });
        }
        if dirs.v2.is_none() {
            // It limits nothing, and a client's way back from it is the root.
            let places = hierarchies.v1("freezer").map(place::places).into_iter().flatten();
            let places = places.collect::<Vec<_>>().into_iter().rev();
            dirs.freezer = claim(places, &path, &mut remarks, |_| true);
            // Without it a freeze takes longer, and that is all.
            let _ = dirs.freezer.as_deref().map(keep_frozen);
        }
        if let Some(v1) = hierarchies.v1("cpuset") {
            dirs.cpuset =
                claim(place::places(v1), &path, &mut remarks, |dir| inherit_cpuset(dir).is_ok());
        }
        if dirs.cpuset.is_some() {
            confinement = Confinement::CpusetV1;
        } else if let (Some(v2), Some(dir)) = (&hierarchies.v2, &dirs.v2)
            && enable_cpuset(v2, dir).is_ok()
        {
            confinement = Confinement::CpusetV2;
        }
        let freezer = match (&dirs.v2, &dirs.freezer) {
            (Some(_), _) => Freezer::V2,
            (None, Some(_)) => Freezer::V1,
            (None, None) => Freezer::None,
        };
        Ok(Tree { run, dirs, freezer, confinement, hierarchies: hierarchies.clone(), remarks })
    }

    /// The runtime that owns the tree: this process.
    pub fn run(&self) -> Identity {
        self.run
    }

    /// Which limits of the groups that we came from do not hold for programs, one sentence each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Which freezer its groups have.
    pub fn freezer(&self) -> Freezer {
        self.freezer
    }

    /// What confines its groups to cores.
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// Creates the group of a VCPU whose programs we start; everything ever found in it is ours
    /// to kill.
    ///
    /// # Errors
    /// When a directory cannot be made or its files not opened, named with the path.
    pub fn vcpu(&self, vcpu: VcpuId) -> io::Result<Group> {
        let dirs = self.dirs.child(&format!("vcpu-{}", vcpu.0));
        Group::create(dirs, group::Members::Processes, self.confinement)
    }

    /// Takes in a foreign process, so that single threads of it can get VCPUs of their own
    /// ([`Client::vcpu`]). Where it came from is written on its group, for the way back.
    ///
    /// # Errors
    /// `NotFound` when the process has ended; else what the kernel says, with the path.
    pub fn adopt(&self, pid: i32) -> io::Result<Client> {
        Client::adopt(&self.dirs, pid, self.confinement, &self.hierarchies)
    }

    /// Removes the tree, whose groups must have been removed before, and the house if it is empty.
    ///
    /// # Errors
    /// EBUSY when a group is left, named with its path.
    pub fn remove(self) -> io::Result<()> {
        if let (Some(v2), Some(dir)) = (&self.hierarchies.v2, &self.dirs.v2) {
            step_back(&v2.own, dir)?;
        }
        remove_run(&self.dirs)
    }
}

/// Which limits of our own groups will not hold for programs of a run, one sentence each: as
/// [`Tree::remarks`] where the best places are open to us, as they are to root.
pub fn foreseen(hierarchies: &Hierarchies) -> Vec<String> {
    let used = hierarchies.v2.iter().chain(hierarchies.v1("cpuset"));
    let best = used.filter_map(|hierarchy| place::places(hierarchy).into_iter().next());
    best.flat_map(|place| place.lost).collect()
}

/// Removes a runtime's directories, the house if that was the last one, and what we enabled.
fn remove_run(dirs: &Dirs) -> io::Result<()> {
    let enabled = dirs.v2.as_deref().and_then(|dir| sys::attribute(dir, ENABLED).ok());
    dirs.remove()?;
    for dir in dirs.each() {
        let house = dir.parent().unwrap_or(dir);
        // Another runtime may live there: then the house stays, and so does the controller.
        if fs::remove_dir(house).is_ok() && Some(dir) == dirs.v2.as_ref() {
            // The lowest first: a group that hands it down keeps the one above from stopping, and
            // so does any other process' group that hands it down by now.
            for level in enabled.as_deref().unwrap_or_default().lines().rev().map(Path::new) {
                if house.starts_with(level) {
                    let _ = write_file(&level.join("cgroup.subtree_control"), "-cpuset");
                }
            }
        }
    }
    Ok(())
}

/// Makes `path` in the first of a hierarchy's places that is open to us, and says what is lost
/// there.
fn claim(
    places: impl IntoIterator<Item = place::Place>,
    path: &Path,
    remarks: &mut Vec<String>,
    usable: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    for place::Place { base, lost } in places {
        let dir = base.join(path);
        if fs::create_dir_all(&dir).is_ok() {
            if let Some(house) = dir.parent() {
                // A v1 cpuset is empty until filled, from the top; elsewhere there is no such file.
                let _ = inherit_cpuset(house);
                uncount_pressure(house);
            }
            if usable(&dir) {
                uncount_pressure(&dir);
                remarks.extend(lost);
                return Some(dir);
            }
            let _ = fs::remove_dir(&dir);
            let _ = dir.parent().map(fs::remove_dir);
        }
    }
    None
}

/// Has the kernel not count for how long threads of a group of ours waited (PSI): it does so for
/// each group above a thread at each switch and freeze, in the agents' time. Kernels before 6.1 and
/// v1 have no such file, and count.
fn uncount_pressure(dir: &Path) {
    let _ = write_file(&dir.join("cgroup.pressure"), "0");
}

/// Makes the group [`STILL`] and freezes it.
fn keep_frozen(dir: &Path) -> io::Result<()> {
    let still = dir.join(STILL);
    fs::create_dir_all(&still).map_err(naming(still.display()))?;
    write_file(&still.join("freezer.state"), "FROZEN")
}

/// Gives a new v1 cpuset the cores and memory nodes of its parent, without which it takes no
/// process.
fn inherit_cpuset(dir: &Path) -> io::Result<()> {
    let parent = dir.parent().unwrap_or(dir);
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let path = dir.join(file);
        if fs::read_to_string(&path).map_err(naming(path.display()))?.trim().is_empty() {
            let value = fs::read_to_string(parent.join(file))?;
            write_file(&path, value.trim())?;
        }
    }
    // The parent balances already; a flag of ours would rebuild the host's scheduling domains
    // at each change of core.
    write_file(&dir.join("cpuset.sched_load_balance"), "0")
}

/// Whether a v2 group takes no processes, since a group above it holds some and hands controllers
/// down.
fn is_invalid(dir: &Path) -> bool {
    let kind = fs::read_to_string(dir.join("cgroup.type"));
    kind.is_ok_and(|kind| kind.trim() == "domain invalid")
}

/// Whether a v2 group has processes of its own. Every group below it would become invalid with
/// the first controller that it hands down; only the root may do both, and has no type.
fn is_inhabited(dir: &Path) -> bool {
    let processes = fs::read_to_string(dir.join("cgroup.procs"));
    dir.join("cgroup.type").exists() && !processes.is_ok_and(|pids| pids.is_empty())
}

/// Whether this process, with all its threads, is the only one of a group.
fn is_alone(dir: &Path) -> bool {
    let processes = fs::read_to_string(dir.join("cgroup.procs"));
    processes.is_ok_and(|pids| pids.trim() == std::process::id().to_string())
}

/// Takes this process out of its own group, which is then empty, into one of its tree.
fn step_aside(dir: &Path) -> io::Result<()> {
    let aside = dir.join(RUNTIME);
    fs::create_dir_all(&aside).map_err(naming(aside.display()))?;
    write_file(&aside.join("cgroup.procs"), "0")
}

/// Takes this process back to its own group where it had stepped aside, so that the tree can go.
/// The group takes it once it hands nothing down, for which those below it must have stopped.
fn step_back(own: &Path, dir: &Path) -> io::Result<()> {
    if !dir.join(RUNTIME).exists() {
        return Ok(());
    }
    for level in dir.ancestors().take_while(|level| level.starts_with(own)) {
        // What never handed it down says nothing to that; what is in use refuses the next line.
        let _ = write_file(&level.join("cgroup.subtree_control"), "-cpuset");
    }
    write_file(&own.join("cgroup.procs"), "0")
}

/// Hands the cpuset controller of v2 down from the root to the groups of a runtime's directory.
fn enable_cpuset(v2: &Hierarchy, dir: &Path) -> io::Result<()> {
    let mut levels: Vec<&Path> = dir.ancestors().take_while(|level| *level != v2.root).collect();
    levels.push(&v2.root);
    let house = dir.parent().unwrap_or(dir);
    let of_others = enabled_beside(house);
    let mut enabled = String::new();
    for level in levels.into_iter().rev() {
        let control = level.join("cgroup.subtree_control");
        let found = fs::read_to_string(&control)?;
        let is_on = found.split_whitespace().any(|name| name == "cpuset");
        if is_on && !of_others.contains(level) {
            continue;
        }
        if !is_on && is_inhabited(level) {
            if level != v2.own || !is_alone(level) {
                let message = format!("{}: has processes of its own", level.display());
                return Err(io::Error::other(message));
            }
            step_aside(dir)?;
        }
        if level != house && level != dir {
            // Before it is true, so that it cannot be forgotten half-way.
            enabled = format!("{enabled}{}\n", level.display());
            sys::set_attribute(dir, ENABLED, &enabled)?;
        }
        if !is_on {
            write_file(&control, "+cpuset")?;
        }
    }
    Ok(())
}

/// The groups in which runtimes of this house handed cpusets down.
fn enabled_beside(house: &Path) -> BTreeSet<PathBuf> {
    let runs = fs::read_dir(house).into_iter().flatten().flatten();
    let enabled = runs.filter_map(|run| sys::attribute(&run.path(), ENABLED).ok());
    enabled.flat_map(|text| text.lines().map(PathBuf::from).collect::<Vec<_>>()).collect()
}

fn write_file(path: &Path, value: &str) -> io::Result<()> {
    let written = fs::OpenOptions::new().write(true).open(path);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(naming(format_args!("{} <- {value}", path.display())))
}

/// Removes one group with all below it, which a program may have made. The kernel says "busy"
/// until the last killed process is fully gone.
fn remove_dir(dir: &Path) -> io::Result<()> {
    for below in remains::children(dir) {
        remove_dir(&below)?;
    }
    let patience = time::Instant::now() + time::Duration::from_millis(500);
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                if time::Instant::now() > patience {
                    return Err(naming(dir.display())(error));
                }
                thread::sleep(time::Duration::from_millis(1));
            }
            Err(error) => return Err(naming(dir.display())(error)),
        }
    }
}

/// A list of cores as cpuset files write it.
fn core_list(cores: &[HardwareCore]) -> String {
    cores.iter().map(HardwareCore::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain files stand in for a delegated subtree.
    #[test]
    fn a_group_with_processes_hands_no_controller_down() {
        let base = std::env::temp_dir().join(format!("maracas-delegated-{}", std::process::id()));
        let dir = base.join(HOUSE).join("1-1");
        fs::create_dir_all(&dir).unwrap();
        for level in [&base, &base.join(HOUSE), &dir] {
            for (file, text) in
                [("cgroup.subtree_control", ""), ("cgroup.procs", ""), ("cgroup.type", "domain\n")]
            {
                fs::write(level.join(file), text).unwrap();
            }
        }
        fs::write(base.join("cgroup.procs"), "4711\n").unwrap();
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", base.display());
        let v2 = Hierarchies::parse(&mounts, "0::/\n").v2.unwrap();
        let inhabited = enable_cpuset(&v2, &dir).unwrap_err().to_string();
        let untouched = fs::read_to_string(base.join("cgroup.subtree_control")).unwrap();
        // The root of a hierarchy has processes and hands controllers down all the same.
        fs::remove_file(base.join("cgroup.type")).unwrap();
        let root = is_inhabited(&base);
        fs::write(dir.join("cgroup.type"), "domain invalid\n").unwrap();
        let invalid = is_invalid(&dir);
        fs::remove_dir_all(&base).unwrap();
        assert!(inhabited.contains("has processes of its own"), "{inhabited}");
        assert_eq!((untouched.as_str(), root, invalid), ("", false, true));
    }

    /// Of two runs that overlap the one that ends last knows what the other one enabled.
    #[test]
    fn what_another_run_enabled_is_written_down_too() {
        let base = std::env::temp_dir().join(format!("maracas-beside-{}", std::process::id()));
        let house = base.join(HOUSE);
        let (first, second) = (house.join("1-1"), house.join("2-2"));
        for level in [&base, &house, &first, &second] {
            fs::create_dir_all(level).unwrap();
            fs::write(level.join("cgroup.subtree_control"), "cpuset\n").unwrap();
        }
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", base.display());
        let v2 = Hierarchies::parse(&mounts, "0::/\n").v2.unwrap();
        let enabled = |dir: &Path| {
            enable_cpuset(&v2, dir).unwrap();
            sys::attribute(dir, ENABLED).ok()
        };
        let before = enabled(&second);
        let line = format!("{}\n", base.display());
        // Control groups have such attributes on every kernel, files in memory since Linux 6.6.
        let marked = sys::set_attribute(&first, ENABLED, &line);
        let after = enabled(&second);
        fs::remove_dir_all(&base).unwrap();
        if let Err(error) = marked {
            return crate::host::tests::refused(&error, "attributes of files by users");
        }
        assert_eq!((before, after), (None, Some(line)), "the host's own, and the other run's");
    }

    /// The same where this process is alone in its group, as in a service of systemd's.
    #[test]
    fn a_runtime_alone_in_its_group_steps_aside_and_back() {
        let own = std::env::temp_dir().join(format!("maracas-alone-{}", std::process::id()));
        let house = own.join(HOUSE);
        let dir = house.join("1-1");
        let levels = [&own, &house, &dir, &dir.join(RUNTIME)];
        for level in levels {
            fs::create_dir_all(level).unwrap();
            for file in ["cgroup.subtree_control", "cgroup.procs"] {
                fs::write(level.join(file), "").unwrap();
            }
        }
        let read = |dir: &Path, file: &str| fs::read_to_string(dir.join(file)).unwrap();
        let pid = std::process::id();
        fs::write(own.join("cgroup.procs"), format!("{pid}\n4711\n")).unwrap();
        let beside_another = is_alone(&own);
        fs::write(own.join("cgroup.procs"), format!("{pid}\n")).unwrap();
        let alone = is_alone(&own);
        step_aside(&dir).unwrap();
        let aside = read(&dir.join(RUNTIME), "cgroup.procs");
        // A plain file keeps what was written before: this asks where it was written.
        fs::write(own.join("cgroup.procs"), "").unwrap();
        step_back(&own, &dir).unwrap();
        let back = read(&own, "cgroup.procs");
        let ended = [&own, &house, &dir].map(|level| read(level, "cgroup.subtree_control"));
        fs::remove_dir_all(dir.join(RUNTIME)).unwrap();
        fs::write(own.join("cgroup.procs"), "").unwrap();
        step_back(&own, &dir).unwrap();
        let untouched = read(&own, "cgroup.procs");
        fs::remove_dir_all(&own).unwrap();
        assert_eq!((beside_another, alone), (false, true));
        assert_eq!((aside.as_str(), back.as_str(), untouched.as_str()), ("0", "0", ""));
        assert_eq!(ended, ["-cpuset"; 3]);
    }
}
