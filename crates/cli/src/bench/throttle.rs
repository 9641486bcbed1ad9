//! `maracas bench throttle`.

use crate::failure::{Failure, Outcome};

/// Measure memory-aware scheduling of real programs under a recorded episode of contention
///
/// Example: maracas bench throttle --seconds 10 --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything.
pub(crate) fn throttle(args: &Args) -> Outcome {
    Err(Failure::new(format!("bench throttle (json: {}) is not there yet", args.json)))
}
