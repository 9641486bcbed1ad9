//! SCHED_DEADLINE: the kernel's own reservation (sched(7)). A deadline thread may be pinned only
//! inside an exclusive cpuset, which is made here where the host allows it and taken away again.

use super::groups::{Group, Undo, Version};
use std::io;
use std::path::PathBuf;

/// An exclusive cpuset of one core, gone when dropped.
pub(super) struct Exclusive {
    // Fields drop in this order: the group first, then what was changed around it.
    group: Group,
    _around: Option<Undo>,
}

impl Exclusive {
    /// Makes it.
    ///
    /// # Errors
    /// What the host refused, by the file that it refused.
    pub(super) fn of(core: usize) -> io::Result<Self> {
        let group = Group::create("cpuset")?;
        let core = core.to_string();
        let around = match group.version() {
            Version::One => {
                // A root domain of its own exists only while the root cpuset is not balanced.
                let root = group.root().join("cpuset.sched_load_balance");
                let mems = std::fs::read_to_string(group.root().join("cpuset.mems"))?;
                group.write("cpuset.mems", mems.trim())?;
                group.write("cpuset.cpus", &core)?;
                group.write("cpuset.cpu_exclusive", "1").map_err(|error| {
                    let others = group.siblings().join(", ");
                    io::Error::other(format!("{error}; beside it are the cpusets {others}"))
                })?;
                Some(Undo::write(root, "0")?)
            }
            Version::Two => {
                group.write("cpuset.cpus", &core)?;
                group.write("cpuset.cpus.partition", "root")?;
                let state = group.read("cpuset.cpus.partition")?;
                if state.trim() != "root" {
                    return Err(io::Error::other(format!("cpuset.cpus.partition: {state}")));
                }
                None
            }
        };
        Ok(Self { group, _around: around })
    }
    /// Puts a process in.
    pub(super) fn take(&self, pid: u32) -> io::Result<()> {
        self.group.take(pid)
    }
    /// Where it is.
    pub(super) fn path(&self) -> &PathBuf {
        self.group.path()
    }
}
