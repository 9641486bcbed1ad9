//! `cargo xtask python`: the Python package, built and tried as its users would.
//!
//! The wheel is built in an environment with its tests' libraries, and installed there and in one
//! that holds nothing else. Where Python, its `venv` or a network is missing and cannot be had, the
//! step is skipped, and counted as the tests' skips are.

use crate::{together, venv};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the wheel and tries it.
///
/// # Errors
/// Where a step fails that this host can do.
pub(crate) fn python(root: &Path) -> Result<(), String> {
    let place = Place::of(root);
    if let Err(missing) = place.prepare() {
        return venv::skip(root, missing);
    }
    let wheel = place.build()?;
    place.try_alone(&wheel)?;
    let python = place.tests.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    venv::run(Command::new(&python).args(install).arg(&wheel))?;
    let in_package =
        |args: &[&str]| venv::run(Command::new(&python).args(args).current_dir(&place.package));
    let tests = || in_package(&["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    let sources = || {
        let notebooks = "../../examples/notebooks";
        in_package(&["-m", "ruff", "format", "--quiet", "--check", ".", notebooks])?;
        in_package(&["-m", "ruff", "check", "--quiet", ".", notebooks])?;
        in_package(&["-m", "mypy", "--strict", "python/maracas"])?;
        in_package(&["-m", "mypy.stubtest", "maracas._maracas"])?;
        let documents = place.folder.join("docs");
        venv::run(Command::new(&python).args(["-m", "pdoc", "maracas", "-o"]).arg(documents))
    };
    // Neither has more than one core at work.
    together::all(2, &[&tests, &sources])
}

/// Installs the tests' libraries, where they can be had; [`python`] says what is missing.
pub(crate) fn fetch(root: &Path) {
    let _ = Place::of(root).prepare();
}

/// Where everything lies.
struct Place {
    /// The package's sources.
    package: PathBuf,
    /// What is made here.
    folder: PathBuf,
    /// The environment with the tests' libraries.
    tests: PathBuf,
}

impl Place {
    fn of(root: &Path) -> Self {
        let target = crate::target(root);
        let folder = target.join("python");
        let (package, tests) = (root.join("crates/python"), folder.join("tests"));
        Self { package, tests, folder }
    }

    /// Makes the environment with the tests' libraries.
    fn prepare(&self) -> Result<PathBuf, &'static str> {
        let project = fs::read_to_string(self.package.join("pyproject.toml"));
        venv::prepare(&self.tests, &libraries(&project.unwrap_or_default()))
    }

    /// Builds the wheel as `pip install ./crates/python` does; says where it is.
    fn build(&self) -> Result<PathBuf, String> {
        let wheels = self.folder.join("wheels");
        if wheels.exists() {
            fs::remove_dir_all(&wheels)
                .map_err(|error| format!("{}: {error}", wheels.display()))?;
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let with = std::iter::once(self.tests.join("bin")).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(with).map_err(|error| format!("PATH: {error}"))?;
        let wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"];
        venv::run(
            Command::new(self.tests.join("bin/python"))
                .args(wheel)
                .arg("--wheel-dir")
                .arg(&wheels)
                .arg(&self.package)
                .env("PATH", path),
        )?;
        let mut built = fs::read_dir(&wheels).into_iter().flatten().flatten();
        let one = built.next().ok_or("pip left no wheel")?;
        Ok(one.path())
    }

    /// Installs the wheel where nothing else is, and asks module and command for a simulation.
    fn try_alone(&self, wheel: &Path) -> Result<(), String> {
        let alone = self.folder.join("alone");
        venv::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&alone))?;
        let install = ["-m", "pip", "install", "--quiet", "--no-index"];
        venv::run(Command::new(alone.join("bin/python")).args(install).arg(wheel))?;
        let script = "import maracas\n\
            tasks = maracas.TaskSet([maracas.Task('a', '2ms', '10ms')])\n\
            run = maracas.simulate(tasks, policy='g-edf', cores=1, until='1s')\n\
            assert run.report['total']['completed'] == 100, run\n\
            assert run._repr_html_().startswith('<svg')\n";
        venv::run(Command::new(alone.join("bin/python")).args(["-c", script]))?;
        let example = self.package.join("../../examples/quickstart.toml");
        let sim = ["sim", "--until", "1s", "--quiet"];
        venv::run(Command::new(alone.join("bin/maracas")).args(sim).arg(example))
    }
}

/// What the package's tests and its build ask for, read off `pyproject.toml`.
fn libraries(project: &str) -> Vec<String> {
    let list = |from: &str| {
        let rest = project.split(from).nth(1).unwrap_or_default();
        let list = rest.split_once(']').map_or("", |(list, _)| list);
        list.split('"').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>()
    };
    [list("requires = ["), list("\ntest = [")].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_off_the_project() {
        let project = fs::read_to_string(crate::root().join("crates/python/pyproject.toml"));
        let found = libraries(&project.unwrap());
        assert!(found[0].starts_with("maturin>="), "{found:?}");
        assert!(
            ["mypy==", "polars", "pytest"].iter().all(|it| found.iter().any(|f| f.starts_with(it)))
        );
        assert!(found.iter().all(|it| !it.contains(char::is_whitespace)), "{found:?}");
    }
}
