//! `maracas check`: would it be admitted?

use maracas_console::failure::{Answer, Outcome};
use maracas_console::output;
use maracas_core::System;
use maracas_scenario::suggest;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_session::fit::{self, Fit};
use maracas_session::live::{self, Require, senses, steering};
use maracas_session::source::Source;
use maracas_session::verdict;
use serde_json::{Value, json};

/// Say whether a scenario would be admitted, with every test's numbers
///
/// Exits 1 where it is refused and 2 where the file is bad.
///
/// Example: maracas check examples/quickstart.toml --machine live --suggest
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// For which machine
    #[arg(long, value_enum, default_value_t = Machine::Sim)]
    machine: Machine,
    #[command(flatten)]
    asked: senses::Asked,
    /// Where it is refused, name the smallest change that would be admitted; where it is admitted
    /// and jobs may be late beside others that use memory, print the file with budgets, bandwidths
    /// or a split of the cache with which they are not
    #[arg(long)]
    suggest: bool,
    /// The verdict as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    overrides: Overrides,
}

pub(super) fn run(args: &Args) -> Outcome {
    let case = args.source.case(args.machine, &args.overrides)?;
    let mut notes = case.assumptions().to_vec();
    if args.machine == Machine::Live {
        // Whatever `run` would refuse in the programs, or for want of a sensor, is refused here.
        let setup = live::setup(&case, None)?;
        notes.extend(steering::notes(&case)?);
        let senses = args.asked.open(&case, &setup, Require::Any)?;
        let sensor = senses.sensor.iter().filter(|_| case.senses().samples);
        notes.extend(sensor.map(|sensor| format!("memory is sampled by {}", sensor.describe())));
        notes.extend(senses.notes);
        notes.extend(case.of_agents());
        notes.extend(verdict::of_fine_reservations(&case));
    } else if args.asked.is_given() {
        notes.push("--sense changes nothing in simulation; it is for --machine live".into());
    }
    let verdict = &case.verdict;
    let suggestions = match &case.scenario {
        Some(scenario) if args.suggest && !verdict.accepted() => {
            let admits = |system: &System| {
                let system = case.with_service_vcpus(system);
                case.entry.verdict(&system, &case.params).accepted()
            };
            let changes = suggest::changes(&case.without_service_vcpus(), &admits);
            changes.iter().take(SUGGESTIONS).map(|change| scenario.describe(change)).collect()
        }
        Some(_) | None => Vec::new(),
    };
    let fitted = (args.suggest && case.jobs_may_be_late()).then(|| fitted(&case, &args.overrides));
    if args.json {
        let mut shown = verdict::to_json(&case, verdict);
        shown["suggestions"] = suggestions.into();
        shown["notes"] = notes.into();
        shown["fit"] = match &fitted {
            Some(Ok(fit)) => json!({ "changes": fit.changes, "scenario": fit.text }),
            Some(Err(why)) => json!({ "binds": why }),
            None => Value::Null,
        };
        output::line(&format!("{shown:#}"))?;
    } else {
        notes.iter().for_each(|text| output::note(text));
        output::print(&verdict::text(&case, verdict))?;
        if args.suggest && !verdict.accepted() {
            output::print(&listed(&suggestions))?;
        }
        match &fitted {
            Some(Ok(fit)) => output::print(&told(fit))?,
            Some(Err(why)) => output::print(&format!("nothing tried makes it fit: {why}\n"))?,
            None => {}
        }
    }
    Ok(if verdict.accepted() { Answer::Yes } else { Answer::No })
}

/// The nearest scenario in which all jobs are in time, or what stands in the way.
fn fitted(case: &Case, overrides: &Overrides) -> Result<Fit, String> {
    let text = std::fs::read_to_string(&case.file).map_err(|why| why.to_string())?;
    fit::fit(case, &text, overrides)
}

/// The changes in comments, so that all of it is a scenario, and the scenario.
fn told(fit: &Fit) -> String {
    let changes: String = fit.changes.iter().map(|change| format!("#   {change}\n")).collect();
    format!("# in time with these changes:\n{changes}{}", fit.text)
}

/// As many as a user weighs against each other; they are sorted, the smallest first.
const SUGGESTIONS: usize = 4;

fn listed(suggestions: &[String]) -> String {
    if suggestions.is_empty() {
        return "no single change of a budget, a period or the cores would be admitted\n".into();
    }
    let lines: String = suggestions.iter().map(|line| format!("  {line}\n")).collect();
    format!("any one of these would be admitted:\n{lines}")
}
