//! `maracas completions`: scripts for the shell.

use clap_complete::Shell;
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;

/// Print a completion script for a shell
///
/// Example: maracas completions bash > /etc/bash_completion.d/maracas
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "maracas", &mut script);
    let script = String::from_utf8(script).map_err(|error| Failure::about("script", error))?;
    output::print(&script)?;
    Ok(Answer::Yes)
}
