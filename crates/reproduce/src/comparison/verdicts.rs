//! What should hold, and whether it does.

use super::contenders::CONTENDERS;
use super::runs::how_to_run;
use super::sets::Point;
use super::study::{CORES, Outcome, PERCENT, Part, Study, items};
use crate::Error;
use crate::findings::{Verdict, number};

/// Those that schedule every set with U = m.
const OPTIMAL: [&str; 5] = ["pd2", "run", "qps", "dp-wrap", "u-edf"];

/// Those that split what fits on no core.
const SEMI_PARTITIONED: [&str; 3] = ["edf-wm", "c-d", "sp-res"];

/// Of sets that a test admits and that are late so many are shown.
const SHOWN: usize = 3;

/// Whether tests are right of the sets of a part.
pub(super) fn sound(study: &Study) -> Result<Verdict, Error> {
    let part = study.part;
    let (mut admitted, mut jobs, mut late, mut shown) = (0, 0, 0, Vec::new());
    for (item, set) in items(study.sets).into_iter().zip(&study.outcomes) {
        for (place, outcome) in study.places.iter().zip(set) {
            let contender = &CONTENDERS[*place];
            if !(contender.run.audits() && outcome.admitted) {
                continue;
            }
            admitted += 1;
            jobs += outcome.jobs;
            let Some(pattern) = outcome.late else { continue };
            late += 1;
            if shown.len() < SHOWN {
                shown.push(how_to_run(part, item, contender, pattern)?);
            }
        }
    }
    let sets = match part {
        Part::Implicit => "with implicit deadlines",
        Part::Constrained => "with constrained deadlines",
        Part::Charged => "with costs charged and jobs longer by their bounds",
    };
    let verdict = Verdict::new(
        format!("no set {sets} that a test admits is late where that test placed it"),
        late == 0,
        format!("{late} of {admitted} admitted, {jobs} jobs released at once and with offsets"),
    );
    Ok(verdict.because(&shown.join("; ")))
}

/// What is known of the policies, of sets with implicit deadlines.
pub(super) fn implicit(study: &Study) -> Vec<Verdict> {
    let mut verdicts = vec![optimal(study)];
    verdicts.extend(SEMI_PARTITIONED.map(|policy| above_partitioned(study, policy)));
    verdicts.extend(["edf-wm", "c-d"].map(|other| ahead(study, "", ("sp-res", other))));
    verdicts.extend(by_test(study));
    verdicts.push(incomparable(study));
    verdicts.extend(["u-edf", "dp-wrap", "pd2"].map(|policy| preempts_less(study, policy)));
    verdicts
}

/// What changes where costs are charged.
pub(super) fn charged(free: &Study, charged: &Study) -> Vec<Verdict> {
    let pairs = [("sp-res", "u-edf"), ("sp-res", "run"), ("run", "p-edf"), ("p-edf", "pd2")];
    let mut verdicts = vec![loses_least(free, charged)];
    verdicts.extend(pairs.map(|pair| ahead(charged, "with costs charged ", pair)));
    let why = "Nothing has room for costs at 100 %, and at 95 % nearly all have, as what most \
               policies are charged is less than 5 %.";
    verdicts.into_iter().map(|verdict| verdict.because(why)).collect()
}

/// Whether the first policy of a pair is ahead of the second by their tests.
fn ahead(study: &Study, when: &str, (better, worse): (&'static str, &'static str)) -> Verdict {
    let of = |policy: &'static str| move |cores| of_policy(study, policy, cores);
    let (better_of, worse_of) = (of(better), of(worse));
    Verdict::new(
        format!("{when}{better} is ahead of {worse} on each number of cores"),
        CORES.into_iter().all(|cores| better_of(cores) > worse_of(cores)),
        format!("weighted by cores {} against {}", by_cores(better_of, 3), by_cores(worse_of, 3)),
    )
}

/// Who pays, of those that schedule everything where nothing is charged.
fn loses_least(free: &Study, charged: &Study) -> Verdict {
    let loss = |policy: &str| {
        let lost = |cores| of_policy(free, policy, cores) - of_policy(charged, policy, cores);
        CORES.map(lost).iter().sum::<f64>() / CORES.len() as f64
    };
    let losses = OPTIMAL.map(|policy| (policy, loss(policy)));
    let by_servers = |policy: &str| ["run", "qps"].contains(&policy);
    let most = |servers: bool| {
        let own = losses.iter().filter(|it| by_servers(it.0) == servers).map(|it| it.1);
        (own.clone().fold(f64::MAX, f64::min), own.fold(f64::MIN, f64::max))
    };
    let shown = losses.map(|(policy, loss)| format!("{policy} {}", number(loss, 3))).join(", ");
    Verdict::new(
        "RUN and QPS lose less by what is charged than PD2, DP-WRAP and U-EDF do",
        most(true).1 < most(false).0,
        format!("weighted, mean over the numbers of cores: {shown}"),
    )
}

