//! What runtimes left in the control groups: found from the tree alone, and put right.

use super::group::{self, ORIGIN, ORIGIN_CPUSET};
use super::{Dirs, HOUSE, Hierarchies, place, remove_run};
use crate::host::{Identity, sys};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The tree of one runtime, dead or alive, as a fresh process finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Whose it is.
    pub runtime: Identity,
    dirs: Dirs,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Processes that we had started, and killed.
    pub killed: Vec<i32>,
    /// Foreign processes thawed, demoted and moved back.
    pub released: Vec<i32>,
    /// Control groups removed.
    pub groups: usize,
}

impl Remains {
    /// Every runtime's tree on this host, this process' own included, ordered by process number.
    pub fn find(hierarchies: &Hierarchies) -> Vec<Remains> {
        let mut found: Vec<Remains> = Vec::new();
        for (place, hierarchy) in hierarchies.ours().into_iter().enumerate() {
            let houses = hierarchy.into_iter().flat_map(|it| place::everywhere(&it.root, HOUSE));
            for dir in houses.flat_map(|house| children(&house)) {
                let Some(runtime) = identity(&dir) else { continue };
                let known = found.iter().position(|remains| remains.runtime == runtime);
                let known = known.unwrap_or_else(|| {
                    found.push(Remains { runtime, dirs: Dirs::default() });
                    found.len() - 1
                });
                let dirs = &mut found[known].dirs;
                [&mut dirs.v2, &mut dirs.freezer, &mut dirs.cpuset][place].get_or_insert(dir);
            }
        }
        found.sort_by_key(|remains| remains.runtime);
        found
    }

    /// The tree of one runtime, if anything is left of it.
    pub fn of(hierarchies: &Hierarchies, runtime: Identity) -> Option<Remains> {
        let first = |hierarchy: Option<&super::Hierarchy>| {
            hierarchy.and_then(|it| it.trees_of(runtime).into_iter().next())
        };
        let [v2, freezer, cpuset] = hierarchies.ours().map(first);
        let dirs = Dirs { v2, freezer, cpuset };
        dirs.each().next().is_some().then(|| Remains { runtime, dirs: dirs.clone() })
    }

    /// Whether the runtime still lives: then its tree is not ours to touch.
    pub fn is_alive(&self) -> bool {
        self.runtime.is_alive()
    }

    /// The number of groups below the runtime's directories.
    pub fn groups(&self) -> usize {
        self.dirs.each().map(|dir| 1 + children(dir).count()).sum()
    }

    /// Thaws everything, kills the programs that the runtime had started, demotes and releases
    /// its clients, and removes the tree. Doing it twice, or from two processes, does no harm.
    /// The caller has made sure that the runtime is dead.
    ///
    /// # Errors
    /// The first obstacle, named; everything that could be done was done.
    pub fn repair(&self) -> io::Result<Repaired> {
        let mut done = Repaired::default();
        let mut first_error = Ok(());
        let mut note = |result: io::Result<()>| {
            if first_error.is_ok() {
                first_error = result;
            }
        };
        // Killing first: no program of a dead runtime may run on, and it may be at real-time
        // priority.
        for dirs in self.named("vcpu-") {
            note(kill_group(&dirs, &mut done));
        }
        for dirs in self.named("client-") {
            note(release_client(&dirs, &mut done));
        }
        for dirs in self.named("vcpu-").into_iter().chain(self.named("client-")) {
            done.groups += dirs.each().count();
            note(dirs.remove());
        }
        done.groups += self.dirs.each().count();
        note(remove_run(&self.dirs));
        first_error.map(|()| done)
    }

    /// The groups whose name begins so, in all hierarchies, by name.
    fn named(&self, prefix: &str) -> Vec<Dirs> {
        named(&self.dirs, prefix)
    }
}

fn named(dirs: &Dirs, prefix: &str) -> Vec<Dirs> {
    let name = |dir: PathBuf| Some(dir.file_name()?.to_str()?.to_owned());
    let mut names: Vec<String> =
        dirs.each().flat_map(|dir| children(dir)).filter_map(name).collect();
    names.retain(|name| name.starts_with(prefix));
    names.sort();
    names.dedup();
    names.iter().map(|name| dirs.child(name)).collect()
}

fn kill_group(dirs: &Dirs, done: &mut Repaired) -> io::Result<()> {
    for dir in dirs.each().filter(|dir| dir.exists()) {
        let mut pids = Vec::new();
        group::numbers(&fs::File::open(dir.join("cgroup.procs"))?, &mut pids)?;
        pids.retain(|pid| !done.killed.contains(pid));
        done.killed.extend(pids);
        group::kill_all(dir)?;
    }
    Ok(())
}

fn release_client(dirs: &Dirs, done: &mut Repaired) -> io::Result<()> {
    let marked = |name| dirs.v2.as_deref().and_then(|dir| sys::attribute(dir, name).ok());
    let mut origin = Dirs {
        v2: marked(ORIGIN).map(PathBuf::from),
        freezer: None,
        cpuset: marked(ORIGIN_CPUSET).map(PathBuf::from),
    };
    if origin.cpuset.is_none() {
        // The mark lives on v2 alone: without it the base of the cpuset hierarchy takes them.
        origin.cpuset =
            dirs.cpuset.as_deref().and_then(|dir| dir.ancestors().nth(3)).map(Path::to_owned);
    }
    for group in named(dirs, "vcpu-") {
        group::release_threads(&group, dirs, &origin)?;
        group.remove()?;
        done.groups += 1;
    }
    let mut pids = Vec::new();
    for dir in dirs.v2.iter().filter(|dir| dir.exists()) {
        group::numbers(&fs::File::open(dir.join("cgroup.procs"))?, &mut pids)?;
    }
    for pid in &pids {
        // The client's other threads were never ours; only its VCPUs' threads were demoted above.
        done.released.push(*pid);
    }
    group::release(dirs, &origin)
}

fn identity(dir: &Path) -> Option<Identity> {
    Identity::parse(dir.file_name()?.to_str()?)
}

pub(super) fn children(dir: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}
