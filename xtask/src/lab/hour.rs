//! An hour of a guest's time by the scheduler in the kernel, beside programs of no VCPU: the
//! kernel's watchdog, which ends a scheduler under which a thread waits for too long, is to have no
//! reason.
//!
//! `hour.sh` acts; what it says is judged here. A minute of the same comes first.

use super::image::Image;
use super::json::Json;
use super::outcome::{Report, Step};
use super::scenario::BROKEN;
use std::fmt::Write as _;

/// What acts in the guest, and what runs there.
const SCRIPT: &str = include_str!("hour.sh");
const LOAD: &str = include_str!("hour/load.toml");

/// The steps and how long each runs, in the guest's seconds.
const RUNS: [(&str, u32); 2] = [("minute", 60), ("hour", 3600)];
/// How much longer a step may take than its run: programs begin and end on a slow host.
const AROUND_S: u32 = 300;
/// Programs of no VCPU: two that spin, one that sleeps and one that forks, on each of two cores.
const PROGRAMS: usize = 8;
/// The longest time for which one that spins or sleeps may have no turn, in seconds: half of what
/// the kernel's watchdog allows (`timeout_ms` in `bpf/maracas.bpf.c`). Of one that forks that is
/// how long a fork and another program take beyond their sleep: that is held to the watchdog's.
const GAP_MAX_S: f64 = 10.0;
const FORK_MAX_S: f64 = 20.0;
/// How far the mean of a VCPU may be off C, as in scenario `slow`.
const MEAN: f64 = 0.005;
/// How much longer the run may take by the guest's clock, in seconds: what `maracas run` holds
/// itself to (docs/output.md), and the start of its programs.
const OVERRUN_S: f64 = 60.0;
/// What the runtime may have in memory at the end beyond what it had after a twelfth of the run, in
/// KiB. Until then its rings are touched for the first time, the journal's of 4 MiB
/// (`crates/live/src/journal.rs`) and that of events, of 1 MiB, which is mapped twice; and errors
/// of four VCPUs and dispatches are kept exactly up to half a MiB each, twice as much where a list
/// grows (`crates/trace/src/samples.rs`).
const GROWTH_KIB: f64 = 14.0 * 1024.0;
/// The same beyond what it had in the middle of the run, by when none of that grows any more.
const LATER_KIB: f64 = 2048.0;

/// What the guest does, in the words of `init.sh`, of the runs that are wanted.
pub(super) fn plan(is_wanted: impl Fn(&str) -> bool) -> String {
    let mut plan = String::from("step settle 30 sleep 5\n");
    for (name, seconds) in RUNS.iter().filter(|(name, _)| is_wanted(name)) {
        let limit = seconds + AROUND_S;
        let _ = writeln!(plan, "step {name} {limit} sh /lab/hour.sh run {seconds}");
    }
    plan
}

/// Puts the script and the scenario into a guest.
pub(super) fn add(image: &mut Image) {
    image.text("/lab/hour.sh", SCRIPT, 0o644);
    image.text("/lab/hour.toml", LOAD, 0o644);
}

/// What was measured, of the longest run, and what is not as expected, a line each.
pub(super) fn judge(steps: &[Step]) -> (Option<Report>, Vec<String>) {
    let (mut last, mut figures, mut problems) = (None, Vec::new(), Vec::new());
    for (name, seconds) in RUNS {
        let Some(step) = steps.iter().find(|step| step.name == name) else { continue };
        match Said::read(&step.out) {
            Ok(said) => {
                figures.push(format!("{name}: {}", said.figures()));
                let wrong = said.wrong(f64::from(seconds));
                problems.extend(wrong.into_iter().map(|why| format!("{name}: {why}")));
                last = Some(said.report);
            }
            Err(why) => {
                let err = step.err.trim().lines().next_back().unwrap_or_default();
                problems.push(format!("{name}: {why} (exit code {:?}: {err})", step.code));
            }
        }
    }
    if figures.is_empty() && problems.is_empty() {
        problems.push("no run was begun".into());
    }
    (last.map(|report| Report { figures, ..report }), problems)
}

/// What a run said.
struct Said {
    report: Report,
    /// VCPUs by name, each with its verdict.
    verdicts: Vec<(String, String)>,
    /// Whether the guardian or the kernel ended the run, or something was refused.
    is_ended: bool,
    /// Records of the journal that its reader was too late for.
    lost: f64,
    /// How often it was looked at which scheduler is loaded, how often it was another one than at
    /// first, and how many threads the kernel had refused.
    looks: [f64; 3],
    /// Memory of the runtime after a twelfth of the run, in its middle, and near its end.
    memory_kib: [f64; 3],
    /// Exit code, seconds, lines in the kernel's log that say of an end or a stall.
    ended: [f64; 3],
    /// Whether the kernel had no scheduler any more afterwards.
    is_off: bool,
    /// Programs of no VCPU: name, longest time without a turn in seconds, turns.
    programs: Vec<(String, f64, f64)>,
}

