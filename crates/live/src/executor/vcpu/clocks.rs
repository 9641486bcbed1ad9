//! The clocks that are read of a VCPU handle where there are no events.

use super::ThisVcpu;
use crate::host::sys;
use std::io;

impl ThisVcpu {
    /// What its clocks have gained since they were read last.
    pub(super) fn read_clocks(&mut self) -> u64 {
        let whole = self.root.is_some();
        let mut gained = 0;
        for (pid, seen_ns) in &mut self.clocks {
            let now_ns = if whole { sys::process_ns(*pid) } else { thread_ns(*pid) };
            let now_ns = now_ns.unwrap_or(*seen_ns).max(*seen_ns);
            gained += now_ns - *seen_ns;
            *seen_ns = now_ns;
        }
        gained
    }
    /// Which clocks there are; a new one counts from its thread's birth. What one gains between the
    /// last reading and its end is lost: up to a millisecond.
    pub(super) fn find_clocks(&mut self) -> io::Result<()> {
        let mut pids = std::mem::take(&mut self.scratch);
        let result = match self.root {
            Some(root) if self.group.path().is_none() => {
                pids.clear();
                pids.push(root);
                Ok(())
            }
            Some(_) => self.group.processes(&mut pids),
            None => self.group.threads(&mut pids),
        };
        self.clocks.retain(|(pid, _)| pids.contains(pid));
        for pid in &pids {
            if self.clocks.iter().all(|(known, _)| known != pid) {
                self.clocks.push((*pid, 0));
            }
        }
        self.scratch = pids;
        result
    }
}

/// The processor time of one thread: the first number of its `schedstat`.
fn thread_ns(tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
