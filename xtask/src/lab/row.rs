//! What a guest came to: its row in the table, and what is wrong with it.

use super::hour;
use super::json::quoted;
use super::kernel_live;
use super::machine::Said;
use super::outcome::{Outcome, Report, Tests};
use super::scenario::{BROKEN, Scenario, Work};
use super::sched_ext;
use std::fmt::Write as _;

/// How long the run in a guest is, in seconds.
pub(super) const SECONDS: f64 = 5.0;
/// How much longer it may take by its own clock, in seconds.
const OVERRUN: f64 = 1.0;
/// The median error that is allowed on PREEMPT_RT, in us; there is no other alarm than the
/// agents' own sleep, which is a hard timer.
const RT_P50_US: f64 = 300.0;
/// How far a mean may be off C, in percent, where the run says by exit code 0 that all promises
/// were kept.
const KEPT: f64 = 0.5;
/// Lines of a hung guest that are shown.
const LAST: usize = 12;

/// A row.
#[derive(Debug, Default)]
pub(super) struct Row {
    scenario: String,
    kernel: String,
    mode: String,
    cores: u32,
    wall: f64,
    doctor: Option<i32>,
    exit: Option<i32>,
    /// Of the run whose means are furthest from C.
    report: Option<Report>,
    /// Median of all runs, in percent of a core.
    agents: Option<f64>,
    tests: Option<Tests>,
    lockups: usize,
    /// What is not as expected.
    pub(super) problems: Vec<String>,
}

