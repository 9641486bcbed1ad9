//! Every set under every contender, and what that comes to.

use super::charges::Charges;
use super::contenders::{CONTENDERS, Contender};
use super::sets::{Deadlines, Draw, Point, draw, longer, words};
use crate::{Error, Lab};
use maracas_sweep::{admission, trial};

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
    /// Draws and runs `sets` sets a point, charged like that.
    pub(super) fn of(
        lab: &Lab<'_>,
        deadlines: Deadlines,
        sets: usize,
        charges: &Charges,
    ) -> Result<Self, Error> {
        let knows =
            |(_, it): &(usize, &Contender)| it.constrained || deadlines == Deadlines::Implicit;
        let places: Vec<usize> =
            CONTENDERS.iter().enumerate().filter(knows).map(|(place, _)| place).collect();
        let items: Vec<(Point, u64)> =
            points().flat_map(|point| (0..sets as u64).map(move |set| (point, set))).collect();
        let runs = lab.map(&items, |(point, number)| {
            of_set(*point, &draw(*point, *number, deadlines)?, &places, charges)
        });
        let (mut outcomes, mut unsound) = (Vec::new(), Vec::new());
        for run in runs {
            let (own, late) = run?;
            outcomes.push(own);
            unsound.extend(late);
        }
        Ok(Self { deadlines, places, sets, outcomes, unsound })
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
    charges: &Charges,
) -> Result<(Vec<Outcome>, Vec<String>), Error> {
    let (mut outcomes, mut unsound) = (Vec::new(), Vec::new());
    for place in places {
        let contender = &CONTENDERS[*place];
        let (outcome, late) = run(point, drawn, contender, charges)?;
        if let Some(pattern) = late.filter(|_| contender.run.audits()) {
            let (set, until) = &drawn.patterns[pattern];
            let options = contender.options(point.cores);
            let tasks = words(set);
            unsound.push(format!(
                "`maracas sim --taskset FILE {options} --until {until}`, tasks C/D/T+offset in us: \
                 {tasks}"
            ));
        }
        outcomes.push(outcome);
    }
    Ok((outcomes, unsound))
}

/// One set under one contender: what it came to, and the pattern in which a job was late.
fn run(
    point: Point,
    drawn: &Draw,
    contender: &Contender,
    charges: &Charges,
) -> Result<(Outcome, Option<usize>), Error> {
    let (cores, subject) = (point.cores, contender.subject(point.cores)?);
    let bound = charges.bound(contender.policy, cores);
    let (mut sum, mut late) = (Outcome::default(), None);
    if !admission::admits(&longer(&drawn.patterns[0].0, bound), cores, &subject) {
        return Ok((sum, late));
    }
    sum.admitted = true;
    for (place, (set, until)) in drawn.patterns.iter().enumerate() {
        let charge = charges.at(contender.policy, point, *until)?;
        let tally = trial::run(&longer(set, bound), cores, &subject, &charge);
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
    Ok((sum, late))
}
