//! By what the jobs of a live run are judged beside each other.

use super::Case;
use maracas_core::VcpuId;

impl Case {
    /// Judges the jobs of a live run, and notes by what.
    pub(super) fn judge_live_jobs(&mut self) {
        self.judge_jobs();
        let said = self.of_jobs();
        self.notes.extend(said);
    }

    /// Whether and by what it is judged live if jobs are in time beside others that use memory.
    fn of_jobs(&self) -> Vec<String> {
        let Some(scenario) = &self.scenario else { return Vec::new() };
        let jobs = scenario.vcpus.iter().any(|it| it.vcpu.arrival != maracas_core::Arrival::None);
        if !jobs {
            return Vec::new();
        }
        let Some(memory) = &self.memory else {
            return vec![
                "whether jobs are in time beside others that use memory is not judged: [platform] \
                 has no memory; name a preset, and give programs the `memory` that `maracas \
                 profile` measures"
                    .into(),
            ];
        };
        let mut said = vec![
            "jobs are judged by the memory in this file, [platform] and `memory` of programs, not \
             by counters of this host"
                .to_string(),
        ];
        let without: Vec<VcpuId> = self
            .programs
            .iter()
            .zip(&memory.programs)
            .filter(|(_, memory)| memory.is_none())
            .map(|(program, _)| program.vcpu)
            .collect();
        if !without.is_empty() {
            let mut names: Vec<_> = without.into_iter().map(|vcpu| self.name(vcpu)).collect();
            names.dedup();
            let names = names.join(", ");
            said.push(format!("{names}: taken to touch no memory; `maracas profile` measures it"));
        }
        said.extend(scenario.programs.iter().filter_map(|program| {
            let missing = program.unmeasured.join(", ");
            let text = format!("{}: not measured in its model: {missing}", program.name);
            (!missing.is_empty()).then_some(text)
        }));
        said
    }
}
