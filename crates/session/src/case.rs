//! One case to be checked, simulated or run: the scenario, its policy with parameters, and the
//! system that the policy is asked about. The same for every command, so that `check` judges what
//! `sim` and `run` will do.

mod agents;
mod agreement;
mod costs;
mod exact;
mod jobs;
mod limits;
mod needs;
mod resources;
mod senses;
mod sets;

pub(crate) use agents::PERIODS;
pub use agents::{Agents, Load};
pub use senses::MemoryNeeds;

use maracas_console::args;
use maracas_console::failure::{Failure, did_you_mean};
use maracas_core::admission::Verdict;
use maracas_core::contract::Entry;
use maracas_core::journal::Header;
use maracas_core::memory::Memory;
use maracas_core::params::{Params, Value};
use maracas_core::resources::Protocol;
use maracas_core::script::Scripts;
use maracas_core::{Duration, Instant, MAX_CORES, Pace, Program, Rate, Role, System, Vcpu, VcpuId};
use maracas_scenario::{CacheSplit, Scenario};
use maracas_sim::jobs::{Answer, Judged, judge, watch};
use maracas_sim::{Options, Overheads};
use std::path::Path;

/// The parameter of the policies that give grants ahead.
const AHEAD: &str = "ahead";

/// On which machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Machine {
    /// The simulator
    Sim,
    /// This host's cores
    Live,
}

/// Share of each live core that reservations and agents may take; above it the kernel's fair server
/// takes whole 50 ms from real-time threads (measured: 9.0 of 10 ms is clean, 9.3 is not).
const LIVE_CAPACITY: (u64, u64) = (9, 10);

/// What the command line says in place of the file.
#[derive(clap::Args, Clone, Default, Debug)]
pub struct Overrides {
    /// Policy in place of the file's; the file's parameters then do not apply
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Set a parameter of the policy; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = args::parameter)]
    pub set: Vec<(String, Value)>,
    /// Number of cores in place of the file's
    #[arg(long, value_name = "M")]
    pub cores: Option<usize>,
    /// Protocol by which jobs share resources, in place of the file's: mpcp, fmlp+, omlp or mrsp
    #[arg(long, value_name = "PROTOCOL", value_parser = args::protocol)]
    pub locks: Option<Protocol>,
    /// A policy that is in no register, in place of all these.
    #[arg(skip)]
    pub entry: Option<&'static Entry>,
    /// Live: the scheduler in the kernel carries it out, and one thread decides for all cores.
    #[arg(skip)]
    pub in_kernel: bool,
}

/// A scenario or task set with its policy found and its system built.
pub struct Case {
    /// The file as the user named it.
    pub file: String,
    /// The scenario; `None` for a bare task set.
    pub scenario: Option<Scenario>,
    /// The policy.
    pub entry: &'static Entry,
    /// Its parameters.
    pub params: Params,
    /// The platform with all VCPUs, later ones and the policy's service VCPUs too.
    pub system: System,
    /// The same with those VCPUs alone that are there at the start: what the policy is built for
    /// and what the verdict is about. Later ones are judged when they arrive.
    pub start: System,
    /// The name of every VCPU, by its id.
    pub names: Vec<String>,
    /// How many of them, the last ones, carry the policy's service requests.
    pub service_vcpus: usize,
    /// The threads to simulate.
    pub programs: Vec<Program>,
    /// The memory to simulate, where the scenario has some.
    pub memory: Option<Memory>,
    /// What else there is to know of how `programs` act.
    pub acting: Acting,
    /// The machine on which it is to run.
    pub machine: Machine,
    /// Of every random number.
    pub seed: u64,
    /// What the policy says of `start`.
    pub verdict: Verdict,
    /// What of the jobs is certain beside others that use memory; empty where that is not
    /// simulated.
    pub jobs: Vec<Judged>,
    /// What the agents of a live run will take; `None` in simulation, or where it is not known.
    pub agents: Option<Agents>,
    /// Names of the parameters that the command line gave.
    set: Vec<String>,
    /// What users should know: what was assumed, what is not kept, what is left aside.
    notes: Vec<String>,
}

/// How simulated threads act, beside their workloads.
#[derive(Clone, Default, Debug)]
pub struct Acting {
    /// The pace of each, where the scenario says something of it.
    pub paces: Vec<Option<Pace>>,
    /// What those do that execute scripts.
    pub scripts: Option<Scripts>,
}

/// The policy of this name.
///
/// # Errors
/// Where there is none; names the nearest.
pub fn policy(name: &str) -> Result<&'static Entry, Failure> {
    maracas_policies::find(name).ok_or_else(|| Failure::new(unknown_policy(name)))
}

