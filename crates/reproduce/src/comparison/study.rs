//! What every set came to under every contender, and what that comes to.

use super::contenders::{CONTENDERS, Contender};
use super::runs;
use super::sets::{Deadlines, Point};
use crate::ecrts15::Costs;
use crate::{Error, Lab};
use maracas_sweep::Tally;

/// Cores of the platforms.
pub(super) const CORES: [usize; 4] = [2, 4, 8, 16];
/// Utilizations in percent of all cores.
pub(super) const PERCENT: [u64; 8] = [40, 50, 60, 70, 80, 90, 95, 100];

/// What is asked about: each has tables of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// Implicit deadlines, nothing charged.
    Implicit,
    /// Constrained deadlines, nothing charged.
    Constrained,
    /// Implicit deadlines and measured costs.
    Charged,
}

impl Part {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Implicit, Self::Constrained, Self::Charged];

    /// The word in the names of tables and files.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Implicit => "implicit",
            Self::Constrained => "constrained",
            Self::Charged => "charged",
        }
    }
    /// What its sets have, in words.
    pub(super) const fn said(self) -> &'static str {
        match self {
            Self::Implicit => "implicit deadlines",
            Self::Constrained => "constrained deadlines",
            Self::Charged => "implicit deadlines, costs charged",
        }
    }
    /// The deadlines of its sets.
    pub(super) const fn deadlines(self) -> Deadlines {
        match self {
            Self::Implicit | Self::Charged => Deadlines::Implicit,
            Self::Constrained => Deadlines::Constrained,
        }
    }
    /// The places in [`CONTENDERS`] of those that know these deadlines.
    pub(super) fn places(self) -> Vec<usize> {
        let knows = |it: &Contender| it.constrained || self.deadlines() == Deadlines::Implicit;
        (0..CONTENDERS.len()).filter(|place| knows(&CONTENDERS[*place])).collect()
    }
}

/// What one set came to under one contender, over both patterns of releases.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Outcome {
    pub(super) admitted: bool,
    /// The first pattern in which a job was late.
    pub(super) late: Option<u8>,
    pub(super) jobs: u64,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    /// By how much the bounds raise the load, in millionths of a core.
    pub(super) added: u64,
}

impl Outcome {
    /// Of what is admitted and did not run yet.
    pub(super) const ADMITTED: Self =
        Self { admitted: true, late: None, jobs: 0, preemptions: 0, migrations: 0, added: 0 };

    /// Whether it was admitted and nothing was late.
    pub(super) const fn in_time(&self) -> bool {
        self.admitted && self.late.is_none()
    }
    /// Adds the run of a pattern. What is admitted does not hang on offsets: a refusal counts as
    /// late.
    pub(super) fn count(&mut self, pattern: u8, tally: &Tally) {
        if !tally.success() {
            self.late = self.late.or(Some(pattern));
        }
        self.jobs += tally.released;
        self.preemptions += tally.preemptions;
        self.migrations += tally.migrations;
    }
}

/// All sets of a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Study {
    pub(super) part: Part,
    /// The contenders' places in [`CONTENDERS`].
    pub(super) places: Vec<usize>,
    /// Sets of each point.
    pub(super) sets: usize,
    /// By point, in the order of [`points`], then by set, then by contender.
    pub(super) outcomes: Vec<Vec<Outcome>>,
}

/// Every number of cores with every utilization.
pub(super) fn points() -> impl Iterator<Item = Point> {
    CORES.into_iter().flat_map(|cores| PERCENT.map(|percent| Point { cores, percent }))
}

/// The numbers of so many sets at every point, in the order of a study's outcomes.
pub(super) fn items(sets: usize) -> Vec<(Point, u64)> {
    points().flat_map(|point| (0..sets as u64).map(move |set| (point, set))).collect()
}

impl Study {
    /// Draws and runs `sets` sets a point.
    pub(super) fn of(lab: &Lab<'_>, part: Part, sets: usize, costs: &Costs) -> Result<Self, Error> {
        let outcomes = runs::of_all(lab, part, &items(sets), costs)?;
        Ok(Self { part, places: part.places(), sets, outcomes })
    }

    /// The first `sets` sets of each point.
    pub(super) fn first(&self, sets: usize) -> Self {
        let points = self.outcomes.chunks(self.sets.max(1));
        let outcomes = points.flat_map(|point| point.iter().take(sets).cloned()).collect();
        Self { places: self.places.clone(), sets: sets.min(self.sets), outcomes, ..*self }
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
