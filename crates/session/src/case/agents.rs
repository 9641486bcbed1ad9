//! What the agents of a live run will take of the cores, by what a wake costs on this host: the
//! room that admission leaves for them, what is too fine for the host, and how often the background
//! may be rotated.

use super::Case;
use maracas_console::failure::Failure;
use maracas_core::admission::Verdict;
use maracas_core::contract::Entry;
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, PPB, Rate, Role, System, Vcpu};
use maracas_live::host::costs::{
    self, Keeps, ROTATIONS_APART, WAKES_A_PERIOD, WakeCost, rounded_up,
};
use maracas_live::host::platform::Platform;
use maracas_live::host::probe::freezer_calls;
use maracas_policies::interference;
use std::sync::OnceLock;

/// The parameters by which policies say after how much time another VCPU has its turn in the
/// background: each turn's end costs a decision, a freeze and a thaw.
const SLICES: [&str; 2] = ["background_slice", "quantum"];
/// The parameter below which pieces of a budget come back together.
const CHUNK_MIN: &str = "chunk_min";
/// What a piece of a budget costs its agent, a start and a stop, is at most this part of it: a
/// tenth, as of a whole budget (`crates/live/src/host/costs.rs`).
const CHUNK_PART: u64 = 10;

/// A decision that costs more than this is measured again: 120 us were measured on a host whose
/// timer interrupts take 14 us, 190 us on an emulated one.
const DEAR: Duration = Duration::from_micros(300);
/// How often it is measured at most.
const TRIES: usize = 4;

/// The time over which what policies do is counted: so many of the longest period that what the
/// start adds does not show.
pub(crate) const PERIODS: u64 = 1_000;
/// How many times as long budgets and periods are tried where agents leave too little room.
const LONGER: [u64; 11] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
const SECOND: u128 = 1_000_000_000;

/// What decisions cost on this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostCosts {
    /// How late an agent wakes.
    pub wake: WakeCost,
    /// What a wake alone takes of a core.
    pub taken: Duration,
    /// What a wake with its decision takes of a core, one that lets another VCPU have its turn in
    /// the background too.
    pub decision: Duration,
    /// The same where the scheduler in the kernel carries it out.
    pub in_kernel: Duration,
}

impl HostCosts {
    /// Of this host, measured once: on the cores that are asked for first, in some 0.2 s.
    fn measured(cores: usize) -> Result<Self, &'static str> {
        static COSTS: OnceLock<Result<HostCosts, String>> = OnceLock::new();
        let costs = COSTS.get_or_init(|| Self::measure(cores).map_err(|error| error.to_string()));
        costs.as_ref().copied().map_err(String::as_str)
    }

    /// What others do on the host can only add to what is measured: where it came out dear, the
    /// least of some tries counts.
    fn measure(cores: usize) -> std::io::Result<Self> {
        let mut least = Self::try_once(cores)?;
        for _ in 1..TRIES {
            if least.decision > DEAR {
                let next = Self::try_once(cores)?;
                least = if next.decision < least.decision { next } else { least };
            }
        }
        Ok(least)
    }

    fn try_once(cores: usize) -> std::io::Result<Self> {
        let host = Platform::detect()?.cores;
        let cores = &host[..host.len().min(cores)];
        let costs = costs::measure(&costs::few(cores))?;
        // Without groups there is no freezer either.
        let freezer = freezer_calls(cores).ok().flatten();
        let (wake, taken) = (costs.wake, costs.taken);
        let decision = costs::decision(freezer, &costs);
        Ok(Self { wake, taken, decision, in_kernel: costs::decision_in_kernel(&costs) })
    }

    /// What this host can keep.
    pub fn keeps(&self) -> Keeps {
        Keeps::of(&self.wake, self.taken)
    }
}

/// What the agent of a core will do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Which core; `None` = each.
    pub core: Option<CoreId>,
    /// Decisions a second.
    pub wakes_per_s: u64,
    /// The share of the core that they take, in parts per billion.
    pub ppb: u64,
}

