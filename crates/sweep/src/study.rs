//! What a sweep runs: points, task sets, contenders.

use crate::Error;
use crate::admission;
use crate::trial::{self, Charge, Subject};
use maracas_core::params::Value;
use maracas_core::{Duration, Instant, Overheads, PPB, Rate, Vcpu};
use maracas_scenario::generate::{self, Recipe};
use maracas_scenario::sweep::{Chosen, Count, MILLION, Sweep, Tasks};
use maracas_scenario::taskset::TaskSet;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// One place on the axes, with many task sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// Cores.
    pub cores: usize,
    /// The share of all cores that the tasks ask for, in millionths; `None` where sets come from
    /// files.
    pub utilization: Option<u32>,
    /// Tasks of each set; `None` where that is left to the draw or the file.
    pub tasks: Option<usize>,
}

/// A policy in the comparison.
#[derive(Clone)]
pub struct Contender {
    /// What it is called in results.
    pub label: String,
    /// The policy.
    pub subject: Subject,
    /// Its schedulability tests that are asked ([`admission::tests`]).
    pub tests: Vec<&'static str>,
}

/// Everything that a sweep runs. Items are numbered from 0: item i is set i / points of point
/// i % points, so that the first items already say something of every point.
#[derive(Clone)]
pub struct Study {
    /// The points: by cores, then tasks, then utilization, increasing.
    pub points: Vec<Point>,
    /// The policies, in the order of the file.
    pub contenders: Vec<Contender>,
    /// Whether the numbers of tasks were asked for by core.
    pub is_per_core: bool,
    /// Task sets for each point.
    pub sets: usize,
    /// What reading the files left out or took otherwise, a line for each with the files of which
    /// that is so.
    pub notes: Vec<String>,
    duration: Duration,
    seed: u64,
    margin: Duration,
    overheads: Overheads,
    source: Source,
}

#[derive(Clone)]
enum Source {
    Drawn(Recipe),
    /// Names and sets.
    Files(Vec<(String, TaskSet)>),
}

/// More runs are refused: their results take some 400 bytes each in the folder of the sweep.
const MOST_RUNS: usize = 10_000_000;

impl Study {
    /// Finds the policies, checks their parameters, and checks that sets can be drawn for every
    /// point, or reads them.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place in the file and the way out.
    pub fn of(sweep: &Sweep) -> Result<Self, Error> {
        let contenders = sweep.policies.iter().map(|chosen| contender(sweep, chosen));
        let contenders = contenders.collect::<Result<Vec<_>, _>>()?;
        let mut notes = Vec::new();
        let source = match &sweep.tasks {
            Tasks::Drawn { recipe, .. } => Source::Drawn(recipe.clone()),
            Tasks::Files(files) => {
                let mut read = |path: &std::path::PathBuf| {
                    let set = TaskSet::read(path).map_err(|error| Error(error.to_string()))?;
                    refuse_resources(&set, path)?;
                    set.notes.iter().for_each(|note| add(&mut notes, note, path));
                    Ok::<_, Error>((path.display().to_string(), set))
                };
                Source::Files(files.iter().map(&mut read).collect::<Result<_, _>>()?)
            }
        };
        let study = Self {
            points: points(sweep),
            contenders,
            is_per_core: sweep.is_per_core(),
            sets: sweep.sets,
            notes: notes.into_iter().map(noted).collect(),
            duration: sweep.duration,
            seed: sweep.seed,
            margin: sweep.margin,
            overheads: sweep.overheads,
            source,
        };
        for point in &study.points {
            if let Some(recipe) = study.recipe(point) {
                let reported = |why| sweep.at_tasks(format!("at {point}: {why}"));
                recipe.check().map_err(reported)?;
            }
        }
        let runs = study.items().saturating_mul(study.contenders.len());
        if runs > MOST_RUNS {
            let line =
                format!("{runs} runs are more than {MOST_RUNS}; lower `sets` or drop points");
            return Err(sweep.at_tasks(line).into());
        }
        Ok(study)
    }

