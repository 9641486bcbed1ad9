//! Whether what a policy's parameters say of costs and memory agrees with what the scenario has.
//!
//! A policy gets worst cases and plans with them; the scenario says what things cost. Where the
//! first are smaller, service requests take more than the budget that admission counted.

use super::Case;
use maracas_console::failure::Failure;
use maracas_core::memory::{PAGE_BYTES, Profile};
use maracas_core::{Criticality, Duration, Role, Vcpu};

impl Case {
    /// Refuses the first parameter that is less than what the scenario has.
    pub(super) fn refuse_disagreement(&self) -> Result<(), Failure> {
        let Some(scenario) = &self.scenario else { return Ok(()) };
        let costs = scenario.overheads;
        let compare = |name: &str, key: &str, real: Duration| {
            let said = self.spec(name).and_then(|spec| self.params.time(spec));
            let Some(said) = said.filter(|said| *said < real) else { return Ok(()) };
            let why = format!(
                "is {said}, but `{key}` in [overheads] is {real}; raise {name} to at least {real}"
            );
            Err(self.bad_param(name, &why))
        };
        if self.has(Role::Monitor) {
            compare("monitor_budget", "sample", costs.sample)?;
        }
        if self.has(Role::Migration) {
            compare("lock_cost", "lock", costs.lock)?;
            compare("struct_cost", "structure", costs.structure)?;
            if self.system.cores.iter().any(|core| core.colors.is_some()) {
                compare("page_cost", "page_copy", costs.page_copy)?;
                // Copies that cost nothing exceed no budget, however many.
                if !costs.page_copy.is_zero() {
                    self.refuse_too_many_pages()?;
                }
            }
        }
        Ok(())
    }

    /// Refuses the VCPU with most pages, if a migration was promised to copy fewer.
    fn refuse_too_many_pages(&self) -> Result<(), Failure> {
        let Some(spec) = self.spec("pages_max") else { return Ok(()) };
        let most = self.params.whole(spec);
        let recolors = self.spec("recolor").is_some_and(|spec| self.params.choice(spec) == "low");
        let moves = |vcpu: &&Vcpu| match vcpu.role {
            Role::Main | Role::Io => {
                vcpu.pinned.is_none() || recolors && vcpu.criticality == Criticality::Low
            }
            Role::Monitor | Role::Migration => false,
        };
        let movers = self.system.vcpus.iter().filter(moves);
        let largest = movers.map(|vcpu| (self.pages(vcpu), vcpu.id)).max();
        let Some((pages, vcpu)) = largest.filter(|(pages, _)| *pages > most) else { return Ok(()) };
        let (name, mib) = (self.name(vcpu), (pages * PAGE_BYTES).div_ceil(1 << 20));
        let why = format!(
            "is {most}, but {name} has {pages} pages ({mib} MiB) that move with it; raise \
             pages_max to at least {pages}, or pin {name} to a core"
        );
        Err(self.bad_param("pages_max", &why))
    }

    /// Pages of a VCPU's programs together: all of them move with it.
    fn pages(&self, vcpu: &Vcpu) -> u64 {
        let memory = self.memory.iter().flat_map(|memory| &memory.programs);
        let own = self.programs.iter().zip(memory).filter(|(program, _)| program.vcpu == vcpu.id);
        own.filter_map(|(_, memory)| memory.as_ref()).map(Profile::pages).sum()
    }

    fn has(&self, role: Role) -> bool {
        self.system.vcpus.iter().any(|vcpu| vcpu.role == role)
    }

    /// What the policy's use of memory means in simulation, though nothing is wrong with it.
    pub(super) fn of_memory(&self) -> Option<String> {
        let name = self.entry.name;
        if self.memory.is_none() && (self.entry.needs.counters || self.has(Role::Monitor)) {
            return Some(format!(
                "policy {name} reads memory counters and the scenario has no memory: they stay 0, \
                 and nothing is ever throttled; give [platform] a preset such as \"i5-2500k\", \
                 and programs their `memory`"
            ));
        }
        self.of_reserved_bandwidth()
    }

    /// What it means for VCPUs that their core has a bandwidth.
    pub(super) fn of_reserved_bandwidth(&self) -> Option<String> {
        self.senses().meters.then(|| {
            "admission counts time alone: a core that used its budget of reads is closed for the \
             rest of the period, to VCPUs that read nothing too; `foreground` keeps surplus time \
             from that, and a `bandwidth` of its own stops just the VCPU that reads"
                .into()
        })
    }
}
