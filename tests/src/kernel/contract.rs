//! The contract tests of a policy on the machine in the kernel: on the systems of the simulator's
//! contract tests, with the law in C, the simulator's auditor holds and what the entry claims is
//! true.

use super::{KernelCase, KernelFaults};
use crate::{Case, Mix, generate};
use maracas_core::Duration;
use maracas_core::contract::Entry;

/// One of the tests.
#[derive(Debug)]
pub struct KernelPart {
    /// Under what the policy is tried.
    pub name: &'static str,
    /// How many systems of each mix the project's own policies are tried on.
    pub seeds: u64,
    mixes: &'static [Mix],
    /// By a unit of time, a five-hundredth of the run.
    faults: fn(u64) -> KernelFaults,
    /// Whether reads of memory are counted, for policies that need it.
    pub counts: bool,
}

/// All of them.
pub static PARTS: [KernelPart; 4] = [
    KernelPart {
        name: "on time",
        seeds: 3,
        mixes: &[Mix::tasks(60), Mix::tasks(95), Mix::programs(65)],
        faults: |_| KernelFaults::NONE,
        counts: false,
    },
    KernelPart {
        name: "late",
        seeds: 2,
        mixes: &[Mix::tasks(75), Mix::programs(65)],
        faults: |unit| KernelFaults { late: unit * 5, ..KernelFaults::NONE },
        counts: false,
    },
    // An end that comes a little early counts as had: what the auditor says of service does not
    // hold then, but the sums do.
    KernelPart {
        name: "a little early",
        seeds: 2,
        mixes: &[Mix::tasks(75), Mix::programs(65)],
        faults: |unit| KernelFaults { least: unit, ..KernelFaults::NONE },
        counts: false,
    },
    // The simulator's auditor knows no memory that only the kernel counts: sums and limits hold.
    KernelPart {
        name: "memory",
        seeds: 2,
        mixes: &[Mix::tasks(60), Mix::programs(65)],
        faults: |_| KernelFaults { chunk: 300, ..KernelFaults::NONE },
        counts: true,
    },
];

/// Runs the policy on `seeds` systems of each mix of `part`, and says how many it accepted.
///
/// # Errors
/// The case that fails, with all that it depends on; also where the policy accepts less than a
/// quarter of the systems, as nothing would be tested.
pub fn holds(entry: &'static Entry, part: &KernelPart, seeds: u64) -> Result<u64, String> {
    let (mut accepted, mut total) = (0, 0);
    for seed in 0..seeds {
        for mix in part.mixes {
            let mix = Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..*mix };
            let random = generate(seed, mix);
            let case = KernelCase::of(entry, &random, KernelFaults::NONE);
            // Programs in parts are the simulator's alone.
            let Some(mut case) = case else { continue };
            case.faults = (part.faults)(case.until / 500 + 1);
            total += 1;
            let simulated = Case::new(entry, random, seed);
            let came = came_to(&case, &simulated);
            let came = came.map_err(|why| format!("{}, seed {seed}: {why}\n{case}", part.name))?;
            accepted += u64::from(came);
        }
    }
    if accepted < total / 4 || total == 0 {
        let (name, part) = (entry.name, part.name);
        return Err(format!("{part}: {name} accepted {accepted} of {total} systems only"));
    }
    Ok(accepted)
}

/// Whether the policy accepts a case; what was wrong with the run.
fn came_to(case: &KernelCase, simulated: &Case) -> Result<bool, String> {
    let mut simulated = simulated.clone();
    simulated.faults.late = Duration::from_ticks(case.faults.late);
    let verdict = simulated.verdict();
    let claims = simulated.claims(&verdict);
    let is_as_simulated = case.faults.least == 0 && case.faults.chunk == 0;
    let played = match is_as_simulated {
        true => case.check_as_simulated(claims)?,
        false => case.check()?,
    };
    let Some(played) = played else { return Ok(false) };
    let is_to_hold = claims.no_miss_when_admitted && is_as_simulated;
    match played.late.filter(|late| is_to_hold && late.undone > verdict.tolerance) {
        Some(late) => Err(format!("{late:?}, {} may be undone", verdict.tolerance)),
        None => Ok(true),
    }
}
