//! The baselines DP-WRAP and U-EDF under the simulator, on random sets of all weights on up to 16
//! cores, half of them with U = m exactly: nothing is missed, and the schedules are as the papers
//! say.
//!
//! Optimized (`cargo test --release`, as CI runs it) it is 2000 sets; `BASELINE_SETS` says another
//! number.

use maracas_core::contract::Observer;
use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload,
};
use maracas_policies::find;
use maracas_sim::{Options, run};
use maracas_tests::Dice;
use maracas_trace::Metrics;

/// All periods divide this.
const HYPERPERIOD: u64 = 120;
const PERIODS: [u64; 10] = [4, 5, 6, 8, 10, 12, 15, 20, 24, 30];
/// Sets in an ordinary run of the tests.
const SETS: u64 = if cfg!(debug_assertions) { 300 } else { 2_000 };

fn sets() -> u64 {
    std::env::var("BASELINE_SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(SETS)
}

/// What a set is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Traits {
    /// U = m.
    full: bool,
    offsets: bool,
    sporadic: bool,
    /// Jobs may need less than C.
    early: bool,
    /// Ticks for one unit of the periods. A multiple of the hyperperiod: every share of a task
    /// between two releases is a whole number of ticks.
    unit: u64,
}

impl Traits {
    fn draw(seed: u64, unit: u64) -> Self {
        let mut dice = Dice::new(!seed);
        let full = seed.is_multiple_of(2);
        Self { full, offsets: dice.one_in(3), sporadic: false, early: dice.one_in(4), unit }
    }
}

/// Tasks whose loads sum to U = m exactly, or to less.
fn draw(seed: u64, traits: Traits) -> (System, Vec<Program>) {
    let mut dice = Dice::new(seed);
    let cores = if dice.one_in(3) { dice.between(5, 16) } else { dice.between(1, 4) };
    let weight = dice.between(0, 2);
    let mut left = HYPERPERIOD * cores;
    if !traits.full {
        left -= dice.between(1, left / 4);
    }
    let ticks = |n| Duration::from_ticks(n * traits.unit);
    let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
    while left > 0 {
        let mut period = dice.pick(&PERIODS);
        let mut budget = match weight {
            0 => dice.between(1, period),
            1 => dice.between(period / 2 + 1, period),
            _ => dice.between(1, period / 2),
        };
        if budget * HYPERPERIOD / period > left {
            // The rest as one task of the longest period, if it is small enough for that.
            if left > HYPERPERIOD {
                continue;
            }
            (budget, period) = (left, HYPERPERIOD);
        }
        left -= budget * HYPERPERIOD / period;
        let offset = if traits.offsets { dice.between(0, period) } else { 0 };
        let arrival = match traits.sporadic {
            true => Arrival::Sporadic,
            false => Arrival::Periodic { offset: ticks(offset) },
        };
        let vcpu = Vcpu::new(vcpus.len() as u32, ticks(budget), ticks(period));
        let (least, most) = (Duration::from_ticks(1), vcpu.reservation.budget);
        let cost = if traits.early { Cost::Uniform(least, most) } else { Cost::Fixed(most) };
        programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
        vcpus.push(Vcpu { arrival, ..vcpu });
    }
    // Sporadic releases fall on whole nanoseconds.
    let system = System { ticks_per_ns: traits.unit, ..System::new(cores as usize, vcpus) };
    (system, programs)
}

/// What a run did.
struct Done {
    missed: u64,
    /// The latest completion after its deadline, in ticks.
    tardiness: u64,
    jobs: u64,
    preemptions: u64,
}

fn simulate(
    name: &str,
    seed: u64,
    system: &System,
    programs: &[Program],
    until: u64,
    observer: &mut impl Observer,
) -> Done {
    let entry = find(name).expect("the test names policies that exist");
    let params = Params::new();
    let mut policy = (entry.build)(system, &params).unwrap_or_else(|why| panic!("{why:?}"));
    let until = Instant::from_ticks(until);
    let options = Options { audit: true, seed, ..Options::new(until) };
    let mut metrics = Metrics::new(&Header {
        policy: name.into(),
        params,
        system: System { ticks_per_ns: 1, ..system.clone() },
        names: Vec::new(),
        machine: "sim".into(),
        version: String::new(),
        seed,
    });
    let mut observers = (&mut metrics, observer);
    let outcome = run(system, programs, &mut *policy, &options, &mut observers);
    for statistic in policy.statistics() {
        let short = statistic.name == "short slices" && statistic.value > 0;
        assert!(!short, "seed {seed}: {} short slices", statistic.value);
    }
    let report = metrics.report(until);
    let tardiness = report.tasks.iter().map(|task| task.tardiness_max_ns).max();
    Done {
        missed: outcome.missed,
        tardiness: tardiness.unwrap_or(0),
        jobs: outcome.released,
        preemptions: report.total.preemptions,
    }
}

/// Holds a run of DP-WRAP to what the paper says of every slice.
struct Slices<'a> {
    system: &'a System,
    /// Whether every job needs C.
    whole: bool,
    /// The ends of the slices.
    ends: Vec<u64>,
    /// By slice and task: the service, and on which cores.
    given: Vec<Vec<(u64, u128)>>,
}

fn offset(vcpu: &Vcpu) -> u64 {
    match vcpu.arrival {
        Arrival::Periodic { offset } => offset.ticks(),
        Arrival::Sporadic | Arrival::None => 0,
    }
}