fn unknown_policy(name: &str) -> String {
    if let Some(hint) = maracas_policies::hint(name) {
        return format!("unknown policy \"{name}\"; {hint}");
    }
    let near = did_you_mean(name, maracas_policies::all().map(|entry| entry.name));
    format!("unknown policy \"{name}\"{near} (`maracas policies` lists them)")
}

/// Cores of this host that this process may use.
pub fn host_cores() -> Result<usize, Failure> {
    let cores = rustix::thread::sched_getaffinity(None)
        .map_err(|error| Failure::about("this host's cores cannot be counted", error))?;
    Ok((cores.count() as usize).clamp(1, MAX_CORES))
}

impl Case {
    /// Reads `file` and applies the overrides.
    ///
    /// # Errors
    /// Whatever is wrong in the file or in the overrides, with its place.
    pub fn read(file: &Path, machine: Machine, overrides: &Overrides) -> Result<Self, Failure> {
        Self::of(Scenario::read(file).map_err(Failure::new)?, machine, overrides)
    }

    /// The case of a scenario that has been read.
    ///
    /// # Errors
    /// As [`Case::read`].
    pub fn of(
        scenario: Scenario,
        machine: Machine,
        overrides: &Overrides,
    ) -> Result<Self, Failure> {
        resources::refuse_live(&scenario, machine)?;
        let (entry, mut params) = chosen(&scenario, overrides)?;
        check_params(&params, entry)
            .map_err(|(name, why)| Failure::new(scenario.at_param(&name, why)))?;
        set_params(&mut params, entry, &overrides.set)?;
        of_platform(entry, &mut params, &scenario);
        let mut system = system(&scenario, machine, overrides.cores)?;
        let measured = match machine {
            Machine::Sim => Vec::new(),
            Machine::Live => of_host(entry, &mut params, &system),
        };
        let programs = scenario.sim_programs();
        let mut names = scenario.vcpus.iter().map(|vcpu| vcpu.name.clone()).collect();
        let service_vcpus = add_service_vcpus(entry, &params, &mut system, &mut names);
        let mut case = Self {
            file: scenario.file.clone(),
            entry,
            params,
            start: maracas_sim::at_start(&system, &programs),
            system,
            names,
            service_vcpus,
            programs,
            memory: scenario.sim_memory(),
            acting: Acting { paces: scenario.sim_paces(), scripts: None },
            machine,
            seed: scenario.run.seed,
            verdict: Verdict::default(),
            jobs: Vec::new(),
            agents: None,
            set: overrides.set.iter().map(|(name, _)| name.clone()).collect(),
            notes: Vec::new(),
            scenario: Some(scenario),
        };
        case.refuse_unmet_needs()?;
        case.share(overrides.locks)?;
        case.refuse_unshared()?;
        case.judge()?;
        case.notes = case.of_classes();
        match machine {
            Machine::Sim => {
                case.refuse_impossible_devices()?;
                case.refuse_disagreement()?;
                case.judge_jobs();
                let assumed = case.scenario.iter().flat_map(|it| it.assumptions.clone());
                let more = assumed.chain(case.of_memory()).chain(case.unkept());
                let more: Vec<_> = more.chain(case.of_uncounted_overheads()).collect();
                case.notes.extend(more);
            }
            Machine::Live => {
                case.refuse_unsplit_cache()?;
                let unknown = case.leave_room_for_deciding(overrides.in_kernel)?;
                let more = case.unkept().into_iter().chain(case.left_aside()).chain(unknown);
                let more: Vec<_> = more.chain(case.of_reserved_bandwidth()).collect();
                case.notes.extend(more);
                case.judge_live_jobs();
                case.notes.extend(measured);
            }
        }
        Ok(case)
    }

    /// Whether the policy is to give grants ahead where the user said nothing. Agents leave them
    /// out: then it gives none, whatever the file says.
    pub fn give_ahead(&mut self, begins: bool) {
        let is_said = self.params.iter().any(|(name, _)| name == AHEAD);
        if self.spec(AHEAD).is_some_and(|spec| self.params.flag(spec) != begins)
            && !(begins && is_said)
        {
            self.params.set(AHEAD, Value::Flag(begins));
        }
    }

    /// Asks the policy. Its objection to the value of a parameter is bad input and no verdict.
    fn judge(&mut self) -> Result<(), Failure> {
        self.verdict = self.entry.verdict(&self.start, &self.params);
        for objection in &self.verdict.objections {
            if let Some(parameter) = objection.parameter {
                return Err(self.bad_param(parameter, &objection.text));
            }
        }
        Ok(())
    }

