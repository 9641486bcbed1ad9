//! What a guest said, read: its steps (`init.sh` prints them), the run's report, the tests' lines.

use super::json::Json;
use std::collections::BTreeMap;

/// One step of a guest's plan.
#[derive(Debug, Default, Clone)]
pub(super) struct Step {
    pub(super) name: String,
    pub(super) out: String,
    pub(super) err: String,
    /// Its exit code; `None` where the guest did not get to its end.
    pub(super) code: Option<i32>,
    /// How long it took, in the guest's seconds.
    pub(super) seconds: f64,
}

/// What a guest said.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) steps: Vec<Step>,
    /// Cores that it had.
    pub(super) cores: Option<u32>,
    /// Lockups and stalls in the kernel's log, or on the console where the guest did not get to
    /// its end.
    pub(super) lockups: usize,
    /// What the kernel's log says of them.
    pub(super) kernel: Vec<String>,
    /// What `online` of the core read while it was off, and after it came back.
    pub(super) hotplug: Option<(u32, u32)>,
    /// It got to the end of its plan.
    pub(super) is_done: bool,
}

/// Where lines belong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Console,
    Out,
    Err,
    Kernel,
}

impl Outcome {
    /// Reads a guest's lines.
    pub(super) fn read(lines: &[String]) -> Self {
        let mut outcome = Self::default();
        let mut at = At::Console;
        for line in lines {
            let Some(mark) = line.strip_prefix("@@") else {
                outcome.take(line, at);
                continue;
            };
            let (word, rest) = mark.split_once(' ').unwrap_or((mark, ""));
            match word {
                "up" => outcome.cores = rest.split(' ').nth(1).and_then(|n| n.parse().ok()),
                "begin" => {
                    outcome.steps.push(Step { name: rest.into(), ..Step::default() });
                    at = At::Console;
                }
                "out" => at = At::Out,
                "err" => at = At::Err,
                "end" => {
                    if let Some(step) = outcome.steps.last_mut() {
                        step.read_end(rest);
                    }
                    at = At::Console;
                }
                "hotplug" => outcome.hotplug = pair(rest),
                "kernel" => {
                    outcome.lockups = rest.parse().unwrap_or(0);
                    at = At::Kernel;
                }
                "done" => outcome.is_done = true,
                _ => {}
            }
        }
        outcome
    }

    fn take(&mut self, line: &str, at: At) {
        let step = self.steps.last_mut();
        match (at, step) {
            (At::Out, Some(step)) => step.out.extend([line, "\n"]),
            (At::Err, Some(step)) => step.err.extend([line, "\n"]),
            (At::Kernel, _) if !self.is_done => self.kernel.push(line.into()),
            (At::Console, _) if line.contains("lockup") || line.contains("stall") => {
                self.lockups += 1;
                self.kernel.push(line.into());
            }
            _ => {}
        }
    }
}

impl Step {
    /// Takes in `NAME CODE BEGIN END`, where a name may have blanks.
    fn read_end(&mut self, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        if let [name @ .., code, begin, end] = words.as_slice() {
            self.name = name.join(" ");
            self.code = code.parse().ok();
            let second = |word: &str| word.parse::<f64>().unwrap_or(0.0);
            self.seconds = second(end) - second(begin);
        }
    }
}

/// What is printed of a guest while it goes on: each step when it begins, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The harness's count of the step's tests.
    counts: Option<String>,
}

impl Progress {
    /// Takes in a line; what is to be printed now, if anything.
    pub(super) fn take(&mut self, line: &str) -> Option<String> {
        if let Some(step) = line.strip_prefix("@@begin ") {
            self.counts = None;
            return Some(step.into());
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            // `ok. 3 passed; 1 failed; 0 ignored; ...`
            let counts = counts.split("; 0 ignored").next().unwrap_or(counts);
            // The first is the binary's own: what its tests started may have printed others.
            self.counts.get_or_insert_with(|| counts.replace(". ", ", "));
        }
        let ended = line.strip_prefix("@@end ")?;
        let mut step = Step::default();
        step.read_end(ended);
        let code = step.code.map_or_else(|| "no exit code".into(), |code| format!("exit {code}"));
        let came = self.counts.take().unwrap_or(code);
        Some(format!("{}: {came}, {:.0} s of the guest's", step.name, step.seconds))
    }
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (first, second) = text.split_once(' ')?;
    Some((first.parse().ok()?, second.parse().ok()?))
}

