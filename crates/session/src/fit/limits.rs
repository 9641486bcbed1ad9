//! Limits of MemGuard for others than those that are late, down to little more than what the jobs
//! on a core read themselves.

use super::{Fit, late_cores};
use crate::case::Case;
use maracas_core::CoreId;
use maracas_core::memory::LINE_BYTES;
use maracas_core::params::parse_bandwidth;
use maracas_scenario::edit;

/// What a core may read, in thousandths of what its own jobs read: the most that does is taken. A
/// core at exactly that would be closed before its jobs are done.
const SHARES: [u64; 6] = [16_000, 8_000, 4_000, 2_000, 1_500, 1_250];
/// For a core without jobs, and the least for any: surplus time goes on at this, so many bytes per
/// second times a share. A thousandth of what memories serve.
const FLOOR: u64 = 1_000_000;

/// Files like that of `fit` in which others are limited, the loosest first: only others than those
/// that are late, then all.
pub(super) fn limits(case: &Case, fit: &Fit) -> Vec<Fit> {
    let Some((start, policy)) = around(case, fit) else { return Vec::new() };
    let late = late_cores(case);
    let each = [&late[..], &[]];
    let tries = SHARES.iter().flat_map(|share| each.map(|spared| (share, spared)));
    tries.filter_map(|(share, spared)| limited(case, &start, policy, *share, spared)).collect()
}

/// The file under MemGuard that limits for good, and the policy's name there, where that is new.
fn around(case: &Case, fit: &Fit) -> Option<(Fit, Option<&'static str>)> {
    let name = case.entry.name;
    if !name.starts_with("memguard+") {
        let guarded = maracas_policies::find(&format!("memguard+{name}"))?;
        let text = edit::with_key(&fit.text, "policy", "name", &format!("\"{}\"", guarded.name))?;
        let text = edit::with_key(&text, "policy", "reclaim", "false")?;
        return Some((Fit { text, ..fit.clone() }, Some(guarded.name)));
    }
    let weights = case.spec("weights")?;
    if !case.params.list(weights).is_empty() {
        return None;
    }
    let mut fit = fit.clone();
    let spare = case.spec("spare")?;
    if case.params.choice(spare) != "off" {
        fit.text = edit::with_key(&fit.text, "policy", "spare", "\"off\"")?;
        fit.changes.push("[policy]: spare = \"off\"".into());
    }
    if case.params.flag(case.spec("reclaim")?) {
        fit.text = edit::with_key(&fit.text, "policy", "reclaim", "false")?;
        fit.changes.push("[policy]: reclaim = false".into());
    }
    Some((fit, None))
}

fn limited(
    case: &Case,
    fit: &Fit,
    policy: Option<&str>,
    share: u64,
    spared: &[CoreId],
) -> Option<Fit> {
    let spec = case.spec("bandwidth");
    let given = spec.map(|spec| case.params.list(spec)).unwrap_or_default();
    let own = |core: usize| given.get(if given.len() == 1 { 0 } else { core });
    let bandwidth = |core: usize| {
        let own = own(core).map_or("none", String::as_str);
        if spared.contains(&CoreId(core as u16)) {
            return format!("\"{own}\"");
        }
        let reads = bytes_per_s(case, CoreId(core as u16)).max(FLOOR);
        let limit = reads.saturating_mul(share) / 1_000;
        // Never more than what it has.
        match parse_bandwidth(own).unwrap_or(0) {
            before if before > 0 && before <= limit => format!("\"{own}\""),
            _ => format!("\"{}kB/s\"", limit.div_ceil(1_000)),
        }
    };
    let list: Vec<String> = (0..case.start.cores.len()).map(bandwidth).collect();
    if list.iter().all(|it| it == "\"none\"") {
        return None;
    }
    let value = format!("[{}]", list.join(", "));
    let text = edit::with_key(&fit.text, "policy", "bandwidth", &value)?;
    let name = policy.map_or(String::new(), |name| format!("name = \"{name}\", reclaim = false, "));
    let change = format!("[policy]: {name}bandwidth = {value}, limits on what each core reads");
    Some(Fit { changes: [fit.changes.clone(), vec![change]].concat(), text })
}

/// What jobs on `core` read at most.
fn bytes_per_s(case: &Case, core: CoreId) -> u64 {
    let there = case.verdict.cores.iter().filter(|it| it.core == Some(core));
    let vcpus = there.flat_map(|it| &it.vcpus);
    let of = |vcpu| {
        let reads = case.jobs.iter().find(|one| one.vcpu == vcpu)?.reads;
        let vcpu = case.start.vcpu(vcpu)?;
        let period = case.in_nanos(vcpu.reservation.period).ticks().max(1);
        let bytes = u128::from(reads) * u128::from(LINE_BYTES) * 1_000_000_000;
        u64::try_from(bytes.div_ceil(u128::from(period))).ok()
    };
    vcpus.filter_map(|vcpu| of(*vcpu)).fold(0, u64::saturating_add)
}
