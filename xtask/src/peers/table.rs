//! What the bench found: every run as a line, and the tables.

use super::sets::Case;
use super::sides::Answer;
use super::{COUNTERS, Extent, SCHEDCAT, SIDES, SIMSO, TABLE};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// SchedCAT's rate in the reference ([`Case::is_reference`]), in jobs a second, beside which the
/// aims without a ratio of their own were set.
const REFERENCE: f64 = 3.5e6;
/// These aims: policy, load, and millions of jobs a second with counters.
const AIMS: [(&str, u64, f64); 3] = [("p-edf", 90, 5.0), ("run", 100, 1.0), ("qps", 100, 0.7)];

/// One case, warm or cold: the answers of each side, round by round. A side that cannot simulate
/// the case has none, and why.
pub(super) struct Row {
    case: Case,
    state: &'static str,
    answers: [Vec<Answer>; SIDES.len()],
    /// Our rate with counters to SchedCAT's in the reference, right after.
    beside: Vec<f64>,
    failed: [Option<String>; SIDES.len()],
    /// What else is to be said of it.
    notes: Vec<String>,
}

/// Least, median and most.
type Middle = [f64; 3];

impl Row {
    pub(super) fn new(case: &Case, state: &'static str) -> Self {
        let (answers, failed) = Default::default();
        let (beside, notes) = Default::default();
        Self { case: case.clone(), state, answers, beside, failed, notes }
    }

    /// Takes an answer down.
    pub(super) fn note(&mut self, side: usize, answer: Result<Answer, String>) {
        match answer {
            Ok(answer) => self.answers[side].push(answer),
            Err(why) => self.failed[side] = Some(why),
        }
    }

    /// Takes our answer down beside SchedCAT's in the reference, if there are both.
    pub(super) fn note_beside(&mut self, answers: Option<(&Answer, &Answer)>) {
        self.beside.extend(answers.map(|(ours, theirs)| rate(ours) / rate(theirs)));
    }

    /// What it aims at where SchedCAT is as fast as the reference, if it has such an aim.
    fn aim(&self) -> Option<f64> {
        let own = |(policy, load, _): &&(&str, u64, f64)| {
            (*policy, *load) == (self.case.policy, self.case.load)
        };
        AIMS.iter().find(own).map(|(.., aim)| *aim).filter(|_| self.state == "warm")
    }
    /// Whether it has one.
    pub(super) fn has_aim(&self) -> bool {
        self.aim().is_some()
    }

    fn name(&self) -> String {
        format!("{}, {}", self.case.name(), self.state)
    }

    /// Whether all sides simulated the same.
    ///
    /// # Errors
    /// Where a side simulated other jobs than ours.
    pub(super) fn check(&mut self) -> Result<(), String> {
        let first = |side: usize| self.answers[side].first().map(|answer| (answer[0], answer[1]));
        let Some((jobs, late)) = first(COUNTERS) else { return Ok(()) };
        // A warm SimSo simulates less. SchedCAT counts a job when it is complete, and goes on to
        // the first event beyond the end.
        let slack = [0.01 * jobs + self.case.tasks as f64, 0.0];
        let cold = self.state == "cold";
        let mut notes = Vec::new();
        for (side, compared) in [(SCHEDCAT, true), (SIMSO, cold)] {
            let Some((their_jobs, their_late)) = first(side).filter(|_| compared) else { continue };
            let (name, side) = (SIDES[side], side);
            if (their_jobs - jobs).abs() > slack[side] {
                let what = self.name();
                return Err(format!("{what}: {their_jobs} jobs in {name} and {jobs} in ours"));
            }
            if (their_late - late).abs() > slack[side] {
                notes.push(format!("late jobs: {their_late} in {name}, {late} in ours"));
            }
        }
        self.notes.extend(notes);
        Ok(())
    }

    /// Each run as a line.
    pub(super) fn csv(&self, periods: &str) -> String {
        let Case { policy, load, tasks, cores, .. } = &self.case;
        let mut text = String::new();
        for (side, answers) in SIDES.into_iter().zip(&self.answers) {
            for (round, answer) in answers.iter().enumerate() {
                let [jobs, late, seconds] = [answer[0], answer[1], answer[2]];
                let _ = writeln!(
                    text,
                    "{policy},{load},{tasks},{cores},{periods},{},{side},{},{jobs},{late},\
                     {seconds:.9}",
                    self.state,
                    round + 1
                );
            }
        }
        text
    }

    fn rates(&self, side: usize) -> Vec<f64> {
        self.answers[side].iter().map(rate).collect()
    }

    /// Our rate to theirs, round by round.
    fn ratio(&self, ours: usize, theirs: usize) -> Option<Middle> {
        let (ours, theirs) = (self.rates(ours), self.rates(theirs));
        middle(ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect())
    }

    fn head(&self) -> String {
        let Case { policy, load, tasks, cores, .. } = &self.case;
        format!("| {policy}, {load} %, {} | {tasks} on {cores}", self.state)
    }
}

