//! What a scenario file says, read and checked.

use crate::account::Account;
use crate::error::{Error, Location, read_text};
use maracas_core::memory::{
    Cache, CachePart, Device, Dram, Memory, Partition, Profile, color_range,
};
use maracas_core::params::Params;
use maracas_core::resources::Resources;
use maracas_core::sensor::Sense;
use maracas_core::{
    CoreId, Duration, Instant, MAX_CORES, Overheads, Pace, Program, System, Vcpu, VcpuId, Workload,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A scenario: platform, policy, VCPUs and programs. Everything in it is checked; only what takes
/// the real number of cores or the policy's own knowledge is left to [`Scenario::system`] and to
/// the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// The file as the user named it.
    pub file: String,
    /// The machine.
    pub platform: Platform,
    /// What uses its memory besides the cores.
    pub devices: Vec<Device>,
    /// The policy and its parameters.
    pub policy: PolicySpec,
    /// How long, and with which seed.
    pub run: Run,
    /// What the simulator charges.
    pub overheads: Overheads,
    /// How a live run senses and steers memory.
    pub live: Live,
    /// The VCPUs in the order of the file; the index is the [`VcpuId`].
    pub vcpus: Vec<VcpuSpec>,
    /// The programs in the order of the file.
    pub programs: Vec<ProgramSpec>,
    /// What the jobs of its programs share.
    pub resources: Option<Resources>,
    /// What was assumed where the file is silent and the result depends on it, as sentences.
    pub assumptions: Vec<String>,
    pub(crate) places: Places,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Platform {
    /// Cores that the scenario manages; `None` = those of the machine at hand.
    pub cores: Option<usize>,
    /// The name by which it is known, where the scenario named one; what else stands in
    /// `[platform]` may differ from that.
    pub preset: Option<&'static str>,
    /// The classes of its cores, the fastest first; empty = all cores are equal.
    pub classes: Vec<ClassSpec>,
    /// Its memory; `None` = the scenario says nothing of memory, and every program runs at full
    /// speed.
    pub memory: Option<PlatformMemory>,
}

/// A class of cores of equal speed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassSpec {
    /// Its name: unique among the classes.
    pub name: String,
    /// How many cores it has. Cores are numbered class by class.
    pub cores: usize,
    /// Its speed, as [`maracas_core::Class::speed_milli`] says.
    pub speed_milli: u32,
}

impl ClassSpec {
    /// Its speed as users write it: `0.25`.
    pub fn speed(&self) -> f64 {
        f64::from(self.speed_milli) / 1e3
    }
}

/// The memory of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlatformMemory {
    /// Cycles of the clock in which occupancy is counted, per microsecond.
    pub cycles_per_us: u64,
    /// DRAM and bus.
    pub dram: Dram,
    /// The last-level cache, if there is one.
    pub cache: Option<Cache>,
    /// By what it is split.
    pub partition: Partition,
    /// How many colours or ways each core has, one beside the other; empty = all cores share all.
    pub shares: Vec<u32>,
}

/// Which policy, and with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySpec {
    /// The policy's name; `maracas` where the file says nothing.
    pub name: String,
    /// Its parameters, not yet checked against what the policy takes.
    pub params: Params,
}

/// How long, and with which seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// How long to run; `None` = the caller's choice.
    pub duration: Option<Duration>,
    /// Seed of everything that is drawn at random; 1 where the file says nothing.
    pub seed: u64,
    /// Whether a live run stays for VCPUs that are created while it runs, when its own programs
    /// have ended or there are none.
    pub serve: bool,
    /// Under whose rights the commands of a live run are started that do not say it themselves.
    pub user: Option<Account>,
}

/// How a live run senses and steers memory.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Live {
    /// By what it is sensed; a recording's path stands beside the scenario, where it is relative.
    pub sense: Sense,
    /// How a core loses its surplus time.
    pub throttle_by: ThrottleBy,
    /// Whether the last-level cache is split as `[platform]` says.
    pub cache: CacheSplit,
}

/// How a core of a live run loses its surplus time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ThrottleBy {
    /// A VCPU that uses it is frozen.
    #[default]
    Freezer,
    /// A VCPU that uses it goes on at less memory bandwidth, by the hardware.
    Mba,
}

/// By what a live run splits the last-level cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CacheSplit {
    /// Not at all: all cores share all of it.
    #[default]
    Whole,
    /// By ways, by the hardware.
    Ways,
    /// By page colours, for programs that use the client library or have it preloaded.
    Colors,
}