    /// Asks what of the jobs is certain where programs share memory, and where nothing is, whether
    /// the simulator shows late ones.
    fn judge_jobs(&mut self) {
        let Some(memory) = self.memory.as_ref().filter(|_| self.verdict.accepted()) else { return };
        let Self { programs, entry, params, verdict, .. } = &*self;
        let mut split = self.start.clone();
        if self.machine == Machine::Live && self.live().cache == CacheSplit::Whole {
            split.cores.iter_mut().for_each(|core| core.colors = None);
        }
        let start = &split;
        let mut judged = judge(start, memory, programs, entry, params, verdict);
        if self.machine == Machine::Live {
            self.jobs = judged;
            return;
        }
        let scenario = self.scenario.as_ref();
        let overheads = scenario.map_or(Overheads::FREE, |it| it.overheads);
        if !overheads.is_free() {
            for one in &mut judged {
                one.answer = Answer::Unknown("overheads are charged, which are not counted here");
            }
        }
        if let Ok(mut policy) = (entry.build)(start, params) {
            let lasts = scenario.and_then(|it| it.run.duration).unwrap_or(Duration::MAX);
            let until = Instant::ZERO.saturating_add(lasts);
            let options = Options { seed: self.seed, overheads, ..Options::new(until) };
            watch(&mut judged, &self.subject(), policy.as_mut(), &options);
        }
        self.jobs = judged;
    }

    /// Whether it is admitted and not certain that all jobs are in time beside others that use
    /// memory.
    pub fn jobs_may_be_late(&self) -> bool {
        self.verdict.accepted() && self.jobs.iter().any(|one| one.answer != Answer::InTime)
    }

    /// What the simulator is to run.
    pub fn subject(&self) -> maracas_sim::Subject<'_> {
        let Self { system, programs, acting, .. } = self;
        let Acting { paces, scripts } = acting;
        let (memory, scripts) = (self.memory.as_ref(), scripts.as_ref());
        maracas_sim::Subject { system, programs, memory, paces, scripts }
    }

    /// The name of a VCPU.
    pub fn name(&self, vcpu: VcpuId) -> String {
        self.names.get(vcpu.0 as usize).cloned().unwrap_or_else(|| vcpu.to_string())
    }

    /// [`Case::start`] without the policy's service VCPUs: what the user wrote.
    pub fn without_service_vcpus(&self) -> System {
        let mut system = self.start.clone();
        let first = self.first_service_vcpu();
        system.vcpus.retain(|vcpu| vcpu.id < first);
        system
    }
    /// The id after those of the user's VCPUs.
    fn first_service_vcpu(&self) -> VcpuId {
        VcpuId((self.names.len() - self.service_vcpus) as u32)
    }
    /// `system`, which has none, with the service VCPUs that the policy needs there.
    pub fn with_service_vcpus(&self, system: &System) -> System {
        let mut system = system.clone();
        let service_vcpus =
            (self.entry.service_vcpus)(&system, &self.params, self.first_service_vcpu());
        system.vcpus.extend(service_vcpus);
        system
    }

    /// Whether a VCPU is there from the start.
    pub fn is_at_start(&self, vcpu: VcpuId) -> bool {
        self.start.vcpu(vcpu).is_some()
    }

    /// What was assumed where the file is silent, and what the file asks for that the policy or
    /// the machine does not keep.
    pub fn assumptions(&self) -> &[String] {
        &self.notes
    }

    /// What is wrong with the value of a parameter, at the place where it was given.
    pub fn bad_param(&self, name: &str, why: &str) -> Failure {
        if self.set.iter().any(|set| set == name) {
            return Failure::new(format!("--set: `{name}` {why}"));
        }
        match &self.scenario {
            Some(scenario) if scenario.policy.name == self.entry.name => {
                Failure::new(scenario.at_param(name, why))
            }
            Some(_) | None => Failure::new(format!("policy {}: `{name}` {why}", self.entry.name)),
        }
    }

    /// The header of this case's journal.
    pub fn header(&self) -> Header {
        Header {
            policy: self.entry.name.to_string(),
            params: self.params.clone(),
            system: self.start.clone(),
            names: self.start.vcpus.iter().map(|vcpu| self.name(vcpu.id)).collect(),
            machine: match self.machine {
                Machine::Sim => "sim".to_string(),
                Machine::Live => "live".to_string(),
            },
            version: env!("CARGO_PKG_VERSION").to_string(),
            seed: match self.machine {
                Machine::Sim => self.seed,
                Machine::Live => 0,
            },
        }
    }
}

