//! What would make all jobs be in time beside others that use memory: the smallest change of
//! budgets, of cores' bandwidths or of the split of the cache, found by trying.
//!
//! Each try is a scenario of its own: the text of the file with a few values changed, read and
//! judged as any. So what is named here is what the next `check` admits. Budgets alone are tried
//! first, then more bandwidth for a core that MemGuard closes too early, then a split of the cache,
//! the smallest part for those that are late first, and both together. Last come limits for others
//! (`fit/limits.rs`), since these take something away.

mod limits;

use crate::case::{Case, Machine, Overrides};
use maracas_console::failure::Failure;
use maracas_core::memory::Partition;
use maracas_core::params::parse_bandwidth;
use maracas_core::{CoreId, Duration, VcpuId};
use maracas_scenario::{Scenario, edit};
use maracas_sim::jobs::{Answer, Judged};

/// A scenario in which every job is in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fit {
    /// What is changed, a sentence each.
    pub changes: Vec<String>,
    /// The whole file.
    pub text: String,
}

/// Budgets depend on what runs beside what, and that on where they fit: so often they are raised
/// anew.
const ROUNDS: usize = 8;
/// What a core's bandwidth is multiplied by, one after the other.
const MORE_BANDWIDTH: [f64; 8] = [1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0];
/// Sixteenths of the cache for those that are late.
const PARTS: [u32; 7] = [1, 2, 3, 4, 6, 8, 12];

/// Looks for one, from `case`, which was read from `text`. What nothing is known of it cannot help.
///
/// # Errors
/// Where there is none: what stands in the way of budgets alone, in a sentence.
pub fn fit(case: &Case, text: &str, overrides: &Overrides) -> Result<Fit, String> {
    let tries = Tries { file: &case.file, machine: case.machine, overrides };
    let start = Fit { changes: Vec::new(), text: text.to_string() };
    let why = match tries.budgets(start.clone()) {
        Ok(fit) => return Ok(fit),
        Err(why) => why,
    };
    let splits = tries.splits(case, &start);
    let wider = |fit: &Fit| tries.bandwidths(case, fit);
    let both = splits.iter().flat_map(wider).collect::<Vec<_>>();
    let limited = limits::limits(case, &start);
    let mut all = wider(&start).into_iter().chain(splits).chain(both).chain(limited);
    all.find_map(|fit| tries.budgets(fit).ok()).ok_or(why)
}

struct Tries<'a> {
    file: &'a str,
    machine: Machine,
    overrides: &'a Overrides,
}

