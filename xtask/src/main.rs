//! The project's own tool. `cargo xtask` lists what it can do.
#![allow(clippy::print_stdout)] // A command-line tool speaks on stdout.

mod new_policy;
#[cfg(test)]
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask ci                  what CI runs: format, lints, tests, documents
cargo xtask bench               the benchmarks (sim throughput, policies)
cargo xtask swarm [ARGS]        random systems x policies x faults, until something breaks:
                                  --cases N, --seconds N, or --seed N to repeat one case
cargo xtask new-policy NAME     writes crates/policies/src/NAME.rs and registers it
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => ci(),
        ["bench", rest @ ..] => cargo(&[&["bench", "--package", "maracas-sim"], rest].concat()),
        ["swarm", rest @ ..] => {
            let swarm = ["run", "--release", "--package", "maracas-tests", "--bin", "swarm", "--"];
            cargo(&[&swarm[..], rest].concat())
        }
        ["new-policy", name] => new_policy::create(&root(), name).map(|text| println!("{text}")),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command `{}`; `cargo xtask` lists them", other.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::from(2)
        }
    }
}

/// The workspace's root directory.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").into()
}

/// What CI runs, no more, no less. All invariants of the code are tests; tidy is one of them.
fn ci() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    cargo(&["test", "--workspace", "--no-fail-fast"])?;
    cargo(&["doc", "--workspace", "--no-deps"])
}

fn cargo(args: &[&str]) -> Result<(), String> {
    println!("+ cargo {}", args.join(" "));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "--deny warnings")
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", args.join(" "))) }
}
