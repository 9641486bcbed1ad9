//! `maracas clean`: puts right what a dead run left where its guardian died too.

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;

/// Put right what a killed run left: real-time threads, frozen groups, programs, sockets
///
/// Running systems are not touched. `run` does the same before it starts.
///
/// Example: maracas clean
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args) -> Outcome {
    let report = maracas_live::clean::clean().map_err(|error| Failure::about("clean", error))?;
    output::line(&report.to_string())?;
    if report.obstacles.is_empty() {
        return Ok(Answer::Yes);
    }
    let count = report.obstacles.len();
    Err(Failure::new(format!("{count} dead runs could not be cleaned up; are you root?")))
}
