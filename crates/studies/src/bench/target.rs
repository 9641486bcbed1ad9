//! The programs of the measurement: `maracas work spin` as the target, and another as the noisy
//! fair load on the same core. Both end when the value is dropped.

use super::stolen::GapFile;
use maracas_console::failure::Failure;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::{Child, Command, Stdio};

/// A running spin program with one thread.
pub(super) struct Spin {
    child: Child,
    gaps: GapFile,
}

impl Spin {
    /// Starts one on `core`.
    pub(super) fn start(core: usize) -> Result<Self, Failure> {
        let gaps = GapFile::create()?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::about("this program cannot be found", error))?;
        let child = Command::new(program)
            .args(["work", "spin", "--quiet", "--gaps"])
            .arg(gaps.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::about("work spin cannot be started", error))?;
        let spin = Self { child, gaps };
        pin(Some(spin.pid()), core)?;
        Ok(spin)
    }
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }
    /// When it stood still.
    pub(super) const fn gaps(&self) -> &GapFile {
        &self.gaps
    }
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill and only to reap.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets a thread (`None` = the calling one) run on `core` only.
pub(super) fn pin(pid: Option<Pid>, core: usize) -> Result<(), Failure> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(pid, &set)
        .map_err(|error| Failure::about(format_args!("pinning to core {core}"), error))
}

/// Lets a process run wherever the caller may.
pub(super) fn unpin(id: u32) -> Result<(), Failure> {
    let fail = |error| Failure::about("unpinning", error);
    let set = rustix::thread::sched_getaffinity(None).map_err(fail)?;
    sched_setaffinity(Pid::from_raw(id as i32), &set).map_err(fail)
}

/// The child of this process that runs the built-in work of this name, other than `not`.
pub(super) fn child_of_ours(work: &str, not: u32) -> Option<u32> {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").ok()?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid: &u32| *pid != not).find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Field 4 of proc_pid_stat(5), counted from the last ")" that ends the name.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == Some(&own) && words.split(|byte| *byte == 0).any(|word| word == work.as_bytes())
    })
}
