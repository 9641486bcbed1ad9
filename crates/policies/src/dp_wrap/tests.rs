//! The schedule of a small set, tick by tick; chunks on random sets; faults.

use super::ENTRY;
use crate::testing::{Machine, Manners, Rng, periodic, with};
use alloc::vec::Vec;
use maracas_core::contract::{Mode, decide};
use maracas_core::{Arrival, CoreId, Duration, Event, Instant, Plan, Rate, System, Vcpu};

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}

fn system(cores: usize, tasks: &[(u64, u64)]) -> System {
    let vcpu = |(id, &(c, t)): (u32, &(u64, u64))| Vcpu::new(id, ticks(c), ticks(t)).periodic();
    System::new(cores, (0..).zip(tasks).map(vcpu).collect())
}

/// Three tasks of 2/3 on two cores: b stands on the cut of every slice, and goes on where it ran
/// last when the next one, mirrored, begins.
#[test]
fn the_strip_is_wrapped_and_mirrored() {
    let machine = periodic(&ENTRY, &[], 2, &[(4, 6), (4, 6), (4, 6)], 18);
    assert_eq!(machine.schedule(0), "aaaabbbbaaaaaaaabb");
    assert_eq!(machine.schedule(1), "bbccccccccbbbbcccc");
    assert!(machine.models.iter().all(|model| model.misses == 0));
}

/// Three tasks of 1/2 in slices of three ticks and one: chunks of a tick and a half are rounded.
#[test]
fn parts_of_ticks_go_where_they_are_needed_first() {
    let machine = periodic(&ENTRY, &[], 2, &[(1, 2), (1, 2), (3, 6), (3, 6)], 60);
    assert!(machine.models.iter().all(|model| model.misses == 0));
    let busy = |core| machine.schedule(core).chars().filter(|slot| *slot != '.').count();
    assert_eq!(busy(0) + busy(1), 120);
}

/// Chunks follow each other without a pause, what a job leaves unused comes last.
#[test]
fn unused_time_is_idle_at_the_end_of_the_slice() {
    let system = system(1, &[(3, 6), (3, 6)]);
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    machine.release(0, 1, 6);
    machine.release(1, 3, 6);
    (0..6).for_each(|_| machine.tick());
    assert_eq!(machine.schedule(0), "abbb..");
}

