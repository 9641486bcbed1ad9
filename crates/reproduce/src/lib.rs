//! The papers' experiments, run again: every table and figure with the published numbers beside
//! ours.
//!
//! Here are the experiments, one file each, and what they share: scenarios that are run ([`Lab`]),
//! tables, verdicts and figures ([`findings`], [`figure`]), statistics ([`stats`]) and the
//! generated parts of a document ([`document`]). There is no policy, no machine and no model here:
//! an experiment is a list of scenario files, which `maracas sim` runs just as well, and what is
//! read off their reports. No clock, no file, no output either: the caller writes.
//!
//! This room stands above `policies`, `sim`, `scenario`, `trace` and `sweep`, which it imports, and
//! below the command line.
//!
//! # An experiment
//! * *Calibrates* where a free parameter was fitted to the published numbers that it is then held
//!   against; *predicts* where nothing was.
//! * The same bytes each time: seeds are part of the scenarios, and results do not depend on how
//!   many threads run them.
//! * A number that is not met is shown with the reason; nothing is tuned beyond what
//!   [`Experiment::free`] says.
#![forbid(unsafe_code)]

mod admission;
mod bars;
mod comparison;
pub mod document;
mod ecrts15;
mod fairness;
pub mod findings;
mod lab;
mod maracas;
mod memguard;
mod pool;
mod run;

pub use ecrts15::Costs;
pub use findings::Findings;
pub use lab::{Lab, Record, Setup};
pub use maracas_sweep::{figure, stats};
pub use run::Run;

use maracas_scenario::near_words;
use std::fmt;

/// One experiment of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The word users write: the paper and its figure or table.
    pub name: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// What is done and measured, in sentences.
    pub summary: &'static str,
    /// Paper, figure or table, section.
    pub source: &'static str,
    /// Whether anything was fitted to what it is held against.
    pub kind: Kind,
    /// What the paper leaves open and we chose or fitted, with the values.
    pub free: &'static str,
    /// Constants that were fitted elsewhere and are used here, with their values and what they were
    /// fitted to; empty = there are none.
    pub fitted: &'static str,
    /// Runs it.
    pub run: fn(&Lab<'_>) -> Result<Findings, Error>,
}

impl Experiment {
    /// The word for its paper, with which its name begins.
    pub fn paper(&self) -> &'static str {
        self.name.split('-').next().unwrap_or(self.name)
    }
    /// What it is, as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name, "title": self.title, "summary": self.summary,
            "source": self.source, "kind": self.kind.word(), "free": self.free,
        })
    }
}

/// Whether anything was fitted to the numbers that an experiment is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Something was: agreement shows that the model can say it.
    Calibrates,
    /// Nothing was: agreement is evidence.
    Predicts,
}

impl Kind {
    /// The word in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Calibrates => "calibrates",
            Self::Predicts => "predicts",
        }
    }
}

/// The experiments of each paper.
const PAPERS: &[&[Experiment]] = &[
    maracas::EXPERIMENTS,
    memguard::EXPERIMENTS,
    ecrts15::EXPERIMENTS,
    fairness::EXPERIMENTS,
    admission::EXPERIMENTS,
    comparison::EXPERIMENTS,
];

/// Every experiment, in the order of the papers.
pub fn experiments() -> impl Iterator<Item = &'static Experiment> {
    PAPERS.iter().copied().flatten()
}

/// The experiment of this name.
pub fn find(name: &str) -> Option<&'static Experiment> {
    experiments().find(|experiment| experiment.name == name)
}

/// The experiments that are meant by these names, each once, in the order of the papers: their own
/// names, those of papers, or `all`.
///
/// # Errors
/// Where there is none of a name; names the nearest.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>, Error> {
    let means =
        |name: &str, it: &Experiment| name == "all" || name == it.name || name == it.paper();
    for name in names {
        if !experiments().any(|it| means(name, it)) {
            let near = near_words(name, experiments().flat_map(|it| [it.name, it.paper()]));
            let line = format!("unknown experiment \"{name}\"{near}");
            return Err(Error(line + " (`maracas reproduce list` lists them)"));
        }
    }
    let named = |it: &&Experiment| names.iter().any(|name| means(name, it));
    Ok(experiments().filter(named).collect())
}

/// Why an experiment could not be run, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_have_names_of_their_own_and_say_what_they_are() {
        for (place, experiment) in experiments().enumerate() {
            let named = |name: &str| experiments().position(|other| other.name == name);
            assert_eq!(named(experiment.name), Some(place), "{} is there twice", experiment.name);
            assert!(experiment.summary.ends_with('.'), "{}", experiment.name);
            assert!(!experiment.source.is_empty() && !experiment.free.is_empty());
        }
        assert!(find("maracas-fig4").is_some() && find("fig4").is_none());
    }

    #[test]
    fn every_experiment_of_the_maracas_paper_is_there() {
        // algorithms.md G.5: X1 to X7, Figures 2 and 5, the background rules, MEM_PERIOD and DMA;
        // and what the paper speaks of without a figure.
        let wanted = [
            "fig2",
            "fig4",
            "table2",
            "fig5",
            "fig6",
            "fig7",
            "fig8",
            "fig9",
            "fig10",
            "rules",
            "period",
            "dma",
            "requests",
            "recolor",
            "io",
            "separation",
            "cputime",
        ];
        for name in wanted {
            assert!(find(&format!("maracas-{name}")).is_some(), "{name} is missing");
        }
    }

    #[test]
    fn every_experiment_of_the_memguard_slides_is_there() {
        let wanted = [
            "rmin",
            "slowdown",
            "isolation",
            "reclaim",
            "spare",
            "rmin-sweep",
            "reservation",
            "weights",
            "underrun",
            "maracas",
            "regulation",
        ];
        for name in wanted {
            assert!(find(&format!("memguard-{name}")).is_some(), "{name} is missing");
        }
    }
}