impl Said {
    fn read(out: &str) -> Result<Self, String> {
        let line = |head: &str| out.lines().find(|line| line.starts_with(head));
        let (looks, memory) = (line("scheduler "), line("resident "));
        let (Some(looks), Some(memory), Some(ended)) = (looks, memory, line("ended ")) else {
            return Err("the run did not come to its end".into());
        };
        let text: Vec<_> = out.lines().skip_while(|line| !line.starts_with('{')).collect();
        let text = text.join("\n");
        let json = Json::read(text.trim()).ok_or("no report")?;
        let number = |line: &str, word: &str, place: usize| {
            let mut after = line.split(' ').skip_while(|it| *it != word).skip(place);
            after.next().and_then(|it| it.parse().ok()).unwrap_or(f64::NAN)
        };
        let verdict = |task: &Json| {
            let name = task.get("name")?.text()?.to_string();
            Some((name, task.get("verdict")?.get("word")?.text()?.to_string()))
        };
        let program = |line: &str| {
            let words: Vec<_> = line.split(' ').collect();
            let [name, gap, turns] = words[..] else { return None };
            Some((name.to_string(), gap.parse::<f64>().ok()? / 100.0, turns.parse().ok()?))
        };
        let trouble = json.get("trouble").map_or(&[][..], Json::list);
        let promise = json.get("promise").and_then(|promise| promise.get("ended"));
        Ok(Self {
            report: Report::read(text.trim()).ok_or("a report without figures")?,
            verdicts: json
                .get("tasks")
                .map_or(&[][..], Json::list)
                .iter()
                .filter_map(verdict)
                .collect(),
            is_ended: !matches!(promise, None | Some(Json::Null)) || !trouble.is_empty(),
            lost: json.get("lost_records").and_then(Json::number).unwrap_or(f64::NAN),
            looks: ["looks", "others", "rejected"].map(|word| number(looks, word, 1)),
            memory_kib: [1, 2, 3].map(|place| number(memory, "resident", place)),
            ended: ["code", "after", "watchdog"].map(|word| number(ended, word, 1)),
            is_off: ended.ends_with("state disabled"),
            programs: out.lines().filter_map(program).collect(),
        })
    }

    /// Of the programs that fork, or of the others, the one that had no turn for longest.
    fn starved(&self, forks: bool) -> (&str, f64) {
        let own = self.programs.iter().filter(|it| it.0.starts_with("fork") == forks);
        let longest = own.max_by(|one, other| one.1.total_cmp(&other.1));
        longest.map_or(("-", f64::NAN), |(name, gap, _)| (name, *gap))
    }

    fn figures(&self) -> String {
        let [early, middle, late] = self.memory_kib;
        let [code, after_cs, _] = self.ended;
        let [(starved, gap), (fork, took)] = [false, true].map(|forks| self.starved(forks));
        let own = self.report.agents.unwrap_or(f64::NAN);
        let mut out = format!(
            "exit code {code} after {:.1} s; the longest without a turn was {starved} by {gap:.2} \
             s, {fork} by {took:.2} s; the runtime had {early:.0}, {middle:.0} and {late:.0} KiB, \
             and {own:.1} % of a core; mean of C",
            after_cs / 100.0
        );
        for (got, (name, word)) in self.report.got.iter().zip(&self.verdicts) {
            let _ = write!(out, ", {name} {:.5} (p50 {:.0} us, {word})", got.delivered, got.p50_us);
        }
        out
    }

