//! The scheduler on small systems, tick by tick: what changes places when, guarantees on both
//! classes, wakes, arrivals. Invariants on random systems: `tests/random.rs`.

mod random;

use super::shares::{Places, Speedup};
use super::{acfs, max_fair, max_perf, min_fair};
use crate::testing::{Machine, Manners, Rng, with};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::contract::{End, Entry, Mode, Segment, Usage, decide};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Rate, System, Vcpu, VcpuId};

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}
/// A slow core has 6/10 of the speed of a fast one.
fn system(fast: usize, slow: usize, vcpus: Vec<Vcpu>) -> System {
    System::new(fast + slow, vcpus).uneven(&[(fast, 1000), (slow, 600)])
}
fn hogs(n: u32) -> Vec<Vcpu> {
    (0..n).map(Vcpu::best_effort).collect()
}
/// A machine with perfect manners on which every thread is awake.
fn awake(entry: &Entry, params: &[(&str, &str)], system: &System) -> Machine {
    let mut machine = Machine::new(entry, &with(params), system, Manners::PERFECT);
    (0..system.vcpus.len() as u32).for_each(|vcpu| machine.wake(vcpu));
    machine
}
fn run(machine: &mut Machine, ticks: u64) {
    (0..ticks).for_each(|_| machine.tick());
}
/// Ticks that `vcpu` ran on `cores` since `from`, in `mode` where one is given.
fn ran(machine: &Machine, vcpu: u32, cores: &[usize], from: usize, mode: Option<Mode>) -> u64 {
    let rows = machine.trace[from..].iter();
    let slots = rows.flat_map(|row| cores.iter().filter_map(|core| row[*core]));
    let counts = |(id, how): &(u32, Mode)| *id == vcpu && mode.is_none_or(|mode| mode == *how);
    slots.filter(counts).count() as u64
}
fn statistic(machine: &Machine, name: &str, vcpu: Option<u32>) -> Option<u64> {
    let statistics = machine.policy.statistics();
    let found = statistics.iter().find(|it| it.name == name && it.vcpu == vcpu.map(VcpuId));
    found.map(|statistic| statistic.value)
}

const ROUND: [(&str, &str); 2] = [("round", "10ns"), ("update", "400ns")];

/// f = 1/2. They change places where their leads differ by 2/5 to 4/5 of a round of 10 ticks, a
/// part that changes each time: a segment is as long as it takes from the one part to the other.
#[test]
fn two_threads_change_places_when_their_leads_differ() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 1, hogs(2)));
    run(&mut machine, 1000);
    let (fast, slow) = (machine.schedule(0), machine.schedule(1));
    assert!(fast.starts_with("AAAAB") && slow.starts_with("BBBBA"), "{fast}");
    let mut segments: Vec<usize> = fast.split('A').map(str::len).filter(|ran| *ran > 0).collect();
    segments.extend(fast.split('B').map(str::len).filter(|ran| *ran > 0));
    assert!(segments.iter().all(|ran| (4..=16).contains(ran)), "{fast}");
    assert!((1..1000).all(|now| {
        let a = fast[..now].matches('A').count();
        (2 * a).abs_diff(now) <= 8
    }));
    assert_eq!(statistic(&machine, "swaps", None), Some(segments.len() as u64 - 1));
    assert_eq!(statistic(&machine, "fast share ppm", Some(1)), Some(500_000));
}

/// Three threads on one fast and one slow core: a third of each class for each, and one
/// waits.
#[test]
fn what_waits_takes_turns_with_what_is_ahead() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 1, hogs(3)));
    run(&mut machine, 600);
    for vcpu in 0..3 {
        for core in [0, 1] {
            let ran = ran(&machine, vcpu, &[core], 0, None);
            assert!(ran.abs_diff(200) <= 10, "vcpu{vcpu} ran {ran} of 600 on core{core}");
        }
    }
    assert!((0..2).all(|core| !machine.schedule(core).contains('.')));
}

