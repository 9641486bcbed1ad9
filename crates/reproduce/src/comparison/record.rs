//! What each set came to, kept in files: tables of many sets are computed from them, and not from
//! runs of minutes.
//!
//! A file has a line a set: its point and its number, from which it is drawn; the jobs of its
//! runs; for each contender `-` where it refuses the set, `+` where all jobs are in time, `0` where
//! one is late with all released at once, `1` where one is late with offsets alone; and for each
//! policy that takes it what its runs count.
//!
//! So that no file outlives the code that it was made by, some of its sets run again whenever it is
//! read ([`recorded`]).

use super::contenders::CONTENDERS;
use super::runs;
use super::sets::Point;
use super::study::{Outcome, Part, Study, items, points};
use crate::ecrts15::Costs;
use crate::{Error, Lab, Record};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// How files of other code or other costs are brought up to date.
const WAY_OUT: &str = "make the files anew (crates/reproduce/data/README.md)";
/// For each contender, in the order of [`CONTENDERS`]: what it came to.
const REFUSED: char = '-';
const IN_TIME: char = '+';

impl Part {
    /// Its file.
    fn file(self) -> String {
        format!("comparison-{}.csv", self.word())
    }
    /// The file that was recorded for the documents.
    fn text(self) -> &'static str {
        match self {
            Self::Implicit => include_str!("../../data/comparison-implicit.csv"),
            Self::Constrained => include_str!("../../data/comparison-constrained.csv"),
            Self::Charged => include_str!("../../data/comparison-charged.csv"),
        }
    }
    /// The places, among the contenders that it has, of those whose runs stand for a policy.
    fn standing(self) -> Vec<usize> {
        let stands = |place: &usize| CONTENDERS[*place].run.stands();
        (0..).zip(self.places()).filter(|(_, place)| stands(place)).map(|(at, _)| at).collect()
    }
    /// What is counted of a run that stands for a policy: of constrained deadlines nothing more is
    /// shown than what is late.
    fn counts(self, outcome: &Outcome) -> Vec<u64> {
        let Outcome { preemptions, migrations, added, .. } = *outcome;
        match self {
            Self::Implicit => vec![preemptions, migrations],
            Self::Constrained => vec![],
            Self::Charged => vec![preemptions, migrations, added],
        }
    }
    /// The names of these counts.
    const fn counted(self) -> &'static str {
        match self {
            Self::Implicit => "preemptions/migrations",
            Self::Constrained => "",
            Self::Charged => "preemptions/migrations/millionths of a core that bounds add",
        }
    }
}

/// What is said before the lines: of which code, sets and costs they are.
fn head(part: Part, sets: usize, costs: &Costs) -> String {
    let places = part.places();
    let by = |place: &usize| format!("{} {}", CONTENDERS[*place].policy, CONTENDERS[*place].test);
    let mut text = format!(
        "# maracas reproduce comparison --seeds {sets} --out DIR, maracas {}: {}\n\
         # by: {}\n",
        env!("CARGO_PKG_VERSION"),
        part.said(),
        places.iter().map(by).collect::<Vec<_>>().join(", ")
    );
    if part == Part::Charged {
        text += &format!("# costs: {}\n", costs.said());
    }
    text += "cores,percent,set,jobs,outcomes";
    if !part.counted().is_empty() {
        for at in part.standing() {
            text += &format!(",{}", CONTENDERS[places[at]].policy);
        }
        text = text.replacen("\n# by", &format!("\n# of policies: {}\n# by", part.counted()), 1);
    }
    text + "\n"
}

/// The line of a set.
fn line(part: Part, (point, number): (Point, u64), outcomes: &[Outcome]) -> String {
    let jobs = outcomes.iter().map(|it| it.jobs).max().unwrap_or(0);
    let word = |it: &Outcome| match it.late {
        _ if !it.admitted => REFUSED,
        None => IN_TIME,
        Some(pattern) => char::from(b'0' + pattern),
    };
    let words: String = outcomes.iter().map(word).collect();
    let mut text = format!("{},{},{number},{jobs},{words}", point.cores, point.percent);
    for at in part.standing() {
        let counts = part.counts(&outcomes[at]);
        if counts.is_empty() {
            continue;
        }
        let shown: Vec<String> = counts.iter().map(u64::to_string).collect();
        text += ",";
        text += &if outcomes[at].admitted { shown.join("/") } else { String::new() };
    }
    text + "\n"
}

