//! The project's own tool. `cargo xtask` lists what it can do.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // A command-line tool speaks on stdout.

mod apt;
mod bpf;
mod deb;
mod docs;
mod lab;
mod lines;
mod links;
#[cfg(test)]
mod modules;
mod new_policy;
mod peers;
mod python;
mod skips;
#[cfg(test)]
mod tidy;
mod together;
mod venv;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

const HELP: &str = "\
cargo xtask ci                  what CI runs: format, lints, tests, documents
cargo xtask bench               the benchmarks (sim throughput, policies)
cargo xtask bench peers         the same task sets in SchedCAT, SimSo, which pip installs, and ours;
                                SCHEDCAT=PATH says where the source of SchedCAT is; --quick for a
                                minute, --csv for programs, --periods automotive|log-uniform
cargo xtask lab [KERNEL...]     the live machine on other kernels and hosts, emulated, in one table;
                                --quick for its part that CI runs; docs/lab.md has the rest
cargo xtask swarm [ARGS]        random systems x policies x faults on all cores, until something
                                breaks: --cases N (or --sets N), --seconds N, or --seed N to repeat
                                one case; --kind programs|heavy|churn|jobs|live|kernel and
                                --policy NAME narrow it; live is the live machine on a simulated
                                host, kernel the one whose law the kernel carries out
cargo xtask python              the Python package: wheel, tests, types, notebooks, documents
cargo xtask deb [--service]     the Debian package, built and looked through; --service tries its
                                service under systemd, in a container with Debian 12
cargo xtask bpf                 the scheduler that is a BPF program: bpf/maracas.bpf.o and its sum;
                                --check compares what is checked in with what its source makes
cargo xtask browser             the page of `maracas report` in a headless Chromium: clicks, zooms,
                                times; pictures of all views go to target/pictures
cargo xtask docs                the documents as a site with search, in target/site; links checked
cargo xtask lines               lines of code, comments and tests of each room
cargo xtask new-policy NAME     writes crates/policies/src/NAME.rs and registers it
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => ci(),
        ["bench", "peers", rest @ ..] => peers::bench(&root(), rest),
        ["bench", rest @ ..] => cargo(&[&["bench", "--package", "maracas-sim"], rest].concat()),
        ["lab", rest @ ..] => lab::lab(&root(), rest),
        ["swarm", rest @ ..] => {
            let swarm = ["run", "--release", "--package", "maracas-tests", "--bin", "swarm", "--"];
            cargo(&[&swarm[..], rest].concat())
        }
        ["python"] => python::python(&root()),
        ["deb", rest @ ..] => deb::deb(&root(), rest),
        ["bpf", rest @ ..] => bpf::bpf(&root(), rest),
        ["browser"] => browser(),
        ["docs"] => docs::docs(&root()),
        ["lines"] => lines::print(&root()),
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

/// Where cargo builds.
fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The tests of the page alone, with pictures of what they saw. Among the others they run too.
fn browser() -> Result<(), String> {
    let pictures = root().join("target/pictures");
    let test = ["test", "--package", "maracas", "--test", "cli_page", "--", "--nocapture"];
    cargo_with(&test, &[("MARACAS_PICTURES", &pictures)])?;
    println!("{} has a picture of every view", pictures.display());
    Ok(())
}

/// What CI runs, no more, no less. All invariants of the code are tests; tidy is one of them. At
/// the end stands what was skipped and why, whether or not something failed.
fn ci() -> Result<(), String> {
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
    // What later steps need of the network comes while the tests are compiled, and not beside
    // them: some measure time.
    let tests = || cargo(&["test", "--workspace", "--no-run"]);
    let fetch = || {
        python::fetch(&root());
        lab::fetch(&root());
        Ok(())
    };
    together::all(2, &[&tests, &fetch])?;
    cargo(&["test", "--workspace", "--no-fail-fast"])?;
    optimized()?;
    // The packages' tests have one core at work. Nothing here is measured by the host's clock:
    // guests count their own instructions, and their limit is one of processor time.
    let python = || python::python(&root());
    // Kernels and hosts that this one is not.
    let lab = || lab::lab(&root(), &["--quick"]);
    let rest = || deb::deb(&root(), &[]).and_then(|()| docs::docs(&root()));
    together::all(2, &[&python, &lab, &rest])
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
    // Most end with one long test on one core, and none measures time.
    let steps: Vec<_> = tests.iter().map(|name| [&test[..], &["--test", name]].concat()).collect();
    let steps: Vec<_> = steps.iter().map(|words| move || cargo_apart(words)).collect();
    let steps: Vec<_> = steps.iter().map(|step| step as together::Step<'_>).collect();
    together::all(std::thread::available_parallelism().map_or(1, usize::from), &steps)?;
    // The live machine on a simulated host, for a minute, and beside it the machine whose law the
    // kernel carries out, with the law in C. Cargo builds a package's programs with its integration
    // tests.
    let swarm = |kind: &str| {
        let swarm = target(&root()).join("release/swarm");
        apart(Command::new(swarm).args(["--kind", kind, "--seconds", "60"]))
    };
    together::all(2, &[&|| swarm("live"), &|| swarm("kernel")])
}

/// `cargo fmt` follows `mod` items, and those of the policies are made by a macro.
fn policies_are_formatted() -> Result<(), String> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("crates/policies/src")];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let rustfmt = ["--check", "--edition", "2024"];
    program(Command::new("rustfmt").args(rustfmt).args(&files))
        .map_err(|why| format!("the policies are not formatted: {why}"))
}

fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(args, &[])
}

/// The same with variables of the environment.
fn cargo_with(args: &[&str], variables: &[(&str, &PathBuf)]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    program(Command::new(cargo).args(args).envs(variables.iter().copied()))
}

/// The same beside other steps: what it prints is seen when it is over.
fn cargo_apart(args: &[&str]) -> Result<(), String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    apart(Command::new(cargo).args(args))
}

/// Runs a program in the root beside others: what it prints is seen when it is over.
fn apart(command: &mut Command) -> Result<(), String> {
    timed(command, |command| {
        let output = command.output()?;
        // Cargo names the tests there before they say how they went.
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
        Ok(output.status)
    })
}

/// Runs a program in the root; what it prints is seen.
fn program(command: &mut Command) -> Result<(), String> {
    timed(command, Command::status)
}

/// Runs a program in the root as `run` does, and says what and how long.
fn timed(
    command: &mut Command,
    run: impl FnOnce(&mut Command) -> io::Result<ExitStatus>,
) -> Result<(), String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    // The policies have more files than a line should list.
    let args = command.get_args().take(40).map(|arg| arg.to_string_lossy());
    let line = [name].into_iter().chain(args).collect::<Vec<_>>().join(" ");
    println!("+ {line}");
    let begun = std::time::Instant::now();
    command
        .current_dir(root())
        .env("RUSTDOCFLAGS", "--deny warnings")
        .env(skips::VARIABLE, skips::file(&root()));
    let status = run(command).map_err(|error| format!("`{line}` does not start: {error}"))?;
    println!("+ took {} s", begun.elapsed().as_secs());
    if status.success() { Ok(()) } else { Err(format!("`{line}` failed")) }
}
