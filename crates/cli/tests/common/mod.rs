//! What the tests of the command line share: a scratch directory and the real binary.
#![allow(dead_code, reason = "every test binary uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own for one test, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("maracas-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
    /// Writes a file into it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).unwrap();
    }
    /// The names in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the binary in `directory`.
pub(crate) fn maracas(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_maracas"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("MARACAS_SOCKET")
        .output()
        .unwrap()
}

/// What was printed.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Commands that read a scenario; the second one would write files.
pub(crate) const CHECK_AND_SIM: [&[&str]; 2] =
    [&["check", "s.toml"], &["sim", "s.toml", "--journal", "j", "--trace", "t", "--quiet"]];

/// One kind of bad input: its name, what replaces what in a good one, and what the line must hold.
pub(crate) type Edit = (&'static str, &'static str, &'static str, &'static str);

/// Runs a command on bad input and holds it to the rules: exit code 2, one line that says `wanted`,
/// nothing printed, no file left.
pub(crate) fn expect_refusal(name: &str, scratch: &Scratch, arguments: &[&str], wanted: &str) {
    let before = scratch.names();
    let output = maracas(scratch.path(), arguments);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{name}: {stdout}{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{name}: not one line: {stderr}");
    assert!(stderr.starts_with("maracas: "), "{name}: {stderr}");
    assert!(stderr.contains(wanted), "{name}: {wanted} is not in: {stderr}");
    assert_eq!(stdout, "", "{name}: printed something");
    assert_eq!(scratch.names(), before, "{name}: left a file");
}

/// Makes each edit by itself and expects that every command refuses what comes of it.
pub(crate) fn expect_refusals(good: &str, edits: &[Edit], commands: &[&[&str]]) {
    let scratch = Scratch::new();
    for (name, from, to, wanted) in edits {
        assert!(good.contains(from), "{name}: {from} is not in the good scenario");
        scratch.write("s.toml", good.replacen(from, to, 1));
        for command in commands {
            expect_refusal(name, &scratch, command, wanted);
        }
    }
}