/// The vector of algorithms.md E.2 with speedups that the user knows: f = 1, 29/30, 1/30, 0, 0, 0.
/// A thread that has all or nothing of the fast cores never moves.
#[test]
fn shares_of_all_and_nothing_cost_no_migration() {
    let mut vcpus = hogs(6);
    for (vcpu, speedup) in vcpus.iter_mut().zip([2000, 1900, 1600, 1500, 1200, 1100]) {
        vcpu.speedup_milli = NonZero::new(speedup);
    }
    let params = [("round", "30ns"), ("update", "2us")];
    let mut machine = awake(&min_fair::ENTRY, &params, &system(2, 4, vcpus));
    run(&mut machine, 6000);
    let fast: Vec<u64> = (0..6).map(|id| ran(&machine, id, &[0, 1], 0, None)).collect();
    assert_eq!(fast[0], 6000);
    assert!(fast[1].abs_diff(5800) <= 30 && fast[2].abs_diff(200) <= 30, "{fast:?}");
    assert_eq!(fast[3..], [0, 0, 0]);
    // A segment of 12 to 24 ticks for the third, every so many / (1/30) ticks.
    let swaps = statistic(&machine, "swaps", None).unwrap();
    assert!((14..=34).contains(&swaps), "{swaps}");
}

/// Weights of 1, 2 and 4 on one fast and one slow core, between which speeds fall by 1.6: all do
/// 1625 thousandths of a fast core together, of which each has so many sevenths.
#[test]
fn progress_is_kept_in_proportion_to_weights() {
    let mut vcpus = hogs(3);
    for (vcpu, weight) in vcpus.iter_mut().zip([1, 2, 4]) {
        (vcpu.weight, vcpu.speedup_milli) = (weight, NonZero::new(1600));
    }
    let progress = |params: &[(&str, &str)]| {
        let params: Vec<_> = ROUND.iter().chain(params).copied().collect();
        let mut machine = awake(&acfs::ENTRY, &params, &system(1, 1, vcpus.clone()));
        run(&mut machine, 14_000);
        let done = |vcpu| {
            let [fast, slow] = [0, 1].map(|core| ran(&machine, vcpu, &[core], 0, None));
            fast * 1600 + slow * 1000
        };
        [done(0), done(1), done(2)]
    };
    let all = 14_000 * 2600;
    // Within a round of ten ticks on either class.
    let near = |done: u64, due: u64| done.abs_diff(due) <= 10 * 2600;
    let [one, two, four] = progress(&[]);
    assert!(near(one, all / 7) && near(two, all / 7 * 2) && near(four, all / 7 * 4));
    // MinFairness and Uniformity of what each does by its weight.
    let rates = [one, two / 2, four / 4].map(u128::from);
    let mean = rates.iter().sum::<u128>() / 3;
    let deviation = (rates.iter().map(|rate| rate.abs_diff(mean).pow(2)).sum::<u128>() / 3).isqrt();
    assert!(rates.iter().all(|rate| 1000 * rate >= 990 * mean), "{rates:?}");
    assert!(1000 * deviation <= 10 * mean, "{rates:?}");
    assert!(progress(&[("progress", "equal")]).iter().all(|done| near(*done, all / 3)));
}

/// Fewer threads than cores: two fast cores and one slow one are used, the latter in turns.
#[test]
fn fewer_threads_than_cores_share_the_fast_ones() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(2, 3, hogs(3)));
    run(&mut machine, 300);
    for vcpu in 0..3 {
        let fast = ran(&machine, vcpu, &[0, 1], 0, None);
        assert!(fast.abs_diff(200) <= 10, "vcpu{vcpu} ran {fast} of 300 on fast cores");
    }
    let mut alone = awake(&max_fair::ENTRY, &ROUND, &system(2, 3, hogs(2)));
    run(&mut alone, 50);
    assert_eq!(statistic(&alone, "swaps", None), Some(0));
    assert_eq!(ran(&alone, 0, &[0, 1], 0, None) + ran(&alone, 1, &[0, 1], 0, None), 100);
}

