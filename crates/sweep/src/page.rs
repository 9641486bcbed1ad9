//! What the page of a sweep shows: its figures, every point, and behind each point the sets that
//! failed with the commands that run one of them again. The page itself is made by
//! [`maracas_trace::page`].

use crate::Error;
use crate::drawings;
use crate::figure::Drawing;
use crate::results::Results;
use crate::schedulable::Schedulable;
use crate::stats::Share;
use crate::study::{Study, text_of};
use crate::summary::Standing;
use crate::trial::Tally;
use serde_json::{Value, json};

/// Sets that are listed behind a point for each policy, at most: a page is to open at once, and
/// `runs.csv` has them all.
const LISTED: usize = 50;

/// The data of the page.
///
/// # Errors
/// Where the results cannot be read.
pub fn data(
    study: &Study,
    results: &Results,
    standings: &[Standing],
    tested: &[Schedulable],
) -> Result<Value, Error> {
    let figures = drawings::with_points(study, standings, tested);
    let figures = figures.iter().filter_map(|(figure, points)| match &figure.drawing {
        Drawing::Bars { .. } => None,
        Drawing::Lines { along, share, left, lines, .. } => Some(json!({
            "title": figure.title,
            "along": along,
            "left": left,
            "share": share,
            "points": points,
            "lines": lines.iter().map(|line| json!({
                "name": line.name, "points": line.points, "spread": line.spread,
                "look": line.look.map(|look| [look.color, look.dash]),
            })).collect::<Vec<_>>(),
        })),
    });
    let point = |(place, point): (usize, &crate::Point)| {
        let policies = at_point(study, results, standings, place)?;
        Ok(json!({ "name": point.to_string(), "at": drawings::at(point), "policies": policies }))
    };
    let points = study.points.iter().enumerate().map(point);
    Ok(json!({
        "kind": "sweep",
        "meaning": study.in_words(),
        "charges": study.charges(),
        "policies": study.contenders.iter().map(|it| it.label.as_str()).collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "points": points.collect::<Result<Vec<_>, Error>>()?,
    }))
}

/// What each policy came to at a point, in the order of the policies.
fn at_point(
    study: &Study,
    results: &Results,
    standings: &[Standing],
    place: usize,
) -> Result<Vec<Value>, Error> {
    let mut lists: Vec<Vec<Value>> = vec![Vec::new(); study.contenders.len()];
    for finished in results.of_point(place) {
        let finished = finished?;
        for (contender, tally) in finished.tallies.iter().enumerate() {
            if !tally.success() && lists[contender].len() < LISTED {
                lists[contender].push(failed(study, finished.item, contender, tally));
            }
        }
    }
    let all = standings.iter().filter(|it| it.point == study.points[place]);
    let one = |it: &Standing| {
        let Share { share, low, high } = it.success();
        json!({
            "sets": it.sets,
            "accepted": it.accepted,
            "succeeded": it.succeeded,
            "success": [share, low, high],
            "failed": std::mem::take(&mut lists[it.contender]),
        })
    };
    Ok(all.map(one).collect())
}

/// A set that failed under a policy.
fn failed(study: &Study, item: usize, contender: usize, tally: &Tally) -> Value {
    json!({
        "set": study.set_number(item),
        "seed": study.seed(item),
        "file": study.file(item),
        "accepted": tally.accepted,
        "missed": tally.missed,
        "released": tally.released,
        "tardiness_ns": tally.tardiness_max_ns,
        "commands": commands(study, item, contender),
    })
}

/// The commands of a shell that draw the set of an item, where it is drawn, and run it.
pub fn commands(study: &Study, item: usize, contender: usize) -> Vec<String> {
    let (point, seed) = (study.point(item), study.seed(item).to_string());
    let cores = point.cores.to_string();
    let mut commands = Vec::new();
    let file = study.file(item).unwrap_or("one.csv");
    if let Some(recipe) = study.recipe(point) {
        let mut words: Vec<String> = ["maracas", "generate", "--cores"].map(Into::into).into();
        words.push(cores.clone());
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        let share = point.utilization.map_or(100.0, |share| f64::from(share) / 1e4);
        add("--utilization", format!("{share}%"));
        recipe.tasks.into_iter().for_each(|tasks| add("--tasks", tasks.to_string()));
        add("--loads", recipe.loads.to_string());
        add("--periods", recipe.periods.to_string());
        recipe.hyperperiod.into_iter().for_each(|it| add("--hyperperiod", it.to_string()));
        add("--grain", recipe.grain.to_string());
        add("--seed", seed.clone());
        let flags = [
            (recipe.exact, "--exact"),
            (recipe.sporadic, "--sporadic"),
            (recipe.offsets, "--offsets"),
        ];
        words.extend(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned()));
        words.extend(["-o".to_owned(), file.to_owned()]);
        commands.push(shell(&words));
    }
    let subject = &study.contenders[contender].subject;
    let until = study.charge(item).until.saturating_since(maracas_core::Instant::ZERO);
    let mut words = vec!["maracas".to_owned(), "sim".into(), "--taskset".into(), file.into()];
    words.extend(["--cores".into(), cores, "--policy".into(), subject.entry.name.into()]);
    for (name, value) in subject.params.iter() {
        words.extend(["--set".to_owned(), format!("{name}={}", text_of(value))]);
    }
    words.extend(["--until".into(), until.to_string(), "--seed".into(), seed]);
    commands.push(shell(&words));
    commands
}

/// Words as a shell reads them again.
fn shell(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%+@".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_read_them_otherwise() {
        let words = ["a", "bimodal:8*0.1..0.5", "it's", ""].map(str::to_owned);
        assert_eq!(shell(&words), "a 'bimodal:8*0.1..0.5' 'it'\\''s' ''");
    }
}
