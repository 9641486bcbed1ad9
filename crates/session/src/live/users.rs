//! The users whose rights the programs of a run are started with.

use maracas_console::failure::Failure;
use maracas_live::Setup;
use maracas_live::host::cgroup::{Hierarchies, foreseen};
use maracas_live::host::launch::{Account, Command};
use maracas_scenario::{Command as Given, Error, Scenario, Who};

/// Makes `command` one of the user that the file names, or else of the caller of `sudo`.
///
/// # Errors
/// Where this host does not know the user; the line names the place in the file.
pub(super) fn assign(
    scenario: &Scenario,
    given: &Given,
    command: &mut Command,
) -> Result<(), Failure> {
    let Some(asked) = &given.user else {
        if let Some(account) = Account::of_sudo() {
            command.belongs_to(&account);
        }
        return Ok(());
    };
    let account = match &asked.who {
        Who::Numbers { uid, gid } => Account::of_numbers(*uid, *gid),
        Who::Name(name) => Account::by_name(name).map_err(|error| {
            let (file, at) = (scenario.file.clone(), asked.at);
            let message = format!("user {name}: {error}; name one of `getent passwd`, or uid:gid");
            Failure::new(Error { file, line: at.line, column: at.column, message })
        })?,
    };
    command.belongs_to(&account);
    Ok(())
}

/// What is to be said of the users of programs, and of limits that they leave.
pub(super) fn remarks(setup: &Setup) -> Vec<String> {
    // Where they cannot be read, the run says so.
    let lost = Hierarchies::read().map(|found| foreseen(&found)).unwrap_or_default();
    as_root(setup).into_iter().chain(lost).collect()
}

/// Where root started the run itself and programs are root's for that reason alone.
fn as_root(setup: &Setup) -> Option<String> {
    let roots = setup.programs.iter().filter(|program| program.command.is_roots());
    let names: Vec<_> = roots.map(|program| program.name.as_str()).collect();
    let verb = if names.len() == 1 { "runs" } else { "run" };
    let names = (!names.is_empty()).then(|| names.join(", "))?;
    Some(format!("{names} {verb} as root, as nothing names a user; `user` does (docs/security.md)"))
}
