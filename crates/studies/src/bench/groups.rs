//! Control groups for the measurement, version 1 and 2: made for it, removed after it, whatever
//! else was changed put back.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Which hierarchy holds a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    One,
    Two,
}

/// Our group in the hierarchy of one controller.
pub(super) struct Group {
    root: PathBuf,
    path: PathBuf,
    version: Version,
    /// The controller was off for the root's children, and is again when this drops.
    _enabled: Option<Undo>,
}

impl Group {
    /// Makes a group under the root of the hierarchy that holds `controller`.
    ///
    /// # Errors
    /// Where no hierarchy holds it, or it cannot be made there.
    pub(super) fn create(controller: &str) -> io::Result<Self> {
        let (root, version) =
            hierarchy(controller, &fs::read_to_string("/proc/self/mountinfo")?)
                .ok_or_else(|| io::Error::other(format!("no cgroup hierarchy has {controller}")))?;
        let enabled = match version {
            Version::One => None,
            Version::Two => {
                let file = root.join("cgroup.subtree_control");
                let on = fs::read_to_string(&file)?;
                let on = on.split_whitespace().any(|word| word == controller);
                let turn = |sign: char| format!("{sign}{controller}");
                (!on).then(|| Undo::both(file, &turn('+'), turn('-'))).transpose()?
            }
        };
        let path = root.join(format!("maracas-bench-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| at(&path, &error))?;
        Ok(Self { root, path, version, _enabled: enabled })
    }
    pub(super) const fn version(&self) -> Version {
        self.version
    }
    pub(super) fn root(&self) -> &Path {
        &self.root
    }
    /// The names of the groups beside ours: another that holds the same core keeps a cpuset from
    /// being exclusive.
    pub(super) fn siblings(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let groups = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let others = groups.filter(|path| *path != self.path);
        others.map(|path| path.display().to_string()).collect()
    }
    pub(super) const fn path(&self) -> &PathBuf {
        &self.path
    }
    pub(super) fn write(&self, file: &str, value: &str) -> io::Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).map_err(|error| at(&path, &error))
    }
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        fs::read_to_string(self.path.join(file))
    }
    /// Puts a process in.
    pub(super) fn take(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that is still inside goes back to the root; a group can only be removed empty.
        if let Ok(inside) = self.read("cgroup.procs") {
            for pid in inside.lines() {
                let _ = fs::write(self.root.join("cgroup.procs"), pid);
            }
        }
        if let Err(error) = fs::remove_dir(&self.path) {
            let path = self.path.display();
            maracas_console::output::note(&format!(
                "{path} cannot be removed: {error}; remove it by hand"
            ));
        }
    }
}

/// Puts a file's old content back when dropped.
pub(super) struct Undo {
    file: PathBuf,
    old: String,
}

impl Undo {
    /// Writes `value` and remembers what was there.
    pub(super) fn write(file: PathBuf, value: &str) -> io::Result<Self> {
        let old = fs::read_to_string(&file).map_err(|error| at(&file, &error))?;
        Self::both(file, value, old.trim().to_string())
    }
    /// Writes `value` now and `old` later.
    fn both(file: PathBuf, value: &str, old: String) -> io::Result<Self> {
        fs::write(&file, value).map_err(|error| at(&file, &error))?;
        Ok(Self { file, old })
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.old) {
            let (file, old) = (self.file.display(), &self.old);
            maracas_console::output::note(&format!("{file} cannot be set back to {old}: {error}"));
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The mount point of the hierarchy that holds a controller, from `/proc/self/mountinfo`
/// (proc_pid_mountinfo(5): after the dash come type, source and super options).
fn hierarchy(controller: &str, mounts: &str) -> Option<(PathBuf, Version)> {
    let mut two = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let Some(point) = before.split(' ').nth(4).map(PathBuf::from) else { continue };
        let after: Vec<_> = after.split(' ').collect();
        match after[..] {
            ["cgroup", _, options] if options.split(',').any(|word| word == controller) => {
                return Some((point, Version::One));
            }
            ["cgroup2", ..] => two = Some(point),
            _ => {}
        }
    }
    let two = two?;
    let controllers = fs::read_to_string(two.join("cgroup.controllers")).ok()?;
    let has = controllers.split_whitespace().any(|word| word == controller);
    has.then_some((two, Version::Two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_in_its_own_hierarchy() {
        let mounts = "\
25 20 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
26 20 0:23 / /sys/fs/cgroup/cpuset rw,nosuid shared:9 - cgroup cgroup rw,cpuset
27 20 0:24 / /nowhere/unified rw - cgroup2 cgroup2 rw";
        let found = |controller| hierarchy(controller, mounts).map(|(path, _)| path);
        assert_eq!(found("cpu"), Some(PathBuf::from("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(found("cpuset"), Some(PathBuf::from("/sys/fs/cgroup/cpuset")));
        assert_eq!(found("pids"), None);
    }
}
