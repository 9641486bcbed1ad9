//! Preemptions and migrations per job, policy by policy, on the same sets (algorithms.md B.7).

use super::{
    GRAIN, HARMONIC, all_met, free_until, per_job, recipe, subjects, trials, with_interval,
};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::Mean;
use crate::{Error, Experiment, Kind, Lab};
use maracas_core::{CoreId, Duration, Vcpu, VcpuId};
use maracas_scenario::taskset::TaskSet;
use maracas_sweep::Tally;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecrts15-shape",
    title: "preemptions and migrations per job",
    summary: "Random sets of four tasks a core under every policy, 200 sets a line, each for ten \
              hyperperiods; preemptions (migrations included) and migrations for each job, means \
              over the sets that a policy admits with 95 % intervals.",
    source: "Compagnin, Mezzetti and Vardanega, ECRTS 2015, slides on per-job interference; \
             Regnier et al., RTSS 2011, and Massa et al., ECRTS 2014, on few preemptions; no \
             numbers are printed",
    kind: Kind::Predicts,
    free: "none",
    fitted: "",
    run,
};

/// Task sets on each line.
const SETS: usize = 200;

/// `run` packs by worst fit, as P-EDF does, `run/ffd` by first fit, as QPS does.
const POLICIES: [&str; 7] = ["p-edf", "g-edf", "qps", "run", "run/ffd", "u-edf", "dp-wrap"];

/// The periods that divide 120 ms.
const CLOSE: &str = "list:8ms,10ms,12ms,15ms,20ms,24ms,30ms,40ms";

/// G of sets whose utilizations are whole percents.
const PERCENTS: Duration = Duration::from_nanos(100);

/// Kinds of sets: what they are called, and how they come.
#[derive(Clone, Copy)]
struct Group {
    cores: usize,
    periods: &'static str,
    periods_word: &'static str,
    percent: u64,
    grain: Duration,
    /// Whether each core's tasks are drawn for that core alone, with U = 1, so that a partition is
    /// known; P-EDF gets it.
    by_core: bool,
    /// Ten hyperperiods.
    until_ms: u64,
}

/// Four cores, periods that divide each other.
const FOUR: Group = Group {
    cores: 4,
    periods: HARMONIC,
    periods_word: "25 to 200 ms, harmonic",
    percent: 100,
    grain: GRAIN,
    by_core: false,
    until_ms: 2000,
};

/// Eight cores, shorter periods that do not.
const EIGHT: Group =
    Group { cores: 8, periods: CLOSE, periods_word: "8 to 40 ms", until_ms: 1200, ..FOUR };

impl Group {
    fn name(&self) -> String {
        let grain = if self.grain == PERCENTS { ", utilizations in whole percents" } else { "" };
        let kind = if self.by_core { ", drawn core by core" } else { "" };
        format!("{} cores, {}, {} %{grain}{kind}", self.cores, self.periods_word, self.percent)
    }
    /// For tables' files and the figure.
    fn short(&self) -> String {
        let grain = if self.grain == PERCENTS { "-percents" } else { "" };
        let kind = if self.by_core { "-by-core" } else { "" };
        format!("{}x{}{grain}{kind}", self.cores, self.percent)
    }
    /// The set of this seed, and the same with every task pinned where a partition is known.
    fn draw(&self, seed: u64) -> Result<(TaskSet, TaskSet), Error> {
        let least = if self.grain == PERCENTS { "0.01" } else { "0.001" };
        let loads = format!("randfixedsum:{least}..1");
        let draw = |cores: usize, seed: u64| {
            let mut recipe = recipe(cores, self.percent, Some(4 * cores), &loads, self.periods)?;
            recipe.grain = self.grain;
            recipe.draw(seed).map_err(Error)
        };
        if !self.by_core {
            let set = draw(self.cores, seed)?;
            return Ok((set.clone(), set));
        }
        let mut set = TaskSet::default();
        for core in 0..self.cores {
            let own = draw(1, seed * self.cores as u64 + core as u64)?.tasks;
            let pin = |task| Vcpu { pinned: Some(CoreId(core as u16)), ..task };
            set.tasks.extend(own.into_iter().map(pin));
        }
        // One task of each core in turn: the order of the tasks must not show the partition.
        set.tasks.sort_by_key(|task| task.id);
        (0..).zip(&mut set.tasks).for_each(|(id, task)| task.id = VcpuId(id));
        let mut free = set.clone();
        free.tasks.iter_mut().for_each(|task| task.pinned = None);
        Ok((free, set))
    }
}

fn groups() -> Vec<Group> {
    let percents = |group| Group { grain: PERCENTS, ..group };
    let by_core = |group| Group { by_core: true, ..group };
    vec![
        Group { percent: 80, ..FOUR },
        Group { percent: 95, ..FOUR },
        Group { percent: 90, ..EIGHT },
        percents(FOUR),
        percents(EIGHT),
        by_core(percents(FOUR)),
        by_core(percents(EIGHT)),
        FOUR,
        EIGHT,
    ]
}

