//! `maracas check`: would it be admitted?

use maracas_console::failure::{Answer, Outcome};
use maracas_console::output;
use maracas_core::System;
use maracas_scenario::suggest;
use maracas_session::case::{Machine, Overrides};
use maracas_session::live::{self, Require, senses, steering};
use maracas_session::source::Source;
use maracas_session::verdict;

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
    /// Where it is refused, name the smallest change that would be admitted
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
    if args.json {
        let mut json = verdict::to_json(&case, verdict);
        json["suggestions"] = suggestions.into();
        json["notes"] = notes.into();
        output::line(&format!("{json:#}"))?;
    } else {
        notes.iter().for_each(|text| output::note(text));
        output::print(&verdict::text(&case, verdict))?;
        if args.suggest && !verdict.accepted() {
            output::print(&listed(&suggestions))?;
        }
    }
    Ok(if verdict.accepted() { Answer::Yes } else { Answer::No })
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
