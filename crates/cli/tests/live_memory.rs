//! Memory sensed and steered live: a recorded episode throttles real programs, a host without
//! counters runs everything and says what it could not sense, and MemGuard holds a core to its
//! bandwidth.
//!
//! Needs a host where budgets are enforced in full (`maracas doctor`); what is counted comes from
//! recordings, so no counters are needed. Absolute times are held to by `maracas bench throttle`
//! and `maracas bench memguard` on a quiet host.

mod common;
mod live;

use common::{Scratch, maracas, repository, text};
use live::host::Snapshot;
use live::measure::{at_least_wakes, reaction_ns};
use live::witness::{Shared, repeated};
use live::{Report, Stage, is_full, sized, until};
use serde_json::Value;
use std::time::Duration;

/// How fast surplus time ends, in the median, where the full size is asked for: on a quiet host
/// whose wakes cost less than a fifth of it.
const STOPS_WITHIN_NS: f64 = 100_000.0;
const STOPS_WAKES: f64 = 5.0;
/// Where nothing reports that a limit was reached, the meter is read: every 250 us or 20 wakes, in
/// nanoseconds.
const ASKED_NS: f64 = 250_000.0;
const ASKED_WAKES: f64 = 20.0;

fn example(name: &str) -> String {
    repository().join("examples").join(name).display().to_string()
}

/// Of the report: how often and how fast cores were steered so.
fn reaction<'a>(report: &'a Report, name: &str) -> Option<&'a Value> {
    let reactions = report.0["sensing"]["reactions"].as_array()?;
    reactions.iter().find(|reaction| reaction["name"] == name)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no whole number"))
}

/// A figure that the policy gives of the whole.
fn statistic(report: &Report, name: &str) -> u64 {
    let statistics = report.0["statistics"].as_array().unwrap();
    statistics
        .iter()
        .find(|statistic| statistic["name"] == name)
        .map_or(0, |it| number(&it["value"]))
}

struct Episode {
    report: Report,
    sim: Report,
    replay: String,
    before: Snapshot,
    after: Snapshot,
}

/// The example with its recorded episode, shared by all tests here.
fn episode() -> Option<&'static Episode> {
    static SHARED: Shared<Episode> = Shared::new();
    SHARED.get(|| Stage::enter(2, sized(12, 5)), play)
}

fn play(stage: &Stage) -> Episode {
    let (file, length) = (example("throttle.toml"), sized("12s", "5s"));
    let before = Snapshot::take();
    let mut run = stage.start(&[&file, "--duration", length, "--json", "--journal", "j"], &[]);
    let report = run.report();
    until(Duration::from_secs(2), || run.host.leftovers().none());
    let replay = text(&stage.maracas(&["replay", "j"]).stdout);
    let sim = Report::of(&stage.maracas(&["sim", &file, "--until", length, "--json"]));
    Episode { report, sim, replay, before, after: Snapshot::take() }
}

#[test]
fn a_recorded_episode_throttles_real_programs() {
    repeated(|| {
        let Some(Episode { report, sim, replay, .. }) = episode() else { return };
        let sensor = report.0["sensing"]["sensor"].as_str().unwrap_or_default();
        assert!(sensor.starts_with("replay") && sensor.contains("episode.csv"), "{sensor}");
        let throttled = reaction(report, "throttled").expect("cores were throttled");
        eprintln!("throttled: {throttled}");
        // Enough for a median: how many steps find something running depends on the host.
        assert!(number(&throttled["count"]) > 30, "{throttled}");
        let most =
            if is_full() { at_least_wakes(STOPS_WITHIN_NS, STOPS_WAKES) } else { reaction_ns() };
        assert!((number(&throttled["took_p50_ns"]) as f64) < most, "{throttled}, {most} ns");
        for core in report.0["cores"].as_array().unwrap() {
            assert!(number(&core["throttled_ns"]) > 0, "{core}");
        }
        // What is sampled is what the simulator's policy sampled, so it throttles alike.
        for name in ["throttle steps up", "throttle steps down"] {
            let (here, there) = (statistic(report, name), statistic(sim, name));
            eprintln!("{name}: {here}, simulated {there}");
            assert!(here > 0 && here.abs_diff(there) <= 2, "{name}: {here}, simulated {there}");
        }
        assert!(replay.starts_with("exact:"), "{replay}");
    });
}

