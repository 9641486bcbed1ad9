//! What CI runs.

use crate::{
    apt, bpf, cargo, deb, docs, lab, program, python, root, skips, target, timed, together,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What CI runs, no more, no less. All invariants of the code are tests; tidy is one of them. At
/// the end stands what was skipped and why, whether or not something failed.
pub(crate) fn ci() -> Result<(), String> {
    let skips = skips::Skips::begin(&root())?;
    let done = checks();
    println!("{}", skips.end()?);
    done
}

fn checks() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])?;
    policies_are_formatted()?;
    bpf::bpf(&root(), &["--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"])?;
    cargo(&["doc", "--workspace", "--no-deps"])?;
    // For the page of `maracas report`; without a browser its tests are skipped, and counted.
    if !["chromium", "google-chrome", "google-chrome-stable"].iter().any(|it| apt::has(it)) {
        apt::install(&["chromium"]);
    }
    debug()?;
    optimized()?;
    docs::docs(&root())?;
    // Both fetch libraries or kernels first, and the packages' tests have one core at work. Nothing
    // in either is measured by the host's clock: guests count their own instructions, and their
    // limit is one of processor time.
    let packages = || python::python(&root()).and_then(|()| deb::deb(&root(), &[]));
    // Kernels and hosts that this one is not.
    let lab = || lab::lab(&root(), &["--quick"]);
    together::all(2, &[&packages, &lab])
}

/// Whose integration tests simulate: nothing in them is measured by the host's clock.
const SIMULATED: [&str; 8] = [
    "tests",
    "crates/live-core",
    "crates/reproduce",
    "crates/scenario",
    "crates/session",
    "crates/sim",
    "crates/sweep",
    "crates/trace",
];

