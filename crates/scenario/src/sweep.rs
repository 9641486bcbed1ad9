//! Sweep files: which task sets are run under which policies.
//!
//! The reference for users is `docs/sweep.md`. What the policies' words and parameters mean is said
//! by callers.

use crate::cursor::{Field, Table};
use crate::error::{Error, Location, Source, did_you_mean, quoted, read_text};
use crate::generate::{Loads, MAX_TASKS, Periods, Recipe};
use crate::keys::{self, Keys, closed};
use crate::read;
use maracas_core::params::Params;
use maracas_core::{Duration, MAX_CORES, Overheads, Rate};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::de::DeValue;

/// The top of the file.
pub static ROOT: Keys = closed("the sweep", &["sweep", "tasks", "overheads", "policy"]);
/// `[sweep]`
pub static SWEEP: Keys =
    closed("[sweep]", &["cores", "utilization", "sets", "duration", "seed", "margin", "tests"]);
/// `[tasks]`
pub static TASKS: Keys = closed(
    "[tasks]",
    &[
        "count",
        "per_core",
        "loads",
        "exact",
        "periods",
        "hyperperiod",
        "grain",
        "sporadic",
        "offsets",
        "files",
    ],
);
/// `utilization` as a table.
pub static STEPS: Keys = closed("`utilization`", &["from", "to", "step"]);
/// `[[policy]]`: every other key is a parameter of the policy.
pub static POLICY: Keys = Keys { table: "[[policy]]", keys: &["name", "label"], open: true };

/// The most sets for one point: a byte of each is held in memory.
const MOST_SETS: u64 = 1_000_000;
/// The longest run: a day. Sums of it over all jobs stay within 64 bits.
const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);
/// The dearest overhead. What is charged adds up over all decisions and stays within 64 bits.
const DEAREST: Duration = Duration::from_secs(1);
/// A share of all cores in these parts.
pub const MILLION: u32 = 1_000_000;

/// A sweep as written.
#[derive(Clone, PartialEq, Debug)]
pub struct Sweep {
    /// The file as the user named it.
    pub file: String,
    /// Numbers of cores, increasing.
    pub cores: Vec<usize>,
    /// Task sets for each point.
    pub sets: usize,
    /// How long each set is scheduled.
    pub duration: Duration,
    /// What all sets and their sporadic releases are drawn from.
    pub seed: u64,
    /// What each job asks for less than its budget, so that charged overheads fit.
    pub margin: Duration,
    /// Whether every schedulability test of each policy is asked.
    pub tests: bool,
    /// Where the sets come from.
    pub tasks: Tasks,
    /// What is charged.
    pub overheads: Overheads,
    /// The policies, in the order of the file.
    pub policies: Vec<Chosen>,
    /// Where `[tasks]` begins.
    tasks_at: Location,
}

/// Where the task sets come from.
#[derive(Clone, PartialEq, Debug)]
pub enum Tasks {
    /// They are drawn at random.
    Drawn {
        /// Shares of all cores in millionths, increasing.
        utilization: Vec<u32>,
        /// How many tasks.
        count: Count,
        /// How they are drawn; its total and number of tasks are those of each point.
        recipe: Recipe,
    },
    /// Each of these files is one.
    Files(Vec<PathBuf>),
}

/// How many tasks a set has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Count {
    /// As many as the total holds.
    Open,
    /// So many, increasing.
    Tasks(Vec<usize>),
    /// So many for each core, increasing.
    PerCore(Vec<usize>),
}

/// A policy with its parameters.
#[derive(Clone, PartialEq, Debug)]
pub struct Chosen {
    /// The policy's word.
    pub name: String,
    /// What it is called in results; its name where the file says nothing.
    pub label: String,
    /// Its parameters as written.
    pub params: Params,
    at: Location,
    params_at: BTreeMap<String, Location>,
}

