//! `maracas report`: a run as one page for a browser.

use super::sim;
use maracas_console::failure::{Answer, Failure, Outcome, bytes_of};
use maracas_console::output;
use maracas_core::Duration;
use maracas_trace::page;
use std::path::PathBuf;

/// Write a run as one page for a browser
///
/// Takes a journal, or a scenario, which is then simulated on time. The page has verdicts, the
/// causes of broken promises, a schedule that zooms from the whole run to a microsecond, and
/// figures of VCPUs, cores and memory; it needs no other file and no network (docs/report.md).
///
/// Example: maracas report run.journal -o report.html
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A journal or a scenario
    file: PathBuf,
    /// The page that is written
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// How long to simulate a scenario; without it, its duration or 10s
    #[arg(long, value_name = "TIME", value_parser = maracas_console::args::positive)]
    until: Option<Duration>,
}

pub(super) fn run(args: &Args) -> Outcome {
    output::leave_nothing_at_signals()?;
    let bytes = bytes_of(&args.file)?;
    output::keep_apart(
        &[(sim::what_is(&bytes), &args.file)],
        &[("--output", args.output.clone())],
    )?;
    let journal = match sim::journal_of(&args.file, bytes, args.until)? {
        Ok(journal) => journal,
        Err(refused) => return Ok(refused),
    };
    let name = args.file.file_name().unwrap_or(args.file.as_os_str());
    let page = page::of_journal(&journal, &name.to_string_lossy())
        .map_err(|error| Failure::about(args.file.display(), error))?;
    output::write_file(&args.output, &page)?;
    Ok(Answer::Yes)
}
