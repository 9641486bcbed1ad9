//! What a policy must sense of memory for what it promises, or for what it does.

use super::Case;
use maracas_core::Role;
use maracas_core::params::ParamSpec;
use maracas_scenario::Live;

/// What of memory must be sensed for a case.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MemoryNeeds {
    /// The policy's monitor samples it.
    pub samples: bool,
    /// What it does depends on how long requests wait.
    pub latency: bool,
    /// Cores are promised bandwidth: reads must be counted core by core.
    pub meters: bool,
    /// What it does depends on how much each VCPU reads.
    pub weighs: bool,
    /// VCPUs that are promised bandwidth, in a row: reads must be counted VCPU by VCPU.
    pub limited: Option<String>,
}

impl MemoryNeeds {
    /// Whether memory must be sensed at all.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Case {
    /// What must be sensed of memory.
    pub fn senses(&self) -> MemoryNeeds {
        let chosen = |name, word| self.spec(name).is_some_and(|it| self.params.choice(it) == word);
        let given = |name| self.spec(name).is_some_and(|it| !self.params.list(it).is_empty());
        let limited = self.names_of(&|vcpu| vcpu.bandwidth.is_some());
        MemoryNeeds {
            samples: self.system.vcpus.iter().any(|vcpu| vcpu.role == Role::Monitor),
            latency: chosen("throttle", "latency"),
            meters: self.entry.needs.counters && (given("bandwidth") || given("weights")),
            weighs: chosen("background", "light") || chosen("recolor", "low"),
            limited: limited.filter(|_| self.keeps("bandwidth")),
        }
    }

    /// How a live run senses and steers memory.
    pub fn live(&self) -> Live {
        self.scenario.as_ref().map(|scenario| scenario.live.clone()).unwrap_or_default()
    }

    /// A parameter of the policy.
    pub fn spec(&self, name: &str) -> Option<&'static ParamSpec> {
        self.entry.params.iter().find(|spec| spec.name == name)
    }
}
