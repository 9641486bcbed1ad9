//! Environments of Python below `target/`, for the steps that need its libraries.

use crate::{apt, skips};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An environment of its own with `libraries`, at `folder`; says where its Python is. What was
/// installed for the same `libraries` before is used again.
///
/// # Errors
/// What is missing on this host.
pub(crate) fn prepare(folder: &Path, libraries: &[String]) -> Result<PathBuf, &'static str> {
    let python = folder.join("bin/python");
    let wanted = libraries.join("\n");
    let installed = folder.join("installed.txt");
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(python);
    }
    if !has_python() {
        apt::install(&["python3", "python3-venv"]);
    }
    if !has_python() {
        return Err("Python 3.10 or later with its venv module");
    }
    eprintln!("+ python3 -m venv {}", folder.display());
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder).status();
    if !made.is_ok_and(|status| status.success()) {
        return Err("Python 3.10 or later with its venv module");
    }
    eprintln!("+ pip install {}", libraries.join(" "));
    // What nothing imports is not compiled, and the rest on all cores.
    let pip = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"])
        .args(libraries)
        .status();
    if !pip.is_ok_and(|status| status.success()) {
        return Err("a network, for Python's libraries");
    }
    // Some libraries have files for other versions of Python, on which it ends badly.
    let _ = Command::new(&python)
        .args(["-m", "compileall", "-qq", "-j", "0", "-x", "/tests?/"])
        .arg(folder.join("lib"))
        .status();
    fs::write(&installed, wanted).map_err(|_| "room for Python's libraries")?;
    Ok(python)
}

/// Counts a step as skipped for what [`prepare`] found missing, as the tests' skips are.
///
/// # Errors
/// Where no skip is allowed.
pub(crate) fn skip(root: &Path, missing: &str) -> Result<(), String> {
    let line = format!("skipped: needs {missing}");
    println!("{line}");
    match std::env::var("MARACAS_LIVE").as_deref() {
        Ok("required") => Err(line),
        _ => skips::add(root, &line),
    }
}

/// Runs a command of a line; its words, and what it printed, are shown where it fails.
///
/// # Errors
/// It does not start, or ends badly.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let words: Vec<_> =
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    let name = command.get_program().to_string_lossy().into_owned();
    let name = name.rsplit('/').next().unwrap_or_default().to_string();
    let line = format!("{name} {}", words.join(" "));
    let line = line.lines().next().unwrap_or_default();
    println!("+ {line}");
    let done = command
        .stdin(Stdio::null())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env(skips::VARIABLE, skips::file(&crate::root()))
        .output()
        .map_err(|error| format!("{name} does not start: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&done.stdout));
    eprint!("{}", String::from_utf8_lossy(&done.stderr));
    Err(format!("`{line}` failed"))
}

/// Whether there is a Python that is new enough and makes environments.
fn has_python() -> bool {
    let script = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let asked = Command::new("python3").args(["-c", script]).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}
