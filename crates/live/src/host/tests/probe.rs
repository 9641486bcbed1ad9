//! The levels of support, and a real probe that leaves nothing behind.

use super::*;
use crate::host::snapshot::Snapshot;
use crate::host::tests::turn;

#[test]
fn the_worst_missing_capability_decides_the_support() {
    let without = |missing: &[Capability]| support(|capability| !missing.contains(&capability));
    assert_eq!(without(&[]), Support::Full);
    assert_eq!(without(&[Capability::Deadline, Capability::Steal]), Support::Full);
    assert_eq!(without(&[Capability::SwitchRecords]), Support::NoPerfmon);
    assert_eq!(without(&[Capability::GroupBudget]), Support::NoPerfmon);
    assert_eq!(without(&[Capability::Freezer, Capability::GroupBudget]), Support::NoFreezer);
    assert_eq!(without(&[Capability::Fifo, Capability::Freezer]), Support::NoFifo);
    let bare = [Capability::Fifo, Capability::Freezer, Capability::StopSignal];
    assert_eq!(without(&bare), Support::SimulationOnly);
    assert_eq!(without(&[Capability::Pidfd]), Support::SimulationOnly, "no end is noticed");
}

#[test]
fn a_probe_finds_something_out_and_leaves_nothing() {
    let _turn = turn();
    let before = Snapshot::take().expect("readable");
    let cores = Platform::detect().expect("readable").cores;
    let begun = std::time::Instant::now();
    let found = Capabilities::probe(&cores).expect("probed");
    eprintln!("probed in {:?}: {}", begun.elapsed(), found.support());
    for Finding { capability, state, proof, fallback, .. } in &found.findings {
        eprintln!("{:24} {state:?} {proof} {fallback}", capability.to_string());
    }
    assert_eq!(found.findings.len(), tries::TABLE.len());
    assert!(found.findings.iter().all(|finding| !finding.proof.is_empty()));
    let lost = found.findings.iter().filter(|finding| finding.state == State::Missing);
    assert!(lost.clone().all(|finding| !finding.fallback.is_empty()));
    assert_eq!(found.missing().count(), lost.count());
    assert!(found.has(Capability::StopSignal), "any process may stop its own child");
    let own = crate::host::Identity::own().expect("alive").to_string();
    let after = Snapshot::take().expect("readable");
    assert_eq!(after.trees.get(&own), before.trees.get(&own));
}

#[test]
fn the_freezer_can_be_timed_by_itself() {
    let _turn = turn();
    let cores = Platform::detect().expect("readable").cores;
    let all = Capabilities::probe(&cores).expect("probed");
    let calls = freezer_calls(&cores).expect("as before");
    eprintln!("{calls:?}");
    assert_eq!(calls.is_some(), all.has(Capability::Freezer));
    assert!(calls.is_none_or(|calls| !calls.is_zero()));
    let error = freezer_calls(&[]).expect_err("no core");
    assert_eq!(error.to_string(), "no core to probe: give at least one");
}

/// Level 1 is too high already: "disallow CPU event access" (admin-guide/sysctl/kernel.rst).
#[test]
fn the_way_to_the_counters_of_a_core_is_the_kernels() {
    for capability in [Capability::GroupBudget, Capability::SwitchRecords] {
        let row = tries::TABLE.iter().find(|row| row.capability == capability).expect("tried");
        assert_eq!(row.remedy, "root, CAP_PERFMON, or kernel.perf_event_paranoid 0");
    }
}

#[test]
fn no_core_is_refused() {
    let error = Capabilities::probe(&[]).expect_err("nothing to probe");
    assert_eq!(error.to_string(), "no core to probe: give at least one");
}
