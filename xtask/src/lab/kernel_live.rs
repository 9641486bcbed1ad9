//! Runs by the scheduler in the kernel and what befalls them, in a guest: hostile programs, storms,
//! kills, a core that goes; jobs under global policies, and cores that are held to allowances of
//! page faults in place of reads of memory, beside agents in the same boot.
//!
//! `kernel-live.sh` acts, one case a step; what it says is judged here.

mod memory;

use super::image::Image;
use super::json::Json;
use super::outcome::Step;
use std::fmt::Write as _;
use std::path::Path;

/// What acts in the guest.
const SCRIPT: &str = include_str!("kernel-live.sh");
/// Two programs, one on each core, that get no surplus time, so that what is killed with them has
/// threads without a budget; or the first alone.
const PLAIN: &str = include_str!("kernel-live/plain.toml");
const ONE: &str = include_str!("kernel-live/one.toml");
/// A program that does what it can to get more, with a neighbour on each core.
const HOSTILE: &str = include_str!("kernel-live/hostile.toml");
const HOSTILE_PROGRAM: &str = include_str!("kernel-live/hostile.sh");
/// A program that does nothing but fork, beside a neighbour.
const STORM: &str = include_str!("kernel-live/storm.toml");
/// A program that becomes another one again and again, beside a neighbour.
const EXEC: &str = include_str!("kernel-live/exec.toml");
const EXEC_PROGRAM: &str =
    "#!/bin/sh\nn=0\nwhile [ $n -lt 200 ]; do n=$((n + 1)); done\nexec sh /lab/exec.sh\n";
/// A thousand threads in one VCPU, beside a neighbour.
const THREADS: &str = include_str!("kernel-live/threads.toml");
/// Surplus time that is taken away by the rate of page faults.
const THROTTLE: &str = include_str!("kernel-live/throttle.toml");

/// What a hostile program may get of C.
const HOSTILE_MOST: f64 = 1.005;
/// How far the mean of another program may be off C.
const MEAN: f64 = 0.001;
/// How late a job of `examples/global.toml` may be under `g-edf`, in ms: three jobs of C = 16.2 ms
/// on two cores end within 2 C of a release, of which T is 30 ms.
const LATE_MS: f64 = 2.4;

/// How the report of a case is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judged {
    /// There is none.
    No,
    /// Means: each is C, but for those that do not always want it; none is above.
    Budgets,
    /// Jobs: none misses.
    Jobs,
    /// Jobs of which not all fit by C: how late one may be is bounded.
    Late,
    /// Jobs, to be compared with.
    Beside,
    /// Cores that close, and what they read.
    Memory,
    /// The same, to be compared with.
    MemoryBeside,
    /// Cores that lose their surplus time.
    Throttle,
}

/// A step of the guest: words for the script, its limit in the guest's seconds, what it is to say.
/// `<=N` stands for a number that is not larger, `A|B` for either.
struct Case {
    words: &'static str,
    limit: u32,
    facts: &'static [(&'static str, &'static str)],
    judged: Judged,
}

/// A run that ended well and left nothing. Of single periods the emulator's turns of 50 us are more
/// than a hundredth, which is not judged here.
const WELL: &[(&str, &str)] =
    &[ENDED, ("state", "disabled"), ("left", "nothing"), CLEAN, ("replay", "0")];
const ENDED: (&str, &str) = ("code", "0|4");
const CLEAN: (&str, &str) = ("clean", "nothing to clean");

const fn budgets(words: &'static str) -> Case {
    Case { words, limit: 90, facts: WELL, judged: Judged::Budgets }
}
const fn jobs(words: &'static str, judged: Judged) -> Case {
    Case { words, limit: 90, facts: &[("replay", "0")], judged }
}
/// The same by agents, which may take more of the cores than admission leaves.
const fn jobs_by_agents(words: &'static str) -> Case {
    Case { facts: &[("replay", "0|refused")], ..jobs(words, Judged::Beside) }
}
const fn befalls(words: &'static str, facts: &'static [(&'static str, &'static str)]) -> Case {
    Case { words, limit: 90, facts, judged: Judged::No }
}

/// A run that is held to page faults, and one that nothing tells how long reads wait.
const fn faults(words: &'static str, judged: Judged) -> Case {
    let facts = &[ENDED, ("replay", "0"), ("left", "nothing"), ("blind", "2 1")];
    Case { words, limit: 90, facts, judged }
}