/// 3 of 10 meant on a fast core are 5 of 10 on a slow one; meant on a slow core they are 3 of 10 on
/// a fast one.
#[test]
fn budgets_are_owed_by_the_class_of_the_home() {
    let reserved = |id, class, pin: u16| Vcpu {
        class: Some(class),
        pinned: Some(CoreId(pin)),
        ..Vcpu::new(id, ticks(3), ticks(10))
    };
    let vcpus = [(0, 0), (0, 1), (1, 0), (1, 1)].iter().zip(0..);
    let vcpus =
        vcpus.map(|((class, pin), id)| reserved(id, *class, *pin)).chain(hogs(6).split_off(4));
    let system = system(1, 1, vcpus.collect());
    let mut machine = awake(&max_fair::ENTRY, &[ROUND[0], ROUND[1], ("admission", "rta")], &system);
    run(&mut machine, 200);
    for (vcpu, owed) in [(0, 3), (1, 5), (2, 3), (3, 3)] {
        for period in 0..20 {
            let rows = machine.trace[period * 10..][..10].iter();
            let in_budget =
                |row: &&Vec<Option<(u32, Mode)>>| row.contains(&Some((vcpu, Mode::Foreground)));
            let got = rows.filter(in_budget).count();
            assert_eq!(got, owed, "vcpu{vcpu} in period {period}");
        }
    }
}

/// The homes: of the stated class while one fits there, slow where none is stated.
#[test]
fn homes_are_of_the_class_that_is_meant() {
    let meant = |id, class| Vcpu { class, ..Vcpu::new(id, ticks(40), ticks(100)) };
    let classes = [Some(0), Some(0), Some(0), None, Some(1)];
    let vcpus = (0..).zip(classes).map(|(id, class)| meant(id, class)).chain(hogs(7).split_off(5));
    let system = system(1, 3, vcpus.collect());
    let verdict = (max_fair::ENTRY.admit)(&system, &with(&[("admission", "rta")]));
    assert!(verdict.accepted(), "{verdict:?}");
    let homes: Vec<Vec<u32>> =
        verdict.cores.iter().map(|core| core.vcpus.iter().map(|vcpu| vcpu.0).collect()).collect();
    // The third does not fit the fast core.
    assert_eq!(homes, [[0, 1].to_vec(), [2].to_vec(), [3].to_vec(), [4].to_vec()]);
    assert!(verdict.cores.iter().all(|core| core.tests[0].test == "rta" && core.tests.len() == 4));
}

#[test]
fn what_cannot_be_promised_is_refused_with_the_numbers() {
    let admit = |system: &System, params: &[(&str, &str)]| {
        let verdict = (max_fair::ENTRY.admit)(system, &with(params));
        let refused = verdict.refused.iter().map(|(_, why)| why.to_string());
        let objections = verdict.objections.iter().map(ToString::to_string);
        objections.chain(refused).collect::<Vec<String>>().join("; ")
    };
    let even = System::new(4, hogs(4));
    assert!(admit(&even, &[]).contains("two to 8 classes, and these are 4 of class 0"));
    let three = System::new(4, hogs(4)).uneven(&[(1, 1000), (1, 800), (2, 500)]);
    assert_eq!(admit(&three, &[]), "");
    let steps: Vec<_> = (0..9).map(|class| (1, 1000 - 50 * class)).collect();
    let nine = System::new(9, hogs(9)).uneven(&steps);
    assert!(admit(&nine, &[]).contains("1 of class 7 and 1 of class 8"));
    // A class without cores is none.
    let unused = System::new(4, hogs(4)).uneven(&[(1, 1000), (0, 800), (3, 500)]);
    assert_eq!(admit(&unused, &[]), "");
    let good = system(1, 1, hogs(1));
    assert!(admit(&good, &[("round", "0ns")]).starts_with("round is 0"));
    assert!(admit(&good, &[("update", "59ms")]).starts_with("update is 59ms, less than two"));
    assert_eq!(admit(&good, &[("update", "60ms")]), "");
    let pinned =
        system(1, 1, alloc::vec![Vcpu { pinned: Some(CoreId(2)), ..Vcpu::best_effort(0) }]);
    assert!(admit(&pinned, &[]).contains("the cores are core0 to core1"));
    let class = Vcpu { class: Some(2), ..Vcpu::new(0, ticks(1), ticks(9)) };
    assert!(admit(&system(1, 1, alloc::vec![class]), &[]).contains("the classes are 0 to 1"));
    let heavy = |class| Vcpu { class, ..Vcpu::new(0, ticks(95), ticks(100)) };
    let mut live = system(1, 1, alloc::vec![heavy(None)]);
    live.capacity = Rate::new(9, 10);
    assert!(admit(&live, &[]).contains("capacity: 0.950000 of 0.900000 (refused)"));
    // On the slow core it would need 159 of 100.
    let slow = Vcpu { pinned: Some(CoreId(1)), ..heavy(Some(0)) };
    assert!(admit(&system(1, 1, alloc::vec![slow]), &[]).contains("capacity: 1.590000"));
}

