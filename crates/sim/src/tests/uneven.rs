//! Cores of uneven speed: progress and instructions by hand-worked paces, and how much of the
//! classes' ratio programs that wait for memory feel.

use super::memory::{Reported, memory, strides};
use super::*;
use crate::memory::{SharedMemory, UnevenCores};
use crate::rng::{Purpose, Stream};
use maracas_core::contract::{End, Segment, ServiceRequest, Usage};
use maracas_core::memory::{CachePart, MemoryUse, Profile};
use maracas_core::{Arrival, Pace, PacePhase, Role};

const MS: u64 = 1_000_000;
/// Instructions per second for one in a tick.
const ONE: u64 = 1_000_000_000;

/// Core 0 is fast, core 1 runs at 40 %.
fn fast_and_slow(vcpus: Vec<Vcpu>) -> System {
    System::new(2, vcpus).uneven(&[(1, 1_000), (1, 400)])
}

fn phase(work: u64, ips: &[u64]) -> PacePhase {
    PacePhase { work: ticks(work), ips: ips.to_vec() }
}

fn simulate_uneven(
    system: &System,
    programs: &[Program],
    paces: &[Option<Pace>],
    policy: &mut dyn Policy,
    options: Options,
) -> (Outcome, Reported) {
    let mut reported = Reported::default();
    let options = Options { audit: true, ..options };
    let model = UnevenCores::new(system, paces);
    let outcome = run_with(system, programs, policy, &options, &mut reported, model);
    (outcome, reported)
}

fn on(core: u16, vcpu: u32) -> (u16, RunQueue) {
    (core, Script::run_queue(&[], &[always(vcpu)]))
}

fn none(core: u16) -> (u16, RunQueue) {
    (core, RunQueue::default())
}

/// Puts VCPU 0 on one core after another, from these times on.
fn wanders(steps: &[(u64, u16)]) -> Script {
    let step = |(at, core): &(u64, u16)| (*at, vec![none(1 - core), on(*core, 0)]);
    Script::new(steps.iter().map(step).collect())
}

#[test]
fn a_job_takes_its_cost_on_the_fast_core_and_its_ratio_of_it_on_the_slow_one() {
    let system = fast_and_slow(vec![task(0, MS, 90 * MS), task(1, MS, 90 * MS)]);
    let pace = Pace::steady(vec![3 * ONE, 2 * ONE]);
    let mut script = Script::new(vec![(0, vec![on(0, 0), on(1, 1)])]);
    let programs = [job(0, 10 * MS), job(1, 10 * MS)];
    // Not one tick later than 15 ms, though 2/3 is no binary fraction.
    let paces = [Some(pace.clone()), Some(pace)];
    let options = Options::new(at(80 * MS));
    let (outcome, reported) = simulate_uneven(&system, &programs, &paces, &mut script, options);
    let ends: Vec<_> = reported.segments.iter().map(|one| (one.to, one.usage)).collect();
    let usage = |time: u64, instructions| (at(time), used(time, instructions));
    assert_eq!(ends, [usage(10 * MS, 30 * MS), usage(15 * MS, 30 * MS)]);
    assert_eq!((outcome.completed, outcome.memory), (2, None));
}

fn used(service: u64, instructions: u64) -> Usage {
    Usage { service: ticks(service), instructions, ..Usage::default() }
}

#[test]
fn what_has_no_pace_runs_at_the_speed_of_the_class() {
    // Whether the list says `None` or ends before it, and service VCPUs too.
    let service_vcpu = Vcpu { role: Role::Migration, ..server(2) };
    let system = fast_and_slow(vec![task(0, MS, 90 * MS), task(1, MS, 90 * MS), service_vcpu]);
    let run_queue = Script::run_queue(&[always(2), always(0), always(1)], &[]);
    let script = || Script::new(vec![(0, vec![(1, run_queue.clone())])]);
    struct Sends(Script);
    impl Policy for Sends {
        fn on_event(&mut self, at: Instant, event: &Event) {
            self.0.on_event(at, event);
        }
        fn plan(&mut self, now: Instant, plan: &mut Plan) {
            self.0.plan(now, plan);
            let service_request =
                ServiceRequest::Move { vcpu: VcpuId(0), to: CoreId(1), colors: None };
            plan.service_request = (now == Instant::ZERO).then_some((VcpuId(2), service_request));
        }
    }
    let overheads = Overheads { structure: ticks(100), ..Overheads::FREE };
    let options = Options { overheads, ..Options::new(at(80 * MS)) };
    let programs = [job(0, 2 * MS), job(1, 4 * MS)];
    let (_, reported) = simulate_uneven(&system, &programs, &[None], &mut Sends(script()), options);
    let ran: Vec<_> = reported.segments.iter().map(|one| (one.vcpu.0, one.usage)).collect();
    // 100 ticks of service request take 250; a thousand million instructions per second at full
    // speed.
    let expected = [(2, used(250, 100)), (0, used(5 * MS, 2 * MS)), (1, used(10 * MS, 4 * MS))];
    assert_eq!(ran, expected);
}

