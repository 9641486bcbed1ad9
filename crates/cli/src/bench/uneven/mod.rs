//! `maracas bench uneven`: the policies for uneven cores on real programs.

use crate::failure::{Failure, Outcome};

/// Run four programs of different speedups on two cores of this host, one of them slowed down
///
/// Example: maracas bench uneven --seconds 20 --json
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn uneven(args: &Args) -> Outcome {
    Err(Failure::new(format!("not built yet ({})", args.json)))
}
