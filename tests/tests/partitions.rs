//! Cores of partitioned policies decide alone: one policy value a core, built for that core and its
//! VCPUs and told what happens to these only, says of its run queue what the policy of all cores
//! says, at every decision.

use maracas_core::contract::{Entry, Observer, decide};
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

impl Observer for Apart {
    fn event(&mut self, at: Instant, event: &Event) {
        let vcpu = match event {
            Event::Ran(segment) => segment.vcpu,
            Event::Released(job) => job.id.vcpu,
            Event::Completed(id) => id.vcpu,
            Event::Woke { vcpu, .. } => *vcpu,
            Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => panic!("{}: {event:?}", self.name),
        };
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
