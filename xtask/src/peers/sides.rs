//! The processes that simulate: how each is built, started, and asked.

use super::{SCHEDCAT, SIDES, SIMSO};
use crate::venv;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Where SchedCAT's source is.
const SOURCE: &str = "SCHEDCAT";

/// The numbers that a side answers, or why it failed with this case.
pub(super) type Answer = Vec<f64>;

/// What is built, by side; a peer may be missing.
pub(super) struct Programs {
    schedcat: Option<PathBuf>,
    /// A Python with SimSo, and the script.
    simso: Option<(PathBuf, PathBuf)>,
    ours: PathBuf,
}

impl Programs {
    /// Builds what can be built; says on standard error which peer is left out, and how to have it.
    ///
    /// # Errors
    /// Where ours, or SchedCAT with its source at hand, cannot be compiled.
    pub(super) fn build(root: &Path) -> Result<Self, String> {
        let schedcat = std::env::var_os(SOURCE).map(PathBuf::from);
        if schedcat.is_none() {
            eprintln!(
                "SchedCAT is left out: {SOURCE}=PATH says where its source is \
                 (https://github.com/brandenburg/schedcat)"
            );
        }
        let schedcat = schedcat.map(|source| build_schedcat(root, &source)).transpose()?;
        let simso = match install_simso(root) {
            Ok(python) => Some((python, root.join("benches/simso/side.py"))),
            Err(why) => {
                eprintln!("SimSo is left out: {why}");
                None
            }
        };
        Ok(Self { schedcat, simso, ours: build_ours(root)? })
    }

    /// A new process of this side; `None` where it could not be built.
    ///
    /// # Errors
    /// Where it does not start.
    pub(super) fn start(&self, side: usize) -> Result<Option<Side>, String> {
        let command = match side {
            SCHEDCAT => self.schedcat.as_ref().map(Command::new),
            SIMSO => self.simso.as_ref().map(|(python, script)| {
                let mut command = Command::new(python);
                command.arg(script);
                command
            }),
            _ => {
                let mut command = Command::new(&self.ours);
                command.arg("--serve");
                Some(command)
            }
        };
        command.map(|mut command| Side::start(SIDES[side], &mut command)).transpose()
    }

    /// One process of each side.
    ///
    /// # Errors
    /// Where one does not start.
    pub(super) fn all(&self) -> Result<[Option<Side>; SIDES.len()], String> {
        let mut all = [const { None }; SIDES.len()];
        for (side, process) in all.iter_mut().enumerate() {
            *process = self.start(side)?;
        }
        Ok(all)
    }
}

/// A process that answers a line by a line.
pub(super) struct Side {
    name: &'static str,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Side {
    fn start(name: &'static str, command: &mut Command) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| format!("{name} does not start: {error}");
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| fail(&error))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail(&"it has no pipes"));
        };
        Ok(Self { name, child, questions, answers: BufReader::new(answers) })
    }

    /// The numbers that the side answers, or why it failed with this case.
    ///
    /// # Errors
    /// Where it ended, or says what cannot be read.
    pub(super) fn ask(&mut self, line: &str) -> Result<Result<Answer, String>, String> {
        let mut answer = String::new();
        let asked = writeln!(self.questions, "{line}");
        let read = asked.and_then(|()| self.answers.read_line(&mut answer));
        if !matches!(read, Ok(1..)) {
            return Err(format!("{} ended before it answered `{line}`", self.name));
        }
        if let Some(why) = answer.strip_prefix("failed ") {
            return Ok(Err(why.trim().to_string()));
        }
        let numbers: Result<Answer, _> = answer.split_whitespace().map(str::parse).collect();
        match numbers {
            Ok(numbers) if numbers.len() >= 3 => Ok(Ok(numbers)),
            Ok(_) | Err(_) => Err(format!("{} answered `{}`", self.name, answer.trim())),
        }
    }
}

impl Drop for Side {
    /// A side that is asked nothing more would wait for ever.
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles our side; the program.
fn build_ours(root: &Path) -> Result<PathBuf, String> {
    eprintln!("+ cargo bench --package maracas-sim --bench peers --no-run");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let built = Command::new(cargo)
        .args(["bench", "--package", "maracas-sim", "--bench", "peers", "--no-run"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    // Its last line is `  Executable benches/peers.rs (PATH)`.
    let text = String::from_utf8_lossy(&built.stderr);
    let path = text.lines().rev().find_map(|line| line.strip_suffix(')')?.rsplit_once('('));
    match path {
        Some((_, path)) if built.status.success() => Ok(root.join(path)),
        _ => Err(format!("cargo could not build our side:\n{text}")),
    }
}

/// Compiles SchedCAT's simulation with our driver for it; the program.
fn build_schedcat(root: &Path, source: &Path) -> Result<PathBuf, String> {
    let native = source.join("native");
    let parts = ["src/edf/sim.cpp", "src/schedule_sim.cpp", "src/tasks.cpp"];
    let parts = parts.map(|part| native.join(part));
    if let Some(missing) = parts.iter().find(|part| !part.is_file()) {
        return Err(format!(
            "{SOURCE} is {}, but {} is not there; give the folder of a clone of \
             https://github.com/brandenburg/schedcat, or unset {SOURCE} to go without",
            source.display(),
            missing.display()
        ));
    }
    let folder = crate::target(root).join("schedcat");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = folder.join("side");
    eprintln!("+ g++, for {}", native.display());
    let mut compile = Command::new("g++");
    compile.args(["-O3", "-march=native", "-DNDEBUG", "-I"]).arg(native.join("include"));
    compile.arg(root.join("benches/schedcat/side.cpp")).args(parts);
    compile.args(["-lgmpxx", "-lgmp", "-o"]).arg(&program);
    succeed(&mut compile, "SchedCAT cannot be compiled; it needs g++ and libgmp-dev")?;
    Ok(program)
}

/// A Python with SimSo, in an environment of its own.
fn install_simso(root: &Path) -> Result<PathBuf, String> {
    let requirements = root.join("benches/simso/requirements.txt");
    let text = fs::read_to_string(&requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;
    let libraries: Vec<String> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect();
    venv::prepare(&crate::target(root).join("simso"), &libraries)
        .map_err(|missing| format!("it needs {missing}"))
}

/// Runs `command`; where it fails, says `what` and the last line of its own words.
fn succeed(command: &mut Command, what: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{what} ({error})"))?;
    if output.status.success() {
        return Ok(());
    }
    let words =
        [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let last =
        words.iter().flat_map(|text| text.lines().rev()).find(|line| !line.trim().is_empty());
    Err(format!("{what} ({})", last.unwrap_or("it does not say why").trim()))
}
