//! `maracas bench colors`.

use crate::failure::{Failure, Outcome};

/// Measure page colours: buffers of chosen colours, conflicts, recolouring and what a page costs
///
/// Example: maracas bench colors --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything.
pub(crate) fn colors(args: &Args) -> Outcome {
    Err(Failure::new(format!("bench colors (json: {}) is not there yet", args.json)))
}