#[test]
fn phases_last_for_work_wherever_it_is_done() {
    let phases = vec![phase(2 * MS, &[2 * ONE, ONE]), phase(MS, &[4 * ONE, ONE])];
    let system = fast_and_slow(vec![server(0)]);
    let mut script = wanders(&[(0, 1), (3 * MS, 0), (4 * MS, 1), (8 * MS, 0)]);
    let options = Options::new(at(9 * MS));
    let paces = [Some(Pace { phases })];
    let (_, reported) = simulate_uneven(&system, &[busy(0)], &paces, &mut script, options);
    let ran: Vec<_> = reported.segments.iter().map(|one| (one.core.0, one.usage)).collect();
    assert_eq!(
        ran,
        [
            // 3 ms at half speed are 1.5 ms of the first phase's 2.
            (1, used(3 * MS, 3 * MS)),
            // Half a ms to its end, half a ms of the second's 1 ms.
            (0, used(MS, MS + 2 * MS)),
            // 2 ms at a quarter of the speed end the second, 2 ms of the first at half speed.
            (1, used(4 * MS, 2 * MS + 2 * MS)),
            // 1 ms of the first is left.
            (0, used(MS, 2 * MS)),
        ]
    );
}

#[test]
fn segments_that_end_with_a_phase_lose_nothing() {
    let phases = vec![phase(2 * MS, &[2 * ONE, ONE]), phase(MS, &[4 * ONE, ONE])];
    let system = fast_and_slow(vec![server(0)]);
    // Each step falls on the end of a phase, or comes a tick before or after it.
    for off in [-1, 0, 1] {
        let step = |at: u64| (at as i64 + off) as u64;
        let steps = [(0, 0), (step(2 * MS), 1), (step(6 * MS), 0), (step(8 * MS), 1)];
        let mut script = wanders(&steps);
        let options = Options::new(at(10 * MS));
        let paces = [Some(Pace { phases: phases.clone() })];
        let (outcome, reported) =
            simulate_uneven(&system, &[busy(0)], &paces, &mut script, options);
        let instructions: Vec<_> =
            reported.segments.iter().map(|one| one.usage.instructions as i64).collect();
        // Fast in A, slow in B, fast in A, slow in B.
        let whole = [4, 4, 4, 2].map(|each| each * MS as i64);
        for (own, whole) in instructions.iter().zip(whole) {
            assert!((own - whole).abs() <= 4, "{off}: {instructions:?}");
        }
        assert!(off != 0 || instructions == whole, "{instructions:?}");
        assert_eq!(
            reported.segments.iter().map(|one| one.usage.service.ticks()).sum::<u64>(),
            10 * MS
        );
        assert!(outcome.effort.changes <= 12, "{:?}", outcome.effort);
    }
}

#[test]
fn a_migration_is_charged_and_works_nothing() {
    let system = fast_and_slow(vec![server(0)]);
    let overheads = Overheads { migration: ticks(7_000), ..Overheads::FREE };
    let options = Options { overheads, ..Options::new(at(3 * MS)) };
    let paces = [Some(Pace { phases: vec![phase(MS + 500, &[2 * ONE, ONE]); 2] })];
    let mut script = wanders(&[(0, 0), (MS, 1)]);
    let (outcome, reported) = simulate_uneven(&system, &[busy(0)], &paces, &mut script, options);
    let usages: Vec<_> = reported.segments.iter().map(|one| one.usage).collect();
    assert_eq!(usages, [used(MS, 2 * MS), used(2 * MS, 2 * MS - 7_000)]);
    // The phase's end is looked for while the core is stalled, a few times.
    assert!(outcome.effort.changes < 20, "{:?}", outcome.effort);
}

