//! Measurements of this machine and of programs: `maracas bench` and `maracas profile`; and the
//! files that a sweep leaves behind.

#![forbid(unsafe_code)]

pub mod bench;
pub mod profile;
pub mod sweep;

use maracas_console::failure::Outcome;

/// What to measure.
#[derive(clap::Subcommand, Debug)]
#[expect(missing_docs, reason = "what each does is said at its arguments, for the help too")]
pub enum Bench {
    Enforce(bench::Args),
    Primitives(bench::PrimitivesArgs),
    Uneven(bench::UnevenArgs),
    Throttle(bench::ThrottleArgs),
    Balance(bench::BalanceArgs),
    Memguard(bench::MemguardArgs),
    Colors(bench::ColorsArgs),
}

/// Measures it.
///
/// # Errors
/// Bad input, or what this machine does not let be measured.
pub fn run(bench: &Bench) -> Outcome {
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
