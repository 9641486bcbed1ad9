//! Every set under every contender.

use super::charges::{self, Bounded};
use super::contenders::{self, CLUSTERED, CONTENDERS, Contender};
use super::sets::{Draw, Point, draw, words};
use super::study::{Outcome, Part};
use crate::ecrts15::Costs;
use crate::{Error, Lab};
use maracas_core::{Duration, Instant, Vcpu};
use maracas_scenario::taskset::TaskSet;
use maracas_sim::Overheads;
use maracas_sweep::{Charge, Subject, admission, trial};

/// Of a set that may be refused soon, one task in so many is judged first.
const FIRST: [usize; 3] = [4, 3, 2];

/// What these sets come to: an outcome for each contender that the part has.
pub(super) fn of_all(
    lab: &Lab<'_>,
    part: Part,
    items: &[(Point, u64)],
    costs: &Costs,
) -> Result<Vec<Vec<Outcome>>, Error> {
    let (places, costs) = (part.places(), (part == Part::Charged).then_some(costs));
    let runs = lab.map(items, |(point, number)| {
        of_set(*point, &draw(*point, *number, part.deadlines())?, &places, costs)
    });
    runs.into_iter().collect()
}

/// How to see that a set is late under a contender, in the pattern of that number.
pub(super) fn how_to_run(
    part: Part,
    (point, number): (Point, u64),
    contender: &Contender,
    pattern: u8,
) -> Result<String, Error> {
    let drawn = draw(point, number, part.deadlines())?;
    let (set, until) = &drawn.patterns[usize::from(pattern).min(1)];
    let (options, tasks) = (contender.options(point.cores), words(set));
    let charged = part == Part::Charged;
    let how = if charged { ", costs charged, C without its bound" } else { "" };
    Ok(format!(
        "`maracas sim --taskset FILE {options} --until {until}`{how}, tasks C/D/T+offset in us: \
         {tasks}"
    ))
}

/// One set under each contender.
fn of_set(
    point: Point,
    drawn: &Draw,
    places: &[usize],
    costs: Option<&Costs>,
) -> Result<Vec<Outcome>, Error> {
    let (mut outcomes, mut shared) = (Vec::new(), None);
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
        outcomes.push(ran.map_or_else(Outcome::default, |ran| ran.outcome));
    }
    Ok(outcomes)
}

/// The contender whose runs are this one's.
fn standing(contender: &Contender) -> Result<&'static Contender, Error> {
    let missing = || Error(format!("no runs stand for {}", contender.policy));
    contenders::standing(contender.policy).ok_or_else(missing)
}

/// Runs that are shared, where the contender's own test admits the set.
fn asked(
    point: Point,
    ran: Option<Bounded>,
    contender: &Contender,
) -> Result<Option<Bounded>, Error> {
    let subject = contender.subject(point.cores)?;
    let admits = |set: &TaskSet| {
        !is_refused_soon(set, point.cores, &subject)
            && admission::admits(set, point.cores, &subject)
    };
    Ok(ran.filter(|ran| admits(&ran.set)))
}

/// Whether the test of a policy that [`Contender::takes_in_turn`] refuses the first tasks of the
/// set already, and so all of it. Of what is refused every further task is judged as well, for the
/// sake of the user, which takes most of the time of tests by response times.
fn is_refused_soon(set: &TaskSet, cores: usize, subject: &Subject) -> bool {
    let mut order: Vec<&Vcpu> = set.tasks.iter().collect();
    if subject.entry.name == CLUSTERED {
        let denser = |a: &Vcpu, b: &Vcpu| {
            let [a, b] = [a, b].map(|task| &task.reservation);
            let product = |one: Duration, other: Duration| {
                u128::from(one.ticks()) * u128::from(other.ticks())
            };
            product(b.budget, a.deadline).cmp(&product(a.budget, b.deadline))
        };
        order.sort_by(|a, b| denser(a, b).then(a.id.cmp(&b.id)));
    }
    FIRST.into_iter().any(|part| {
        let tasks = order.iter().take(order.len() / part).copied().cloned().collect();
        let some = TaskSet { tasks, ..set.clone() };
        !admission::admits(&some, cores, subject)
    })
}

/// One set under one contender; nothing where it is refused.
fn runs(
    point: Point,
    drawn: &Draw,
    contender: &Contender,
    costs: Option<&Costs>,
) -> Result<Option<Bounded>, Error> {
    if contender.takes_in_turn() {
        let subject = contender.subject(point.cores)?;
        if is_refused_soon(&drawn.patterns[0].0, point.cores, &subject) {
            return Ok(None);
        }
    }
    match costs {
        Some(costs) => charges::bounded(point, drawn, contender, costs),
        None => free(point, drawn, contender),
    }
}

/// The same where nothing is charged: all bounds are zero.
fn free(point: Point, drawn: &Draw, contender: &Contender) -> Result<Option<Bounded>, Error> {
    let subject = contender.subject(point.cores)?;
    let mut outcome = Outcome::ADMITTED;
    for (pattern, (set, until)) in (0..).zip(&drawn.patterns) {
        let charge = Charge {
            until: Instant::ZERO + *until,
            seed: 0,
            overheads: Overheads::FREE,
            bound: Duration::ZERO,
        };
        let tally = trial::run(set, point.cores, &subject, &charge);
        if pattern == 0 && !tally.accepted {
            return Ok(None);
        }
        outcome.count(pattern, &tally);
    }
    let set: TaskSet = drawn.patterns[0].0.clone();
    Ok(Some(Bounded { set, outcome }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::sets::Deadlines;
    use crate::comparison::study::points;

    /// What is refused soon is refused, of every contender that is asked that.
    #[test]
    fn what_is_refused_soon_is_refused() {
        let mut soon = 0;
        for point in points().filter(|point| point.cores < 8) {
            for deadlines in [Deadlines::Implicit, Deadlines::Constrained] {
                let drawn = draw(point, 3, deadlines).expect("it can be drawn");
                let set = &drawn.patterns[0].0;
                for contender in CONTENDERS.iter().filter(|it| it.takes_in_turn()) {
                    let subject = contender.subject(point.cores).expect("it is a policy");
                    if is_refused_soon(set, point.cores, &subject) {
                        assert!(!admission::admits(set, point.cores, &subject), "{contender:?}");
                        soon += 1;
                    }
                }
            }
        }
        assert!(soon > 50, "only {soon} are refused soon");
    }
}