/// What one VCPU got.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Got {
    pub(super) name: String,
    /// Mean foreground time a period over C.
    pub(super) delivered: f64,
    /// Median of |delivered - C|, in us.
    pub(super) p50_us: f64,
    /// The same of one in a hundred; not in every report.
    pub(super) p99_us: Option<f64>,
}

/// What the report of `maracas run --json` says (docs/output.md).
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Report {
    pub(super) got: Vec<Got>,
    /// What agents took, in percent of a core.
    pub(super) agents: Option<f64>,
    /// How long the run took by its own clock.
    pub(super) seconds: f64,
    /// From a cause to what a decision put first, the median in us; not in every report.
    pub(super) dispatch_p50_us: Option<f64>,
    /// What has no column in the table, a line each.
    pub(super) figures: Vec<String>,
}

impl Report {
    /// Reads a report. `None` where the text is none.
    pub(super) fn read(text: &str) -> Option<Self> {
        let json = Json::read(text.trim())?;
        let seconds = json.get("duration_ns")?.number()? / 1e9;
        let agents = json.get("agents_ns").and_then(Json::number);
        let got = json.get("tasks")?.list().iter().map(|task| {
            let delivered = task.get("delivered")?;
            let mean = delivered.get("mean_ns")?.number()?;
            Some(Got {
                name: task.get("name")?.text()?.into(),
                delivered: mean / task.get("budget_ns")?.number()?,
                p50_us: delivered.get("error_p50_ns")?.number()? / 1e3,
                p99_us: delivered.get("error_p99_ns").and_then(Json::number).map(|ns| ns / 1e3),
            })
        });
        let got = got.collect::<Option<_>>()?;
        let agents = agents.map(|ns| ns / 1e7 / seconds);
        let dispatch = json.get("dispatch").and_then(|it| it.get("latency_p50_ns")?.number());
        let dispatch_p50_us = dispatch.map(|ns| ns / 1e3);
        Some(Self { got, agents, seconds, dispatch_p50_us, figures: Vec::new() })
    }
}

/// What test binaries said.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tests {
    pub(super) passed: usize,
    /// Tests that failed, as `binary::test: why`; also a binary that did not come to its end.
    pub(super) failed: Vec<String>,
    /// How many tests were skipped, by reason.
    pub(super) skipped: BTreeMap<String, usize>,
}

impl Tests {
    /// Reads what a test binary printed with `--nocapture --test-threads=1`, and adds it up. A
    /// test that said `skipped: ` counts as that, whatever the harness says of it.
    pub(super) fn read(&mut self, step: &Step) {
        let binary = step.name.trim_start_matches("tests ");
        // A test that is skipped says so on either stream, and which test it was is not known
        // from standard error: the reasons are counted there, one for each line.
        let mut result = None;
        let mut is_list = false;
        for line in step.out.lines() {
            if let Some(counts) = line.strip_prefix("test result: ") {
                result = Some(counts);
            } else if line == "failures:" {
                is_list = true;
            } else if let Some(name) = line.strip_prefix("    ").filter(|_| is_list)
                && !name.contains(' ')
            {
                self.failed.push(format!("{binary}::{name}{}", reason(&step.err, name)));
            }
        }
        let mut skips = 0;
        for line in step.out.lines().chain(step.err.lines()) {
            if let Some((_, reason)) = line.split_once("skipped: ") {
                *self.skipped.entry(reason.trim().into()).or_default() += 1;
                skips += 1;
            }
        }
        let count = |what: &str| {
            let counts = result?.split([';', '.']).find(|part| part.ends_with(what))?;
            counts.split_whitespace().next()?.parse::<usize>().ok()
        };
        match (count(" passed"), step.code) {
            (Some(passed), Some(0 | 101)) => self.passed += passed.saturating_sub(skips),
            (_, Some(137)) => self.failed.push(format!("{binary} (not done in its time)")),
            (_, code) => {
                let code = code.map_or_else(|| "none".into(), |code: i32| code.to_string());
                self.failed.push(format!("{binary} (ended early, exit code {code})"));
            }
        }
    }
}