fn optimal(study: &Study) -> Verdict {
    let mut short = Vec::new();
    for policy in OPTIMAL {
        let Some(at) = study.standing(policy) else { continue };
        for cores in CORES {
            let count = study.count(Point { cores, percent: 100 }, |set| set[at].in_time());
            if count < study.sets {
                short.push(format!("{policy} on {cores} cores {count}"));
            }
        }
    }
    let words = if short.is_empty() { "all".into() } else { short.join(", ") };
    Verdict::new(
        "PD2, RUN, QPS, DP-WRAP and U-EDF schedule every set that asks for all of the cores",
        short.is_empty(),
        format!("{words} of {} sets on each number of cores", study.sets),
    )
}

/// By cores: what `of` says, with so many decimals.
fn by_cores(of: impl Fn(usize) -> f64, decimals: usize) -> String {
    CORES.map(|cores| number(of(cores), decimals)).join(", ")
}

/// Weighted schedulability by the tests of a policy together; by its run where it has none.
pub(super) fn of_policy(study: &Study, policy: &str, cores: usize) -> f64 {
    if !study.tests(policy).is_empty() {
        return by_tests(study, policy, cores);
    }
    let at = study.standing(policy);
    study.weighted(cores, |set| at.is_some_and(|at| set[at].in_time()))
}

/// Weighted schedulability by the tests of a policy together.
fn by_tests(study: &Study, policy: &str, cores: usize) -> f64 {
    let tests = study.tests(policy);
    study.weighted(cores, |set| tests.iter().any(|at| set[*at].admitted))
}

fn above_partitioned(study: &Study, policy: &str) -> Verdict {
    let weighted = |policy| move |cores| by_tests(study, policy, cores);
    let (split, packed) = (weighted(policy), weighted("p-edf"));
    // What has a packing is not split, so that it must be admitted here as well.
    let lost = {
        let (p_edf, own) = (study.tests("p-edf"), study.tests(policy));
        let lost = |set: &&Vec<Outcome>| {
            p_edf.iter().any(|at| set[*at].admitted) && own.iter().all(|at| !set[*at].admitted)
        };
        study.all().filter(lost).count()
    };
    Verdict::new(
        format!("{policy} admits every set that P-EDF does, and more on each number of cores"),
        lost == 0 && CORES.into_iter().all(|cores| split(cores) > packed(cores)),
        format!(
            "weighted by cores {} against {}; {lost} that P-EDF alone admits",
            by_cores(split, 3),
            by_cores(packed, 3)
        ),
    )
}

/// The tests of G-EDF together, beside P-EDF and beside what G-EDF keeps.
fn by_test(study: &Study) -> [Verdict; 2] {
    let [packed, global] =
        ["p-edf", "g-edf"].map(|policy| move |cores| by_tests(study, policy, cores));
    let at = study.standing("g-edf");
    let runs = |cores| study.weighted(cores, |set| at.is_some_and(|at| set[at].in_time()));
    let left_out = |cores| 1.0 - global(cores) / runs(cores);
    [
        Verdict::new(
            "by test, P-EDF is ahead of G-EDF with all its tests together, on each number of cores",
            CORES.into_iter().all(|cores| packed(cores) > global(cores)),
            format!("weighted by cores {} against {}", by_cores(packed, 3), by_cores(global, 3)),
        ),
        Verdict::new(
            "the more cores, the more of what G-EDF keeps in time its tests together leave out",
            CORES.windows(2).all(|two| left_out(two[0]) < left_out(two[1])),
            format!("parts of the weighted by run, by cores {}", by_cores(left_out, 3)),
        ),
    ]
}

/// Whether one of the tests of G-EDF would do.
fn incomparable(study: &Study) -> Verdict {
    let tests = study.tests("g-edf");
    let missing = |at: &usize| {
        let lost = |set: &&Vec<Outcome>| {
            !set[*at].admitted && tests.iter().any(|other| set[*other].admitted)
        };
        study.all().filter(lost).count()
    };
    let missing = |at: &usize| (CONTENDERS[study.places[*at]].test, missing(at));
    let missing: Vec<(&str, usize)> = tests.iter().map(missing).collect();
    let shown: Vec<_> = missing.iter().map(|(name, count)| format!("{name} {count}")).collect();
    Verdict::new(
        "no test of G-EDF admits all that the others admit",
        missing.iter().all(|(_, count)| *count > 0),
        format!("sets that another admits and this one refuses: {}", shown.join(", ")),
    )
}

fn preempts_less(study: &Study, other: &str) -> Verdict {
    let at_full = |policy: &str| {
        let at = study.standing(policy);
        let of = move |cores| {
            let point = Point { cores, percent: PERCENT[PERCENT.len() - 1] };
            at.and_then(|at| study.per_job(point, at, |it| it.preemptions)).unwrap_or(f64::NAN)
        };
        CORES.map(of)
    };
    let (run, theirs) = (at_full("run"), at_full(other));
    let shown = |values: [f64; CORES.len()]| values.map(|value| number(value, 2)).join(", ");
    Verdict::new(
        format!("with U = m RUN preempts a job less often than {other}, on each number of cores"),
        run.iter().zip(&theirs).all(|(run, theirs)| run < theirs),
        format!("a job, by cores: {} against {}", shown(run), shown(theirs)),
    )
}