/// What each policy did with each set of a group: by set, then by policy.
type Tallies = Vec<Vec<Tally>>;

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let groups = groups();
    let sets = lab.seeds(SETS);
    let seeds: Vec<(usize, u64)> = (0..groups.len())
        .flat_map(|group| (0..sets as u64).map(move |seed| (group, seed)))
        .collect();
    let subjects = subjects(&POLICIES)?;
    let one = |(group, seed): &(usize, u64)| {
        let group = &groups[*group];
        let (set, pinned) = group.draw(*seed)?;
        let charge = free_until(group.until_ms);
        // Only P-EDF can make use of a partition.
        let mut tallies = trials(&pinned, group.cores, &subjects[..1], &charge);
        tallies.extend(trials(&set, group.cores, &subjects[1..], &charge));
        Ok(tallies)
    };
    let found = lab.map(&seeds, one).into_iter().collect::<Result<Tallies, Error>>()?;
    let found: Vec<&[Vec<Tally>]> = found.chunks(sets).collect();
    Ok(Findings {
        notes: vec![
            "RUN and P-EDF pack by worst fit, QPS by first fit; run/ffd is RUN by first fit. A \
             full set can hardly ever be partitioned. So that P-EDF can be compared there too, two \
             kinds of sets were drawn core by core; P-EDF gets that partition, the others are \
             not. Where utilizations are whole percents, some cores can be filled exactly, as with \
             budgets in whole milliseconds; where they are millionths, none can."
                .into(),
        ],
        tables: groups.iter().zip(&found).map(|(group, found)| table(group, found)).collect(),
        figures: vec![figure(&groups, &found)],
        verdicts: verdicts(&groups, &found),
    })
}

/// Of the admitted sets: their number, and the mean of `count` per job.
fn mean(found: &[Vec<Tally>], policy: usize, count: impl Fn(&Tally) -> u64) -> (usize, Mean) {
    let admitted = found.iter().map(|set| &set[policy]).filter(|tally| tally.accepted);
    let values: Vec<f64> = admitted.map(|tally| per_job(tally, count(tally))).collect();
    (values.len(), Mean::of(&values))
}

/// Mean depth of a policy's tree or hierarchy, over the admitted sets.
fn depth(found: &[Vec<Tally>], policy: usize) -> f64 {
    let admitted = found.iter().map(|set| &set[policy]).filter(|tally| tally.accepted);
    Mean::of(&admitted.map(|tally| tally.depth as f64).collect::<Vec<_>>()).mean
}

fn table(group: &Group, found: &[Vec<Tally>]) -> Table {
    let columns = [
        "policy",
        "sets admitted",
        "all in time",
        "preemptions per job",
        "migrations per job",
        "depth",
    ];
    let mut table = Table::new(&group.short(), &group.name(), &columns);
    for (place, policy) in POLICIES.iter().enumerate() {
        let (admitted, preemptions) = mean(found, place, |tally| tally.preemptions);
        let (_, migrations) = mean(found, place, |tally| tally.migrations);
        let met = found.iter().filter(|set| all_met(&set[place])).count();
        let shown = |mean: &Mean| match admitted {
            0 => Cell::Missing,
            _ => Cell::Text(with_interval(mean, 3)),
        };
        table.row(vec![
            Cell::text(*policy),
            Cell::Text(format!("{admitted} of {}", found.len())),
            Cell::Number(met as f64, 0),
            shown(&preemptions),
            shown(&migrations),
            Cell::Number(depth(found, place), 2),
        ]);
    }
    table
}

fn figure(groups: &[Group], found: &[&[Vec<Tally>]]) -> Figure {
    let bars = |policy: usize| {
        let mean = |found: &&[Vec<Tally>]| mean(found, policy, |tally| tally.preemptions).1.mean;
        found.iter().map(mean).collect()
    };
    let series = POLICIES.iter().enumerate().map(|(place, name)| (name.to_string(), bars(place)));
    Figure {
        name: String::new(),
        title: "Preemptions per job (cores x load)".into(),
        drawing: Drawing::Bars {
            axis: "preemptions per job".into(),
            groups: groups.iter().map(Group::short).collect(),
            series: series.collect(),
        },
    }
}

/// The place of a policy among those compared.
fn place(policy: &str) -> usize {
    POLICIES.iter().position(|name| *name == policy).unwrap_or_default()
}

