//! What is tried in guests: the binary `maracas` and the live test binaries, as Cargo builds them.

use super::json::Json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test binary.
#[derive(Debug, Clone)]
pub(super) struct TestBinary {
    pub(super) name: String,
    /// Where Cargo put it; it has the same path in guests.
    pub(super) path: PathBuf,
    /// Its package's directory, in which Cargo would run it.
    pub(super) package: PathBuf,
}

/// What was built.
#[derive(Debug, Clone)]
pub(super) struct Made {
    /// Where the binary is in guests. Tests have this path built in.
    pub(super) at: PathBuf,
    /// Where it is on this machine.
    pub(super) binary: PathBuf,
    pub(super) tests: Vec<TestBinary>,
}

/// Test binaries of the live machine's package that are for guests. The protocol is searched
/// without a host.
const OF_MACHINE: [&str; 2] = ["guardian", "live"];

/// The Python package is not built, but counts: with it libraries have the features that they have
/// in its wheel, so that CI compiles the command for both once.
const BINARY: [&str; 7] =
    ["build", "--package", "maracas", "--package", "maracas-python", "--bin", "maracas"];
/// With what loads the scheduler in the kernel.
const SCHED_EXT: [&str; 2] = ["--features", "maracas/sched-ext"];

/// Builds what guests need, optimized. `tests`: those of the live test binaries too that it wants.
/// `loads`: the binary can load the scheduler in the kernel.
///
/// # Errors
/// Where Cargo fails, or builds no binary, or none of the tests is wanted.
pub(super) fn build(
    root: &Path,
    binary: Option<&str>,
    tests: Option<&dyn Fn(&str) -> bool>,
    loads: bool,
) -> Result<Made, String> {
    let with = if loads { &SCHED_EXT[..] } else { &[] };
    let mut made = Made { at: "/bin/maracas".into(), binary: PathBuf::new(), tests: Vec::new() };
    if let Some(is_wanted) = tests {
        let mut names = live_tests(root)?;
        names.extend(OF_MACHINE.map(String::from));
        let known = names.join(", ");
        names.retain(|name| is_wanted(name));
        if names.is_empty() {
            return Err(format!("no such test binary; there are {known}"));
        }
        let mut words = vec!["test", "--no-run", "--package", "maracas"];
        words.extend(with);
        words.extend(["--package", "maracas-live"]);
        words.extend(names.iter().flat_map(|name| ["--test", name]));
        cargo(root, &words, &mut made)?;
        if made.binary.as_os_str().is_empty() {
            // Cargo builds it for tests of its own package only.
            cargo(root, &[&BINARY, with].concat(), &mut made)?;
        }
    } else if binary.is_none() {
        cargo(root, &[&BINARY, with].concat(), &mut made)?;
    }
    if let Some(path) = binary {
        made.binary = path.into();
    }
    if made.binary.is_file() {
        return Ok(made);
    }
    Err(format!("no binary `{}`; give one with --binary", made.binary.display()))
}

/// The names of the live tests of the command line's package: files, so that a new one is in.
fn live_tests(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("crates/cli/tests");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names.filter_map(|name| name.strip_suffix(".rs").map(String::from));
    let mut names: Vec<String> = names.filter(|name| name.starts_with("live_")).collect();
    names.sort();
    Ok(names)
}

fn cargo(root: &Path, words: &[&str], made: &mut Made) -> Result<(), String> {
    eprintln!("lab: cargo {} --release", words[0]);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(words)
        .args(["--release", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {} failed", words.join(" ")));
    }
    String::from_utf8_lossy(&output.stdout).lines().for_each(|line| made.take(line));
    Ok(())
}

impl Made {
    /// Takes in one of Cargo's messages (The Cargo Book, "External tools").
    fn take(&mut self, line: &str) {
        let Some(message) = Json::read(line) else { return };
        let text = |value: Option<&Json>| value.and_then(Json::text).map(String::from);
        let Some(path) = text(message.get("executable")) else { return };
        let target = message.get("target");
        let kinds = target.and_then(|target| target.get("kind")).map_or(&[][..], Json::list);
        let name = text(target.and_then(|target| target.get("name"))).unwrap_or_default();
        if kinds.iter().any(|kind| kind.text() == Some("bin")) && name == "maracas" {
            self.at = path.into();
            self.binary.clone_from(&self.at);
        } else if kinds.iter().any(|kind| kind.text() == Some("test")) {
            let manifest = PathBuf::from(text(message.get("manifest_path")).unwrap_or_default());
            let package = manifest.parent().map_or_else(|| "/".into(), Path::to_path_buf);
            self.tests.push(TestBinary { name, path: path.into(), package });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Made, live_tests};
    use std::path::{Path, PathBuf};

    #[test]
    fn live_tests_are_found_by_their_files() {
        let names = live_tests(&crate::root()).unwrap();
        assert!(names.iter().any(|name| name == "live_quickstart"), "{names:?}");
    }

    #[test]
    fn cargos_messages_name_binaries_and_tests() {
        let line = |kind: &str, name: &str, path: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/cli/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"{name}"}},"executable":{path}}}"#
            )
        };
        let mut made = Made { at: PathBuf::new(), binary: PathBuf::new(), tests: Vec::new() };
        made.take(&line("lib", "maracas_live", "null"));
        made.take(&line("bin", "maracas", "\"/t/release/maracas\""));
        made.take(&line("test", "live_kill", "\"/t/release/deps/live_kill-1\""));
        made.take("warning: no JSON");
        assert_eq!(made.binary, Path::new("/t/release/maracas"));
        assert_eq!((made.tests.len(), made.tests[0].name.as_str()), (1, "live_kill"));
        assert_eq!(made.tests[0].package, Path::new("/r/crates/cli"));
    }
}
