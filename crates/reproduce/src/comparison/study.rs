//! Every set under every contender, and what that comes to.

use super::charges::{self, Bounded};
use super::contenders::{self, CONTENDERS, Contender};
use super::sets::{Deadlines, Draw, Point, draw, words};
use crate::ecrts15::Costs;
use crate::{Error, Lab};
use maracas_core::{Duration, Instant};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::{Charge, admission, trial};

/// Cores of the platforms.
pub(super) const CORES: [usize; 4] = [2, 4, 8, 16];
/// Utilizations in percent of all cores.
pub(super) const PERCENT: [u64; 8] = [40, 50, 60, 70, 80, 90, 95, 100];

/// What one set came to under one contender, over both patterns of releases.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Outcome {
    pub(super) admitted: bool,
    /// Whether a job was late in any run.
    pub(super) late: bool,
    pub(super) jobs: u64,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    /// By how much the bounds raise the load, in millionths of a core.
    pub(super) added: u64,
}

impl Outcome {
    /// Whether it was admitted and nothing was late.
    pub(super) const fn in_time(&self) -> bool {
        self.admitted && !self.late
    }
}

/// All sets with one kind of deadlines.
pub(super) struct Study {
    pub(super) deadlines: Deadlines,
    /// The contenders' places in [`CONTENDERS`].
    pub(super) places: Vec<usize>,
    /// Sets of each point.
    pub(super) sets: usize,
    /// By point, in the order of [`points`], then by set, then by contender.
    outcomes: Vec<Vec<Outcome>>,
    /// The first sets that a test admits and that are late all the same, with how to run them.
    pub(super) unsound: Vec<String>,
}

/// Every number of cores with every utilization.
pub(super) fn points() -> impl Iterator<Item = Point> {
    CORES.into_iter().flat_map(|cores| PERCENT.map(|percent| Point { cores, percent }))
}

impl Study {
    /// Draws and runs `sets` sets a point; charged these costs, or nothing.
    pub(super) fn of(
        lab: &Lab<'_>,
        deadlines: Deadlines,
        sets: usize,
        costs: Option<&Costs>,
    ) -> Result<Self, Error> {
        let knows =
            |(_, it): &(usize, &Contender)| it.constrained || deadlines == Deadlines::Implicit;
        let places: Vec<usize> =
            CONTENDERS.iter().enumerate().filter(knows).map(|(place, _)| place).collect();
        let items: Vec<(Point, u64)> =
            points().flat_map(|point| (0..sets as u64).map(move |set| (point, set))).collect();
        let runs = lab.map(&items, |(point, number)| {
            of_set(*point, &draw(*point, *number, deadlines)?, &places, costs)
        });
        let (mut outcomes, mut unsound) = (Vec::new(), Vec::new());
        for run in runs {
            let (own, late) = run?;
            outcomes.push(own);
            unsound.extend(late);
        }
        Ok(Self { deadlines, places, sets, outcomes, unsound })
    }

    /// The first `sets` sets of each point.
    pub(super) fn first(&self, sets: usize) -> Self {
        let points = self.outcomes.chunks(self.sets.max(1));
        let outcomes = points.flat_map(|point| point.iter().take(sets).cloned()).collect();
        let (deadlines, places) = (self.deadlines, self.places.clone());
        Self { deadlines, places, sets: sets.min(self.sets), outcomes, unsound: Vec::new() }
    }

    /// The contender whose runs stand for a policy.
    pub(super) fn standing(&self, policy: &str) -> Option<usize> {
        let is = |it: &Contender| it.policy == policy && it.run.stands();
        self.places.iter().position(|place| is(&CONTENDERS[*place]))
    }
    /// The places here of a policy's tests, each of which promises that nothing is missed.
    pub(super) fn tests(&self, policy: &str) -> Vec<usize> {
        let is = |it: &Contender| it.policy == policy && it.run.audits();
        (0..self.places.len()).filter(|at| is(&CONTENDERS[self.places[*at]])).collect()
    }
    /// What the sets of a point came to: an outcome for each contender.
    pub(super) fn at(&self, point: Point) -> &[Vec<Outcome>] {
        let place = points().position(|it| it == point).unwrap_or_default();
        &self.outcomes[place * self.sets..(place + 1) * self.sets]
    }
    /// All sets.
    pub(super) fn all(&self) -> impl Iterator<Item = &Vec<Outcome>> {
        self.outcomes.iter()
    }
    /// How many sets of a point are so.
    pub(super) fn count(&self, point: Point, is: impl Fn(&[Outcome]) -> bool) -> usize {
        self.at(point).iter().filter(|set| is(set)).count()
    }
    /// Weighted schedulability on so many cores: the utilization of the sets that are so by that of
    /// all (Bastoni, Brandenburg and Anderson, OSPERT 2010).
    pub(super) fn weighted(&self, cores: usize, is: impl Fn(&[Outcome]) -> bool) -> f64 {
        let of = |percent| self.count(Point { cores, percent }, &is) as u64 * percent;
        let all = PERCENT.iter().sum::<u64>() * self.sets as u64;
        PERCENT.into_iter().map(of).sum::<u64>() as f64 / all as f64
    }
    /// By which part of the cores the bounds of a contender raise the load, on average over the
    /// sets that it admits on so many of them; nothing where it admits none.
    pub(super) fn added(&self, cores: usize, contender: usize) -> Option<f64> {
        let sets = PERCENT.into_iter().flat_map(|percent| self.at(Point { cores, percent }));
        let own: Vec<u64> =
            sets.map(|set| set[contender]).filter(|it| it.admitted).map(|it| it.added).collect();
        let count = (own.len() * cores) as f64 * 1e6;
        (!own.is_empty()).then(|| own.iter().sum::<u64>() as f64 / count)
    }
    /// How often one of `count` happens for each job at a point under a contender, over the sets
    /// that it admits; nothing where it admits none.
    pub(super) fn per_job(
        &self,
        point: Point,
        contender: usize,
        count: fn(&Outcome) -> u64,
    ) -> Option<f64> {
        let own = || self.at(point).iter().map(|set| &set[contender]).filter(|it| it.admitted);
        let jobs = own().map(|it| it.jobs).sum::<u64>();
        (jobs > 0).then(|| own().map(count).sum::<u64>() as f64 / jobs as f64)
    }
}

