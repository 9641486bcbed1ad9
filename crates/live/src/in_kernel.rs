//! Whether the scheduler in the kernel can carry a run out on this host.

use crate::doctor::SchedExt;
use crate::host::own_namespace;
use crate::host::platform::last_core;
use crate::setup::Setup;
use maracas_kernel::{CORES, IS_BUILT, Scheduler, VCPUS};

/// What is in the way on this host, one sentence each; nothing where it can.
pub fn obstacles(setup: &Setup) -> Vec<String> {
    let mut found = Vec::new();
    if !IS_BUILT {
        found.push(NOT_BUILT.to_string());
    }
    found.extend(own_namespace().map(|_| NOT_INITIAL.to_string()));
    found.extend(SchedExt::read().lacks());
    found.extend(beyond(setup));
    found
}

/// What is in the way of this process or this kernel, found by loading the scheduler, which is
/// then let go; `None` where nothing is. It takes as long as loading does.
pub fn refusal() -> Option<String> {
    Scheduler::try_load().err().map(|error| error.to_string())
}

/// What is said in a container: threads are told to the kernel by their numbers, and it takes those
/// for numbers of the initial namespace (`bpf_task_from_pid`).
const NOT_INITIAL: &str = "the initial pid namespace: here threads have other numbers";

/// What is said of a build without libbpf.
pub const NOT_BUILT: &str = "a maracas that is built with --features sched-ext";

/// For what the kernel's side has no room: it schedules every core that the host may have. A VCPU
/// that comes later is refused then ([`maracas_live_core::ManagedCore::has_room`]).
fn beyond(setup: &Setup) -> Option<String> {
    let core = setup.cores.iter().copied().chain(last_core()).find(|core| core.0 >= CORES);
    let core =
        core.map(|core| format!("core {} is none of the {CORES} that it has room for", core.0));
    core.or(too_many(setup.vcpus().count()))
}

/// What is said of a scenario of so many VCPUs, where they are too many.
fn too_many(vcpus: usize) -> Option<String> {
    let is_beyond = vcpus > VCPUS as usize;
    is_beyond.then(|| format!("{vcpus} VCPUs; it has room for {VCPUS} at once"))
}

#[cfg(test)]
mod tests {
    use super::{VCPUS, too_many};

    #[test]
    fn as_many_vcpus_as_there_are_slots_and_no_more_can_be_there_at_once() {
        assert_eq!(too_many(VCPUS as usize), None);
        let said = "1025 VCPUs; it has room for 1024 at once";
        assert_eq!(too_many(VCPUS as usize + 1).as_deref(), Some(said));
    }
}
