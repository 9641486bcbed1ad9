//! The threads in which a kernel with PREEMPT_RT does what others do in interrupts: a thread of a
//! higher priority keeps them waiting.

use crate::host::after_name;
use crate::host::platform::is_preempt_rt;
use std::{fmt, fs};

/// The kernel's word for the work of interrupts, by thread.
const KINDS: [(&str, &str); 3] = [
    ("irq_work/", "notifications of counters"),
    ("ktimers/", "timers that are not marked hard"),
    ("ksoftirqd/", "soft interrupts"),
];

/// How interrupts' work is done.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct InterruptThreads {
    /// Whether the kernel is built with PREEMPT_RT.
    pub realtime: bool,
    /// Name and real-time priority of each such thread; 0 = none.
    pub threads: Vec<(String, u8)>,
}

impl InterruptThreads {
    /// Those of this kernel. What cannot be read is not there.
    pub fn read() -> Self {
        let realtime = is_preempt_rt();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = entries.filter_map(|entry| {
            let name = entry.file_name();
            let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
            is_process.then(|| fs::read_to_string(entry.path().join("stat")).ok())?
        });
        let mut threads: Vec<_> = stats.filter_map(|stat| parse(&stat)).collect();
        threads.sort_unstable();
        Self { realtime, threads }
    }
}

/// Name and priority by `/proc/<pid>/stat`, where it is one of ours.
fn parse(stat: &str) -> Option<(String, u8)> {
    let name = stat.split_once('(')?.1.rsplit_once(')')?.0;
    KINDS.iter().find(|(kind, _)| name.starts_with(kind))?;
    // Field 40 of proc_pid_stat(5), of which the first two stand before the cut.
    let priority = after_name(stat).nth(37)?.parse().ok()?;
    Some((name.to_owned(), priority))
}

impl fmt::Display for InterruptThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.realtime {
            return f.write_str("this kernel is not PREEMPT_RT: interrupts do their work at once");
        }
        f.write_str("PREEMPT_RT")?;
        for (kind, work) in KINDS {
            let same =
                |(name, priority): &(String, u8)| name.starts_with(kind).then_some(*priority);
            let least = self.threads.iter().filter_map(same).min();
            let kind = kind.trim_end_matches('/');
            match least {
                None => write!(f, "; no {kind}")?,
                Some(0) => write!(f, "; {kind} ({work}) without real-time priority")?,
                Some(least) => write!(f, "; {kind} ({work}) at priority {least}")?,
            }
        }
        f.write_str("; programs in the foreground stand above, from 10 on")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, priority: u8) -> String {
        format!("17 ({name}) S {}{priority} 1 0 0", "0 ".repeat(36))
    }

    #[test]
    fn threads_are_known_by_name_and_their_priority_is_field_40() {
        assert_eq!(parse(&stat("irq_work/1", 1)), Some(("irq_work/1".into(), 1)));
        assert_eq!(parse(&stat("ksoftirqd/0", 0)), Some(("ksoftirqd/0".into(), 0)));
        assert_eq!(
            [parse(&stat("kworker/1:0", 0)), parse(""), parse("1 (irq_work/0) S")],
            [None, None, None]
        );
    }

    #[test]
    fn what_waits_behind_programs_is_said() {
        let plain = InterruptThreads::default().to_string();
        assert_eq!(plain, "this kernel is not PREEMPT_RT: interrupts do their work at once");
        let threads = [("irq_work/0", 1), ("irq_work/1", 1), ("ksoftirqd/0", 0)];
        let threads = threads.map(|(name, priority)| (name.to_owned(), priority)).to_vec();
        let said = InterruptThreads { realtime: true, threads }.to_string();
        assert_eq!(
            said,
            "PREEMPT_RT; irq_work (notifications of counters) at priority 1; no ktimers; ksoftirqd \
             (soft interrupts) without real-time priority; programs in the foreground stand above, \
             from 10 on"
        );
    }

    #[test]
    fn every_kernel_has_soft_interrupts() {
        // In a container the kernel's threads are not seen.
        let kthreadd = fs::read_to_string("/proc/2/stat");
        let shown = kthreadd.is_ok_and(|stat| stat.contains("(kthreadd)"));
        let found = InterruptThreads::read();
        assert_eq!(found.threads.iter().any(|(name, _)| name == "ksoftirqd/0"), shown);
    }
}
