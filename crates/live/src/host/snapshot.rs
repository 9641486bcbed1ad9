//! What of the host a run may touch, recorded before and compared after: "afterwards everything
//! looks as before".

use super::cgroup::{Hierarchies, Remains};
use super::hardware::ThisHardware;
use super::resctrl;
use super::sched::{self, KernelPolicy};
use std::collections::BTreeMap;
use std::{fs, io};

/// The settings of the kernel's scheduler that anyone might be tempted to change.
const SETTINGS: [&str; 5] = [
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/sched_rt_period_us",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/sched_deadline_period_max_us",
];

/// The host's state as far as a run could leave marks in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Trees of runtimes in the control groups, with their number of groups.
    pub trees: BTreeMap<String, usize>,
    /// Runs that have groups in resource control, or have mounted it.
    pub shares: Vec<String>,
    /// Scheduler settings by file; those that the host lacks are absent.
    pub settings: BTreeMap<&'static str, String>,
    /// Real-time threads of the host: number, name and priority.
    pub fifo: BTreeMap<i32, (String, u8)>,
}

impl Snapshot {
    /// Records the host's state.
    ///
    /// # Errors
    /// When `/proc` is unreadable.
    pub fn take() -> io::Result<Snapshot> {
        let trees = Remains::find(&Hierarchies::read()?);
        let read = |file: &'static str| Some((file, fs::read_to_string(file).ok()?));
        Ok(Snapshot {
            trees: trees.iter().map(|tree| (tree.runtime.to_string(), tree.groups())).collect(),
            shares: resctrl::runs(&ThisHardware).iter().map(ToString::to_string).collect(),
            settings: SETTINGS.into_iter().filter_map(read).collect(),
            fifo: fifo_threads()?,
        })
    }

    /// What is there now that was not there before, or has changed; one line each, empty when all
    /// looks as before. Things that have only gone are no marks of ours.
    pub fn marks_since(&self, before: &Snapshot) -> Vec<String> {
        let mut marks = Vec::new();
        for (tree, groups) in &self.trees {
            if before.trees.get(tree) != Some(groups) {
                marks.push(format!("control groups maracas/{tree}: {groups} left"));
            }
        }
        for run in self.shares.iter().filter(|run| !before.shares.contains(run)) {
            marks.push(format!("resctrl: groups or the mount of run {run} left"));
        }
        for (file, value) in &self.settings {
            let was = before.settings.get(file).map_or("nothing", |was| was.trim());
            if was != value.trim() {
                marks.push(format!("{file}: {}, was {was}", value.trim()));
            }
        }
        for (tid, (name, priority)) in &self.fifo {
            if before.fifo.get(tid).is_none_or(|was| was.1 != *priority) {
                marks.push(format!("thread {tid} ({name}): SCHED_FIFO {priority}"));
            }
        }
        marks
    }
}

/// Every `SCHED_FIFO` thread of the host; threads end while we look, which is no error.
fn fifo_threads() -> io::Result<BTreeMap<i32, (String, u8)>> {
    let mut found = BTreeMap::new();
    for pid in numbers("/proc")? {
        for tid in numbers(&format!("/proc/{pid}/task")).unwrap_or_default() {
            if let Ok(KernelPolicy::Fifo { priority, .. }) = sched::policy_of(tid) {
                let name = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
                found.insert(tid, (name.trim().to_owned(), priority));
            }
        }
    }
    Ok(found)
}

fn numbers(dir: &str) -> io::Result<Vec<i32>> {
    let entries = fs::read_dir(dir)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_named_and_what_is_gone_is_none() {
        let empty = Snapshot {
            trees: BTreeMap::new(),
            shares: Vec::new(),
            settings: BTreeMap::new(),
            fifo: BTreeMap::new(),
        };
        let mut marked = empty.clone();
        marked.trees.insert("7-1".to_owned(), 2);
        marked.shares.push("7-1".to_owned());
        marked.settings.insert(SETTINGS[0], "-1\n".to_owned());
        marked.fifo.insert(9, ("work".to_owned(), 12));
        assert_eq!(marked.marks_since(&marked), [""; 0]);
        assert_eq!(empty.marks_since(&marked), [""; 0]);
        let marks = marked.marks_since(&empty);
        assert_eq!(marks.len(), 4);
        assert_eq!(marks[0], "control groups maracas/7-1: 2 left");
        assert_eq!(marks[1], "resctrl: groups or the mount of run 7-1 left");
        assert_eq!(marks[2], "/proc/sys/kernel/sched_rt_runtime_us: -1, was nothing");
        assert_eq!(marks[3], "thread 9 (work): SCHED_FIFO 12");
    }

    #[test]
    fn the_host_can_be_recorded() {
        let snapshot = Snapshot::take().expect("readable");
        assert!(snapshot.settings.contains_key(SETTINGS[0]));
    }
}