/// Task 0's jobs need 3 for C = 2. Cut at C they go on in the next job's time, or where the core is
/// idle too; task 1 is in time in any case.
#[test]
fn an_overrun_harms_no_other_task() {
    for (enforcement, schedule) in [("precise", "aabb..bbaa.."), ("surplus", "aabbA.bbaaA.")] {
        let system = system(1, &[(2, 6), (2, 6)]);
        let params = with(&[("enforcement", enforcement)]);
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

/// A decision that comes two ticks late shifts the chunks; no task loses any.
#[test]
fn late_decisions_lose_no_time() {
    let system = system(2, &[(2, 6), (4, 6), (2, 6), (2, 6)]);
    let mut policy = (ENTRY.build)(&system, &with(&[])).unwrap();
    let (mut plan, at) = (Plan::new(2), Instant::from_ticks);
    for (index, (release, now)) in [(0, 0), (6, 8), (12, 15)].into_iter().enumerate() {
        for task in &system.vcpus {
            let id = maracas_core::JobId { vcpu: task.id, index: index as u32 };
            let job = maracas_core::Job { id, release: at(release), deadline: at(release + 6) };
            policy.on_event(at(release), &Event::Released(job));
        }
        decide(&mut *policy, at(now), &mut plan);
        assert_eq!(plan.wake, at(release + 6));
        let on_run_queues = (0..2).flat_map(|core| plan.run_queue(CoreId(core)).foreground.clone());
        let first_task = on_run_queues.clone().find(|grant| grant.vcpu.0 == 0).unwrap();
        // Nothing ran so far, and nothing is lost of the jobs that are late.
        assert_eq!(first_task.until.0, ticks(2 * (index as u64 + 1)));
        assert_eq!(on_run_queues.count(), 4);
    }
}

#[test]
fn what_dp_wrap_cannot_do_is_refused_with_the_way_out() {
    let refusal = |vcpu: Vcpu, capacity| {
        let system = System { capacity, ..System::new(2, alloc::vec![vcpu]) };
        let verdict = (ENTRY.admit)(&system, &with(&[]));
        assert!((ENTRY.build)(&system, &with(&[])).is_err());
        let refused = verdict.refused.into_iter().map(|(_, why)| why.reason);
        refused
            .chain(verdict.objections.into_iter().map(|it| alloc::format!("{it}")))
            .next()
            .unwrap()
    };
    let heavy = Vcpu::new(0, ticks(19), ticks(20)).periodic();
    assert!(refusal(heavy, Rate::new(9, 10)).contains("asks for 19/20 of a core, of which 9/10"));
}

/// Where nine tenths of a core may be used, shares are stretched to whole cores and jobs end early.
#[test]
fn the_capacity_of_a_core_scales_every_share() {
    let tasks = [(6, 10), (6, 10), (6, 10)];
    let system = System { capacity: Rate::new(9, 10), ..system(2, &tasks) };
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    for now in 0..100 {
        for id in (0..3).filter(|_| now % 10 == 0) {
            machine.release(id, 6, now + 10);
        }
        machine.tick();
    }
    assert!(machine.models.iter().all(|model| model.misses == 0 && model.finished.len() == 10));
}

#[test]
fn a_task_that_leaves_leaves_its_time_to_no_other() {
    let mut machine = periodic(&ENTRY, &[], 1, &[(3, 6), (3, 6)], 6);
    machine.remove(0);
    for now in 6..12 {
        if now == 6 {
            machine.release(1, 3, 12);
        }
        machine.tick();
    }
    assert_eq!(machine.schedule(0), "aaabbbbbb...");
}

/// Where only windows are left between which none is open, a slice begins with the next job.
#[test]
fn a_task_that_left_ends_no_slice() {
    let mut stays = Vcpu::new(1, ticks(3), ticks(5)).periodic();
    stays.reservation.deadline = ticks(4);
    let system = System::new(1, alloc::vec![Vcpu::new(0, ticks(1), ticks(9)).periodic(), stays]);
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    for now in 0..200 {
        match now {
            0 | 9 => machine.release(0, 1, now + 9),
            10 => machine.remove(0),
            _ => {}
        }
        if now % 5 == 0 {
            machine.release(1, 3, now + 4);
        }
        machine.tick();
    }
    assert_eq!((machine.models[1].misses, machine.models[1].finished.len()), (0, 40));
}

/// Tasks whose loads sum to U = m exactly, with periods of a few ticks.
fn full_set(rng: &mut Rng) -> (usize, Vec<(u64, u64)>) {
    let cores = 1 + rng.below(4) as usize;
    let mut left = 60 * cores as u64;
    let mut tasks = Vec::new();
    while left > 0 {
        let period = [2, 3, 4, 5, 6, 10, 12, 15][rng.below(8) as usize];
        let budget = 1 + rng.below(period);
        let share = budget * 60 / period;
        if share <= left {
            left -= share;
            tasks.push((budget, period));
        } else if left <= 60 {
            tasks.push((left, 60));
            left = 0;
        }
    }
    (cores, tasks)
}

/// With offsets too no deadline is missed. Without them no tick is idle either; with them a task
/// may have had a tick too early, before all had begun.
#[test]
fn full_cores_of_coarse_ticks_miss_nothing() {
    for seed in 0..30_000 {
        let mut rng = Rng(seed);
        let (cores, tasks) = full_set(&mut rng);
        let mut system = system(cores, &tasks);
        let mut offsets = alloc::vec![0; tasks.len()];
        if rng.one_in(2) {
            for (offset, vcpu) in offsets.iter_mut().zip(&mut system.vcpus) {
                *offset = rng.below(vcpu.reservation.period.ticks());
                vcpu.arrival = Arrival::Periodic { offset: ticks(*offset) };
            }
        }
        let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
        for now in 0..240_u64 {
            for (id, (&(c, t), offset)) in (0..).zip(tasks.iter().zip(&offsets)) {
                if now.checked_sub(*offset).is_some_and(|since| since.is_multiple_of(t)) {
                    machine.release(id, c, now + t);
                }
            }
            machine.tick();
        }
        let missed: u64 = machine.models.iter().map(|model| model.misses).sum();
        assert_eq!(missed, 0, "seed {seed}: {tasks:?} from {offsets:?}");
        let short =
            machine.policy.statistics().iter().any(|f| f.name == "short slices" && f.value > 0);
        assert!(!short, "seed {seed}: {tasks:?} from {offsets:?}");
        let idle = machine.trace[60..].iter().flatten().filter(|slot| slot.is_none()).count();
        let synchronous = offsets.iter().all(|offset| *offset == 0);
        assert!(idle == 0 || !synchronous, "seed {seed}: {tasks:?} from {offsets:?}");
        let foreground = |slot: &(u32, Mode)| slot.1 == Mode::Foreground;
        assert!(machine.trace.iter().flatten().flatten().all(foreground), "seed {seed}");
    }
}

/// However late decisions are, a machine that keeps its limits gives no job more than C.
#[test]
fn full_sets_on_a_hostile_machine() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let (cores, tasks) = full_set(&mut rng);
        let manners = Manners { overrun: 0, failing: 0, ..Manners::HOSTILE };
        let mut machine = Machine::new(&ENTRY, &with(&[]), &system(cores, &tasks), manners);
        machine.rng = Rng(seed);
        for now in 0..240 {
            for (id, &(c, t)) in (0..).zip(&tasks) {
                if now % t == 0 {
                    machine.release(id, c, now + t);
                }
            }
            machine.tick();
            for (model, (c, _)) in machine.models.iter().zip(&tasks) {
                assert!(model.meters[0] <= c * u64::from(model.released), "seed {seed}");
            }
        }
    }
}

