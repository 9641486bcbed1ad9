//! The simulator under our policies against what analysis says must come out: exact response
//! times, utilization bounds, and worked examples.

use maracas_core::admission::{CoreVerdict, Measure, Verdict};
use maracas_core::contract::{Entry, Mode, Observer};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, Role, System, Vcpu, VcpuId, Workload,
};
use maracas_policies::find;
use maracas_sim::{Options, Outcome, run};
use maracas_tests::Dice;

const SEEDS: u64 = 100;

/// Response times of jobs, by VCPU; foreground service by own period from the start.
struct Watch {
    periods: Vec<u64>,
    releases: Vec<Vec<u64>>,
    responses: Vec<Vec<Duration>>,
    delivered: Vec<Vec<u64>>,
}

impl Watch {
    fn new(system: &System) -> Self {
        let n = system.vcpus.len();
        Self {
            periods: system.vcpus.iter().map(|vcpu| vcpu.reservation.period.ticks()).collect(),
            releases: vec![Vec::new(); n],
            responses: vec![Vec::new(); n],
            delivered: vec![Vec::new(); n],
        }
    }
}

impl Observer for Watch {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Released(job) = event {
            self.releases[job.id.vcpu.0 as usize].push(job.release.ticks());
        } else if let Event::Completed(id) = event {
            let release = self.releases[id.vcpu.0 as usize][id.index as usize];
            let response = Duration::from_ticks(at.ticks() - release);
            self.responses[id.vcpu.0 as usize].push(response);
        } else if let Event::Ran(segment) = event
            && segment.mode == Mode::Foreground
        {
            let period = self.periods[segment.vcpu.0 as usize];
            let own = &mut self.delivered[segment.vcpu.0 as usize];
            let (mut from, to) = (segment.from.ticks(), segment.to.ticks());
            while from < to {
                let index = (from / period) as usize;
                let end = to.min((from / period + 1) * period);
                own.resize(own.len().max(index + 1), 0);
                own[index] += end - from;
                from = end;
            }
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn entry(name: &str) -> &'static Entry {
    find(name).unwrap_or_else(|| panic!("no policy {name}"))
}

fn with(params: &[(&str, &str)]) -> Params {
    let mut given = Params::new();
    for (name, value) in params {
        given.set(name, Value::Text((*value).into()));
    }
    given
}

/// Synchronous periodic tasks whose loads sum to about `percent` of a core each.
fn tasks(dice: &mut Dice, cores: usize, percent: u64) -> System {
    let n = dice.between(2, 4 * cores as u64);
    let vcpus = (0..n).map(|id| {
        let period = dice.between(4, 60);
        let mean = (percent * cores as u64 * period / n / 100).clamp(1, period / 2);
        let budget = dice.between(1, (2 * mean).min(period));
        Vcpu::new(id as u32, Duration::from_ticks(budget), Duration::from_ticks(period)).periodic()
    });
    System::new(cores, vcpus.collect())
}

/// Without the VCPUs that the policy refuses.
fn admitted(entry: &Entry, params: &Params, mut system: System) -> (System, Verdict) {
    loop {
        let verdict = (entry.admit)(&system, params);
        let Some((refused, _)) = verdict.refused.first() else { return (system, verdict) };
        system.vcpus.retain(|vcpu| vcpu.id != *refused);
        (0..).zip(&mut system.vcpus).for_each(|(id, vcpu)| vcpu.id = VcpuId(id));
    }
}

fn simulate(
    entry: &Entry,
    params: &Params,
    system: &System,
    workload: impl Fn(&Vcpu) -> Workload,
    until: u64,
) -> (Watch, Outcome) {
    let programs: Vec<_> =
        system.vcpus.iter().map(|vcpu| Program::new(vcpu.id, workload(vcpu))).collect();
    carry_out(entry, params, system, &programs, until)
}

fn carry_out(
    entry: &Entry,
    params: &Params,
    system: &System,
    programs: &[Program],
    until: u64,
) -> (Watch, Outcome) {
    let mut policy = (entry.build)(system, params).unwrap_or_else(|why| panic!("{why:?}"));
    let options = Options { audit: true, ..Options::new(Instant::from_ticks(until)) };
    let mut watch = Watch::new(system);
    let outcome = run(system, programs, &mut *policy, &options, &mut watch);
    (watch, outcome)
}

fn jobs(vcpu: &Vcpu) -> Workload {
    Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) }
}

fn accepts(core: &CoreVerdict, test: &str) -> bool {
    let found = core.tests.iter().find(|result| result.test == test);
    found.unwrap_or_else(|| panic!("{test} is not reported: {core:?}")).accepted
}

