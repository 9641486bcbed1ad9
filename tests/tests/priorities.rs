//! Policies that are nothing but an order of jobs: what the simulator does by that order alone is
//! what the policy plans. Events, counts and the report are compared on random sets, full of jobs
//! that are released, complete and are due at the same instants, in and out of overload.

use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, Cost, Duration, Instant, Policy, Program, Reservation, System, Vcpu, Workload,
};
use maracas_sim::Options;
use maracas_tests::orders::{Compared, every_way, every_way_of};
use maracas_tests::{Dice, Mix, generate};

struct Case {
    policy: &'static str,
    params: Params,
    system: System,
    programs: Vec<Program>,
    options: Options,
}

impl Case {
    /// Few ticks and few different periods, so that much falls on the same instant.
    fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        // Seldom more cores than stand in a row, and than a word has bits.
        let cores = match dice.between(0, 199) {
            0 => 40,
            1 => 70,
            _ => dice.between(1, 5) as usize,
        };
        let tasks = dice.between(1 + cores as u64 / 8, 4 + 3 * cores as u64) as u32;
        let stride = dice.between(1, 3) as u32;
        let grain = [1, 1, 7, 1_000][dice.between(0, 3) as usize];
        let periods = [4, 6, 8, 12, 12, 24, 30];
        let overloads = dice.between(0, 3) == 0;
        let ticks = |number: u64| Duration::from_ticks(number * grain);
        let mut programs = Vec::new();
        let mut vcpus = Vec::new();
        for id in 0..tasks {
            let period = periods[dice.between(0, 6) as usize];
            let budget = dice.between(1, 2 + period * cores as u64 / u64::from(tasks));
            let budget = budget.min(period);
            let deadline =
                if dice.between(0, 3) == 0 { dice.between(budget, period) } else { period };
            let mut vcpu = Vcpu::new(id * stride, ticks(budget), ticks(period));
            vcpu.reservation = Reservation { deadline: ticks(deadline), ..vcpu.reservation };
            let vcpu = match dice.between(0, 4) {
                0 => Vcpu { arrival: Arrival::Sporadic, ..vcpu },
                1 => Vcpu {
                    arrival: Arrival::Periodic { offset: ticks(dice.between(0, 9)) },
                    ..vcpu
                },
                _ => vcpu.periodic(),
            };
            let cost = match dice.between(0, 4) {
                0 => Cost::Uniform(ticks(1), ticks(budget)),
                1 => Cost::Exponential(ticks(1 + budget / 2)),
                2 if overloads => Cost::Fixed(ticks(budget + dice.between(0, period))),
                _ => Cost::Fixed(ticks(budget)),
            };
            if dice.between(0, 12) > 0 {
                programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
            }
            vcpus.push(vcpu);
        }
        let (policy, params) = Self::policy(&mut dice, cores);
        let until = Instant::ZERO + ticks(dice.between(0, 300));
        let options = Options { seed, ..Options::new(until) };
        let mut system = System::new(cores, vcpus);
        system.ticks_per_ns = [1, 1, 1, 7][dice.between(0, 3) as usize];
        Self { policy, params, system, programs, options }
    }

    fn policy(dice: &mut Dice, cores: usize) -> (&'static str, Params) {
        let mut params = Params::new();
        let policy = ["p-edf", "p-rm", "g-edf", "g-rm", "c-edf"][dice.between(0, 4) as usize];
        let mut word = |name: &str, value: &str| params.set(name, Value::Text(value.into()));
        let ties = ["index", "reverse-index", "shorter-period", "longer-period"];
        match policy {
            "g-edf" => word("ties", ties[dice.between(0, 3) as usize]),
            "p-rm" => word("admission", "none"),
            "g-rm" => {
                word("admission", "none");
                word("priorities", ["deadline", "period"][dice.between(0, 1) as usize]);
            }
            "c-edf" => {
                word("admission", "none");
                params.set("cores_per_cache", Value::Whole(dice.between(1, cores as u64) as i64));
            }
            _ => {}
        }
        (policy, params)
    }

    fn build(&self) -> Option<Box<dyn Policy>> {
        let entry = maracas_policies::find(self.policy).expect("it exists");
        (entry.build)(&self.system, &self.params).ok()
    }

    fn every_way(&self) -> Option<Compared> {
        let compared = every_way(&self.system, &self.programs, &self.options, &|| self.build());
        compared.unwrap_or_else(|why| {
            panic!("{}, set {}: {:?}: {why}", self.policy, self.options.seed, self.params)
        })
    }
}

