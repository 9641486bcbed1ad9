//! The two steps of the study: a bound per job from one half of the sets, then the evaluation on
//! the other half with the measured costs charged (the slides' pages on the empirical bound and on
//! overall per-job overhead).

mod structure;
#[cfg(test)]
mod tests;
mod verdicts;

use super::charged::{Run, charged};
use super::costs::Costs;
use super::regression::Regression;
use super::{HARMONIC, UNIFORM, recipe, subjects, with_interval};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab};
use maracas_core::{Duration, Instant};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject};
use structure::{Structured, by_structure, each_table, structure_table};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-evaluation",
    title: "a bound per job from one half of the sets, evaluated on the other",
    summary: "Sets of light, medium, heavy and mixed tasks on 16 cores with loads of 50 to 100 %, \
              harmonic periods and others, simulated with the measured cost of every release, \
              decision, context switch and migration charged to the job that runs. What a job is \
              charged beyond its own work is its overhead. The bound of a policy and a kind of \
              tasks is the most that any job of the first half of the sets was charged, with jobs \
              shortened by that bound; more where sets miss all the same in which no job is \
              shorter than the bound. The second half, which the bounds never saw, then runs with \
              jobs shortened by them. RUN and QPS are bounded by structure as well, which takes \
              nothing from any run: a job makes room for its release and for as many decisions \
              (with the tree's update), switches and migrations as the tree or the hierarchy of \
              its set allows a job on average (algorithms.md A.1 and B.6); and in another run each \
              job for all that can happen in its part of the structure while it is there. The \
              sets of both halves are held against that.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, slides \"Primitive overheads and \
             empirical bound\" and \"Overall per-job overhead\"; curves without numbers",
    kind: Kind::Predicts,
    free: "context switch 1.6 us and migration 4.4 us, as measured live with two system calls a \
           dispatch; caches that a migrated task finds cold are not charged",
    fitted: "",
    run,
};

/// Cores of the paper's machine.
const CORES: usize = 16;
/// Loads in percent of all cores.
const LOADS: [u64; 6] = [50, 60, 70, 80, 90, 100];
/// Kinds of tasks (the scripts' distributions; algorithms.md B.7).
const CLASSES: [&str; 4] = ["light", "medium", "heavy", "mixed"];
const POLICIES: [&str; 4] = ["p-edf", "g-edf", "run", "qps"];
const QPS: usize = 3;
const RUN: usize = 2;
/// Sets of each class, load and kind of periods in each half.
const SETS: usize = 11;
/// Simulated time: two hyperperiods of the harmonic sets.
const UNTIL: Duration = Duration::from_millis(400);
/// Taking up another VCPU: two changes of rank by the per-core agent (docs/results.md).
pub(crate) const CONTEXT_SWITCH: Duration = Duration::from_nanos(1_600);
/// The same on another core: until the first instruction there.
pub(crate) const MIGRATION: Duration = Duration::from_nanos(4_400);
/// How often a bound is raised at most until the first half keeps it, and how often a lower one is
/// then looked for.
const RAISES: usize = 6;

/// One set, and which class, load and periods it is of.
struct Draw {
    class: usize,
    load: u64,
    periods: &'static str,
    set: TaskSet,
}

/// Half of the sets. Seeds of the two are even and odd.
fn draws(odd: u64, sets: u64) -> Result<Vec<Draw>, Error> {
    let mut draws: Vec<Draw> = Vec::new();
    for (class, word) in CLASSES.iter().enumerate() {
        for load in LOADS {
            for periods in [HARMONIC, UNIFORM] {
                let mut recipe = recipe(CORES, load, None, word, periods)?;
                recipe.exact = true;
                for _ in 0..sets {
                    // Sets of one seed share utilizations, whatever their load and periods.
                    let set = recipe.draw(2 * draws.len() as u64 + odd).map_err(Error)?;
                    draws.push(Draw { class, load, periods, set });
                }
            }
        }
    }
    Ok(draws)
}

/// Which of the measured costs is charged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The 99.9th percentile, for every step: what the bound is made of.
    Most,
    /// The mean: what jobs are charged on average.
    Mean,
}

/// What the policy is charged on such a set.
fn costs_of(
    costs: &Costs,
    subject: &Subject,
    draw: &Draw,
    level: Level,
) -> Result<Overheads, Error> {
    let at = (CORES as u64, draw.set.tasks.len() as u64, draw.load);
    let name = subject.entry.name;
    let cost = |primitive: &str| -> Result<Duration, Error> {
        let near = costs.near(name, primitive, at);
        let missing = || Error(format!("there are no costs of `{primitive}` of {name}"));
        let line = near.ok_or_else(missing)?;
        let cost = if level == Level::Most { line.p999 } else { line.mean };
        Ok(Duration::from_nanos(cost as u64))
    };
    Ok(Overheads {
        context_switch: CONTEXT_SWITCH,
        migration: MIGRATION,
        decision: cost("schedule")?,
        release: cost("release")?,
        ..Overheads::FREE
    })
}

