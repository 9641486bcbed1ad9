//! The commands, one file each.

mod check;
mod clean;
mod colors;
mod completions;
mod convert;
mod doctor;
mod gantt;
mod generate;
mod man;
mod memory;
mod policies;
mod reload;
mod replay;
mod report;
mod reproduce;
mod run;
mod sim;
mod sweep;
mod top;
mod tree;
mod vcpu;

use clap::{CommandFactory, Parser, Subcommand};
use maracas_console::failure::Outcome;
use maracas_studies::{Bench, profile};
use maracas_work::Work;

/// Real-time scheduling on multicore machines: one policy, two machines
///
/// A scenario file names programs and what each is promised: C of CPU time in every T. `check`
/// says whether that can be kept, `sim` simulates it, `run` does it with the real programs.
#[derive(Parser, Debug)]
#[command(
    name = "maracas",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Example: maracas run examples/quickstart.toml --duration 10s"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Check(check::Args),
    Sim(sim::Args),
    Run(run::Args),
    Replay(replay::Args),
    Reproduce(reproduce::Args),
    Sweep(sweep::Args),
    Tree(tree::Args),
    Generate(generate::Args),
    Convert(convert::Args),
    Gantt(gantt::Args),
    Report(report::Args),
    Policies(policies::Args),
    Memory(memory::Args),
    Colors(colors::Args),
    Doctor(doctor::Args),
    Clean(clean::Args),
    Profile(profile::Args),
    Top(top::Args),
    /// Create, list, change or destroy VCPUs of a running `maracas run`
    #[command(subcommand)]
    Vcpu(vcpu::Action),
    Reload(reload::Args),
    /// Run a built-in program: load for examples, tests and measurements
    #[command(subcommand)]
    Work(Work),
    /// Measure this machine
    #[command(subcommand)]
    Bench(Bench),
    Completions(completions::Args),
    Man(man::Args),
}

/// Reads the command line.
///
/// # Errors
/// As clap sees it, help and version included.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse()
}

/// The whole command line as clap knows it, for completions and man pages.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Carries out one command.
///
/// # Errors
/// Bad input or a missing capability: exit code 2.
pub(crate) fn run(cli: &Cli) -> Outcome {
    match &cli.command {
        Command::Check(args) => check::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Run(args) => run::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Tree(args) => tree::run(args),
        Command::Generate(args) => generate::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Gantt(args) => gantt::run(args),
        Command::Report(args) => report::run(args),
        Command::Policies(args) => policies::run(args),
        Command::Memory(args) => memory::run(args),
        Command::Colors(args) => colors::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Clean(args) => clean::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Top(args) => top::run(args),
        Command::Vcpu(args) => vcpu::run(args),
        Command::Reload(args) => reload::run(args),
        Command::Work(args) => maracas_work::run(args),
        Command::Bench(args) => maracas_studies::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn every_command_has_an_example_in_its_help() {
        fn visit(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
                let path = format!("{path} {}", sub.get_name());
                if sub.has_subcommands() {
                    visit(sub, &path);
                    continue;
                }
                let help = sub.clone().render_long_help().to_string();
                assert!(help.contains("Example: maracas"), "{path} has no example");
            }
        }
        visit(&definition(), "maracas");
    }
}
