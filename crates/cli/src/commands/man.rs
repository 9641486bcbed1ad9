//! `maracas man`: manual pages from the same definitions as `--help`.

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use std::path::{Path, PathBuf};

/// Print the manual page, or write one page a command into a directory
///
/// Example: maracas man /usr/local/share/man/man1
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Directory for the pages; without it, the main page goes to standard output
    directory: Option<PathBuf>,
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    let name = command.get_name().to_string();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::about(&name, error))?;
    String::from_utf8(page).map_err(|error| Failure::about(&name, error))
}

/// Writes the page of `command`, whose full name is `name`, and those of its subcommands.
fn write_pages(directory: &Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let full = command.clone().name(name.to_string());
    output::write_file(&directory.join(format!("{name}.1")), &page(full)?)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(directory, sub, &format!("{name}-{}", sub.get_name()))?;
    }
    Ok(())
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut command = super::definition().disable_help_subcommand(true);
    command.build();
    match &args.directory {
        Some(path) if path.exists() && !path.is_dir() => {
            return Err(Failure::about(path.display(), "is no directory; name one, or none"));
        }
        Some(directory) if !directory.is_dir() => {
            let why = "make the directory first; help of one command: maracas sim --help";
            return Err(Failure::about(directory.display(), why));
        }
        Some(directory) => write_pages(directory, &command, "maracas")?,
        None => output::print(&page(command)?)?,
    }
    Ok(Answer::Yes)
}
