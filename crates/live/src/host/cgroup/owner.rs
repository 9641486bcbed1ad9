//! To which run and VCPU a process belongs, by the names of its control groups.

use crate::host::Identity;
use maracas_core::VcpuId;

/// Where a process stands towards a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Started outside of any run.
    Outside,
    /// Started by a run: on this VCPU if the run is ours.
    Inside(Option<VcpuId>),
}

impl Place {
    /// By the process' groups (`/proc/<pid>/cgroup`).
    pub(crate) fn of(groups: &str, run: Identity) -> Place {
        let mut started = placed(groups).filter(|(_, group)| !group.starts_with("client-"));
        started.next().map_or(Place::Outside, |(owner, group)| {
            let number = group.strip_prefix("vcpu-").and_then(|number| number.parse().ok());
            Place::Inside(number.filter(|_| owner == run).map(VcpuId))
        })
    }
}

/// The VCPU of `run` that started a process in these groups, if one did.
pub(crate) fn vcpu_of(groups: &str, run: Identity) -> Option<VcpuId> {
    match Place::of(groups, run) {
        Place::Inside(vcpu) => vcpu,
        Place::Outside => None,
    }
}

/// The groups of runs that these lines name: each run with the group below its directory.
pub(crate) fn placed(groups: &str) -> impl Iterator<Item = (Identity, &str)> {
    groups.lines().filter_map(|line| {
        let parts: Vec<&str> = line.split('/').collect();
        parts.windows(3).find_map(|parts| {
            let run = Identity::parse(parts[1]).filter(|_| parts[0] == "maracas")?;
            Some((run, parts[2]))
        })
    })
}