/// A budget is part of the share: fast time that vcpu0 has on its budget it does not have again.
#[test]
fn guarantees_are_part_of_the_share() {
    let mut vcpus = hogs(4);
    vcpus[0] = Vcpu { class: Some(0), ..Vcpu::new(0, ticks(3), ticks(12)) };
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 3, vcpus));
    run(&mut machine, 1200);
    for vcpu in 0..4 {
        let fast = ran(&machine, vcpu, &[0], 0, None);
        assert!(fast.abs_diff(300) <= 10, "vcpu{vcpu} ran {fast} of 1200 on the fast core");
    }
    assert!((0..4).all(|core| !machine.schedule(core).contains('.')));
}

/// vcpu0 has half of the fast core on its budget, and a share of a third: the others have what is
/// left in equal parts, and vcpu0 has nothing more of it.
#[test]
fn a_guarantee_beyond_the_share_costs_the_others_alike() {
    let mut vcpus = hogs(3);
    vcpus[0] = Vcpu { class: Some(0), ..Vcpu::new(0, ticks(6), ticks(12)) };
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 2, vcpus));
    run(&mut machine, 1200);
    let fast: Vec<u64> = (0..3).map(|id| ran(&machine, id, &[0], 0, None)).collect();
    assert!(fast[0].abs_diff(600) <= 20, "{fast:?}");
    assert!(fast[1].abs_diff(fast[2]) <= 20, "{fast:?}");
}

/// A sleeper has its place back when it wakes, not what others had meanwhile.
#[test]
fn sleep_brings_no_credit() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 1, hogs(2)));
    run(&mut machine, 3);
    machine.sleep(0);
    run(&mut machine, 200);
    // The other went up to the fast core, not at once.
    assert_eq!(&machine.schedule(0)[..8], "AAA.BBBB");
    machine.wake(0);
    let woke = machine.trace.len();
    run(&mut machine, 60);
    let fast = ran(&machine, 0, &[0], woke, None);
    assert!((20..=40).contains(&fast), "{fast} of 60 on the fast core after 200 asleep");
}

/// One that sleeps 10 of every 40 ticks has its two thirds of the fast cores while it is awake,
/// though every look may find it asleep.
#[test]
fn what_sleeps_in_every_period_has_its_share_of_the_rest() {
    let mut machine =
        awake(&max_fair::ENTRY, &[("round", "30ns"), ROUND[1]], &system(2, 4, hogs(3)));
    for _ in 0..50 {
        run(&mut machine, 30);
        machine.sleep(1);
        run(&mut machine, 10);
        machine.wake(1);
    }
    let fast = ran(&machine, 1, &[0, 1], 0, None);
    assert!((900..1200).contains(&fast), "{fast} of 1500 on fast cores");
}

/// f = 1 and 0. Sleep that is longer than a round costs no thread its slot either: what has all of
/// the fast core has it at each wake, though it runs for less than a round.
#[test]
fn what_sleeps_long_and_often_has_its_slot_back() {
    let mut vcpus = hogs(2);
    (vcpus[0].speedup_milli, vcpus[1].speedup_milli) = (NonZero::new(1600), NonZero::new(1100));
    let params = [("round", "30ns"), ("update", "2us")];
    let mut machine = awake(&min_fair::ENTRY, &params, &system(1, 1, vcpus));
    for _ in 0..30 {
        run(&mut machine, 10);
        machine.sleep(0);
        run(&mut machine, 90);
        machine.wake(0);
    }
    let fast = ran(&machine, 0, &[0], 0, None);
    assert!(fast >= 270, "{fast} of 300 on the fast core");
}

