//! How a command ends when it does not end well: an exit code and one line for the user.

pub use maracas_scenario::near_words as did_you_mean;

use maracas_trace::Report;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// What a finished command found. Bad input is a [`Failure`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Everything in order: exit code 0.
    Yes,
    /// The answer is no (refused by admission, a replay that differs): exit code 1. What was
    /// refused has been printed.
    No,
    /// The answer has more than two values: the exit code, which the command's help explains.
    Graded(u8),
}

/// The exit code of a run that did not keep what was promised: none of those that it has when it
/// was refused (1) or could not be started (2), nor one of `doctor`'s.
const NOT_KEPT: u8 = 4;

impl Answer {
    /// Whether a run kept what was promised.
    pub const fn of(report: &Report) -> Self {
        if report.promise.kept { Self::Yes } else { Self::Graded(NOT_KEPT) }
    }
}

/// Why a command could not do what was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Bad input or a missing capability: exit code 2 and this one line on standard error.
    Bad(String),
    /// The reader of standard output went away (`maracas ... | head`): nothing is left to be said.
    OutputClosed,
}

impl Failure {
    /// A failure with one line; further lines are joined, so that users and their tools always
    /// get exactly one.
    pub fn new(line: impl fmt::Display) -> Self {
        let text = line.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Self::Bad(lines.join(" "))
    }
    /// A failure about one thing: `thing: why`.
    pub fn about(thing: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(format_args!("{thing}: {why}"))
    }
}

/// The whole of a binary file.
///
/// # Errors
/// Where it cannot be read.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let fail = |error| Failure::about(path.display(), format_args!("cannot be read: {error}"));
    let mut file = std::fs::File::open(path).map_err(fail)?;
    let (mut bytes, most) = (Vec::new(), LARGEST.saturating_add(1));
    file.by_ref().take(most).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > LARGEST {
        let gib = LARGEST >> 30;
        return Err(Failure::about(path.display(), format_args!("is larger than {gib} GiB")));
    }
    Ok(bytes)
}

/// No journal is larger: some hours of a busy machine. Keeps `/dev/zero` from eating the memory.
pub const LARGEST: u64 = 4 << 30;

/// The result of a command.
pub type Outcome = Result<Answer, Failure>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_whatever_comes() {
        assert_eq!(Failure::new("a\n  b\n\nc"), Failure::Bad("a b c".into()));
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_not() {
        let known = || ["p-edf", "g-edf", "p-rm", "maracas"].into_iter();
        assert_eq!(did_you_mean("maraca", known()), "; did you mean \"maracas\"?");
        let both = "; did you mean \"p-edf\" or \"g-edf\"?";
        assert_eq!(did_you_mean("edf", known()), both);
        assert_eq!(did_you_mean("round-robin", known()), "");
    }
}