/// A set under a policy with jobs shortened by `bound`; `None` where it is not admitted.
fn one(
    costs: &Costs,
    subject: &Subject,
    draw: &Draw,
    level: Level,
    bound: Duration,
) -> Result<Option<Run>, Error> {
    let overheads = costs_of(costs, subject, draw, level)?;
    let charge = Charge { until: Instant::ZERO + UNTIL, seed: 0, overheads, bound };
    Ok(charged(&draw.set, CORES, subject, &charge))
}

/// Whether the policy keeps every deadline of the set where nothing is charged.
fn feasible(subject: &Subject, draw: &Draw) -> bool {
    let charge = super::free_until(UNTIL.ticks() / 1_000_000);
    super::all_met(&maracas_sweep::trial::run(&draw.set, CORES, subject, &charge))
}

/// The bound of a policy and a class, and how it came about.
#[derive(Clone, Copy, Default)]
struct Bound {
    bound: Duration,
    /// Sets of the first half that the policy can schedule at all.
    sets: usize,
    /// Those that miss with the bound.
    missed: usize,
}

/// What sets of the first half came to with a bound.
struct Attempt {
    bound: Duration,
    /// The most that a job was charged.
    most: Duration,
    missed: usize,
    /// Sets that miss though all their jobs are longer than the bound.
    unexplained: usize,
}

impl Attempt {
    const fn holds(&self) -> bool {
        self.most.ticks() <= self.bound.ticks() && self.unexplained == 0
    }
    /// The bound to try next. Where every job's own overhead is covered and a set misses all the
    /// same, some of it fell on a core before the job came there: a quarter more.
    fn raised(&self) -> Duration {
        let more = self.bound + Duration::from_ticks(self.bound.ticks() / 4);
        if self.most > self.bound { self.most } else { more }
    }
}

/// Whether a set has a job that cannot be shortened by the bound.
fn has_short_job(draw: &Draw, bound: Duration) -> bool {
    draw.set.tasks.iter().any(|task| task.reservation.budget <= bound)
}

/// The bound from `draws` of one class: the most that a job is charged with jobs shortened by it.
fn bound(lab: &Lab<'_>, costs: &Costs, subject: &Subject, draws: &[&Draw]) -> Result<Bound, Error> {
    let keep = lab.map(draws, |draw| feasible(subject, draw));
    let draws: Vec<&Draw> =
        draws.iter().zip(keep).filter(|(_, keep)| *keep).map(|(draw, _)| *draw).collect();
    let attempt = |bound: Duration| -> Result<Attempt, Error> {
        let runs = lab.map(&draws, |draw| one(costs, subject, draw, Level::Most, bound));
        let mut own = Attempt { bound, most: Duration::ZERO, missed: 0, unexplained: 0 };
        for (draw, run) in draws.iter().zip(runs) {
            let Some(run) = run? else { continue };
            let missed = run.missed > 0;
            own.most = own.most.max(run.largest);
            own.missed += usize::from(missed);
            own.unexplained += usize::from(missed && !has_short_job(draw, bound));
        }
        Ok(own)
    };
    let raised_from = |bound: Duration| {
        let mut found = attempt(bound)?;
        for _ in 0..RAISES {
            if found.holds() {
                break;
            }
            found = attempt(found.raised())?;
        }
        Ok::<Attempt, Error>(found)
    };
    // Where nothing is set aside for overhead, jobs are late, and late jobs are preempted more
    // often than jobs that are in time. So what a bound from there leads to is tried as well.
    let mut best = raised_from(Duration::ZERO)?;
    for _ in 0..RAISES {
        let lower = raised_from(best.most)?;
        if !lower.holds() || lower.bound >= best.bound {
            break;
        }
        best = lower;
    }
    Ok(Bound { bound: best.bound, sets: draws.len(), missed: best.missed })
}

/// One set of the second half with the bound of its class.
struct Evaluated {
    class: usize,
    load: u64,
    periods: &'static str,
    /// Whether it has a job shorter than the bound, and whether one was charged more than it.
    short: bool,
    exceeded: bool,
    /// Charged as the sets that gave the bound were.
    most: Run,
    /// Charged mean costs.
    run: Run,
}

