//! DP-WRAP and RUN, whose papers prove them for periodic tasks: what they admit misses nothing
//! under the simulator, released periodically, with offsets or sporadically, alone or mixed; under
//! DP-WRAP up to the ticks that its verdict tolerates.

use maracas_core::{Arrival, Duration, Instant};
use maracas_tests::Dice;
use maracas_tests::lateness::Lateness;
use maracas_tests::rated::{Set, missed, policy, watched, with};

/// Tasks that ask for up to so many hundredths of the cores, a few of them with deadlines before
/// the period's end. A step of the periods is `unit` ticks.
fn draw(dice: &mut Dice, load: (u64, u64), unit: u64, early: bool) -> Set {
    let cores = dice.between(2, 4);
    let (mut left, mut tasks) = (cores * dice.between(load.0, load.1), Vec::new());
    while left > 0 {
        let percent = dice.between(5, 100).min(left);
        let t = dice.pick(&[10, 12, 15, 20, 30, 40, 60]) * unit;
        let d = if early && dice.one_in(4) { dice.between(t / 2, t) } else { t };
        // Rounded down, so that the cores are enough.
        let c = d * percent / 100;
        left -= percent;
        if c > 0 {
            tasks.push(vec![c, d, t]);
        }
    }
    Set { cores: cores as usize, columns: Vec::new(), tasks }
}

/// Runs the set under every pattern of releases, and one in which some tasks are periodic; whether
/// all of them were admitted.
fn none_misses(name: &str, set: &Set, seed: u64) -> bool {
    let [at_once, shifted, sporadic] = set.patterns(seed);
    let mut mixed = shifted.clone();
    let others = mixed.vcpus.iter_mut().skip(seed as usize % 2).step_by(2);
    others.for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
    [at_once, shifted, sporadic, mixed].iter().all(|system| {
        let ran = missed(name, &with(&[]), system, seed);
        let (missed, released) = ran.unwrap_or((0, 0));
        assert_eq!(missed, 0, "{name}, set {seed}, of {released} jobs: {:?}", system.vcpus);
        ran.is_some()
    })
}

#[test]
fn under_dp_wrap_nothing_misses() {
    let mut dice = Dice::new(2010);
    for seed in 0..1_000 {
        let unit = dice.pick(&[1, 7, 1_000]);
        let set = draw(&mut dice, (80, 100), unit, true);
        assert!(none_misses("dp-wrap", &set, seed), "set {seed} is refused: {set:?}");
    }
}

/// Many light periodic tasks, whose chunks are rounded up, and some heavy ones that wait, as their
/// deadlines are early, and come together some ticks after a slice began, in periods of few ticks:
/// rounding is most to be felt there. As much of a job is undone as is tolerated.
#[test]
fn dp_wrap_keeps_to_its_tolerance_where_ticks_are_coarse() {
    let (mut dice, mut late) = (Dice::new(7), 0);
    for seed in 0..3_000 {
        let cores = dice.between(2, 4);
        let (mut left, mut tasks) = (1_000 * cores, Vec::new());
        for _ in 0..dice.between(8, 20) {
            let t = dice.between(7, 30);
            left -= 1_000 / t + 1;
            tasks.push(vec![1, t, t]);
        }
        while left >= 300 {
            let d = dice.between(5, 14);
            let c = (d * left.min(dice.between(500, 1_000)) / 1_000).min(d);
            left -= (c * 1_000).div_ceil(d);
            tasks.push(vec![c, d, d + dice.between(1, 4)]);
        }
        tasks.retain(|task| task[0] > 0);
        let set = Set { cores: cores as usize, columns: Vec::new(), tasks };
        let (mut system, comes) = (set.system(|_| Arrival::Sporadic), dice.between(1, 5));
        for vcpu in &mut system.vcpus {
            let waits = vcpu.reservation.deadline < vcpu.reservation.period;
            let offset = Duration::from_ticks(if waits { comes } else { 0 });
            vcpu.arrival = Arrival::Periodic { offset };
        }
        let mut lateness = Lateness::default();
        let ran = watched("dp-wrap", &with(&[]), &system, seed, &mut lateness);
        let verdict = (policy("dp-wrap").admit)(&system, &with(&[]));
        let (missed, _) = ran.unwrap_or_else(|| panic!("set {seed}: {verdict:?}"));
        let undone = lateness.worst(Instant::NEVER).map_or(Duration::ZERO, |it| it.undone);
        assert!(undone <= verdict.tolerance, "set {seed}: {undone} in {:?}", system.vcpus);
        late += missed;
    }
    assert!(late > 0, "no rounding was felt");
}

#[test]
fn under_run_nothing_misses() {
    let (mut dice, mut accepted) = (Dice::new(2014), 0);
    for seed in 0..1_000 {
        let unit = dice.pick(&[10, 100, 1_000]);
        let set = draw(&mut dice, (60, 97), unit, false);
        accepted += u64::from(none_misses("run", &set, seed));
    }
    assert!((600..1_000).contains(&accepted), "{accepted} admitted");
}

/// What releases are known of before makes no difference to what is admitted under DP-WRAP; RUN
/// pays for windows, where no task has a core to itself.
#[test]
fn full_cores_are_left_to_dp_wrap() {
    let tasks = vec![vec![2_000_000, 3_000_000, 3_000_000]; 3];
    let set = Set { cores: 2, columns: Vec::new(), tasks };
    let sporadic = set.system(|_| Arrival::Sporadic);
    assert_eq!(missed("dp-wrap", &with(&[]), &sporadic, 1).map(|(missed, _)| missed), Some(0));
    assert_eq!(missed("run", &with(&[]), &sporadic, 1), None);
    let mut lighter = sporadic;
    for vcpu in &mut lighter.vcpus {
        vcpu.reservation.budget = Duration::from_ticks(1_990_000);
    }
    assert_eq!(missed("run", &with(&[]), &lighter, 1).map(|(missed, _)| missed), Some(0));
}
