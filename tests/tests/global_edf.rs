//! The schedulability tests of global EDF: they say what another implementation says of a thousand
//! sets, and whatever one of them accepts misses nothing under the simulator, released
//! periodically, with offsets or sporadically, whichever of equal deadlines goes first.

use maracas_core::Arrival;
use maracas_tests::rated::{Set, none_accepted_misses, policy, sets, with};

/// The sets, with the verdicts of another implementation: see its first lines.
const SETS: &str = include_str!("../data/global-edf.csv");
/// In the order of the file's columns.
const TESTS: [&str; 5] = ["gfb", "bak", "bcl", "ff-dbf", "rta"];

#[test]
fn they_say_what_another_implementation_says() {
    let sets = sets(SETS);
    assert_eq!(sets.len(), 1000);
    let mut accepted = [0; TESTS.len()];
    for (line, set) in sets.iter().enumerate() {
        let (system, expected) = (set.system(|_| Arrival::Sporadic), set.accepted(0));
        for (place, name) in TESTS.into_iter().enumerate() {
            let verdict = (policy("g-edf").admit)(&system, &with(&[("admission", name)]));
            let says = verdict.accepted();
            assert_eq!(says, expected[place], "set {line}, {name}: {:?}", verdict.refused);
            accepted[place] += u32::from(says);
        }
    }
    // Each has sets that it accepts and sets that it refuses.
    assert!(accepted.iter().all(|count| (50..950).contains(count)), "{accepted:?}");
}

#[test]
fn what_one_of_them_accepts_misses_nothing() {
    let ties = ["index", "reverse-index", "shorter-period", "longer-period"];
    let params = |seed: u64| with(&[("ties", ties[seed as usize % ties.len()])]);
    let accepted = |set: &Set| set.accepted(0).contains(&true);
    none_accepted_misses(&sets(SETS), "g-edf", |_, seed| params(seed), accepted);
}
