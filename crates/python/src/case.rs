//! A case: checked, simulated, drawn as a tree. And what is asked for without one.

use crate::errors::{ContractError, error, raised};
use crate::journal::Journal;
use crate::policy::{PythonPolicy, ask_python, with};
use maracas_core::params::Value;
use maracas_core::{Duration, Rate};
use maracas_reproduce::Lab;
use maracas_scenario::Scenario;
use maracas_scenario::formats::{self, Format};
use maracas_scenario::generate::{self as draw, Recipe};
use maracas_session::case::{self, Machine, Overrides};
use maracas_session::check::Checked;
use maracas_session::live::senses;
use maracas_session::observe::Watch;
use maracas_session::results::{default_of, to_json};
use maracas_session::simulation::{self, simulate};
use maracas_session::{memory as mixes, tree};
use maracas_trace::table;
use pyo3::prelude::*;
use serde_json::json;
use std::path::Path;

/// A scenario or task set with its policy found and its system built.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Case {
    case: case::Case,
    policy: Option<PythonPolicy>,
    /// What it was read from, and what was said in place of that.
    text: String,
    overrides: Overrides,
}

/// A parameter's value as Python writes it.
#[derive(FromPyObject)]
pub(crate) enum Given {
    Flag(bool),
    Whole(i64),
    Text(String),
}

fn value(given: Given) -> Value {
    match given {
        Given::Flag(flag) => Value::Flag(flag),
        Given::Whole(number) => Value::Whole(number),
        Given::Text(text) => Value::Text(text),
    }
}

#[pymethods]
impl Case {
    /// Reads the text of a scenario (`format` is "scenario") or of a task set; `file` is its name
    /// in errors, `live` that it is for this host, `entry` what Python says of a policy of its own.
    #[new]
    fn new(
        py: Python<'_>,
        text: &str,
        file: &str,
        format: Option<&str>,
        policy: Option<String>,
        set: Vec<(String, Given)>,
        cores: Option<usize>,
        seed: Option<u64>,
        live: bool,
        entry: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let own = entry.as_ref().map(PythonPolicy::of).transpose()?;
        let set = set.into_iter().map(|(name, given)| (name, value(given))).collect();
        let entry = own.as_ref().map(|it| it.entry);
        let overrides = Overrides { policy, set, cores, entry, ..Overrides::default() };
        let read = || {
            if format == Some("scenario") {
                let scenario = Scenario::parse(text, file).map_err(error)?;
                let machine = if live { Machine::Live } else { Machine::Sim };
                return case::Case::of(scenario, machine, &overrides).map_err(raised);
            }
            if live {
                let why = "a task set names no programs and can be simulated only";
                return Err(error(format!("{file}: {why}")));
            }
            let format = match format {
                Some(word) => word.parse::<Format>().map_err(error)?,
                None => Format::of(Path::new(file), text),
            };
            let loads = formats::parse_loads(text, file, Some(format)).map_err(error)?;
            case::Case::of_loads(loads, file, &overrides).map_err(raised)
        };
        let mut case = with(py, own.as_ref(), read)?;
        case.seed = seed.unwrap_or(case.seed);
        Ok(Self { case, policy: own, text: text.into(), overrides })
    }
    /// Whether the policy admits it.
    #[getter]
    fn admitted(&self) -> bool {
        self.case.verdict.accepted()
    }
    /// The verdict as `maracas check` prints it, and the same as JSON; with `suggest` what would
    /// be admitted in its place.
    fn verdict(&self, py: Python<'_>, suggest: bool) -> PyResult<(String, String)> {
        let Self { case, policy, text, overrides } = self;
        with(py, policy.as_ref(), || {
            let (asked, read) = (senses::Asked::default(), || Ok(text.clone()));
            let checked = Checked::of(case, &asked, suggest, &read, overrides).map_err(raised)?;
            Ok((checked.text(case), checked.to_json(case).to_string()))
        })
    }
    /// Simulates up to `until` nanoseconds, or the scenario's own duration: the report as JSON and
    /// as a table, sentences for the user, and the journal where it is kept. `None` where the
    /// policy refuses.
    fn simulate(
        &self,
        py: Python<'_>,
        until: Option<u64>,
        late: u64,
        hidden_wakes: bool,
        keep: bool,
    ) -> PyResult<Option<(String, String, Vec<String>, Option<Journal>)>> {
        let Self { case, policy, .. } = self;
        let mut options = simulation::options(case, until.map(Duration::from_nanos));
        options.late = Duration::from_nanos(late);
        options.hidden_wakes = hidden_wakes;
        let options = simulation::in_ticks(case, options).map_err(raised)?;
        let run = || {
            let watch = if keep { Watch::keeping(case) } else { Watch::bare(case) };
            Ok(simulate(case, &options, watch.asking(&ask_python)))
        };
        let Some(done) = with(py, policy.as_ref(), run)? else { return Ok(None) };
        let report = to_json(&done.report).map_err(raised)?.to_string();
        let mut text = Vec::new();
        table::write(&done.report, table::Style::default(), &mut text)?;
        let notes = case.assumptions().iter().cloned().chain(done.notes).collect();
        let journal = keep.then_some(Journal(done.journal));
        Ok(Some((report, String::from_utf8_lossy(&text).into_owned(), notes, journal)))
    }
    /// The tree of an optimal scheduler: text, SVG and JSON. `None` where the policy refuses.
    fn tree(&self) -> PyResult<Option<(String, String, String)>> {
        let drawing = tree::of(&self.case).map_err(raised)?.ok();
        Ok(drawing.map(|it| (it.text(), it.svg(), it.to_json().to_string())))
    }
}