/// Gives every core another VCPU again and again, at instants of its own.
struct Shuffles {
    dice: Stream,
    vcpus: u32,
    /// Also wakes in between and has meters read.
    meters: bool,
    turn: u64,
}

impl Shuffles {
    const EVERY: u64 = 777_777;
}

impl Policy for Shuffles {
    fn on_event(&mut self, _: Instant, _: &Event) {}
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if now.ticks() >= self.turn * Self::EVERY {
            self.turn += 1;
            let first = self.dice.uniform(ticks(0), ticks(u64::from(self.vcpus) - 1)).ticks();
            for core in 0..plan.cores() as u32 {
                let own = (0..self.vcpus).filter(|id| (first as u32 + id) % 3 == core);
                let run_queue = Script::run_queue(&[], &own.map(always).collect::<Vec<_>>());
                *plan.run_queue_mut(CoreId(core as u16)) = run_queue;
            }
        }
        plan.wake = at(self.turn * Self::EVERY);
        if self.meters {
            plan.wake = plan.wake.min(now + ticks(33_331));
            plan.wake_metered = true;
        }
    }
}

/// Three classes, five VCPUs without a reservation, phases of odd lengths and paces.
fn shuffled(meters: bool, ticks_per_ns: u64) -> (Outcome, Vec<Usage>, Vec<Segment>) {
    let vcpus: Vec<_> = (0..5).map(Vcpu::best_effort).collect();
    let mut system = System::new(3, vcpus).uneven(&[(1, 1_000), (1, 700), (1, 250)]);
    system.ticks_per_ns = ticks_per_ns;
    let pace = |id: u64| Pace {
        phases: vec![
            phase(MS / 3 * ticks_per_ns, &[3 * ONE + id, 2 * ONE + 7 * id, ONE]),
            phase(MS / 7 * ticks_per_ns, &[ONE + 1, ONE - id, ONE / 3]),
        ],
    };
    let paces: Vec<_> = (0..5).map(|id| (id != 4).then(|| pace(id))).collect();
    let programs = [busy(0), run_sleep(1, MS / 2, MS / 5), busy(2), run_sleep(3, MS, MS), busy(4)];
    let dice = Stream::new(5, Purpose::Gap, 0, 0);
    let policy = &mut Shuffles { dice, vcpus: 5, meters, turn: 0 };
    let options = Options::new(at(60 * MS * ticks_per_ns));
    let (outcome, reported) = simulate_uneven(&system, &programs, &paces, policy, options);
    let sums = (0..5).map(|id| reported.sum(|segment| segment.vcpu == VcpuId(id))).collect();
    (outcome, sums, reported.segments)
}

#[test]
fn reading_the_meters_changes_nothing() {
    let ((whole, sums, _), (split, same, segments)) = (shuffled(false, 1), shuffled(true, 1));
    assert_eq!((sums, whole.idle), (same, split.idle));
    // What is read in between comes with its instructions.
    let metered = segments.iter().filter(|segment| segment.end == End::Metered);
    let least = |segment: &Segment| segment.usage.service.ticks() / 4;
    assert!(metered.clone().count() > 1_000);
    assert!(metered.into_iter().all(|segment| segment.usage.instructions + 1 >= least(segment)));
}

#[test]
fn finer_ticks_count_the_same() {
    let system = |ticks_per_ns| {
        let mut system = fast_and_slow(vec![server(0)]);
        system.ticks_per_ns = ticks_per_ns;
        system
    };
    let paces = [Some(Pace::steady(vec![3 * ONE, 2 * ONE]))];
    let count = |scale: u64| {
        let mut script = wanders(&[(0, 0), (MS * scale, 1)]);
        let options = Options::new(at(3 * MS * scale));
        let (_, reported) =
            simulate_uneven(&system(scale), &[busy(0)], &paces, &mut script, options);
        reported.segments.iter().map(|segment| segment.usage.instructions).collect::<Vec<_>>()
    };
    assert_eq!((count(1), count(12)), (vec![3 * MS, 4 * MS], vec![3 * MS, 4 * MS]));
}

