//! `maracas profile`: the workload model of a program, measured.

use crate::failure::{Failure, Outcome};

/// Measure what a program does to memory, as a workload model for `maracas sim`
///
/// Example: maracas profile --output mine.toml -- ./mine --size 3
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The program with its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    Err(Failure::about(&args.command.join(" "), "cannot be profiled yet"))
}