/// The response times that the verdict promises, by VCPU.
fn promised(verdict: &Verdict) -> Vec<(VcpuId, Duration)> {
    let lists = verdict.cores.iter().flat_map(|core| &core.tests);
    let lists = lists.filter_map(|result| match &result.measure {
        Measure::Responses(list) => Some(list),
        Measure::Ratio { .. } | Measure::Tardiness(_) => None,
    });
    lists.flatten().filter_map(|(vcpu, response, _)| Some((*vcpu, (*response)?))).collect()
}

#[test]
fn p_rm_responds_as_rta_says_and_exactly_so_at_the_critical_instant() {
    let (entry, params) = (entry("p-rm"), with(&[("admission", "rta")]));
    let mut compared = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        let (cores, percent) = (dice.between(1, 3) as usize, dice.between(50, 100));
        let mut system = tasks(&mut dice, cores, percent);
        for vcpu in &mut system.vcpus {
            let (c, t) = (vcpu.reservation.budget, vcpu.reservation.period);
            let c = if dice.one_in(3) { c } else { t };
            vcpu.reservation.deadline = Duration::from_ticks(dice.between(c.ticks(), t.ticks()));
        }
        let (system, verdict) = admitted(entry, &params, system);
        let (watch, outcome) = simulate(entry, &params, &system, jobs, 3_000);
        assert_eq!(outcome.missed, 0, "seed {seed}");
        for (vcpu, bound) in promised(&verdict) {
            let responses = &watch.responses[vcpu.0 as usize];
            assert_eq!(responses[0], bound, "seed {seed}: the first job of {vcpu}");
            assert!(responses.iter().all(|response| *response <= bound), "seed {seed}: {vcpu}");
            compared += 1;
        }
    }
    assert!(compared > 3 * SEEDS, "only {compared} tasks compared");
}

#[test]
fn maracas_gives_every_busy_vcpu_its_budget_in_every_period() {
    for background in ["fair", "sticky", "light", "off"] {
        let params = with(&[("admission", "rta"), ("background", background)]);
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let system = tasks(&mut dice, 2, 95);
            let (mut system, _) = admitted(entry("maracas"), &params, system);
            for vcpu in &mut system.vcpus {
                vcpu.arrival = Arrival::None;
            }
            let busy = |_: &Vcpu| Workload::Busy;
            let (watch, outcome) = simulate(entry("maracas"), &params, &system, busy, 2_000);
            for vcpu in &system.vcpus {
                let whole = 2_000 / vcpu.reservation.period.ticks() as usize;
                let got = &watch.delivered[vcpu.id.0 as usize][..whole];
                let budget = vcpu.reservation.budget.ticks();
                assert!(got.iter().all(|got| *got == budget), "seed {seed}: {vcpu:?}: {got:?}");
            }
            let idle: Duration = outcome.idle.iter().copied().sum();
            let empty = outcome.idle.iter().filter(|idle| idle.ticks() == 2_000).count() as u64;
            if background != "off" {
                assert_eq!(idle.ticks(), 2_000 * empty, "seed {seed}: surplus time was lost");
            }
        }
    }
}

#[test]
fn maracas_jobs_respond_as_rta_says() {
    // With background time jobs can only finish sooner; without it the bound is met exactly.
    for background in ["fair", "off"] {
        let params = with(&[("admission", "rta"), ("background", background)]);
        for seed in 0..SEEDS {
            let system = tasks(&mut Dice::new(seed), 2, 95);
            let (system, verdict) = admitted(entry("maracas"), &params, system);
            let (watch, outcome) = simulate(entry("maracas"), &params, &system, jobs, 2_000);
            assert_eq!(outcome.missed, 0, "seed {seed}");
            for (vcpu, bound) in promised(&verdict) {
                let responses = &watch.responses[vcpu.0 as usize];
                assert!(responses.iter().all(|r| *r <= bound), "seed {seed}: {vcpu}");
                assert_eq!(responses[0], bound, "seed {seed}: the first job of {vcpu}");
            }
        }
    }
}

#[test]
fn the_tests_are_ordered_ll_hyperbolic_rta() {
    let mut counts = [0; 3];
    for seed in 0..20 * SEEDS {
        let mut dice = Dice::new(seed);
        let percent = dice.between(60, 100);
        let system = tasks(&mut dice, 1, percent);
        let params = with(&[("admission", "none")]);
        let verdict = (entry("p-rm").admit)(&system, &params);
        let core = &verdict.cores[0];
        let [ll, hyperbolic, rta] = ["ll", "hyperbolic", "rta"].map(|test| accepts(core, test));
        assert!(!ll || hyperbolic, "seed {seed}: ll accepts, hyperbolic refuses: {core:?}");
        assert!(!hyperbolic || rta, "seed {seed}: hyperbolic accepts, rta refuses: {core:?}");
        for (count, accepted) in counts.iter_mut().zip([ll, hyperbolic, rta]) {
            *count += u64::from(accepted);
        }
    }
    assert!(counts[0] < counts[1] && counts[1] < counts[2], "{counts:?} show no difference");
}