    /// What is not as expected of a run of so many seconds. The exit code may be that of a broken
    /// promise: on so slow a host a decision takes milliseconds, and a real-time thread that takes
    /// the core for so long puts single periods off. It is not to be for another reason.
    fn wrong(&self, seconds: f64) -> Vec<String> {
        let [code, after_cs, lines] = self.ended;
        let [looks, others, rejected] = self.looks;
        let [early, middle, late] = self.memory_kib;
        let is_small = late - early <= GROWTH_KIB && late - middle <= LATER_KIB;
        let off = self.report.got.iter().find(|got| (got.delivered - 1.0).abs() > MEAN);
        let is_known = code == 0.0 || (code == f64::from(BROKEN) && !self.is_ended);
        let after = after_cs / 100.0;
        let [(_, starved), (_, took)] = [false, true].map(|forks| self.starved(forks));
        let expected = [
            (is_known, format!("exit code {code}")),
            ((seconds..=seconds + OVERRUN_S).contains(&after), format!("it ended after {after} s")),
            (
                off.is_none(),
                format!("a mean is off C: {:?}", off.map(|got| (&got.name, got.delivered))),
            ),
            (looks >= seconds / 60.0, format!("the scheduler was looked at {looks} times")),
            (self.lost == 0.0, format!("{} records were lost, and what came later", self.lost)),
            (others == 0.0, format!("{others} times another scheduler, or none")),
            (rejected == 0.0, format!("the kernel refused {rejected} threads")),
            (lines == 0.0, format!("{lines} lines of the kernel's log on a watchdog or a stall")),
            (self.is_off, "its scheduler is still there".into()),
            (self.programs.len() == PROGRAMS, format!("{} programs", self.programs.len())),
            (starved < GAP_MAX_S, format!("a program had no turn for {starved} s")),
            (took < FORK_MAX_S, format!("a fork took {took} s")),
            (is_small, format!("the runtime grew from {early} to {middle} to {late} KiB")),
        ];
        expected.into_iter().filter(|(holds, _)| !holds).map(|(_, what)| what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, judge, plan};

    const WELL: &str = r#"scheduler enabled maracas 1 looks 355 others 0 rejected 0
resident 9000 9090 9100
ended code 4 after 360150 watchdog 0 state disabled
spin1-core0 51 70000
spin2-core0 61 70000
sleep3-core0 22 3500
fork4-core0 23 6000
spin5-core1 51 70000
spin6-core1 51 70000
sleep7-core1 12 3500
fork8-core1 13 6000
{"duration_ns": 3600000000000, "agents_ns": 36000000000, "lost_records": 0,
 "promise": {"ended": null},
 "trouble": [], "tasks": [
 {"name": "a", "budget_ns": 1000, "verdict": {"word": "short"},
  "delivered": {"mean_ns": 1001, "error_p50_ns": 2000}}]}
"#;

    fn judged(out: &str) -> (Vec<String>, Vec<String>) {
        let hour = Step { name: "hour".into(), out: out.into(), code: Some(0), ..Step::default() };
        let (report, problems) = judge(&[Step::default(), hour]);
        (report.map_or(Vec::new(), |report| report.figures), problems)
    }

    #[test]
    fn an_hour_as_expected_has_figures_and_no_problems() {
        let (figures, problems) = judged(WELL);
        assert!(problems.is_empty(), "{problems:?}");
        let expected = "hour: exit code 4 after 3601.5 s; the longest without a turn was \
                        spin2-core0 by 0.61 s, fork4-core0 by 0.23 s; the runtime had 9000, 9090 \
                        and 9100 KiB, and 1.0 % of a core; mean of C, a 1.00100 (p50 2 us, short)";
        assert_eq!(figures, [expected]);
    }

    #[test]
    fn each_thing_that_is_not_as_expected_is_a_problem() {
        for (well, broken) in [
            ("code 4", "code 2"),
            ("\"ended\": null", "\"ended\": \"why\""),
            ("\"trouble\": []", "\"trouble\": [\"why\"]"),
            ("after 360150", "after 12000"),
            ("after 360150", "after 370000"),
            ("\"mean_ns\": 1001", "\"mean_ns\": 990"),
            ("\"lost_records\": 0", "\"lost_records\": 7"),
            ("looks 355", "looks 3"),
            ("others 0", "others 1"),
            ("rejected 0", "rejected 1"),
            ("watchdog 0", "watchdog 1"),
            ("state disabled", "state enabled"),
            ("fork8-core1 13 6000\n", ""),
            ("spin2-core0 61", "spin2-core0 1000"),
            ("fork4-core0 23", "fork4-core0 2000"),
            ("9090 9100", "9090 90000"),
            ("9090 9100", "6000 9100"),
            ("9090 9100", "9090 -"),
            ("ended code", "killed"),
            ("{", ""),
        ] {
            let (_, problems) = judged(&WELL.replacen(well, broken, 1));
            assert_eq!(problems.len(), 1, "{broken}: {problems:?}");
        }
        assert_eq!(judge(&[]).1, ["no run was begun"]);
    }

    #[test]
    fn runs_are_chosen_by_name() {
        assert_eq!(plan(|_| true).lines().count(), 3);
        let hour = plan(|name| name == "hour");
        assert_eq!(hour, "step settle 30 sleep 5\nstep hour 3900 sh /lab/hour.sh run 3600\n");
    }
}
