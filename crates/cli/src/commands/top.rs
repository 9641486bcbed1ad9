//! `maracas top`: a running system, watched.

use crate::failure::{Failure, Outcome};

/// Watch a running system: VCPUs, budgets, surplus time, memory, migrations
///
/// Example: maracas top
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(super) fn run(_: &Args) -> Outcome {
    Err(Failure::new("nothing can be watched yet"))
}
