//! The machine whose law the kernel carries out, on a simulated host: the decider and the state of
//! its cores (`maracas_live_core::KernelCore`) as they run on real ones, the law in C in the
//! kernel's place, and whatever may go wrong between them.

mod audit;
pub mod contract;
pub mod law;
mod reads;
mod rig;
mod seam;
mod shrink;
mod slots;
mod threads;
mod world;

pub(crate) use shrink::shrink;

use crate::check::quietly;
use crate::{Auditor, Dice, Late, RandomSystem};
use maracas_core::contract::{Claims, Entry, Policy};
use maracas_core::params::{Params, Value};
use maracas_core::{Cost, Duration, Reservation, System, Vcpu, VcpuId, Workload};
use rig::Rig;
use std::fmt;
use std::num::NonZeroU64;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelFaults {
    /// Decisions come so late, at most, in nanoseconds.
    pub late: u64,
    /// What is left of a grant that is as good as spent, in nanoseconds.
    pub least: u64,
    /// Events that the ring has room for; 0 = as many as come.
    pub ring: usize,
    /// One call in so many is refused; 0 = none.
    pub refuse_one_in: u64,
    /// One turn of a thread in so many makes another thread; 0 = none.
    pub fork_one_in: u64,
    /// The core that the thread that decides is on, where a run queue is taken when it sleeps.
    pub sender: usize,
    /// Programs start within so long, in nanoseconds.
    pub starts: u64,
    /// Reads of memory after which an event overflows, at most; 0 = none are counted.
    pub chunk: u64,
    /// VCPUs that the kernel has room for at once; 0 = as many as come.
    pub slots: usize,
    /// One wake of a thread in so many leaves it confined to another core for a while, and so one
    /// stretch of time in which it runs; 0 = none.
    pub stray_one_in: u64,
    /// A thread that is forked is listed so late, at most, in nanoseconds; 0 = at once.
    pub birth: u64,
}

impl KernelFaults {
    /// Nothing.
    pub const NONE: Self = Self {
        late: 0,
        least: 0,
        ring: 0,
        refuse_one_in: 0,
        fork_one_in: 0,
        sender: usize::MAX,
        starts: 0,
        chunk: 0,
        slots: 0,
        stray_one_in: 0,
        birth: 0,
    };
}

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// What was reported of meters is forgotten, so that it is reported once more.
    ToldTwice,
    /// A run queue is not sent.
    NotSent,
    /// A VCPU that moved is woken where it was.
    NotSettled,
    /// The threads of a VCPU that ends stay in it.
    NotLeft,
    /// Reads are lost where the core that read them chooses again.
    ReadsLost,
    /// A slot that is used again has what the VCPU before it left there.
    NotCleared,
    /// A slot is used again while a thread of the VCPU before it counts there.
    LetGoEarly,
    /// A VCPU that its core cannot run is not passed over.
    NotPassed,
    /// A thread whose parent joined while it was being forked is left out.
    NotInherited,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ToldTwice,
        Self::NotSent,
        Self::NotSettled,
        Self::NotLeft,
        Self::ReadsLost,
        Self::NotCleared,
        Self::LetGoEarly,
        Self::NotPassed,
        Self::NotInherited,
    ];
}

/// How a thread's program behaves; times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    /// It never blocks.
    Busy,
    /// It runs and sleeps by turns, each for up to so long.
    Turns { run: u64, sleep: u64 },
    /// One job a release, of so much work.
    Jobs { least: u64, work: u64 },
    /// It runs for so long and ends.
    Once { run: u64 },
}

/// What is asked for.
#[derive(Clone, Debug)]
enum Ask {
    /// A program of a VCPU that is there has been started.
    Start(VcpuId, Program),
    /// A VCPU, with a program in it.
    Create(Vcpu, Program),
    /// (C, T, D) are changed.
    Set(VcpuId, Reservation),
    /// It is ended.
    Destroy(VcpuId),
    /// Its programs are killed, and it is ended.
    Kill(VcpuId),
    /// One more thread of a foreign process joins it.
    Adopt(VcpuId, Program),
    /// All are asked for.
    List,
}

/// When.
#[derive(Clone, Debug)]
struct Due {
    at: u64,
    ask: Ask,
}

