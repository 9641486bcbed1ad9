//! Cores of partitioned policies decide alone: one policy value a core, built for that core and its
//! VCPUs and told what happens to these only, says of its run queue what the policy of all cores
//! says, at every decision. So does a part that is lent what the policy has of its group of cores,
//! and after it was given back the policy; and so does the policy that is asked for that group.

use maracas_core::contract::{Entry, Observer, Part, decide, decide_alone};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Arrival, CoreId, CoreSet, Cost, Duration, Event, Instant, Plan, Policy, Program, System, Vcpu,
    VcpuId, Workload,
};
use maracas_sim::{Options, run};
use maracas_tests::Dice;

const CORES: usize = 3;
const VCPUS: u32 = 10;
const SYSTEMS: u64 = 20;

/// Policies whose cores decide alone with these parameters. `maracas` does while it neither
/// throttles cores nor moves VCPUs.
const ALONE: [(&str, &[(&str, &str)]); 8] = [
    ("p-edf", &[]),
    ("p-edf", &[("enforcement", "precise")]),
    ("p-rm", &[("admission", "none")]),
    ("maracas", &[]),
    ("maracas", &[("background", "sticky")]),
    ("maracas", &[("background", "off")]),
    ("maracas", &[("background_slice", "7ns")]),
    ("round-robin", &[]),
];

/// A policy of one core, and its plan.
type Alone = (Box<dyn Policy>, Plan);

/// Plays what happens to policies of one core each, and compares.
struct Apart {
    name: &'static str,
    alone: Vec<Alone>,
    /// On which core each VCPU is.
    homes: Vec<CoreId>,
    /// Cores of whose VCPUs something was told since the last decision.
    told: CoreSet,
    decisions: u64,
    /// How many of those changed the run queue of one core and not of another.
    single: u64,
}

/// The VCPU that an event is about.
fn subject(event: &Event) -> VcpuId {
    event.happened_to().unwrap_or_else(|| panic!("{event:?}"))
}

impl Observer for Apart {
    fn event(&mut self, at: Instant, event: &Event) {
        let vcpu = subject(event);
        let mut own = event.clone();
        if let Event::Ran(segment) = &mut own {
            segment.core = CoreId(0);
        }
        let core = self.homes[vcpu.0 as usize];
        self.alone[usize::from(core.0)].0.on_event(at, &own);
        self.told.insert(core);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        for (core, (policy, own)) in (0..).map(CoreId).zip(&mut self.alone) {
            if self.decisions == 0 || self.told.contains(core) || own.wake <= now {
                decide(policy.as_mut(), now, own);
            } else {
                let name = self.name;
                assert!(!plan.dirty().contains(core), "{name}: {core} changes by another's events");
            }
            assert_eq!(own.run_queue(CoreId(0)), plan.run_queue(core), "{}: {core}", self.name);
        }
        let wake = self.alone.iter().map(|(_, own)| own.wake).min();
        assert_eq!(wake, Some(plan.wake), "{}", self.name);
        self.told = CoreSet::EMPTY;
        self.decisions += 1;
        self.single += u64::from(plan.dirty().iter().count() == 1);
    }
}

/// VCPUs that demand a core, with short periods, so that instants coincide often. Together they ask
/// for 60 % of each core at most.
fn system(dice: &mut Dice) -> (System, Vec<Program>) {
    let each = u64::from(VCPUS).div_ceil(CORES as u64);
    let mut programs = Vec::new();
    let mut vcpu = |id: u32| {
        let period = dice.between(8, 40);
        let budget = Duration::from_ticks((period * 6 / (10 * each)).max(1));
        let offset = Duration::from_ticks(dice.between(0, period));
        let cost = match dice.one_in(3) {
            true => Duration::from_ticks(1),
            false => budget,
        };
        let cost = Cost::Fixed(cost);
        programs.push(Program::new(VcpuId(id), Workload::Periodic { cost }));
        let arrival = Arrival::Periodic { offset };
        let pinned = Some(CoreId((id as usize % CORES) as u16));
        Vcpu { arrival, pinned, ..Vcpu::new(id, budget, Duration::from_ticks(period)) }
    };
    let vcpus = (0..VCPUS).map(&mut vcpu).collect();
    (System::new(CORES, vcpus), programs)
}

fn build(entry: &Entry, system: &System, params: &Params) -> Box<dyn Policy> {
    (entry.build)(system, params).unwrap_or_else(|why| panic!("{}: {why:?}", entry.name))
}

/// The policy of `core` alone.
fn alone(entry: &Entry, system: &System, params: &Params, core: CoreId) -> Alone {
    let own = system.vcpus.iter().filter(|vcpu| vcpu.pinned == Some(core));
    let own = own.map(|vcpu| Vcpu { pinned: Some(CoreId(0)), ..vcpu.clone() });
    let system = System::new(1, own.collect());
    (build(entry, &system, params), Plan::new(1))
}

