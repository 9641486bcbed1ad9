//! The schedulability tests of global fixed priorities: they say, and find the response times, that
//! another implementation does of a thousand sets, and whatever one of them accepts misses nothing
//! under the simulator, released periodically, with offsets or sporadically.

use maracas_core::admission::Measure;
use maracas_core::{Arrival, Duration};
use maracas_tests::rated::{Set, none_accepted_misses, policy, sets, with};

/// The sets, with the verdicts of another implementation: see its first lines.
const SETS: &str = include_str!("../data/global-fp.csv");
/// The tests, each with the place of its verdict and of its response times behind C:D:T.
const TESTS: [(&str, usize, Option<usize>); 3] =
    [("bcl", 0, None), ("rta", 2, Some(3)), ("rta-lc", 3, Some(4))];
/// The verdict of response times that count all of what others do, however short the wait is.
const UNCUT: usize = 1;

/// Half of the sets have priorities by deadline, half by period.
fn priorities(set: &Set) -> (&'static str, &'static str) {
    ("priorities", if set.columns[0] == "T" { "period" } else { "deadline" })
}

#[test]
fn they_say_what_another_implementation_says() {
    let sets = sets(SETS);
    assert_eq!(sets.len(), 1000);
    let (mut accepted, mut responses) = ([0; TESTS.len()], 0);
    for (line, set) in sets.iter().enumerate() {
        let (system, expected) = (set.system(|_| Arrival::Sporadic), set.accepted(1));
        assert!(expected[2] || !expected[UNCUT], "set {line}");
        for (count, (name, place, column)) in accepted.iter_mut().zip(TESTS) {
            let params = with(&[("admission", name), priorities(set)]);
            let verdict = (policy("g-rm").admit)(&system, &params);
            let says = verdict.accepted();
            assert_eq!(says, expected[place], "set {line}, {name}: {:?}", verdict.refused);
            *count += u32::from(says);
            if let (true, Some(column)) = (says, column) {
                let Measure::Responses(found) = &verdict.cores[0].tests[0].measure else {
                    panic!("{name} has no response times")
                };
                for (vcpu, response, _) in found {
                    let known = Duration::from_ticks(set.tasks[vcpu.0 as usize][column]);
                    assert_eq!(*response, Some(known), "set {line}, {name}, {vcpu}");
                    responses += 1;
                }
            }
        }
    }
    assert!(responses > 10_000, "{responses}");
    // Each has sets that it accepts and sets that it refuses.
    assert!(accepted.iter().all(|count| (50..950).contains(count)), "{accepted:?}");
}

#[test]
fn what_one_of_them_accepts_misses_nothing() {
    let params = |set: &Set, _| with(&[("admission", "none"), priorities(set)]);
    none_accepted_misses(&sets(SETS), "g-rm", params, |set| set.accepted(1).contains(&true));
}
