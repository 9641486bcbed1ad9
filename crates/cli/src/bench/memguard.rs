//! `maracas bench memguard`.

use crate::failure::{Failure, Outcome};

/// Measure how soon a core that has spent its memory allowance stands still
///
/// Example: maracas bench memguard --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything.
pub(crate) fn memguard(args: &Args) -> Outcome {
    Err(Failure::new(format!("bench memguard (json: {}) is not there yet", args.json)))
}