/// Why a test failed: the line below `thread 'NAME' (NUMBER) panicked at PLACE:`.
fn reason(err: &str, name: &str) -> String {
    let head = format!("thread '{name}' ");
    let mut lines = err.lines().skip_while(|line| !line.starts_with(&head));
    lines.nth(1).map_or_else(String::new, |line| format!(": {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Progress, Report, Step, Tests};

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(Into::into).collect()
    }

    #[test]
    fn steps_are_read_with_both_streams_and_codes() {
        let text = "noise\n@@up 6.1.0 2\n@@begin run\n@@out\n{}\n\n@@err\nwhy\n\n\
                    @@end run 4 1.50 7.25\n@@hotplug 0 1\n@@kernel 1\nsoft lockup\n@@done\npower";
        let outcome = Outcome::read(&lines(text));
        let step = &outcome.steps[0];
        assert_eq!((step.name.as_str(), step.code, step.seconds), ("run", Some(4), 5.75));
        assert_eq!((step.out.trim(), step.err.trim()), ("{}", "why"));
        assert_eq!((outcome.cores, outcome.hotplug), (Some(2), Some((0, 1))));
        assert_eq!((outcome.lockups, outcome.is_done), (1, true));
        assert_eq!(outcome.kernel, ["soft lockup"]);
    }

    #[test]
    fn steps_are_reported_as_they_begin_and_end() {
        let mut progress = Progress::default();
        let text = "noise\n@@begin doctor\n@@end doctor 1 1.00 3.00\n@@begin tests live\n\
                    test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured\n\
                    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n\
                    @@end tests live 101 3.00 63.40";
        let reported: Vec<_> = text.lines().filter_map(|line| progress.take(line)).collect();
        let expected = [
            "doctor",
            "doctor: exit 1, 2 s of the guest's",
            "tests live",
            "tests live: FAILED, 2 passed; 1 failed, 60 s of the guest's",
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn a_guest_that_hangs_leaves_a_step_without_code_and_its_lockups() {
        let text = "@@up 6.1.0 2\n@@begin run\nwatchdog: BUG: soft lockup - CPU#0 stuck\n";
        let outcome = Outcome::read(&lines(text));
        assert_eq!((outcome.steps[0].code, outcome.lockups, outcome.is_done), (None, 1, false));
    }

    #[test]
    fn a_report_gives_parts_of_the_budget_and_of_a_core() {
        let text = r#"{"duration_ns": 5000000000, "agents_ns": 500000000, "tasks": [{"name": "a",
            "budget_ns": 2000000, "delivered": {"mean_ns": 2010000.0, "error_p50_ns": 1500}}]}"#;
        let report = Report::read(text).unwrap();
        assert_eq!(report.agents, Some(10.0));
        let got = &report.got[0];
        assert_eq!((got.delivered, got.p50_us, got.name.as_str()), (1.005, 1.5, "a"));
        assert_eq!(Report::read("maracas: no"), None);
    }

    #[test]
    fn tests_are_counted_with_failures_and_skips() {
        let out = "running 3 tests\ntest a ... ok\ntest b ... skipped: needs two cores\nok\n\
                   test c ... FAILED\n\nfailures:\n\nfailures:\n    m::c\n\n\
                   test result: FAILED. 2 passed; 1 failed; 0 ignored; finished in 0.1s\n";
        let mut step = Step { name: "tests live".into(), out: out.into(), ..Step::default() };
        step.err = "x\n\nthread 'm::c' (7) panicked at a.rs:1:2:\nmean 3 of 4\nnote\n".into();
        step.code = Some(101);
        let mut tests = Tests::default();
        tests.read(&step);
        assert_eq!(
            (tests.passed, &tests.failed),
            (1, &vec!["live::m::c: mean 3 of 4".to_string()])
        );
        assert_eq!(tests.skipped["needs two cores"], 1);
    }

    #[test]
    fn a_binary_that_does_not_end_is_a_failure() {
        let mut step = Step { name: "tests live".into(), code: Some(137), ..Step::default() };
        let mut tests = Tests::default();
        tests.read(&step);
        step.code = Some(134);
        tests.read(&step);
        step.code = None;
        tests.read(&step);
        assert_eq!((tests.passed, tests.failed.len()), (0, 3));
        assert!(tests.failed[0].contains("time"), "{:?}", tests.failed);
    }
}