/// The cases, in their order. Of the first jobs there are 3,000.
const CASES: &[Case] = &[
    Case {
        facts: &[
            ("escapes", "0"),
            ("refused", "4"),
            ENDED,
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("replay", "0"),
        ],
        ..budgets("hostile")
    },
    budgets("storm 4"),
    budgets("exec 3"),
    budgets("threads 5"),
    Case {
        facts: &[
            ("moved", "away"),
            ("moved", "back"),
            ENDED,
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("replay", "0"),
        ],
        ..budgets("moved")
    },
    Case {
        facts: &[
            ("moved", "away"),
            ENDED,
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("replay", "0"),
        ],
        ..budgets("away")
    },
    Case {
        facts: &[
            ("guardian", "another"),
            ENDED,
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("replay", "0"),
        ],
        ..budgets("killed-guardian")
    },
    befalls(
        "killed-runtime",
        &[("code", "137"), ("state", "disabled"), ("left", "nothing"), CLEAN],
    ),
    befalls("killed-both", &[("state", "disabled"), ("left", "nothing"), CLEAN]),
    Case {
        facts: &[
            ("second-sched-ext", "2 1"),
            ("second-agents", "2 1"),
            ENDED,
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
        ],
        ..budgets("two")
    },
    befalls(
        "hotplug",
        &[
            ("code", "4"),
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("online", "1"),
            ("said", "why"),
        ],
    ),
    befalls(
        "suspend",
        &[
            ("suspended", "1"),
            ("code", "4"),
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("said", "why"),
        ],
    ),
    befalls(
        "suspend-agents",
        &[
            ("suspended", "1"),
            ("code", "4"),
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
            ("said", "why"),
        ],
    ),
    befalls(
        "stopped",
        &[
            ("lives", "after-a-moment"),
            ("ended-within", "<=12"),
            ("state", "disabled"),
            ("left", "nothing"),
            CLEAN,
        ],
    ),
    jobs_by_agents("global run 6 agents"),
    jobs("global run 30 sched-ext", Judged::Jobs),
    jobs_by_agents("global qps 6 agents"),
    jobs("global qps 6 sched-ext", Judged::Jobs),
    jobs_by_agents("global g-edf 6 agents"),
    jobs("global g-edf 6 sched-ext", Judged::Late),
    faults("memory 4 agents", Judged::MemoryBeside),
    faults("memory 4 sched-ext", Judged::Memory),
    faults("throttle 4 agents", Judged::MemoryBeside),
    faults("throttle 4 sched-ext", Judged::Throttle),
];

/// What the guest does, in the words of `init.sh`, of the cases that are wanted, with the folder of
/// examples: jobs in no partition, and page faults.
pub(super) fn plan(examples: &Path, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut plan = String::from("step settle 30 sleep 5\n");
    for Case { words, limit, .. } in CASES {
        let name = words.replace(' ', "-");
        if !is_wanted(&name) {
            continue;
        }
        let file = match words.split(' ').next() {
            Some("global") => "global.toml",
            Some("memory") => "faults.toml",
            _ => "",
        };
        let of = |file: &str| examples.join(file).display().to_string();
        let file = Some(file).filter(|file| !file.is_empty()).map_or(String::new(), of);
        let _ = writeln!(plan, "step {name} {limit} sh /lab/kernel-live.sh {words} {file}");
    }
    plan
}

/// Puts the script and its scenarios into a guest, and what a hostile program uses that the shell
/// of guests has not.
///
/// # Errors
/// Where `ldd` cannot be run.
pub(super) fn add(image: &mut Image) -> Result<(), String> {
    for tool in ["/usr/bin/chrt", "/usr/bin/nice"].map(Path::new) {
        image.program(tool, tool)?;
    }
    for (name, text) in [
        ("kernel-live.sh", SCRIPT),
        ("plain.toml", PLAIN),
        ("one.toml", ONE),
        ("hostile.toml", HOSTILE),
        ("hostile.sh", HOSTILE_PROGRAM),
        ("storm.toml", STORM),
        ("exec.toml", EXEC),
        ("exec.sh", EXEC_PROGRAM),
        ("threads.toml", THREADS),
        ("throttle.toml", THROTTLE),
    ] {
        image.text(&format!("/lab/{name}"), text, 0o644);
    }
    Ok(())
}

/// What was measured, and what is not as expected, a line each, of the cases that were wanted.
pub(super) fn judge(steps: &[Step]) -> (Vec<String>, Vec<String>) {
    let (mut figures, mut problems) = (Vec::new(), Vec::new());
    for case in CASES {
        let name = case.words.replace(' ', "-");
        let Some(step) = steps.iter().find(|step| step.name == name) else { continue };
        let mut wrong = case.missing(&step.out);
        match case.report(&step.out) {
            Ok(Some(figure)) => figures.push(format!("{name}: {figure}")),
            Ok(None) => {}
            Err(why) => wrong.push(why),
        }
        if !wrong.is_empty() {
            let said: Vec<_> = step.err.lines().filter(|line| !line.is_empty()).collect();
            let said = said[said.len().saturating_sub(3)..].join(" | ");
            problems.push(format!("{name}: {} ({said})", wrong.join("; ")));
        }
    }
    if steps.len() < 2 {
        problems.push("no case was begun".into());
    }
    (figures, problems)
}

