//! The table of what this host can do, as words for people; the command line prints it.

use super::probe::{Capabilities, State};

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
}

/// Puts findings into words.
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
    Report {
        machine: found.platform.to_string(),
        rung: found.rung().to_string(),
        rows: found.findings.iter().map(row).collect(),
    }
}
