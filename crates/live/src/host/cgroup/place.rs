//! Where a run's tree may stand in a hierarchy, so that programs keep the limits of the groups
//! that they came from.
//!
//! Limits hold for a group and all groups below it, so the best place is below our own group. Two
//! things speak against it in v2:
//! - A group with processes of its own hands no controller down (but for the root), so a cpuset
//!   cannot confine what is below it. Where such a group sets no limit itself, nothing is lost by
//!   going up to the next; where it does, the limit is worth more, since without a cpuset
//!   programs are still kept on their core by a system call filter (`launch`).
//! - A group that belongs to another user is no place at all. Its owner may move processes from
//!   any group below it to any other, and so take a program at real-time priority out of its VCPU.
//!   The same holds for what is below it. What such groups limit is lost, and said.

use super::{Hierarchy, is_inhabited};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of a group that limit what is in it, and how they read where they limit nothing.
/// Without `cpu.max` and `io.max`: a share of time is what a run is about, and io is not moved.
const LIMITS: [(&str, &str); 6] = [
    ("memory.max", "max"),
    ("memory.high", "max"),
    ("memory.swap.max", "max"),
    ("pids.max", "max"),
    ("cpuset.cpus", ""),
    ("cpuset.mems", ""),
];

/// A group below which a tree may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) base: PathBuf,
    /// The limits that do not hold there, one sentence each.
    pub(super) lost: Vec<String>,
}