/// What is known of the agents of a live run beforehand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agents {
    /// What wakes, interrupts and switches cost on this host.
    pub costs: HostCosts,
    /// What the agent of each core takes.
    pub loads: Vec<Load>,
    /// Where too little room is left for what would be admitted without agents: how many times as
    /// long budgets and periods have to be for it.
    pub longer: Option<u64>,
    /// Whether the scheduler in the kernel carries it out: then one thread decides for all cores,
    /// and budgets end by timers of the kernel's.
    pub in_kernel: bool,
}

impl Agents {
    /// Who decides.
    const fn who(&self) -> &'static str {
        if self.in_kernel { "the thread that decides" } else { "agents" }
    }
}

/// A system with the room that its agents leave.
struct Room {
    system: System,
    verdict: Verdict,
    loads: Vec<Load>,
}

/// What the agent of `core` will do for these VCPUs: two wakes in each period, and one for each
/// turn in the background, if turns take `slice` of surplus time.
fn load(
    core: Option<CoreId>,
    vcpus: &[&Vcpu],
    slice: Option<Duration>,
    decision: Duration,
) -> Load {
    // Service VCPUs' service requests are paid for from their own budgets.
    let own = |vcpu: &&&Vcpu| {
        let carries = matches!(vcpu.role, Role::Monitor | Role::Migration);
        !carries && !vcpu.reservation.is_none()
    };
    let promised = || vcpus.iter().filter(own).map(|vcpu| &vcpu.reservation);
    let micro = |period: Duration| SECOND * 1_000_000 / u128::from(period.ticks().max(1));
    let budgets: u128 = promised().map(|it| micro(it.period) * u128::from(WAKES_A_PERIOD)).sum();
    let used: u64 = promised().map(|it| it.utilization().ppb_up()).sum();
    let surplus = u128::from(PPB.saturating_sub(used));
    let turns = slice.filter(|slice| !slice.is_zero() && vcpus.len() > 1);
    let turns = turns.map_or(0, |slice| micro(slice) * surplus / u128::from(PPB));
    let wakes = budgets + turns;
    let ppb = wakes * u128::from(decision.ticks()) * u128::from(PPB) / (SECOND * 1_000_000);
    let fit = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    Load { core, wakes_per_s: fit(wakes / 1_000_000), ppb: fit(ppb) }
}

/// `capacity` without so many thousandths of a core.
fn without(capacity: Rate, thousandths: u64) -> Rate {
    let (num, den) = (u128::from(capacity.num()), u128::from(capacity.den()));
    let left = (num * 1000).saturating_sub(u128::from(thousandths) * den);
    let fit = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    Rate::new(fit(left), fit(den * 1000))
}

/// Raises the time of a turn in the background to what keeps rotations below 2 % of a core, and the
/// shortest piece of a budget to what is worth it. What was raised of what the user asked for, a
/// sentence each.
pub(super) fn raise_times(entry: &Entry, params: &mut Params, cores: usize) -> Vec<String> {
    match HostCosts::measured(cores) {
        Ok(costs) => {
            let mut notes = raise(entry, params, costs.decision);
            notes.extend(join_chunks(entry, params, costs.decision));
            notes
        }
        Err(_) => Vec::new(),
    }
}

/// Has pieces of a budget come back together that are not worth a start and a stop each.
/// Said only where the user asked for shorter ones: that there are none is the default.
fn join_chunks(entry: &Entry, params: &mut Params, decision: Duration) -> Option<String> {
    let costs = decision * WAKES_A_PERIOD;
    let least = rounded_up(costs * CHUNK_PART);
    let spec = entry.params.iter().find(|spec| spec.name == CHUNK_MIN)?;
    let asked = params.time(spec).filter(|asked| *asked < least)?;
    params.set(CHUNK_MIN, Value::Text(least.to_string()));
    (!asked.is_zero()).then(|| {
        format!(
            "{CHUNK_MIN} {asked} is raised to {least}: to start and stop a piece of a budget costs \
             {} on this host, at most a tenth of it",
            rounded_up(costs)
        )
    })
}

fn raise(entry: &Entry, params: &mut Params, rotation: Duration) -> Vec<String> {
    let least = rounded_up(rotation * ROTATIONS_APART);
    let mut notes = Vec::new();
    for spec in entry.params.iter().filter(|spec| SLICES.contains(&spec.name)) {
        // None is refused by the policy, in its own words.
        let asked = params.time(spec).filter(|asked| !asked.is_zero() && *asked < least);
        let Some(asked) = asked else { continue };
        params.set(spec.name, Value::Text(least.to_string()));
        notes.push(format!(
            "{} {asked} is raised to {least}: another turn in the background costs {} on this \
             host, and is had no more often than every {ROTATIONS_APART} times that",
            spec.name,
            rounded_up(rotation)
        ));
    }
    notes
}