fn verdicts(groups: &[Group], found: &[&[Vec<Tally>]]) -> Vec<Verdict> {
    let mut verdicts = vec![optimal_in_time(found), partitioned_never_migrates(found)];
    for (group, found) in groups.iter().zip(found).filter(|(group, _)| group.percent == 100) {
        let known = ["qps", "run", "dp-wrap"];
        let with_p_edf = ["p-edf", "qps", "run", "dp-wrap"];
        let order: &[&str] = if group.by_core { &with_p_edf } else { &known };
        verdicts.push(in_order(group, found, order));
    }
    verdicts.push(packed_alike(groups, found));
    verdicts
}

fn optimal_in_time(found: &[&[Vec<Tally>]]) -> Verdict {
    let optimal = ["qps", "run", "u-edf", "dp-wrap"].map(place);
    let tallies = || found.iter().copied().flatten().flat_map(|set| optimal.map(|at| &set[at]));
    let (all, met) = (tallies().count(), tallies().filter(|tally| all_met(tally)).count());
    let jobs: u64 = tallies().map(|tally| tally.released).sum();
    Verdict::new(
        "QPS, RUN, U-EDF and DP-WRAP miss no deadline, at U = m either",
        all == met,
        format!("{met} of {all} runs, {jobs} jobs"),
    )
}

fn partitioned_never_migrates(found: &[&[Vec<Tally>]]) -> Verdict {
    let flat = ["qps", "run"].map(place);
    let tallies = found.iter().copied().flatten().flat_map(|set| flat.map(|at| &set[at]));
    let flat: Vec<_> = tallies.filter(|tally| tally.accepted && tally.depth == 0).collect();
    let moved: u64 = flat.iter().map(|tally| tally.migrations + tally.task_migrations).sum();
    Verdict::new(
        "RUN and QPS never migrate a task where packing leaves nothing to reduce or to lend",
        moved == 0 && !flat.is_empty(),
        format!("{moved} migrations in {} runs", flat.len()),
    )
}

/// Preemptions per job of the one policy less those of the other, on sets that both admit; `None`
/// for fewer than two.
fn difference(found: &[Vec<Tally>], less: &str, policy: &str) -> Option<Mean> {
    let preemptions = |set: &[Tally], policy| {
        let tally = &set[place(policy)];
        per_job(tally, tally.preemptions)
    };
    let both = |set: &&Vec<Tally>| [less, policy].iter().all(|it| set[place(it)].accepted);
    let differences: Vec<f64> = found
        .iter()
        .filter(both)
        .map(|set| preemptions(set, policy) - preemptions(set, less))
        .collect();
    (differences.len() > 1).then(|| Mean::of(&differences))
}

/// Whether the order of QPS and RUN is theirs or that of first fit and worst fit.
fn packed_alike(groups: &[Group], found: &[&[Vec<Tally>]]) -> Verdict {
    let full = groups.iter().zip(found).filter(|(group, _)| group.percent == 100);
    let full = full.map(|(group, found)| (group.short(), difference(found, "qps", "run/ffd")));
    let full: Vec<(String, Option<Mean>)> = full.collect();
    let said = |(group, mean): &(String, Option<Mean>)| {
        let mean = mean.map_or("none".into(), |mean| with_interval(&mean, 3));
        format!("{group} {mean}")
    };
    Verdict::new(
        "U = m: QPS preempts less than RUN where RUN is packed by first fit too",
        !full.is_empty() && full.iter().all(|(_, it)| it.is_some_and(|mean| mean.low() > 0.0)),
        format!(
            "mean differences per job, run/ffd - qps: {}",
            full.iter().map(said).collect::<Vec<_>>().join(", ")
        ),
    )
    .because(
        "First fit fills some cores exactly and leaves little to reduce or to lend, worst fit \
         hardly any: most of what RUN preempts more above is its packing.",
    )
}

/// Whether each policy preempts at most as often as the next one, on the same sets; the last one
/// several times as often as the one before.
fn in_order(group: &Group, found: &[Vec<Tally>], order: &[&str]) -> Verdict {
    let mut holds = true;
    let mut numbers = Vec::new();
    for pair in order.windows(2) {
        let mean = difference(found, pair[0], pair[1]);
        holds &= mean.is_some_and(|mean| mean.low() >= 0.0);
        let mean = mean.map_or("none".into(), |mean| with_interval(&mean, 3));
        numbers.push(format!("{} - {}: {mean}", pair[1], pair[0]));
    }
    if let [.., before, last] = order {
        let mean = |policy| mean(found, place(policy), |tally| tally.preemptions).1.mean;
        let times = mean(last) / mean(before);
        holds &= times > 2.0;
        numbers.push(format!("{last} {} times {before}", number(times, 1)));
    }
    Verdict::new(
        format!(
            "U = m: {} preempt in this order, the last far more ({})",
            order.join(", "),
            group.name()
        ),
        holds,
        format!("mean differences per job on the same sets: {}", numbers.join("; ")),
    )
    .because(
        "No core can be filled exactly there: QPS overpacks level after level where RUN, by either \
         packing, reduces once.",
    )
}