/// How far the worst mean is off C, in percent.
fn off(report: &Report) -> f64 {
    report.got.iter().map(|got| (got.delivered - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

/// An exit code in words: `timeout` in a guest kills by SIGKILL, 128 + 9.
fn code(code: Option<i32>) -> String {
    match code {
        Some(137) => "killed, as it was not done in its time".into(),
        Some(code) => format!("exit code {code}"),
        None => "no exit code".into(),
    }
}

impl Row {
    /// A guest that could not be booted at all.
    pub(super) fn failed(scenario: &Scenario, kernel: &str, why: String) -> Self {
        let (name, mode) = (scenario.name.into(), scenario.mode());
        let (kernel, cores, problems) = (kernel.into(), scenario.cores, vec![why]);
        Self { scenario: name, kernel, mode, cores, problems, ..Self::default() }
    }

    /// Judges what a guest said.
    pub(super) fn of(scenario: &Scenario, kernel: &str, said: &Said) -> Self {
        let outcome = Outcome::read(&said.lines);
        let mut row = Self::failed(scenario, kernel, String::new());
        row.problems.clear();
        row.wall = said.wall.as_secs_f64();
        row.lockups = outcome.lockups;
        row.came_to_its_end(&outcome, said);
        row.runs(scenario, &outcome);
        match scenario.work {
            Work::Quickstart(_) => {}
            Work::Tests => row.tests(&outcome),
            Work::SchedExt => row.sched_ext(scenario, &outcome),
            Work::KernelLive => {
                let (figures, problems) = kernel_live::judge(&outcome.steps);
                row.report = Some(Report { figures, ..Report::default() });
                row.problems.extend(problems);
            }
            Work::Hour => {
                let (report, problems) = hour::judge(&outcome.steps);
                row.agents = report.as_ref().and_then(|report| report.agents);
                row.report = report;
                row.problems.extend(problems);
            }
        }
        if scenario.hotplug && outcome.is_done && outcome.hotplug != Some((0, 1)) {
            row.problems.push("core 1 did not go off line and come back".into());
        }
        if let Some(cores) = outcome.cores.filter(|cores| *cores != scenario.cores) {
            row.problems.push(format!("{cores} cores came up"));
        }
        if row.lockups > 0 {
            let first = outcome.kernel.first().map_or("", String::as_str);
            row.problems.push(format!("the kernel's log has {} lockups: {first}", row.lockups));
        }
        row
    }

    fn came_to_its_end(&mut self, outcome: &Outcome, said: &Said) {
        if outcome.is_done {
            return;
        }
        let open = outcome.steps.iter().rfind(|step| step.code.is_none());
        let place = open.map_or_else(String::new, |step| format!(" in {}", step.name));
        let what = match (outcome.cores, said.is_late) {
            (None, _) => "the kernel did not start its first process".into(),
            (_, true) => format!("stuck{place}: ended after {:.0} s", self.wall),
            (_, false) => format!("the guest ended{place}, before its plan"),
        };
        let last = &said.lines[said.lines.len().saturating_sub(LAST)..];
        self.problems.push(format!("{what}; it said last\n      {}", last.join("\n      ")));
    }

    fn runs(&mut self, scenario: &Scenario, outcome: &Outcome) {
        let mut agents = Vec::new();
        for step in outcome.steps.iter().filter(|step| step.code.is_some()) {
            let last = step.err.lines().rfind(|line| !line.is_empty()).unwrap_or("").to_string();
            if step.name == "doctor" {
                self.doctor = step.code;
                if !matches!(step.code, Some(0 | 1 | 3)) {
                    self.problems.push(format!("doctor: {}: {last}", code(step.code)));
                }
            } else if step.name == "run" {
                self.exit = step.code;
                let report = Report::read(&step.out);
                if !matches!(step.code, Some(0 | BROKEN)) {
                    self.problems.push(format!("run: {}: {last}", code(step.code)));
                } else if report.is_none() {
                    self.problems.push(format!("run: no report: {last}"));
                }
                if let Some(report) = report {
                    agents.extend(report.agents);
                    self.judge(scenario, &report);
                    if step.code == Some(0) && off(&report) > KEPT {
                        let off = off(&report);
                        let problem = format!("exit code 0, but a mean is {off:.1} % off C");
                        self.problems.push(problem);
                    }
                    if self.report.as_ref().is_none_or(|worst| off(worst) < off(&report)) {
                        self.report = Some(report);
                    }
                }
            }
        }
        agents.sort_by(f64::total_cmp);
        self.agents = agents.get(agents.len() / 2).copied();
        if let (Some(most), Some(agents)) = (scenario.agents, self.agents)
            && agents > most
        {
            self.problems.push(format!("agents take {agents:.1} % of a core, above {most} %"));
        }
    }

    fn judge(&mut self, scenario: &Scenario, report: &Report) {
        let asked = if scenario.work == Work::SchedExt { sched_ext::SECONDS } else { SECONDS };
        if report.seconds > asked + OVERRUN {
            self.problems.push(format!("the run took {:.1} of {asked} s", report.seconds));
        }
        for got in &report.got {
            let off = (got.delivered - 1.0) * 100.0;
            if let Some(most) = scenario.mean.filter(|most| off.is_nan() || off.abs() > *most) {
                self.problems.push(format!("{}: mean {off:+.3} % off C, above {most} %", got.name));
            }
            let is_rt = scenario.mean.is_some() && self.kernel.ends_with("-rt");
            if is_rt && got.p50_us > RT_P50_US {
                let (name, p50) = (&got.name, got.p50_us);
                self.problems.push(format!("{name}: p50 {p50:.0} us, above {RT_P50_US} us"));
            }
        }
    }

    fn sched_ext(&mut self, scenario: &Scenario, outcome: &Outcome) {
        let (report, problems) = sched_ext::judge(&outcome.steps);
        self.problems.extend(problems);
        if let Some(report) = report {
            self.judge(scenario, &report);
            self.report = Some(report);
        }
        let (report, problems) = sched_ext::judge_run(&outcome.steps);
        self.problems.extend(problems);
        if let Some(report) = report {
            self.judge(scenario, &report);
            self.agents = report.agents;
            self.report = Some(report);
        }
    }

    fn tests(&mut self, outcome: &Outcome) {
        let mut tests = Tests::default();
        for step in outcome.steps.iter().filter(|step| step.name.starts_with("tests ")) {
            tests.read(step);
        }
        for name in &tests.failed {
            self.problems.push(format!("test failed: {name}"));
        }
        if tests.passed == 0 {
            self.problems.push("no test passed".into());
        }
        self.tests = Some(tests);
    }

    fn cells(&self) -> [String; 12] {
        let number = |n: Option<i32>| n.map_or_else(|| "-".into(), |n| n.to_string());
        let got = |cell: fn(&super::outcome::Got) -> String| {
            let report = self.report.as_ref().filter(|report| !report.got.is_empty());
            let cells = |report: &Report| report.got.iter().map(cell).collect::<Vec<_>>().join(" ");
            report.map_or_else(|| "-".into(), cells)
        };
        let tests = self.tests.as_ref().map_or_else(
            || "-".into(),
            |tests| {
                let skipped: usize = tests.skipped.values().sum();
                format!("{}/{}/{skipped}", tests.passed, tests.failed.len())
            },
        );
        [
            self.scenario.clone(),
            self.kernel.clone(),
            self.mode.clone(),
            self.cores.to_string(),
            format!("{:.0}", self.wall),
            number(self.doctor),
            number(self.exit),
            got(|got| format!("{:.4}", got.delivered)),
            got(|got| format!("{:.0}", got.p50_us)),
            self.agents.map_or_else(|| "-".into(), |agents| format!("{agents:.1}")),
            tests,
            self.lockups.to_string(),
        ]
    }

    /// As an object of `--json`.
    fn json(&self) -> String {
        let (scenario, kernel, mode) = (&self.scenario, &self.kernel, &self.mode);
        let texts = [("scenario", scenario), ("kernel", kernel), ("mode", mode)];
        let tests = self.tests.as_ref();
        let numbers = [
            ("cores", Some(f64::from(self.cores))),
            ("wall_s", Some(self.wall)),
            ("doctor", self.doctor.map(f64::from)),
            ("exit", self.exit.map(f64::from)),
            ("agents_percent", self.agents),
            ("passed", tests.map(|tests| tests.passed as f64)),
            ("failed", tests.map(|tests| tests.failed.len() as f64)),
            ("lockups", Some(self.lockups as f64)),
        ];
        let mut out = String::from("{");
        for (key, text) in texts {
            let _ = write!(out, "\"{key}\": {}, ", quoted(text));
        }
        for (key, number) in numbers {
            let number = number.map_or_else(|| "null".into(), |number| number.to_string());
            let _ = write!(out, "\"{key}\": {number}, ");
        }
        let report = self.report.as_ref();
        let got = report.map_or(&[][..], |report| &report.got).iter().map(|got| {
            let (name, delivered, p50) = (quoted(&got.name), got.delivered, got.p50_us);
            format!("{{\"name\": {name}, \"delivered\": {delivered:.6}, \"p50_us\": {p50:.3}}}")
        });
        let skipped = self.tests.iter().flat_map(|tests| &tests.skipped);
        let skipped = skipped.map(|(reason, n)| format!("{}: {n}", quoted(reason)));
        let problems = self.problems.iter().map(|problem| quoted(problem));
        let figures = report.map_or(&[][..], |report| &report.figures).iter();
        let figures = figures.map(|figure| quoted(figure));
        let list = |parts: Vec<String>| parts.join(", ");
        let _ = write!(
            out,
            "\"vcpus\": [{}], \"skipped\": {{{}}}, \"figures\": [{}], \"problems\": [{}]}}",
            list(got.collect()),
            list(skipped.collect()),
            list(figures.collect()),
            list(problems.collect())
        );
        out
    }
}

const HEADS: [&str; 12] = [
    "scenario",
    "kernel",
    "mode",
    "cores",
    "wall s",
    "doctor",
    "exit",
    "delivered/C",
    "err p50 us",
    "agents %",
    "pass/fail/skip",
    "lockups",
];
/// All rows as one JSON list. Figures are in full, `null` where there is none.
pub(super) fn json(rows: &[Row]) -> String {
    let rows: Vec<String> = rows.iter().map(|row| format!("  {}", row.json())).collect();
    format!("[\n{}\n]", rows.join(",\n"))
}

/// The table, then what is wrong, then what was skipped.
pub(super) fn table(rows: &[Row]) -> String {
    let cells: Vec<[String; 12]> = rows.iter().map(Row::cells).collect();
    let width = |i: usize| {
        let widest = cells.iter().map(|row| row[i].len()).max().unwrap_or(0);
        widest.max(HEADS[i].len())
    };
    let mut out = String::new();
    let heads = HEADS.map(String::from);
    for (row, judged) in
        std::iter::once((&heads, "")).chain(cells.iter().zip(rows.iter().map(Row::word)))
    {
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(out, "{cell:<width$}  ", width = width(i));
        }
        let _ = writeln!(out, "{judged}");
    }
    for row in rows {
        for figure in row.report.iter().flat_map(|report| &report.figures) {
            let _ = writeln!(out, "{} on {}: {figure}", row.scenario, row.kernel);
        }
        for problem in &row.problems {
            let _ = writeln!(out, "{} on {}: {problem}", row.scenario, row.kernel);
        }
    }
    for row in rows {
        for (reason, n) in row.tests.iter().flat_map(|tests| &tests.skipped) {
            let _ = writeln!(out, "{} on {}: {n} skipped: {reason}", row.scenario, row.kernel);
        }
    }
    out
}

impl Row {
    fn word(&self) -> &'static str {
        if self.problems.is_empty() { "as expected" } else { "FAILED" }
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