impl Case {
    /// What it is to say and does not.
    fn missing(&self, out: &str) -> Vec<String> {
        let said = |name: &str| {
            let own = out.lines().filter_map(|line| line.strip_prefix("fact ")?.split_once(' '));
            own.filter(|(it, _)| *it == name).map(|(_, value)| value.to_string()).collect()
        };
        let wrong = |(name, expected): &(&str, &str)| {
            let said: Vec<String> = said(name);
            let is_met = |value: &String| match expected.strip_prefix("<=") {
                Some(most) => {
                    value.parse::<f64>().is_ok_and(|it| most.parse().is_ok_and(|m| it <= m))
                }
                None => expected.split('|').any(|it| it == value),
            };
            (!said.iter().any(is_met))
                .then(|| format!("{name} {}, not {expected}", said.join(", ")))
        };
        self.facts.iter().filter_map(wrong).collect()
    }

    /// The figures of its report, where it is to have one.
    fn report(&self, out: &str) -> Result<Option<String>, String> {
        if self.judged == Judged::No {
            return Ok(None);
        }
        let text = out.lines().skip_while(|line| !line.starts_with('{'));
        let text: Vec<_> = text.collect();
        let json = Json::read(text.join("\n").trim()).ok_or("no report")?;
        let figures = match self.judged {
            Judged::Budgets => budgets_of(&json),
            Judged::Jobs => jobs_of(&json, Some(0.0)),
            Judged::Late => jobs_of(&json, Some(LATE_MS)),
            Judged::Beside | Judged::No => jobs_of(&json, None),
            Judged::Memory => memory::closed(&json),
            Judged::MemoryBeside => memory::figures(&json),
            Judged::Throttle => memory::throttled(&json),
        };
        figures.map(Some)
    }
}

/// The mean of every VCPU over its C, and its errors.
fn budgets_of(report: &Json) -> Result<String, String> {
    let mut figures = String::from("mean of C");
    for task in report.get("tasks").map_or(&[][..], Json::list) {
        let number = |of: &Json, key: &str| of.get(key).and_then(Json::number);
        let name = task.get("name").and_then(Json::text).ok_or("a report without names")?;
        let (delivered, budget) = (task.get("delivered"), number(task, "budget_ns"));
        let (Some(delivered), Some(budget)) = (delivered, budget) else {
            return Err(format!("{name}: nothing delivered is in the report"));
        };
        let mean = number(delivered, "mean_ns").unwrap_or(0.0) / budget;
        let p99_us = number(delivered, "error_p99_ns").unwrap_or(f64::NAN) / 1e3;
        let _ = write!(figures, ", {name} {mean:.5} (err p99 {p99_us:.0} us)");
        let is_bad = if name == "hostile" || name == "storm" {
            !(0.5..=HOSTILE_MOST).contains(&mean)
        } else {
            (mean - 1.0).abs() > MEAN
        };
        if is_bad {
            return Err(format!("{name} had {mean:.5} of C: {figures}"));
        }
    }
    Ok(figures)
}

/// Jobs, those that missed, and the latency of dispatches. `most_ms`: how late one may be, if that
/// is judged.
fn jobs_of(report: &Json, most_ms: Option<f64>) -> Result<String, String> {
    if most_ms.is_none() && report.get("verdict").and_then(Json::text) == Some("refused") {
        let capacity = report.get("capacity").and_then(Json::text).unwrap_or("?");
        return Ok(format!("refused: {capacity} of a core may be promised"));
    }
    let tasks = report.get("tasks").map_or(&[][..], Json::list);
    let all =
        |key: &str| -> Vec<f64> { tasks.iter().filter_map(|it| it.get(key)?.number()).collect() };
    let sum = |key: &str| -> f64 { all(key).iter().sum() };
    let (jobs, misses) = (sum("jobs"), sum("misses"));
    let late_ms = all("tardiness_max_ns").into_iter().fold(0.0, f64::max) / 1e6;
    let dispatch = report.get("dispatch").ok_or("no dispatch was measured")?;
    let us = |key: &str| dispatch.get(key).and_then(Json::number).unwrap_or(f64::NAN) / 1e3;
    let agents = report.get("agents_ns").and_then(Json::number).unwrap_or(f64::NAN);
    let lasted = report.get("duration_ns").and_then(Json::number).unwrap_or(f64::NAN);
    let figures = format!(
        "{misses} of {jobs} jobs missed by {late_ms:.2} ms at most, dispatch p50 {:.0} us p99 \
         {:.0} us, {:.1} % of a core",
        us("latency_p50_ns"),
        us("latency_p99_ns"),
        100.0 * agents / lasted
    );
    let is_bad = |most: f64| late_ms > most || jobs < 100.0 || (most == 0.0 && misses > 0.0);
    if most_ms.is_some_and(is_bad) { Err(figures) } else { Ok(figures) }
}

#[cfg(test)]
#[path = "kernel_live_tests.rs"]
mod tests;
