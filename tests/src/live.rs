//! The live machine on a simulated host: the state of its cores (`maracas_live_core`) as it runs
//! on real ones, a kernel that is simulated from a seed, and whatever may go wrong between them.

mod around;
mod audit;
mod clients;
mod cost;
mod host;
mod rig;
mod shrink;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use around::decided_alike;
pub use cost::LiveCall;
pub use host::{LiveFaults, Meters};
pub use rig::Played;
pub(crate) use shrink::shrink;

use crate::Dice;
use crate::check::quietly;
use clients::{Ask, Due};
use maracas_core::contract::{Entry, Policy};
use maracas_core::params::Params;
use maracas_core::{Arrival, Duration, Rate, System, Vcpu, VcpuId};
use maracas_live_core::Fault;
use rig::Rig;
use std::collections::BTreeMap;
use std::fmt;
use world::Program;

/// One case: all that a run depends on.
#[derive(Clone)]
pub struct LiveCase {
    /// The policy, with its defaults.
    pub entry: &'static Entry,
    /// The cores, and the VCPUs that are there from the start, without the policy's service VCPUs.
    pub base: System,
    /// What goes wrong.
    pub faults: LiveFaults,
    /// How long, in nanoseconds.
    pub until: u64,
    /// Seed of all chance.
    pub seed: u64,
    /// A mistake that is planted.
    pub fault: Option<Fault>,
    programs: BTreeMap<VcpuId, Program>,
    requests: Vec<Due>,
}

/// Periods, in microseconds.
const PERIODS: [u64; 7] = [1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 20_000];
/// The least budget, in nanoseconds.
const LEAST: u64 = 50_000;
/// Numbers of VCPUs that come later.
const LATER: u32 = 100;

impl LiveCase {
    /// The case of a seed, under this policy or any.
    #[must_use]
    pub fn draw(seed: u64, policy: Option<&'static Entry>) -> Self {
        let mut dice = Dice::new(seed ^ 0x11fe);
        let entries: Vec<_> = maracas_policies::all().collect();
        let entry = policy.unwrap_or_else(|| dice.pick(&entries));
        let is_uneven = entry.needs.classes > 1 || entry.needs.progress || dice.one_in(8);
        let cores = dice.between(1 + u64::from(is_uneven), 3) as usize;
        let (count, load) = (dice.between(1, 2 * cores as u64 + 2), dice.between(20, 95));
        let share = load * cores as u64 / count;
        let (cores, count, share) = heavy(entry, seed).unwrap_or((cores, count, share));
        let (mut vcpus, mut programs) = (Vec::new(), BTreeMap::new());
        for id in 0..count as u32 {
            let (vcpu, program) = draw_vcpu(id, share.min(90), entry, &mut dice);
            programs.insert(vcpu.id, program);
            vcpus.push(vcpu);
        }
        let mut base = System::new(cores, vcpus);
        base.capacity = Rate::new(9, 10);
        let until = dice.between(20, 80) * 1_000_000;
        let mut faults = draw_faults(&mut dice, until);
        keep_off(&mut faults, &mut Dice::new(seed ^ 0x0ff));
        if is_uneven {
            let fast = dice.between(1, cores as u64 - 1) as usize;
            let slow_milli = dice.pick(&[1000, 800, 500, 250]);
            base = base.uneven(&[(fast, 1000), (cores - fast, slow_milli)]);
            // Slower cores are really slower, or slowed down.
            faults.share_milli = dice.pick(&[1000, u64::from(slow_milli)]);
            for vcpu in &mut base.vcpus {
                vcpu.class = dice.pick(&[None, Some(0), Some(1), Some(1)]);
                if vcpu.arrival == Arrival::None && dice.one_in(2) {
                    vcpu.reservation.budget = Duration::ZERO;
                }
            }
        }
        let ids: Vec<_> = base.vcpus.iter().map(|vcpu| vcpu.id).collect();
        let mut requests = Vec::new();
        if faults.requests {
            for number in 0..dice.between(1, 6) as u32 {
                let at = dice.between(1_000_000, until);
                let (vcpu, program) = draw_vcpu(LATER + number, 20, entry, &mut dice);
                let some = dice.pick(&ids);
                let ask = match dice.between(0, 7) {
                    0..=2 => Ask::Create(vcpu, program),
                    3 => Ask::Set(some, vcpu.reservation),
                    4 => Ask::Destroy(some),
                    5 => Ask::Adopt(some, Program::Turns { run: 100_000, sleep: 400_000 }),
                    6 => Ask::Kill(some),
                    _ => Ask::List,
                };
                requests.push(Due { at, ask });
            }
        }
        Self { entry, base, faults, until, seed, fault: None, programs, requests }
    }

