//! Scripts on cores of their own, by hand-worked times, and under policies.

use super::{AtEnd, Effect, ScriptedThreads, ThreadOutcome};
use crate::{Options, Subject, simulate};
use maracas_core::contract::{Event, Observer};
use maracas_core::params::Params;
use maracas_core::script::{Barrier, MIN_STEP, Phase, Script, Scripts, Step, Timer};
use maracas_core::{Arrival, Duration, Instant, Plan, Program, System, Vcpu, VcpuId, Workload};
use std::collections::{BTreeMap, BTreeSet};

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}
fn run(n: u64) -> Step {
    Step::Run(us(n))
}
fn sleep(n: u64) -> Step {
    Step::Sleep(us(n))
}
fn script(loops: Option<u32>, steps: Vec<Step>) -> Script {
    let phases = vec![Phase { steps, loops }];
    Script { phases, loops: Some(1), start: Instant::ZERO, forked: false }
}
fn once(steps: Vec<Step>) -> Script {
    script(Some(1), steps)
}
/// Threads that share two locks, two conditions, two semaphores and a barrier of two.
fn scripts(threads: Vec<Script>) -> Scripts {
    let names = || vec!["a".to_string(), "b".to_string()];
    Scripts {
        threads,
        timers: vec![Timer { absolute: false, own: None }; 2],
        locks: names(),
        conditions: names(),
        semaphores: names(),
        barriers: vec![Barrier { name: "a".into(), threads: 2 }],
    }
}

/// A piece of work: whose, from when, to when.
type Piece = (u32, u64, u64);

/// Each thread on a core of its own, until nothing happens or `until`: what they came to, and
/// their pieces of work, in microseconds.
fn alone(scripts: &Scripts, until: u64) -> (Vec<ThreadOutcome>, Vec<Piece>) {
    let mut scripted = ScriptedThreads::new(scripts, &System::new(1, Vec::new()));
    let (mut due, mut pieces) = (BTreeSet::new(), Vec::new());
    let mut number = 0;
    let mut left = BTreeMap::new();
    let mut now = Instant::ZERO;
    for thread in 0..scripts.threads.len() as u32 {
        scripted.start(thread, now);
    }
    loop {
        for effect in scripted.effects() {
            number += 1;
            match effect {
                Effect::Work { thread, left: work, .. } => {
                    let to = now + work;
                    left.insert(thread as usize, to);
                    pieces.push((thread, now.ticks() / 1_000, to.ticks() / 1_000));
                    due.insert((to, number, thread, true));
                }
                Effect::Alarm(thread, at) => {
                    due.insert((at, number, thread, false));
                }
                Effect::Block(_) => {}
                Effect::Release(_) | Effect::Complete(_) => panic!("without jobs: {effect:?}"),
            }
        }
        let next = due.pop_first().filter(|(at, ..)| *at < Instant::ZERO + us(until));
        let Some((at, _, thread, works)) = next else { break };
        now = at;
        if works { scripted.worked(thread, now) } else { scripted.alarm(thread, now) }
    }
    let end = Instant::ZERO + us(until);
    let left = |thread: usize| left.get(&thread).map_or(us(0), |to| to.saturating_since(end));
    (scripted.acted(end, left), pieces)
}
fn pieces(threads: Vec<Script>, until: u64) -> Vec<Piece> {
    alone(&scripts(threads), until).1
}

#[test]
fn runs_and_sleeps_come_in_order_as_often_as_the_loops_say() {
    let phases = vec![
        Phase { steps: vec![run(3), sleep(4)], loops: Some(2) },
        Phase { steps: vec![run(5)], loops: Some(1) },
    ];
    let (start, loops) = (Instant::ZERO + us(10), Some(2));
    let script = Script { phases, loops, start, forked: false };
    let (acted, pieces) = alone(&scripts(vec![script]), 1_000);
    let expected = [(0, 10, 13), (0, 17, 20), (0, 24, 29), (0, 29, 32), (0, 36, 39), (0, 43, 48)];
    assert_eq!(pieces, expected);
    assert_eq!((acted[0].work, acted[0].loops, &acted[0].at_end), (us(22), 6, &AtEnd::Over));
    // Four sleeps and the end; the longest is 29 to 32 after 24 to 29.
    assert_eq!((acted[0].activations, acted[0].response_max), (5, us(8)));
}