#[test]
fn the_same_work_is_the_same_instructions_wherever_it_is_done() {
    // Jobs of 5 ms of work in phases, shuffled over three classes.
    let works = [MS / 3, MS / 7];
    let phases = vec![
        phase(works[0], &[3 * ONE, 2 * ONE, ONE]),
        phase(works[1], &[2 * ONE, ONE + 77, ONE / 3]),
    ];
    let vcpus = (0..4).map(|id| Vcpu::best_effort(id).periodic());
    let system = System::new(3, vcpus.collect()).uneven(&[(1, 1_000), (1, 500), (1, 160)]);
    let programs = [0, 1, 2, 3].map(|id| job(id, 5 * MS));
    let paces = vec![Some(Pace { phases }); 4];
    let dice = Stream::new(9, Purpose::Gap, 0, 0);
    let policy = &mut Shuffles { dice, vcpus: 4, meters: false, turn: 0 };
    let options = Options::new(at(90 * MS));
    let (outcome, reported) = simulate_uneven(&system, &programs, &paces, policy, options);
    assert_eq!((outcome.completed, outcome.released), (4, 4));
    // 10 rounds of both phases and the rest.
    let round = works[0] + works[1];
    let rest = 5 * MS - 10 * round;
    let expected = 10 * (3 * works[0] + 2 * works[1]) + 3 * rest;
    assert!(rest < works[0]);
    for id in 0..4 {
        let usage = reported.sum(|segment| segment.vcpu == VcpuId(id));
        // A phase ends with a whole tick, so each of 20 may be longer by up to one.
        assert!(usage.instructions.abs_diff(expected) <= 60, "{usage:?} {expected}");
    }
    let cores: std::collections::BTreeSet<_> =
        reported.segments.iter().map(|segment| (segment.vcpu.0, segment.core.0)).collect();
    assert_eq!(cores.len(), 12, "every one ran on every class");
}

#[test]
fn on_equal_cores_it_is_as_if_there_were_no_model() {
    let system = System::new(2, vec![task(0, MS, 5 * MS), server(1), server(2)]);
    let programs = [job(0, MS), busy(1), run_sleep(2, MS / 3, MS / 7)];
    let script = || {
        let run_queue = |turn: u16| vec![on(turn % 2, 1), (1 - turn % 2, lone())];
        Script::new((0..9_u16).map(|turn| (u64::from(turn) * 3 * MS, run_queue(turn))).collect())
    };
    fn lone() -> RunQueue {
        Script::run_queue(&[always(0)], &[always(2)])
    }
    let options = Options { audit: true, ..Options::new(at(40 * MS)) };
    let (mut log, mut policy) = (Log::default(), script());
    let bare = run(&system, &programs, &mut policy, &options, &mut log);
    let (outcome, reported) = simulate_uneven(&system, &programs, &[], &mut script(), options);
    assert_eq!(log.0, reported.log.0);
    assert_eq!((bare.completed, bare.events), (outcome.completed, outcome.events));
}

/// The same cores for a machine that believes that they slow each other down, and looks at all of
/// them at every change.
struct Coupled(UnevenCores);

impl Contention for Coupled {
    const CONTENDS: bool = true;
    const COUPLED: bool = true;
    const SAMPLES: bool = false;
    fn resolve(&mut self, now: Instant, running: &[Option<Resident>]) {
        self.0.resolve(now, running);
    }
    fn next_change(&self) -> Instant {
        self.0.next_change()
    }
    fn advance(&mut self, core: CoreId, time: Duration) -> Progress {
        self.0.advance(core, time)
    }
    fn time_for(&self, core: CoreId, work: Duration) -> Duration {
        self.0.time_for(core, work)
    }
    fn time_to_meter(&self, core: CoreId, metered: u64) -> Duration {
        self.0.time_to_meter(core, metered)
    }
    fn totals(&mut self, now: Instant) -> Option<&MemoryTotals> {
        self.0.totals(now)
    }
    fn pages_to_copy(&self, _: u32, _: Option<CachePart>) -> u64 {
        0
    }
    fn recolor(&mut self, _: Instant, _: u32, _: Option<CachePart>) {}
    fn leave(&mut self, _: u32) {}
}