/// Adds the VCPUs that carry the policy's service requests, and their names. Says how many there
/// are.
fn add_service_vcpus(
    entry: &Entry,
    params: &Params,
    system: &mut System,
    names: &mut Vec<String>,
) -> usize {
    let own = system.vcpus.len();
    entry.add_service_vcpus(system, params);
    let service_vcpus = &system.vcpus[own..];
    for service_vcpu in service_vcpus {
        let mut name = service_vcpu_name(service_vcpu);
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    service_vcpus.len()
}

/// Sets parameters to what this host needs, and says so, a sentence each.
fn of_host(entry: &Entry, params: &mut Params, system: &System) -> Vec<String> {
    let mut notes = agents::raise_times(entry, params, system.cores.len());
    notes.extend(costs::measure(entry, params, system));
    notes
}

fn service_vcpu_name(service_vcpu: &Vcpu) -> String {
    let place = service_vcpu.pinned.map_or(String::new(), |core| format!("-{core}"));
    match service_vcpu.role {
        Role::Monitor => "monitor".into(),
        Role::Migration => format!("migration{place}"),
        Role::Main | Role::Io => format!("service{place}"),
    }
}

/// The policy, and what the file says of it.
fn chosen(scenario: &Scenario, overrides: &Overrides) -> Result<(&'static Entry, Params), Failure> {
    Ok(match (&overrides.policy, overrides.entry) {
        (_, Some(entry)) => (entry, Params::new()),
        (Some(name), _) if *name != scenario.policy.name => (policy(name)?, Params::new()),
        (..) => {
            let name = &scenario.policy.name;
            let entry = maracas_policies::find(name)
                .ok_or_else(|| Failure::new(scenario.at_policy(unknown_policy(name))))?;
            (entry, scenario.policy.params.clone())
        }
    })
}

/// Tells a policy that asks for it, and was told nothing, how many cores share a last-level cache.
fn of_platform(entry: &Entry, params: &mut Params, scenario: &Scenario) {
    const KEY: &str = "cores_per_cache";
    let asks = entry.params.iter().any(|spec| spec.name == KEY);
    let is_told = params.iter().any(|(name, _)| name == KEY);
    let cache = scenario.platform.memory.as_ref().and_then(|memory| memory.cache);
    if let Some(cache) = cache.filter(|_| asks && !is_told) {
        params.set(KEY, Value::Whole(cache.cores_per_cache.map_or(0, |each| each.get().into())));
    }
}

/// Sets what the command line gives.
fn set_params(params: &mut Params, entry: &Entry, set: &[(String, Value)]) -> Result<(), Failure> {
    for (name, value) in set {
        params.set(name, value.clone());
    }
    check_params(params, entry)
        .map_err(|(name, why)| Failure::new(format!("--set: `{name}` {why}")))
}

/// Checks what was given against what the policy takes; an error names the parameter and says
/// what is wrong, and of one that there is not, which was meant.
fn check_params(params: &Params, entry: &Entry) -> Result<(), (String, String)> {
    let known = || entry.params.iter().map(|param| param.name);
    if let Some((name, _)) = params.iter().find(|(name, _)| known().all(|other| other != *name)) {
        let (policy, near) = (entry.name, did_you_mean(name, known()));
        let why =
            format!("is no parameter of {policy}{near} (`maracas policies {policy}` lists all)");
        return Err((name.to_string(), why));
    }
    params.check(entry.params)
}

/// The system on the cores that the user or the file names, or else on this host's.
fn system(scenario: &Scenario, machine: Machine, cores: Option<usize>) -> Result<System, Failure> {
    let asked = cores.or(scenario.platform.cores);
    let count = match (machine, asked) {
        (Machine::Sim, Some(count)) => count,
        (Machine::Sim, None) => host_cores()?,
        (Machine::Live, asked) => {
            let host = host_cores()?;
            let count = asked.unwrap_or(host);
            if count > host {
                let way_out = if scenario.platform.classes.is_empty() {
                    "lower `cores` or leave it out"
                } else {
                    "give its classes fewer, or simulate it with `maracas sim`"
                };
                let why = format!("{count} cores are asked for and this host has {host}");
                return Err(Failure::about(&scenario.file, format!("{why}; {way_out}")));
            }
            count
        }
    };
    let mut system = scenario.system(count).map_err(Failure::new)?;
    if machine == Machine::Live {
        system.capacity = Rate::new(LIVE_CAPACITY.0, LIVE_CAPACITY.1);
        crate::cores::look_at_host(&mut system)?;
    }
    Ok(system)
}