/// Two busy threads have all shares of the fast core, and some of the slow one while those sleep
/// what share that. It costs these nothing: neither is one of them behind the other for good, nor
/// does it wait for the other to wake.
#[test]
fn guests_take_nothing_from_those_that_have_shares() {
    let mut vcpus = hogs(4);
    vcpus
        .iter_mut()
        .zip([1500, 1500, 1000, 1000])
        .for_each(|(it, s)| it.speedup_milli = NonZero::new(s));
    let params = [("round", "30ns"), ("update", "2us")];
    let mut machine = awake(&max_perf::ENTRY, &params, &system(1, 1, vcpus));
    let mut rng = Rng(45);
    let (mut left, mut awake) = ([0; 4], [0; 4]);
    for now in 0..20_000 {
        for (vcpu, most) in [(2, (4, 33)), (3, (18, 28))] {
            let is_awake = machine.models[vcpu].awake;
            let runs = machine
                .trace
                .last()
                .is_some_and(|row| row.iter().flatten().any(|(id, _)| *id as usize == vcpu));
            left[vcpu] -= i64::from(!is_awake || runs);
            if left[vcpu] <= 0 && now > 0 {
                left[vcpu] = 1 + rng.below(if is_awake { most.1 } else { most.0 }) as i64;
                let change = if is_awake { Machine::sleep } else { Machine::wake };
                change(&mut machine, vcpu as u32);
            }
            awake[vcpu] += u64::from(machine.models[vcpu].awake);
        }
        machine.tick();
    }
    for vcpu in [2, 3] {
        let (ran, awake) = (ran(&machine, vcpu, &[0, 1], 0, None), awake[vcpu as usize]);
        assert!(ran * 2 > awake, "vcpu{vcpu} ran {ran} of {awake}");
    }
}

/// A short sleep costs no thread its slot.
#[test]
fn what_sleeps_shortly_has_its_slot_back() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 1, hogs(3)));
    run(&mut machine, 3);
    // vcpu2 waits: it runs while the owner of the slow slot sleeps.
    assert_eq!((machine.schedule(0), machine.schedule(1)), ("AAA".into(), "BBB".into()));
    machine.sleep(1);
    run(&mut machine, 2);
    machine.wake(1);
    run(&mut machine, 2);
    assert_eq!(machine.schedule(1), "BBBCCBB");
}

/// Shares are for those that are there: an arrival and a departure change them at once, sleep after
/// an interval.
#[test]
fn shares_follow_what_is_there() {
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system(1, 3, hogs(4)));
    let share = |machine: &Machine, id| statistic(machine, "fast share ppm", Some(id));
    machine.tick();
    assert_eq!(share(&machine, 0), Some(250_000));
    machine.arrive(Vcpu::best_effort(4));
    machine.tick();
    assert!(matches!(machine.answers[..], [(VcpuId(4), Ok(_))]));
    assert_eq!((share(&machine, 0), share(&machine, 4)), (Some(200_000), Some(200_000)));
    machine.remove(0);
    run(&mut machine, 2);
    assert_eq!((share(&machine, 0), share(&machine, 4)), (None, Some(250_000)));
    // vcpu4 never woke. After an interval of which it slept all it is left out, until it wakes.
    run(&mut machine, 800);
    assert_eq!((share(&machine, 1), share(&machine, 4)), (Some(333_333), Some(0)));
    machine.wake(4);
    run(&mut machine, 2);
    assert_eq!((share(&machine, 1), share(&machine, 4)), (Some(250_000), Some(250_000)));
    assert_eq!(statistic(&machine, "updates", None), Some(2));
}

/// Speedups are learned from what segments bring, on budget or not; what the user says is not.
#[test]
fn speedups_are_measured() {
    let mut vcpus = hogs(2);
    vcpus[1].speedup_milli = NonZero::new(1234);
    let policy = (max_fair::ENTRY.build)(&system(1, 1, vcpus), &Params::new());
    let mut policy = policy.unwrap_or_else(|why| panic!("{why:?}"));
    let mut plan = Plan::new(2);
    let milli = |policy: &dyn Policy| {
        let statistics = policy.statistics();
        let mine = statistics.iter().filter(|statistic| statistic.name == "speedup milli");
        mine.map(|statistic| (statistic.vcpu.unwrap().0, statistic.value)).collect::<Vec<_>>()
    };
    assert_eq!(milli(&*policy), [(1, 1234)]);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (core, from, instructions) in [(0, 0, 5_000_000), (1, 50, 2_000_000)] {
        for vcpu in [VcpuId(0), VcpuId(1)] {
            let service = Duration::from_millis(20);
            let segment = Segment {
                vcpu,
                core: CoreId(core),
                mode: Mode::Background,
                from: at(from),
                to: at(from + 20),
                usage: Usage { service, instructions, ..Usage::default() },
                end: End::Preempted,
            };
            policy.on_event(segment.to, &Event::Ran(segment));
            decide(&mut *policy, segment.to, &mut plan);
        }
    }
    assert_eq!(milli(&*policy), [(1, 1234)]);
    decide(&mut *policy, at(2000), &mut plan);
    assert_eq!(milli(&*policy), [(0, 2500), (1, 1234)]);
}

