//! The schedulability tests of global EDF: they say what another implementation says of a thousand
//! sets, and whatever one of them accepts misses nothing under the simulator, released
//! periodically, with offsets or sporadically, whichever of equal deadlines goes first. Where none
//! accepts, no job is later than the verdict says.

use maracas_core::Arrival;
use maracas_tests::Dice;
use maracas_tests::rated::{
    Late, Set, none_accepted_misses, policy, sets, tardiness, watched, with,
};

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

/// More than four fifths of two to four cores, in tasks of up to all of one, some with deadlines
/// before the period's end.
fn draw(dice: &mut Dice) -> Set {
    let cores = dice.between(2, 4);
    let (mut left, mut tasks) = (cores * dice.between(80, 100), Vec::new());
    while left > 0 {
        let percent = dice.between(10, 100).min(left);
        let t = dice.pick(&[10, 12, 15, 20, 30, 40, 60]);
        // Rounded down, so that the cores are enough.
        let c = t * percent / 100;
        left -= percent;
        if c > 0 {
            let d = if dice.one_in(4) { dice.between(c, t) } else { t };
            tasks.push(vec![c, d, t]);
        }
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

#[test]
fn no_job_is_later_than_its_bound() {
    let (mut dice, mut bounded, mut late_sets, mut halves) = (Dice::new(38), 0, 0, 0);
    let params = with(&[("ties", "longer-period")]);
    for seed in 0..1_000 {
        let set = draw(&mut dice);
        for system in &set.patterns(seed) {
            let verdict = (policy("g-edf").admit)(system, &params);
            assert!(verdict.accepted(), "set {seed}: {}", verdict.why());
            let Some(bounds) = tardiness(&verdict.cores[0]) else { continue };
            assert_eq!(bounds.len(), set.tasks.len());
            let mut late = Late::default();
            watched("g-edf", &params, system, seed, &mut late).expect("it is accepted");
            for (vcpu, bound) in bounds {
                let most = late.most(*vcpu);
                assert!(most <= *bound, "set {seed}, {vcpu}: {most} above {bound}: {set:?}");
                halves += u32::from(most * 2 > *bound);
            }
            bounded += 1;
            late_sets += u32::from(late.any());
        }
    }
    // Sets are late, and the bounds are no more than twice what some of their tasks show.
    let seen = (bounded, late_sets, halves);
    assert!(bounded > 1_000 && late_sets > 500 && halves > 5, "{seen:?}");
}
