//! Semi-partitioned EDF: what it admits misses nothing under the simulator, released periodically,
//! with offsets or sporadically; and it admits sets that fit on no core whole.

use maracas_tests::Dice;
use maracas_tests::rated::{Set, missed, policy, with};

/// Tasks of a third to four fifths of a core, which fill cores badly, with deadlines at the
/// period's end or before it, and lighter ones, up to about as much as the cores can do.
fn draw(dice: &mut Dice) -> Set {
    let cores = dice.between(2, 4);
    let mut left = cores * dice.between(80, 100);
    let mut tasks = Vec::new();
    while left > 5 {
        let percent = if dice.one_in(3) { dice.between(5, 30) } else { dice.between(34, 80) };
        let percent = percent.min(left);
        let t = dice.pick(&[20, 24, 30, 40, 60, 100, 120]);
        let c = (t * percent / 100).max(1);
        let d = if dice.one_in(4) { dice.between(c, t) } else { t };
        tasks.push(vec![c, d, t]);
        left -= percent;
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

/// Runs a thousand sets under the policy; how many were admitted, and of those how many that have
/// no packing.
fn none_misses(name: &str) -> (u32, u32) {
    let (mut dice, mut accepted, mut split) = (Dice::new(2012), 0, 0);
    for seed in 0..1_000 {
        let set = draw(&mut dice);
        let mut ran = false;
        for system in &set.patterns(seed) {
            let Some((missed, released)) = missed(name, &with(&[]), system, seed) else { break };
            assert_eq!(missed, 0, "{name}, set {seed}, of {released} jobs: {set:?}");
            ran = true;
        }
        let packed = (policy("p-edf").admit)(&set.patterns(0)[0], &with(&[("admission", "qpa")]));
        // What has a packing by first fit is not split.
        assert!(ran || !packed.accepted(), "{name}, set {seed}: {set:?}");
        accepted += u32::from(ran);
        split += u32::from(ran && !packed.accepted());
    }
    (accepted, split)
}

#[test]
fn under_edf_wm_nothing_misses() {
    let (accepted, split) = none_misses("edf-wm");
    assert!(accepted < 1_000 && split > 100, "{accepted} admitted, {split} of them split");
}

#[test]
fn under_c_d_nothing_misses() {
    let (accepted, split) = none_misses("c-d");
    assert!(accepted < 1_000 && split > 100, "{accepted} admitted, {split} of them split");
}

#[test]
fn under_sp_res_nothing_misses() {
    let (accepted, split) = none_misses("sp-res");
    let (by_c_d, _) = none_misses("c-d");
    assert!(accepted < 1_000 && split > 100, "{accepted} admitted, {split} of them split");
    // What shortened periods are for.
    assert!(accepted > by_c_d, "{accepted} admitted, by C=D alone {by_c_d}");
}