/// The first deadline of b may be at 4, so the slice ends then; b comes at 1, when half of the rest
/// is its own, and has the rest of the time on the core on which nothing is.
#[test]
fn a_job_that_comes_within_a_slice_gets_its_share_of_the_rest() {
    let mut system = system(2, &[(4, 4), (2, 4)]);
    system.vcpus[1].arrival = Arrival::Sporadic;
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    for now in 0..12 {
        if now % 4 == 0 {
            machine.release(0, 4, now + 4);
        }
        if now == 1 || now == 7 {
            machine.release(1, 2, now + 4);
        }
        machine.tick();
    }
    assert_eq!(machine.schedule(0), "aaaaaaaaaaaa");
    assert_eq!(machine.schedule(1), ".bb....bb...");
}

/// When the next jobs come: as soon as they may, or by up to a period later.
struct Releases(Vec<u64>);

impl Releases {
    fn due(&mut self, now: u64, task: usize, period: u64, rng: &mut Rng) -> bool {
        let due = self.0[task] == now;
        if due {
            let late = if rng.one_in(2) { 0 } else { rng.below(period + 1) };
            self.0[task] = now + period + late;
        }
        due
    }
}

/// Sporadic tasks, beside periodic ones or alone, on full cores of coarse ticks.
#[test]
fn full_cores_of_coarse_ticks_miss_nothing_of_sporadic_tasks() {
    for seed in 0..10_000 {
        let mut rng = Rng(seed);
        let (cores, tasks) = full_set(&mut rng);
        let mut system = system(cores, &tasks);
        let all = rng.one_in(2);
        for vcpu in system.vcpus.iter_mut().filter(|_| all || rng.one_in(2)) {
            vcpu.arrival = Arrival::Sporadic;
        }
        let firsts = tasks.iter().map(|(_, t)| if rng.one_in(2) { 0 } else { rng.below(*t) });
        let mut releases = Releases(firsts.collect());
        let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
        for now in 0..240_u64 {
            for (id, (&(c, t), vcpu)) in (0..).zip(tasks.iter().zip(&system.vcpus)) {
                let due = match vcpu.arrival {
                    Arrival::Sporadic => releases.due(now, id as usize, t, &mut rng),
                    Arrival::Periodic { .. } | Arrival::None => now.is_multiple_of(t),
                };
                if due {
                    machine.release(id, c, now + t);
                }
            }
            machine.tick();
        }
        let missed: u64 = machine.models.iter().map(|model| model.misses).sum();
        let short =
            machine.policy.statistics().iter().any(|f| f.name == "short slices" && f.value > 0);
        assert!(missed == 0 && !short, "seed {seed}: {:?}", system.vcpus);
    }
}

/// Nine small chunks, of which seven are rounded up, leave ten ticks behind the slice's second one
/// where three that come then are due four each. The last one lacks a tick at its deadline, which
/// is within the verdict's tolerance of three.
#[test]
fn the_last_of_several_that_come_together_may_lack_a_tick() {
    let tasks = [&[(1, 7)], &[(1, 20); 9][..], &[(8, 10); 3]].concat();
    let mut system = system(3, &tasks);
    system.vcpus[10..].iter_mut().for_each(|vcpu| vcpu.arrival = Arrival::Sporadic);
    let verdict = (ENTRY.admit)(&system, &with(&[]));
    assert_eq!((verdict.accepted(), verdict.tolerance), (true, ticks(3)));
    let mut machine = Machine::new(&ENTRY, &with(&[]), &system, Manners::PERFECT);
    for now in 0..20_u64 {
        for (id, &(c, t)) in (0..).zip(&tasks).filter(|(id, _)| *id < 10) {
            if now.is_multiple_of(t) {
                machine.release(id, c, now + t);
            }
        }
        if now == 2 {
            (10..13).for_each(|id| machine.release(id, 8, 12));
        }
        machine.tick();
    }
    let missed: u64 = machine.models.iter().map(|model| model.misses).sum();
    assert_eq!(missed, 1);
}

#[test]
fn idle_time_is_lent_on_a_hostile_machine_too() {
    for seed in 0..120 {
        crate::hostile::try_hard(&ENTRY, &[("enforcement", "surplus")], seed);
    }
}
