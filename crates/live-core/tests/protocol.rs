//! The protocol of runtime, guardian and `clean`, searched whole, and the proof that the search
//! finds wrong orders.

use maracas_live_core::protocol::{Close, Found, Member, Protocol, Repair, Scope, Step, search};

const PAIR: [Member; 2] = [Member::Program, Member::Client];

fn scope(members: &[Member]) -> Scope {
    Scope {
        members: members.to_vec(),
        cores: 2,
        hangs: false,
        rivals: true,
        guardians: 2,
        cleans: 1,
    }
}

fn assert_safe(what: &str, found: &Found) {
    if let Some((path, broken)) = &found.counterexample {
        panic!("{what}: {broken} is left after\n  {}", path.join("\n  "));
    }
    eprintln!("{what}: {} states, nothing is ever left", found.states);
}

/// Searches a wrong order; it must be found out. Returns the way there and what is left.
fn found_out(what: &str, wrong: &Protocol) -> (Vec<String>, String) {
    let found = search(wrong, &scope(&PAIR));
    let (path, broken) = found.counterexample.expect(what);
    eprintln!("{what}: {broken} is left after\n  {}", path.join("\n  "));
    (path, broken)
}

#[test]
fn three_vcpus_a_crash_at_every_step() {
    // Two programs and a client; runtime and guardian may die anywhere. Guardians that die twice
    // and runs of `clean` that die too or that race the guardian are searched on two VCPUs below.
    let members = [Member::Program, Member::Client, Member::Program];
    let scope = Scope { rivals: false, guardians: 1, cleans: 0, ..scope(&members) };
    let found = search(&Protocol::REAL, &scope);
    assert_safe("three VCPUs", &found);
    assert!(found.states > 500_000, "only {} states: is something never tried?", found.states);
}

#[test]
fn guardians_and_cleans_that_die_again() {
    assert_safe("two VCPUs, two guardians", &search(&Protocol::REAL, &scope(&PAIR)));
    let clients = scope(&[Member::Client, Member::Client]);
    assert_safe("two clients", &search(&Protocol::REAL, &clients));
}

#[test]
fn a_stuck_agent_at_every_step() {
    // Any VCPU may be taken down at any step, also of its end, and its agent may go on meanwhile.
    let scope = Scope { hangs: true, rivals: false, guardians: 1, cleans: 0, ..scope(&PAIR) };
    let found = search(&Protocol::REAL, &scope);
    assert_safe("stuck agents", &found);
    let calm = search(&Protocol::REAL, &Scope { hangs: false, ..scope });
    assert!(found.states > calm.states, "no VCPU was ever taken down");
}

#[test]
fn forgetting_before_thawing_is_found_out() {
    let repair = &[
        Repair::Demote,
        Repair::Forget,
        Repair::Thaw,
        Repair::Kill,
        Repair::MoveBack,
        Repair::RemoveGroups,
    ];
    let wrong = Protocol { repair, ..Protocol::REAL };
    let (path, _) = found_out("forget before thaw", &wrong);
    assert!(path.iter().any(|step| step.contains("Forget")), "{path:?}");
}

#[test]
fn raising_before_the_group_is_known_is_found_out() {
    let enrol_client = &[Step::Raise, Step::MakeGroup, Step::MoveIn];
    let wrong = Protocol { enrol_client, ..Protocol::REAL };
    let (_, broken) = found_out("raise before move in", &wrong);
    assert_eq!(broken, "a thread at real-time priority of vcpu1 (Client)");
}

#[test]
fn stopping_without_thawing_or_demoting_is_found_out() {
    let stop_client = &[Step::Thaw, Step::MoveBack, Step::RemoveGroup];
    let wrong = Protocol { stop_client, ..Protocol::REAL };
    let (_, broken) = found_out("release without demotion", &wrong);
    assert_eq!(broken, "a thread at real-time priority of vcpu1 (Client)");
}

#[test]
fn a_repair_without_a_station_is_found_out() {
    for missing in Protocol::REAL.repair {
        let rest: Vec<Repair> =
            Protocol::REAL.repair.iter().copied().filter(|station| station != missing).collect();
        let wrong = Protocol { repair: rest.leak(), ..Protocol::REAL };
        let what = format!("a repair without {missing:?}");
        // Without the removal the thaw may be missing and harm nothing: a group that is removed is
        // not frozen either. Every other station must be missed.
        if *missing == Repair::Thaw {
            assert_safe(&what, &search(&wrong, &scope(&PAIR)));
        } else {
            found_out(&what, &wrong);
        }
    }
}

#[test]
fn a_goodbye_before_the_end_is_found_out() {
    let close = &[Close::Goodbye, Close::StopAll, Close::Forget];
    let wrong = Protocol { close, ..Protocol::REAL };
    let (path, _) = found_out("goodbye first", &wrong);
    assert!(path.iter().any(|step| step.contains("Goodbye")), "{path:?}");
}

#[test]
fn children_that_inherit_their_priority_are_found_out() {
    // Reading the threads again alone does not hold where guardian and `clean` race: one demotes
    // the parent, the other never lists the child. Children that start unraised alone do.
    let inherit = Protocol { reset_on_fork: false, ..Protocol::REAL };
    let (path, _) = found_out("children inherit", &inherit);
    assert!(path.iter().any(|step| step.contains("forks")), "{path:?}");
    let once = Protocol { demote_until_quiet: false, ..Protocol::REAL };
    assert_safe("one pass", &search(&once, &scope(&PAIR)));
    // What reading again is for: a single repairer needs it where children inherit.
    let alone = Scope { rivals: false, ..scope(&PAIR) };
    assert_safe("children inherit, no rivals", &search(&inherit, &alone));
    let both = Protocol { reset_on_fork: false, ..once };
    assert!(search(&both, &alone).counterexample.is_some());
}