/// A VCPU of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VcpuSpec {
    /// Its name: letters, digits, `-`, `_` and `.`; unique among VCPUs and programs.
    pub name: String,
    /// What core knows of it.
    pub vcpu: Vcpu,
    /// Where its table begins.
    pub at: Location,
    /// Where its budget stands, or else its table.
    pub budget_at: Location,
    /// Where its period stands, or else its table.
    pub period_at: Location,
    /// Where its deadline stands, if it is written.
    pub deadline_at: Option<Location>,
    /// Where its pin stands, if it has one.
    pub core_at: Option<Location>,
    /// Where its colours are asked for, if they are.
    pub colors_at: Option<Location>,
    /// Where its memory bandwidth is asked for, if it is.
    pub bandwidth_at: Option<Location>,
    /// Where it says on which class of cores its budget is meant, if it does.
    pub class_at: Option<Location>,
    /// Where its jobs are asked for, if they are.
    pub(crate) jobs_at: Option<Location>,
}

/// A program of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramSpec {
    /// Its name: letters, digits, `-`, `_` and `.`; unique, but for its own VCPU of that name.
    pub name: String,
    /// The VCPU that pays for it.
    pub vcpu: VcpuId,
    /// What to start live; `None` = it exists in simulation only.
    pub command: Option<Command>,
    /// The model as written; `None` = see [`Scenario::assumptions`].
    pub workload: Option<Workload>,
    /// What it does to memory; `None` = it touches none.
    pub memory: Option<Profile>,
    /// What of that its model's file says is not measured, by keys.
    pub unmeasured: Vec<String>,
    /// How fast it progresses on each class of cores; `None` = as fast as the class, or as its
    /// memory lets it.
    pub pace: Option<Pace>,
    /// Threads of the model, each with this workload; 1 where the file says nothing.
    pub threads: u32,
    /// When it starts.
    pub start: Instant,
    /// When it is stopped, or [`Instant::NEVER`].
    pub stop: Instant,
    /// Where its table begins.
    pub at: Location,
}

/// A command to start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The program and its arguments; never empty.
    pub argv: Vec<String>,
    /// The directory to start it in; `None` = the one MARACAS was started in.
    pub dir: Option<PathBuf>,
    /// Variables added to its environment.
    pub env: BTreeMap<String, String>,
    /// Where its output goes.
    pub output: Output,
    /// The user whose rights it is started with, its own or that of [`Run::user`]; `None` = the
    /// user that started MARACAS.
    pub user: Option<Account>,
}

/// Where the standard output and standard error of a command go.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Output {
    /// Where those of MARACAS go.
    #[default]
    Inherit,
    /// Nowhere.
    Null,
    /// Into this file, written anew.
    File(PathBuf),
}

/// Where things stand that a caller may have to complain about later.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Places {
    pub(crate) policy: Location,
    /// The value of every parameter.
    pub(crate) params: BTreeMap<String, Location>,
    pub(crate) cores: Location,
    /// The protocol under which resources are shared.
    pub(crate) locks: Location,
    /// How the cache is split.
    pub(crate) shares: Location,
    /// The bandwidth of every device.
    pub(crate) devices: Vec<Location>,
    /// By what memory is sensed and steered live, or else the table.
    pub(crate) sense: Location,
    pub(crate) throttle_by: Location,
    pub(crate) cache: Location,
}