/// All that was found of one policy.
struct Policy {
    bounds: Vec<Bound>,
    evaluated: Vec<Evaluated>,
    /// Sets of both halves, as nothing is taken from either; none for a policy without structure.
    structured: Vec<Structured>,
}

fn study(
    lab: &Lab<'_>,
    costs: &Costs,
    subject: &Subject,
    halves: &[Vec<Draw>; 2],
) -> Result<Policy, Error> {
    let mut bounds = Vec::new();
    for class in 0..CLASSES.len() {
        let own: Vec<&Draw> = halves[0].iter().filter(|draw| draw.class == class).collect();
        bounds.push(bound(lab, costs, subject, &own)?);
    }
    let second: Vec<&Draw> = halves[1].iter().collect();
    let keep = lab.map(&second, |draw| feasible(subject, draw));
    let second: Vec<&Draw> =
        second.into_iter().zip(keep).filter(|(_, keep)| *keep).map(|(draw, _)| draw).collect();
    let at =
        |level| lab.map(&second, |draw| one(costs, subject, draw, level, bounds[draw.class].bound));
    let (most, mean) = (at(Level::Most), at(Level::Mean));
    let mut evaluated = Vec::new();
    for (draw, (most, run)) in second.iter().zip(most.into_iter().zip(mean)) {
        if let Some((most, run)) = most?.zip(run?) {
            let Draw { class, load, periods, .. } = **draw;
            let short = has_short_job(draw, bounds[class].bound);
            let exceeded = most.largest > bounds[class].bound;
            evaluated.push(Evaluated { class, load, periods, short, exceeded, most, run });
        }
    }
    let structured = by_structure(lab, costs, subject, halves)?;
    Ok(Policy { bounds, evaluated, structured })
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let costs = lab.costs()?;
    let sets = lab.seeds(SETS) as u64;
    let halves = [draws(0, sets)?, draws(1, sets)?];
    let mut policies = Vec::new();
    for subject in subjects(&POLICIES)? {
        policies.push(study(lab, &costs, &subject, &halves)?);
    }
    let slopes = [RUN, QPS].map(|policy| Slopes::of(&policies[policy]));
    let mut tables =
        vec![bound_table(&policies), structure_table(&policies), each_table(&policies)];
    tables.extend((0..CLASSES.len()).map(|class| overhead_table(&policies, class)));
    tables.push(depth_table(&policies, &slopes));
    Ok(Findings {
        notes: vec![format!(
            "{} sets, half of them for the bound. A set is a policy's own where it misses nothing \
             with nothing charged. For the bound, and for whether it holds, every release and \
             every decision is charged at the 99.9th percentile of the warm costs; overheads per \
             job are those with mean costs. A decision is charged to the core where it was called \
             for, that of a timer to core 0. Slopes over depth are by least squares, with HC3 \
             intervals; sets alike are of the same class, load and kind of periods. Costs: {}",
            halves[0].len() + halves[1].len(),
            costs.said()
        )],
        tables,
        figures: (0..CLASSES.len()).map(|class| figure(&policies, class)).collect(),
        verdicts: verdicts::verdicts(&policies, &slopes),
    })
}

fn bound_table(policies: &[Policy]) -> Table {
    let columns = [
        "policy",
        "tasks",
        "sets for the bound",
        "with a miss",
        "bound (us per job)",
        "sets evaluated",
        "of these with a miss",
        "largest overhead of a job (us)",
    ];
    let mut table = Table::new("bound", "The bound and what came of it", &columns);
    let us = |time: Duration| Cell::Number(time.ticks() as f64 / 1e3, 1);
    for (name, policy) in POLICIES.iter().zip(policies) {
        for (class, word) in CLASSES.iter().enumerate() {
            let own = policy.evaluated.iter().filter(|it| it.class == class);
            let own: Vec<&Run> = own.map(|it| &it.most).collect();
            table.row(vec![
                Cell::text(*name),
                Cell::text(*word),
                Cell::Number(policy.bounds[class].sets as f64, 0),
                Cell::Number(policy.bounds[class].missed as f64, 0),
                us(policy.bounds[class].bound),
                Cell::Number(own.len() as f64, 0),
                Cell::Number(own.iter().filter(|run| run.missed > 0).count() as f64, 0),
                us(own.iter().map(|run| run.largest).max().unwrap_or_default()),
            ]);
        }
    }
    table
}

