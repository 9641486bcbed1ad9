//! A case in the simulator, from how it is to be run to its report.

use crate::case::Case;
use crate::observe::Watch;
use crate::results::Unwritten;
use crate::verdict;
use maracas_console::failure::Failure;
use maracas_core::{Duration, Instant};
use maracas_sim::Options;
use maracas_sim::locks::Blocking;
use maracas_sim::script::ThreadOutcome;
use maracas_trace::Report;

/// The horizon where neither the caller nor the file names one.
pub const DEFAULT_UNTIL: Duration = Duration::from_secs(10);

/// What a simulation came to.
pub struct Simulated {
    /// What was delivered.
    pub report: Report,
    /// The journal's bytes, where the watch kept them.
    pub journal: Vec<u8>,
    /// What users should know: VCPUs that were refused when they arrived, a sentence each.
    pub notes: Vec<String>,
    /// What each thread with a script came to; empty without scripts.
    pub acted: Vec<ThreadOutcome>,
    /// How long each VCPU's jobs waited for resources; empty where they share none.
    pub blocking: Vec<Blocking>,
    /// The files of the watch that could not be written.
    pub unwritten: Unwritten,
}

/// Simulates; `None` where the policy refuses.
pub fn simulate(case: &Case, options: &Options, mut watch: Watch<'_>) -> Option<Simulated> {
    // What a policy cannot know of resources, its `build` does not refuse.
    if case.system.resources.is_some() && !case.verdict.accepted() {
        return None;
    }
    let mut policy = (case.entry.build)(&case.start, &case.params).ok()?;
    let outcome = maracas_sim::simulate(&case.subject(), policy.as_mut(), options, &mut watch);
    let mut notes = Vec::new();
    for (vcpu, answer) in &outcome.admissions {
        if let Err(why) = answer {
            let why = verdict::named(case, &why.to_string());
            notes.push(format!("{} was refused when it arrived: {why}", case.name(*vcpu)));
        }
    }
    let (report, journal, unwritten) = watch.finish(&outcome, &policy.statistics());
    let (acted, blocking) = (outcome.acted, outcome.blocking);
    Some(Simulated { report, journal, notes, acted, blocking, unwritten })
}

/// How `case` is to be simulated, on time and with every wake visible.
pub fn options(case: &Case, until: Option<Duration>) -> Options {
    let scenario = case.scenario.as_ref();
    let until = until.or(scenario.and_then(|scenario| scenario.run.duration));
    Options {
        seed: case.seed,
        overheads: scenario.map(|scenario| scenario.overheads).unwrap_or_default(),
        ..Options::new(Instant::ZERO.saturating_add(until.unwrap_or(DEFAULT_UNTIL)))
    }
}

/// Turns nanoseconds into the case's ticks.
///
/// # Errors
/// Where the horizon is too long for them.
pub fn in_ticks(case: &Case, mut options: Options) -> Result<Options, Failure> {
    let scale = case.system.ticks_per_ns;
    if scale == 1 {
        return Ok(options);
    }
    let longest = case.longest();
    let ticks = |time: Duration| {
        case.in_ticks(time).ok_or_else(|| {
            Failure::new(format!(
                "{time} is too long at {scale} ticks a nanosecond, which exact budgets need; \
                 simulate at most {longest}"
            ))
        })
    };
    options.until = Instant::ZERO + ticks(options.until - Instant::ZERO)?;
    options.late = ticks(options.late)?;
    let o = &mut options.overheads;
    for time in [
        &mut o.context_switch,
        &mut o.migration,
        &mut o.decision,
        &mut o.release,
        &mut o.sample,
        &mut o.lock,
        &mut o.structure,
        &mut o.page_copy,
    ] {
        *time = ticks(*time)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Machine, Overrides};

    const SCENARIO: &str = "version = 1\n[platform]\ncores = 2\n[policy]\nname = \"NAME\"\n\
         [run]\nduration = \"1s\"\n\
         [[program]]\nname = \"a\"\nbudget = \"6ms\"\nperiod = \"10ms\"\n\
         workload = { kind = \"periodic\", cost = \"6ms\" }\n\
         [[program]]\nname = \"b\"\nbudget = \"9ms\"\nperiod = \"20ms\"\njobs = \"sporadic\"\n\
         workload = { kind = \"periodic\", cost = { uniform = [\"4ms\", \"9ms\"] } }\n\
         [[program]]\nname = \"c\"\nbudget = \"10ms\"\nperiod = \"30ms\"\n\
         workload = { kind = \"periodic\", cost = \"10ms\" }\n";

    /// Without a journal no plans are made under these.
    #[test]
    fn a_report_is_the_same_with_and_without_a_journal() {
        let file = std::env::temp_dir().join(format!("maracas-orders-{}.toml", std::process::id()));
        for name in ["p-edf", "p-rm", "g-edf", "g-rm", "c-edf"] {
            std::fs::write(&file, SCENARIO.replace("NAME", name)).unwrap();
            let case = Case::read(&file, Machine::Sim, &Overrides::default()).unwrap();
            let report = |watch| simulate(&case, &options(&case, None), watch).unwrap().report;
            let [with, without] = [report(Watch::keeping(&case)), report(Watch::bare(&case))];
            assert_eq!(with, without, "{name}");
            let all = with.total;
            assert!(all.jobs > 150 && all.decisions > 250, "{name}: {all:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