impl Case {
    /// Lowers what may be promised of each core by what the agent of the busiest will take, or the
    /// thread that decides for all where the law is carried out `in_kernel`, and asks the policy
    /// again. What keeps that from being known, in a sentence.
    pub(super) fn leave_room_for_deciding(
        &mut self,
        in_kernel: bool,
    ) -> Result<Option<String>, Failure> {
        match HostCosts::measured(self.system.cores.len()) {
            Ok(costs) => {
                let decision = if in_kernel { costs.in_kernel } else { costs.decision };
                self.leave_room(HostCosts { decision, ..costs }, in_kernel).map(|()| None)
            }
            Err(why) => {
                Ok(Some(format!("what decisions take of the cores was not measured ({why})")))
            }
        }
    }

    fn leave_room(&mut self, costs: HostCosts, in_kernel: bool) -> Result<(), Failure> {
        let fitted = self.verdict.accepted();
        let Room { system, loads, verdict } = self.room(self.start.clone(), costs.decision);
        let longer = (fitted && !verdict.accepted()).then(|| self.longer(costs.decision)).flatten();
        self.agents = Some(Agents { costs, loads, longer, in_kernel });
        (self.system.capacity, self.start.capacity) = (system.capacity, system.capacity);
        self.judge()
    }

    /// Lowers what may be promised of `system`'s cores by what agents will take of the busiest.
    fn room(&self, mut system: System, decision: Duration) -> Room {
        /// Where the policy places VCPUs otherwise once there is less room, it is asked again; the
        /// room only shrinks.
        const TIMES: usize = 4;
        let (whole, mut taken) = (system.capacity, 0);
        let mut verdict = self.entry.verdict(&system, &self.params);
        let mut loads = self.loads(&system, &verdict, decision);
        for _ in 0..TIMES {
            let most = loads.iter().map(|load| load.ppb).max().unwrap_or(0);
            let thousandths = most.div_ceil(PPB / 1000);
            if thousandths <= taken {
                break;
            }
            taken = thousandths;
            system.capacity = without(whole, taken);
            verdict = self.entry.verdict(&system, &self.params);
            if !verdict.accepted() {
                break;
            }
            loads = self.loads(&system, &verdict, decision);
        }
        Room { system, verdict, loads }
    }

    /// How many times as long budgets and periods would be admitted: their shares are the same,
    /// and agents act less often.
    fn longer(&self, decision: Duration) -> Option<u64> {
        let first = self.first_service_vcpu();
        let stretched = |times: u64| {
            let mut system = self.start.clone();
            for vcpu in system.vcpus.iter_mut().filter(|vcpu| vcpu.id < first) {
                let r = &mut vcpu.reservation;
                (r.budget, r.period, r.deadline) =
                    (r.budget * times, r.period * times, r.deadline * times);
            }
            system
        };
        let fits = |times: &u64| self.room(stretched(*times), decision).verdict.accepted();
        LONGER.into_iter().find(fits)
    }

    /// What agents will do where the policy placed the VCPUs.
    fn loads(&self, system: &System, verdict: &Verdict, decision: Duration) -> Vec<Load> {
        let slices = self.entry.params.iter().filter(|spec| SLICES.contains(&spec.name));
        let slice = slices.filter_map(|spec| self.params.time(spec)).min();
        let cores = system.cores.len().max(1) as u64;
        let by_core = verdict.cores.iter().filter(|it| !it.vcpus.is_empty()).map(|it| {
            let here = |vcpu: &&Vcpu| it.vcpus.contains(&vcpu.id);
            let vcpus: Vec<_> = system.vcpus.iter().filter(here).collect();
            let load = load(it.core, &vcpus, slice, decision);
            match it.core {
                Some(_) => load,
                // They take turns on all cores.
                None => {
                    let Load { wakes_per_s, ppb, .. } =
                        self.moving(system, decision).unwrap_or(load);
                    Load { wakes_per_s: wakes_per_s / cores, ppb: ppb / cores, ..load }
                }
            }
        });
        by_core.collect()
    }

