//! `maracas reproduce`: the papers' experiments, run again.

use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_reproduce::document::{self, FIGURES};
use maracas_reproduce::{Costs, Experiment, Findings, Lab, Record, Setup};
use maracas_studies::bench::primitives;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

/// The study that measures before it evaluates.
const STUDY: &str = "ecrts15";

/// Run the papers' experiments again and set our numbers beside theirs
///
/// Each experiment is a set of scenarios in the simulator; it gives tables, figures and, line by
/// line, what of the paper's pattern holds. The same bytes each time. `all` of them take about
/// two and a half minutes of one core.
///
/// Example: maracas reproduce maracas-table2
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Experiments by name, all of a paper (`maracas`, `memguard`, `ecrts15`), `all`, or `list` for
    /// what there is
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Write CSV, SVG, and every scenario as a file that `maracas sim` takes, a folder for each
    /// experiment
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Parameter sets, where an experiment draws them, in place of its own number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    seeds: Option<u16>,
    /// Scenarios to simulate at once; without it, one for each core of this host
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Compare with a document, such as docs/results.md, and the figures beside it; exits 1 where
    /// they differ
    #[arg(long, value_name = "FILE", conflicts_with_all = ["write", "seeds"])]
    check: Option<PathBuf>,
    /// Write the results into a document, between their marks, and the figures beside it
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    write: Option<PathBuf>,
    /// Costs of scheduling primitives for the experiments of ecrts15: measured on this machine
    /// (minutes), quickly and roughly, or those recorded for the documents. Without it, measured
    /// where only experiments of ecrts15 are named, else recorded
    #[arg(long, value_enum, conflicts_with_all = ["check", "write"])]
    costs: Option<Origin>,
    /// Tables and verdicts as JSON in place of text
    #[arg(long)]
    json: bool,
    /// No progress
    #[arg(long, short)]
    quiet: bool,
}

/// Where costs of scheduling primitives come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Origin {
    Measured,
    Quick,
    Recorded,
}

/// The costs to evaluate with, where they are not the recorded ones.
fn costs(args: &Args, chosen: &[&Experiment]) -> Result<Option<Costs>, Failure> {
    let needed = chosen.iter().any(|it| it.paper() == STUDY);
    let document = args.check.is_some() || args.write.is_some();
    let only = chosen.iter().all(|it| it.paper() == STUDY) && !document;
    let usual = if only { Origin::Measured } else { Origin::Recorded };
    let quick = match args.costs.unwrap_or(usual) {
        Origin::Measured => false,
        Origin::Quick => true,
        Origin::Recorded => return Ok(None),
    };
    if !needed {
        return Ok(None);
    }
    let (costs, locks) = primitives::for_the_study(quick)?;
    Costs::parse(&costs, &locks).map(Some).map_err(Failure::new)
}

pub(super) fn run(args: &Args) -> Outcome {
    if args.names.iter().any(|name| name == "list") {
        return list(args.json);
    }
    let chosen = maracas_reproduce::chosen(&args.names).map_err(Failure::new)?;
    let document = args.check.as_ref().or(args.write.as_ref());
    let mut text = document.map(|path| read(path)).transpose()?;
    output::leave_nothing_at_signals()?;
    let far = Mutex::new(Far::new(chosen.len()));
    let progress = |done: usize, known: usize| {
        if let (false, Ok(mut far)) = (args.quiet, far.lock()) {
            far.show(done, known);
        }
    };
    let jobs = match args.jobs {
        Some(jobs) => usize::from(jobs),
        None => maracas_session::case::host_cores()?,
    };
    let mut lab = Lab::new(jobs, args.seeds.map(usize::from), &progress);
    if let Some(costs) = costs(args, &chosen)? {
        lab = lab.with_costs(costs);
    }
    let (mut stale, mut found) = (Vec::new(), BTreeMap::new());
    for experiment in chosen {
        let fail = |why| Failure::about(experiment.name, why);
        let findings = (experiment.run)(&lab).map_err(fail)?;
        if let Ok(mut far) = far.lock() {
            far.next();
        }
        let (setups, records) = (lab.take_setups(), lab.take_records());
        if let Some(folder) = &args.out {
            let folder = folder.join(experiment.name);
            write_folder(&folder, experiment, &findings, &setups)?;
            write_records(&folder.join("data"), &records)?;
            if !args.quiet {
                let count = setups.len();
                output::note(&format!("{} holds {count} scenarios and more", folder.display()));
            }
        }
        match (&args.check, &args.write, &mut text) {
            (Some(path), _, Some(text)) => {
                let figure = |name: &str| fs::read_to_string(beside(path, name)).ok();
                stale.extend(document::stale(text, experiment, &findings, &figure));
            }
            (None, Some(path), Some(text)) => {
                let part = findings.markdown(experiment, Some(FIGURES));
                *text = document::with_part(text, experiment.name, &part);
                write_figures(&beside(path, ""), experiment, &findings)?;
            }
            (..) if args.json => {}
            (..) => output::line(&findings.markdown(experiment, None))?,
        }
        found.insert(experiment.name, findings);
    }
    if let (Some(path), Some(text)) = (&args.write, &text) {
        output::write_file(path, text)?;
    }
    if args.json {
        let json = serde_json::to_value(&found).map_err(|why| Failure::about("--json", why))?;
        output::line(&format!("{json:#}"))?;
    }
    stale.iter().for_each(|line| output::note(line));
    if let (Some(path), true, false) = (&args.check, stale.is_empty(), args.json) {
        let (path, count) = (path.display(), found.len());
        output::line(&format!("{path}: {count} experiments are as it says"))?;
    }
    Ok(if stale.is_empty() { Answer::Yes } else { Answer::No })
}

