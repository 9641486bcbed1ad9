use super::*;
use crate::testkit::{figure, uneven};
use maracas_core::journal::{Note, Record};

fn text(report: &Report, style: Style) -> String {
    let mut out = Vec::new();
    write(report, style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_closing_table() {
    let expected = "\
vcpu         C/T  delivered  err p1  err p50  err p99  foregr  backgr  share  preempt  migr  misses
spin    4us/10us        4us       0        0        0     8us     5us  54.2%        1     0       -
sort    3us/10us       10us     7us      7us      7us    14us       0  58.3%        1     1       1
hog     1us/20us        1us       0        0        0     1us     7us  33.3%        2     0       -
kept: spin, hog
NOT KEPT: sort over 1 of 1 (worst 7us), mean +233.3 %
periods left out of delivered and err, as the VCPU was blocked in them: spin 1 of 2, sort 1 of 2
core0   foreground  37.5%  background  20.8%  idle  41.7%  throttled   0.0%  decisions 2
core1   foreground  58.3%  background  29.2%  idle   4.2%  throttled   8.3%  decisions 3
memory  Minst foregr  Minst backgr  references  miss ratio   read  written
spin             0.0           0.0          60       50.0%  1.9kB    0.6kB
controller: 2.4kB read, 0.8kB written, 50 requests, latency 2.4 cycles, cores 80.0%,
  network card 20.0%
sampled: 1 time over 8us, 40 requests, latency 2.2 cycles, highest 2.2 cycles
throttle steps up: 3
errors to 10%..20%: core1 4 0
24us of maracas, 2 jobs, 1 miss, 3 decisions
";
    assert_eq!(text(&figure().report(24_000), Style::default()), expected);
}

#[test]
fn a_cut_is_said_behind_the_closing_line() {
    let mut report = figure().report(24_000);
    report.promise.cut = Some(crate::report::CutReport { byte: 100, left_out_bytes: 3 });
    let text = text(&report, Style::default());
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    let line = "cut: the journal has no end; what was under way at 24us is neither counted nor \
                judged";
    assert_eq!(last, [line, "24us of maracas, 2 jobs, 1 miss, 3 decisions"]);
}

#[test]
fn uneven_cores_have_a_block() {
    let expected = "\
vcpu         C/T  delivered  err p1  err p50  err p99  foregr  backgr  share  preempt  migr  misses
spin           -          -       -        -        -       0    1.7s  85.0%        1     1       -
sort    300ms/1s      300ms       0        0        0   600ms       0  30.0%        2     0       -
hog            -          -       -        -        -       0    1.7s  85.0%        1     1       -
core0   foreground   0.0%  background 100.0%  idle   0.0%  throttled   0.0%  decisions 0
core1   foreground  30.0%  background  70.0%  idle   0.0%  throttled   0.0%  decisions 0
uneven cores   fast   slow  IPS fast  IPS slow  speedup  performance
spin          50.0%  35.0%    2.000G    1.250G    1.600        1.327
sort           0.0%  30.0%         -    1.000G        -       ≤0.450
hog           50.0%  35.0%    1.500k    1.000k    1.500        1.320
classes: fast at 1.000 core0, slow at 0.600 core1
fairness: throughput 1.3235, MinFairness ≤0.4500 (sort), Uniformity 0.9974, 1 VCPU of unknown speed
speedup milli: spin 1600, hog 1500
swaps: 1
2s of maracas, 0 decisions
";
    let mut report = uneven().report(2_000_000_000);
    assert_eq!(text(&report, Style::default()), expected);
    // Three classes have numbers, and leave the speeds to the JSON.
    let fairness = report.fairness.as_mut().unwrap();
    fairness.classes.push(crate::report::ClassReport { speed_milli: 300, cores: vec![2, 3] });
    (fairness.throughput, fairness.min_fairness, fairness.uniformity) = (None, None, None);
    for task in &mut report.tasks {
        task.speed.as_mut().unwrap().classes.push(crate::report::ClassUse::default());
    }
    report.tasks[1].speed.as_mut().unwrap().wanted_ns = 0;
    let expected = "\
uneven cores  class0  class1  class2  speedup  performance
spin           50.0%   35.0%    0.0%    1.600        1.327
hog            50.0%   35.0%    0.0%    1.500        1.320
classes: class0 at 1.000 core0, class1 at 0.600 core1, class2 at 0.300 core2 core3
fairness: no performance is known, 1 VCPU of unknown speed
";
    let shown = text(&report, Style::default());
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn latencies_of_dispatches_have_a_line() {
    let journal = figure().journal(24_000);
    let (header, reader) = maracas_core::journal::Reader::open(&journal).unwrap();
    let mut metrics = crate::Metrics::new(&header);
    reader.for_each(|record| _ = metrics.record(&record.unwrap()));
    for text in ["0 41000", "1 52000", "1 47500", "1 60000 enacted"] {
        let at = maracas_core::Instant::ZERO;
        let vcpu = Some(maracas_core::VcpuId(0));
        let note = Note::read("dispatch".into(), vcpu, text.into());
        assert_eq!(metrics.record(&Record::Note { at, note }), None);
    }
    let report = metrics.report(maracas_core::Instant::from_ticks(24_000));
    let shown = text(&report, Style::default());
    let expected = "\
latency: 4 dispatches p50 47.5us p99 60us, core0 1 dispatch p50 41us p99 41us,
  core1 3 dispatches p50 52us p99 60us, 1 of them measured up to the enactment only
memory";
    assert!(shown.contains(expected), "{shown}");
    let json = serde_json::to_value(&report).unwrap();
    let schema: serde_json::Value = serde_json::from_str(crate::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(
        validator.is_valid(&json),
        "{:?}",
        validator.validate(&json).map_err(|e| e.to_string())
    );
    for key in json["dispatch"].as_object().unwrap().keys() {
        let described = &schema["properties"]["dispatch"]["properties"][key]["description"];
        assert!(described.is_string(), "{key}");
    }
}

#[test]
fn it_fits_and_says_what_is_wrong() {
    let mut report = figure().report(24_000);
    report.tasks[0].name = "a name that is longer than any terminal is willing to show it".into();
    report.tasks[1].delivered.mean_ns = None;
    report.tasks[1].delivered.periods = 0;
    for task in &mut report.tasks {
        (task.budget_ns, task.period_ns) = (333_333_333, 1_000_000_000);
        task.foreground_ns = 123_456_789_012;
        task.preemptions = 1_234_567;
    }
    report.lost_records = 2;
    report.tasks[2].name = "migration-core7".into();
    report.tasks[2].held_ns = 7_000;
    let plain = text(&report, Style { color: false, width: Some(100) });
    assert!(plain.lines().all(|line| line.chars().count() <= 100), "{plain}");
    assert!(plain.contains("a name t…show it "), "{plain}");
    assert!(
        plain.contains("6.5us*") && plain.contains("* blocked in most of its periods (its"),
        "{plain}"
    );
    assert!(plain.contains("2 journal records were lost"), "{plain}");
    assert!(!plain.contains('\x1b'));
    assert!(plain.contains("held by their own bandwidth: migration-core7 7us\n"), "{plain}");
    let narrow = text(&figure().report(24_000), Style { color: false, width: Some(80) });
    assert!(narrow.lines().skip(4).all(|line| line.chars().count() <= 80), "{narrow}");
    assert_eq!(
        [6, 8, 15].map(|width| shortened("migration-core7", width)),
        ["mig…e7", "migr…re7", "migration-core7"]
    );
    let colored = text(&report, Style { color: true, width: None });
    assert!(colored.contains("\x1b[31m     1\x1b[0m"), "the miss is red: {colored}");
}

/// A run of ten periods on core 0 that is short in one of them, with what its machine reported.
fn short_run() -> crate::testkit::Story {
    use crate::testkit::{Foreground, LimitReached, Story, grant, vcpu};
    let mut story = Story::new(1, vec![vcpu(0, 2_000, 10_000), vcpu(1, 2_000, 10_000)]);
    story.planned(0, |plan| {
        plan.run_queue_mut(maracas_core::CoreId(0)).foreground = vec![grant(0, 9), grant(1, 9)];
    });
    story.woke(0, 0).woke(1, 0);
    for period in 0..10 {
        let (from, got) = (period * 10_000, if period == 3 { 500 } else { 2_000 });
        story.ran((0, 0, Foreground), (from, from + got), LimitReached);
        story.ran((1, 0, Foreground), (from + 5_000, from + 7_000), LimitReached);
    }
    story
}

#[test]
fn a_broken_promise_is_said_with_its_causes() {
    let mut story = short_run();
    let silent = text(&story.live(100_000), Style::default());
    let expected = "\nkept: sort\nNOT KEPT: spin short 1 of 10 (worst 1.5us), mean -7.5 %\ncore0 ";
    assert!(silent.contains(expected), "{silent}");
    story.reported(36_000, "late", "0 3000 100").reported(50_000, "relief", "0 guardian 250000");
    story.reported(60_000, "rt-throttle", "0 50000000").reported(99_000, "steal", "0 40000");
    story.reported(99_000, "enforced", "0 20 3000 18 1 1");
    let report = story.live(100_000).of_run(crate::report::Run {
        asked_ns: Some(90_000),
        lasted_ns: 1_000_090_001,
        programs: [
            ("a", Some(0), None),
            ("b", Some(3), None),
            ("c", None, Some(11)),
            ("d", None, None),
        ]
        .map(|(name, code, signal)| crate::report::ProgramReport {
            name: name.into(),
            code,
            signal,
        })
        .into(),
        trouble: vec!["core0: a file is gone".into()],
        ended: None,
    });
    let shown = text(&report, Style::default());
    let expected = "
core0: agent late 1 time (longest 3us; without steal 2.9us),
  relieved by the guardian at 50us after 250us,
  agent kept off by the kernel's fair server 1 time (50ms), steal 40us,
  alarms late p50 <1us p99 <4us longest 3us
ended: b with code 3, c by signal 11
trouble: core0: a file is gone
100us of maracas, 1 decision
NOT IN TIME: 90us were asked for, it took 1s
";
    assert!(shown.ends_with(expected), "{shown}");
    assert!(!report.promise.kept);
    let colored = text(&report, Style { color: true, width: None });
    assert!(colored.contains("\x1b[31mNOT KEPT: spin short"), "{colored}");
    // In colour, without colour, in JSON: the same.
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(
        (&json["programs"][2]["signal"], &json["tasks"][0]["verdict"]["word"]),
        (&11.into(), &"short".into())
    );
    let schema: serde_json::Value = serde_json::from_str(crate::report::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn a_run_that_is_over_in_time_kept_its_promise() {
    use crate::report::Run;
    let report = |asked_ns, lasted_ns| {
        let run = Run { asked_ns, lasted_ns, ..Run::default() };
        crate::testkit::Story::new(1, vec![]).report(5).of_run(run).promise
    };
    for (asked, lasted, kept) in [
        (Some(5), 1_000_000_005, true),
        (Some(5), 1_000_000_006, false),
        (Some(5), 3, true),
        (None, 1 << 40, true),
    ] {
        assert_eq!(report(asked, lasted).kept, kept, "{asked:?} {lasted}");
    }
    let ended = Some("core1's agent has been late for 3.0s".to_string());
    let run = Run { lasted_ns: 5, ended: ended.clone(), ..Run::default() };
    let promise = crate::testkit::Story::new(1, vec![]).report(5).of_run(run).promise;
    assert_eq!((promise.kept, promise.ended), (false, ended), "the guardian ended it");
}

#[test]
fn stolen_periods_are_named() {
    use crate::report::Word;
    let mut report = short_run().live(100_000);
    let verdict = &mut report.tasks[0].verdict;
    (verdict.word, verdict.stolen, verdict.short) = (Word::Kept, 3, 0);
    let shown = text(&report, Style::default());
    assert!(shown.contains("\nkept: spin stolen 3, sort\ncore0"), "{shown}");
    report.tasks[0].verdict.word = Word::NoDemand;
    report.tasks[1].verdict.word = Word::Held;
    let shown = text(&report, Style::default());
    let expected =
        "\nnot judged: spin (no demand), stolen 3, sort (held by limits of memory)\ncore0";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn times_have_four_digits() {
    let shown = [0.0, 0.4, 7.0, 999.0, 1_000.0, 9_998_000.0, 12_345_678.0, 100e6, 999_960.0, 61e9];
    let expected = ["0", "0", "7ns", "999ns", "1us", "9.998ms", "12.35ms", "100ms", "1ms", "61s"];
    assert_eq!(shown.map(time), expected);
}

#[test]
fn few_judged_periods_do_not_stand_for_all() {
    let mut report = figure().report(24_000);
    let delivered = &mut report.tasks[1].delivered;
    (delivered.periods, delivered.periods_without_demand) = (1, 2);
    let of_jobs = text(&report, Style::default());
    assert!(of_jobs.contains("6.5us*       -        -        -"), "{of_jobs}");
    assert!(of_jobs.contains("* blocked in most of its periods (its jobs were done)"), "{of_jobs}");
    report.tasks[1].jobs = 0;
    let of_none = text(&report, Style::default());
    assert!(of_none.contains("* blocked in most of its periods: mean"), "{of_none}");
}
