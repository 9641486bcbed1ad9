//! PD2 is optimal on quanta that divide all times: where all of the cores is asked for nothing is
//! missed, released at once, with offsets or sporadically. On others it admits less, and of that
//! nothing is missed.

use maracas_tests::Dice;
use maracas_tests::rated::{Set, missed, sets, with};

/// Sets of sporadic tasks; what their first lines say of tests is not asked here.
const SETS: &str = include_str!("../data/global-edf.csv");

/// Tasks that ask for all of two to four cores, with periods that divide 60.
fn full(dice: &mut Dice) -> Set {
    let cores = dice.between(2, 4);
    let (mut left, mut tasks) = (60 * cores, Vec::new());
    while left > 0 {
        let t = if left < 60 { 60 } else { dice.pick(&[3, 4, 5, 6, 10, 12, 15, 20, 30, 60]) };
        let c = dice.between(1, t).min(left * t / 60).max(1);
        left -= c * 60 / t;
        tasks.push(vec![c, t, t]);
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

#[test]
fn full_cores_miss_nothing() {
    let mut dice = Dice::new(2001);
    for seed in 0..1_000 {
        let set = full(&mut dice);
        let system = &set.patterns(seed)[seed as usize % 3];
        // By default quanta are longer where none of more than a tick fits.
        let ran = missed("pd2", &with(&[("slot", "1ns")]), system, seed);
        let (missed, released) = ran.unwrap_or_else(|| panic!("set {seed} is refused: {set:?}"));
        assert_eq!(missed, 0, "set {seed}, of {released}: {set:?}");
    }
}

#[test]
fn what_is_admitted_in_quanta_that_do_not_fit_misses_nothing() {
    let (mut accepted, mut refused) = (0, 0);
    for (seed, set) in (0..).zip(sets(SETS)) {
        let quantum = ["2ns", "3ns", "5ns"][seed as usize / 3 % 3];
        let system = &set.patterns(seed)[seed as usize % 3];
        match missed("pd2", &with(&[("slot", quantum)]), system, seed) {
            None => refused += 1,
            Some((missed, _)) => {
                assert_eq!(missed, 0, "set {seed} in quanta of {quantum}");
                accepted += 1;
            }
        }
    }
    assert!(accepted > 100 && refused > 100, "{accepted} admitted, {refused} refused");
}