/// How far all experiments are together, each with the same weight.
struct Far {
    bar: output::Bar,
    started: Instant,
    experiments: usize,
    over: usize,
    /// Runs that were over, as the lab counts them, when this experiment began, and now.
    before: usize,
    now: usize,
    /// As was shown last: an experiment that goes on to more runs than it was known to have does
    /// not take anything back.
    share: f64,
}

impl Far {
    fn new(experiments: usize) -> Self {
        let (bar, started) = (output::Bar::new("reproduce"), Instant::now());
        Self { bar, started, experiments, over: 0, before: 0, now: 0, share: 0.0 }
    }
    /// So many runs are over, of so many that are known.
    fn show(&mut self, done: usize, known: usize) {
        self.now = self.now.max(done);
        let own = (self.now - self.before) as f64 / (known - self.before).max(1) as f64;
        // What an experiment knows of is not all that it will run.
        let share = (self.over as f64 + 0.99 * own) / self.experiments.max(1) as f64;
        self.share = self.share.max(share);
        self.bar.show(self.share, self.started.elapsed());
    }
    /// An experiment is over.
    fn next(&mut self) {
        (self.over, self.before) = (self.over + 1, self.now);
        self.bar.clear();
    }
}

/// Prints what there is.
fn list(json: bool) -> Outcome {
    let all = maracas_reproduce::experiments();
    if json {
        let all = all.map(Experiment::to_json).collect();
        return output::line(&format!("{:#}", serde_json::Value::Array(all))).map(|()| Answer::Yes);
    }
    for it in all {
        let kind = it.kind.word();
        let text = format!("{}  {kind}  {}", it.name, it.title);
        output::line(&format!("{text}\n    {}\n    free: {}", it.source, it.free))?;
    }
    Ok(Answer::Yes)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::about(path.display(), format_args!("cannot be read: {error}")))
}

/// A figure of the document at `path`; the folder of all of them where `name` is empty.
fn beside(path: &Path, name: &str) -> PathBuf {
    path.with_file_name(FIGURES).join(name)
}

fn folder(path: &Path) -> Result<(), Failure> {
    let fail = |error| {
        Failure::about(path.display(), format_args!("the directory cannot be made: {error}"))
    };
    fs::create_dir_all(path).map_err(fail)
}

fn write_figures(path: &Path, it: &Experiment, findings: &Findings) -> Result<(), Failure> {
    folder(path)?;
    let mut figures = findings.figures.iter();
    figures
        .try_for_each(|figure| output::write_file(&path.join(figure.file(it.name)), &figure.svg()))
}

/// Everything of one experiment: text, tables, figures, scenarios.
fn write_folder(
    path: &Path,
    it: &Experiment,
    findings: &Findings,
    setups: &[Setup],
) -> Result<(), Failure> {
    write_figures(path, it, findings)?;
    output::write_file(&path.join("README.md"), &findings.markdown(it, Some(".")))?;
    for table in &findings.tables {
        output::write_file(&path.join(table.file(it.name)), &table.csv())?;
    }
    let scenarios = path.join("scenarios");
    folder(&scenarios)?;
    let mut setups = setups.iter();
    setups.try_for_each(|setup| {
        output::write_file(&scenarios.join(format!("{}.toml", setup.name)), &setup.text)
    })
}

/// What an experiment found one by one, where it keeps that.
fn write_records(path: &Path, records: &[Record]) -> Result<(), Failure> {
    if !records.is_empty() {
        folder(path)?;
    }
    let mut records = records.iter();
    records.try_for_each(|it| output::write_file(&path.join(&it.name), &it.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_never_goes_back_and_ends_with_the_last_experiment() {
        let mut far = Far::new(2);
        let mut seen = Vec::new();
        // The first experiment asks for two runs, then for six more; the second for one.
        for (done, known) in [(1, 2), (2, 2), (3, 8), (2, 8), (8, 8)] {
            far.show(done, known);
            seen.push(far.share);
        }
        far.next();
        far.show(9, 9);
        seen.push(far.share);
        assert!(seen.windows(2).all(|pair| pair[0] <= pair[1]), "{seen:?}");
        assert!(seen[4] < 0.5 && (0.99..1.0).contains(&seen[5]), "{seen:?}");
    }
}
