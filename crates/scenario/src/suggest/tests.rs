use super::*;
use maracas_core::{Rate, Vcpu};
use std::cell::Cell;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Accepts where every core's pinned load, and the load of all, is at most `bound` of a core: as
/// if VCPUs without a pin could be split.
fn within(bound: Rate) -> impl Fn(&System) -> bool {
    move |system: &System| {
        let load = |vcpus: &mut dyn Iterator<Item = &Vcpu>| -> u64 {
            vcpus.map(|vcpu| vcpu.reservation.utilization().ppb_up()).sum()
        };
        let pinned_fit = system.core_ids().all(|core| {
            load(&mut system.vcpus.iter().filter(|vcpu| vcpu.pinned == Some(core)))
                <= bound.ppb_up()
        });
        pinned_fit && load(&mut system.vcpus.iter()) <= bound.ppb_up() * system.cores.len() as u64
    }
}

#[test]
fn the_smallest_change_comes_first_and_each_is_admitted() {
    let system = System::new(1, vec![Vcpu::new(0, ms(4), ms(10)), Vcpu::new(1, ms(5), ms(10))]);
    let admits = within(Rate::new(713, 1000));
    let changes = changes(&system, &admits);
    let shown: Vec<_> = changes.iter().map(Change::to_string).collect();
    assert_eq!(
        shown,
        [
            "vcpu1: lower budget from 5ms to 3.13ms (37 % less)",
            "vcpu0: lower budget from 4ms to 2.13ms (47 % less)",
            "vcpu1: raise period from 10ms to 16ms (60 % more)",
            "vcpu0: raise period from 10ms to 18.8ms (88 % more)",
            "raise cores from 1 to 2 (100 % more)",
        ]
    );
    for change in changes {
        assert!(admits(&change.apply(&system)), "{change}");
    }
}

#[test]
fn values_are_rounded_to_three_digits_to_the_safe_side() {
    let system = System::new(1, vec![Vcpu::new(0, ms(10), ms(10))]);
    let shown = |num, den| -> Vec<String> {
        changes(&system, &within(Rate::new(num, den))).iter().map(Change::to_string).collect()
    };
    let thirds = shown(1, 3);
    assert_eq!(thirds[0], "vcpu0: lower budget from 10ms to 3.33ms (67 % less)");
    assert_eq!(thirds[1], "vcpu0: raise period from 10ms to 30ms (200 % more)");
    // A twentieth would need more than a tenfold change of the VCPU itself.
    assert_eq!(shown(1, 20), ["raise cores from 1 to 20 (1900 % more)"]);
    assert_eq!(shown(77, 100)[0], "vcpu0: lower budget from 10ms to 7.7ms (23 % less)");
}

#[test]
fn a_pin_in_the_way_is_named_first_with_its_place() {
    let text = "version = 1\n[platform]\ncores = 2\n\
                [[vcpu]]\nname = \"a\"\nbudget = \"6ms\"\nperiod = \"10ms\"\ncore = 0\n\
                [[vcpu]]\nname = \"b\"\nbudget = \"6ms\"\nperiod = \"10ms\"\ncore = 0\n";
    let scenario = Scenario::parse(text, "pins.toml").unwrap();
    let system = scenario.system(2).unwrap();
    let changes = changes(&system, &within(Rate::ONE));
    let shown: Vec<_> = changes.iter().map(|change| scenario.describe(change)).collect();
    assert_eq!(
        shown,
        [
            "a: remove the pin core = 0 at pins.toml:8",
            "b: remove the pin core = 0 at pins.toml:13",
            "a: lower budget from 6ms to 4ms (33 % less) at pins.toml:6",
            "b: lower budget from 6ms to 4ms (33 % less) at pins.toml:11",
            "a: raise period from 10ms to 15ms (50 % more) at pins.toml:7",
            "b: raise period from 10ms to 15ms (50 % more) at pins.toml:12",
        ]
    );
    let cores = Change::Cores { from: 2, to: 3 };
    let sentence = "platform: raise cores from 2 to 3 (50 % more) at pins.toml:3";
    assert_eq!(scenario.describe(&cores), sentence);
}

#[test]
fn an_explicit_deadline_stays_when_the_period_grows() {
    let mut system = System::new(1, vec![Vcpu::new(7, ms(6), ms(10))]);
    let raise = Change::Period { vcpu: VcpuId(7), from: ms(10), to: ms(20) };
    assert_eq!(raise.apply(&system).vcpus[0].reservation.deadline, ms(20));
    system.vcpus[0].reservation.deadline = ms(9);
    assert_eq!(raise.apply(&system).vcpus[0].reservation.deadline, ms(9));
}

#[test]
fn where_no_single_change_helps_all_budgets_shrink() {
    // Four VCPUs of 0.8 pinned to each of two cores: no single one of them is to blame.
    let pinned = |id: u32| {
        let mut vcpu = Vcpu::new(id, ms(8), ms(10));
        vcpu.pinned = Some(CoreId((id / 4) as u16));
        vcpu
    };
    let system = System::new(2, (0..8).map(pinned).collect());
    let found = changes(&system, &within(Rate::ONE));
    assert_eq!(found, [Change::AllBudgets { permille: 312 }]);
    assert_eq!(found[0].to_string(), "every VCPU: lower the budget to 31.2 % of itself");
}

#[test]
fn nothing_is_said_of_an_admitted_or_a_hopeless_system() {
    let system = System::new(1, vec![Vcpu::new(0, ms(1), ms(10))]);
    assert_eq!(changes(&system, &|_| true), []);
    assert_eq!(changes(&system, &|_| false), []);
}

#[test]
fn the_search_asks_a_few_hundred_times_at_most() {
    let vcpus = (0..20).map(|id| Vcpu::new(id, ms(9), ms(10))).collect();
    let system = System::new(4, vcpus);
    let asked = Cell::new(0);
    let admits = within(Rate::ONE);
    let counted = |system: &System| {
        asked.set(asked.get() + 1);
        admits(system)
    };
    let found = changes(&system, &counted);
    assert_eq!(found[0], Change::Cores { from: 4, to: 18 });
    assert!(asked.get() < 20 * 80, "{} questions", asked.get());
}

#[test]
fn what_is_promised_nothing_and_cores_of_classes_are_left_alone() {
    let vcpus =
        vec![Vcpu::new(0, ms(4), ms(10)), Vcpu::best_effort(1), Vcpu::new(2, ms(3), ms(10))];
    let system = System::new(2, vcpus).uneven(&[(1, 1000), (1, 500)]);
    // Neither the unpromised VCPU nor a third core may be named, though both would help.
    let budgets = |system: &System| {
        let sum: u64 = system.vcpus.iter().map(|vcpu| vcpu.reservation.budget.ticks()).sum();
        (sum, system.vcpus[1].reservation)
    };
    let unpromised = Vcpu::best_effort(1).reservation;
    let admits = |most: Duration| {
        move |system: &System| {
            let (sum, second) = budgets(system);
            assert_eq!(second, unpromised);
            sum <= most.ticks() || system.cores.len() > 2
        }
    };
    let found = changes(&system, &admits(ms(6)));
    let shown: Vec<_> = found.iter().map(Change::to_string).collect();
    assert_eq!(
        shown,
        [
            "vcpu0: lower budget from 4ms to 3ms (25 % less)",
            "vcpu2: lower budget from 3ms to 2ms (33 % less)",
        ]
    );
    let found = changes(&system, &admits(Duration::from_micros(70)));
    assert_eq!(found, [Change::AllBudgets { permille: 10 }]);
}
