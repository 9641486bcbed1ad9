//! Whether the scheduler in the kernel can carry a run out on this host.

use crate::doctor::SchedExt;
use crate::host::platform::last_core;
use crate::setup::Setup;
use maracas_kernel::{CORES, IS_BUILT, Scheduler, VCPUS};

/// What is in the way on this host, one sentence each; nothing where it can.
pub fn obstacles(setup: &Setup) -> Vec<String> {
    let mut found = Vec::new();
    if !IS_BUILT {
        found.push(NOT_BUILT.to_string());
    }
    found.extend(SchedExt::read().lacks());
    found.extend(beyond(setup));
    found
}

/// What is in the way of this process or this kernel, found by loading the scheduler, which is
/// then let go; `None` where nothing is. It takes as long as loading does.
pub fn refusal() -> Option<String> {
    Scheduler::try_load().err().map(|error| error.to_string())
}

/// What is said of a build without libbpf.
pub const NOT_BUILT: &str = "a maracas that is built with --features sched-ext";

/// Numbers for which the kernel's side has no room: it schedules every core that the host may have.
fn beyond(setup: &Setup) -> Option<String> {
    let core = setup.cores.iter().copied().chain(last_core()).find(|core| core.0 >= CORES);
    let core =
        core.map(|core| format!("core {} is none of the {CORES} that it has room for", core.0));
    let most = setup.vcpus().map(|(vcpu, _)| vcpu.id.0 + 1).max().unwrap_or(0);
    let vcpus = (most > VCPUS).then(|| format!("{most} VCPUs; it has room for {VCPUS}"));
    core.or(vcpus)
}
