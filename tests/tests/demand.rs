//! The exact test of EDF on one core: what it accepts misses nothing, however it is released, and
//! of what it refuses something is missed when all release at once.

use maracas_core::Arrival;
use maracas_tests::Dice;
use maracas_tests::rated::{Set, missed, policy, with};

/// Tasks with deadlines before the period's end and periods that divide 60, so that a run of twenty
/// longest periods sees all that can happen.
fn draw(dice: &mut Dice) -> Set {
    let task = |dice: &mut Dice| {
        let t = dice.pick(&[4, 5, 6, 10, 12, 15, 20]);
        let c = dice.between(1, t / 3 + 1);
        vec![c, dice.between(c, t), t]
    };
    let tasks = (0..dice.between(2, 5)).map(|_| task(dice)).collect();
    Set { cores: 1, columns: Vec::new(), tasks }
}

#[test]
fn qpa_accepts_what_misses_nothing_and_nothing_else() {
    let (mut dice, mut accepted, mut refused, mut denser) = (Dice::new(19), 0, 0, 0);
    for seed in 0..1_000 {
        let set = draw(&mut dice);
        let [at_once, shifted, sporadic] = set.patterns(seed);
        let says = |test| (policy("p-edf").admit)(&at_once, &with(&[("admission", test)]));
        if !says("qpa").accepted() {
            // On one core global EDF is EDF; it has no test unless asked.
            let runs = missed("g-edf", &with(&[]), &at_once, seed);
            assert!(runs.is_none_or(|(missed, _)| missed > 0), "set {seed}: {:?}", set.tasks);
            assert!(!says("density").accepted(), "set {seed}: {:?}", set.tasks);
            refused += u32::from(runs.is_some());
            continue;
        }
        for system in [&at_once, &shifted, &sporadic] {
            let ran = missed("p-edf", &with(&[("admission", "qpa")]), system, seed);
            let (missed, released) = ran.unwrap_or_else(|| panic!("set {seed} is accepted"));
            assert_eq!(missed, 0, "set {seed}, of {released}: {:?}", set.tasks);
        }
        accepted += 1;
        denser += u32::from(!says("density").accepted());
    }
    assert!(accepted > 200 && refused > 100 && denser > 50, "{accepted}, {refused}, {denser}");
}

/// Who comes late is a sporadic task of the greater set, but none comes after a leave.
#[test]
fn under_qpa_sets_grow_and_are_not_exchanged() {
    use maracas_core::contract::decide;
    use maracas_core::{Duration, Event, Instant, Plan, System, Vcpu, VcpuId};
    let ms = Duration::from_millis;
    let vcpu = |id| {
        let mut vcpu = Vcpu::new(id, ms(2), ms(20));
        (vcpu.reservation.deadline, vcpu.arrival) = (ms(2 + 2 * u64::from(id)), Arrival::Sporadic);
        vcpu
    };
    let system = System::new(1, vec![vcpu(0), vcpu(1)]);
    let built = (policy("p-edf").build)(&system, &with(&[("admission", "qpa")]));
    let (mut policy, mut plan) = (built.unwrap_or_else(|why| panic!("{why:?}")), Plan::new(1));
    let mut ask = |event| {
        policy.on_event(Instant::ZERO, &event);
        decide(&mut *policy, Instant::ZERO, &mut plan);
        plan.verdicts().first().map(|(_, verdict)| verdict.clone())
    };
    // The densities are 1, 1/2, 1/3.
    assert!(ask(Event::Arrived(vcpu(2))).is_some_and(|verdict| verdict.is_ok()));
    assert!(ask(Event::Changed(vcpu(2))).is_some_and(|verdict| verdict.is_err()));
    assert_eq!(ask(Event::Left(VcpuId(0))), None);
    let refused = ask(Event::Arrived(vcpu(3))).expect("an answer").expect_err("none may come");
    assert!(refused.reason.contains("after a leave"), "{}", refused.reason);
}
