//! Where the control groups are mounted, and where in them we are. Pure over the kernel's texts.

use super::{HOUSE, place};
use crate::host::Identity;
use std::path::PathBuf;
use std::{fs, io};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where its root (as far as we see it) is mounted.
    pub root: PathBuf,
    /// Our own group in it.
    pub own: PathBuf,
    /// The controllers it carries: of v1 those named at mounting; of v2 those that its root offers.
    pub controllers: Vec<String>,
    /// We are in the group that is mounted at `root`.
    pub(crate) is_at_root: bool,
    /// The group inside the hierarchy that is mounted at `root`; "/" unless a container hides more.
    prefix: String,
    unified: bool,
}

impl Hierarchy {
    /// Whether it is v2.
    pub(super) const fn is_unified(&self) -> bool {
        self.unified
    }

    /// The directories of a run, where its process stood in our group or another: looked for above
    /// us first, which is cheap and where those of our own run are. Only below directories of our
    /// user: another's proves nothing, as for `place::everywhere`.
    pub fn trees_of(&self, run: Identity) -> Vec<PathBuf> {
        let there = |house: PathBuf| Some(house.join(run.to_string())).filter(|dir| dir.is_dir());
        let near = place::levels(self).into_iter().map(|base| base.join(HOUSE));
        let near: Vec<_> = near.filter(|house| place::is_own(house)).filter_map(there).collect();
        if !near.is_empty() {
            return near;
        }
        place::everywhere(&self.root, HOUSE).into_iter().filter_map(there).collect()
    }

    /// The directory of the process whose `/proc/<pid>/cgroup` is `groups`.
    fn place(&self, groups: &str) -> Option<PathBuf> {
        let group = group_of(groups, self.unified, &self.controllers)?;
        Some(self.directory(group))
    }

    /// The directory of a group named as `/proc/<pid>/cgroup` names it.
    fn directory(&self, group: &str) -> PathBuf {
        let below = if self.prefix == "/" { group } else { below(group, &self.prefix) };
        self.root.join(below.trim_start_matches('/'))
    }
}

/// A group's path below the mounted one; "/" when it lies outside of what we can see.
fn below<'a>(group: &'a str, prefix: &str) -> &'a str {
    group
        .strip_prefix(prefix)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
        .unwrap_or("/")
}

/// All hierarchies of a host: v1-only, v2-only or both beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// The unified hierarchy.
    pub v2: Option<Hierarchy>,
    /// The v1 hierarchies.
    pub v1: Vec<Hierarchy>,
}

impl Hierarchies {
    /// The hierarchies as this process sees them.
    ///
    /// # Errors
    /// When `/proc/self/mountinfo` or `/proc/self/cgroup` is unreadable.
    pub fn read() -> io::Result<Hierarchies> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mut hierarchies = Hierarchies::parse(&mounts, &groups);
        if let Some(v2) = &mut hierarchies.v2 {
            let offered = fs::read_to_string(v2.root.join("cgroup.controllers"));
            v2.controllers = words(&offered.unwrap_or_default());
        }
        Ok(hierarchies)
    }

    /// The hierarchies that `mountinfo` shows, for a process whose `/proc/<pid>/cgroup` is
    /// `groups`. The first mount of a hierarchy counts. Of v2 the controllers stay empty: only its
    /// root's `cgroup.controllers` lists them.
    pub fn parse(mountinfo: &str, groups: &str) -> Hierarchies {
        let mut found = Hierarchies::default();
        for line in mountinfo.lines() {
            let Some(mount) = Mount::parse(line) else { continue };
            let controllers = match mount.kind {
                "cgroup2" if found.v2.is_none() => Vec::new(),
                "cgroup" => mount.controllers(),
                _ => continue,
            };
            let mut hierarchy = Hierarchy {
                root: PathBuf::from(unescape(mount.point)),
                own: PathBuf::new(),
                is_at_root: false,
                controllers,
                prefix: unescape(mount.root),
                unified: mount.kind == "cgroup2",
            };
            let group = group_of(groups, hierarchy.unified, &hierarchy.controllers);
            hierarchy.is_at_root = group == Some(hierarchy.prefix.as_str());
            hierarchy.own = hierarchy.place(groups).unwrap_or_else(|| hierarchy.root.clone());
            if hierarchy.unified {
                found.v2 = Some(hierarchy);
            } else if !found.v1.iter().any(|seen| seen.controllers == hierarchy.controllers) {
                found.v1.push(hierarchy);
            }
        }
        found
    }

    /// The v1 hierarchy that carries a controller.
    pub fn v1(&self, controller: &str) -> Option<&Hierarchy> {
        self.v1.iter().find(|v1| v1.controllers.iter().any(|name| name == controller))
    }

    /// The directories of a process in v2 and in the v1 cpuset hierarchy, as far as visible.
    pub(super) fn origin(&self, pid: i32) -> io::Result<(Option<PathBuf>, Option<PathBuf>)> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        let place = |hierarchy: &Hierarchy| hierarchy.place(&groups);
        Ok((self.v2.as_ref().and_then(place), self.v1("cpuset").and_then(place)))
    }

    /// The hierarchies in which we build: v2, the v1 freezer, the v1 cpuset.
    pub(super) fn ours(&self) -> [Option<&Hierarchy>; 3] {
        [self.v2.as_ref(), self.v1("freezer"), self.v1("cpuset")]
    }
}

/// Every place at which any control group is mounted, for closing them to started programs.
pub(in crate::host) fn cgroup_mounts() -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = mounts.lines().filter_map(Mount::parse);
    let groups = groups.filter(|mount| matches!(mount.kind, "cgroup" | "cgroup2"));
    Ok(groups.map(|mount| PathBuf::from(unescape(mount.point))).collect())
}

/// The fields of a mountinfo line that we need (proc_pid_mountinfo(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        // A hyphen ends the optional fields, of which there may be any number.
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut filesystem = filesystem.split(' ');
        Some(Mount {
            root: mount.next()?,
            point: mount.next()?,
            kind: filesystem.next()?,
            options: filesystem.nth(1)?,
        })
    }

    /// The controllers among the super options of a v1 mount; a named hierarchy keeps `name=x`.
    fn controllers(&self) -> Vec<String> {
        let flags = ["rw", "ro", "xattr", "noprefix", "clone_children", "none"];
        let is_controller = |word: &&str| {
            !word.is_empty() && !flags.contains(word) && !word.starts_with("release_agent=")
        };
        self.options.split(',').filter(is_controller).map(str::to_owned).collect()
    }
}

/// The group that the lines of `/proc/<pid>/cgroup` name: of v2 (line `0::`), or of the v1
/// hierarchy that carries one of the controllers.
fn group_of<'a>(groups: &'a str, unified: bool, controllers: &[String]) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let (names, group) = rest.split_once(':')?;
        let v2 = number == "0" && names.is_empty();
        let v1 = names.split(',').any(|name| controllers.iter().any(|wanted| wanted == name));
        (if unified { v2 } else { v1 }).then_some(group)
    })
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// mountinfo writes blank, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
#[path = "../tests/mounts.rs"]
mod tests;