#[test]
fn a_late_thread_keeps_an_absolute_timers_grid_and_moves_a_relative_ones() {
    for (absolute, begins) in [(true, [0, 10, 35, 40]), (false, [0, 10, 35, 45])] {
        let timer = Step::Timer { timer: 0, period: us(10) };
        let phases = vec![
            Phase { steps: vec![run(1), timer.clone()], loops: Some(1) },
            Phase { steps: vec![run(25), timer.clone()], loops: Some(1) },
            Phase { steps: vec![run(1), timer], loops: None },
        ];
        let script = Script { phases, ..once(Vec::new()) };
        let mut scripts = scripts(vec![script]);
        scripts.timers[0].absolute = absolute;
        let pieces = alone(&scripts, 50).1;
        let starts: Vec<u64> = pieces.iter().map(|(_, from, _)| *from).collect();
        // On the grid the job of 20 begins at 35 and ends after 30: the next begins at once.
        let on_grid = [0, 10, 35, 36, 40];
        let expected = if absolute { &on_grid[..] } else { &begins[..] };
        assert_eq!(starts, expected, "absolute: {absolute}");
    }
}

#[test]
fn a_timer_that_two_threads_share_moves_with_both() {
    let timer = Step::Timer { timer: 0, period: us(10) };
    let threads =
        vec![once(vec![run(1), timer.clone(), run(1)]), once(vec![run(2), timer, run(2)])];
    // The first waits for 10, the second for 20.
    assert_eq!(pieces(threads, 100), [(0, 0, 1), (1, 0, 2), (0, 10, 11), (1, 20, 22)]);
}

#[test]
fn a_lock_serves_who_came_first_and_only_its_holder_gives_it_back() {
    let holder = |before, within| {
        once(vec![run(before), Step::Lock(0), run(within), Step::Unlock(0), run(1)])
    };
    let other = once(vec![run(2), Step::Unlock(0), run(1)]);
    let (acted, pieces) =
        alone(&scripts(vec![holder(1, 10), holder(3, 20), holder(2, 30), other]), 99);
    let within: Vec<Piece> = pieces.into_iter().filter(|(_, from, to)| to - from >= 10).collect();
    assert_eq!(within, [(0, 1, 11), (2, 11, 41), (1, 41, 61)]);
    let waits: Vec<_> = acted.iter().map(|it| (it.lock_waits, it.lock_sum, it.lock_max)).collect();
    assert_eq!(waits[1..3], [(1, us(38), us(38)), (1, us(9), us(9))]);
    assert!(acted.iter().all(|it| it.at_end == AtEnd::Over));
}

#[test]
fn a_condition_gives_its_lock_back_and_takes_it_again() {
    let waiter = once(vec![
        run(1),
        Step::Lock(0),
        Step::Wait { condition: 0, lock: Some(0) },
        run(5),
        Step::Unlock(0),
    ]);
    let waker = once(vec![run(3), Step::Lock(0), Step::Signal(0), run(4), Step::Unlock(0)]);
    // Signalled at 3, the waiter has the lock at 7.
    let (acted, pieces) = alone(&scripts(vec![waiter, waker]), 99);
    assert_eq!(pieces, [(0, 0, 1), (1, 0, 3), (1, 3, 7), (0, 7, 12)]);
    assert_eq!((acted[0].lock_waits, acted[0].lock_sum), (1, us(4)));
}

#[test]
fn a_signal_wakes_one_a_broadcast_all_and_neither_is_kept() {
    let waiter = |n| once(vec![run(n), Step::Wait { condition: 0, lock: None }, run(10)]);
    for (wake, woken) in [(Step::Signal(0), vec![1]), (Step::Broadcast(0), vec![1, 0])] {
        // What wakes at 1 wakes none.
        let waker = once(vec![run(1), wake.clone(), run(4), wake]);
        let (acted, pieces) = alone(&scripts(vec![waiter(3), waiter(2), waker]), 99);
        let after: Vec<u32> = pieces.iter().filter(|it| it.1 == 5).map(|it| it.0).collect();
        assert_eq!(after, woken);
        let waits = AtEnd::Waits("condition a".into(), Instant::ZERO + us(3));
        let end = if woken.len() == 2 { AtEnd::Over } else { waits };
        assert_eq!(acted[0].at_end, end);
    }
}

#[test]
fn a_semaphore_keeps_what_came_early() {
    let poster = once(vec![run(1), Step::Post(0), Step::Post(0), run(9), Step::Post(0)]);
    let taker =
        once(vec![run(5), Step::Take(0), run(1), Step::Take(0), run(1), Step::Take(0), run(1)]);
    let pieces = pieces(vec![poster, taker], 99);
    let taken: Vec<u64> = pieces.iter().filter(|it| it.0 == 1).map(|it| it.1).collect();
    assert_eq!(taken, [0, 5, 6, 10]);
}

