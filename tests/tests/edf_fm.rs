//! EDF-fm: it takes all that the cores are enough for where no task needs more than half of one; no
//! job is later than the verdict says, and those of tasks that migrate are not late at all.

use maracas_core::Duration;
use maracas_tests::Dice;
use maracas_tests::rated::{Late, Set, missed, policy, tardiness, watched, with};

/// Tasks of up to half a core each, which fill cores badly, that ask for nearly all of two to four.
fn draw(dice: &mut Dice) -> Set {
    let cores = dice.between(2, 4);
    let (mut left, mut tasks) = (cores * dice.between(90, 100), Vec::new());
    while left > 0 {
        let percent = dice.between(30, 48).min(left);
        let t = dice.pick(&[20, 24, 30, 40, 50, 60, 100]);
        // Rounded down, so that the cores are enough.
        let c = t * percent / 100;
        left -= percent;
        if c > 0 {
            tasks.push(vec![c, t, t]);
        }
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

#[test]
fn no_job_is_later_than_its_bound() {
    let (mut dice, mut divided, mut late_sets, mut halves) = (Dice::new(2005), 0, 0, 0);
    for seed in 0..1_000 {
        let set = draw(&mut dice);
        let verdict = (policy("edf-fm").admit)(&set.patterns(seed)[0], &with(&[]));
        assert!(verdict.accepted(), "set {seed}: {}", verdict.why());
        let bounds: Vec<_> = verdict.cores.iter().filter_map(tardiness).flatten().collect();
        divided += u32::from(bounds.len() > set.tasks.len());
        for system in &set.patterns(seed) {
            let mut late = Late::default();
            watched("edf-fm", &with(&[]), system, seed, &mut late).expect("it is accepted");
            for (vcpu, bound) in &bounds {
                let most = late.most(*vcpu);
                assert!(most <= *bound, "set {seed}, {vcpu}: {most} above {bound}: {set:?}");
                halves += u32::from(most * 3 > *bound && *bound > Duration::ZERO);
            }
            late_sets += u32::from(late.any());
        }
    }
    // Sets are late, and the bounds are no more than three times what some of their tasks show.
    let seen = (divided, late_sets, halves);
    assert!(divided > 300 && late_sets > 100 && halves > 5, "{seen:?}");
}

/// What has a packing is partitioned EDF: nothing is late, whatever U is of one task.
#[test]
fn what_has_a_packing_is_not_late() {
    let (mut dice, mut packed) = (Dice::new(1979), 0);
    for seed in 0..300 {
        let set = draw(&mut dice);
        let system = &set.patterns(seed)[seed as usize % 3];
        if (policy("p-edf").admit)(system, &with(&[])).accepted() {
            assert_eq!(
                missed("edf-fm", &with(&[]), system, seed).map(|(missed, _)| missed),
                Some(0)
            );
            packed += 1;
        }
    }
    assert!(packed > 5, "{packed}");
}
