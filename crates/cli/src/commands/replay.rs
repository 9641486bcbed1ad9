//! `maracas replay`: feeds the events of a journal to a fresh policy and compares every decision.

use super::sim;
use maracas_console::failure::{Answer, Outcome, bytes_of};
use maracas_console::output;
use maracas_session::replay;
use maracas_session::results::write_trace;
use std::path::PathBuf;

/// Give a journal's events to a fresh policy and compare every decision
///
/// Exits 1 at the first decision that differs and names the event before it, and where the journal
/// has no end, as that of a killed run: then it is read up to its last whole record.
///
/// Example: maracas replay run.journal --trace run.btf
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The journal, as written by `run` or `sim` with --journal
    journal: PathBuf,
    /// The result as JSON
    #[arg(long)]
    json: bool,
    /// Write a trace of the journal too, in the format of FILE's ending: as `sim --trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let bytes = sim::mended(&args.journal, bytes_of(&args.journal)?);
    if let Some(file) = &args.trace {
        output::leave_nothing_at_signals()?;
        write_trace(&bytes, &args.journal, file)?;
    }
    let done = replay::replay(&args.journal.display().to_string(), &bytes)?;
    done.note().iter().for_each(|line| output::note(line));
    output::line(&if args.json { format!("{:#}", done.to_json()) } else { done.text() })?;
    Ok(if done.is_exact() { Answer::Yes } else { Answer::No })
}