impl Scenario {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where the file cannot be read or says something wrong; the first error in it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::parse(&read_text(path)?, &path.display().to_string())
    }
    /// Reads and checks a text; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the way out.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        crate::read::scenario(text, file)
    }

    /// The system on `cores` cores, as simulated; a live machine lowers `capacity`. All VCPUs are
    /// in it, those whose first program starts later too.
    ///
    /// # Errors
    /// Where `cores` is 0 or above [`MAX_CORES`] or not the sum of the classes, or a VCPU is pinned
    /// to a core beyond them.
    pub fn system(&self, cores: usize) -> Result<System, Error> {
        if !(1..=MAX_CORES).contains(&cores) {
            let message = format!("{cores} cores cannot be managed; from 1 to {MAX_CORES} may be");
            return Err(Error::new(&self.file, self.places.cores, message));
        }
        let classes = self.platform.classes.iter().map(|class| (class.cores, class.speed_milli));
        let classes: Vec<_> = classes.collect();
        let classed: usize = classes.iter().map(|(cores, _)| cores).sum();
        if !classes.is_empty() && classed != cores {
            let message = format!(
                "the classes of [platform] have {classed} cores and {cores} are to be managed; \
                 make these the same"
            );
            return Err(Error::new(&self.file, self.places.cores, message));
        }
        for spec in &self.vcpus {
            if let (Some(core), Some(at)) = (spec.vcpu.pinned, spec.core_at) {
                check_pin(core, cores).map_err(|message| Error::new(&self.file, at, message))?;
            }
        }
        let vcpus = self.vcpus.iter().map(|spec| spec.vcpu.clone()).collect();
        let mut system = System::new(cores, vcpus);
        system.resources = self.resources.clone().map(Box::new);
        if !classes.is_empty() {
            system = system.uneven(&classes);
        }
        if let Some(memory) = &self.platform.memory {
            let parts = memory
                .core_parts(cores)
                .map_err(|message| Error::new(&self.file, self.places.shares, message))?;
            for (core, part) in system.cores.iter_mut().zip(parts) {
                core.colors = part;
            }
        }
        Ok(system)
    }
    /// The memory to simulate, its programs in the order of [`Scenario::sim_programs`]; `None`
    /// where the scenario says nothing of memory.
    pub fn sim_memory(&self) -> Option<Memory> {
        let memory = self.platform.memory.as_ref()?;
        let each =
            |spec: &ProgramSpec| std::iter::repeat_n(spec.memory.clone(), spec.threads as usize);
        Some(Memory {
            cycles_per_us: memory.cycles_per_us,
            dram: memory.dram,
            cache: memory.cache,
            partition: memory.partition,
            devices: self.devices.clone(),
            programs: self.programs.iter().flat_map(each).collect(),
        })
    }
    /// The pace of each thread to simulate, in the order of [`Scenario::sim_programs`].
    pub fn sim_paces(&self) -> Vec<Option<Pace>> {
        let each =
            |spec: &ProgramSpec| std::iter::repeat_n(spec.pace.clone(), spec.threads as usize);
        self.programs.iter().flat_map(each).collect()
    }
    /// The threads to simulate: every program as often as it has threads.
    pub fn sim_programs(&self) -> Vec<Program> {
        self.programs
            .iter()
            .flat_map(|spec| {
                let program = Program {
                    vcpu: spec.vcpu,
                    workload: self.sim_workload(spec),
                    arrive: spec.start,
                    depart: spec.stop,
                };
                std::iter::repeat_n(program, spec.threads as usize)
            })
            .collect()
    }
    /// The model of a program: as written, or as [`Scenario::assumptions`] says.
    pub fn sim_workload(&self, program: &ProgramSpec) -> Workload {
        program.workload.unwrap_or_else(|| self.vcpu(program.vcpu).assumed_workload())
    }
    /// The VCPU with this id.
    ///
    /// # Panics
    /// Where the id is not one of this scenario.
    pub fn vcpu(&self, id: VcpuId) -> &VcpuSpec {
        &self.vcpus[id.0 as usize]
    }

    /// An error at the parameter `name` of the policy, from
    /// [`Params::check`](maracas_core::params::Params::check).
    pub fn at_param(&self, name: &str, why: impl AsRef<str>) -> Error {
        let at = self.places.params.get(name).copied().unwrap_or(self.places.policy);
        Error::new(
            &self.file,
            at,
            format!("policy {}: `{name}` {}", self.policy.name, why.as_ref()),
        )
    }
    /// An error at the policy's name: no such policy, or it refuses the system.
    pub fn at_policy(&self, why: impl Into<String>) -> Error {
        Error::new(&self.file, self.places.policy, why)
    }
    /// An error at the bandwidth of the device with this place among all.
    ///
    /// # Panics
    /// Where there is no such device.
    pub fn at_device(&self, place: usize, why: impl Into<String>) -> Error {
        self.at(self.places.devices[place], why)
    }
    /// An error at what memory is sensed by live.
    pub fn at_sense(&self, why: impl Into<String>) -> Error {
        self.at(self.places.sense, why)
    }
    /// An error at how cores lose their surplus time live.
    pub fn at_throttle_by(&self, why: impl Into<String>) -> Error {
        self.at(self.places.throttle_by, why)
    }
    /// An error at how the cache is split live.
    pub fn at_cache(&self, why: impl Into<String>) -> Error {
        self.at(self.places.cache, why)
    }
    /// An error at the protocol under which resources are shared.
    pub fn at_locks(&self, why: impl Into<String>) -> Error {
        self.at(self.places.locks, why)
    }
    /// An error at a place of this file.
    pub fn at(&self, at: Location, why: impl Into<String>) -> Error {
        Error::new(&self.file, at, why)
    }
    /// An error at the table of a VCPU.
    pub fn at_vcpu(&self, id: VcpuId, why: impl Into<String>) -> Error {
        Error::new(&self.file, self.vcpu(id).at, why)
    }
    /// An error at the table of a program.
    pub fn at_program(&self, program: &ProgramSpec, why: impl Into<String>) -> Error {
        Error::new(&self.file, program.at, why)
    }
}

