//! The schedules of small sets, tick by tick; allotments on random sets; faults.

use super::{ENTRY, UEdf};
use crate::parts::fluid::judged_by_density;
use crate::testing::{Machine, Manners, Rng, periodic, with};
use alloc::vec::Vec;
use maracas_core::contract::decide;
use maracas_core::{
    Arrival, Duration, Event, Instant, Job, JobId, Plan, Policy, Rate, System, Vcpu,
};

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}

fn system(cores: usize, tasks: &[(u64, u64)]) -> System {
    let vcpu = |(id, &(c, t)): (u32, &(u64, u64))| Vcpu::new(id, ticks(c), ticks(t)).periodic();
    System::new(cores, (0..).zip(tasks).map(vcpu).collect())
}

/// Three tasks of 2/3 on two cores. At first a is allotted 4 on the first processor, b 2 there and
/// 2 on the second, c 4 there: b begins on the second processor and goes over to the first.
#[test]
fn allotments_fill_one_processor_after_the_other() {
    let machine = periodic(&ENTRY, &[], 2, &[(4, 6), (4, 6), (4, 6)], 12);
    // At 6, where all begin anew, b is on core 0 and stays.
    assert_eq!(machine.schedule(0), "aaaabbbbcccc");
    assert_eq!(machine.schedule(1), "bbccccaaaabb");
    assert!(machine.models.iter().all(|model| model.misses == 0));
}

/// On one core it is EDF. At 8, a, b and c are due at 12, 16 and 12.
#[test]
fn one_processor_is_scheduled_by_edf() {
    let machine = periodic(&ENTRY, &[], 1, &[(2, 4), (2, 8), (3, 12)], 24);
    assert_eq!(machine.schedule(0), "aabbaaccaacbaabcaabbaacc");
    assert!(machine.models.iter().all(|model| model.misses == 0));
}

/// algorithms.md C: the third task misses its first deadline under global EDF.
#[test]
fn no_dhall_effect() {
    let machine = periodic(&ENTRY, &[], 2, &[(2, 20), (2, 20), (21, 22)], 440);
    assert!(machine.models.iter().all(|model| model.misses == 0));
}

/// What a waiting task's next jobs may need is kept free for them: at 0 c is allotted time on the
/// second processor though the first one is idle, since a may release its job at any instant.
#[test]
fn time_is_reserved_for_tasks_that_have_no_job() {
    let mut own =
        UEdf::new(judged_by_density(&system(2, &[(4, 4), (3, 6)])).0, &all(2), &with(&[]));
    let id = JobId { vcpu: maracas_core::VcpuId(1), index: 0 };
    let at = Instant::from_ticks;
    own.release(&Job { id, release: at(0), deadline: at(6) });
    own.allot(at(0));
    let left = |place: usize| own.shares[place].iter().map(|share| share.left).sum::<u64>();
    assert_eq!((left(0), left(1)), (0, 3));
}

fn all(cores: usize) -> System {
    system(cores, &[(4, 4), (3, 6)])
}

/// Task 0's jobs need 3 for C = 2. Cut at C they go on in the next job's time, or where their core
/// is idle too; task 1 is in time in any case.
#[test]
fn an_overrun_harms_no_other_task() {
    for (enforcement, schedule) in [("precise", "aabb..aabb.."), ("surplus", "aabbA.aabbA.")] {
        let params = with(&[("enforcement", enforcement)]);
        let system = system(1, &[(2, 6), (2, 6)]);
        let mut machine = Machine::new(&ENTRY, &params, &system, Manners::PERFECT);
        for now in 0..12 {
            if now % 6 == 0 {
                machine.release(0, 3, now + 6);
                machine.release(1, 2, now + 6);
            }
            machine.tick();
        }
        assert_eq!(machine.schedule(0), schedule);
        assert_eq!(machine.models[1].misses, 0);
    }
}

/// A deadline before the period's end counts as the period.
#[test]
fn early_deadlines_are_kept() {
    let mut system = system(2, &[(3, 12), (3, 12), (6, 6), (2, 8)]);
    for vcpu in &mut system.vcpus[..2] {
        vcpu.reservation.deadline = ticks(8);
    }
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    for now in 0..240 {
        for (id, vcpu) in (0..).zip(&system.vcpus) {
            let r = vcpu.reservation;
            if now % r.period.ticks() == 0 {
                machine.release(id, r.budget.ticks(), now + r.deadline.ticks());
            }
        }
        machine.tick();
    }
    assert!(machine.models.iter().all(|model| model.misses == 0));
    system.vcpus[3].reservation.budget = ticks(3);
    assert!(!(ENTRY.admit)(&system, &with(&[])).accepted());
}