/// All tests without optimization: those that simulate side by side, as most end with one test on
/// one core, and then those of the live machine and of the command with nothing beside them.
fn debug() -> Result<(), String> {
    let workspace = ["test", "--workspace", "--no-fail-fast"];
    cargo(&[&workspace[..], &["--no-run"]].concat())?;
    let [simulated, alone] = test_programs(&root())?;
    // Each call of cargo looks first whether anything changed, so not one call for each program.
    let steps: Vec<_> = simulated.chunks(8).collect();
    let steps: Vec<_> = steps
        .iter()
        .map(|some| move || cargo_apart(&[&workspace[..], &named(some)].concat()))
        .collect();
    let steps: Vec<_> = steps.iter().map(|step| step as together::Step<'_>).collect();
    let simulated = together::all(cores(), &steps);
    let rest = cargo(&[&workspace[..], &["--lib", "--bins"], &named(&alone)].concat());
    let documents = cargo(&[&workspace[..], &["--doc"]].concat());
    simulated.and(rest).and(documents)
}

/// The names of all integration tests: those that only packages that simulate have, and the others.
fn test_programs(root: &Path) -> Result<[Vec<String>; 2], String> {
    let mut packages = files(&root.join("crates"))?;
    packages.push(root.join("tests"));
    let [mut simulated, mut alone] = [BTreeSet::new(), BTreeSet::new()];
    for package in packages.iter().filter(|package| package.join("tests").is_dir()) {
        let simulates = SIMULATED.iter().any(|one| root.join(one) == *package);
        let names = if simulates { &mut simulated } else { &mut alone };
        for file in files(&package.join("tests"))? {
            let is_program = file.extension().is_some_and(|it| it == "rs");
            if is_program || file.join("main.rs").exists() {
                names.extend(file.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
    }
    simulated.retain(|name| !alone.contains(name));
    Ok([simulated, alone].map(|names| names.into_iter().collect()))
}

/// What lies in a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let said = |error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(folder).map_err(said)?;
    entries.map(|entry| Ok(entry.map_err(said)?.path())).collect()
}

/// Cargo's words for these tests.
fn named(names: &[String]) -> Vec<&str> {
    names.iter().flat_map(|name| ["--test", name.as_str()]).collect()
}

/// How many steps that disturb no other are taken at once.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What runs for minutes of simulated time, in one build: packages that are built alone have other
/// features of what they depend on, and would compile that again. The Python package is among them
/// for that reason: what its module depends on is compiled once.
fn optimized() -> Result<(), String> {
    // It counts the instructions of a job and of a live decision.
    if !apt::has("valgrind") {
        apt::install(&["valgrind"]);
    }
    let packages = ["maracas-reproduce", "maracas-tests", "maracas-session", "maracas-python"];
    // Those that take minutes first.
    let tests = [
        // The schedulers for uneven cores on 10,000 systems, 10,000 systems that share memory.
        "uneven",
        "interference",
        // docs/results.md against every experiment.
        "document",
        // What `check --suggest` suggests for 300 systems that share memory.
        "suggest",
        // A million jobs of each policy that lets tasks come and go, every schedulability test on a
        // thousand sets, and the optimal schedulers on 2000 each.
        "churn",
        "soundness",
        "run",
        "optimal",
        "baselines",
        "instructions",
        "live_cost",
    ];
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let test: Vec<&str> = ["test", "--release"].into_iter().chain(packages).collect();
    let only = tests.iter().flat_map(|name| ["--test", name]);
    cargo(&test.iter().copied().chain(only).chain(["--no-run"]).collect::<Vec<_>>())?;
    // The policies' own tests have up to a hundred times as many cases as without optimization. In
    // one unit they would be compiled on one core while the other has nothing to do.
    let units = "profile.release.package.maracas-policies.codegen-units=16";
    let policies = ["--package", "maracas-policies", "--lib", "--config", units];
    let policies = [&["test", "--release"], &policies[..]].concat();
    // Most end with one long test on one core, and none measures time.
    let mut steps: Vec<_> =
        tests.iter().map(|name| [&test[..], &["--test", name]].concat()).collect();
    steps.insert(steps.len() / 2, policies);
    let steps: Vec<_> = steps.iter().map(|words| move || cargo_apart(words)).collect();
    let steps: Vec<_> = steps.iter().map(|step| step as together::Step<'_>).collect();
    together::all(cores(), &steps)?;
    // The live machine on a simulated host, for a minute, and the machine whose law the kernel
    // carries out, with the law in C. Cargo builds a package's programs with its integration tests.
    for kind in ["live", "kernel"] {
        let swarm = target(&root()).join("release/swarm");
        program(Command::new(swarm).args(["--kind", kind, "--seconds", "60"]))?;
    }
    Ok(())
}

/// `cargo fmt` follows `mod` items, and those of the policies are made by a macro.
fn policies_are_formatted() -> Result<(), String> {
    let mut sources = Vec::new();
    let mut folders = vec![root().join("crates/policies/src")];
    while let Some(folder) = folders.pop() {
        for path in files(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    let rustfmt = ["--check", "--edition", "2024"];
    program(Command::new("rustfmt").args(rustfmt).args(&sources))
        .map_err(|why| format!("the policies are not formatted: {why}"))
}

/// The same beside other steps: what it prints is seen when it is over.
fn cargo_apart(args: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    timed(Command::new(cargo).args(args), |command| {
        let output = command.output()?;
        // Cargo names the tests there before they say how they went.
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
        Ok(output.status)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_integration_test_is_in_one_of_both_parts() {
        let [simulated, alone] = test_programs(&root()).unwrap();
        for name in ["contract", "kernel_swarm", "protocol", "dram_grid"] {
            assert!(simulated.iter().any(|it| it == name), "{name}");
        }
        // There is one of the command's and one that simulates by the name of `documents`.
        for name in ["live", "guardian", "live_control", "cli_page", "preload", "documents"] {
            assert!(alone.iter().any(|it| it == name), "{name}");
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let words = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
        let output = Command::new(cargo).args(words).current_dir(root()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let mut known: Vec<_> = said
            .split("\"kind\":[\"test\"]")
            .skip(1)
            .map(|target| target.split("\"name\":\"").nth(1).unwrap().split('"').next().unwrap())
            .collect();
        known.sort_unstable();
        known.dedup();
        let mut found = [simulated, alone].concat();
        found.sort_unstable();
        assert!(known.len() > 50, "{known:?}");
        assert_eq!(found, known);
    }
}
