//! A failing case of the live machine is made as small as it gets.

use super::LiveCase;
use super::host::LiveFaults;
use crate::shrink::smallest_of_rule;

/// Takes away from a failing case whatever can go while it still fails.
pub(crate) fn shrink(case: LiveCase, why: &str) -> LiveCase {
    smallest_of_rule(case, why, simpler, LiveCase::check)
}

/// Every case that is one step simpler.
fn simpler(case: &LiveCase) -> Vec<LiveCase> {
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut LiveCase)| {
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
                case.programs.remove(&gone);
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
    let none = LiveFaults::NONE;
    with(&|case| case.faults.late_one_in = none.late_one_in);
    with(&|case| case.faults.early_one_in = none.early_one_in);
    with(&|case| case.faults.refuse_one_in = none.refuse_one_in);
    with(&|case| case.faults.refuse_for = none.refuse_for);
    with(&|case| case.faults.lose_one_in = none.lose_one_in);
    with(&|case| case.faults.freeze = none.freeze);
    with(&|case| case.faults.fork_one_in = none.fork_one_in);
    with(&|case| case.faults.relieve_one_in = none.relieve_one_in);
    with(&|case| case.faults.kill_at = none.kill_at);
    with(&|case| case.faults.off_line_at = none.off_line_at);
    with(&|case| case.faults.guardian_dies_at = none.guardian_dies_at);
    with(&|case| case.faults.give_up_one_in = none.give_up_one_in);
    with(&|case| case.faults.meters = none.meters);
    with(&|case| case.faults.samples = none.samples);
    with(&|case| case.faults.share_milli = none.share_milli);
    with(&|case| case.faults.kept_one_in = none.kept_one_in);
    with(&|case| case.faults.call = none.call);
    with(&|case| case.faults.wake = none.wake);
    cases
}