    /// The system with the service VCPUs that the policy needs.
    fn system(&self) -> System {
        let mut system = self.base.clone();
        let first = system.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0);
        system.vcpus.extend((self.entry.service_vcpus)(&system, &Params::new(), VcpuId(first)));
        system
    }

    fn policy(&self) -> Option<Box<dyn Policy>> {
        (self.entry.build)(&self.system(), &Params::new()).ok()
    }

    /// Plays it; `None` where the policy refuses the system.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check(&self) -> Result<Option<Played>, String> {
        quietly(|| {
            let Some(policy) = self.policy() else { return Ok(None) };
            Rig::new(self, policy, self.policy()).play().map(Some)
        })
    }

    /// Plays it twice: whatever is done follows from the case alone.
    ///
    /// # Errors
    /// What was wrong.
    pub fn check_twice(&self) -> Result<Option<Played>, String> {
        let first = self.check()?;
        match first == self.check()? {
            true => Ok(first),
            false => Err("a second run of the same case went another way".to_string()),
        }
    }
}

/// Of QPS in three cases of four: cores, and one or two tasks more than that, most of which fit
/// beside no other, up to this share of a core each. So some hierarchies have several cores, beside
/// which others decide.
fn heavy(entry: &Entry, seed: u64) -> Option<(usize, u64, u64)> {
    let mut dice = Dice::new(seed ^ 0x9b5);
    if entry.name != "qps" || dice.one_in(4) {
        return None;
    }
    let cores = dice.between(3, 5);
    Some((cores as usize, cores + dice.between(1, 2), dice.between(60, 80)))
}

fn draw_vcpu(id: u32, share: u64, entry: &Entry, dice: &mut Dice) -> (Vcpu, Program) {
    let period = dice.pick(&PERIODS) * 1_000;
    let budget = (period * dice.between(share / 2, share.max(1)) / 100).max(LEAST);
    let [c, t] = [budget, period].map(Duration::from_nanos);
    let mut vcpu = Vcpu::new(id, c, t);
    if !entry.needs.budgets && dice.one_in(6) {
        vcpu = Vcpu::best_effort(id);
    }
    if entry.needs.jobs || !vcpu.reservation.is_none() && dice.one_in(3) {
        let work = budget * dice.between(20, 130) / 100;
        return (vcpu.periodic(), Program::Jobs { work });
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

fn draw_faults(dice: &mut Dice, until: u64) -> LiveFaults {
    let mut faults = LiveFaults::NONE;
    faults.call = dice.pick(&[50, 200, 1_000, 5_000]);
    faults.wake = dice.pick(&[2_000, 5_000, 15_000, 50_000]);
    let mut sometimes = |one_in: u64, low: u64, high: u64| {
        let value = dice.between(low, high);
        if dice.one_in(one_in) { value } else { 0 }
    };
    faults.late_one_in = sometimes(2, 2, 200);
    faults.late = sometimes(1, 100_000, 30_000_000);
    faults.early_one_in = sometimes(3, 2, 50);
    faults.refuse_one_in = sometimes(5, 5, 2_000);
    faults.refuse_for = sometimes(2, 1, 10_000_000);
    faults.lose_one_in = sometimes(6, 3, 100);
    faults.freeze = sometimes(2, 1_000, 3_000_000);
    faults.fork_one_in = sometimes(3, 2, 50);
    faults.relieve_one_in = sometimes(6, 5, 200);
    faults.kill_at = sometimes(5, 1, 20_000);
    faults.off_line_at = sometimes(12, 1, until);
    faults.requests = sometimes(3, 1, 1) == 1;
    faults.give_up_one_in = sometimes(3, 1, 4);
    faults.guardian_dies_at = sometimes(2, 1, 30);
    faults.off_line_for = sometimes(1, 1_000, 3_000_000);
    faults.samples = sometimes(2, 1, 1) == 1;
    faults.meters = dice.pick(&[Meters::None, Meters::Vcpus, Meters::Cores, Meters::Both]);
    faults
}

/// Agents are kept off their cores while they decide: from nothing on that others depend on.
fn keep_off(faults: &mut LiveFaults, dice: &mut Dice) {
    faults.kept_one_in = dice.pick(&[0, 3, 30, 300]);
    faults.kept = dice.pick(&[20_000, 500_000, 15_000_000]);
}

impl fmt::Display for LiveCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {} cores for {} ns",
            self.entry.name,
            self.base.cores.len(),
            self.until
        )?;
        for vcpu in &self.base.vcpus {
            let program = self.programs.get(&vcpu.id);
            let (c, t) = (vcpu.reservation.budget, vcpu.reservation.period);
            writeln!(f, "  {} {c} of {t}, {program:?}", vcpu.id)?;
        }
        for due in &self.requests {
            writeln!(f, "  at {} ns {:?}", due.at, due.ask)?;
        }
        writeln!(f, "  {:?}", self.faults)
    }
}
