//! `maracas report`: a run or a sweep as one page for a browser.

use super::sim;
use maracas_console::failure::{Answer, Failure, Outcome, bytes_of};
use maracas_console::output;
use maracas_core::Duration;
use maracas_studies::sweep;
use maracas_trace::page;
use serde_json::Value;
use std::path::PathBuf;

/// Write a run or a sweep as one page for a browser
///
/// Takes a journal, or a scenario, which is then simulated on time. The page has verdicts, the
/// causes of broken promises, a schedule that zooms from the whole run to a microsecond, and
/// figures of VCPUs, cores and memory; it needs no other file and no network (docs/report.md).
/// Of the folder of a sweep it has the figures, and behind each point the sets that failed.
///
/// Example: maracas report run.journal -o report.html
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// A journal, a scenario, or the folder of a sweep
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
    if args.file.is_dir() {
        return of_sweep(args);
    }
    let bytes = bytes_of(&args.file)?;
    output::keep_apart(
        &[(sim::what_is(&bytes), &args.file)],
        &[("--output", args.output.clone())],
    )?;
    if args.until.is_some() && bytes.starts_with(sim::JOURNAL) {
        let why = "is a journal, which --until does not simulate; drop it";
        return Err(Failure::about(args.file.display(), why));
    }
    let journal = match sim::journal_of(&args.file, bytes, args.until)? {
        Ok(journal) => journal,
        Err(refused) => return Ok(refused),
    };
    let page = page::of_journal(&journal, &title(args))
        .map_err(|error| Failure::about(args.file.display(), error))?;
    output::write_file(&args.output, &page)?;
    Ok(Answer::Yes)
}

/// What the page is called: the name of the file or folder.
fn title(args: &Args) -> String {
    args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned()
}

/// Writes the page of the sweep in a folder.
fn of_sweep(args: &Args) -> Outcome {
    let folder = args.file.display();
    if args.until.is_some() {
        let line = format_args!("{folder} is a folder, which --until does not simulate; drop it");
        return Err(Failure::new(line));
    }
    let file = args.file.join(sweep::PAGE);
    if !file.is_file() {
        let why = format!(
            "holds no {}; name the folder of a finished `maracas sweep`, or run \
                           that again, which keeps what is finished",
            sweep::PAGE
        );
        return Err(Failure::about(folder, why));
    }
    output::keep_apart(&[("sweep", &file)], &[("--output", args.output.clone())])?;
    let damaged = |why: &dyn std::fmt::Display| {
        let why = format_args!("is not what `maracas sweep` writes ({why}); run that again");
        Failure::about(file.display(), why)
    };
    let data: Value = serde_json::from_slice(&bytes_of(&file)?).map_err(|it| damaged(&it))?;
    if data["kind"] != "sweep" {
        return Err(damaged(&"its kind is not sweep"));
    }
    output::write_file(&args.output, &page::of_sweep(data, &title(args)))?;
    Ok(Answer::Yes)
}