#[test]
fn throttling_touches_no_budget_and_leaves_nothing() {
    repeated(|| {
        let Some(Episode { report, before, after, .. }) = episode() else { return };
        assert_eq!(report.0["lost_records"], 0);
        for name in ["control", "flood", "vision", "stream"] {
            report.task(name).got_its_budget();
        }
        assert_eq!(after, before, "the host is as it was");
    });
}

#[test]
fn without_a_sensor_everything_runs_and_says_so() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 4) else { return };
        let file = example("throttle.toml");
        let words = [&file[..], "--duration", "1500ms", "--sense", "off"];
        let mut run = stage.start(&[&words[..], &["--json"]].concat(), &[]);
        let report = run.report();
        let sensing = &report.0["sensing"];
        assert_eq!((&sensing["sensor"], &report.0["controller"]), (&Value::Null, &Value::Null));
        assert!(sensing["notes"][0].as_str().unwrap().contains("not sampled (sense = off)"));
        assert_eq!(reaction(&report, "throttled"), None);
        assert!(statistic(&report, "failed samples") > 5, "they were asked for");
        report.task("vision").got_its_budget();
        until(Duration::from_secs(2), || run.host.leftovers().none());
        drop(run);
        let run = stage.maracas(&[&["run"], &words[..]].concat());
        let (out, err) = (text(&run.stdout), text(&run.stderr));
        assert!(run.status.code().is_some_and(|code| [0, live::BROKEN].contains(&code)), "{err}");
        let said = err.lines().filter(|line| line.contains("no core is ever throttled"));
        assert_eq!(said.count(), 1, "{err}");
        assert!(out.contains("sensing: memory is not sampled"), "{out}");
    });
}

#[test]
fn a_core_is_held_to_its_bandwidth() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 2) else { return };
        let sense = format!("replay:{}", example("even.csv"));
        let file = example("bandwidth-live.toml");
        let words = [&file[..], "--sense", &sense, "--duration", "2s", "--json", "--journal", "j"];
        let report = stage.start(&words, &[]).report();
        // 200 MB/s of 100 that the core has: it is closed for half of each of 2000 periods.
        let closed = reaction(&report, "closed").expect("the core was closed");
        eprintln!("closed: {closed}");
        // A closing is late by the time between two looks at most, and what was read too much is
        // taken from the next period, which is 1 ms long.
        let look_ms = at_least_wakes(ASKED_NS, ASKED_WAKES) / 1e6;
        assert!(number(&closed["count"]) as f64 > 2000.0 * (1.0 - look_ms).max(0.1), "{closed}");
        assert!((number(&closed["took_p50_ns"]) as f64) < 4e6 * look_ms, "{closed}");
        let core = &report.0["cores"][1];
        let part = number(&core["throttled_ns"]) as f64 / report.0["duration_ns"].as_f64().unwrap();
        // Each closing of half a millisecond begins late by what it took, which is held to a bound
        // above; twice the median, since the mean is larger.
        let late = 2.0 * number(&closed["took_p50_ns"]) as f64 / 1e6;
        let off = part - 0.5;
        let holds = off < 0.2 * look_ms && off > -0.2 * look_ms - late.min(0.2);
        assert!(holds, "{part} of the run, {late} may be missing");
        assert_eq!(number(&report.0["cores"][0]["throttled_ns"]), 0, "the other has no limit");
        report.task("control").got_its_budget();
        let replay = text(&stage.maracas(&["replay", "j"]).stdout);
        assert!(replay.starts_with("exact:"), "{replay}");
    });
}

/// A journal plays as well as a list.
#[test]
fn a_journal_is_a_recording() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 2) else { return };
        let file = example("throttle.toml");
        let words = ["sim", &file, "--until", "2s", "--quiet", "--journal", "sim.journal"];
        assert_eq!(stage.maracas(&words).status.code(), Some(0));
        let words = [&file, "--sense", "replay:sim.journal", "--duration", "1500ms", "--json"];
        let report = stage.start(&words, &[]).report();
        assert!(report.0["sensing"]["sensor"].as_str().unwrap().contains("sim.journal"));
        assert!(statistic(&report, "throttle steps up") > 0);
    });
}

