use crate::testkit::{
    Background, Blocked, Foreground, LimitReached, Metered, Preempted, Story, t, vcpu,
};
use crate::{Metrics, Report};
use maracas_core::contract::{Event, Grant, Limit, MemoryLimit, Mode, Refused, Sample};
use maracas_core::control::Gauges;
use maracas_core::control::tallies::{CORE, MEMORY, RUN, Tally, VCPU};
use maracas_core::journal::{Note, Reader, Record};
use maracas_core::{CoreId, Duration, Instant, VcpuId};
use serde_json::Value;

/// The gauges after a whole journal, which must say what its report says.
fn gauges(journal: &[u8]) -> Gauges {
    let (header, reader) = Reader::open(journal).unwrap();
    let mut metrics = Metrics::new(&header);
    let mut end = Instant::ZERO;
    for record in reader {
        end = metrics.record(&record.unwrap()).unwrap_or(end);
    }
    let gauges = metrics.gauges();
    agree(&metrics.report(end), &gauges);
    gauges
}

/// Every tally that the report has too is the same there.
fn agree(report: &Report, gauges: &Gauges) {
    assert!(gauges.over);
    let report = serde_json::to_value(report).unwrap();
    same(&RUN, gauges, &report);
    for core in &gauges.cores {
        same(&CORE, core, &report["cores"][usize::from(core.core.0)]);
    }
    for vcpu in &gauges.vcpus {
        let mut tasks = report["tasks"].as_array().unwrap().iter();
        let task = tasks.find(|task| task["id"] == vcpu.vcpu.0).unwrap();
        assert_eq!(task["name"], *vcpu.name);
        same(&VCPU, vcpu, task);
    }
    if let Some(memory) = &gauges.memory {
        same(&MEMORY, memory, &report);
    }
}

fn same<T>(tallies: &[Tally<T>], gauge: &T, report: &Value) {
    for tally in tallies.iter().filter(|tally| !tally.report.is_empty()) {
        let number = |place: &&str| match report.pointer(place) {
            Some(Value::Array(list)) => list.len() as u64,
            // A core that nothing kept has no causes.
            None if place.starts_with("/causes/") => 0,
            found => found.and_then(Value::as_u64).unwrap_or_else(|| panic!("{place}: {report}")),
        };
        let sum: u64 = tally.report.iter().map(number).sum();
        assert_eq!((tally.of)(gauge).unwrap_or(0), sum, "{} is not {:?}", tally.key, tally.report);
    }
}

fn throttled_story() -> Story {
    let mut story = Story::new(2, vec![vcpu(0, 4, 10), vcpu(1, 2, 10)]);
    let grant = |vcpu: u32| Grant::new(VcpuId(vcpu), Limit(Duration::from_ticks(4)));
    story.woke(0, 0).woke(1, 0).planned(0, |plan| {
        plan.run_queue_mut(CoreId(0)).foreground.push(grant(0));
        plan.run_queue_mut(CoreId(0)).background.push(Grant::new(VcpuId(0), Limit::NEVER));
        plan.run_queue_mut(CoreId(1)).foreground.push(grant(1));
    });
    story.ran((0, 0, Foreground), (0, 4), LimitReached);
    story.ran((0, 0, Background), (4, 6), Preempted);
    story.planned(6, |plan| plan.run_queue_mut(CoreId(0)).background_allowed = false);
    story
}

#[test]
fn gauges_say_what_the_report_says_and_what_holds_now() {
    let mut story = throttled_story();
    let shown = gauges(&story.journal(9));
    assert_eq!((shown.at, shown.policy.as_str()), (t(9), "maracas"));
    let core = &shown.cores[0];
    assert_eq!((core.is_throttled, core.is_closed, core.throttled.ticks()), (true, false, 3));
    assert!(!shown.cores[1].is_throttled);
    assert_eq!(shown.vcpus[0].last, Some((CoreId(0), Mode::Background)));
    assert_eq!(shown.vcpus[1].last, None);
    let used: Vec<_> = shown.vcpus.iter().map(|vcpu| vcpu.used.ticks()).collect();
    assert_eq!(used, [4, 0]);
    // The memory gate opens; core 1 spends its allowance.
    story.planned(9, |plan| {
        plan.run_queue_mut(CoreId(0)).background_allowed = true;
        plan.run_queue_mut(CoreId(1)).allowance = MemoryLimit(5);
    });
    story.event(10, Event::AllowanceSpent { core: CoreId(1) });
    let shown = gauges(&story.journal(12));
    assert_eq!((shown.cores[0].is_throttled, shown.cores[1].is_closed), (false, true));
    assert_eq!((shown.vcpus[0].used.ticks(), shown.decisions), (0, 3), "a new period began at 10");
}