#[test]
fn tasks_come_change_and_go() {
    let start = system(2, &[(3, 4), (3, 4)]);
    let mut policy = (ENTRY.build)(&start, &with(&[])).unwrap();
    let mut plan = Plan::new(2);
    let mut ask = |event| {
        policy.on_event(Instant::ZERO, &event);
        decide(&mut *policy, Instant::ZERO, &mut plan);
        plan.verdicts().first().map(|(_, verdict)| verdict.is_ok())
    };
    let vcpu = |id, c| Vcpu::new(id, ticks(c), ticks(4)).periodic();
    assert_eq!(ask(Event::Arrived(vcpu(2, 3))), Some(false));
    assert_eq!(ask(Event::Arrived(vcpu(2, 2))), Some(true));
    assert_eq!(ask(Event::Changed(vcpu(0, 4))), Some(false));
    assert_eq!(ask(Event::Left(vcpu(1, 3).id)), None);
    assert_eq!(ask(Event::Changed(vcpu(0, 4))), Some(true));
    let system = System { capacity: Rate::new(9, 10), ..system(2, &[(1, 4)]) };
    let mut policy = (ENTRY.build)(&system, &with(&[])).unwrap();
    policy.on_event(Instant::ZERO, &Event::Arrived(vcpu(3, 4)));
    decide(&mut *policy, Instant::ZERO, &mut plan);
    let why = plan.verdicts()[0].1.as_ref().unwrap_err();
    assert!(why.reason.contains("asks for 1 of a core, of which 9/10 may be used"), "{why:?}");
}

/// All rates are multiples of 1/12, and all releases of 12 ticks.
const GRID: u64 = 12;

/// Tasks (C, T) whose loads sum to U = m exactly, or to a little less.
fn random_set(rng: &mut Rng) -> (usize, Vec<(u64, u64)>) {
    let cores = 1 + rng.below(5) as usize;
    let mut left = GRID * cores as u64 - if rng.one_in(2) { 0 } else { 1 + rng.below(4) };
    let mut tasks = Vec::new();
    while left > 0 {
        let period = GRID * (1 + rng.below(6));
        let rate = (1 + rng.below(GRID)).min(left);
        left -= rate;
        tasks.push((rate * period / GRID, period));
    }
    (cores, tasks)
}

/// Sporadic and periodic jobs at any multiple of the grid, some early done: none is late, and what
/// is allotted is what jobs still may use.
#[test]
fn nothing_is_late_on_the_grid() {
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let (cores, tasks) = random_set(&mut rng);
        let mut system = system(cores, &tasks);
        let (gaps, early) = (rng.below(3) * 4, rng.one_in(3));
        for vcpu in &mut system.vcpus {
            vcpu.arrival = Arrival::Sporadic;
        }
        let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
        let mut next: Vec<u64> = tasks.iter().map(|_| GRID * rng.below(1 + gaps)).collect();
        for now in 0..60 * GRID {
            for (id, (next, &(c, t))) in (0..).zip(next.iter_mut().zip(&tasks)) {
                if now == *next {
                    let work = if early && rng.one_in(3) { 1 + rng.below(c) } else { c };
                    machine.release(id, work, now + t);
                    let wait = if rng.one_in(gaps) { 1 + rng.below(5) } else { 0 };
                    *next += t + GRID * wait;
                }
            }
            machine.tick();
        }
        let missed: u64 = machine.models.iter().map(|model| model.misses).sum();
        assert_eq!(missed, 0, "seed {seed}: {tasks:?} on {cores}");
        let squeezed = |statistic: &maracas_core::contract::Statistic| {
            statistic.name != "allotments" && statistic.value > 0
        };
        assert!(!machine.policy.statistics().iter().any(squeezed), "seed {seed}: {tasks:?}");
    }
}

/// However late decisions are, a machine that keeps its limits gives no job more than C, and every
/// job ends at last: budget that is taken for unused, because what used it was reported too late,
/// comes back as surplus time.
#[test]
fn full_sets_on_a_hostile_machine() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let (cores, tasks) = random_set(&mut rng);
        let manners = Manners { overrun: 0, failing: 0, ..Manners::HOSTILE };
        let params = with(&[("enforcement", "surplus")]);
        let mut machine = Machine::new(&ENTRY, &params, &system(cores, &tasks), manners);
        machine.rng = Rng(seed);
        for now in 0..60 * GRID {
            for (id, &(c, t)) in (0..).zip(&tasks) {
                if now % t == 0 && now < 30 * GRID {
                    machine.release(id, c, now + t);
                }
            }
            machine.tick();
            for (model, (c, _)) in machine.models.iter().zip(&tasks) {
                assert!(model.meters[0] <= c * u64::from(model.released), "seed {seed}");
            }
        }
        let done = machine.models.iter().all(|model| model.jobs.is_empty());
        assert!(done, "seed {seed}: {tasks:?} on {cores}");
    }
}

