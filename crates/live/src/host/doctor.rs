//! The table of what this host can do, as words for people; the command line prints it.

use super::HardwareCore;
use super::classes::Detected;
use super::probe::{Capabilities, State};
use crate::perf::{TRIAL_STEPS, trial};
use std::io;

/// One line of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// What was tried.
    pub capability: String,
    /// `works`, `missing` or `fact`.
    pub state: &'static str,
    /// How it was proved, the kernel's refusal, or the fact.
    pub proof: String,
    /// What would enable it, if it is missing.
    pub remedy: &'static str,
    /// What is done instead, if it is missing.
    pub fallback: &'static str,
}

/// What `maracas doctor` shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The machine in one line, without its name.
    pub machine: String,
    /// The rung of the ladder that the live machine takes by default.
    pub rung: String,
    /// One row for each capability.
    pub rows: Vec<Row>,
    /// The classes of the usable cores.
    pub classes: Detected,
}

/// Puts findings into words, and adds what cores of uneven speed need: their classes, and the
/// instructions by which programs' speeds are compared.
pub fn report(found: &Capabilities) -> Report {
    let row = |finding: &super::probe::Finding| Row {
        capability: finding.capability.to_string(),
        state: match finding.state {
            State::Works => "works",
            State::Missing => "missing",
            State::Fact => "fact",
        },
        proof: finding.proof.clone(),
        remedy: finding.remedy,
        fallback: finding.fallback,
    };
    let classes = Detected::of_host(&found.platform.cores);
    let mut rows: Vec<Row> = found.findings.iter().map(row).collect();
    rows.push(classes_row(&classes));
    rows.push(instructions_row(count_on_all(&found.platform.cores)));
    Report { machine: found.platform.to_string(), rung: found.rung().to_string(), rows, classes }
}

fn classes_row(classes: &Detected) -> Row {
    // Averages are no ground for a guarantee (host/classes.rs says why).
    let (remedy, fallback) = if classes.is_even() {
        ("", "uneven speed can be emulated: maracas run --emulate")
    } else {
        ("for hard guarantees, state measured speeds in [[platform.class]]", "")
    };
    let (capability, proof) = ("core classes".to_owned(), classes.to_string());
    Row { capability, state: "fact", proof, remedy, fallback }
}

fn instructions_row(counted: io::Result<u64>) -> Row {
    let (state, proof, remedy, fallback) = match counted {
        Ok(count) => ("works", format!("a loop of {TRIAL_STEPS} steps took {count}"), "", ""),
        Err(error) => (
            "missing",
            error.to_string(),
            "a processor with a performance monitor; in a virtual machine, a virtual one",
            "programs count their own progress: maracas_progress of crates/client",
        ),
    };
    Row { capability: "instruction counters".to_owned(), state, proof, remedy, fallback }
}

/// Counts the instructions of a loop on every core, since the kinds of a hybrid have monitors of
/// their own, and returns the fewest.
fn count_on_all(cores: &[HardwareCore]) -> io::Result<u64> {
    let count = |core: &HardwareCore| trial(*core).map_err(super::naming(format!("core {core}")));
    let counts: io::Result<Vec<u64>> = cores.iter().map(count).collect();
    counts.map(|counts| counts.into_iter().min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::classes::HostClass;
    use super::*;

    #[test]
    fn classes_and_counters_say_what_is_done_without_them() {
        let class = |speed_milli, core| HostClass { speed_milli, cores: vec![HardwareCore(core)] };
        let found = |classes| Detected { classes, how: "a test".into(), passed_over: Vec::new() };
        let even = classes_row(&found(vec![class(1000, 0)]));
        assert_eq!(even.proof, "equal cores, as far as this host says: a test");
        assert!(even.fallback.contains("--emulate") && even.remedy.is_empty());
        let uneven = classes_row(&found(vec![class(1000, 1), class(500, 0)]));
        assert!(uneven.proof.starts_with("2 classes by a test: core 1 at speed 1000, core 0 at"));
        assert!(uneven.remedy.contains("[[platform.class]]") && uneven.fallback.is_empty());
        let missing = instructions_row(Err(io::Error::other("no such thing")));
        assert_eq!((missing.state, missing.proof.as_str()), ("missing", "no such thing"));
        assert!(missing.fallback.contains("maracas_progress"));
        assert_eq!(instructions_row(Ok(TRIAL_STEPS)).state, "works");
    }

    #[test]
    fn instructions_are_counted_or_refused_by_core() {
        let cores = super::super::platform::Platform::detect().expect("readable").cores;
        match count_on_all(&cores) {
            // A step takes a handful of instructions, even where nothing is optimized.
            Ok(count) => assert!((TRIAL_STEPS..1000 * TRIAL_STEPS).contains(&count), "{count}"),
            Err(error) => assert!(error.to_string().starts_with("core ")),
        }
    }
}