/// The places of a hierarchy, the best first.
pub(super) fn places(hierarchy: &Hierarchy) -> Vec<Place> {
    let levels = levels(hierarchy);
    let foreign = |dir: &PathBuf| owner(dir).is_some_and(|user| user != 0 && user != own_user());
    let first = levels.iter().rposition(foreign).map_or(0, |highest| highest + 1);
    let (mut lost, mut passed, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (at, level) in levels.into_iter().enumerate() {
        let limits = limits(&level, hierarchy);
        if at >= first {
            let inner = hierarchy.is_unified() && is_inhabited(&level) && limits.is_empty();
            let place = Place { base: level, lost: lost.clone() };
            // Going up loses nothing as long as nothing was limited.
            let passes = inner && rest.is_empty() && lost.is_empty();
            (if passes { &mut passed } else { &mut rest }).push(place);
        }
        lost.extend(limits);
    }
    // What was passed keeps all limits too, without a cpuset: the second best.
    passed.reverse();
    rest.splice(rest.len().min(1)..rest.len().min(1), passed);
    rest
}

fn own_user() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether a directory belongs to our user.
pub(super) fn is_own(dir: &Path) -> bool {
    owner(dir) == Some(own_user())
}

fn owner(dir: &Path) -> Option<u32> {
    fs::metadata(dir).ok().map(|data| data.uid())
}

/// Our own group and all above it, the root last.
pub(super) fn levels(hierarchy: &Hierarchy) -> Vec<PathBuf> {
    let above = hierarchy.own.ancestors().take_while(|dir| **dir != hierarchy.root);
    let above = above.filter(|dir| dir.starts_with(&hierarchy.root)).map(Path::to_path_buf);
    above.chain([hierarchy.root.clone()]).collect()
}

/// What a group limits, one sentence each; the root limits nothing. A v1 cpuset always names its
/// cores: it limits where it has not all of its parent's.
fn limits(dir: &Path, hierarchy: &Hierarchy) -> Vec<String> {
    if dir == hierarchy.root {
        return Vec::new();
    }
    let read = |dir: &Path, file: &str| {
        fs::read_to_string(dir.join(file)).map(|text| text.trim().to_string()).ok()
    };
    let above = dir.parent().filter(|_| !hierarchy.is_unified());
    let limit = |(file, none): &(&str, &str)| {
        let value = read(dir, file).filter(|value| value != none)?;
        let whole = above.and_then(|above| read(above, file)).is_some_and(|more| more == value);
        (!whole).then(|| format!("{file} {value} of {} does not hold in this run", dir.display()))
    };
    LIMITS.iter().filter_map(limit).collect()
}

/// All directories named `name` in a hierarchy that belong to our user, however deep: where a tree
/// may stand that another process made. One of another user's proves nothing: what it says of
/// processes to be moved would be done with our rights.
pub(super) fn everywhere(root: &Path, name: &str) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(dir) = open.pop() {
        for below in super::remains::children(&dir) {
            if below.file_name() != Some(name.as_ref()) {
                open.push(below);
            } else if is_own(&below) {
                found.push(below);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::cgroup::Hierarchies;

    /// Plain directories stand in for a hierarchy of v2: `root/a.slice/b.scope`, where processes
    /// are in the last.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Self {
            let name = format!("maracas-place-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            let fake = Fake(root.clone());
            fs::create_dir_all(root.join("a.slice/b.scope")).unwrap();
            for level in ["a.slice", "a.slice/b.scope"] {
                fake.write(&format!("{level}/cgroup.type"), "domain\n");
                fake.write(&format!("{level}/cgroup.procs"), "");
                fake.write(&format!("{level}/memory.max"), "max\n");
                fake.write(&format!("{level}/pids.max"), "max\n");
                fake.write(&format!("{level}/cpuset.cpus"), "\n");
            }
            fake.write("a.slice/b.scope/cgroup.procs", "4711\n");
            fake
        }
        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.join(file), text).unwrap();
        }
        fn hierarchy(&self) -> Hierarchy {
            let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", self.0.display());
            Hierarchies::parse(&mounts, "0::/a.slice/b.scope\n").v2.unwrap()
        }
        /// The places below the root, and how many limits each loses.
        fn places(&self) -> Vec<(String, usize)> {
            let below = |dir: &Path| dir.strip_prefix(&self.0).unwrap().display().to_string();
            let places = places(&self.hierarchy()).into_iter();
            places.map(|place| (below(&place.base), place.lost.len())).collect()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn expected(places: &[(&str, usize)]) -> Vec<(String, usize)> {
        places.iter().map(|(base, lost)| ((*base).to_string(), *lost)).collect()
    }

    #[test]
    fn a_tree_stands_where_all_limits_hold() {
        let fake = Fake::new("limits");
        // The slice takes no limit away, and can hand a cpuset down.
        let free = [("a.slice", 0), ("a.slice/b.scope", 0), ("", 0)];
        assert_eq!(fake.places(), expected(&free));
        fake.write("a.slice/memory.max", "1073741824\n");
        let slice = [("a.slice", 0), ("a.slice/b.scope", 0), ("", 1)];
        assert_eq!(fake.places(), expected(&slice));
        fake.write("a.slice/b.scope/pids.max", "100\n");
        let scope = [("a.slice/b.scope", 0), ("a.slice", 1), ("", 2)];
        assert_eq!(fake.places(), expected(&scope));
        let lost = places(&fake.hierarchy()).remove(2).lost;
        let said = |word: &str| lost.iter().any(|line| line.contains(word));
        assert!(said("pids.max 100 of") && said("memory.max 1073741824 of"), "{lost:?}");
    }

    #[test]
    fn no_tree_stands_in_the_hands_of_another_user() {
        if own_user() != 0 {
            eprintln!("skipped: needs root to give a directory away");
            return;
        }
        let fake = Fake::new("owner");
        let give = |dir: &str| std::os::unix::fs::chown(fake.0.join(dir), Some(65_534), None);
        give("a.slice/b.scope").unwrap();
        assert_eq!(fake.places(), expected(&[("a.slice", 0), ("", 0)]));
        fake.write("a.slice/b.scope/memory.max", "4096\n");
        give("a.slice").unwrap();
        assert_eq!(fake.places(), expected(&[("", 1)]), "and what is below it is in them too");
    }

    #[test]
    fn trees_are_found_at_any_depth_and_only_our_own() {
        let fake = Fake::new("found");
        for house in ["maracas", "a.slice/maracas", "a.slice/b.scope/maracas"] {
            fs::create_dir_all(fake.0.join(house).join("1-1")).unwrap();
        }
        let names = |found: Vec<PathBuf>| found.len();
        assert_eq!(names(everywhere(&fake.0, "maracas")), 3);
        if own_user() == 0 {
            let given = fake.0.join("a.slice/maracas");
            std::os::unix::fs::chown(given, Some(65_534), None).unwrap();
            assert_eq!(names(everywhere(&fake.0, "maracas")), 2);
        }
    }
}