/// Requests to change: a reservation comes, changes and goes; the rest of the description follows.
#[test]
fn reservations_come_and_go() {
    let system = system(1, 1, hogs(2));
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system);
    run(&mut machine, 2);
    let ask = |machine: &mut Machine, vcpu: Vcpu| {
        machine.tell(CoreId(0), Event::Changed(vcpu));
        machine.tick();
        machine.answers.pop().unwrap().1.map_err(|why| why.to_string())
    };
    let reserved = |budget| Vcpu::new(0, ticks(budget), ticks(10));
    assert_eq!(ask(&mut machine, reserved(4)), Ok(CoreId(1)));
    let from = machine.trace.len();
    run(&mut machine, 50);
    assert_eq!(ran(&machine, 0, &[1], from, Some(Mode::Foreground)), 20);
    assert!(ask(&mut machine, reserved(11)).unwrap_err().contains("0 < C <= D <= T"));
    assert_eq!(ask(&mut machine, reserved(2)), Ok(CoreId(1)));
    assert!(ask(&mut machine, Vcpu::best_effort(0)).is_ok());
    let from = machine.trace.len();
    run(&mut machine, 50);
    assert_eq!(ran(&machine, 0, &[0, 1], from, Some(Mode::Foreground)), 0);
    assert!(ask(&mut machine, Vcpu::best_effort(7)).unwrap_err().contains("not admitted"));
    let pinned = Vcpu { pinned: Some(CoreId(0)), ..Vcpu::best_effort(0) };
    assert_eq!(ask(&mut machine, pinned), Ok(CoreId(0)));
    let from = machine.trace.len();
    run(&mut machine, 50);
    assert_eq!(ran(&machine, 0, &[1], from, None), 0);
    assert!(ran(&machine, 0, &[0], from, None) > 10);
}

/// All at home on the slow core: 0, (10, 20), comes first; 1, (50, 101), waits for it. At 50 `act`
/// takes all or most of 0's budget, and 2, (`budget`, 100), comes at 51.
fn a_newcomer_where_budget_was_given_up(act: impl Fn(&mut Machine), budget: u64) -> Machine {
    let here = |id, budget, period| Vcpu {
        pinned: Some(CoreId(1)),
        ..Vcpu::new(id, ticks(budget), ticks(period))
    };
    let system = system(1, 1, [here(0, 10, 20), here(1, 50, 101)].into());
    let mut machine = awake(&max_fair::ENTRY, &[("admission", "rta"), ROUND[0], ROUND[1]], &system);
    run(&mut machine, 50);
    act(&mut machine);
    run(&mut machine, 1);
    machine.arrive(here(2, budget, 100));
    run(&mut machine, 1);
    machine.wake(2);
    run(&mut machine, 400);
    assert!(machine.answers.iter().any(|(id, answer)| *id == VcpuId(2) && answer.is_ok()));
    assert!(machine.answers.iter().all(|(_, answer)| answer.is_ok()));
    machine
}

/// What was used of a budget that is given up would have come back later only: until then it is no
/// newcomer's, or 1, which was admitted beside the old one, would pay for it.
#[test]
fn budget_that_is_given_up_is_not_spent_twice() {
    let leave = |machine: &mut Machine| machine.remove(0);
    let shrink = |machine: &mut Machine| {
        let less = Vcpu { pinned: Some(CoreId(1)), ..Vcpu::new(0, ticks(1), ticks(20)) };
        machine.tell(CoreId(0), Event::Changed(less));
    };
    let left = a_newcomer_where_budget_was_given_up(leave, 50);
    let shrunk = a_newcomer_where_budget_was_given_up(shrink, 44);
    for machine in [left, shrunk] {
        let rows = machine.trace[..101].iter().map(|row| row[1]);
        let got = rows.filter(|slot| *slot == Some((1, Mode::Foreground))).count();
        assert_eq!(got, 50, "{}", machine.schedule(1));
    }
}