/// All that happens where jobs, sleeps, two programs on one VCPU, one that leaves, charges and late
/// decisions come together.
fn mixture<C: Contention>(seed: u64, wrap: impl Fn(UnevenCores) -> C) -> (Outcome, Vec<Segment>) {
    let vcpus = vec![task(0, MS, 3 * MS), server(1), Vcpu::best_effort(2), server(3)];
    let system = System::new(3, vcpus).uneven(&[(1, 1_000), (1, 700), (1, 250)]);
    let mut leaving = busy(3);
    leaving.depart = at(20 * MS + seed);
    let programs = [job(0, MS), run_sleep(1, MS / 4, MS / 7), busy(2), leaving, busy(1), busy(3)];
    let lengths = [MS / 5, MS / 3, 1_001, 77];
    let pace = |id: usize| Pace {
        phases: vec![
            phase(lengths[id], &[3 * ONE, 2 * ONE + 1, ONE]),
            phase(MS / 7, &[ONE, ONE - 1, ONE / 3]),
        ],
    };
    let paces: Vec<_> = (0..4).map(|id| Some(pace(id))).collect();
    let options = Options {
        seed,
        late: ticks(seed % 3 * 4_000),
        overheads: Overheads {
            context_switch: ticks(500),
            migration: ticks(3_000),
            release: ticks(700),
            ..Overheads::FREE
        },
        ..Options::new(at(90 * MS))
    };
    let dice = Stream::new(seed, Purpose::Gap, 0, 0);
    let policy = &mut Shuffles { dice, vcpus: 4, meters: seed % 2 == 1, turn: 0 };
    let mut reported = Reported::default();
    let model = wrap(UnevenCores::new(&system, &paces));
    let mut outcome = run_with(&system, &programs, policy, &options, &mut reported, model);
    outcome.effort = Default::default();
    (outcome, reported.segments)
}

#[test]
fn looking_only_at_cores_that_change_changes_nothing() {
    for seed in 0..12 {
        let (own, all) = (mixture(seed, |model| model), mixture(seed, Coupled));
        assert!(own.1.len() > 100 && own.0.completed > 3, "{:?}", own.0);
        assert_eq!(own, all, "seed {seed}");
    }
}

#[test]
fn there_is_no_memory_to_sample() {
    /// Sends for a sample until it learns that there is none.
    struct Samples(bool);
    impl Policy for Samples {
        fn on_event(&mut self, _: Instant, event: &Event) {
            self.0 &= !matches!(event, Event::Failed { .. });
        }
        fn plan(&mut self, _: Instant, plan: &mut Plan) {
            plan.service_request = self.0.then_some((VcpuId(0), ServiceRequest::Sample));
        }
    }
    let system = fast_and_slow(vec![Vcpu { role: Role::Monitor, ..server(0) }]);
    let (_, reported) =
        simulate_uneven(&system, &[], &[], &mut Samples(true), Options::new(at(MS)));
    assert_eq!(reported.log.0.trim_end(), "0:Failed { core: core0, what: Sample }");
}

#[test]
fn what_is_promised_nothing_runs_all_the_same() {
    let sporadic = Vcpu { arrival: Arrival::Sporadic, ..Vcpu::best_effort(2) };
    let vcpus = vec![Vcpu::best_effort(0), Vcpu::best_effort(1).periodic(), sporadic];
    assert!(vcpus.iter().all(|vcpu| vcpu.reservation.is_none()));
    let run_queue = Script::run_queue(&[], &[always(1), always(2), always(0)]);
    let mut script = Script::new(vec![(0, vec![(1, run_queue)])]);
    let overheads = Overheads { context_switch: ticks(10), ..Overheads::FREE };
    let options = Options { overheads, ..Options::new(at(1_000 * MS)) };
    let programs = [busy(0), job(1, 8 * MS), job(2, 4 * MS)];
    let (outcome, reported) =
        simulate_uneven(&fast_and_slow(vcpus), &programs, &[], &mut script, options);
    // A job every 100 ms and 5 to 10 more; on the slow core they take 20 ms and 10 ms.
    assert!((15..=20).contains(&outcome.completed) && outcome.missed == 0, "{outcome:?}");
    assert_eq!(outcome.idle, [ticks(1_000 * MS), ticks(0)]);
    let all = reported.sum(|_| true);
    assert_eq!(all.service, ticks(1_000 * MS));
    assert!(all.instructions.abs_diff(400 * MS) < 1_000, "{all:?}");
}

#[test]
fn a_pace_that_says_nothing_of_a_class_is_refused() {
    let refused = |ips: &[u64]| {
        let pace = Pace::steady(ips.to_vec());
        let made = std::panic::catch_unwind(|| {
            UnevenCores::new(&fast_and_slow(Vec::new()), &[Some(pace)])
        });
        made.is_err()
    };
    let wrong: [&[u64]; 4] = [&[], &[ONE], &[ONE, 0], &[ONE, ONE + 1]];
    assert!(wrong.iter().all(|ips| refused(ips)));
    assert!(!refused(&[ONE, ONE]) && !refused(&[ONE, 1]));
}

