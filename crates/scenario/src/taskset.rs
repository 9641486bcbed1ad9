//! Bare task sets: tasks alone, no scenario around them.
//!
//! Our own form is a table of comma-separated values:
//!
//! ```csv
//! # where the set comes from: lines at the head are kept
//! name, cost_us, period_us, deadline_us, offset_us, jobs
//! a,    2000,    10000,     10000,       0,         periodic
//! b,    333.333, 1000,      ,            ,          sporadic
//! ```
//! The header is required; its columns may stand in any order. All but `cost_us` and `period_us`
//! may be missing or empty: `deadline_us` is then the period, `offset_us` 0, `jobs` periodic and
//! the name `task1`, `task2` and so on. Times are in microseconds, with up to three decimals.
//! What other tools write is read too ([`crate::formats`]).

mod exact;
#[cfg(test)]
mod tests;

use maracas_core::resources::Resources;
use maracas_core::{Arrival, Cost, Duration, MAX_CORES, Program, System, Vcpu, Workload};
use std::collections::BTreeSet;

/// Periodic or sporadic tasks. Task i is `VcpuId(i)`: its budget is its cost, and every job needs
/// all of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskSet {
    /// The tasks in the order of the file.
    pub tasks: Vec<Vcpu>,
    /// Their names, one each and no two alike; none at all where they are `task1`, `task2`, ...
    pub names: Vec<String>,
    /// Where they come from: the comment lines at the head of the file, without their marks.
    /// Generators say their version, recipe and seed there.
    pub origin: Vec<String>,
    /// What the file says that a task set cannot mean and that was left aside, as sentences for
    /// the user.
    pub notes: Vec<String>,
    /// What their jobs share; under which protocol, the caller says.
    pub resources: Option<Resources>,
}

impl TaskSet {
    /// The name of every task.
    pub fn names(&self) -> Vec<String> {
        if self.names.is_empty() {
            return (0..self.tasks.len()).map(default_name).collect();
        }
        self.names.clone()
    }

    /// Takes names, one a task. An empty one becomes `task1`, `task2`, ... by its place.
    ///
    /// # Errors
    /// The place of the first name that another task has too.
    pub(crate) fn set_names(&mut self, names: Vec<String>) -> Result<(), usize> {
        let filled = |(place, name): (usize, String)| {
            if name.is_empty() { default_name(place) } else { name }
        };
        let names: Vec<String> = names.into_iter().enumerate().map(filled).collect();
        let mut known = BTreeSet::new();
        if let Some(twice) = names.iter().position(|name| !known.insert(name)) {
            return Err(twice);
        }
        let is_default = |(place, name): (usize, &String)| *name == default_name(place);
        self.names = if names.iter().enumerate().all(is_default) { Vec::new() } else { names };
        Ok(())
    }

    /// The tasks on `cores` simulated cores.
    ///
    /// # Panics
    /// Where `cores` is 0 or above [`MAX_CORES`].
    pub fn system(&self, cores: usize) -> System {
        assert!((1..=MAX_CORES).contains(&cores), "{cores} cores: from 1 to {MAX_CORES} may be");
        let mut system = System::new(cores, self.tasks.clone());
        system.resources = self.resources.clone().map(Box::new);
        system
    }

    /// One program a task, each job costing the whole budget.
    pub fn programs(&self) -> Vec<Program> {
        let workload =
            |task: &Vcpu| Workload::Periodic { cost: Cost::Fixed(task.reservation.budget) };
        self.tasks.iter().map(|task| Program::new(task.id, workload(task))).collect()
    }
}

/// The name of a task that has none, by its place.
pub(crate) fn default_name(place: usize) -> String {
    format!("task{}", place + 1)
}

/// When the first job of a task comes; of a sporadic one nothing is known.
pub(crate) const fn offset(task: &Vcpu) -> Duration {
    match task.arrival {
        Arrival::Periodic { offset } => offset,
        Arrival::Sporadic | Arrival::None => Duration::ZERO,
    }
}

/// Whether the jobs of a task come when they like, at least a period apart.
pub(crate) fn is_sporadic(task: &Vcpu) -> bool {
    task.arrival == Arrival::Sporadic
}
