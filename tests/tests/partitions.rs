//! Cores of partitioned policies decide alone: one policy value a core, built for that core and its
//! VCPUs and told what happens to these only, says of its run queue what the policy of all cores
//! says, at every decision. So does a part that is lent what the policy has of its core, and after
//! it was given back the policy.

use maracas_core::contract::{Entry, Observer, Part, decide};
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
const ALONE: [(&str, &[(&str, &str)]); 6] = [
    ("p-edf", &[]),
    ("p-edf", &[("enforcement", "precise")]),
    ("p-rm", &[("admission", "none")]),
    ("round-robin", &[]),
    ("maracas", &[]),
    ("maracas", &[("background", "sticky")]),
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
    match event {
        Event::Ran(segment) => segment.vcpu,
        Event::Released(job) => job.id.vcpu,
        Event::Completed(id) => id.vcpu,
        Event::Woke { vcpu, .. } => *vcpu,
        Event::AllowanceSpent { .. }
        | Event::Sampled(_)
        | Event::Utilized { .. }
        | Event::Arrived(_)
        | Event::Left(_)
        | Event::Changed(_)
        | Event::ServiceDone(_)
        | Event::Failed { .. } => panic!("{event:?}"),
    }
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
        let mut params = Params::new();
        given.iter().for_each(|(key, word)| params.set(key, Value::Text((*word).into())));
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

/// Plays what happens to a policy that lends what it has of all cores, and takes it back.
struct Lends {
    policy: Box<dyn Policy>,
    plan: Plan,
    parts: Vec<(Box<dyn Part>, Plan)>,
    is_lent: bool,
    homes: Vec<CoreId>,
    told: CoreSet,
    dice: Dice,
    /// Decisions of parts.
    alone: u64,
}

impl Lends {
    fn exchange(&mut self) {
        let apart = self.policy.apart().expect("its cores can decide alone");
        if !self.is_lent && !apart.is_settled() {
            return;
        }
        self.is_lent = !self.is_lent;
        for (core, (part, own)) in (0..).map(CoreId).zip(&mut self.parts) {
            match self.is_lent {
                true => apart.lend(part.as_mut()),
                false => apart.take_back(part.as_mut()),
            }
            self.plan.exchange(own, core);
        }
    }
}

impl Observer for Lends {
    fn event(&mut self, at: Instant, event: &Event) {
        let core = self.homes[subject(event).0 as usize];
        self.told.insert(core);
        match self.is_lent {
            true => self.parts[usize::from(core.0)].0.on_event(at, event),
            false => self.policy.on_event(at, event),
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        if self.is_lent {
            for core in std::mem::take(&mut self.told).iter() {
                let (part, own) = &mut self.parts[usize::from(core.0)];
                decide(part.as_mut(), now, own);
                assert_eq!(own.run_queue(core), plan.run_queue(core), "{core} at {now}");
                assert_eq!(own.dirty().contains(core), plan.dirty().contains(core), "{core}");
                self.alone += 1;
            }
        } else {
            self.told = CoreSet::EMPTY;
            decide(self.policy.as_mut(), now, &mut self.plan);
            for core in plan.core_ids() {
                assert_eq!(self.plan.run_queue(core), plan.run_queue(core), "{core} at {now}");
            }
        }
        if self.dice.one_in(5) {
            self.exchange();
        }
    }
}

#[test]
fn what_is_lent_decides_as_the_policy_would_and_is_whole_when_it_comes_back() {
    for (name, given) in &ALONE[..3] {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let mut params = Params::new();
        given.iter().for_each(|(key, word)| params.set(key, Value::Text((*word).into())));
        let mut alone = 0;
        for seed in 0..SYSTEMS {
            let (system, programs) = system(&mut Dice::new(seed));
            let mut policy = build(entry, &system, &params);
            let apart = policy.apart().expect("its cores can decide alone");
            let part = |core| (apart.part(core), Plan::of_core(core));
            let mut lends = Lends {
                parts: system.core_ids().map(part).collect(),
                policy,
                plan: Plan::new(CORES),
                is_lent: false,
                homes: system.vcpus.iter().filter_map(|vcpu| vcpu.pinned).collect(),
                told: CoreSet::EMPTY,
                dice: Dice::new(seed ^ 0x1e4d),
                alone: 0,
            };
            let mut policy = build(entry, &system, &params);
            let options = Options::new(Instant::from_ticks(2_000));
            run(&system, &programs, policy.as_mut(), &options, &mut lends);
            alone += lends.alone;
        }
        assert!(alone > 50 * SYSTEMS, "{name}: {alone} decisions of parts");
    }
}
