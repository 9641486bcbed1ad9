//! A failing case is made as small as it gets.

use crate::shrink::smallest;
use crate::{Case, Faults, check};
use maracas_core::memory::Memory;
use maracas_core::params::Params;
use maracas_core::{Duration, Instant, Program};
use maracas_sim::Overheads;

/// Takes away from a failing case whatever can go while it still fails. Enough tries for every
/// single part of the largest systems to be tried several times.
pub(super) fn shrink(case: Case) -> Case {
    smallest(case, 400, simpler, |case| check(case).is_err())
}

/// Every case that is one step simpler.
fn simpler(case: &Case) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        cases.push(simpler);
    };
    for vcpu in &case.random.system.vcpus {
        with(&|case| {
            case.random.system.vcpus.retain(|other| other.id != vcpu.id);
            case.changes.retain(|change| change.vcpu != vcpu.id);
            while let Some(place) = case.random.programs.iter().position(|p| p.vcpu == vcpu.id) {
                case.remove_program(place);
            }
        });
    }
    for place in 0..case.changes.len() {
        with(&|case| _ = case.changes.remove(place));
    }
    if case.until.ticks() > 1 {
        for (num, den) in [(1, 2), (9, 10)] {
            with(&|case| case.until = Instant::from_ticks(case.until.ticks() * num / den));
        }
    }
    if case.random.system.cores.len() > 1 {
        with(&|case| case.random.system.cores.truncate(case.random.system.cores.len() - 1));
    }
    with(&|case| case.params = Params::new());
    for (name, _) in case.params.iter() {
        with(&|case| case.params = without(&case.params, name));
    }
    with(&|case| case.memory = None);
    if let Some(memory) = &case.memory {
        with(&|case| case.memory = Some(Memory { devices: Vec::new(), ..memory.clone() }));
        with(&|case| case.memory = Some(Memory { cache: None, ..memory.clone() }));
    }
    if case.faults != Faults::default() {
        with(&|case| case.faults.late = Duration::ZERO);
        with(&|case| case.faults.hidden_wakes = false);
        with(&|case| case.faults.overheads = Overheads::default());
        with(&|case| case.faults.nag = None);
    }
    for place in 0..case.random.programs.len() {
        let program = case.random.programs[place];
        let others = case.random.programs.iter().filter(|other| other.vcpu == program.vcpu);
        if others.count() > 1 {
            with(&|case| case.remove_program(place));
        }
        if program.arrive > Instant::ZERO || program.depart < Instant::NEVER {
            with(&|case| {
                let workload = program.workload;
                case.random.programs[place] = Program::new(program.vcpu, workload);
            });
        }
    }
    // A step that changes nothing would be taken for ever.
    cases.retain(|simpler| simpler.to_string() != case.to_string());
    cases
}

/// The parameters without one of them.
fn without(params: &Params, name: &str) -> Params {
    let mut fewer = Params::new();
    let others = params.iter().filter(|(other, _)| *other != name);
    others.for_each(|(name, value)| fewer.set(name, value.clone()));
    fewer
}
