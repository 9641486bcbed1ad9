//! A failing case of the machine in the kernel is made as small as it gets.

use super::{KernelCase, KernelFaults};
use crate::shrink::smallest_of_rule;

/// Takes away from a failing case whatever can go while it still fails.
pub(crate) fn shrink(case: KernelCase, why: &str) -> KernelCase {
    smallest_of_rule(case, why, simpler, KernelCase::check)
}

/// Every case that is one step simpler.
fn simpler(case: &KernelCase) -> Vec<KernelCase> {
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut KernelCase)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        if simpler.to_string() != case.to_string() {
            cases.push(simpler);
        }
    };
    for place in 0..case.base.vcpus.len() {
        if case.base.vcpus.len() > 1 {
            with(&|case| {
                let gone = case.base.vcpus.remove(place).id;
                case.programs.retain(|(id, _)| *id != gone);
            });
        }
    }
    with(&|case| case.requests.clear());
    for place in 0..case.requests.len() {
        with(&|case| _ = case.requests.remove(place));
    }
    for (num, den) in [(1, 2), (9, 10)] {
        with(&|case| case.until = case.until * num / den);
    }
    if case.base.cores.len() > 1 {
        with(&|case| case.base.cores.truncate(case.base.cores.len() - 1));
    }
    let none = KernelFaults::NONE;
    with(&|case| case.faults.late = none.late);
    with(&|case| case.faults.least = none.least);
    with(&|case| case.faults.ring = none.ring);
    with(&|case| case.faults.refuse_one_in = none.refuse_one_in);
    with(&|case| case.faults.fork_one_in = none.fork_one_in);
    with(&|case| case.faults.sender = none.sender);
    with(&|case| case.faults.starts = none.starts);
    with(&|case| case.faults.chunk = none.chunk);
    with(&|case| case.faults.slots = none.slots);
    with(&|case| case.faults.stray_one_in = none.stray_one_in);
    with(&|case| case.faults.birth = none.birth);
    cases
}