impl<'a> Slices<'a> {
    fn new(system: &'a System, whole: bool, until: u64) -> Self {
        let mut ends = vec![until];
        for vcpu in &system.vcpus {
            let releases = (offset(vcpu)..until).step_by(vcpu.reservation.period.ticks() as usize);
            ends.extend(releases.filter(|release| *release > 0));
        }
        ends.sort_unstable();
        ends.dedup();
        let given = vec![vec![(0, 0); system.vcpus.len()]; ends.len()];
        Self { system, whole, ends, given }
    }

    /// u L in each slice, to within a tick since the release, and at most m - 1 migrating tasks.
    fn verdict(&self, seed: u64) {
        let mut start = 0_u64;
        let mut so_far = vec![0; self.system.vcpus.len()];
        // The last slice may have been cut by the end of the run.
        for (end, given) in self.ends.iter().zip(&self.given).take(self.ends.len() - 1) {
            let wandering = given.iter().filter(|(_, cores)| cores.count_ones() > 1).count();
            let most = self.system.cores.len() - 1;
            assert!(wandering <= most, "seed {seed}: {wandering} tasks migrate before {end}");
            let tasks = self.system.vcpus.iter().zip(given).zip(&mut so_far);
            for ((vcpu, (service, _)), so_far) in tasks.filter(|_| self.whole) {
                let (c, t) = (vcpu.reservation.budget.ticks(), vcpu.reservation.period.ticks());
                let Some(since) = start.checked_sub(offset(vcpu)) else { continue };
                *so_far = if since.is_multiple_of(t) { *service } else { *so_far + service };
                let due = c * (since % t + end - start);
                let error = (*so_far * t).abs_diff(due);
                let exact = due.is_multiple_of(t);
                assert!(
                    error == 0 || !exact && error < t,
                    "seed {seed}: {} got {so_far} of {due}/{t} before {end}",
                    vcpu.id
                );
            }
            start = *end;
        }
    }
}

impl Observer for Slices<'_> {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let (mut from, to) = (segment.from.ticks(), segment.to.ticks());
        while from < to {
            let slice = self.ends.partition_point(|end| *end <= from);
            let upto = to.min(self.ends[slice]);
            let (service, cores) = &mut self.given[slice][segment.vcpu.0 as usize];
            *service += upto - from;
            *cores |= 1 << segment.core.0;
            from = upto;
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn dp_wrap_holds(seed: u64, traits: Traits) {
    let (system, programs) = draw(seed, traits);
    let until = 3 * HYPERPERIOD * traits.unit;
    let mut slices = Slices::new(&system, !traits.early, until);
    let done = simulate("dp-wrap", seed, &system, &programs, until, &mut slices);
    assert_eq!(done.missed, 0, "seed {seed}, {traits:?}");
    slices.verdict(seed);
}

#[test]
fn dp_wrap_misses_nothing_and_gives_every_task_its_share_of_every_slice() {
    for seed in 0..sets() {
        dp_wrap_holds(seed, Traits::draw(seed, HYPERPERIOD));
    }
}

/// Shares of parts of a tick: chunks are rounded, and still nothing is missed, on full cores too.
#[test]
fn dp_wrap_misses_nothing_where_shares_are_no_whole_ticks() {
    for seed in 0..sets() {
        dp_wrap_holds(seed, Traits::draw(seed, [1, 1, 7, 101][seed as usize / 2 % 4]));
    }
}

#[test]
fn u_edf_misses_nothing_periodic_or_sporadic() {
    for seed in 0..sets() {
        let traits = Traits::draw(seed, HYPERPERIOD);
        let traits = Traits { sporadic: seed / 2 % 2 == 0, ..traits };
        let (system, programs) = draw(seed, traits);
        let until = 3 * HYPERPERIOD * traits.unit;
        let done = simulate("u-edf", seed, &system, &programs, until, &mut ());
        assert_eq!(done.missed, 0, "seed {seed}, {traits:?}");
    }
}

/// Where allotments are no whole ticks they are rounded: at some hundreds of ticks a period that
/// makes nothing late, and at a few ticks only where cores are full.
#[test]
fn u_edf_rounds_allotments_to_ticks() {
    for seed in 0..sets() {
        let traits = Traits::draw(seed, [1_009, 101, 7, 1][seed as usize / 4 % 4]);
        let traits = Traits { sporadic: seed / 2 % 2 == 0, ..traits };
        let (system, programs) = draw(seed, traits);
        let until = 6 * HYPERPERIOD * traits.unit;
        let done = simulate("u-edf", seed, &system, &programs, until, &mut ());
        match (traits.full, traits.unit > 100) {
            (_, true) => assert_eq!(done.missed, 0, "seed {seed}, {traits:?}"),
            (false, false) => assert!(done.tardiness <= 1, "seed {seed}, {traits:?}"),
            // Late by ever more: see the head of the policy.
            (true, false) => assert!(done.missed < done.jobs, "seed {seed}, {traits:?}"),
        }
    }
}

/// algorithms.md B.7: on full cores DP-WRAP switches far more often than RUN, and U-EDF less than
/// DP-WRAP.
#[test]
fn baselines_preempt_more_often_than_run() {
    let mut preemptions = [0; 3];
    for seed in (0..sets()).step_by(2) {
        let traits = Traits { offsets: false, early: false, ..Traits::draw(seed, HYPERPERIOD) };
        let (system, programs) = draw(seed, traits);
        let until = 2 * HYPERPERIOD * traits.unit;
        for (count, name) in preemptions.iter_mut().zip(["run", "u-edf", "dp-wrap"]) {
            let done = simulate(name, seed, &system, &programs, until, &mut ());
            assert_eq!(done.missed, 0, "{name}, seed {seed}");
            *count += done.preemptions;
        }
    }
    let [run, u_edf, dp_wrap] = preemptions;
    assert!(2 * run < dp_wrap && u_edf < dp_wrap, "{run} {u_edf} {dp_wrap}");
}
