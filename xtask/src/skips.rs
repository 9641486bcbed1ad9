//! What tests skipped, and why: each skip adds its line to a file that is read at the end.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Names the file to the tests (`tests/shared/bounds.rs`).
pub(crate) const VARIABLE: &str = "MARACAS_SKIPS";

/// How the line of a test begins that was run again (`tests/shared/witness.rs`).
const REPEATED: &str = "repeated: ";

/// Where the file is. Beside what cargo builds, and of no test alone.
pub(crate) fn file(root: &Path) -> PathBuf {
    root.join("target/skips")
}

/// Adds a line of this tool's own.
pub(crate) fn add(root: &Path, line: &str) -> Result<(), String> {
    let file = file(root);
    // In one call, as tests do: other steps may add theirs at the same time.
    let write = |mut to: fs::File| to.write_all(format!("{line}\n").as_bytes());
    let opened = fs::OpenOptions::new().create(true).append(true).open(&file);
    opened.and_then(write).map_err(|error| format!("{}: {error}", file.display()))
}

/// The skips from now on.
pub(crate) struct Skips(PathBuf);

impl Skips {
    /// Forgets those of before.
    pub(crate) fn begin(root: &Path) -> Result<Self, String> {
        let file = file(root);
        let said = |error: io::Error| format!("{}: {error}", file.display());
        fs::create_dir_all(root.join("target")).map_err(said)?;
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(said(error)),
            _ => Ok(Self(file)),
        }
    }
    /// One line: how many tests were skipped for which reason.
    pub(crate) fn end(self) -> Result<String, String> {
        match fs::read_to_string(&self.0) {
            Ok(text) => Ok(count(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(count("")),
            Err(error) => Err(format!("{}: {error}", self.0.display())),
        }
    }
}

/// `skips: 3 x needs a PMU; 1 x needs resctrl`, the most frequent first, and tests that were run
/// again in the same way.
fn count(text: &str) -> String {
    let (repeats, skips): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with(REPEATED));
    let skips = format!("skips: {}", reasons(skips, "skipped: "));
    if repeats.is_empty() {
        return skips;
    }
    format!("{skips}\nrepeats: {}", reasons(repeats, REPEATED))
}

fn reasons(lines: Vec<&str>, prefix: &str) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in lines {
        *counts.entry(line.strip_prefix(prefix).unwrap_or(line)).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<_> = counts.iter().map(|(why, count)| format!("{count} x {why}")).collect();
    if words.is_empty() { "none".into() } else { words.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_by_reason() {
        assert_eq!(count(""), "skips: none");
        let pmu = "skipped: needs a PMU\n";
        let text = [pmu, "skipped: needs resctrl\n", pmu, pmu].concat();
        let skips = "skips: 3 x needs a PMU; 1 x needs resctrl";
        assert_eq!(count(&text), skips);
        let again = [text.as_str(), "repeated: a core was lost\n"].concat();
        assert_eq!(count(&again), format!("{skips}\nrepeats: 1 x a core was lost"));
    }

    #[test]
    fn skips_of_before_are_forgotten() {
        let root = std::env::temp_dir().join(format!("maracas-skips-{}", std::process::id()));
        let none = Skips::begin(&root).unwrap();
        assert_eq!(none.end(), Ok("skips: none".into()));
        fs::write(file(&root), "skipped: needs a PMU\n").unwrap();
        add(&root, "skipped: needs a network").unwrap();
        let both = "skips: 1 x needs a PMU; 1 x needs a network";
        let counted = count(&fs::read_to_string(file(&root)).unwrap());
        assert!(counted == both || counted == "skips: 1 x needs a network; 1 x needs a PMU");
        let again = Skips::begin(&root).unwrap();
        fs::write(file(&root), "skipped: needs resctrl\n").unwrap();
        assert_eq!(again.end(), Ok("skips: 1 x needs resctrl".into()));
        fs::remove_dir_all(root).unwrap();
    }
}