/// One set under each contender; and which of them admitted it by a test and were late.
fn of_set(
    point: Point,
    drawn: &Draw,
    places: &[usize],
    costs: Option<&Costs>,
) -> Result<(Vec<Outcome>, Vec<String>), Error> {
    let (mut outcomes, mut unsound, mut shared) = (Vec::new(), Vec::new(), None);
    for place in places {
        let contender = &CONTENDERS[*place];
        let ran = if contender.shares_runs() {
            let ran = match shared.take().filter(|(policy, _)| *policy == contender.policy) {
                Some((_, ran)) => ran,
                None => runs(point, drawn, standing(contender)?, costs)?,
            };
            shared = Some((contender.policy, ran.clone()));
            asked(point, ran, contender)?
        } else {
            runs(point, drawn, contender, costs)?
        };
        let Some(ran) = ran else {
            outcomes.push(Outcome::default());
            continue;
        };
        if let Some(pattern) = ran.late.filter(|_| contender.run.audits()) {
            let (set, until) = &drawn.patterns[pattern];
            let options = contender.options(point.cores);
            let tasks = words(set);
            let how = if costs.is_some() { ", costs charged, C without its bound" } else { "" };
            unsound.push(format!(
                "`maracas sim --taskset FILE {options} --until {until}`{how}, tasks C/D/T+offset \
                 in us: {tasks}"
            ));
        }
        outcomes.push(ran.outcome);
    }
    Ok((outcomes, unsound))
}

/// The contender whose runs are this one's.
fn standing(contender: &Contender) -> Result<&'static Contender, Error> {
    let missing = || Error(format!("no runs stand for {}", contender.policy));
    contenders::standing(contender.policy).ok_or_else(missing)
}

/// What a set came to under one contender that takes it.
#[derive(Clone)]
struct Runs {
    /// What was taken, released at once.
    set: TaskSet,
    outcome: Outcome,
    /// The pattern in which a job was late.
    late: Option<usize>,
}

/// Runs that are shared, where the contender's own test admits the set.
fn asked(point: Point, ran: Option<Runs>, contender: &Contender) -> Result<Option<Runs>, Error> {
    let subject = contender.subject(point.cores)?;
    Ok(ran.filter(|ran| admission::admits(&ran.set, point.cores, &subject)))
}

/// One set under one contender; nothing where it is refused.
fn runs(
    point: Point,
    drawn: &Draw,
    contender: &Contender,
    costs: Option<&Costs>,
) -> Result<Option<Runs>, Error> {
    let Some(costs) = costs else { return free(point, drawn, contender) };
    let bounded = charges::bounded(point, drawn, contender, costs)?;
    Ok(bounded.map(|Bounded { set, jobs, late, added }| {
        let late_at_all = late.is_some();
        let outcome =
            Outcome { admitted: true, late: late_at_all, jobs, added, ..Outcome::default() };
        Runs { set, outcome, late }
    }))
}

/// The same where nothing is charged.
fn free(point: Point, drawn: &Draw, contender: &Contender) -> Result<Option<Runs>, Error> {
    let subject = contender.subject(point.cores)?;
    let (mut sum, mut late) = (Outcome { admitted: true, ..Outcome::default() }, None);
    for (place, (set, until)) in drawn.patterns.iter().enumerate() {
        let charge = Charge {
            until: Instant::ZERO + *until,
            seed: 0,
            overheads: Overheads::FREE,
            bound: Duration::ZERO,
        };
        let tally = trial::run(set, point.cores, &subject, &charge);
        if place == 0 && !tally.accepted {
            return Ok(None);
        }
        // What is admitted does not hang on offsets: a refusal of the second pattern counts as
        // late.
        if !tally.success() {
            late = late.or(Some(place));
        }
        sum.jobs += tally.released;
        sum.preemptions += tally.preemptions;
        sum.migrations += tally.migrations;
    }
    sum.late = late.is_some();
    Ok(Some(Runs { set: drawn.patterns[0].0.clone(), outcome: sum, late }))
}