impl Sweep {
    /// Whether the numbers of tasks were asked for by core.
    pub fn is_per_core(&self) -> bool {
        matches!(&self.tasks, Tasks::Drawn { count: Count::PerCore(_), .. })
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where the file cannot be read or says something wrong; the first error in it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&read_text(path)?, &path.display().to_string(), folder)
    }

    /// Reads and checks a text; `file` is its name in errors, `folder` the one in which it looks
    /// for task sets.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the way out.
    pub fn parse(text: &str, file: &str, folder: &Path) -> Result<Self, Error> {
        let source = Source::new(file, text);
        let document = read::document(&source)?;
        let root = Table::new(&source, document.get_ref(), 0, &ROOT)?;
        let sweep = root.table("sweep", &SWEEP)?.ok_or_else(|| {
            root.error("the sweep has no [sweep]; add one with cores, utilization and sets")
        })?;
        let table = root.table("tasks", &TASKS)?.ok_or_else(|| {
            root.error("the sweep has no [tasks]; add one with count, loads and periods, or files")
        })?;
        let tasks = tasks(&sweep, &table, folder)?;
        let duration = sweep.need("duration", "\"10s\"")?;
        Ok(Self {
            file: file.into(),
            cores: wholes(sweep.need("cores", "[4, 8]")?, MAX_CORES)?,
            sets: match &tasks {
                Tasks::Files(files) => files.len(),
                Tasks::Drawn { .. } => sweep.need("sets", "100")?.whole(1..=MOST_SETS)? as usize,
            },
            duration: at_most(duration, duration.positive()?, LONGEST_RUN)?,
            seed: match sweep.get("seed") {
                // TOML's integers end there.
                Some(field) => field.whole(0..=i64::MAX as u64)?,
                None => 1,
            },
            margin: match sweep.get("margin") {
                Some(field) => at_most(field, field.duration()?, DEAREST)?,
                None => Duration::ZERO,
            },
            tests: sweep.get("tests").map_or(Ok(true), |field| field.flag())?,
            tasks,
            overheads: overheads(&root)?,
            policies: policies(&root)?,
            tasks_at: source.location(table.at()),
        })
    }

    /// The word of a policy is none of `known`; `hint` says what may have been meant where that is
    /// no misspelling.
    pub fn unknown_policy<'k>(
        &self,
        policy: &Chosen,
        known: impl IntoIterator<Item = &'k str>,
        hint: Option<&str>,
    ) -> Error {
        let near = || did_you_mean(&policy.name, known, "policies");
        let hint = hint.map_or_else(near, str::to_owned);
        self.at_policy(policy, format!("unknown policy {}; {hint}", quoted(&policy.name)))
    }
    /// An error about the word of a policy.
    pub fn at_policy(&self, policy: &Chosen, message: impl Into<String>) -> Error {
        Error::new(&self.file, policy.at, message)
    }
    /// An error about a parameter of a policy.
    pub fn at_param(&self, policy: &Chosen, param: &str, message: impl Into<String>) -> Error {
        let at = policy.params_at.get(param).copied().unwrap_or(policy.at);
        Error::new(&self.file, at, message)
    }
    /// An error about how tasks are drawn.
    pub fn at_tasks(&self, message: impl Into<String>) -> Error {
        Error::new(&self.file, self.tasks_at, message)
    }
}

fn tasks(sweep: &Table<'_>, table: &Table<'_>, folder: &Path) -> Result<Tasks, Error> {
    let Some(field) = table.get("files") else { return drawn(sweep, table) };
    let others = table.fields().into_iter().find(|other| other.key != "files");
    let of_drawn = ["utilization", "sets"].into_iter().find_map(|key| sweep.get(key));
    if let Some(other) = others.or(of_drawn) {
        let line = format!("`{}` is for sets that are drawn; drop it, or `files`", other.key);
        return Err(other.key_error(line));
    }
    let patterns = match field.value() {
        DeValue::Array(_) => field.elements("a list of files")?,
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => vec![field],
    };
    let mut files = Vec::new();
    for pattern in patterns {
        let text = pattern.text("\"sets/*.csv\"")?;
        let found = matching(folder, text).map_err(|why| {
            pattern.error(format!("`files` {} {why}; check the path", quoted(text)))
        })?;
        files.extend(found.into_iter().filter(|file| !files.contains(file)).collect::<Vec<_>>());
    }
    if files.is_empty() {
        return Err(field.error("`files` is an empty list; name a task set, such as \"a.csv\""));
    }
    Ok(Tasks::Files(files))
}