#[test]
fn idle_time_is_lent_on_a_hostile_machine_too() {
    for seed in 0..120 {
        crate::hostile::try_hard(&ENTRY, &[("enforcement", "surplus")], seed);
    }
}

/// The reservation of `vcpu` in a request.
fn task(id: u32, c: u64, t: u64) -> Vcpu {
    Vcpu::new(id, ticks(c), ticks(t)).periodic()
}

/// a and b fill a core; a leaves at 2, done. What was allotted beside it rests on its rate, so its
/// place is kept up to its deadline, and c, which wants its room, is let in then.
#[test]
fn who_leaves_keeps_its_place_up_to_its_deadline() {
    let start = system(1, &[(2, 4), (4, 8)]);
    let mut own = UEdf::new(judged_by_density(&start).0, &start, &with(&[]));
    let mut plan = Plan::new(1);
    let at = Instant::from_ticks;
    for (id, deadline) in [(0, 4), (1, 8)] {
        let id = JobId { vcpu: maracas_core::VcpuId(id), index: 0 };
        own.on_event(at(0), &Event::Released(Job { id, release: at(0), deadline: at(deadline) }));
    }
    decide(&mut own, at(0), &mut plan);
    own.on_event(at(2), &Event::Left(maracas_core::VcpuId(0)));
    own.on_event(at(2), &Event::Arrived(task(2, 2, 4)));
    decide(&mut own, at(2), &mut plan);
    let rates =
        |own: &UEdf| own.placeholders.iter().map(|one| (one.key.deadline, one.rate)).collect();
    assert_eq!((own.whole, rates(&own), plan.verdicts()), (2, alloc::vec![(at(4), 1)], &[][..]));
    assert_eq!(plan.wake, at(4));
    // It begins when the job of b, which has been allotted time, is due.
    decide(&mut own, at(4), &mut plan);
    assert_eq!((own.placeholders.len(), plan.verdicts().len(), plan.wake), (0, 0, at(8)));
    decide(&mut own, at(8), &mut plan);
    assert!(plan.verdicts()[0].1.is_ok());
}

/// A smaller rate is granted at once and counts from the deadline on; what is asked for meanwhile
/// is answered then, in the order in which it was asked.
#[test]
fn a_smaller_rate_sets_in_at_the_deadline() {
    let start = system(1, &[(4, 8), (4, 8)]);
    let mut own = UEdf::new(judged_by_density(&start).0, &start, &with(&[]));
    let mut plan = Plan::new(1);
    let at = Instant::from_ticks;
    let id = JobId { vcpu: maracas_core::VcpuId(0), index: 0 };
    own.on_event(at(0), &Event::Released(Job { id, release: at(0), deadline: at(8) }));
    own.on_event(at(0), &Event::Changed(task(0, 1, 8)));
    decide(&mut own, at(0), &mut plan);
    let rate = |own: &UEdf| own.tasks.get(maracas_core::VcpuId(0)).map(|task| task.exact);
    assert!(plan.verdicts()[0].1.is_ok());
    assert_eq!(rate(&own), Some(Rate::new(1, 2)));
    own.on_event(at(1), &Event::Changed(task(0, 5, 8)));
    own.on_event(at(2), &Event::Changed(task(0, 4, 8)));
    decide(&mut own, at(2), &mut plan);
    assert_eq!((plan.verdicts().len(), plan.wake), (0, at(8)));
    decide(&mut own, at(8), &mut plan);
    let answers: Vec<_> = plan.verdicts().iter().map(|(_, verdict)| verdict.is_ok()).collect();
    assert_eq!((answers, rate(&own)), (alloc::vec![false, true], Some(Rate::new(1, 2))));
}

/// What waits is answered before what was asked for later, also where that is refused at once.
#[test]
fn answers_come_in_the_order_of_the_requests() {
    let start = system(1, &[(1, 8), (4, 8)]);
    let mut own = UEdf::new(judged_by_density(&start).0, &start, &with(&[]));
    let mut plan = Plan::new(1);
    let at = Instant::from_ticks;
    let id = JobId { vcpu: maracas_core::VcpuId(1), index: 0 };
    own.on_event(at(0), &Event::Released(Job { id, release: at(0), deadline: at(8) }));
    own.on_event(at(0), &Event::Changed(task(0, 4, 8)));
    decide(&mut own, at(0), &mut plan);
    assert_eq!((plan.verdicts().len(), plan.wake), (0, at(8)));
    own.on_event(at(8), &Event::Changed(task(0, 3, 8)));
    own.on_event(at(8), &Event::Changed(task(0, 2, 8)));
    decide(&mut own, at(8), &mut plan);
    let answers: Vec<_> = plan.verdicts().iter().map(|(_, verdict)| verdict.is_ok()).collect();
    assert_eq!(answers, [true, false, true]);
}
