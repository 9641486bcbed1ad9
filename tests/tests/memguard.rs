//! MemGuard around every policy, on the simulator.

#![allow(clippy::print_stdout)] // What random systems came to, for a run with --nocapture.

use maracas_core::contract::{Observer, Statistic};
use maracas_core::memory::{Dram, Memory, MemoryUse, Partition, Pattern, Profile, Reuse};
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_policies::{ENTRIES, WRAPPED};
use maracas_sim::memory::SharedMemory;
use maracas_sim::{Options, run_with};
use maracas_tests::{Case, Dice, Faults, Mix, Schedule, check, generate};

/// All that a policy was given and answered.
#[derive(PartialEq, Debug, Default)]
struct Observed {
    events: Vec<(Instant, Event)>,
    plans: Vec<(Instant, Plan)>,
}

impl Observer for Observed {
    fn event(&mut self, at: Instant, event: &Event) {
        self.events.push((at, event.clone()));
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.plans.push((now, plan.clone()));
    }
}

/// A run of `case`; `None` where the policy refuses.
fn observed<O: Observer + Default>(case: &Case) -> Option<O> {
    let (mut policy, mut observer) = (case.policy()?, O::default());
    case.run(&mut *policy, &mut observer);
    Some(observer)
}

const UNRULY: Mix = Mix { jobs_only: false, changes: true, unruly: true, load: 70 };

fn mixes(jobs_only: bool) -> impl Iterator<Item = Mix> {
    let mixes = [Mix::tasks(90), Mix::programs(65), UNRULY];
    mixes.into_iter().map(move |mix| Mix { jobs_only: mix.jobs_only || jobs_only, ..mix })
}

#[test]
fn without_reservations_every_event_and_plan_is_the_inner_policy_s() {
    for (inner, wrapped) in ENTRIES.iter().zip(WRAPPED) {
        let mut compared = 0;
        for seed in 0..40 {
            for mix in mixes(inner.needs.jobs) {
                let alone = Case::new(inner, generate(seed, mix), seed);
                let around = Case::new(wrapped, generate(seed, mix), seed);
                let alone: Option<Observed> = observed(&alone);
                let around = observed(&around);
                assert!(alone == around, "{} differs, seed {seed}, {mix:?}", wrapped.name);
                compared += u32::from(alone.is_some());
            }
        }
        assert!(compared >= 10, "{} accepted only {compared} systems", inner.name);
    }
}

/// Programs that never touch memory are never in MemGuard's way: its periods show in what is
/// reported, not in the schedule. A VCPU that goes by progress learns of it sooner where meters are
/// read more often, and may decide otherwise.
#[test]
fn reservations_leave_the_schedule_of_programs_without_memory_as_it_is() {
    let entries = ENTRIES.iter().zip(WRAPPED).filter(|(inner, _)| !inner.needs.progress);
    for (inner, wrapped) in entries {
        let mut compared = 0;
        for seed in 0..15 {
            for mix in mixes(inner.needs.jobs) {
                let alone = Case::new(inner, generate(seed, mix), seed);
                let mut around = Case::new(wrapped, generate(seed, mix), seed);
                let period = format!("{}ns", around.until.ticks() / 200 + 1);
                around.params =
                    given(&[("bandwidth", "64GB/s"), ("period", &period), ("spare", "share")]);
                // Long periods at this bandwidth would be reclaimed in too many steps.
                around.params.set("q_min", Value::Whole(1_000_000));
                let Some(alone) = observed::<Schedule>(&alone) else { continue };
                assert_eq!(Some(alone), observed(&around), "seed {seed}:\n{around}");
                let verdict = check(&around).map(|outcome| outcome.is_some());
                assert_eq!(verdict, Ok(true), "seed {seed}:\n{around}");
                compared += 1;
            }
        }
        assert!(compared >= 5, "{} accepted only {compared} systems", inner.name);
    }
}