    /// How many items there are: sets of all points.
    pub fn items(&self) -> usize {
        self.points.len() * self.sets
    }
    /// The point of an item.
    pub fn point(&self, item: usize) -> &Point {
        &self.points[item % self.points.len()]
    }
    /// Which set of its point an item is, from 0.
    pub fn set_number(&self, item: usize) -> usize {
        item / self.points.len()
    }
    /// The file of an item, where sets come from files.
    pub fn file(&self, item: usize) -> Option<&str> {
        match &self.source {
            Source::Files(files) => Some(&files[self.set_number(item)].0),
            Source::Drawn(_) => None,
        }
    }
    /// From what an item's set and its sporadic releases are drawn. It hangs on the sweep's seed,
    /// the point and the number of the set alone, not on what other points there are; 53 bits, so
    /// that tools that know floats only keep it.
    pub fn seed(&self, item: usize) -> u64 {
        let point = self.point(item);
        let utilization = point.utilization.map_or(0, u64::from);
        let parts = [point.cores as u64, utilization, point.tasks.unwrap_or(0) as u64];
        let parts = parts.into_iter().chain([self.set_number(item) as u64]);
        parts.fold(mixed(self.seed), |seed, part| mixed(seed ^ mixed(part))) >> 11
    }
    /// How the sets of a point are drawn, where they are.
    pub fn recipe(&self, point: &Point) -> Option<Recipe> {
        let Source::Drawn(recipe) = &self.source else { return None };
        let share = u64::from(point.utilization.unwrap_or(MILLION));
        let total = Rate::new(share * point.cores as u64, u64::from(MILLION));
        Some(Recipe { total, tasks: point.tasks, ..recipe.clone() })
    }
    /// The task set of an item.
    ///
    /// # Errors
    /// Where it cannot be drawn.
    pub fn set(&self, item: usize) -> Result<Cow<'_, TaskSet>, Error> {
        match &self.source {
            Source::Files(files) => Ok(Cow::Borrowed(&files[self.set_number(item)].1)),
            Source::Drawn(_) => {
                let (point, seed) = (self.point(item), self.seed(item));
                let reported = |why| Error(format!("at {point}, seed {seed}: {why}"));
                let recipe = self.recipe(point).ok_or_else(|| reported("no recipe".into()))?;
                recipe.draw(seed).map(Cow::Owned).map_err(reported)
            }
        }
    }
    /// How an item's set is run.
    pub fn charge(&self, item: usize) -> Charge {
        Charge {
            until: Instant::ZERO.saturating_add(self.duration),
            seed: self.seed(item),
            overheads: self.overheads,
            bound: self.margin,
        }
    }

    /// Whether runs are charged overheads or leave a margin, which a plain simulation does not.
    pub fn charges(&self) -> bool {
        self.overheads != Overheads::default() || self.margin != Duration::ZERO
    }

    /// Everything that results hang on, line by line: two sweeps with the same lines give the same
    /// results. Labels are not among it.
    pub fn meaning(&self) -> String {
        let mut text = String::new();
        let version = env!("CARGO_PKG_VERSION");
        let (counting, generator) = (trial::VERSION, generate::VERSION);
        let Self { sets, duration, seed, margin, .. } = self;
        // Writing into a string cannot fail.
        let _ = writeln!(text, "maracas {version}, counting {counting}, generator {generator}");
        let _ = writeln!(text, "sets {sets}, duration {duration}, seed {seed}, margin {margin}");
        match &self.source {
            Source::Drawn(recipe) => {
                let recipe = Recipe { total: Rate::ONE, tasks: None, ..recipe.clone() };
                let _ = writeln!(text, "tasks {recipe}");
            }
            Source::Files(files) => {
                for (name, set) in files {
                    let sum = checksum(format!("{:?}", set.tasks).as_bytes());
                    let _ = writeln!(text, "tasks {name} {sum:016x}");
                }
            }
        }
        let points = checksum(format!("{:?}", self.points).as_bytes());
        let axes = ["cores", "tasks", "utilization in millionths"].into_iter().zip([
            values(&self.points, |point| Some(point.cores)),
            values(&self.points, |point| point.tasks),
            values(&self.points, |point| point.utilization),
        ]);
        let axes: Vec<_> = axes.map(|(name, values)| format!("{name} {values}")).collect();
        let _ = writeln!(text, "{}; {} points {points:016x}", axes.join("; "), self.points.len());
        let _ = writeln!(text, "{}", format!("{:?}", self.overheads).replace("0ns", "0"));
        for Contender { subject, tests, .. } in &self.contenders {
            let _ = write!(text, "policy {}", subject.entry.name);
            for (name, value) in subject.params.iter() {
                let _ = write!(text, " {name}={value:?}");
            }
            if !tests.is_empty() {
                let _ = write!(text, " tests={}", tests.join(","));
            }
            text.push('\n');
        }
        text
    }

    /// How the sweep was run, in lines for a person: what [`Study::meaning`] says of it, without
    /// what only tells sweeps apart.
    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("maracas {}, seed {}\n", env!("CARGO_PKG_VERSION"), self.seed);
        let Self { sets, duration, margin, .. } = self;
        let _ = writeln!(text, "{sets} task sets a point, each simulated for {duration}");
        if let Source::Drawn(recipe) = &self.source {
            let recipe = Recipe { total: Rate::ONE, tasks: None, ..recipe.clone() }.to_string();
            let _ = writeln!(text, "tasks: {}", recipe.trim_start_matches("total=1 "));
        }
        if self.charges() {
            // `Overheads { lock: 1us, .. }`: what is not 0, as it is called in a scenario.
            let charged = format!("{:?}", self.overheads).replace(['{', '}', ','], "");
            let words: Vec<_> = charged.split_whitespace().skip(1).collect();
            let pairs = words.chunks(2).filter(|pair| pair.last() != Some(&"0ns"));
            let mut pairs: Vec<_> = pairs.map(|pair| pair.join(" ")).collect();
            pairs.push(format!("margin {margin}"));
            let _ = writeln!(text, "charged: {}", pairs.join(", "));
        }
        for Contender { label, subject, .. } in &self.contenders {
            let _ = write!(text, "policy {}", subject.entry.name);
            for (name, value) in subject.params.iter() {
                let _ = write!(text, " {name}={}", text_of(value));
            }
            if label != subject.entry.name {
                let _ = write!(text, " (as {label})");
            }
            text.push('\n');
        }
        text
    }
}

