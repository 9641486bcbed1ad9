use super::cost::{Primitive, Samples, Summary, call_times};
use super::hierarchy::parts;
use super::locks::{Costs, Lock, Request, measured_requests, queue, requests};
use super::replay::{Stopwatch, replay, steady};
use super::stream::{Cause, Step, Stream, Unlike, record};
use maracas_core::contract::{Claims, Entry, Event, Grant, Limit, Needs, no_service_vcpus};
use maracas_core::params::Params;
use maracas_core::{
    CoreId, Cost, Duration, Instant, Plan, Policy, Program, System, Vcpu, VcpuId, Workload,
};
use std::sync::atomic::{AtomicU16, Ordering};

/// Tasks (C, T) in ticks.
fn system(cores: usize, tasks: &[(u64, u64)]) -> System {
    let task = |(id, (c, t)): (u32, &(u64, u64))| {
        Vcpu::new(id, Duration::from_ticks(*c), Duration::from_ticks(*t)).periodic()
    };
    System::new(cores, (0..).zip(tasks).map(task).collect())
}

fn recorded(name: &str, system: &System, until: u64) -> Stream {
    record_by(maracas_policies::find(name).unwrap(), system, until).unwrap()
}

fn record_by(entry: &Entry, system: &System, until: u64) -> Result<Stream, Unlike> {
    let workload = |vcpu: &Vcpu| Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) };
    let programs: Vec<_> =
        system.vcpus.iter().map(|vcpu| Program::new(vcpu.id, workload(vcpu))).collect();
    record(system, &programs, entry, &Params::new(), Instant::from_ticks(until))
}

/// Reads 1, 2, 4, 7, ...: the k-th pair of readings is 2k - 1 apart. Times every other step.
#[derive(Default)]
struct Counting {
    reading: u64,
    reads: u64,
    every: u64,
    steps: u64,
}

impl Stopwatch for Counting {
    fn prepare(&mut self, _: Step) -> bool {
        self.steps += 1;
        self.steps.is_multiple_of(self.every)
    }
    fn read(&mut self) -> u64 {
        self.reading += self.reads;
        self.reads += 1;
        self.reading
    }
}

