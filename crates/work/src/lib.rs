//! `maracas work`: programs for examples, tests and measurements. Each prints its progress, so
//! that a slowdown can be read off, adds it to the run's progress counter where there is one, and
//! ends cleanly at SIGTERM.

#![forbid(unsafe_code)]

mod anytime;
mod canny;
pub mod clock;
mod faults;
mod hog;
mod m_jump;
mod mixed;
mod mwalk;
mod pace;
mod periodic;
mod releases;
mod spin;

use maracas_console::args;
use maracas_console::failure::{Answer, Outcome};
use maracas_core::Duration;

/// Which work.
#[derive(clap::Subcommand, Debug)]
#[expect(missing_docs, reason = "what each does is said at its arguments, for the help too")]
pub enum Work {
    Spin(spin::Args),
    #[command(name = "m_jump")]
    MJump(m_jump::Args),
    Mixed(mixed::Args),
    Mwalk(mwalk::Args),
    Hog(hog::Args),
    Faults(faults::Args),
    Canny(canny::Args),
    Periodic(periodic::Args),
    Anytime(anytime::Args),
}

/// What every work takes.
#[derive(clap::Args, Debug)]
pub struct Common {
    /// End after this long; without it, at SIGTERM or Ctrl-C
    #[arg(long, value_parser = args::duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Time between progress lines
    #[arg(long, default_value = "1s", value_parser = args::positive, value_name = "TIME")]
    report: Duration,
    /// Progress as one JSON object a line
    #[arg(long)]
    json: bool,
    /// No progress lines, only the last one
    #[arg(long)]
    quiet: bool,
}

/// Runs the work until its end.
///
/// # Errors
/// Where memory, threads or the runtime's socket cannot be had.
pub fn run(work: &Work) -> Outcome {
    match work {
        Work::Spin(args) => spin::run(args)?,
        Work::MJump(args) => m_jump::run(args)?,
        Work::Mixed(args) => mixed::run(args)?,
        Work::Mwalk(args) => mwalk::run(args)?,
        Work::Hog(args) => hog::run(args)?,
        Work::Faults(args) => faults::run(args)?,
        Work::Canny(args) => canny::run(args)?,
        Work::Periodic(args) => periodic::run(args)?,
        Work::Anytime(args) => anytime::run(args)?,
    }
    Ok(Answer::Yes)
}

/// Of memory that is to stay what it is.
pub use maracas_core::fnv1a_words as hash;
