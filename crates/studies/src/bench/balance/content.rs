//! Whether the memory of a VCPU that moves has the same content before and after, by the word of
//! its own program, which hashes it every now and then and writes that into a file.

use super::story::Move;
use super::{Measured, Verdict};
use maracas_console::failure::Failure;
use maracas_core::{Duration, Instant, VcpuId};
use maracas_live::host::launch::Account;
use maracas_scenario::{Output, Scenario};
use serde_json::Value;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::{fs, io};

/// The programs' outputs; removed with it.
#[derive(Debug)]
pub(super) struct Outputs {
    directory: PathBuf,
}

/// What a program said of its memory around a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Content {
    /// The last hash before the move was ordered.
    pub(super) before: String,
    /// The first one after it was done.
    pub(super) after: String,
}

impl Outputs {
    /// Has every program write into a file of its own.
    pub(super) fn of(scenario: &mut Scenario) -> Result<Self, Failure> {
        let fail = |error: io::Error| Failure::about("the programs' outputs", error);
        let name = format!("maracas-balance-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).map_err(fail)?;
        // Programs under sudo are the caller's, and open their outputs themselves.
        if let Some(Account { user, .. }) = Account::of_sudo() {
            chown(&directory, Some(user.uid), Some(user.gid)).map_err(fail)?;
        }
        let outputs = Self { directory };
        for program in &mut scenario.programs {
            let path = outputs.path(program.vcpu);
            if let Some(command) = &mut program.command {
                command.output = Output::File(path);
            }
        }
        Ok(outputs)
    }

    fn path(&self, vcpu: VcpuId) -> PathBuf {
        self.directory.join(vcpu.to_string())
    }

    /// The hashes around a move; `None` where the program said none before, or none after.
    pub(super) fn around(&self, moved: &Move) -> Option<Content> {
        let text = fs::read_to_string(self.path(moved.vcpu)).ok()?;
        let lines: Vec<_> = text.lines().filter_map(hashed).collect();
        around(&lines, moved.ordered, moved.done?)
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// How long a program lived when it said a hash, and the hash.
fn hashed(line: &str) -> Option<(Duration, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let lived = (line["elapsed_s"].as_f64()? * 1e9) as u64;
    Some((Duration::from_nanos(lived), line["hash"].as_str()?.to_string()))
}

/// A program is younger than its run by up to [`super::BEGUN`].
fn around(lines: &[(Duration, String)], ordered: Instant, done: Instant) -> Option<Content> {
    let before = |(lived, _): &&(Duration, String)| Instant::ZERO + *lived + super::BEGUN < ordered;
    let after = |(lived, _): &&(Duration, String)| Instant::ZERO + *lived > done;
    let (before, after) = (lines.iter().rfind(before)?, lines.iter().find(after)?);
    Some(Content { before: before.1.clone(), after: after.1.clone() })
}

/// Whether no content changed by a move.
pub(super) fn verdict(measured: &Measured) -> Verdict {
    let all = measured.moves().count();
    let reported: Vec<_> =
        measured.moves().filter_map(|(_, moved)| moved.content.as_ref()).collect();
    let same = reported.iter().filter(|content| content.before == content.after).count();
    let hash = reported.first().map_or("-", |content| &content.before);
    Verdict {
        name: "content",
        holds: same == reported.len() && !reported.is_empty(),
        text: format!(
            "the memory of what moves has the same hash before and after: {hash}, in {same} of {} \
             moves with both ({all} in all)",
            reported.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_count_that_are_surely_before_and_after() {
        let line = |s: f64, hash: &str| format!(r#"{{"elapsed_s":{s},"hash":"{hash}"}}"#);
        let texts = [line(0.5, "a"), line(1.4, "b"), line(2.0, "c"), line(2.6, "d"), "{}".into()];
        let lines: Vec<_> = texts.iter().filter_map(|text| hashed(text)).collect();
        assert_eq!(lines.len(), 4);
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let content = around(&lines, at(2_500), at(2_550)).unwrap();
        assert_eq!((content.before.as_str(), content.after.as_str()), ("b", "d"));
        assert_eq!(around(&lines, at(1_000), at(2_550)), None, "nothing is known of before");
        assert_eq!(around(&lines, at(2_500), at(2_700)), None, "nor of after");
    }
}