/// What a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct KernelPlayed {
    /// A digest of all that was reported and decided.
    pub digest: u64,
    /// Decisions of the policy.
    pub decisions: u64,
    /// Events that it was told.
    pub events: u64,
    /// Jobs released.
    pub jobs: u64,
    /// Allowances of reads that were spent.
    pub spendings: u64,
    /// How often a slot of the kernel was used again.
    pub reuses: u64,
    /// It ended early: a run queue was refused, or an event was lost.
    pub is_broken: bool,
    /// The job with the most undone work at its deadline.
    pub late: Option<Late>,
}

/// One case: all that a run depends on.
#[derive(Clone)]
pub struct KernelCase {
    /// The policy, with its defaults.
    pub entry: &'static Entry,
    /// The cores, and the VCPUs that are there from the start, without the policy's service VCPUs.
    pub base: System,
    /// What goes wrong.
    pub faults: KernelFaults,
    /// How long, in nanoseconds.
    pub until: u64,
    /// Seed of all chance.
    pub seed: u64,
    /// A mistake that is planted.
    pub mistake: Option<Mistake>,
    programs: Vec<(VcpuId, Program)>,
    requests: Vec<Due>,
    /// Surplus time goes by turns, where the policy has some: then what is ahead goes far.
    has_turns: bool,
}

/// A turn of surplus time.
const SLICE: &str = "500us";
/// Periods, in microseconds.
const PERIODS: [u64; 7] = [1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 20_000];
/// The least budget, in nanoseconds.
const LEAST: u64 = 50_000;

/// Reads of an overflow at most, where reads are counted: a core reads three times what it is
/// granted below.
const CHUNK: u64 = 300;
/// What cores are granted, and VCPUs that are granted anything of their own: 1,048 and 262 reads in
/// MemGuard's period of 1 ms.
const BANDWIDTH: &str = "64MiB/s";
const VCPU_BANDWIDTH: NonZeroU64 = NonZeroU64::new(16 << 20).unwrap();

/// Whether the scheduler in the kernel can carry a policy out: it does not count progress, and
/// takes cores for equally fast.
#[must_use]
pub const fn fits(entry: &Entry) -> bool {
    let needs = &entry.needs;
    !needs.progress && needs.classes <= 1
}

impl KernelCase {
    /// The case of a seed, under this policy or any that fits.
    #[must_use]
    pub fn draw(seed: u64, policy: Option<&'static Entry>) -> Self {
        let mut dice = Dice::new(seed ^ 0x5c7e);
        let entries: Vec<_> = maracas_policies::all().filter(|entry| fits(entry)).collect();
        let entry = policy.unwrap_or_else(|| dice.pick(&entries));
        let cores = dice.between(1, 3) as usize;
        let (count, load) = (dice.between(1, 2 * cores as u64 + 2), dice.between(20, 95));
        let (mut vcpus, mut programs) = (Vec::new(), Vec::new());
        for id in 0..count as u32 {
            let share = (load * cores as u64 / count).min(90);
            let (vcpu, program) = draw_vcpu(id, share, entry, &mut dice);
            programs.push((vcpu.id, program));
            vcpus.push(vcpu);
        }
        let base = System::new(cores, vcpus);
        let until = dice.between(10, 50) * 1_000_000;
        let mut faults = draw_faults(&mut dice, cores);
        faults.chunk = if entry.needs.counters { dice.between(1, CHUNK) } else { 0 };
        let mut case = Self {
            entry,
            base,
            faults,
            until,
            seed,
            mistake: None,
            programs,
            requests: Vec::new(),
            has_turns: Dice::new(seed ^ 0x51ce).one_in(2),
        };
        if dice.one_in(2) {
            case.draw_requests(&mut dice);
        }
        // By dice of its own, so that what was drawn of a seed before is as it was.
        let mut dice = Dice::new(seed ^ 0x51075);
        if dice.one_in(4) {
            case.draw_turnover(&mut dice);
        }
        let mut dice = Dice::new(seed ^ 0xa9a7);
        if dice.one_in(4) {
            case.faults.stray_one_in = dice.between(2, 30);
        }
        if dice.one_in(4) {
            case.faults.birth = dice.between(1_000, 2_000_000);
        }
        case
    }

