//! Where resources can be shared, and what of it is not counted.

use super::{Case, Machine};
use maracas_console::failure::Failure;
use maracas_core::resources::Protocol;
use maracas_scenario::Scenario;

/// Refuses resources on a live machine.
pub(super) fn refuse_live(scenario: &Scenario, machine: Machine) -> Result<(), Failure> {
    if machine == Machine::Sim || scenario.resources.is_none() {
        return Ok(());
    }
    Err(Failure::new(scenario.at_locks(
        "resources are shared in simulation only, where jobs ask for them; drop `locks`, \
         [[resource]] and `sections`, or use `maracas sim`",
    )))
}

impl Case {
    /// Refuses resources beside models that say nothing of them.
    pub(super) fn refuse_unshared(&self) -> Result<(), Failure> {
        if self.system.resources.is_none() {
            return Ok(());
        }
        let why = if self.memory.is_some() || self.acting.paces.iter().any(Option::is_some) {
            "sections are lengths of time, which `memory` and `pace` would change; drop these or \
             `locks`"
        } else if !self.system.is_even() {
            "resources are shared on equal cores only; drop the classes of [platform] or `locks`"
        } else {
            return Ok(());
        };
        Err(match &self.scenario {
            Some(scenario) => Failure::new(scenario.at_locks(why)),
            None => Failure::about(&self.file, why),
        })
    }

    /// Where costs are charged, that no test counts them, nor the bounds on blocking.
    pub(super) fn of_uncounted_overheads(&self) -> Option<String> {
        let scenario = self.scenario.as_ref().filter(|it| !it.overheads.is_free())?;
        let blocking = "overheads are charged, which the bounds on blocking do not count";
        let tests = "overheads are charged, which no test counts: budgets must hold them \
            (docs/overheads.md)";
        Some(if scenario.resources.is_some() { blocking } else { tests }.to_string())
    }

    /// Takes the protocol that the command line names in place of the file's; a bare set of tasks
    /// has none of its own.
    pub(super) fn share(&mut self, protocol: Option<Protocol>) -> Result<(), Failure> {
        match (&mut self.system.resources, protocol) {
            (Some(resources), Some(protocol)) => {
                resources.protocol = protocol;
                self.start.resources.clone_from(&self.system.resources);
                Ok(())
            }
            (None, None) => Ok(()),
            (Some(_), None) if self.scenario.is_some() => Ok(()),
            (Some(_), None) => Err(Failure::about(
                &self.file,
                "its tasks share resources; say by which protocol with --locks mpcp (or fmlp+, \
                 omlp, mrsp)",
            )),
            (None, Some(_)) => {
                Err(Failure::about(&self.file, "its tasks share no resources; drop --locks"))
            }
        }
    }
}