/// A duration such as "20ms" in nanoseconds.
#[pyfunction]
pub(crate) fn time(text: &str) -> PyResult<u64> {
    let duration = Duration::parse(text).map_err(|why| error(format!("\"{text}\" {why}")))?;
    Ok(duration.ticks())
}

/// A random task set as CSV, by the options of `maracas generate`.
#[pyfunction]
pub(crate) fn generate(
    cores: usize,
    utilization: &str,
    tasks: Option<usize>,
    loads: &str,
    periods: &str,
    seed: u64,
    sporadic: bool,
    offsets: bool,
    exact: bool,
) -> PyResult<String> {
    let total: Rate = draw::utilization(utilization, cores)
        .map_err(|why| error(format!("utilization: {why}")))?;
    let (loads, periods) = (loads.parse().map_err(error)?, periods.parse().map_err(error)?);
    let recipe = Recipe { sporadic, offsets, exact, ..Recipe::new(total, tasks, loads, periods) };
    recipe.draw(seed).map(|set| set.to_string()).map_err(error)
}

/// What static mixes of memory requestors get, JSON to JSON (`maracas memory --json`).
#[pyfunction]
pub(crate) fn memory(py: Python<'_>, mixes_json: &str) -> PyResult<String> {
    let answer = py.detach(|| mixes::answer(mixes_json.as_bytes())).map_err(error)?;
    Ok(answer.to_string())
}

/// All policies with their parameters, as JSON.
#[pyfunction]
pub(crate) fn policies() -> String {
    let all = maracas_policies::all().map(|entry| {
        let params = entry.params.iter().map(|param| {
            json!({
                "name": param.name,
                "default": default_of(param.kind),
                "help": param.help,
            })
        });
        json!({
            "name": entry.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "parameters": params.collect::<Vec<_>>(),
        })
    });
    serde_json::Value::from(all.collect::<Vec<_>>()).to_string()
}

/// What [`reproduce`] knows, as JSON.
#[pyfunction]
pub(crate) fn experiments() -> String {
    let all = maracas_reproduce::experiments().map(maracas_reproduce::Experiment::to_json);
    serde_json::Value::from(all.collect::<Vec<_>>()).to_string()
}

/// What an experiment left: its name, its text, its findings as JSON, and its figures by file name.
type Reproduced = (String, String, String, Vec<(String, String)>);

/// Runs experiments of papers again (`maracas reproduce`), with the recorded costs of primitives.
#[pyfunction]
pub(crate) fn reproduce(
    py: Python<'_>,
    names: Vec<String>,
    seeds: Option<usize>,
    jobs: Option<usize>,
) -> PyResult<Vec<Reproduced>> {
    let chosen = maracas_reproduce::chosen(&names).map_err(error)?;
    let jobs = jobs.map_or_else(case::host_cores, Ok).map_err(raised)?;
    let lab = Lab::new(jobs, seeds, &|_, _| {});
    let mut all = Vec::new();
    for experiment in chosen {
        py.check_signals()?;
        let found = py.detach(|| (experiment.run)(&lab));
        let found = found.map_err(|why| error(format!("{}: {why}", experiment.name)))?;
        let figures = found.figures.iter();
        let figures = figures.map(|it| (it.file(experiment.name), it.svg())).collect();
        let text = found.markdown(experiment, None);
        let json = serde_json::to_string(&found).map_err(error)?;
        all.push((experiment.name.to_string(), text, json, figures));
    }
    Ok(all)
}

/// Holds a policy written in Python to the contract tests, on so many random systems of each kind:
/// by test, how many of them it admitted.
#[pyfunction]
pub(crate) fn check_policy(
    py: Python<'_>,
    entry: &Bound<'_, PyAny>,
    seeds: u64,
) -> PyResult<Vec<(&'static str, u64)>> {
    let policy = PythonPolicy::of(entry)?;
    let parts = maracas_tests::contract::PARTS.iter();
    let part = |part: &'static maracas_tests::contract::Part| {
        py.check_signals()?;
        let holds = || {
            let accepted = maracas_tests::contract::holds(policy.entry, part, seeds);
            accepted.map_err(ContractError::new_err)
        };
        Ok((part.name, with(py, Some(&policy), holds)?))
    };
    parts.map(part).collect()
}