/// Jobs a second.
fn rate(answer: &Answer) -> f64 {
    answer[0] / answer[2]
}

fn middle(mut all: Vec<f64>) -> Option<Middle> {
    all.sort_by(f64::total_cmp);
    Some([*all.first()?, all[all.len() / 2], *all.last()?])
}

/// `MEDIAN (LEAST to MOST)`, with three significant digits; `-` where there is none.
fn cell(middle: Option<Middle>, unit: f64) -> String {
    let Some(values) = middle else { return "-".into() };
    let digits = match values[1] / unit {
        median if median >= 100.0 => 0,
        median if median >= 10.0 => 1,
        _ => 2,
    };
    let [least, median, most] = values.map(|value| format!("{:.digits$}", value / unit));
    format!("{median} ({least} to {most})")
}

/// The tables, what is to be said of them, and the aims.
pub(super) fn text(rows: &[Row], extent: &Extent, periods: &str) -> String {
    let mut text = String::from(
        "| policy, load | tasks on cores | SchedCAT | SimSo, thousands | counters | table \
         | table, journal, trace |\n|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let _ = write!(text, "{}", row.head());
        for side in 0..SIDES.len() {
            let unit = if side == SIMSO { 1e3 } else { 1e6 };
            let _ = write!(text, " | {}", cell(middle(row.rates(side)), unit));
        }
        text += " |\n";
    }
    let _ = write!(
        text,
        "\nMillions of jobs a second of CPU time, of SimSo thousands: the median of {} rounds, \
         least and most;\n{periods} periods. Warm runs have {} jobs, of SimSo {}, cold ones {}. \
         Under p-edf SchedCAT simulates\ncore by core, by our partition, and utilizations at 100 % \
         are a half, a quarter, ..., so that they can be packed.\n\n",
        extent.rounds, extent.warm, extent.simso, extent.cold
    );
    text += "| ours to theirs | tasks on cores | counters to SchedCAT | table to SchedCAT \
             | table to SimSo |\n|---|---|---|---|---|\n";
    for row in rows {
        let pairs = [(COUNTERS, SCHEDCAT), (TABLE, SCHEDCAT), (TABLE, SIMSO)];
        let ratios = pairs.map(|(ours, theirs)| row.ratio(ours, theirs));
        if ratios.iter().any(Option::is_some) {
            let [counters, table, simso] = ratios.map(|ratio| cell(ratio, 1.0));
            let _ = writeln!(text, "{} | {counters} | {table} | {simso} |", row.head());
        }
    }
    text + &remarks(rows) + &aims(rows)
}

/// Why rows are empty, and where sides differ; each once, by policy where it is so in all its rows.
fn remarks(rows: &[Row]) -> String {
    let mut remarks: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let failed = SIDES.iter().zip(&row.failed);
        let failed = failed.filter_map(|(side, why)| Some(format!("no {side}: {}", why.as_ref()?)));
        for remark in failed.chain(row.notes.iter().cloned()) {
            remarks.entry(remark).or_default().push(row);
        }
    }
    let mut text = String::from("\n");
    for (remark, concerned) in remarks {
        let all = |policy| {
            let of = |rows: &[&Row]| rows.iter().filter(|row| row.case.policy == policy).count();
            of(&concerned) == of(&rows.iter().collect::<Vec<_>>())
        };
        let mut names = Vec::new();
        for row in &concerned {
            let policy = row.case.policy;
            let name = if all(policy) { policy.to_string() } else { row.name() };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let _ = writeln!(text, "- {remark} ({})", names.join("; "));
    }
    text
}

/// What was aimed at, and what came of it.
fn aims(rows: &[Row]) -> String {
    let mut text = String::from("\n| aim, warm | tasks on cores | is |\n|---|---|---|\n");
    for row in rows.iter().filter(|row| row.state == "warm") {
        let aims: &[(usize, f64)] = match (row.case.policy, row.case.load) {
            ("g-edf", 90) => &[(TABLE, 1.0), (COUNTERS, 1.5)],
            _ => &[],
        };
        for &(side, aim) in aims {
            let is = row.ratio(side, SCHEDCAT).map(|ratio| ratio[1]);
            let (name, size) = (SIDES[side], size(row));
            let _ = writeln!(
                text,
                "| g-edf, {name} to SchedCAT: at least {aim} | {size} | {} |",
                said(is, aim, 2)
            );
        }
    }
    for (row, aim) in rows.iter().filter_map(|row| row.aim().map(|aim| (row, aim))) {
        let Case { policy, load, .. } = row.case;
        let scaled = middle(row.beside.iter().map(|ratio| ratio * REFERENCE / 1e6).collect());
        let range = scaled
            .map_or_else(String::new, |[least, _, most]| format!(" ({least:.2} to {most:.2})"));
        let _ = writeln!(
            text,
            "| {policy}, {load} %, counters where SchedCAT does 3.5 million: at least {aim} \
             million | {} | {}{range} |",
            size(row),
            said(scaled.map(|all| all[1]), aim, 2)
        );
    }
    let medians = rows.iter().filter_map(|row| row.ratio(TABLE, SIMSO));
    let is = middle(medians.map(|ratio| ratio[1]).collect()).map(|all| all[1]);
    let _ = writeln!(
        text,
        "| table to SimSo, median of all rows, cold ones too: at least 1000 | all | {} |",
        said(is, 1_000.0, 0)
    );
    text
}