/// A parameter's value as it is given.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Whole(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// What points have on an axis, each once, in their order.
fn values<T: Ord + fmt::Display>(points: &[Point], of: fn(&Point) -> Option<T>) -> String {
    let values: std::collections::BTreeSet<T> = points.iter().filter_map(of).collect();
    let words: Vec<_> = values.iter().map(T::to_string).collect();
    if words.is_empty() { "-".into() } else { words.join(" ") }
}

/// The last step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads every bit over all.
const fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Finds what was torn or mistyped.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    maracas_core::fnv1a(0, bytes)
}

fn points(sweep: &Sweep) -> Vec<Point> {
    let Tasks::Drawn { utilization, count, .. } = &sweep.tasks else {
        let point = |cores| Point { cores, utilization: None, tasks: None };
        return sweep.cores.iter().copied().map(point).collect();
    };
    let mut points = Vec::new();
    for cores in sweep.cores.iter().copied() {
        let tasks = match count {
            Count::Open => vec![None],
            Count::Tasks(tasks) => tasks.iter().copied().map(Some).collect(),
            Count::PerCore(tasks) => tasks.iter().map(|tasks| Some(tasks * cores)).collect(),
        };
        for tasks in tasks {
            let point = |share: &u32| Point { cores, utilization: Some(*share), tasks };
            points.extend(utilization.iter().map(point));
        }
    }
    points
}

/// One note with the first file of which it is so, and how many more there are.
type Noted = (String, String, usize);

/// Takes down a note on a file; most files of a sweep have the same ones.
fn add(notes: &mut Vec<Noted>, note: &str, path: &std::path::Path) {
    match notes.iter_mut().find(|(known, ..)| known == note) {
        Some((.., more)) => *more += 1,
        None => notes.push((note.to_owned(), path.display().to_string(), 0)),
    }
}

fn noted((note, first, more): Noted) -> String {
    match more {
        0 => format!("{first}: {note}"),
        _ => format!("{first} and {more} more: {note}"),
    }
}

/// A sweep names no protocol by which tasks share resources.
fn refuse_resources(set: &TaskSet, path: &std::path::Path) -> Result<(), Error> {
    if set.resources.is_none() {
        return Ok(());
    }
    Err(Error(format!(
        "{}: its tasks share resources, which a sweep does not simulate; drop <resources>, or use \
         `maracas sim --taskset` with --locks",
        path.display()
    )))
}

fn contender(sweep: &Sweep, chosen: &Chosen) -> Result<Contender, Error> {
    let Some(entry) = maracas_policies::find(&chosen.name) else {
        let names = maracas_policies::all().map(|entry| entry.name);
        let hint = maracas_policies::hint(&chosen.name);
        return Err(sweep.unknown_policy(chosen, names, hint).into());
    };
    // Its every set would be refused, which is no answer to a question about schedulability.
    if entry.needs.classes > 0 {
        let (name, classes) = (entry.name, entry.needs.classes);
        let line = format!(
            "policy {name} works on cores of {classes} classes, and those of a sweep are all \
             equal; take another policy, or a scenario"
        );
        return Err(sweep.at_policy(chosen, line).into());
    }
    let params = chosen.params.clone();
    params
        .check(entry.params)
        .map_err(|(name, why)| sweep.at_param(chosen, &name, format!("`{name}` {why}")))?;
    // What a policy holds against the value of a parameter is bad input, not a refused set.
    for cores in &sweep.cores {
        let task = Vcpu::new(0, Duration::from_millis(1), Duration::from_secs(1)).periodic();
        let mut system = maracas_core::System::new(*cores, vec![task]);
        entry.add_service_vcpus(&mut system, &params);
        for objection in (entry.admit)(&system, &params).objections {
            if let Some(parameter) = objection.parameter {
                return Err(sweep.at_param(chosen, parameter, objection.to_string()).into());
            }
        }
    }
    let subject = Subject { entry, params };
    let tests = admission::tests(&subject).filter(|_| sweep.tests).collect();
    Ok(Contender { label: chosen.label.clone(), subject, tests })
}

/// The utilization of a set, all tasks together, in parts per billion of one core, each task's
/// rounded down.
pub fn load_ppb(set: &TaskSet) -> u64 {
    let load = |task: &Vcpu| {
        let utilization = task.reservation.utilization();
        (u128::from(utilization.num()) * u128::from(PPB) / u128::from(utilization.den())) as u64
    };
    set.tasks.iter().map(load).sum()
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        write!(f, "{} core{}", self.cores, plural(self.cores))?;
        if let Some(tasks) = self.tasks {
            write!(f, ", {tasks} task{}", plural(tasks))?;
        }
        if let Some(share) = self.utilization {
            write!(f, ", utilization {}", f64::from(share) / f64::from(MILLION))?;
        }
        Ok(())
    }
}