#[test]
fn p_edf_misses_nothing_up_to_a_full_core() {
    let mut full = 0;
    for packing in ["ffd", "bfd", "wfd"] {
        let params = with(&[("packing", packing)]);
        for seed in 0..SEEDS {
            let mut system = tasks(&mut Dice::new(seed), 2, 120);
            system.vcpus.iter_mut().for_each(round);
            let (system, verdict) = admitted(entry("p-edf"), &params, system);
            let (_, outcome) = simulate(entry("p-edf"), &params, &system, jobs, 3_000);
            assert_eq!(outcome.missed, 0, "seed {seed}, {packing}");
            let load = |core: &CoreVerdict| core.tests[0].measure.clone();
            let one = Measure::Ratio { value: 1_000_000_000, bound: 1_000_000_000 };
            full += verdict.cores.iter().filter(|core| load(core) == one).count();
        }
    }
    assert!(full > 30, "only {full} cores were full to the last tick");
}

/// Gives a task one of few periods, so that loads often sum to exactly one.
fn round(vcpu: &mut Vcpu) {
    let period = [6, 8, 12, 24][vcpu.reservation.period.ticks() as usize % 4];
    let budget = vcpu.reservation.budget.ticks().clamp(1, period / 2);
    let ticks = Duration::from_ticks;
    vcpu.reservation = maracas_core::Reservation::implicit(ticks(budget), ticks(period));
}

#[test]
fn g_edf_misses_nothing_where_gfb_holds() {
    let params = ["index", "reverse-index", "shorter-period", "longer-period"]
        .map(|ties| with(&[("admission", "gfb"), ("ties", ties)]));
    for params in &params {
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let (cores, percent) = (dice.between(1, 4) as usize, dice.between(60, 100));
            let system = tasks(&mut dice, cores, percent);
            let (system, _) = admitted(entry("g-edf"), params, system);
            let (_, outcome) = simulate(entry("g-edf"), params, &system, jobs, 3_000);
            assert_eq!(outcome.missed, 0, "seed {seed}");
        }
    }
}

/// algorithms.md C: total load 1.15 of 2, yet the third task's first job, due at 22, finishes at
/// 23.
#[test]
fn g_edf_shows_the_dhall_effect() {
    let set = [(2, 20), (2, 20), (21, 22)].map(|(c, t)| (Duration::from_ticks(c), t));
    let vcpus =
        (0..).zip(set).map(|(id, (c, t))| Vcpu::new(id, c, Duration::from_ticks(t)).periodic());
    let system = System::new(2, vcpus.collect());
    let (watch, outcome) = simulate(entry("g-edf"), &Params::new(), &system, jobs, 24);
    assert_eq!(watch.responses[2], [Duration::from_ticks(23)]);
    assert_eq!(outcome.missed, 1);
    let refused = (entry("g-edf").admit)(&system, &with(&[("admission", "gfb")]));
    assert!(!refused.accepted());
    // P-EDF packs the set and misses nothing: the heavy task gets a core of its own.
    let (_, outcome) = simulate(entry("p-edf"), &Params::new(), &system, jobs, 440);
    assert_eq!(outcome.missed, 0);
}

