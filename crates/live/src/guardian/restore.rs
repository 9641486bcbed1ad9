//! Putting a host right after a run: the one repair that guardian, `clean` and the next start
//! share, in the order of [`Protocol::REAL`]. Doing it twice, or two at a time, does no harm.

use super::Charge;
use super::model::{Protocol, Repair};
use crate::host::Identity;
use crate::host::cgroup::{Hierarchies, Remains, Repaired};
use crate::host::sched::{self, KernelPolicy};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io, thread, time};

/// The directory of all runs in a hierarchy, as [`crate::host::cgroup`] lays it out.
const HOUSE: &str = "maracas";

/// How often threads are read and demoted again until none is raised. Children of raised threads
/// start unraised, so a second pass finds nothing; more are for threads with rights of their own.
const PASSES: usize = 100;

/// How often killing, releasing and removing are tried: a starting program may enter a group
/// after it was emptied, and a killed one takes some milliseconds to be gone.
const TRIES: u32 = 20;

/// What a repair did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Restored {
    /// Whose leavings they were.
    pub run: Identity,
    /// Threads taken back to `SCHED_OTHER`.
    pub demoted: usize,
    /// Groups thawed.
    pub thawed: usize,
    /// What was killed, released and removed in the control groups.
    pub groups: Repaired,
    /// Files removed.
    pub files: Vec<PathBuf>,
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Repaired { killed, released, groups } = &self.groups;
        write!(
            f,
            "run {}: demoted {} threads, thawed {} groups, killed {} processes, released {}, \
             removed {groups} groups and {} files",
            self.run,
            self.demoted,
            self.thawed,
            killed.len(),
            released.len(),
            self.files.len(),
        )
    }
}

/// Puts right whatever the run of `charge`, which must be dead, has left.
///
/// # Errors
/// The obstacle that stayed after every try, named; everything that could be done was done.
pub fn restore(hierarchies: &Hierarchies, charge: &Charge) -> io::Result<Restored> {
    let mut done = Restored {
        run: charge.run,
        demoted: 0,
        thawed: 0,
        groups: Repaired::default(),
        files: Vec::new(),
    };
    for station in Protocol::REAL.repair {
        match station {
            Repair::Demote => done.demoted += demote(hierarchies, charge.run),
            Repair::Thaw => done.thawed += thaw(hierarchies, charge.run),
            Repair::Kill => done.groups = groups(hierarchies, charge.run)?,
            // Both are inside the step before: programs and clients live in subtrees of their own.
            Repair::MoveBack | Repair::RemoveGroups => {}
            Repair::Forget => {
                let removed = charge.files.iter().filter(|file| fs::remove_file(file).is_ok());
                done.files.extend(removed.cloned());
            }
        }
    }
    Ok(done)
}

/// Demotes and thaws, and leaves the rest: for a run that lives but does not answer.
pub fn relieve(hierarchies: &Hierarchies, run: Identity) {
    for station in Protocol::RELIEF {
        match station {
            Repair::Demote => _ = demote(hierarchies, run),
            Repair::Thaw => _ = thaw(hierarchies, run),
            Repair::Kill | Repair::MoveBack | Repair::RemoveGroups | Repair::Forget => {}
        }
    }
}

/// Takes every thread of the run back to `SCHED_OTHER`, until a pass finds none raised. Returns
/// how many were.
fn demote(hierarchies: &Hierarchies, run: Identity) -> usize {
    let mut demoted = 0;
    for _ in 0..PASSES {
        let mut raised = 0;
        for dir in directories(hierarchies, run) {
            let list = fs::read_to_string(dir.join("cgroup.threads"))
                .or_else(|_| fs::read_to_string(dir.join("tasks")))
                .unwrap_or_default();
            for tid in list.lines().filter_map(|line| line.parse().ok()) {
                let policy = sched::policy_of(tid);
                if !matches!(policy, Ok(KernelPolicy::Other) | Err(_)) {
                    // A thread that is gone, or not ours to change, must not hold up the others.
                    raised += usize::from(sched::set_other(tid).is_ok());
                }
            }
        }
        demoted += raised;
        if raised == 0 {
            break;
        }
    }
    demoted
}

/// Thaws every group of the run. Returns how many were frozen, or about to be.
fn thaw(hierarchies: &Hierarchies, run: Identity) -> usize {
    let mut thawed = 0;
    for dir in directories(hierarchies, run) {
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

/// Kills what the run had started, releases its clients and removes its groups; begins anew, from
/// the first station, where a group turns out not to be empty.
fn groups(hierarchies: &Hierarchies, run: Identity) -> io::Result<Repaired> {
    let mut total = Repaired::default();
    let mut last = Ok(());
    for _ in 0..TRIES {
        let Some(remains) = Remains::find(hierarchies).into_iter().find(|r| r.runtime == run)
        else {
            return Ok(total);
        };
        match remains.repair() {
            Ok(repaired) => add(&mut total, repaired),
            Err(error) => {
                last = Err(error);
                thread::sleep(time::Duration::from_millis(1));
                relieve(hierarchies, run);
            }
        }
    }
    last.map(|()| total)
}

fn add(total: &mut Repaired, more: Repaired) {
    total.killed.extend(more.killed);
    total.released.extend(more.released);
    total.groups += more.groups;
}

/// Every directory of the run, in every hierarchy, parents first.
fn directories(hierarchies: &Hierarchies, run: Identity) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for hierarchy in hierarchies.v2.iter().chain(&hierarchies.v1) {
        for base in [&hierarchy.root, &hierarchy.own] {
            let dir = base.join(HOUSE).join(run.to_string());
            if dir.is_dir() && !found.contains(&dir) {
                descend(&dir, &mut found);
            }
        }
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
