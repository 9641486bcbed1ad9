//! Every schedulability test of every policy of jobs: what it admits leaves nothing undone at its
//! deadline under the simulator, placed as that very test placed it, released at once, with
//! offsets, sporadically, or some so and some so.
//!
//! Optimized (`cargo test --release`, as CI runs it) it is 1000 sets a test.

use maracas_core::params::{Kind, Params, Value};
use maracas_core::{Arrival, Duration, Instant, System};
use maracas_tests::Dice;
use maracas_tests::lateness::Lateness;
use maracas_tests::rated::{Set, missed, policy, watched, with};

const SETS: u64 = if cfg!(debug_assertions) { 200 } else { 1_000 };

/// Policies that promise that nothing is missed, with the words of their tests; of one word where
/// there is no choice. `maracas` and the policies of uneven cores promise budgets
/// (`tests/tests/contract.rs`), EDF-fm that jobs are late by so much at most
/// (`tests/tests/edf_fm.rs`).
const TESTS: [(&str, &[&str]); 13] = [
    ("p-edf", &["density", "qpa"]),
    ("p-rm", &["ll", "hyperbolic", "rta"]),
    ("g-edf", &["gfb", "bak", "bcl", "ff-dbf", "rta"]),
    ("g-rm", &["bcl", "rta", "rta-lc"]),
    ("c-edf", &["gfb", "bak", "bcl", "ff-dbf", "rta"]),
    ("edf-wm", &[ONLY]),
    ("c-d", &[ONLY]),
    ("sp-res", &[ONLY]),
    ("pd2", &[ONLY]),
    ("run", &[ONLY]),
    ("qps", &[ONLY]),
    ("dp-wrap", &[ONLY]),
    ("u-edf", &[ONLY]),
];
/// The only test of a policy.
const ONLY: &str = "";

