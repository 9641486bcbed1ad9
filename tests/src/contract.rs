//! The contract tests of one policy: on random systems, under any lateness, with hidden wakes, with
//! overheads and with extra questions, the audit holds, and what its entry claims is true.

use crate::{Case, Faults, Mix, check, generate};
use maracas_core::Duration;
use maracas_core::contract::Entry;
use maracas_sim::Overheads;

/// One of the tests.
pub struct Part {
    /// Under what the policy is tried.
    pub name: &'static str,
    /// How many systems of each mix the project's own policies are tried on.
    pub seeds: u64,
    mixes: &'static [Mix],
    /// By the policy and a unit of time, a five-hundredth of the run.
    faults: fn(&Entry, Duration) -> Faults,
}

const UNRULY: Mix = Mix { jobs_only: false, changes: true, unruly: true, load: 70 };

/// All of them.
pub static PARTS: [Part; 5] = [
    Part {
        name: "on time",
        seeds: 150,
        mixes: &[Mix::tasks(60), Mix::tasks(95), Mix::programs(65), UNRULY],
        faults: |_, _| Faults::default(),
    },
    Part {
        name: "late",
        seeds: 100,
        mixes: &[Mix::tasks(75), Mix::programs(65), UNRULY],
        faults: |_, unit| Faults { late: unit * 5, ..Faults::default() },
    },
    Part {
        name: "with hidden wakes",
        seeds: 100,
        mixes: &[Mix::programs(65), UNRULY],
        faults: |entry, _| Faults { hidden_wakes: !entry.needs.visible_wakes, ..Faults::default() },
    },
    Part {
        name: "with everything charged",
        seeds: 60,
        mixes: &[Mix::tasks(60), Mix::programs(60), UNRULY],
        faults: |_, unit| Faults {
            late: unit,
            overheads: Overheads {
                context_switch: unit,
                migration: unit,
                decision: unit,
                release: unit,
                ..Overheads::default()
            },
            ..Faults::default()
        },
    },
    Part {
        name: "asked again",
        seeds: 60,
        mixes: &[Mix::tasks(80), Mix::programs(65), UNRULY],
        faults: |_, unit| Faults { nag: Some(unit * 3), ..Faults::default() },
    },
];

/// Runs the policy on `seeds` systems of each mix of `part`, and says how many it accepted.
///
/// # Errors
/// The case that fails, with all that it depends on; also where the policy accepts less than a
/// quarter of the systems, as nothing would be tested.
pub fn holds(entry: &'static Entry, part: &Part, seeds: u64) -> Result<u64, String> {
    let mut accepted = 0;
    for seed in 0..seeds {
        for mix in part.mixes {
            let mix = Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..*mix };
            let mut case = Case::new(entry, generate(seed, mix), seed);
            case.faults = (part.faults)(entry, Duration::from_ticks(case.until.ticks() / 500 + 1));
            let outcome =
                check(&case).map_err(|why| format!("{}, seed {seed}: {why}\n{case}", part.name))?;
            accepted += u64::from(outcome.is_some());
        }
    }
    let total = seeds * part.mixes.len() as u64;
    if accepted < total / 4 {
        let (name, part) = (entry.name, part.name);
        return Err(format!("{part}: {name} accepted {accepted} of {total} systems only"));
    }
    Ok(accepted)
}