#[test]
fn a_barrier_lets_all_go_when_the_last_is_there_and_counts_anew() {
    let thread = |n| script(Some(2), vec![run(n), Step::Barrier(0)]);
    let (acted, pieces) = alone(&scripts(vec![thread(3), thread(8)]), 99);
    // The last goes on at once, the other when it wakes; at the end that takes a moment.
    assert_eq!(pieces, [(0, 0, 3), (1, 0, 8), (0, 8, 11), (1, 8, 16), (0, 16, 17)]);
    assert!(acted.iter().all(|it| it.at_end == AtEnd::Over));
}

#[test]
fn a_fork_starts_what_does_not_run_and_says_where_none_is_left() {
    let fork = Step::Fork(vec![1, 2]);
    let parent = once(vec![run(1), fork.clone(), fork.clone(), fork.clone(), run(9), fork]);
    let child = |n| Script { forked: true, ..once(vec![run(n)]) };
    let (acted, pieces) = alone(&scripts(vec![parent, child(4), child(20)]), 99);
    assert_eq!(pieces, [(0, 0, 1), (1, 1, 5), (2, 1, 21), (0, 1, 10), (1, 10, 14)]);
    assert_eq!((acted[0].unforked, &acted[1].at_end), (1, &AtEnd::Over));
}

#[test]
fn what_never_waits_still_lets_time_pass() {
    let spinner = script(None, vec![Step::Signal(0)]);
    let ping = |own, other| {
        let wait = Step::Wait { condition: own, lock: None };
        script(None, vec![Step::Broadcast(other), wait])
    };
    let (acted, pieces) = alone(&scripts(vec![spinner, ping(0, 1), ping(1, 0)]), 100);
    assert!(pieces.len() < 500, "{}", pieces.len());
    assert_eq!(acted[0].work, MIN_STEP * 100);
}

#[test]
fn steps_after_work_take_no_time_in_however_many_phases_until_one_comes_again() {
    let phase = |loops, step| Phase { steps: vec![step], loops: Some(loops) };
    let of = |loops| {
        let mut phases = vec![phase(1, run(5))];
        phases.extend((0..4).map(|_| phase(loops, Step::Signal(0))));
        phases.push(phase(1, run(5)));
        pieces(vec![Script { phases, ..once(Vec::new()) }], 99)
    };
    assert_eq!(of(1), [(0, 0, 5), (0, 5, 10)]);
    // Three passes are two that come back, in each of the four phases.
    let all = of(3);
    assert_eq!((all.len(), all.last()), (10, Some(&(0, 13, 18))));
}

#[test]
fn a_forked_thread_begins_after_its_delay() {
    let start = Instant::ZERO + us(30);
    let child = Script { forked: true, start, ..once(vec![run(4)]) };
    let fork = Step::Fork(vec![1]);
    let parent = once(vec![run(1), fork.clone(), run(49), fork, run(9)]);
    // The delay counts from the start of all: the second comes after it.
    let expected = [(0, 0, 1), (0, 1, 50), (1, 30, 34), (1, 50, 54), (0, 50, 59)];
    assert_eq!(pieces(vec![parent, child], 99), expected);
}

#[test]
fn a_pass_counts_when_its_last_step_is_done() {
    let loops = |until| {
        let thread = script(None, vec![run(3), sleep(7)]);
        alone(&scripts(vec![thread, once(vec![run(20)])]), until).0
    };
    assert_eq!([9, 11, 20, 21].map(|until| loops(until)[0].loops), [0, 1, 1, 2]);
    assert_eq!([19, 21].map(|until| loops(until)[1].loops), [0, 1]);
}

#[test]
fn threads_that_hold_what_the_other_wants_wait_for_ever() {
    let thread =
        |first, second| once(vec![run(1), Step::Lock(first), run(1), Step::Lock(second), run(1)]);
    let (acted, _) = alone(&scripts(vec![thread(0, 1), thread(1, 0)]), 50);
    let since = Instant::ZERO + us(2);
    assert_eq!(acted[0].at_end, AtEnd::Waits("lock b".into(), since));
    assert_eq!(acted[1].at_end, AtEnd::Waits("lock a".into(), since));
    assert_eq!(acted[0].lock_sum, us(48));
}

/// A small generator of numbers, as good as these cases need (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        let (factor, more) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(more);
        (self.0 >> 33) % n
    }
}