/// algorithms.md F.6: event-driven work on I/O VCPUs, at whatever period it inherits, takes no
/// budget from the busy VCPUs beside it.
#[test]
fn io_vcpus_leave_every_budget_whole() {
    for admission in ["ll", "hyperbolic", "rta"] {
        let params = with(&[("admission", admission)]);
        let mut served = Duration::ZERO;
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let percent = dice.between(60, 110);
            let mut system = tasks(&mut dice, 2, percent);
            for vcpu in &mut system.vcpus {
                vcpu.arrival = Arrival::None;
                vcpu.role = if dice.one_in(3) { Role::Io } else { Role::Main };
                let r = &mut vcpu.reservation;
                if vcpu.role == Role::Io && dice.one_in(2) {
                    let least = (2 * r.budget.ticks()).min(r.period.ticks());
                    r.deadline = Duration::from_ticks(dice.between(least, r.period.ticks()));
                }
            }
            let (system, _) = admitted(entry("maracas"), &params, system);
            let main = |vcpu: &&Vcpu| vcpu.role == Role::Main;
            let mains: Vec<VcpuId> = system.vcpus.iter().filter(main).map(|vcpu| vcpu.id).collect();
            let mut programs = Vec::new();
            for vcpu in &system.vcpus {
                if vcpu.role == Role::Main {
                    programs.push(Program::new(vcpu.id, Workload::Busy));
                    continue;
                }
                // Two sources of events, on behalf of whomever: the inherited period changes.
                for _ in 0..2 {
                    let own = vcpu.reservation.budget.ticks();
                    let upto = |n| Cost::Uniform(Duration::from_ticks(1), Duration::from_ticks(n));
                    let on_behalf = (!mains.is_empty()).then(|| dice.pick(&mains));
                    let (every, cost) = (upto(8 * own), upto(own));
                    let work = Workload::EventDriven { every, cost, on_behalf };
                    programs.push(Program::new(vcpu.id, work));
                }
            }
            let (watch, _) = carry_out(entry("maracas"), &params, &system, &programs, 2_000);
            for vcpu in &system.vcpus {
                let got = &watch.delivered[vcpu.id.0 as usize];
                if vcpu.role == Role::Io {
                    served += Duration::from_ticks(got.iter().sum());
                    continue;
                }
                let whole = 2_000 / vcpu.reservation.period.ticks() as usize;
                let budget = vcpu.reservation.budget.ticks();
                let short = got[..whole].iter().position(|got| *got < budget);
                assert_eq!(short, None, "{admission}, seed {seed}: {vcpu:?} in {system:?}");
            }
        }
        assert!(!served.is_zero(), "no I/O VCPU ran under {admission}");
    }
}

/// With the budget of a period that it inherits, 20 times its own, an I/O VCPU does not go before
/// others by the early deadline of its own.
#[test]
fn an_early_deadline_does_not_go_with_a_long_inherited_period() {
    for admission in ["ll", "hyperbolic", "rta"] {
        let params = with(&[("admission", admission)]);
        let vcpu = |id, c, t| Vcpu::new(id, Duration::from_ticks(c), Duration::from_ticks(t));
        let (slow, ctl) = (vcpu(0, 100, 2_000), vcpu(1, 10, 80).periodic());
        let mut net = Vcpu { role: Role::Io, ..vcpu(2, 15, 100) };
        net.reservation.deadline = Duration::from_ticks(50);
        let system = System::new(1, vec![slow, ctl, net]);
        let fixed = |ticks| Cost::Fixed(Duration::from_ticks(ticks));
        let on_behalf = Some(VcpuId(0));
        let events = Workload::EventDriven { every: fixed(2_000), cost: fixed(300), on_behalf };
        let programs = [Workload::Busy, jobs(&system.vcpus[1]), events];
        let programs = (0..).zip(programs).map(|(id, work)| Program::new(VcpuId(id), work));
        let programs: Vec<_> = programs.collect();
        let entry = entry("maracas");
        assert!((entry.admit)(&system, &params).accepted(), "{admission}");
        let (watch, _) = carry_out(entry, &params, &system, &programs, 20_000);
        let latest = watch.responses[1].iter().max().copied();
        assert!(latest <= Some(Duration::from_ticks(80)), "{admission}: {latest:?}");
        let served: u64 = watch.delivered[2].iter().sum();
        assert!(served > 500, "{admission}: the I/O VCPU had {served}");
    }
}

#[test]
fn io_vcpus_with_early_deadlines_meet_them() {
    for admission in ["ll", "hyperbolic", "rta"] {
        let params = with(&[("admission", admission), ("background", "off")]);
        let mut early = 0;
        for seed in 0..SEEDS {
            let mut dice = Dice::new(seed);
            let mut system = tasks(&mut dice, 2, 50);
            for vcpu in &mut system.vcpus {
                vcpu.role = if dice.one_in(2) { Role::Io } else { Role::Main };
                let r = &mut vcpu.reservation;
                let least = (2 * r.budget.ticks()).min(r.period.ticks());
                r.deadline = Duration::from_ticks(dice.between(least, r.period.ticks()));
            }
            let (system, _) = admitted(entry("maracas"), &params, system);
            let programs: Vec<_> =
                system.vcpus.iter().map(|vcpu| Program::new(vcpu.id, jobs(vcpu))).collect();
            let (watch, _) = carry_out(entry("maracas"), &params, &system, &programs, 2_000);
            for vcpu in &system.vcpus {
                let r = &vcpu.reservation;
                early += u64::from(vcpu.role == Role::Io && r.deadline < r.period);
                let latest = watch.responses[vcpu.id.0 as usize].iter().max().copied();
                assert!(latest <= Some(r.deadline), "{admission}, {seed}: {vcpu:?}, {latest:?}");
            }
        }
        assert!(early > SEEDS / 2, "{early} under {admission}");
    }
}
