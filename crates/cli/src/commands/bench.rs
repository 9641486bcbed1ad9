//! `maracas bench`: measurements of this machine.

use crate::bench;
use crate::failure::Outcome;

/// What to measure.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum Bench {
    Enforce(bench::Args),
    Primitives(bench::PrimitivesArgs),
    Uneven(bench::UnevenArgs),
    Throttle(bench::ThrottleArgs),
    Balance(bench::BalanceArgs),
    Memguard(bench::MemguardArgs),
    Colors(bench::ColorsArgs),
}

pub(super) fn run(bench: &Bench) -> Outcome {
    match bench {
        Bench::Enforce(args) => bench::enforce(args),
        Bench::Primitives(args) => bench::primitives(args),
        Bench::Uneven(args) => bench::uneven(args),
        Bench::Throttle(args) => bench::throttle(args),
        Bench::Balance(args) => bench::balance(args),
        Bench::Memguard(args) => bench::memguard(args),
        Bench::Colors(args) => bench::colors(args),
    }
}