    /// What all agents together do at most for VCPUs that move between all cores, by the structure
    /// of what the policy plans: a decision for each of its acts. `None` where that is not known.
    fn moving(&self, system: &System, decision: Duration) -> Option<Load> {
        let name = self.entry.name.rsplit('+').next()?;
        let periods = system.vcpus.iter().map(|vcpu| vcpu.reservation.period);
        let length = Duration::from_ticks(periods.max()?.ticks().checked_mul(PERIODS)?);
        let acts = interference::calls(name, system, &self.params, length)?.acts;
        let a_second = u128::from(acts) * SECOND / u128::from(length.ticks().max(1));
        let fit = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let ppb = fit(a_second * u128::from(decision.ticks()));
        Some(Load { core: None, wakes_per_s: fit(a_second), ppb })
    }

    /// Why what would be admitted otherwise is not, where agents take too much, and the way out.
    pub fn of_room(&self) -> Option<String> {
        let agents = self.agents.as_ref()?;
        let Agents { costs, loads, longer, .. } = agents;
        let (who, longer) = (agents.who(), (*longer)?);
        let most = loads.iter().max_by_key(|load| load.ppb)?;
        let place = most.core.map_or("each core".to_string(), |core| core.to_string());
        let (share, wakes, each) =
            (percent(most.ppb), most.wakes_per_s, rounded_up(costs.decision));
        Some(format!(
            "too little room is left by {who}: {wakes} decisions a second of {each} each are \
             {share} of {place}; budgets and periods {longer} times as long would be admitted"
        ))
    }

    /// What agents will take, in a sentence; `None` where that is not known, or nothing.
    pub fn of_agents(&self) -> Option<String> {
        let agents = self.agents.as_ref()?;
        let Agents { costs, loads, .. } = agents;
        let each = loads.iter().filter(|load| load.wakes_per_s > 0).map(|load| {
            let place = load.core.map_or("each core".to_string(), |core| core.to_string());
            let (share, wakes) = (percent(load.ppb), load.wakes_per_s);
            format!("{share} of {place} ({wakes} decisions a second)")
        });
        let each: Vec<_> = each.collect();
        let (decision, capacity) = (rounded_up(costs.decision), self.start.capacity);
        (!each.is_empty()).then(|| {
            let (who, each) = (agents.who(), each.join(", "));
            format!("{who} will take {each}, {decision} each; {capacity} of a core may be promised")
        })
    }

    /// The user's VCPUs whose budgets are so small that this host ends them late by more than 1 %,
    /// with the least budget that is not; `None` where that is not known, or no agents end them.
    pub fn imprecise(&self) -> Option<(Vec<&Vcpu>, Duration)> {
        let by_agents = self.agents.as_ref().filter(|agents| !agents.in_kernel);
        let least = by_agents?.costs.keeps().least_budget;
        let first = self.first_service_vcpu();
        let fine = |vcpu: &&Vcpu| {
            let reservation = &vcpu.reservation;
            vcpu.id < first && !reservation.is_none() && reservation.budget < least
        };
        Some((self.system.vcpus.iter().filter(fine).collect(), least))
    }

    /// The same in a sentence; `None` where there are none, or it is not known.
    pub fn of_imprecise(&self) -> Option<String> {
        let (vcpus, least) = self.imprecise()?;
        let late = rounded_up(self.agents.as_ref()?.costs.wake.p50);
        let budget =
            |vcpu: &&Vcpu| format!("{} of `{}`", vcpu.reservation.budget, self.name(vcpu.id));
        let budgets: Vec<_> = vcpus.iter().map(budget).collect();
        let (plural, budgets) = (if budgets.len() == 1 { "" } else { "s" }, budgets.join(", "));
        (!vcpus.is_empty()).then(|| {
            format!(
                "budget{plural} {budgets}: this host ends a budget {late} late at the median, \
                 which is carried as debt; give at least {} for periods within 1 %",
                rounded_up(least)
            )
        })
    }
}

/// Parts per billion as `2.1 %`.
fn percent(ppb: u64) -> String {
    let tenths = (ppb + PPB / 2000) / (PPB / 1000);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