    /// The kernel has few slots, and VCPUs come and go.
    fn draw_turnover(&mut self, dice: &mut Dice) {
        let system = self.system();
        self.faults.slots = system.vcpus.len() + dice.between(0, 2) as usize;
        let mut ids: Vec<_> = self.base.vcpus.iter().map(|vcpu| vcpu.id).collect();
        let first = system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        let mut at = dice.between(1_000_000, 4_000_000);
        while at < self.until && self.requests.len() < 40 {
            let (vcpu, program) =
                draw_vcpu(first + self.requests.len() as u32, 15, self.entry, dice);
            let place = dice.between(0, ids.len() as u64 - 1) as usize;
            let gone = std::mem::replace(&mut ids[place], vcpu.id);
            let ask = if dice.one_in(2) { Ask::Kill(gone) } else { Ask::Destroy(gone) };
            self.requests.push(Due { at, ask });
            at += dice.between(0, 500_000);
            self.requests.push(Due { at, ask: Ask::Create(vcpu, program) });
            at += dice.between(500_000, 4_000_000);
        }
    }

    fn draw_requests(&mut self, dice: &mut Dice) {
        let ids: Vec<_> = self.base.vcpus.iter().map(|vcpu| vcpu.id).collect();
        let first = self.system().vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        for number in 0..dice.between(1, 6) as u32 {
            let at = dice.between(1_000_000, self.until);
            let (vcpu, program) = draw_vcpu(first + number, 20, self.entry, dice);
            let some = dice.pick(&ids);
            let ask = match dice.between(0, 7) {
                0..=2 => Ask::Create(vcpu, program),
                3 => Ask::Set(some, vcpu.reservation),
                4 => Ask::Destroy(some),
                5 => Ask::Adopt(some, Program::Turns { run: 100_000, sleep: 400_000 }),
                6 => Ask::Kill(some),
                _ => Ask::List,
            };
            self.requests.push(Due { at, ask });
        }
    }

    /// The case of a system of the simulator: one program a VCPU, all there from the start; what it
    /// runs is what the law in C makes of it. `None` where it has other programs.
    #[must_use]
    pub fn of(entry: &'static Entry, random: &RandomSystem, faults: KernelFaults) -> Option<Self> {
        let mut programs: Vec<(VcpuId, Program)> = Vec::new();
        for program in &random.programs {
            if programs.iter().any(|(id, _)| *id == program.vcpu) {
                return None;
            }
            programs.push((program.vcpu, of_workload(&program.workload)?));
        }
        let base = random.system.clone();
        let longest = base.vcpus.iter().map(|vcpu| vcpu.reservation.period.ticks()).max();
        let until = longest.unwrap_or(10) * 6;
        let (mistake, requests, has_turns) = (None, Vec::new(), false);
        let seed = 1;
        Some(Self { entry, base, faults, until, seed, mistake, programs, requests, has_turns })
    }

    /// The system with the service VCPUs that the policy needs.
    fn system(&self) -> System {
        let mut system = self.base.clone();
        let first = system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        let params = self.params();
        system.vcpus.extend((self.entry.service_vcpus)(&system, &params, VcpuId(first)));
        system
    }

    fn policy(&self) -> Option<Box<dyn Policy>> {
        (self.entry.build)(&self.system(), &self.params()).ok()
    }

    /// Grants ahead, where the policy gives some: this machine is the one that begins them.
    fn params(&self) -> Params {
        let mut params = Params::new();
        let takes = |name| self.entry.params.iter().any(|spec| spec.name == name);
        if takes("ahead") {
            params.set("ahead", Value::Flag(true));
        }
        if self.has_turns && takes("background_slice") {
            params.set("background_slice", Value::Text(SLICE.into()));
        }
        if self.faults.chunk > 0 {
            params.set("bandwidth", Value::Text(BANDWIDTH.into()));
        }
        params
    }

    /// Plays it; `None` where the policy refuses the system, or there is no C compiler.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(&self) -> Result<Option<KernelPlayed>, String> {
        self.play(None)
    }

    /// The same, held to what the simulator's runs are held to, with these claims.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check_as_simulated(&self, claims: Claims) -> Result<Option<KernelPlayed>, String> {
        // A decision comes a step of time after what it answers where it is late.
        let late = self.faults.late + 2 * u64::from(self.faults.late > 0);
        let system = self.system();
        self.play(Some(Auditor::new(&system, &system, claims, Duration::from_ticks(late))))
    }

    fn play(&self, auditor: Option<Auditor>) -> Result<Option<KernelPlayed>, String> {
        let Some(program) = law::compiled()? else { return Ok(None) };
        quietly(|| {
            let (Some(policy), Some(replay)) = (self.policy(), self.policy()) else {
                return Ok(None);
            };
            let policies = [policy, replay];
            Rig::new(self, program, policies, &self.system(), auditor).play().map(Some)
        })
    }

    /// Plays it twice: whatever is done follows from the case alone.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check_twice(&self) -> Result<Option<KernelPlayed>, String> {
        let first = self.check()?;
        match first == self.check()? {
            true => Ok(first),
            false => Err("a second run of the same case went another way".to_string()),
        }
    }
}