#[test]
fn short_periods_misses_and_migrations_are_counted() {
    let mut story = Story::new(2, vec![vcpu(0, 4, 10), vcpu(1, 2, 10).periodic()]);
    story.planned(0, |plan| {
        let grant = Grant::new(VcpuId(0), Limit(Duration::from_ticks(8)));
        plan.run_queue_mut(CoreId(0)).foreground.push(grant);
    });
    // 3 of 4 in the first period, 4 in the second; on two cores.
    story.woke(0, 0).ran((0, 0, Foreground), (0, 3), Preempted);
    story.ran((0, 1, Foreground), (10, 14), LimitReached);
    story.released(1, 0, 0, 10).released(1, 1, 10, 20);
    story.ran((1, 0, Foreground), (10, 14), Blocked).completed(1, 0, 14);
    story.ran((0, 1, Foreground), (20, 21), Metered);
    let shown = gauges(&story.journal(21));
    assert_eq!((shown.vcpus[0].short_periods, shown.vcpus[0].migrations), (1, 1));
    // One job ended late, the other is due and unfinished.
    assert_eq!((shown.vcpus[1].jobs, shown.vcpus[1].misses, shown.misses), (2, 2, 2));
    // What left is not shown, but what it did is kept in the sums.
    story.event(22, Event::Left(VcpuId(1)));
    let shown = gauges(&story.journal(23));
    let there: Vec<_> = shown.vcpus.iter().map(|vcpu| vcpu.vcpu.0).collect();
    assert_eq!((there.as_slice(), shown.misses), (&[0][..], 2));
}

#[test]
fn no_miss_and_no_preemption_is_taken_back() {
    let mut story = Story::new(1, vec![vcpu(0, 4, 10).periodic(), vcpu(1, 4, 10)]);
    story.released(0, 0, 0, 10).released(0, 1, 10, 20);
    story.ran((1, 0, Foreground), (0, 4), Preempted);
    // The end of job 0 is reported late, at 12; that of job 1 never.
    story.woke(1, 11);
    let events = |until: usize, journal: &[u8]| {
        let (header, reader) = Reader::open(journal).unwrap();
        let mut metrics = Metrics::new(&header);
        reader.take(until).for_each(|record| _ = metrics.record(&record.unwrap()));
        metrics.gauges()
    };
    story.ran((0, 0, Foreground), (4, 9), Blocked).completed(0, 0, 9).woke(1, 29).woke(1, 30);
    let journal = story.journal(30);
    let misses = |until: usize| events(until, &journal).misses;
    let seen: Vec<_> = (1..=9).map(misses).collect();
    assert_eq!(seen, [0, 0, 0, 0, 0, 0, 0, 1, 1], "job 1 counts a period after its deadline");
    let seen: Vec<_> = (1..=9).map(|n| events(n, &journal).vcpus[1].preemptions).collect();
    assert_eq!(seen, [0, 0, 0, 0, 0, 0, 0, 0, 1], "that it stands preempted is said at the end");
}

#[test]
fn samples_and_failures_are_counted_as_they_come() {
    let mut story = throttled_story();
    for (at, requests, occupancy, by_core) in [(10, 4, 40, [3, 1]), (30, 2, 100, [1, 1])] {
        let by_core = by_core.to_vec();
        story.event(at, Event::Sampled(Sample { requests, occupancy, by_core }));
    }
    story.event(31, Event::Failed { core: CoreId(0), what: Refused::Sample });
    let shown = gauges(&story.journal(40));
    let memory = shown.memory.unwrap();
    assert_eq!((memory.samples, memory.requests, memory.occupancy), (2, 6, 140));
    let last = (memory.last_requests, memory.last_occupancy, memory.last_span.ticks());
    assert_eq!((last, memory.max_latency), ((2, 100, 20), None));
    assert_eq!(shown.cores.iter().map(|core| core.sampled).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(shown.cores.iter().map(|core| core.last_sampled).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(shown.failures, 1);
}

#[test]
fn notes_of_a_live_machine_are_read() {
    let story = throttled_story();
    let journal = story.journal(9);
    let (header, _) = Reader::open(&journal).unwrap();
    let mut metrics = Metrics::new(&header);
    let mut note = |key: &str, text: &str| {
        let note = Note::read(key.to_string(), None, text.to_string());
        metrics.record(&Record::Note { at: t(5), note });
    };
    note("host", "a board");
    note("sensor", "amd");
    note("unheard", "of");
    for text in ["0 1000", "1 3000 enacted", "0 9000", "x", "0 y"] {
        note("dispatch", text);
    }
    let shown = metrics.gauges();
    assert_eq!((shown.host.as_str(), shown.sensor.as_str()), ("a board", "amd"));
    assert_eq!((shown.at, shown.over), (t(5), false));
    assert_eq!(shown.dispatch.count(), 3);
    assert_eq!(shown.dispatch.sum(), Duration::from_nanos(13_000));
}
