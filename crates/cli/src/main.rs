//! The binary `maracas`: reads the command line, calls one of the commands, and turns what it
//! says into an exit code.
//!
//! Here are the commands (`commands/`, one file each), and nothing that computes: policies decide,
//! machines carry out. This is the top floor; it may import every other room.
//!
//! Exit codes: 0 fine; 1 the answer is no (refused by admission, a replay that differs); 2 bad
//! input or a missing capability, with one line on standard error. `doctor` has a third answer, 3;
//! `run` and `sim` end with 4 where a promise was not kept.

#![forbid(unsafe_code)]

mod commands;

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The runtime starts this program once more as its guardian, which is no command for users.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == maracas_live::guardian::WORD) {
        return maracas_live::guardian::main(words);
    }
    let outcome = match commands::parse() {
        Ok(cli) => commands::run(&cli),
        Err(error) => refuse(&error),
    };
    match outcome {
        Ok(Answer::Yes) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Ok(Answer::Graded(code)) => ExitCode::from(code),
        Err(Failure::Bad(line)) => {
            output::note(&line);
            ExitCode::from(2)
        }
    }
}

/// Shows help where help was asked for; anything else becomes one line.
fn refuse(error: &clap::Error) -> Outcome {
    use clap::error::ErrorKind;
    let text = error.render();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = if output::colours() { text.ansi().to_string() } else { text.to_string() };
        return output::print(&text).map(|()| Answer::Yes);
    }
    let missing = ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.kind() == missing || error.kind() == ErrorKind::MissingSubcommand {
        let words = std::env::args().skip(1).take_while(|word| !word.starts_with('-'));
        let command: String = words.map(|word| format!(" {word}")).collect();
        return Err(Failure::new(format!(
            "a command is missing; `maracas{command} --help` lists them"
        )));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some((option, number)) = negative(std::env::args())
    {
        return Err(Failure::new(format!("{option} {number} is negative; drop the minus sign")));
    }
    // What is wrong and the tips; usage and "for more information" are in --help.
    let text = text.to_string();
    let kept = text.lines().take_while(|line| !line.starts_with("Usage:"));
    // The tip to pass an unknown option "as a value" fits none of our commands.
    let reported =
        |line: &&str| !line.starts_with("For more") && !line.contains("' as a value, use '");
    let kept: Vec<_> = kept.filter(reported).collect();
    let line = kept.join("\n").replace("\n\n  tip: ", "; ").replace("\n  tip: ", "; ");
    // What the standard library says of a number.
    let line = line
        .replace("invalid digit found in string", "it is no whole number; write digits alone")
        .replace("number too large to fit in target type", "it is too large; write a smaller one");
    Err(Failure::new(line.strip_prefix("error: ").unwrap_or(&line)))
}

/// The first negative number that stands behind an option, which the parser takes for options of
/// one letter, and that option.
fn negative(words: impl Iterator<Item = String>) -> Option<(String, String)> {
    let words: Vec<_> = words.collect();
    let is_negative = |word: &str| {
        word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|it: char| it.is_ascii_digit()))
    };
    let pair = words.windows(2).find(|two| two[0].starts_with("--") && is_negative(&two[1]))?;
    Some((pair[0].clone(), pair[1].clone()))
}