#[test]
fn wrapped_policies_keep_the_contract_late_nagged_and_with_hidden_wakes() {
    for entry in WRAPPED {
        let mut accepted = 0;
        for seed in 0..40 {
            for mix in mixes(entry.needs.jobs) {
                let mut case = Case::new(entry, generate(seed, mix), seed);
                let unit = case.until.ticks() / 500 + 1;
                let (period, unit) = (format!("{}ns", 3 * unit), Duration::from_ticks(unit));
                case.params = given(&[("bandwidth", "64GB/s"), ("period", &period)]);
                case.faults = Faults {
                    late: unit * (seed % 6),
                    hidden_wakes: seed % 2 == 1 && !entry.needs.visible_wakes,
                    nag: Some(unit),
                    ..Faults::default()
                };
                match check(&case) {
                    Ok(outcome) => accepted += u32::from(outcome.is_some()),
                    Err(why) => panic!("seed {seed}: {why}\n{case}"),
                }
            }
        }
        assert!(accepted >= 10, "{} accepted only {accepted} systems", entry.name);
    }
}

fn given(pairs: &[(&str, &str)]) -> Params {
    let mut params = Params::new();
    for (name, value) in pairs {
        params.set(name, Value::Text((*value).into()));
    }
    params
}

/// DDR3-1333 without a cache under programs that never compute, one on each core.
fn hogs(cores: usize, dice: &mut Dice) -> (System, Vec<Program>, Memory) {
    let ms = Duration::from_millis;
    let vcpus = (0..cores as u32).map(|id| {
        let mut vcpu = Vcpu::new(id, ms(2), ms(10));
        vcpu.pinned = Some(CoreId(id as u16));
        vcpu
    });
    let system = System::new(cores, vcpus.collect());
    let programs = system.vcpus.iter().map(|vcpu| Program::new(vcpu.id, Workload::Busy)).collect();
    let patterns = [Pattern::Jump, Pattern::Random, Pattern::Sequential];
    let mut profile = || {
        Some(Profile::steady(MemoryUse {
            pattern: dice.pick(&patterns),
            instructions_milli: 10_000,
            think_ps: dice.between(0, 20_000),
            outstanding_milli: dice.between(1_000, 6_000),
            writebacks_milli: dice.between(0, 1_000),
            working_set: 64 << 20,
            reuse: Reuse::Stream,
        }))
    };
    let memory = Memory {
        cycles_per_us: 3_300,
        dram: DDR3_1333,
        cache: None,
        partition: Partition::Colors,
        devices: Vec::new(),
        programs: (0..cores).map(|_| profile()).collect(),
    };
    (system, programs, memory)
}

/// JEDEC DDR3-1333H (9-9-9), 2 Gb parts, one channel with one rank.
const DDR3_1333: Dram = Dram {
    clock_ps: 1500,
    cas: 9,
    activate: 9,
    precharge: 9,
    row_active: 24,
    refresh: 107,
    refresh_interval: 5200,
    write_recovery: 10,
    write_to_read: 5,
    cas_write: 7,
    burst_transfers: 8,
    channels: 1,
    ranks: 1,
    banks: 8,
    conflict_latency_ps: None,
    conflict_service_ps: None,
    model: maracas_core::memory::DramModel::Law,
};

/// Reads by core and millisecond; with MemGuard's default period no segment lies in two of them.
#[derive(Default)]
struct Reads(Vec<Vec<u64>>);