impl PlatformMemory {
    /// How many parts the cache can be split into: colours or ways; 0 without a cache.
    pub fn parts(&self) -> u32 {
        self.cache.map_or(0, |cache| match self.partition {
            Partition::Colors => cache.colors,
            Partition::Ways => cache.ways,
        })
    }
    /// The word for its parts.
    pub const fn part_word(&self) -> &'static str {
        match self.partition {
            Partition::Colors => "colours",
            Partition::Ways => "ways",
        }
    }
    /// The most parts that one core has; `None` without a cache.
    pub fn largest_share(&self) -> Option<u32> {
        self.cache.map(|_| self.shares.iter().copied().max().unwrap_or(self.parts()))
    }
    /// The part of the cache that each of `cores` cores has, one bit a colour or way; all 0 where
    /// they share all of it.
    ///
    /// # Errors
    /// Where the shares are not for so many cores, or more than there is.
    pub fn core_parts(&self, cores: usize) -> Result<Vec<Option<CachePart>>, String> {
        let Some(cache) = self.cache.filter(|_| !self.shares.is_empty()) else {
            return Ok(vec![None; cores]);
        };
        self.check_shares(&cache, cores)?;
        let mut first = 0;
        let part = |(core, count): (usize, &u32)| {
            if starts_a_cache(&cache, core) {
                first = 0;
            }
            let part = color_range(first, *count);
            first += count;
            part.map(Some).ok_or_else(|| {
                format!("core {core}: only 64 {} can be distinguished", self.part_word())
            })
        };
        self.shares.iter().enumerate().map(part).collect()
    }
    /// Whether the shares fit the cache and the cores; else what to say.
    pub(crate) fn check_shares(&self, cache: &Cache, cores: usize) -> Result<(), String> {
        let word = self.part_word();
        if self.shares.len() != cores {
            let given = self.shares.len();
            return Err(format!(
                "{given} cores are given {word} and there are {cores}; list one number for each"
            ));
        }
        let (mut sum, parts) = (0, self.parts());
        for (core, share) in self.shares.iter().enumerate() {
            sum = if starts_a_cache(cache, core) { *share } else { sum + share };
            if sum > parts {
                return Err(format!(
                    "the cores are given {sum} {word} and the cache has {parts}; lower them"
                ));
            }
        }
        Ok(())
    }
}

/// Whether `core` is the first of those that share a cache.
fn starts_a_cache(cache: &Cache, core: usize) -> bool {
    cache.cores_per_cache.is_some_and(|each| core.is_multiple_of(each.get() as usize))
}

impl VcpuSpec {
    /// How a command is simulated that has no model: a VCPU with a reservation is assumed to use
    /// all of it.
    pub(crate) const fn assumed_workload(&self) -> Workload {
        use maracas_core::{Arrival, Cost};
        match self.vcpu.arrival {
            Arrival::None => Workload::Busy,
            Arrival::Periodic { .. } | Arrival::Sporadic => {
                Workload::Periodic { cost: Cost::Fixed(self.vcpu.reservation.budget) }
            }
        }
    }
}

/// Whether `core` is one of `cores` cores; else what to say.
pub(crate) fn check_pin(core: CoreId, cores: usize) -> Result<(), String> {
    if (core.0 as usize) < cores {
        return Ok(());
    }
    let (last, plural) = (cores - 1, if cores == 1 { "" } else { "s" });
    Err(format!("core {} does not exist on {cores} core{plural}; use 0 to {last}", core.0))
}