/// Light tasks and heavy ones that ask for a third of two to four cores or for all of them, half of
/// the sets with some deadlines before the period's end. Periods have thousands of ticks: what
/// U-EDF rounds is then made up for.
fn draw(dice: &mut Dice) -> Set {
    let cores = dice.between(2, 4);
    let (mut left, early) = (cores * dice.between(30, 100), dice.one_in(2));
    let mut tasks = Vec::new();
    while left > 0 {
        let heavy = dice.one_in(3);
        let percent = if heavy { dice.between(50, 95) } else { dice.between(2, 50) }.min(left);
        let t = dice.pick(&[10, 12, 15, 20, 30, 40, 60]) * 1_000;
        let d = if early && dice.one_in(3) { dice.between(t / 2, t) } else { t };
        // Rounded down, so that the cores are enough.
        let c = d * percent / 100;
        left -= percent;
        if c > 0 {
            tasks.push(vec![c, d, t]);
        }
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

/// The test, and by turns every other choice that the policy leaves.
fn params(name: &str, test: &str, set: &Set, seed: u64) -> Params {
    let mut params = if test == ONLY { with(&[]) } else { with(&[("admission", test)]) };
    for spec in policy(name).params {
        match (spec.name, spec.kind) {
            ("packing" | "ties" | "priorities", Kind::Choice(words)) => {
                let word = words[seed as usize % words.len()];
                params.set(spec.name, Value::Text(word.into()));
            }
            ("cores_per_cache", _) => {
                params.set(spec.name, Value::Whole(1 + seed as i64 % set.cores as i64));
            }
            _ => {}
        }
    }
    params
}

/// Periodic releases with offsets, of four kinds by turns: anywhere within the period; so that all
/// release together once, with earlier jobs under way; nearly together; so that all are due
/// together once.
fn shifted(set: &Set, seed: u64) -> System {
    let mut dice = Dice::new(seed);
    let mut shifted = set.system(|_| Arrival::Periodic { offset: Duration::ZERO });
    let periods = shifted.vcpus.iter().map(|vcpu| vcpu.reservation.period.ticks());
    let once = dice.between(0, 2 * periods.max().unwrap_or(0));
    for vcpu in &mut shifted.vcpus {
        let r = vcpu.reservation;
        let [c, d, t] = [r.budget, r.deadline, r.period].map(Duration::ticks);
        let offset = match seed % 4 {
            0 => dice.between(0, t),
            1 => once % t,
            2 => dice.between(0, c),
            _ => (once + t - d) % t,
        };
        vcpu.arrival = Arrival::Periodic { offset: Duration::from_ticks(offset) };
    }
    shifted
}

/// At once, with offsets, sporadically, and some tasks with offsets and some sporadic.
fn patterns(set: &Set, seed: u64) -> [System; 4] {
    let [at_once, _, sporadic] = set.patterns(seed);
    let shifted = shifted(set, seed);
    let mut mixed = shifted.clone();
    let others = mixed.vcpus.iter_mut().skip(seed as usize % 2).step_by(2);
    others.for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
    [at_once, shifted, sporadic, mixed]
}

/// What of a job is undone at its deadline at most; nothing where the policy refuses the set.
fn undone(name: &str, params: &Params, system: &System, seed: u64) -> Option<Duration> {
    let mut lateness = Lateness::default();
    watched(name, params, system, seed, &mut lateness)?;
    Some(lateness.worst(Instant::NEVER).map_or(Duration::ZERO, |it| it.undone))
}

/// Holds the tests of a policy to what they say; fails with the set.
fn sound(name: &str) {
    let own = TESTS.iter().find(|(policy, _)| *policy == name).expect("it is among them");
    for test in own.1 {
        let (mut dice, mut admitted) = (Dice::new(2003), 0);
        for seed in 0..SETS {
            let set = draw(&mut dice);
            let params = params(name, test, &set, seed);
            let mut taken = false;
            for system in patterns(&set, seed) {
                let Some(undone) = undone(name, &params, &system, seed) else { continue };
                let tolerance = (policy(name).admit)(&system, &params).tolerance;
                assert!(
                    undone <= tolerance,
                    "{name} {test}, set {seed}: {undone}, {params:?} {system:?}"
                );
                taken = true;
            }
            admitted += u64::from(taken);
        }
        assert!(admitted > SETS / 50, "{name} {test}: {admitted} sets say nothing");
    }
}

/// Every choice of every policy of jobs stands in [`TESTS`], so that a new test is held to this.
#[test]
fn every_test_is_asked() {
    for entry in maracas_policies::ENTRIES.iter().filter(|entry| entry.needs.jobs) {
        if entry.name == "edf-fm" {
            continue;
        }
        let own = TESTS.iter().find(|(policy, _)| *policy == entry.name);
        let (_, words) = own.unwrap_or_else(|| panic!("{} is not asked", entry.name));
        let choice = entry.params.iter().find(|spec| spec.name == "admission");
        let Some(Kind::Choice(all)) = choice.map(|spec| spec.kind) else { continue };
        let asked = |word: &&str| *word == "none" || words.contains(word);
        assert!(all.iter().all(asked), "{}: {all:?}", entry.name);
    }
}

/// The same sets show what is late where no test is asked: else nothing could be seen.
#[test]
fn without_a_test_sets_are_late() {
    for name in ["g-edf", "g-rm", "p-rm", "c-edf"] {
        let (mut dice, mut late) = (Dice::new(2003), 0);
        for seed in 0..SETS {
            let set = draw(&mut dice);
            let params = params(name, "none", &set, seed);
            let ran = missed(name, &params, &patterns(&set, seed)[seed as usize % 4], seed);
            late += u64::from(ran.is_some_and(|(missed, _)| missed > 0));
        }
        assert!(late > SETS / 20, "{name}: {late} late");
    }
}

/// A test that forgets the densest task of a set admits what is late, and the same sets in the same
/// patterns show it, whichever test that is.
#[test]
fn a_test_that_forgets_a_task_is_found_out() {
    for name in ["g-edf", "g-rm", "p-rm", "c-edf"] {
        let own = TESTS.iter().find(|(policy, _)| *policy == name).expect("it is among them");
        for test in own.1 {
            let mut dice = Dice::new(2003);
            // It ends with the first.
            let found = (0..1_000).any(|seed| {
                let set = draw(&mut dice);
                let mut known = set.clone();
                let density = |task: &Vec<u64>| task[0] * 1_000_000 / task[1];
                known.tasks.sort_by_key(density);
                known.tasks.pop();
                let asked = params(name, test, &set, seed);
                let judged = known.system(|_| Arrival::Sporadic);
                let unasked = params(name, "none", &set, seed);
                (policy(name).admit)(&judged, &asked).accepted()
                    && patterns(&set, seed)
                        .iter()
                        .filter_map(|system| undone(name, &unasked, system, seed))
                        .any(|undone| undone > Duration::ZERO)
            });
            assert!(found, "{name}: {test} without a task");
        }
    }
}

#[test]
fn p_edf_is_sound() {
    sound("p-edf");
}

#[test]
fn p_rm_is_sound() {
    sound("p-rm");
}

#[test]
fn g_edf_is_sound() {
    sound("g-edf");
}

#[test]
fn g_rm_is_sound() {
    sound("g-rm");
}

#[test]
fn c_edf_is_sound() {
    sound("c-edf");
}

#[test]
fn split_tasks_are_in_time() {
    sound("edf-wm");
    sound("c-d");
    sound("sp-res");
}

#[test]
fn fluid_policies_are_sound() {
    sound("pd2");
    sound("dp-wrap");
    sound("u-edf");
}

#[test]
fn run_is_sound() {
    sound("run");
}

#[test]
fn qps_is_sound() {
    sound("qps");
}