/// The file of a study.
pub(super) fn of(study: &Study, costs: &Costs) -> Record {
    let mut text = head(study.part, study.sets, costs);
    for (item, outcomes) in items(study.sets).into_iter().zip(&study.outcomes) {
        text += &line(study.part, item, outcomes);
    }
    Record { name: study.part.file(), text }
}

/// The study that was recorded for the documents, of which some sets ran again just now.
pub(super) fn recorded(lab: &Lab<'_>, part: Part, costs: &Costs) -> Result<Study, Error> {
    let study = read(part, part.text(), costs)?;
    again(lab, &study, &sample(part, study.sets), costs)?;
    Ok(study)
}

/// Runs these sets again; fails at the first that comes to something else.
fn again(
    lab: &Lab<'_>,
    study: &Study,
    sample: &[(Point, u64)],
    costs: &Costs,
) -> Result<(), Error> {
    let part = study.part;
    let ran = runs::of_all(lab, part, sample, costs)?;
    for (item, ran) in sample.iter().zip(ran) {
        let kept = items(study.sets).iter().position(|it| it == item);
        let kept = kept.map(|place| line(part, *item, &study.outcomes[place]));
        let (now, kept) = (line(part, *item, &ran), kept.unwrap_or_default());
        if now != kept {
            let (file, kept, now) = (part.file(), kept.trim_end(), now.trim_end());
            return Err(Error(format!("{file} has {kept}, and now it is {now}; {WAY_OUT}")));
        }
    }
    Ok(())
}

/// One set of each point, drawn once and for all.
fn sample(part: Part, sets: usize) -> Vec<(Point, u64)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(part as u64);
    points().map(|point| (point, random.next_u64() % sets.max(1) as u64)).collect()
}

/// Reads a file back; what it does not say byte for byte as [`of`] writes it is refused.
fn read(part: Part, text: &str, costs: &Costs) -> Result<Study, Error> {
    let file = part.file();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).skip(1).collect();
    let sets = lines.len() / points().count();
    let mut outcomes = Vec::new();
    for (line, (point, number)) in lines.iter().zip(items(sets)) {
        let wrong = |what| Error(format!("{file}: {line} {what}; {WAY_OUT}"));
        let outcome = outcomes_of(part, line).ok_or_else(|| wrong("cannot be read"))?;
        if !line.starts_with(&format!("{},{},{number},", point.cores, point.percent)) {
            return Err(wrong("is in another place"));
        }
        outcomes.push(outcome);
    }
    let study = Study { part, places: part.places(), sets, outcomes };
    let whole = of(&study, costs).text;
    if sets == 0 || whole != text {
        let mut both = text.lines().zip(whole.lines());
        let first = both.find(|(kept, whole)| kept != whole).map_or("its length", |it| it.0);
        return Err(Error(format!("{file} is of other code or costs, by {first}; {WAY_OUT}")));
    }
    Ok(study)
}