impl Observer for Reads {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let (core, ms) = (usize::from(segment.core.0), (segment.from.ticks() / 1_000_000) as usize);
        assert!(
            segment.to.ticks() <= (ms as u64 + 1) * 1_000_000,
            "{segment:?} lies in two periods"
        );
        self.0.resize(self.0.len().max(core + 1), Vec::new());
        let own = &mut self.0[core];
        own.resize(own.len().max(ms + 1), 0);
        own[ms] += segment.usage.reads;
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn simulate<O: Observer + Default>(
    name: &str,
    params: &Params,
    (system, programs, memory): &(System, Vec<Program>, Memory),
    ms: u64,
) -> (O, Vec<Statistic>) {
    let entry = maracas_policies::find(name).expect("every policy is wrapped");
    assert_eq!(params.check(entry.params), Ok(()));
    let mut policy = (entry.build)(system, params).expect("the system is small");
    let until = Instant::ZERO + Duration::from_millis(ms);
    let options = Options { audit: true, ..Options::new(until) };
    let (mut observer, model) = (O::default(), SharedMemory::new(system, memory));
    run_with(system, programs, &mut *policy, &options, &mut observer, model);
    (observer, policy.statistics())
}

#[test]
fn hard_cores_read_exactly_their_budget_in_every_period() {
    for seed in 0..20 {
        let mut dice = Dice::new(seed);
        let cores = dice.between(1, 4) as usize;
        let case = hogs(cores, &mut dice);
        // Together less than what one channel serves at its worst (r_min is about 1.2 GB/s).
        let rates: Vec<u64> = (0..cores).map(|_| dice.between(10, 250)).collect();
        let bandwidths: Vec<String> = rates.iter().map(|rate| format!("{rate}MB/s")).collect();
        let params = given(&[("bandwidth", &bandwidths.join(", ")), ("reservation", "hard")]);
        for name in ["memguard+round-robin", "memguard+maracas"] {
            let (reads, statistics): (Reads, _) = simulate(name, &params, &case, 30);
            for (core, rate) in rates.iter().enumerate() {
                let quota = rate * 1_000_000 / 1_000 / 64;
                assert_eq!(reads.0[core], vec![quota; 30], "{name}, seed {seed}, core{core}");
            }
            let throttled =
                statistics.iter().filter(|statistic| statistic.name == "throttled periods");
            assert!(
                throttled.map(|statistic| statistic.value).all(|count| count >= 29),
                "{statistics:?}"
            );
        }
    }
}

/// By core and period of 1 ms: what the meters counted, reads, write-backs.
#[derive(Default)]
struct Meterings(Vec<Vec<[u64; 3]>>);

impl Observer for Meterings {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let (core, ms) = (usize::from(segment.core.0), (segment.from.ticks() / 1_000_000) as usize);
        self.0.resize(self.0.len().max(core + 1), Vec::new());
        let own = &mut self.0[core];
        own.resize(own.len().max(ms + 1), [0; 3]);
        let usage = segment.usage;
        let counts = [usage.metered(), usage.reads, usage.writes];
        own[ms].iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Three hogs: one goes through all eight banks, two keep to one; each writes a line back per read.
fn writers() -> (System, Vec<Program>, Memory) {
    let mut case = hogs(3, &mut Dice::new(5));
    let patterns = [Pattern::Random, Pattern::SameBank, Pattern::PrivateBank];
    for (profile, pattern) in case.2.programs.iter_mut().flatten().zip(patterns) {
        let use_ = &mut profile.phases[0].1;
        (use_.pattern, use_.writebacks_milli, use_.think_ps) = (pattern, 1_000, 0);
        use_.outstanding_milli = 4_000;
    }
    case
}

/// 64 MB/s are 1,000 requests in a period of 1 ms.
#[test]
fn a_core_has_its_budget_of_what_is_counted_in_every_period() {
    // What is said, and the reads of a core that uses its budget up: where it goes through all
    // eight banks, and where it keeps to one.
    let ways = [
        ("reads", "bandwidth", [1_000, 1_000]),
        ("requests", "bandwidth", [500, 500]),
        ("reads", "banks", [8_000, 1_000]),
        ("requests", "banks", [4_000, 500]),
    ];
    for (count, regulate, [spread, single]) in ways {
        let params = given(&[
            ("bandwidth", "64MB/s"),
            ("reservation", "hard"),
            ("count", count),
            ("regulate", regulate),
        ]);
        for name in ["memguard+round-robin", "memguard+maracas"] {
            let (Meterings(cores), _) = simulate(name, &params, &writers(), 20);
            for (core, expected) in cores.iter().zip([spread, single, single]) {
                for [metered, reads, writes] in core {
                    // A bank's count is a rate of its own: it may be one read off.
                    let near = |it: u64, is: u64| it.abs_diff(is) <= 8;
                    assert!(*metered == 1_000, "{count} {regulate}: {metered}");
                    assert!(near(*reads, expected) && near(*writes, *reads), "{reads} {writes}");
                }
            }
        }
    }
}

#[test]
fn budgets_follow_the_utilization_and_never_fall_below_what_is_reserved() {
    let reserved = |utilization: &str| {
        let params = given(&[
            ("bandwidth", "none, 64MB/s, 64MB/s"),
            ("regulate", "utilization"),
            ("utilization", utilization),
        ]);
        let mut case = writers();
        // The first one has no limit; it thinks most of the time.
        for profile in case.2.programs.iter_mut().flatten().take(1) {
            let use_ = &mut profile.phases[0].1;
            (use_.outstanding_milli, use_.think_ps) = (1_000, 300_000);
            use_.writebacks_milli = 0;
        }
        let (Meterings(cores), statistics) = simulate("memguard+maracas", &params, &case, 200);
        let is = statistics.iter().find(|it| it.name == "utilization (1/1000)");
        (cores, is.expect("it is counted").value)
    };
    let (cores, busy) = reserved("0.7");
    assert!((670..=730).contains(&busy), "{busy}");
    let reads = |core: &[[u64; 3]]| core[100..].iter().map(|counts| counts[1]).sum::<u64>() / 100;
    assert!(cores[1..].iter().all(|core| reads(core) > 1_500), "{}", reads(&cores[1]));
    // Below what the first one alone needs: the others have what is reserved, and no more.
    let (cores, busy) = reserved("0.01");
    assert!(busy > 50, "{busy}");
    assert!(cores[1..].iter().all(|core| reads(core) == 1_000), "{}", reads(&cores[1]));
}

#[test]
fn weights_hold_under_contention_and_spare_bandwidth_goes_by_them() {
    let mut case = hogs(4, &mut Dice::new(3));
    let same = case.2.programs[0].clone();
    case.2.programs.fill(same);
    let total = |spare| {
        let params = given(&[("weights", "1, 2, 4, 8"), ("r_min", "600MB/s"), ("spare", spare)]);
        let (Sums(reads), _) = simulate("memguard+maracas", &params, &case, 200);
        let total: u64 = reads.iter().sum();
        for (reads, weight) in reads.iter().zip([1, 2, 4, 8]) {
            let off = (reads * 15).abs_diff(total * weight);
            assert!(off * 100 <= total * weight * 2, "{spare}: {reads} of {total} for {weight}");
        }
        total
    };
    // 600 MB/s are 9375 requests a millisecond.
    let (off, proportional) = (total("off"), total("proportional"));
    assert!((9_370 * 200..=9_375 * 200).contains(&off), "{off}");
    assert!(proportional > 2 * off, "{proportional} requests are hardly more than {off}");
}

/// How often allowances ended by time of regulation, of which the first begins at zero.
#[derive(Default)]
struct Interrupts(Vec<Instant>);

impl Observer for Interrupts {
    fn event(&mut self, at: Instant, event: &Event) {
        if matches!(event, Event::AllowanceSpent { .. }) {
            self.0.push(at);
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

impl Interrupts {
    /// The most in any window of this length.
    fn most_in(&self, window: Duration) -> usize {
        let within = |(place, from): (usize, &Instant)| {
            let window = |at: &&Instant| at.saturating_since(*from) < window;
            self.0[place..].iter().take_while(window).count()
        };
        self.0.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

/// Where cores may reclaim one request at a time they would be interrupted for each: any `q_min`
/// that lets them do so too often is refused with the least that will do, and with that one the
/// simulator shows no more interrupts than are said to be bearable, whatever the reservations.
#[test]
fn interrupts_are_bounded_at_the_least_q_min_that_is_let_in() {
    let (mut refused, mut most_seen) = (0, 0.0_f64);
    for seed in 0..if cfg!(debug_assertions) { 40 } else { 400 } {
        let mut dice = Dice::new(seed ^ 0xd4);
        let cores = dice.between(2, 4);
        let mut case = hogs(cores as usize, &mut dice);
        // One reads what the others, who hardly read, donate.
        for profile in case.2.programs.iter_mut().skip(1).flatten() {
            profile.phases[0].1.think_ps = dice.pick(&[20_000, 3_000_000]);
        }
        let period_us = dice.pick(&[50, 100, 333, 1_000, 2_500, 10_000]) + dice.between(0, 40);
        let each = (0..cores).map(|_| format!("{}MB/s", dice.between(10, 1_500)));
        let bandwidth = each.collect::<Vec<_>>().join(", ");
        let words = (0..cores).map(|_| if dice.one_in(4) { "hard" } else { "soft" });
        let reservation = words.collect::<Vec<_>>().join(", ");
        let period = format!("{period_us}us");
        let name = dice.pick(&["memguard+round-robin", "memguard+maracas"]);
        let entry = maracas_policies::find(name).expect("every policy is wrapped");
        let with = |q_min: u64| {
            let mut params = given(&[
                ("bandwidth", &bandwidth),
                ("reservation", &reservation),
                ("predictor", "last"),
                ("period", &period),
            ]);
            params.set("q_min", Value::Whole(q_min as i64));
            assert_eq!(params.check(entry.params), Ok(()), "{period}");
            params
        };
        let mut q_min = if dice.one_in(3) { dice.between(1, 50) } else { 1 };
        let why = (entry.admit)(&case.0, &with(q_min)).why();
        if !why.is_empty() {
            let (_, floor) = why.split_once("set q_min to ").unwrap_or_else(|| panic!("{why}"));
            let floor = floor.split(' ').next().and_then(|word| word.parse().ok());
            let floor: u64 = floor.unwrap_or_else(|| panic!("{why}"));
            assert!(floor > q_min && !(entry.admit)(&case.0, &with(floor - 1)).accepted(), "{why}");
            (q_min, refused) = (floor, refused + 1);
        }
        let verdict = (entry.admit)(&case.0, &with(q_min));
        assert!(verdict.accepted(), "seed {seed}, {q_min}: {}", verdict.why());
        let ms = (period_us * 20).div_ceil(1_000);
        let (interrupts, _): (Interrupts, _) = simulate(name, &with(q_min), &case, ms);
        // One in 5 us of a period, 200 at least, and for each core the end of its own allowance
        // and of what it donated and gets back; a window may hold parts of two periods.
        let bearable = (period_us / 5).max(200) + 3 * cores;
        let seen = interrupts.most_in(Duration::from_micros(period_us)) as f64;
        let share = seen / (2 * bearable) as f64;
        assert!(share <= 1.0, "seed {seed}: {seen} interrupts in a window of {period}");
        most_seen = most_seen.max(share);
    }
    println!("{refused} refused at first; {most_seen:.3} of what is bearable at most");
    assert!(refused > 10 && most_seen > 0.2, "{refused} refused, {most_seen} of what is bearable");
}

/// MARACAS throttles surplus time where latency is high, MemGuard holds every core to its
/// reservation: both at once.
#[test]
fn memguard_and_latency_throttling_combine() {
    let (mut system, programs, memory) = hogs(4, &mut Dice::new(5));
    let mut params = given(&[
        ("throttle", "latency"),
        ("mem_period", "10ms"),
        ("bandwidth", "none, 640MB/s, 640MB/s, none"),
        ("reservation", "hard"),
    ]);
    params.set("max_latency", Value::Whole(120));
    let entry = maracas_policies::find("memguard+maracas").expect("maracas is registered");
    let own = system.vcpus.len();
    entry.add_service_vcpus(&mut system, &params);
    assert!(system.vcpus.len() > own);
    let case = (system, programs, memory);
    let (reads, statistics): (Reads, _) = simulate("memguard+maracas", &params, &case, 200);
    for core in 1..3 {
        // 640 MB/s are 10000 requests a millisecond.
        assert!(reads.0[core].iter().all(|reads| *reads <= 10_000), "{:?}", reads.0[core]);
    }
    let value = |name: &str| {
        let named = statistics.iter().filter(|statistic| statistic.name == name);
        named.map(|statistic| statistic.value).sum::<u64>()
    };
    assert!(value("regulated periods") == 2 * 199, "{statistics:?}");
    assert!(value("throttle steps up") > 0 && value("throttled periods") > 0, "{statistics:?}");
}

/// Reads by core.
#[derive(Default)]
struct Sums([u64; 4]);

impl Observer for Sums {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.0[usize::from(segment.core.0)] += segment.usage.reads;
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}
