//! What runs left in resource control: found from the names alone, and put right.

use super::mount::{self, Kernel, Mounts};
use super::schemata::{self, Entry};
use super::{PREFIX, classes, owner};
use crate::host::hardware::Hardware;
use crate::host::{Identity, naming};
use std::io;
use std::path::{Path, PathBuf};

/// Every run that has a group or the mount, dead or alive, in order.
pub fn runs(hardware: &dyn Hardware) -> Vec<Identity> {
    let Some(mounted) = mount::mounted(hardware) else { return Vec::new() };
    let groups = groups(hardware, &mounted.root);
    let named = |dir: &PathBuf| owner(dir.file_name()?.to_str()?);
    let mut runs: Vec<Identity> = groups.iter().filter_map(named).chain(mounted.by).collect();
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// Removes the groups of a run, which must be dead, and the mount where the last run that used it
/// is gone. Its cores are in the default class then. Doing it twice, or from two processes, does
/// no harm. Returns how many groups were removed.
///
/// # Errors
/// The first obstacle, named; everything that could be done was done.
pub fn restore(hardware: &dyn Hardware, run: Identity) -> io::Result<usize> {
    restore_by(hardware, &Kernel, run)
}

pub(super) fn restore_by(
    hardware: &dyn Hardware,
    mounts: &dyn Mounts,
    run: Identity,
) -> io::Result<usize> {
    let Some(mounted) = mount::mounted(hardware) else { return Ok(0) };
    let (mut removed, mut first) = (0, Ok(()));
    for dir in groups(hardware, &mounted.root) {
        if dir.file_name().and_then(|name| name.to_str()).and_then(owner) != Some(run) {
            continue;
        }
        match hardware.remove_dir(&dir) {
            Ok(()) => removed += 1,
            Err(error) => first = first.and(gone(error).map_err(naming(dir.display()))),
        }
    }
    first.and(unmount_if_last(hardware, mounts, run)).map(|()| removed)
}

/// Gives the cores of a run their full bandwidth: for a run that lives but does not answer. What
/// it throttles next is throttled again.
pub fn lift(hardware: &dyn Hardware, run: Identity) {
    let Some(root) = mount::mounted(hardware).map(|mounted| mounted.root) else { return };
    // What the default class has: all, unless that was lowered too.
    let mut full = schemata::read(hardware, &root).unwrap_or_default();
    full.retain(|entry: &Entry| entry.resource == "MB");
    for dir in groups(hardware, &root) {
        let name = dir.file_name().and_then(|name| name.to_str());
        if name.and_then(owner) == Some(run) && !full.is_empty() {
            // A monitor has no bandwidth, and what cannot be lifted is lifted with its class.
            let _ = schemata::write(hardware, &root, &dir, &full);
        }
    }
}

/// Every group there is: monitors first, then classes.
fn groups(hardware: &dyn Hardware, root: &Path) -> Vec<PathBuf> {
    let monitors = root.join("mon_groups");
    let mut found: Vec<PathBuf> = Vec::new();
    let names = hardware.list(&monitors).unwrap_or_default();
    found.extend(names.iter().map(|name| monitors.join(name)));
    let names = classes(hardware, root).unwrap_or_default();
    found.extend(names.iter().map(|name| root.join(name)));
    found
}

/// Unmounts what a run of ours mounted, where it is this run or dead, and no group is left in it.
pub(super) fn unmount_if_last(
    hardware: &dyn Hardware,
    mounts: &dyn Mounts,
    run: Identity,
) -> io::Result<()> {
    let Some(mounted) = mount::mounted(hardware) else { return Ok(()) };
    let due = mounted.by.is_some_and(|by| by == run || !by.is_alive());
    if !due || !groups(hardware, &mounted.root).is_empty() {
        return Ok(());
    }
    mounts
        .unmount(&mounted.root)
        .map_err(naming(format_args!("unmount {} ({PREFIX}{run})", mounted.root.display())))
}

/// What is gone already is no obstacle.
pub(super) fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