#[test]
fn an_order_of_jobs_does_what_its_policy_plans() {
    let mut ran = std::collections::BTreeMap::new();
    let (mut jobs, mut missed, mut moved, mut large, mut wholes) = (0, 0, 0, 0, 0);
    for seed in 0..12_000 {
        let case = Case::draw(seed);
        let Some(Compared { by_order, outcome, report, whole }) = case.every_way() else {
            continue;
        };
        assert!(by_order, "{}, set {seed}", case.policy);
        *ran.entry(case.policy).or_insert(0) += 1;
        jobs += outcome.released;
        missed += outcome.missed;
        moved += report.total.migrations;
        wholes += whole;
        large += u64::from(case.system.cores.len() > 64);
    }
    let all: u32 = ran.values().sum();
    assert!(ran.len() == 5 && ran.values().all(|count| *count > 500), "{ran:?}");
    assert!(all > 7_000 && large > 5, "{all} {large}");
    assert!(wholes > 200_000 && jobs > wholes + 50_000, "{jobs} {wholes}");
    assert!(jobs > 200_000 && missed > 10_000 && moved > 10_000, "{jobs} {missed} {moved}");
}

/// Tasks of one core that release jobs at once, each with all of its budget.
fn on_one_core(policy: &'static str, tasks: &[(u64, u64)], until: u64) -> Case {
    let ticks = Duration::from_ticks;
    let vcpu = |(id, (budget, period)): (u32, &(u64, u64))| {
        Vcpu::new(id, ticks(*budget), ticks(*period)).periodic()
    };
    let vcpus: Vec<Vcpu> = (0..).zip(tasks).map(vcpu).collect();
    let work = |vcpu: &Vcpu| Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) };
    let programs = vcpus.iter().map(|vcpu| Program::new(vcpu.id, work(vcpu))).collect();
    let options = Options::new(Instant::from_ticks(until));
    let system = System::new(1, vcpus);
    Case { policy, params: Params::new(), system, programs, options }
}

#[test]
fn a_job_of_many_pieces_is_told_by_events() {
    let case = on_one_core("p-edf", &[(1, 3), (300, 900)], 2_700);
    let Compared { by_order, outcome, whole, .. } = case.every_way().expect("it is admitted");
    // The long ones are cut 149 times.
    assert!(by_order && outcome.missed == 0);
    assert_eq!((outcome.completed, whole), (903, 900));
}

/// An instant and the index of one of two tasks are one number of 64 bits.
#[test]
fn what_has_no_room_beside_an_index_is_simulated_by_plans() {
    const FIRST_WITHOUT_ROOM: u64 = u64::MAX >> 1;
    const PERIOD: u64 = 1 << 60;
    for (policy, until, longest, fits) in [
        // The last deadline, by which `p-edf` orders.
        ("p-edf", FIRST_WITHOUT_ROOM - PERIOD - 1, PERIOD, true),
        ("p-edf", FIRST_WITHOUT_ROOM - PERIOD, PERIOD, false),
        // The end, and the period, by which `p-rm` orders.
        ("p-rm", FIRST_WITHOUT_ROOM - 1, PERIOD, true),
        ("p-rm", FIRST_WITHOUT_ROOM, PERIOD, false),
        ("p-rm", 3 * PERIOD, FIRST_WITHOUT_ROOM - 1, true),
        ("p-rm", 3 * PERIOD, FIRST_WITHOUT_ROOM, false),
    ] {
        let case = on_one_core(policy, &[(PERIOD / 4, PERIOD), (longest / 4, longest)], until);
        let Compared { by_order, .. } = case.every_way().expect("it is admitted");
        assert_eq!(by_order, fits, "{policy} until {until}, {longest}");
    }
}

/// What `check` asks of any policy in the contract tests and the swarm is asked of these.
#[test]
fn the_contract_tests_compare_every_way() {
    for name in ["p-edf", "p-rm", "g-edf", "g-rm", "c-edf"] {
        let entry = maracas_policies::find(name).expect("it exists");
        let compared = |seed| {
            let mix = Mix { jobs_only: true, ..Mix::tasks(60) };
            let case = maracas_tests::Case::new(entry, generate(seed, mix), seed);
            every_way_of(&case).unwrap_or_else(|why| panic!("{name}, seed {seed}: {why}"))
        };
        let by_order = (0..60).filter_map(compared).filter(|it| it.by_order).count();
        assert!(by_order > 20, "{name}: {by_order}");
    }
}

/// What an order of jobs does not say is left to the policy.
#[test]
fn a_policy_that_does_more_gives_no_order() {
    let ticks = Duration::from_ticks;
    let system = System::new(2, vec![Vcpu::new(0, ticks(1), ticks(4)).periodic()]);
    let gives = |name, params: &[(&str, Value)]| {
        let mut chosen = Params::new();
        params.iter().for_each(|(name, value)| chosen.set(name, value.clone()));
        let entry = maracas_policies::find(name).expect("it exists");
        (entry.build)(&system, &chosen).expect("it is admitted").job_priorities().is_some()
    };
    let text = |word: &str| Value::Text(word.into());
    for name in ["p-edf", "p-rm", "g-edf", "g-rm", "c-edf"] {
        assert!(gives(name, &[]), "{name}");
        assert!(!gives(name, &[("enforcement", text("precise"))]), "{name}");
    }
    assert!(!gives("p-edf", &[("ahead", Value::Flag(true))]));
    assert!(!gives("g-edf", &[("ties", text("most-work-left"))]));
    for name in ["maracas", "round-robin", "run", "qps", "dp-wrap", "u-edf"] {
        assert!(!gives(name, &[]), "{name}");
    }
}
