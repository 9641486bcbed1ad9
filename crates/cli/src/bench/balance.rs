//! `maracas bench balance`.

use crate::failure::{Failure, Outcome};

/// Measure load balancing of real programs: 16 VCPUs on two cores, one of which ends
///
/// Example: maracas bench balance --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

/// Measures everything.
pub(crate) fn balance(args: &Args) -> Outcome {
    Err(Failure::new(format!("bench balance (json: {}) is not there yet", args.json)))
}