/// Threads that work inside and outside of locks, take them in one order, and post as much as they
/// take. What is done inside of lock a takes 1000 us and more, inside of b 2000, and nothing else.
fn random(numbers: &mut Numbers) -> Scripts {
    let threads = 2 + numbers.below(4);
    let posts = 1 + numbers.below(20);
    let mut all = Vec::new();
    for _ in 0..threads {
        let mut steps = vec![run(1 + numbers.below(50))];
        for _ in 0..1 + numbers.below(5) {
            let lock = numbers.below(2) as u32;
            let within = 1_000 * (1 + u64::from(lock)) + numbers.below(400);
            steps.extend([Step::Lock(lock), run(within), Step::Unlock(lock)]);
            match numbers.below(3) {
                0 => steps.push(sleep(1 + numbers.below(99))),
                1 => steps.push(run(1 + numbers.below(99))),
                _ => {}
            }
        }
        all.push(script(Some(1 + numbers.below(6) as u32), steps));
    }
    all.push(script(Some(posts as u32), vec![run(1 + numbers.below(300)), Step::Post(0)]));
    all.push(script(Some(posts as u32), vec![run(1 + numbers.below(300)), Step::Take(0)]));
    scripts(all)
}

fn worth(script: &Script) -> Duration {
    let of = |phase: &Phase| {
        let work =
            phase.steps.iter().map(|step| if let Step::Run(work) = step { *work } else { us(0) });
        work.sum::<Duration>() * u64::from(phase.loops.unwrap_or(0))
    };
    script.phases.iter().map(of).sum()
}

#[test]
fn no_lock_is_held_twice_no_wake_is_lost_and_all_work_is_done() {
    let mut numbers = Numbers(1);
    for case in 0..300 {
        let scripts = random(&mut numbers);
        let (acted, pieces) = alone(&scripts, 10_000_000);
        for lock in [1_000, 2_000] {
            let is_within = |it: &&Piece| (lock..lock + 400).contains(&(it.2 - it.1));
            let mut within: Vec<_> = pieces.iter().filter(is_within).collect();
            within.sort_by_key(|it| it.1);
            assert!(within.windows(2).all(|two| two[0].2 <= two[1].1), "{case}: {within:?}");
        }
        for (script, acted) in scripts.threads.iter().zip(&acted) {
            assert_eq!(acted.at_end, AtEnd::Over, "{case}: {script:?}");
            let acts = acted.work - worth(script);
            // A moment after each wake at most.
            assert!(acts <= MIN_STEP * (acted.activations + acted.lock_waits), "{case}: {acts}");
        }
    }
}

/// Sums up what VCPUs were given, and holds jobs to their rules.
#[derive(Default)]
struct Given {
    service: BTreeMap<VcpuId, Duration>,
    released: BTreeMap<VcpuId, Instant>,
}

impl Observer for Given {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            *self.service.entry(segment.vcpu).or_default() += segment.usage.service;
        } else if let Event::Released(job) = event {
            let last = self.released.insert(job.id.vcpu, at);
            assert!(last.is_none_or(|last| at - last >= us(1_000)), "{job:?} after {last:?}");
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

#[test]
fn under_every_policy_the_time_given_is_the_work_done() {
    let mut numbers = Numbers(7);
    for name in ["maracas", "p-edf", "g-edf", "g-rm", "u-edf", "qps", "pd2", "round-robin"] {
        let entry = maracas_policies::find(name).expect(name);
        for case in 0..8 {
            let scripts = random(&mut numbers);
            let arrival = if entry.needs.jobs { Arrival::Sporadic } else { Arrival::None };
            let count = scripts.threads.len() as u32;
            let vcpu = |id| Vcpu { arrival, ..Vcpu::new(id, us(200), us(1_000)) };
            let system = System::new(3, (0..count).map(vcpu).collect());
            let programs: Vec<Program> =
                (0..count).map(|id| Program::new(VcpuId(id), Workload::Script)).collect();
            let mut policy = (entry.build)(&system, &Params::new()).expect(name);
            let subject = Subject {
                system: &system,
                programs: &programs,
                memory: None,
                paces: &[],
                scripts: Some(&scripts),
            };
            // All end within the longer time.
            let long = case % 2 == 0;
            let until = Instant::ZERO + us(if long { 20_000_000 } else { 77_777 });
            let options = Options { audit: true, ..Options::new(until) };
            let mut given = Given::default();
            let outcome = simulate(&subject, policy.as_mut(), &options, &mut given);
            assert!(outcome.missed == 0 || !entry.claims.no_miss_when_admitted, "{name}, {case}");
            for (id, acted) in (0..).zip(&outcome.acted) {
                assert!(!long || acted.at_end == AtEnd::Over, "{name}, {case}: {acted:?}");
                let service = given.service.get(&VcpuId(id)).copied().unwrap_or_default();
                assert_eq!(acted.work, service, "{name}, case {case}, thread {id}");
            }
        }
    }
}