/// The files that `pattern` names, sorted: one, or with stars in the last part all that match.
fn matching(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = folder.join(pattern);
    let name = path.file_name().ok_or("names no file")?.to_string_lossy().into_owned();
    if !name.contains('*') {
        return if path.is_file() { Ok(vec![path]) } else { Err("is no file".into()) };
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(parent).map_err(|_| "is in no folder that can be read")?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .filter(|entry| matches_stars(&name, &entry.file_name().to_string_lossy()))
        .map(|entry| path.with_file_name(entry.file_name()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    if files.is_empty() { Err("matches no file".into()) } else { Ok(files) }
}

/// Whether `name` is `pattern` with something, or nothing, for each star. As in a shell, a hidden
/// file matches only where the pattern begins with a dot too.
fn matches_stars(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else { return pattern == name };
    let Some(rest) = name.strip_prefix(first) else { return false };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    parts.all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn drawn(sweep: &Table<'_>, table: &Table<'_>) -> Result<Tasks, Error> {
    let utilization = shares(sweep.need("utilization", "[0.5, 0.75, 1.0]")?)?;
    let count = match (table.get("count"), table.get("per_core")) {
        (Some(_), Some(field)) => {
            return Err(field.key_error("`count` and `per_core` say the same; drop one of them"));
        }
        (Some(field), None) => Count::Tasks(wholes(field, MAX_TASKS)?),
        (None, Some(field)) => Count::PerCore(wholes(field, MAX_TASKS)?),
        (None, None) => Count::Open,
    };
    let loads: Loads = words(table.need("loads", "\"uunifast\"")?, "\"uunifast\"")?;
    let periods: Periods = words(table.need("periods", "\"harmonic\"")?, "\"harmonic\"")?;
    let mut recipe = Recipe::new(Rate::ONE, None, loads, periods);
    let flag = |key| table.get(key).map_or(Ok(false), |field| field.flag());
    recipe.exact = flag("exact")?;
    recipe.sporadic = flag("sporadic")?;
    recipe.offsets = flag("offsets")?;
    recipe.hyperperiod = table.get("hyperperiod").map(|field| field.positive()).transpose()?;
    if let Some(field) = table.get("grain") {
        recipe.grain = field.positive()?;
    }
    Ok(Tasks::Drawn { utilization, count, recipe })
}

/// What the generators read from compact words.
fn words<T: FromStr<Err = String>>(field: Field<'_>, example: &str) -> Result<T, Error> {
    let text = field.text(example)?;
    text.parse().map_err(|why| field.error(format!("`{}` {}: {why}", field.key, quoted(text))))
}

/// One whole number from 1 to `most`, or several; sorted.
fn wholes(field: Field<'_>, most: usize) -> Result<Vec<usize>, Error> {
    let range = 1..=most as u64;
    let one = |field: &Field<'_>| field.whole(range.clone()).map(|number| number as usize);
    let numbers = match field.value() {
        DeValue::Array(_) => field.elements("")?.iter().map(one).collect::<Result<_, _>>()?,
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Table(_) => vec![one(&field)?],
    };
    sorted(field, numbers)
}

/// Shares of all cores in millionths: one, several, or from one to another in steps; sorted.
fn shares(field: Field<'_>) -> Result<Vec<u32>, Error> {
    let positive = |field: &Field<'_>| match field.millionths()? {
        0 => Err(field.error(format!("`{}` must be above zero, such as 0.5", field.key))),
        share => Ok(share),
    };
    let numbers = match field.value() {
        DeValue::Array(_) => field.elements("")?.iter().map(positive).collect::<Result<_, _>>()?,
        DeValue::Table(_) => {
            let table = field.table(&STEPS)?;
            let part = |key, example| positive(&table.need(key, example)?);
            let (from, to) = (part("from", "0.5")?, part("to", "1.0")?);
            let step = part("step", "0.05")?;
            if from > to {
                return Err(field.error("`from` lies above `to`; let them change places"));
            }
            (from..=to).step_by(step as usize).collect()
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => vec![positive(&field)?],
    };
    sorted(field, numbers)
}

/// How many values one axis may have.
const MOST_VALUES: usize = 1_000;

fn sorted<T: Ord>(field: Field<'_>, mut numbers: Vec<T>) -> Result<Vec<T>, Error> {
    numbers.sort_unstable();
    let key = field.key;
    if numbers.is_empty() {
        return Err(field.error(format!("`{key}` is an empty list; give it a value")));
    }
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(field.error(format!("`{key}` holds a value twice; drop one of them")));
    }
    if numbers.len() > MOST_VALUES {
        let count = numbers.len();
        let line = format!("`{key}` has {count} values; at most {MOST_VALUES} may be");
        return Err(field.error(line));
    }
    Ok(numbers)
}

fn at_most(field: Field<'_>, value: Duration, most: Duration) -> Result<Duration, Error> {
    if value > most {
        let line = format!("{} {value} is longer than {most}; shorten it", field.key);
        return Err(field.error(line));
    }
    Ok(value)
}

fn overheads(root: &Table<'_>) -> Result<Overheads, Error> {
    if let Some(table) = root.table("overheads", &keys::OVERHEADS)? {
        for field in table.fields() {
            at_most(field, field.duration()?, DEAREST)?;
        }
    }
    read::overheads(root)
}

fn policies(root: &Table<'_>) -> Result<Vec<Chosen>, Error> {
    let mut policies: Vec<Chosen> = Vec::new();
    for table in root.tables("policy", &POLICY)? {
        let name = table.need("name", "\"g-edf\"")?;
        let label = table.get("label");
        let mut policy = Chosen {
            name: name.text("\"g-edf\"")?.into(),
            label: label.unwrap_or(name).text("\"RUN, worst fit\"")?.into(),
            params: Params::new(),
            at: root.source.location(name.at()),
            params_at: BTreeMap::new(),
        };
        let at = label.unwrap_or(name);
        let shown = quoted(&policy.label);
        if policy.label.trim().is_empty() || policy.label.contains(char::is_control) {
            return Err(at.error(format!("the label {shown} cannot be shown; write another")));
        }
        if policies.iter().any(|other| other.label == policy.label) {
            let line = format!("two policies are called {shown}; give one another `label`");
            return Err(at.error(line));
        }
        for field in table.fields().into_iter().filter(|field| !POLICY.keys.contains(&field.key)) {
            policy.params.set(field.key, read::param(&field)?);
            policy.params_at.insert(field.key.into(), root.source.location(field.at()));
        }
        policies.push(policy);
    }
    if policies.is_empty() {
        let line = "the sweep has no policies; add [[policy]] with name = \"g-edf\"";
        return Err(root.error(line));
    }
    Ok(policies)
}

#[cfg(test)]
mod tests;