#[test]
fn a_core_decides_by_what_happens_to_its_own_vcpus() {
    for (name, given) in ALONE {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let params = params(given);
        let (mut decisions, mut single) = (0, 0);
        for seed in 0..SYSTEMS {
            let (system, programs) = system(&mut Dice::new(seed));
            let cores = system.core_ids();
            let mut apart = Apart {
                name,
                alone: cores.map(|core| alone(entry, &system, &params, core)).collect(),
                homes: system.vcpus.iter().filter_map(|vcpu| vcpu.pinned).collect(),
                told: CoreSet::EMPTY,
                decisions: 0,
                single: 0,
            };
            let mut policy = build(entry, &system, &params);
            let options = Options::new(Instant::from_ticks(2_000));
            run(&system, &programs, policy.as_mut(), &options, &mut apart);
            (decisions, single) = (decisions + apart.decisions, single + apart.single);
        }
        assert!(decisions > 100 * SYSTEMS, "{name}: {decisions} decisions");
        assert!(single > decisions / 4, "{name}: {single} of {decisions} are about one core");
    }
}

/// What a part decides by: it, its plan and the first core of its group.
struct Lent {
    part: Box<dyn Part>,
    plan: Plan,
    cores: CoreSet,
}

/// Plays what happens to a policy that lends what it has of all groups of cores, and takes it back.
struct Lends {
    policy: Box<dyn Policy>,
    plan: Plan,
    parts: Vec<Lent>,
    /// The same policy, which is asked for single groups and lends nothing.
    asked: Box<dyn Policy>,
    asked_plan: Plan,
    is_lent: bool,
    /// Of each VCPU the number of its part.
    homes: Vec<usize>,
    /// By part: what happened there since the last decision.
    told: Vec<Vec<(Instant, Event)>>,
    dice: Dice,
    /// Decisions of parts, and those of them that changed more than one core.
    alone: u64,
    wide: u64,
}

impl Lends {
    fn new(build: impl Fn() -> Box<dyn Policy>, system: &System, seed: u64) -> Self {
        let (mut policy, mut parts) = (build(), Vec::<Lent>::new());
        let apart = policy.apart().expect("its cores can decide alone");
        for core in system.core_ids() {
            let cores = apart.group(core);
            assert!(cores.contains(core));
            if cores.first() == Some(core) {
                parts.push(Lent { part: apart.part(core), plan: Plan::of_cores(&cores), cores });
            }
        }
        let home = |vcpu: &Vcpu| {
            let core = apart.begins_on(vcpu.id).or(vcpu.pinned).expect("it is bound to a group");
            parts.iter().position(|lent| lent.cores.contains(core)).expect("all cores are in one")
        };
        Self {
            homes: system.vcpus.iter().map(home).collect(),
            policy,
            plan: Plan::new(system.cores.len()),
            asked: build(),
            asked_plan: Plan::new(system.cores.len()),
            is_lent: false,
            told: vec![Vec::new(); parts.len()],
            parts,
            dice: Dice::new(seed ^ 0x1e4d),
            alone: 0,
            wide: 0,
        }
    }

    fn exchange(&mut self) {
        let apart = self.policy.apart().expect("its cores can decide alone");
        if !self.is_lent && !apart.is_settled() {
            return;
        }
        self.is_lent = !self.is_lent;
        for Lent { part, plan, cores } in &mut self.parts {
            match self.is_lent {
                true => apart.lend(part.as_mut()),
                false => apart.take_back(part.as_mut()),
            }
            cores.iter().for_each(|core| self.plan.exchange(plan, core));
            plan.wake = cores.iter().map(|core| plan.core_wake(core)).min().unwrap_or_default();
        }
    }

    /// A part of which something was told, or which is due, decides.
    fn decide_alone(&mut self, number: usize, now: Instant, all: &Plan) {
        let Lent { part, plan, cores } = &mut self.parts[number];
        let first = cores.first().expect("a group has cores");
        decide(part.as_mut(), now, plan);
        self.alone += 1;
        self.wide += u64::from(plan.dirty().len() > 1);
        // A journal tells of one group before its plan.
        let told = std::mem::take(&mut self.told[number]);
        told.iter().for_each(|(at, event)| self.asked.on_event(*at, event));
        let apart = self.asked.apart().expect("its cores can decide alone");
        decide_alone(apart, first, now, &mut self.asked_plan);
        let asked = &self.asked_plan;
        assert_eq!((plan.dirty(), plan.wake), (asked.dirty(), asked.wake), "{cores:?} at {now}");
        for core in cores.iter() {
            let own = [plan, asked].map(|own| own.run_queue(core));
            assert_eq!(own, [all.run_queue(core); 2], "{core} at {now}");
            assert_eq!(plan.dirty().contains(core), all.dirty().contains(core), "{core} at {now}");
        }
    }
}

