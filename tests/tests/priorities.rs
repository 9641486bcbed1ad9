//! Policies that are nothing but an order of jobs: what the simulator does by that order alone is
//! what the policy plans. Events, counts and the report are compared on random sets, full of jobs
//! that are released, complete and are due at the same instants, in and out of overload.

use maracas_core::contract::{DecisionCounts, Observer, Policy};
use maracas_core::journal::Header;
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, Cost, Duration, Event, Instant, Plan, Program, Reservation, System, Vcpu, Workload,
};
use maracas_sim::{Options, Outcome, run};
use maracas_tests::Dice;
use maracas_trace::{Metrics, Report};

/// Everything that is observed.
struct Seen {
    events: Vec<(Instant, Event)>,
    metrics: Metrics,
    reads_plans: bool,
    /// How many plans were seen.
    plans: u64,
}

impl Observer for Seen {
    fn event(&mut self, at: Instant, event: &Event) {
        self.events.push((at, event.clone()));
        self.metrics.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.plans += 1;
        self.metrics.planned(now, plan);
    }
    fn reads_plans(&self) -> bool {
        self.reads_plans
    }
    fn decided(&mut self, counts: &DecisionCounts) {
        self.metrics.decided(counts);
    }
}

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
        let cores = dice.between(1, 5) as usize;
        let tasks = dice.between(1, 4 + 3 * cores as u64) as u32;
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
            let mut vcpu = Vcpu::new(id, ticks(budget), ticks(period));
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
                1 if overloads => Cost::Fixed(ticks(budget + dice.between(0, period))),
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
        Self { policy, params, system: System::new(cores, vcpus), programs, options }
    }

    fn policy(dice: &mut Dice, cores: usize) -> (&'static str, Params) {
        let mut params = Params::new();
        let policy = ["p-edf", "p-rm", "g-edf", "g-rm", "c-edf"][dice.between(0, 4) as usize];
        let mut word = |name: &str, value: &str| params.set(name, Value::Text(value.into()));
        let ties = ["index", "reverse-index", "shorter-period", "longer-period"];
        match policy {
            "g-edf" => word("ties", ties[dice.between(0, 3) as usize]),
            "g-rm" | "p-rm" => word("admission", "none"),
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

    /// What a run comes to; plans are made where they are read.
    fn run(&self, reads_plans: bool) -> Option<(Outcome, Seen, Report)> {
        let mut policy = self.build()?;
        let header = Header {
            policy: self.policy.into(),
            params: self.params.clone(),
            system: self.system.clone(),
            names: self.system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
            machine: "sim".into(),
            version: String::new(),
            seed: self.options.seed,
        };
        let metrics = Metrics::new(&header);
        let mut seen = Seen { events: Vec::new(), metrics, reads_plans, plans: 0 };
        let outcome = run(&self.system, &self.programs, policy.as_mut(), &self.options, &mut seen);
        let report = seen.metrics.report(outcome.end);
        Some((outcome, seen, report))
    }
}

#[test]
fn an_order_of_jobs_does_what_its_policy_plans() {
    let mut ran = std::collections::BTreeMap::new();
    let (mut jobs, mut missed, mut moved) = (0, 0, 0);
    for seed in 0..12_000 {
        let case = Case::draw(seed);
        let Some((planned, by_plans, table)) = case.run(true) else { continue };
        let (direct, by_order, other) = case.run(false).expect("it was admitted before");
        let name = format!("{}, set {seed}: {:?}", case.policy, case.params);
        for (place, pair) in by_plans.events.iter().zip(&by_order.events).enumerate() {
            assert_eq!(pair.0, pair.1, "{name}, event {place}");
        }
        assert_eq!(by_plans.events.len(), by_order.events.len(), "{name}");
        assert_eq!(planned, direct, "{name}");
        assert_eq!(table, other, "{name}");
        assert_eq!((by_plans.plans, by_order.plans), (planned.decisions, 0), "{name}");
        *ran.entry(case.policy).or_insert(0) += 1;
        jobs += direct.released;
        missed += direct.missed;
        moved += table.total.migrations;
    }
    assert!(ran.len() == 5 && ran.values().all(|count| *count > 500), "{ran:?}");
    assert!(jobs > 200_000 && missed > 10_000 && moved > 10_000, "{jobs} {missed} {moved}");
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
