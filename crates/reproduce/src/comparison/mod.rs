//! Every policy of jobs with every test that it knows, on the same sets: what tests admit, what
//! runs keep, and what that costs.

mod charges;
mod contenders;
mod figures;
mod sets;
mod study;
mod tables;
mod verdicts;

use crate::ecrts15::Costs;
use crate::{Error, Experiment, Findings, Kind, Lab};
use sets::{Deadlines, QUANTUM, TASKS_PER_CORE};
use study::{CORES, Study};

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[EXPERIMENT];

const EXPERIMENT: Experiment = Experiment {
    name: "comparison",
    title: "policies and schedulability tests on the same sets",
    summary: "Random sets on 2, 4, 8 and 16 cores that ask for 40 to 100 % of them, with implicit \
              and with constrained deadlines: how many each test of each policy admits, how many \
              the policy then keeps in time, and how often jobs are preempted and migrate. What a \
              test admits is run by the policy that asked it, placed as it was then.",
    source: "no paper; after A. Bastoni, B. Brandenburg, J. Anderson, \"An Empirical Comparison of \
             Global, Partitioned, and Clustered Multiprocessor EDF Schedulers\", RTSS 2010, and \
             with the weights of their OSPERT 2010",
    kind: Kind::Predicts,
    free: "three tasks a core, utilizations of at most 95 %, uniform among those with the sum and \
           multiples of 1 %; periods of 10, 20, 40, 50 and 100 ms; constrained deadlines uniform \
           between the later of C and T/2, and T; clusters of half the cores; 12 sets a point, 3 \
           with constrained deadlines, and the first 3 with costs",
    fitted: "",
    run,
};

/// Sets of each point: as many as CI has time for; `--seeds` takes more.
const SETS: usize = 12;
/// Of so many sets one is taken with constrained deadlines, and one with costs charged: the same
/// tests take longest with those, and a set runs several times for its bounds with these.
const FEWER: usize = 4;

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let (sets, costs) = (lab.seeds(SETS), Costs::recorded_for_the_comparison()?);
    let implicit = Study::of(lab, Deadlines::Implicit, sets, None)?;
    let few = sets.div_ceil(FEWER);
    let constrained = Study::of(lab, Deadlines::Constrained, few, None)?;
    let charged = Study::of(lab, Deadlines::Implicit, few, Some(&costs))?;
    let same = implicit.first(few);
    let mut tables: Vec<_> = tables::of(&implicit).chain(tables::of(&constrained)).collect();
    tables.extend(CORES.map(|cores| tables::moves(&implicit, cores)));
    tables.push(tables::costs(&costs, &charged));
    tables.push(tables::weighted(&same, &charged));
    let mut verdicts = vec![
        verdicts::sound(&implicit, "with implicit deadlines"),
        verdicts::sound(&constrained, "with constrained deadlines"),
    ];
    verdicts.extend(verdicts::implicit(&implicit));
    verdicts.push(verdicts::sound(&charged, "with costs charged and jobs longer by their bounds"));
    verdicts.extend(verdicts::charged(&same, &charged));
    let notes = vec![how(), charging(), left_out(), format!("Costs: {}", costs.said())];
    Ok(Findings { notes, tables, figures: figures::of(&implicit, &same, &charged), verdicts })
}

fn how() -> String {
    format!(
        "{TASKS_PER_CORE} tasks a core; all times are multiples of {QUANTUM}, the quantum of PD2. \
         A set runs twice: released at once, for a hyperperiod of 200 ms, after which all repeats; \
         and with offsets, for the longest period more. *Run*: the policy takes the set and no job \
         is late in either. Where a policy has tests, its run is without one, packed evenly where \
         it packs, but for p-edf, whose exact test leaves nothing out. *Weighted*: the utilization \
         of the sets that are schedulable by that of all."
    )
}

fn charging() -> String {
    "Charged are the release and the decision of each policy at the 99.9th percentile of what they \
     take here, 1.6 us a context switch and 4.4 us a migration, as measured live; caches that a \
     job finds cold are not. Every task has a bound, by which its budget, which tests judge, is \
     longer, and which none of its jobs is charged more than in the two runs of the set. It is \
     found by running: where a job is charged more, the bound is raised to that and an eighth, and \
     a set that is refused on the way is not schedulable. So it says what a policy's overheads \
     cost it, and not what could be promised before. The utilization is that without bounds."
        .into()
}

fn left_out() -> String {
    "EDF-fm bounds how late jobs are and has no test that excludes misses; RUN and EDF-fm are for \
     implicit deadlines alone. Not compared: maracas, which keeps budgets rather than deadlines, \
     and places by the tests of p-rm; round-robin, which takes everything and promises nothing."
        .into()
}