#[test]
fn the_bench_judges_the_episode() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 6) else { return };
        let output = stage.maracas(&["bench", "throttle", "--seconds", "5", "--json"]);
        let said = text(&output.stdout);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
        let json: Value = serde_json::from_str(&said).unwrap();
        let verdicts = json["verdicts"].as_array().unwrap();
        assert_eq!(verdicts.len(), 5);
        for verdict in verdicts {
            eprintln!("{verdict}");
            // Absolute times and budgets are for a quiet host alone, as above.
            let strict = verdict["name"] == "stops" || verdict["name"] == "budgets";
            assert!(verdict["holds"] == true || strict && !is_full(), "{verdict}");
        }
        assert_eq!(json["holds"], output.status.success());
    });
}

/// Where nothing is counted a recording stands for it, and no bandwidth is judged.
#[test]
fn the_bench_of_memguard_needs_no_counters() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 10) else { return };
        let words = ["bench", "memguard", "--seconds", "3", "--sense", "off", "--json"];
        let output = stage.maracas(&words);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
        let json: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!(json["own_counters"], false);
        assert!(json["counted"].as_str().unwrap().contains("sense = off"), "{json}");
        for verdict in json["verdicts"].as_array().unwrap() {
            eprintln!("{verdict}");
            let strict = verdict["name"] == "stands";
            assert!(verdict["holds"] == true || strict && !is_full(), "{verdict}");
        }
        let ways = json["ways"].as_array().unwrap();
        let names: Vec<_> = ways.iter().map(|way| way["noticed"].as_str().unwrap()).collect();
        assert_eq!(names, ["by alarm", "by asking"]);
        // The bandwidth is used up after half of each period of 1 ms. Looks that are further apart
        // than what is left then seldom find that: what was read too much is paid back by the next
        // period, and the core is closed from its begin.
        let look_ms = at_least_wakes(ASKED_NS, ASKED_WAKES) / 1e6;
        let key = if look_ms < 0.5 { "took_p50_ns" } else { "closings" };
        let [alarm, asking] = [0, 1].map(|way| number(&ways[way][key]));
        eprintln!("looks are {look_ms:.3} ms apart; {key}: {alarm} by alarm, {asking} by asking");
        assert!(if look_ms < 0.5 { alarm < asking } else { alarm > asking }, "{json}");
    });
}

/// Whatever the host is, some sensor is for another one.
#[test]
fn a_sensor_that_is_not_this_host_s_is_refused_with_the_reason() {
    repeated(|| {
        let scratch = Scratch::new();
        let file = example("throttle.toml");
        let refused = ["arm", "offcore"].iter().filter(|sensor| {
            let words = ["check", &file, "--machine", "live", "--sense", sensor];
            let output = maracas(scratch.path(), &words);
            let err = text(&output.stderr);
            let refused = output.status.code() == Some(2);
            let line = format!("maracas: --sense: sensor {sensor}: ");
            assert!(!refused || err.lines().count() == 1 && err.starts_with(&line), "{err}");
            refused
        });
        assert!(refused.count() > 0);
    });
}

/// The shipped episode is what its head says: the samples of the simulated example.
#[test]
fn the_episode_is_the_simulation_of_the_example() {
    repeated(|| {
        let scratch = Scratch::new();
        let words = ["sim", &example("throttle.toml"), "--quiet", "--csv", "."];
        let output = maracas(scratch.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let samples = std::fs::read_to_string(scratch.path().join("samples.csv")).unwrap();
        let row = |line: &str| {
            let words: Vec<_> = line.split(',').collect();
            let ns: u64 = words[0].parse().unwrap();
            let counts = [&words[1..3], &words[4..]].concat().join(",");
            format!("{}.{:03},{counts}", ns / 1000, ns % 1000)
        };
        let made: Vec<_> = samples.lines().skip(1).map(row).collect();
        let shipped = std::fs::read_to_string(example("episode.csv")).unwrap();
        let rows = shipped.lines().filter(|line| !line.starts_with('#')).skip(1);
        assert_eq!(rows.collect::<Vec<_>>(), made, "make it anew, as its head says");
    });
}
