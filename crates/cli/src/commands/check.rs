//! `maracas check`: would it be admitted?

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_session::case::{Machine, Overrides};
use maracas_session::check::Checked;
use maracas_session::live::backend::Backend;
use maracas_session::live::senses;
use maracas_session::source::Source;

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
    /// What will carry the budgets out on the live machine: room is left for what its decisions
    /// take, with `auto` for those of agents, which take more. What `run` refuses of a backend by
    /// name is not looked at
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
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
    let in_kernel = args.backend == Backend::SchedExt;
    if args.backend != Backend::Agents && args.machine != Machine::Live {
        return Err(Failure::about("--backend", "of the live machine alone: add --machine live"));
    }
    let overrides = Overrides { in_kernel, ..args.overrides.clone() };
    let case = args.source.case(args.machine, &overrides)?;
    let read = || std::fs::read_to_string(&case.file).map_err(|why| why.to_string());
    let checked = Checked::of(&case, &args.asked, args.suggest, &read, &overrides)?;
    if args.json {
        output::line(&format!("{:#}", checked.to_json(&case)))?;
    } else {
        checked.notes.iter().for_each(|text| output::note(text));
        output::print(&checked.text(&case))?;
    }
    Ok(if case.verdict.accepted() { Answer::Yes } else { Answer::No })
}