fn size(row: &Row) -> String {
    format!("{} on {}", row.case.tasks, row.case.cores)
}

/// A figure beside its aim.
fn said(is: Option<f64>, aim: f64, digits: usize) -> String {
    let Some(is) = is else { return "not measured".into() };
    format!("{is:.digits$}, {}", if is >= aim { "met" } else { "missed" })
}

#[cfg(test)]
mod tests {
    use super::super::{WHOLE, sets};
    use super::*;

    /// A warm row of g-edf, 20 on 4, 90 %, with these seconds of a million jobs.
    fn row(schedcat: &[f64], table: &[f64]) -> Row {
        let cases = sets::cases(&[(20, 4)], "log-uniform");
        let case = cases.iter().find(|case| (case.policy, case.load) == ("g-edf", 90)).unwrap();
        let mut row = Row::new(case, "warm");
        for (side, seconds) in [(SCHEDCAT, schedcat), (TABLE, table)] {
            for seconds in seconds {
                row.note(side, Ok(vec![1e6, 0.0, *seconds]));
            }
        }
        row
    }

    #[test]
    fn rounds_become_tables() {
        let mut row = row(&[0.25, 0.25, 0.2], &[0.5, 0.25, 0.125]);
        row.note(SIMSO, Err("no packing".into()));
        let text = text(&[row], &WHOLE, "log-uniform");
        let rates = "| g-edf, 90 %, warm | 20 on 4 | 4.00 (4.00 to 5.00) | - | - \
                     | 4.00 (2.00 to 8.00) | - |\n";
        assert!(text.contains(rates), "{text}");
        let ratios = "| g-edf, 90 %, warm | 20 on 4 | - | 1.00 (0.50 to 1.60) | - |\n";
        assert!(text.contains(ratios), "{text}");
        assert!(text.contains("- no SimSo: no packing (g-edf)\n"), "{text}");
        assert!(text.contains("table to SchedCAT: at least 1 | 20 on 4 | 1.00, met |"), "{text}");
        assert!(text.contains("at least 1000 | all | not measured |"), "{text}");
    }

    #[test]
    fn an_aim_without_a_ratio_is_scaled_round_by_round() {
        let cases = sets::cases(&[(20, 4)], "log-uniform");
        let case = cases.iter().find(|case| (case.policy, case.load) == ("qps", 100)).unwrap();
        let [mut warm, cold] = ["warm", "cold"].map(|state| Row::new(case, state));
        assert!(warm.has_aim() && !cold.has_aim());
        assert_eq!(cases.iter().filter(|case| case.is_reference()).count(), 1);
        // The host is at half its speed in the second round.
        for (ours, theirs) in [(1.25, 0.25), (2.0, 0.5), (1.0, 0.2)] {
            warm.note_beside(Some((&vec![1e6, 0.0, ours], &vec![1e6, 0.0, theirs])));
        }
        let text = text(&[warm], &WHOLE, "log-uniform");
        let aim = "at least 0.7 million | 20 on 4 | 0.70, met (0.70 to 0.88) |";
        assert!(text.contains(aim), "{text}");
    }

    #[test]
    fn remarks_name_a_policy_or_its_rows() {
        let [mut one, two] = [row(&[0.25], &[]), row(&[0.25], &[])];
        one.note(SIMSO, Err("no packing".into()));
        let text = remarks(&[one, two]);
        assert_eq!(text, "\n- no SimSo: no packing (g-edf, 90 %, 20 on 4, warm)\n");
    }

    #[test]
    fn sides_that_simulate_other_jobs_are_found() {
        let mut row = row(&[0.25], &[]);
        row.note(COUNTERS, Ok(vec![1e6 - 10_100.0, 0.0, 1.0]));
        assert!(row.check().unwrap_err().contains("jobs in SchedCAT"));
        row.answers[COUNTERS][0] = vec![1e6 - 9_000.0, 50_000.0, 1.0];
        row.check().unwrap();
        assert_eq!(row.notes, ["late jobs: 0 in SchedCAT, 50000 in ours"]);
    }

    #[test]
    fn a_run_becomes_a_line() {
        let line = row(&[0.25], &[]).csv("automotive");
        assert_eq!(line, "g-edf,90,20,4,automotive,warm,SchedCAT,1,1000000,0,0.250000000\n");
    }
}