impl Policy {
    /// The evaluated sets of a class, of one load or of all.
    fn of(&self, class: usize, load: Option<u64>) -> impl Iterator<Item = &Run> {
        let wanted = move |it: &&Evaluated| it.class == class && load.is_none_or(|l| l == it.load);
        self.evaluated.iter().filter(wanted).map(|it| &it.run)
    }
    /// Mean overhead of a job in microseconds, over sets.
    fn overhead(&self, class: usize, load: u64) -> Option<Mean> {
        let values: Vec<f64> = self.of(class, Some(load)).map(Run::mean_us).collect();
        (!values.is_empty()).then(|| Mean::of(&values))
    }
}

fn overhead_table(policies: &[Policy], class: usize) -> Table {
    let mut columns = vec!["U (%)"];
    columns.extend(POLICIES);
    columns.extend(["RUN's reductions", "QPS's levels"]);
    let word = CLASSES[class];
    let title = format!("Overhead per job (us), {word} tasks; mean depth of tree and hierarchy");
    let mut table = Table::new(word, &title, &columns);
    for load in LOADS {
        let mut cells = vec![Cell::Number(load as f64, 0)];
        for policy in policies {
            let mean = policy.overhead(class, load);
            cells.push(mean.map_or(Cell::Missing, |it| Cell::Text(with_interval(&it, 2))));
        }
        for policy in [RUN, QPS] {
            let depths: Vec<f64> =
                policies[policy].of(class, Some(load)).map(|run| run.depth as f64).collect();
            let mean = Mean::of(&depths).mean;
            cells.push(if depths.is_empty() { Cell::Missing } else { Cell::Number(mean, 2) });
        }
        table.row(cells);
    }
    table
}

/// Of the overhead per job over depth: all evaluated sets of one policy together, and among sets of
/// the same class, load and kind of periods.
#[derive(Clone, Copy)]
struct Slopes {
    all: Option<Regression>,
    alike: Option<Regression>,
}

impl Slopes {
    fn of(policy: &Policy) -> Self {
        let point = |it: &Evaluated| (it.run.depth as f64, it.run.mean_us());
        let kind = |it: &Evaluated| (it.class, it.load, it.periods);
        let (mut all, mut alike) = (Vec::new(), Vec::new());
        // Draws of one kind follow each other.
        for own in policy.evaluated.chunk_by(|a, b| kind(a) == kind(b)) {
            let own: Vec<(f64, f64)> = own.iter().map(point).collect();
            let sum = own.iter().fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            let (x, y) = (sum.0 / own.len() as f64, sum.1 / own.len() as f64);
            alike.extend(own.iter().map(|it| (it.0 - x, it.1 - y)));
            all.extend(own);
        }
        Self { all: Regression::of(&all), alike: Regression::of(&alike) }
    }
}

/// A slope with its interval.
fn with_error(slope: &Regression) -> String {
    format!("{} +- {}", number(slope.slope, 2), number(slope.half_width, 2))
}

fn depth_table(policies: &[Policy], slopes: &[Slopes; 2]) -> Table {
    let columns = [
        "policy",
        "depth",
        "sets",
        "overhead per job (us)",
        "slope (us per level)",
        "slope among sets alike",
    ];
    let mut table = Table::new("depth", "Overhead per job by depth", &columns);
    for (policy, slope) in [RUN, QPS].into_iter().zip(slopes) {
        let all = || policies[policy].evaluated.iter().map(|it| &it.run);
        let deepest = all().map(|run| run.depth).max().unwrap_or(0);
        for depth in 0..=deepest {
            let own: Vec<f64> = all().filter(|it| it.depth == depth).map(Run::mean_us).collect();
            if own.is_empty() {
                continue;
            }
            let cell = |slope: Option<Regression>| {
                let slope = slope.filter(|_| depth == 0);
                slope.map_or(Cell::Missing, |it| Cell::Text(with_error(&it)))
            };
            table.row(vec![
                Cell::text(POLICIES[policy]),
                Cell::Number(depth as f64, 0),
                Cell::Number(own.len() as f64, 0),
                Cell::Text(with_interval(&Mean::of(&own), 2)),
                cell(slope.all),
                cell(slope.alike),
            ]);
        }
    }
    table
}

fn figure(policies: &[Policy], class: usize) -> Figure {
    let line = |(name, policy): (&&str, &Policy)| {
        let point = |load: u64| Some((load as f64, policy.overhead(class, load)?.mean));
        Line::new(*name, LOADS.into_iter().filter_map(point).collect())
    };
    Figure {
        name: CLASSES[class].into(),
        title: format!("Overhead per job, {} tasks", CLASSES[class]),
        drawing: Drawing::Lines {
            along: "load (% of 16 cores)".into(),
            logarithmic: false,
            share: false,
            left: "overhead per job (us)".into(),
            right: None,
            lines: POLICIES.iter().zip(policies).map(line).collect(),
        },
    }
}