/// What a line says.
fn outcomes_of(part: Part, line: &str) -> Option<Vec<Outcome>> {
    let mut cells = line.split(',').skip(3);
    let jobs = cells.next()?.parse().ok()?;
    let outcome = |word: char| match word {
        REFUSED => Some(Outcome::default()),
        IN_TIME => Some(Outcome { jobs, ..Outcome::ADMITTED }),
        '0' | '1' => {
            let late = word.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
            Some(Outcome { jobs, late, ..Outcome::ADMITTED })
        }
        _ => None,
    };
    let mut outcomes: Vec<Outcome> = cells.next()?.chars().map(outcome).collect::<Option<_>>()?;
    for (at, cell) in part.standing().into_iter().zip(cells) {
        let mut counts = cell.split('/').map(str::parse::<u64>);
        let mut next = || counts.next().and_then(Result::ok).unwrap_or(0);
        let outcome = outcomes.get_mut(at)?;
        (outcome.preemptions, outcome.migrations, outcome.added) = (next(), next(), next());
    }
    (outcomes.len() == part.places().len()).then_some(outcomes)
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    fn costs() -> Costs {
        Costs::recorded_for_the_comparison().expect("they were recorded")
    }

    fn lab() -> Lab<'static> {
        Lab::new(2, None, &|_, _| {})
    }

    /// The text with what `change` makes of the line of a set in place of it.
    fn changed(part: Part, (point, number): (Point, u64), change: fn(&str) -> String) -> String {
        let begin = format!("{},{},{number},", point.cores, point.percent);
        let line = |line: &str| if line.starts_with(&begin) { change(line) } else { line.into() };
        part.text().lines().map(|it| line(it) + "\n").collect()
    }

    #[test]
    fn files_are_as_they_would_be_written() {
        for part in Part::ALL {
            let study = read(part, part.text(), &costs()).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(of(&study, &costs()).text, part.text(), "{part:?}");
            assert_eq!(study.outcomes.len(), 32 * study.sets);
        }
    }

    #[test]
    fn a_sample_has_one_set_of_each_point_and_is_the_same_again() {
        for part in Part::ALL {
            let own = sample(part, 100);
            assert_eq!(own, sample(part, 100));
            assert!(own.iter().map(|it| it.0).eq(points()));
            let far = own.iter().filter(|it| it.1 >= 50).count();
            assert!((8..=24).contains(&far) && own.iter().all(|it| it.1 < 100), "{own:?}");
        }
    }

    /// A file in which one outcome of a set of the sample is another is found out.
    #[test]
    fn a_changed_outcome_is_found_when_its_set_runs_again() {
        for part in Part::ALL {
            let as_kept = read(part, part.text(), &costs()).expect("it can be read");
            let item = sample(part, as_kept.sets)[0];
            again(&lab(), &as_kept, &[item], &costs()).unwrap_or_else(|why| panic!("{why}"));
            let text = changed(part, item, |line| line.replacen('+', "-", 1));
            let study = read(part, &text, &costs()).expect("it is as it would be written");
            let why = again(&lab(), &study, &[item], &costs()).expect_err("it is another").0;
            assert!(why.contains(&part.file()) && why.contains("and now it is"), "{why}");
        }
    }

    /// One of any other set is seen in the tables, which `docs/results.md` is held against.
    #[test]
    fn a_changed_outcome_is_seen_in_the_tables() {
        for part in Part::ALL {
            let point = Point { cores: 16, percent: 50 };
            let own = |item: &&(Point, u64)| item.0 == point;
            let kept = read(part, part.text(), &costs()).expect("it can be read");
            let again = sample(part, kept.sets).iter().find(own).map_or(0, |it| it.1);
            let other = (again + 1) % kept.sets as u64;
            let text = changed(part, (point, other), |it| it.replacen('+', "-", 1));
            let study = read(part, &text, &costs()).expect("it is as it would be written");
            let [kept, now] = [kept, study].map(|it| tables::of(&it).collect::<Vec<_>>());
            assert_ne!(kept, now, "{part:?}");
        }
    }

    #[test]
    fn what_is_no_file_of_this_code_is_refused() {
        let part = Part::Implicit;
        let refused = |text: &str| read(part, text, &costs()).expect_err("it is none").0;
        let item = (Point { cores: 4, percent: 90 }, 7);
        for change in [
            |line: &str| line.replacen('+', "?", 1),
            |line: &str| format!("{line},1"),
            |line: &str| line.replacen(",7,", ",8,", 1),
        ] {
            let why = refused(&changed(part, item, change));
            assert!(why.contains("4,90,") && why.contains("README.md"), "{why}");
        }
        assert!(refused("").contains("other code"));
        let part = Part::Charged;
        let text = part.text().replacen("# costs: ", "# costs: of yesterday, ", 1);
        assert!(read(part, &text, &costs()).is_err());
    }
}