/// How much faster each of these programs runs alone on the fast core than alone on the slow one.
fn speedups(uses: &[Option<MemoryUse>]) -> Vec<f64> {
    let took = |one: &Option<MemoryUse>, core: u16| {
        let system = fast_and_slow(vec![task(0, MS, 900 * MS)]);
        let mut reported = Reported::default();
        let model = SharedMemory::new(&system, &memory(vec![one.clone()]));
        let mut script = Script::new(vec![(0, vec![on(core, 0)])]);
        let options = Options::new(at(800 * MS));
        run_with(&system, &[job(0, 100 * MS)], &mut script, &options, &mut reported, model);
        reported.segments[0].to.ticks() as f64
    };
    uses.iter().map(|one| took(one, 1) / took(one, 0)).collect()
}

#[test]
fn what_waits_for_memory_has_a_small_speedup() {
    // Strides that do nothing else; the m_jump of the paper with its shortest delay, one miss in
    // 93 ns of which 25 are its own; a program that hardly ever misses; one without memory.
    let jump = MemoryUse { think_ps: 25_000, ..strides() };
    let computes = MemoryUse { think_ps: 10_000_000, ..strides() };
    let found = speedups(&[Some(strides()), Some(jump), Some(computes), None]);
    assert!((found[0] - 1.0).abs() < 1e-6, "{found:?}");
    assert!((1.3..1.6).contains(&found[1]), "{found:?}");
    assert!((2.4..2.5).contains(&found[2]), "{found:?}");
    assert!((found[3] - 2.5).abs() < 1e-6, "{found:?}");
}

#[test]
fn work_through_phases_of_memory_is_the_same_on_every_class() {
    // 2 ms as strides and 1 ms computing 1 us a reference: 2 + 1 on the fast core, 2 + 2.5 at
    // most on the slow one.
    let computes = MemoryUse { think_ps: 1_000_000, ..strides() };
    let phases = vec![(ticks(2 * MS), strides()), (ticks(MS), computes)];
    let system = fast_and_slow(vec![task(0, MS, 90 * MS)]);
    let mut memory = memory(vec![None]);
    memory.programs[0] = Some(Profile { phases });
    let mut reported = Reported::default();
    let model = SharedMemory::new(&system, &memory);
    let mut script = Script::new(vec![(0, vec![on(1, 0)])]);
    let options = Options::new(at(80 * MS));
    let outcome = run_with(&system, &[job(0, 6 * MS)], &mut script, &options, &mut reported, model);
    let took = reported.segments[0].to.ticks();
    assert!((8_500_000..9_000_000).contains(&took), "{took}");
    let instructions = reported.segments[0].usage.instructions;
    let totals = outcome.memory.expect("there is a memory model");
    assert!(instructions.abs_diff(totals.reads * 21 / 2) <= 20, "{instructions} {totals:?}");
}

#[test]
fn beside_programs_that_use_memory_others_go_by_their_pace() {
    let vcpus = vec![server(0), task(1, MS, 90 * MS), task(2, MS, 90 * MS)];
    let system = fast_and_slow(vcpus);
    let memory = memory(vec![Some(strides()), None]);
    let paces = [None, Some(Pace::steady(vec![3 * ONE, 2 * ONE]))];
    let run_on = |model: SharedMemory| {
        let run_queue = Script::run_queue(&[always(1), always(2)], &[]);
        let mut script = Script::new(vec![(0, vec![on(0, 0), (1, run_queue)])]);
        let mut reported = Reported::default();
        let programs = [busy(0), job(1, 2 * MS), job(2, 2 * MS)];
        let options = Options::new(at(80 * MS));
        run_with(&system, &programs, &mut script, &options, &mut reported, model);
        [1, 2].map(|id| reported.sum(|segment| segment.vcpu == VcpuId(id)))
    };
    let plain = SharedMemory::new(&system, &memory);
    assert_eq!(run_on(plain), [used(5 * MS, 2 * MS); 2]);
    let paced = SharedMemory::new(&system, &memory).with_paces(&system, &paces);
    assert_eq!(run_on(paced), [used(3 * MS, 6 * MS), used(5 * MS, 2 * MS)]);
}
