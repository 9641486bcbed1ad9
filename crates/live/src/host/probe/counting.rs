//! Whether memory can be counted by group, as it is of every VCPU.

use super::subject::Subject;
use crate::host::HardwareCore;
use crate::host::cgroup::{Group, Hierarchies, Tree};
use crate::host::hardware::{EventCode, Hardware, Scope, VcpuEvents};
use maracas_core::VcpuId;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use std::{io, thread};

/// `PERF_COUNT_HW_INSTRUCTIONS` of `PERF_TYPE_HARDWARE` (include/uapi/linux/perf_event.h).
const INSTRUCTIONS: EventCode = EventCode { unit: 0, config: 1, config1: 0, config2: 0 };
/// For this long a group is watched: many thousand instructions, even beside others.
const WATCHED: Duration = Duration::from_millis(20);

/// Opens what is counted of every VCPU for a group in which a process spins on `core`. What the
/// process surely does, instructions, must move.
///
/// # Errors
/// Where the group cannot be made, or the kernel refuses a counter, named.
pub fn group_counters(
    hardware: &dyn Hardware,
    core: HardwareCore,
    events: &VcpuEvents,
) -> io::Result<String> {
    let tree = Tree::create(&Hierarchies::read()?)?;
    // Neither a scenario's nor the one of the probe before.
    let group = tree.vcpu(VcpuId(u32::MAX - 1));
    let counted = group.and_then(|group| {
        let counted = count(hardware, core, events, &group);
        let ended = group.kill();
        group.remove()?;
        ended.and(counted)
    });
    // A tree of this process that is in use stays.
    let _ = tree.remove();
    counted
}

fn count(
    hardware: &dyn Hardware,
    core: HardwareCore,
    events: &VcpuEvents,
    group: &Group,
) -> io::Result<String> {
    let needs = || io::Error::other("needs a cgroup v2 group of ours");
    let dir: BorrowedFd<'_> = group.dir_fd().ok_or_else(needs)?;
    let wanted = [("reads", events.reads), ("references", events.references)];
    let known: Vec<_> =
        wanted.iter().filter_map(|(name, event)| Some((*name, (*event)?))).collect();
    if known.is_empty() {
        return Err(io::Error::other("no event of the cores counts reads of memory"));
    }
    group.confine(core)?;
    let _subject = Subject::start(group, core)?;
    let mut counters = Vec::new();
    for (name, event) in known.iter().copied().chain([("instructions", INSTRUCTIONS)]) {
        let counter = hardware.open(&event, Scope::Group(dir, core));
        counters.push((name, counter.map_err(crate::host::naming(name))?));
    }
    thread::sleep(WATCHED);
    let mut shown = Vec::new();
    for (name, counter) in &mut counters {
        shown.push((*name, counter.read()?.value));
    }
    if shown.iter().any(|(name, count)| *name == "instructions" && *count == 0) {
        return Err(io::Error::other("a spinning process took 0 instructions"));
    }
    let shown: Vec<_> = shown.iter().map(|(name, count)| format!("{count} {name}")).collect();
    Ok(format!("a spinning process in a group took {} in {WATCHED:?}", shown.join(", ")))
}
