//! The protocol of runtime, guardian and `clean`, searched whole, and the proof that the search
//! would find a wrong order.

use maracas_live::guardian::model::{
    Close, Found, Member, Operation, Protocol, Repair, Scope, Step, search,
};

fn scope(members: &[Member], hangs: bool) -> Scope {
    Scope { members: members.to_vec(), cores: 2, hangs }
}

fn shown(found: &Found) -> String {
    match &found.counterexample {
        None => format!("{} states, all well", found.states),
        Some((path, broken)) => format!("{broken} is left after:\n  {}", path.join("\n  ")),
    }
}

/// Searches a wrong protocol on one program and one client: it must be found out.
fn found_out(protocol: &Protocol) -> (Vec<String>, String) {
    let found = search(protocol, &scope(&[Member::Program, Member::Client], false));
    found.counterexample.expect("a wrong order must leave something")
}

#[test]
fn nothing_is_left_whoever_dies_when() {
    let members = [Member::Program, Member::Client, Member::Program];
    let found = search(&Protocol::REAL, &scope(&members, false));
    eprintln!("{} states", found.states);
    assert!(found.counterexample.is_none(), "{}", shown(&found));
}
#[test]
fn nothing_is_left_where_the_heartbeat_is_missed() {
    let found = search(&Protocol::REAL, &scope(&[Member::Program, Member::Client], true));
    eprintln!("{} states", found.states);
    assert!(found.counterexample.is_none(), "{}", shown(&found));
}