#[test]
fn a_stream_holds_every_call_with_its_cause() {
    // algorithms.md A.4, vector A1: three duals of a third of a core each take turns of one tick.
    let stream = recorded("run", &system(2, &[(2, 3); 3]), 12);
    assert_eq!(stream.jobs(), 12);
    let calls: Vec<_> = stream.calls().collect();
    let first: Vec<_> = calls[0].steps().collect();
    let decide = Step::Decide { cause: Cause::Release, updates_tree: true };
    assert_eq!(first, [Step::Release, Step::Release, Step::Release, decide]);
    // Budgets of duals end 1 and 2 after each release, and the last one with the next.
    let trees = calls.iter().filter(|call| call.updates_tree).map(|call| call.now.ticks());
    assert_eq!(trees.collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    // At 1 no VCPU completes: t1 is stopped for t0 by the timer alone, and then that is reported.
    let at_one = calls.iter().filter(|call| call.now.ticks() == 1).map(|call| call.cause);
    assert_eq!(at_one.collect::<Vec<_>>(), [Cause::Timer, Cause::Switch]);
    assert!(calls.iter().any(|call| call.cause == Cause::Completion));
    let reported: usize = calls.iter().map(|call| call.events.len()).sum();
    assert_eq!(stream.steps().count(), reported + calls.len());
}

#[test]
fn a_refusal_is_reported_and_an_impure_policy_is_caught() {
    let refused = record_by(maracas_policies::find("run").unwrap(), &system(1, &[(2, 3); 3]), 9);
    assert!(matches!(&refused, Err(Unlike::Refused(_))), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("vcpu"));

    /// Gives the first task another core every time it is built.
    struct Fickle(CoreId);
    static NEXT: AtomicU16 = AtomicU16::new(0);
    impl Policy for Fickle {
        fn on_event(&mut self, _: Instant, _: &Event) {}
        fn plan(&mut self, _: Instant, plan: &mut Plan) {
            let run_queue = &mut plan.run_queue_mut(self.0).foreground;
            run_queue.clear();
            run_queue.push(Grant::new(VcpuId(0), Limit::NEVER));
        }
    }
    let entry = Entry {
        name: "fickle",
        paper: "",
        summary: "",
        params: &[],
        needs: Needs { jobs: true, ..Needs::BUDGETS },
        claims: Claims::default(),
        service_vcpus: no_service_vcpus,
        admit: |_, _| Default::default(),
        fits: None,
        build: |_, _| Ok(Box::new(Fickle(CoreId(NEXT.fetch_add(1, Ordering::Relaxed) % 2)))),
    };
    let unlike = record_by(&entry, &system(2, &[(1, 3)]), 9).unwrap_err();
    assert_eq!(unlike, Unlike::Replay(Instant::ZERO));
}

#[test]
fn replays_time_the_chosen_steps() {
    let system = system(2, &[(2, 3); 3]);
    for name in ["p-edf", "g-edf", "run", "qps"] {
        let entry = maracas_policies::find(name).unwrap();
        let Ok(stream) = record_by(entry, &system, 30) else { continue };
        let mut policy = (entry.build)(&system, &Params::new()).unwrap();
        let mut watch = Counting { every: 2, ..Counting::default() };
        let times = replay(&stream, policy.as_mut(), 2, &mut watch);
        assert_eq!(times.len(), stream.steps().count());
        assert_eq!(times[..4], [None, Some(1), None, Some(3)], "{name}");
    }
}

#[test]
fn what_came_once_is_dropped_and_the_rest_averaged() {
    let runs = [vec![Some(5), None], vec![Some(900), None], vec![Some(7), None]];
    assert_eq!(steady(&runs), [Some(7), None]);
    // Of eight the middle four: 20, 20, 30, 30.
    let eight = [30, 20, 0, 20, 30, 20, 30, 999].map(|time| vec![Some(time)]);
    assert_eq!(steady(&eight), [Some(25)]);
    assert!(steady(&[]).is_empty());
}

#[test]
fn times_are_kept_by_primitive_less_the_clock() {
    let stream = recorded("run", &system(2, &[(2, 3); 3]), 3);
    let steps: Vec<_> = stream.steps().collect();
    let mut times: Vec<_> = (0..steps.len() as u32).map(|place| Some(100 + place)).collect();
    let mut samples = Samples::default();
    samples.add_steps(&stream, &times, 100);
    samples.add_calls(&stream, &times, 100);
    // Three releases, then the decision.
    let release = samples.summary(Primitive::Release).unwrap();
    assert_eq!((release.samples, release.median, release.max), (3, 1, 2));
    let decision = samples.summary(Primitive::ScheduleRelease).unwrap();
    assert_eq!((decision.samples, decision.median), (1, 3));
    assert_eq!(samples.per_job(Primitive::Schedule), stream.calls().count() as f64 / 3.0);
    assert_eq!(samples.per_job(Primitive::TreeUpdate), 1.0);
    // The first call is all four steps.
    let calls = call_times(&stream, &times, 100);
    assert_eq!((calls[0], calls.len()), (Some(1 + 2 + 3), stream.calls().count()));
    let all: u32 = (0..steps.len() as u32).sum();
    assert_eq!(calls.iter().flatten().sum::<u32>(), all);
    assert_eq!(samples.summary(Primitive::Call).map(|call| call.samples), Some(calls.len()));
    // A call of which one step was not timed says nothing of the whole.
    let mut holes = Samples::default();
    times[1] = None;
    holes.add_steps(&stream, &times, 100);
    holes.add_calls(&stream, &times, 100);
    assert_eq!(holes.summary(Primitive::Call).map(|call| call.samples), Some(calls.len() - 1));
    assert_eq!(holes.summary(Primitive::Release).map(|release| release.samples), Some(2));
    assert_eq!(holes.per_job(Primitive::Release), 1.0);
}

#[test]
fn percentiles_are_by_nearest_rank_and_the_mean_leaves_the_thousandth_out() {
    let summary = Summary::of((1..=2000).rev().collect()).unwrap();
    let Summary { samples, median, p99, p999, max, mean } = summary;
    assert_eq!((samples, median, p99, p999, max), (2000, 1000, 1980, 1998, 2000));
    assert_eq!(mean, 1998.0 * 1999.0 / 2.0 / 1998.0);
    let one = Summary::of(vec![7]).unwrap();
    assert_eq!((one.median, one.p99, one.p999, one.max, one.mean), (7, 7, 7, 7, 7.0));
    assert_eq!(Summary::of(Vec::new()), None);
}

#[test]
fn parts_hold_every_task_once_on_cores_of_their_own() {
    // algorithms.md A.4, vector A4: two unit servers. B.5, vector B3: two masters in the third set.
    let a4 = [(1, 2), (1, 3), (1, 6), (2, 4), (3, 6)];
    let shapes = |name, cores, tasks: &[(u64, u64)]| {
        let entry = maracas_policies::find(name).unwrap();
        let system = system(cores, tasks);
        let parts = parts(entry, &system, &Params::new()).unwrap();
        let mut loads: Vec<_> = parts.iter().flat_map(|part| &part.vcpus).collect();
        loads.sort_by_key(|vcpu| (vcpu.reservation.period, vcpu.reservation.budget));
        let mut all: Vec<_> = system.vcpus.iter().collect();
        all.sort_by_key(|vcpu| (vcpu.reservation.period, vcpu.reservation.budget));
        assert!(loads.iter().zip(&all).all(|(a, b)| a.reservation == b.reservation), "{name}");
        assert_eq!(loads.len(), all.len(), "{name}");
        for part in &parts {
            assert!(part.vcpus.iter().zip(0..).all(|(vcpu, id)| vcpu.id == VcpuId(id)));
            assert!((entry.admit)(part, &Params::new()).accepted(), "{name}");
        }
        parts.iter().map(|part| (part.cores.len(), part.vcpus.len())).collect::<Vec<_>>()
    };
    assert_eq!(shapes("run", 2, &a4), [(1, 2), (1, 3)]);
    assert_eq!(shapes("p-edf", 2, &a4), [(1, 2), (1, 3)]);
    assert_eq!(shapes("g-edf", 2, &a4), [(2, 5)]);
    assert_eq!(shapes("qps", 3, &[(3, 5); 5]), [(3, 5)]);
    assert_eq!(shapes("run", 3, &[(3, 5); 5]), [(3, 5)]);
    let refusing = maracas_policies::find("p-edf").unwrap();
    assert!(parts(refusing, &system(2, &[(2, 3); 3]), &Params::new()).is_err());
}

#[test]
fn a_part_does_in_a_system_of_its_own_what_it_does_in_the_whole() {
    let system = system(4, &[(2, 3), (2, 3), (2, 3), (1, 2), (1, 2), (1, 4), (3, 4)]);
    for name in ["run", "qps"] {
        let entry = maracas_policies::find(name).unwrap();
        let parts = parts(entry, &system, &Params::new()).unwrap();
        assert!(parts.len() > 1, "{name}");
        let released = |stream: &Stream| stream.jobs();
        let whole = recorded(name, &system, 120);
        let split: Vec<_> = parts.iter().map(|part| recorded(name, part, 120)).collect();
        assert_eq!(released(&whole), split.iter().map(released).sum::<u64>(), "{name}");
        let segments =
            |stream: &Stream| stream.steps().filter(|step| *step == Step::Segment).count();
        assert_eq!(segments(&whole), split.iter().map(segments).sum::<usize>(), "{name}");
    }
}

fn request(at: u64, lock: usize, cost: u64) -> Request {
    Request { at, lock: Lock(lock), cost }
}

#[test]
fn callers_wait_in_the_order_in_which_they_come() {
    // Lock 0: 0..5, 5..8 (waits 5), 8..10 (waits 1), 20..21. Lock 1: 3..13 and 13..14 (waits 9).
    let come = [
        request(0, 0, 5),
        request(0, 0, 3),
        request(3, 1, 10),
        request(4, 1, 1),
        request(7, 0, 2),
        request(20, 0, 1),
    ];
    let waits = queue(&come, 2);
    assert_eq!((waits.requests, waits.max, waits.p99), (6, 9, 9));
    assert_eq!((waits.waited, waits.mean), (0.5, 15.0 / 6.0));
    assert_eq!(waits.held, [11, 11]);
    // One lock: 0..5, 5..8 (5), 8..18 (5), 18..19 (14), 19..21 (12), 21..22 (1).
    let one: Vec<_> = come.iter().map(|own| Request { lock: Lock(0), ..*own }).collect();
    let waits = queue(&one, 1);
    assert_eq!((waits.max, waits.mean, waits.held), (14, 37.0 / 6.0, vec![22]));
    assert_eq!(queue(&[], 1).mean, 0.0);
}

/// With the same requests no VCPU waits less for one lock than for one of several.
#[test]
fn a_global_lock_never_makes_anyone_wait_less() {
    // A linear congruential generator (Knuth's MMIX) suffices to vary the cases.
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for _ in 0..200 {
        let (locks, gap, cost) = (1 + below(8) as usize, 1 + below(50), 1 + below(50));
        let mut at = 0;
        let come: Vec<_> = (0..100)
            .map(|_| {
                at += below(gap);
                request(at, below(locks as u64) as usize, below(cost))
            })
            .collect();
        let one: Vec<_> = come.iter().map(|own| Request { lock: Lock(0), ..*own }).collect();
        let (split, global) = (queue(&come, locks), queue(&one, 1));
        assert!(split.mean <= global.mean && split.max <= global.max && split.p99 <= global.p99);
        assert_eq!(split.held.iter().sum::<u64>(), global.held[0]);
    }
}

#[test]
fn every_core_calls_for_itself_and_releases_of_one_instant_come_together() {
    let costs = Costs::from_fn(|primitive| match primitive {
        Primitive::Release => 1,
        Primitive::Completion => 10,
        Primitive::Segment => 100,
        Primitive::ScheduleRelease => 1_000,
        Primitive::ScheduleCompletion => 2_000,
        Primitive::BudgetTimer => 3_000,
        Primitive::ScheduleSwitch => 4_000,
        Primitive::Schedule | Primitive::TreeUpdate | Primitive::Call => 0,
    });
    // Vector A1 again: t1 and t2 run at 0; t0 takes over from t1 at 1, t1 from t2, complete, at 2.
    let stream = recorded("run", &system(2, &[(2, 3); 3]), 3);
    let come: Vec<_> = requests(&stream, Lock(4), &costs);
    assert!(come.iter().all(|own| own.lock == Lock(4)));
    let shown: Vec<_> = come.iter().map(|own| (own.at, own.cost)).collect();
    assert_eq!(shown, [(0, 1_003), (1, 3_000), (1, 4_100), (2, 2_110)]);
    // By measured times, a call's time is shared by its callers: the two completions at 2 and 3.
    let stream = recorded("p-edf", &system(2, &[(2, 3), (2, 3)]), 3);
    let times: Vec<_> = stream.calls().map(|_| Some(7)).collect();
    let come = measured_requests(&stream, Lock(0), &times);
    let shown: Vec<_> = come.iter().map(|own| (own.at, own.cost)).collect();
    assert_eq!(shown, [(0, 7), (2, 3), (2, 4)]);
}