impl Tries<'_> {
    fn read(&self, text: &str) -> Result<Case, String> {
        let scenario = Scenario::parse(text, self.file).map_err(|why| why.to_string())?;
        Case::of(scenario, self.machine, self.overrides).map_err(|why| match why {
            Failure::Bad(line) => line,
            Failure::OutputClosed => String::new(),
        })
    }

    /// Raises budgets until all jobs are in time, or says what binds.
    fn budgets(&self, mut fit: Fit) -> Result<Fit, String> {
        let mut first: Vec<(VcpuId, Duration)> = Vec::new();
        for _ in 0..ROUNDS {
            let case = self.read(&fit.text)?;
            if !case.verdict.accepted() {
                let why = crate::verdict::named(&case, &case.verdict.why());
                return Err(format!("with budgets for what jobs need, {why}"));
            }
            let late: Vec<&Judged> =
                case.jobs.iter().filter(|one| one.answer != Answer::InTime).collect();
            if late.is_empty() {
                fit.changes.extend(first.iter().map(|(id, old)| changed(&case, *id, *old)));
                return Ok(fit);
            }
            let short: Vec<_> = late.iter().filter(|one| one.needs > one.promised).collect();
            if short.is_empty() {
                return Err(binds(&case, late[0]));
            }
            for one in short {
                let budget = rounded_up(case.in_nanos(one.needs));
                let name = case.name(one.vcpu);
                let vcpu = case.start.vcpu(one.vcpu);
                let deadline = vcpu.map(|vcpu| case.in_nanos(vcpu.reservation.deadline));
                if deadline.is_none_or(|deadline| budget > deadline) {
                    let deadline = deadline.unwrap_or_default();
                    return Err(format!("{name} needs {budget} and its deadline is {deadline}"));
                }
                fit.text = edit::with_budget(&fit.text, &name, &written(budget))
                    .ok_or_else(|| format!("{name} has no budget in {}", self.file))?;
                if first.iter().all(|(id, _)| *id != one.vcpu) {
                    first.push((one.vcpu, case.in_nanos(one.promised)));
                }
            }
        }
        Err(format!("budgets grew {ROUNDS} times and were still too small"))
    }

    /// The same with more bandwidth for the cores of those that are late, the least first.
    fn bandwidths(&self, case: &Case, fit: &Fit) -> Vec<Fit> {
        let Some(spec) = case.spec("bandwidth") else { return Vec::new() };
        let given = case.params.list(spec);
        let cores = case.start.cores.len();
        let each = |core: usize| given.get(if given.len() == 1 { 0 } else { core });
        let late = late_cores(case);
        let wider = |factor: f64| {
            let bandwidth = |core: usize| {
                let own = each(core)?;
                let bytes = parse_bandwidth(own).unwrap_or(0);
                let is_late = late.contains(&CoreId(core as u16)) && bytes > 0;
                let more = (bytes as f64 * factor / 1e6).ceil();
                Some(if is_late { format!("\"{more}MB/s\"") } else { format!("\"{own}\"") })
            };
            let list: Option<Vec<String>> = (0..cores).map(bandwidth).collect();
            let value = format!("[{}]", list?.join(", "));
            let text = edit::with_key(&fit.text, "policy", "bandwidth", &value)?;
            let change = format!("[policy]: bandwidth = {value}");
            let changes = [fit.changes.clone(), vec![change]].concat();
            Some(Fit { changes, text })
        };
        if given.is_empty() {
            return Vec::new();
        }
        MORE_BANDWIDTH.into_iter().filter_map(wider).collect()
    }

    /// The same with the cache split so that each core on which a VCPU is late has a part of its
    /// own; the smallest part first.
    fn splits(&self, case: &Case, fit: &Fit) -> Vec<Fit> {
        let platform = case.scenario.as_ref().and_then(|it| it.platform.memory.as_ref());
        let Some(memory) = platform else { return Vec::new() };
        let Some(cache) = &memory.cache else { return Vec::new() };
        let (cores, late) = (case.start.cores.len(), late_cores(case));
        let key = if memory.partition == Partition::Ways { "ways" } else { "colors" };
        let near = cache.cores_per_cache.map_or(cores, |each| cores.min(each.get() as usize));
        let split = |sixteenths: &u32| {
            let own = (memory.parts() * sixteenths / 16).max(1);
            let share = |core: usize| {
                let group = core / near * near..(core / near * near + near).min(cores);
                let is_late = |core: usize| late.contains(&CoreId(core as u16));
                let ours = group.clone().filter(|core| is_late(*core)).count() as u32;
                let others = group.len() as u32 - ours;
                let rest = memory.parts().checked_sub(own * ours)?;
                let each = rest.checked_div(others).unwrap_or(1);
                (each > 0).then_some(if is_late(core) { own } else { each })
            };
            let shares: Vec<u32> = (0..cores).map(share).collect::<Option<_>>()?;
            let value = format!("{shares:?}");
            let text = edit::with_key(&fit.text, "platform", key, &value)?;
            let change = format!("[platform]: {key} = {value}, a part of the cache for each core");
            Some(Fit { changes: [fit.changes.clone(), vec![change]].concat(), text })
        };
        PARTS.iter().filter_map(split).collect()
    }
}

/// The cores on which a VCPU is late.
fn late_cores(case: &Case) -> Vec<CoreId> {
    let late = |vcpu: &VcpuId| {
        case.jobs.iter().any(|one| one.vcpu == *vcpu && one.answer != Answer::InTime)
    };
    let cores = case.verdict.cores.iter().filter(|core| core.vcpus.iter().any(late));
    cores.filter_map(|core| core.core).collect()
}

/// Why a job that needs no more than its budget is not in time.
fn binds(case: &Case, one: &Judged) -> String {
    let name = case.name(one.vcpu);
    match one.answer {
        Answer::Unknown(why) => format!("of {name} nothing is known: {why}"),
        Answer::InTime | Answer::MayBeLate | Answer::Late => format!(
            "{name} has the budget that it needs, but its core is closed for too long in each \
             period of regulation, or others on it need more than theirs"
        ),
    }
}

fn changed(case: &Case, vcpu: VcpuId, old: Duration) -> String {
    let found = case.start.vcpu(vcpu);
    let new = found.map_or(old, |it| case.in_nanos(it.reservation.budget));
    format!("{}: raise budget from {old} to {new}", case.name(vcpu))
}

/// To three digits, upwards: what people write.
fn rounded_up(nanos: Duration) -> Duration {
    let mut grain = 1;
    while nanos.ticks() / grain >= 1_000 {
        grain *= 10;
    }
    Duration::from_ticks(nanos.ticks().next_multiple_of(grain))
}

/// As a scenario says it.
fn written(nanos: Duration) -> String {
    match nanos.ticks() {
        ticks if ticks % 1_000_000 == 0 => format!("{}ms", ticks / 1_000_000),
        ticks if ticks % 1_000 == 0 => format!("{}us", ticks / 1_000),
        ticks => format!("{ticks}ns"),
    }
}