/// Whether there is a C compiler to try all this with.
///
/// # Errors
/// Where the law does not compile.
pub fn has_compiler() -> Result<bool, String> {
    law::compiled().map(|program| program.is_some())
}

fn of_workload(workload: &Workload) -> Option<Program> {
    let most = |cost: &Cost| cost.most().ticks().max(1);
    let least = |cost: &Cost| match cost {
        Cost::Fixed(least) | Cost::Uniform(least, _) => least.ticks().max(1),
        Cost::Exponential(_) => 1,
    };
    Some(match workload {
        Workload::Busy => Program::Busy,
        Workload::Periodic { cost } => Program::Jobs { least: least(cost), work: most(cost) },
        Workload::RunSleep { run, sleep } => Program::Turns { run: most(run), sleep: most(sleep) },
        Workload::EventDriven { every, cost, .. } => {
            Program::Turns { run: most(cost), sleep: most(every) }
        }
        Workload::Anytime { .. } | Workload::Script => return None,
    })
}

fn draw_vcpu(id: u32, share: u64, entry: &Entry, dice: &mut Dice) -> (Vcpu, Program) {
    let period = dice.pick(&PERIODS) * 1_000;
    let budget = (period * dice.between(share / 2, share.max(1)) / 100).max(LEAST);
    let [c, t] = [budget, period].map(Duration::from_nanos);
    let mut vcpu = Vcpu::new(id, c, t);
    if !entry.needs.budgets && dice.one_in(6) {
        vcpu = Vcpu::best_effort(id);
    }
    if entry.needs.counters && dice.one_in(3) {
        vcpu.bandwidth = Some(VCPU_BANDWIDTH);
    }
    if entry.needs.jobs || !vcpu.reservation.is_none() && dice.one_in(3) {
        let work = budget * dice.between(20, 130) / 100;
        return (vcpu.periodic(), Program::Jobs { least: work, work });
    }
    let program = match dice.one_in(3) {
        true => Program::Busy,
        false => Program::Turns {
            run: dice.between(20_000, 2 * budget),
            sleep: dice.between(20_000, period),
        },
    };
    (vcpu, program)
}

fn draw_faults(dice: &mut Dice, cores: usize) -> KernelFaults {
    let mut sometimes = |one_in: u64, low: u64, high: u64| {
        let value = dice.between(low, high);
        if dice.one_in(one_in) { value } else { 0 }
    };
    let late = sometimes(2, 1_000, 1_000_000);
    let least = sometimes(2, 500, 20_000);
    let ring = sometimes(6, 8, 64) as usize;
    let refuse_one_in = sometimes(6, 5, 1_000);
    let fork_one_in = sometimes(3, 2, 50);
    let starts = sometimes(2, 1_000, 3_000_000);
    let sender = dice.between(0, cores as u64) as usize;
    KernelFaults {
        late,
        least,
        ring,
        refuse_one_in,
        fork_one_in,
        sender,
        starts,
        ..KernelFaults::NONE
    }
}

impl fmt::Display for KernelCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, cores) = (self.entry.name, self.base.cores.len());
        let turns = if self.has_turns { ", turns of surplus time" } else { "" };
        writeln!(f, "{name} on {cores} cores for {} ns, seed {}{turns}", self.until, self.seed)?;
        for vcpu in &self.base.vcpus {
            let program = self.programs.iter().find(|(id, _)| *id == vcpu.id).map(|it| it.1);
            let (c, t) = (vcpu.reservation.budget, vcpu.reservation.period);
            writeln!(f, "  {} {c} of {t}, {:?}, {program:?}", vcpu.id, vcpu.arrival)?;
        }
        for due in &self.requests {
            writeln!(f, "  at {} ns {:?}", due.at, due.ask)?;
        }
        writeln!(f, "  {:?}", self.faults)
    }
}
