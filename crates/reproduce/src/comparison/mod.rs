//! Every policy of jobs with every test that it knows, on the same sets: what tests admit, what
//! runs keep, and what that costs.

mod charges;
mod contenders;
mod figures;
mod record;
mod runs;
mod sets;
mod study;
mod tables;
mod verdicts;

use crate::ecrts15::Costs;
use crate::{Error, Experiment, Findings, Kind, Lab};
use sets::{QUANTUM, TASKS_PER_CORE};
use study::{CORES, Part, Study};

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
           between the later of C and T/2, and T; clusters of half the cores; as many sets a point \
           as tables say",
    fitted: "",
    run,
};

/// What was recorded; with `--seeds` so many sets are drawn and run, and what each came to is kept
/// as a record.
fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let costs = Costs::recorded_for_the_comparison()?;
    let of = |part| match lab.asked() {
        None => record::recorded(lab, part, &costs),
        Some(sets) => {
            let study = Study::of(lab, part, sets, &costs)?;
            lab.keep(record::of(&study, &costs));
            Ok(study)
        }
    };
    let [implicit, constrained, charged] = Part::ALL.map(of);
    findings([&implicit?, &constrained?, &charged?], &costs)
}

/// What the parts say, in the order of [`Part::ALL`].
fn findings(parts: [&Study; 3], costs: &Costs) -> Result<Findings, Error> {
    let [implicit, constrained, charged] = parts;
    // Costs are charged to as many of the same sets as there was time for.
    let same = &implicit.first(charged.sets);
    let mut tables: Vec<_> = parts.into_iter().flat_map(tables::of).collect();
    for study in [implicit, charged] {
        tables.extend(CORES.map(|cores| tables::moves(study, cores)));
    }
    tables.extend(CORES.map(|cores| tables::costs(costs, charged, cores)));
    tables.push(tables::weighted(same, charged));
    let mut verdicts = vec![verdicts::sound(implicit)?, verdicts::sound(constrained)?];
    verdicts.extend(verdicts::implicit(implicit));
    verdicts.push(verdicts::sound(charged)?);
    verdicts.extend(verdicts::charged(same, charged));
    let notes = vec![how(), kept(), charging(), left_out(), format!("Costs: {}", costs.said())];
    Ok(Findings { notes, tables, figures: figures::of(implicit, same, charged), verdicts })
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

fn kept() -> String {
    "What each set came to stands in `crates/reproduce/data`, whence all of this is computed; one \
     set of each point is drawn and run again each time, and must come to the same. With `--seeds \
     N` all are, N of each point."
        .into()
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
