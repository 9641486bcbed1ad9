//! CFS quota: `cpu.max` of cgroup v2, or `cpu.cfs_quota_us` of v1.

use super::groups::{Group, Version};
use std::io;

/// A group with a quota; gone when dropped.
pub(super) struct Quota(Group);

impl Quota {
    /// A group that gets `budget` every `period`, in nanoseconds.
    ///
    /// # Errors
    /// What the host refused, by the file that it refused.
    pub(super) fn of(budget: u64, period: u64) -> io::Result<Self> {
        let group = Group::create("cpu")?;
        let (budget, period) = (budget / 1_000, period / 1_000);
        match group.version() {
            Version::One => {
                group.write("cpu.cfs_period_us", &period.to_string())?;
                group.write("cpu.cfs_quota_us", &budget.to_string())?;
            }
            Version::Two => group.write("cpu.max", &format!("{budget} {period}"))?,
        }
        Ok(Self(group))
    }
    /// Puts a process in.
    pub(super) fn take(&self, pid: u32) -> io::Result<()> {
        self.0.take(pid)
    }
    /// Where it is.
    pub(super) fn path(&self) -> String {
        self.0.path().display().to_string()
    }
}