impl Observer for Lends {
    fn event(&mut self, at: Instant, event: &Event) {
        let number = self.homes[subject(event).0 as usize];
        self.told[number].push((at, event.clone()));
        match self.is_lent {
            true => self.parts[number].part.on_event(at, event),
            false => self.policy.on_event(at, event),
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        if self.is_lent {
            for number in 0..self.parts.len() {
                if !self.told[number].is_empty() || self.parts[number].plan.wake <= now {
                    self.decide_alone(number, now, plan);
                    continue;
                }
                let is_dirty = |core: &CoreId| plan.dirty().contains(*core);
                let changed = self.parts[number].cores.iter().find(is_dirty);
                assert_eq!(changed, None, "it changes by what happens to others at {now}");
            }
            let wake = self.parts.iter().map(|lent| lent.plan.wake).min();
            assert_eq!(wake, Some(plan.wake), "at {now}");
        } else {
            for (at, event) in self.told.iter_mut().flat_map(std::mem::take) {
                self.asked.on_event(at, &event);
            }
            decide(self.policy.as_mut(), now, &mut self.plan);
            decide(self.asked.as_mut(), now, &mut self.asked_plan);
            for core in plan.core_ids() {
                let own = [&self.plan, &self.asked_plan].map(|own| own.run_queue(core));
                assert_eq!(own, [plan.run_queue(core); 2], "{core} at {now}");
            }
            assert_eq!([self.plan.wake, self.asked_plan.wake], [plan.wake; 2]);
        }
        if self.dice.one_in(5) {
            self.exchange();
        }
    }
}

fn params(given: &[(&str, &str)]) -> Params {
    let mut params = Params::new();
    given.iter().for_each(|(key, word)| params.set(key, Value::Text((*word).into())));
    params
}

/// What came of a system under a policy that lends.
fn lent(name: &str, params: &Params, case: &(System, Vec<Program>), seed: u64) -> Lends {
    let entry = maracas_policies::find(name).expect("a policy of ours");
    let (system, programs) = case;
    let mut lends = Lends::new(|| build(entry, system, params), system, seed);
    let options = Options::new(Instant::from_ticks(2_000));
    run(system, programs, build(entry, system, params).as_mut(), &options, &mut lends);
    lends
}

#[test]
fn what_is_lent_decides_as_the_policy_would_and_is_whole_when_it_comes_back() {
    for (name, given) in ALONE {
        let params = params(given);
        let mut alone = 0;
        for seed in 0..SYSTEMS {
            alone += lent(name, &params, &system(&mut Dice::new(seed)), seed).alone;
        }
        assert!(alone > 50 * SYSTEMS, "{name}: {alone} decisions of parts");
    }
}

/// Tasks for six cores, of which QPS mostly makes two hierarchies of two cores and two of one:
/// their rates are these percents, less what makes budgets whole ticks.
fn hierarchies(dice: &mut Dice) -> (System, Vec<Program>) {
    let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
    let mut load = |percent: u64| {
        let (id, period) = (vcpus.len() as u32, dice.between(8, 40));
        let budget = Duration::from_ticks((period * percent / 100).max(1));
        let offset = Duration::from_ticks(dice.between(0, period));
        let cost = match dice.one_in(3) {
            true => Duration::from_ticks(1),
            false => budget,
        };
        programs.push(Program::new(VcpuId(id), Workload::Periodic { cost: Cost::Fixed(cost) }));
        let arrival = Arrival::Periodic { offset };
        vcpus.push(Vcpu { arrival, ..Vcpu::new(id, budget, Duration::from_ticks(period)) });
    };
    [95, 95, 70, 70, 68, 68, 62, 62].into_iter().for_each(&mut load);
    (System::new(6, vcpus), programs)
}

/// Settings under which QPS decides otherwise.
const QPS: [&[(&str, &str)]; 4] =
    [&[], &[("split", "single")], &[("enforcement", "none")], &[("packing", "wfd")]];

#[test]
fn hierarchies_of_qps_decide_as_the_policy_would() {
    let (mut alone, mut wide, mut several) = (0, 0, 0);
    for given in QPS {
        let params = params(given);
        for seed in 0..SYSTEMS {
            let lends = lent("qps", &params, &hierarchies(&mut Dice::new(seed)), seed);
            (alone, wide) = (alone + lends.alone, wide + lends.wide);
            let of_several = lends.parts.iter().filter(|lent| lent.cores.len() > 1).count();
            several += u64::from(of_several > 1);
        }
    }
    assert!(several > SYSTEMS, "{several} systems with two hierarchies of several cores");
    assert!(wide > alone / 20, "{wide} of {alone} decisions are about several cores");
    assert!(alone > 200 * SYSTEMS, "{alone} decisions of parts");
}