/// A smaller reservation sets in while the thread runs: what it has used of the old one by then
/// comes back with that, and is no debt of the new one.
#[test]
fn what_ran_of_the_old_budget_is_no_debt_of_a_smaller_new_one() {
    let here = |budget| Vcpu { pinned: Some(CoreId(0)), ..Vcpu::new(0, ticks(budget), ticks(10)) };
    let system = system(1, 1, alloc::vec![here(8)]);
    let mut machine = awake(&max_fair::ENTRY, &ROUND, &system);
    run(&mut machine, 6);
    machine.tell(CoreId(0), Event::Changed(here(4)));
    run(&mut machine, 44);
    let foreground = Some((0, Mode::Foreground));
    let had: Vec<bool> = machine.trace.iter().map(|row| row[0] == foreground).collect();
    let expected: Vec<bool> = (0..50).map(|at| at < 7 || at >= 10 && at % 10 < 4).collect();
    assert_eq!(had, expected, "{}", machine.schedule(0));
}

/// A server that slept has its budget from its wake on, and not again before a period from there.
#[test]
fn a_wake_begins_a_period() {
    let here = |id, budget, period| Vcpu {
        pinned: Some(CoreId(1)),
        ..Vcpu::new(id, ticks(budget), ticks(period))
    };
    let system = system(1, 1, [here(0, 4, 10), here(1, 6, 11)].into());
    let params = with(&[("admission", "rta"), ROUND[0], ROUND[1]]);
    let mut machine = Machine::new(&max_fair::ENTRY, &params, &system, Manners::PERFECT);
    run(&mut machine, 9);
    (0..2).for_each(|vcpu| machine.wake(vcpu));
    run(&mut machine, 11);
    assert_eq!(ran(&machine, 1, &[1], 9, Some(Mode::Foreground)), 6, "{}", machine.schedule(1));
}

/// Nothing that a late decision finds is decided twice, and no wake lies in the past.
#[test]
fn a_decision_long_overdue_is_one_decision() {
    let system = system(1, 1, hogs(2));
    let policy = (max_fair::ENTRY.build)(&system, &with(&ROUND));
    let mut policy = policy.unwrap_or_else(|why| panic!("{why:?}"));
    let mut plan = Plan::new(2);
    for id in 0..2 {
        let woke = Event::Woke { vcpu: VcpuId(id), on_behalf: None, exact: true };
        policy.on_event(Instant::ZERO, &woke);
    }
    for now in [0, 5_000, 5_001, 1_000_000] {
        decide(&mut *policy, Instant::from_ticks(now), &mut plan);
        assert!(plan.wake > Instant::from_ticks(now) && plan.wake_metered);
        decide(&mut *policy, Instant::from_ticks(now), &mut plan);
        assert!(plan.dirty().is_empty());
    }
    let updates =
        policy.statistics().iter().find(|statistic| statistic.name == "updates").map(|f| f.value);
    assert_eq!(updates, Some(2));
}

/// A rule for tests: shares as the thousandths in which users wrote their speedups say, from 1001
/// (nothing) to 2001 (a whole core).
fn as_written(places: Places, speedups: &[Option<Speedup>], _: &Params) -> Vec<u64> {
    let share = |speedup: &Option<Speedup>| speedup.map_or(0, Speedup::milli).saturating_sub(1001);
    let wanted = speedups.iter().map(|speedup| u128::from(share(speedup)));
    let (whole, each) = (u128::from(places.whole()), places.each());
    let mut left = places.fast * places.whole();
    let mut shares: Vec<u64> =
        wanted.map(|milli| ((whole * milli / 1000) as u64).min(each)).collect();
    for share in &mut shares {
        *share = (*share).min(left);
        left -= *share;
    }
    for share in &mut shares {
        let more = left.min(each - *share);
        *share += more;
        left -= more;
    }
    shares
}
