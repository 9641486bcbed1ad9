//! Every host that is not there gets its rows, its words and its exit code.

use super::findings::count_on_all;
use super::*;
use crate::host::HardwareCore;
use crate::host::classes::HostClass;
use crate::host::costs::WakeCost;
use crate::host::perf::TRIAL_STEPS;
use crate::host::platform::{Platform, Preemption};
use crate::host::probe::{self, Capabilities, Capability, Finding, Latency, Rights};
use crate::host::resctrl::{Allocation, Bandwidth, Info, Unit};
use crate::sense::meter::{Noticing, Reaction};
use std::path::PathBuf;

const CORES: [HardwareCore; 2] = [HardwareCore(0), HardwareCore(1)];

/// Everything that budgets stand on.
fn reservations() -> Capabilities {
    let works = |capability| Finding {
        capability,
        state: probe::State::Works,
        proof: "tried".to_owned(),
        remedy: "",
        fallback: "",
    };
    let needed = [
        Capability::Fifo,
        Capability::Freezer,
        Capability::Pidfd,
        Capability::GroupBudget,
        Capability::SwitchRecords,
        Capability::StopSignal,
        Capability::Deadline,
    ];
    let platform = Platform {
        cores: CORES.to_vec(),
        online: 2,
        kernel: "6.18.0".to_owned(),
        model: Some("A Fine Core".to_owned()),
        memory_bytes: 8_000_000_000,
        tick_hz: Some(250),
        preemption: Preemption::Full,
    };
    let freezer = Some(Latency { freeze_ns: 4200, thaw_ns: 17_300 });
    Capabilities { platform, findings: needed.into_iter().map(works).collect(), freezer }
}

/// Resource control with all of its parts.
fn shares() -> Shares {
    let cache = Allocation {
        level: 3,
        code_and_data: false,
        mask: 0x7ff,
        min_bits: 1,
        shareable: 0,
        sparse: false,
        classes: 16,
    };
    let bandwidth = Bandwidth { classes: 8, min: 10, step: 10, unit: Unit::Percent };
    let info = Info {
        root: PathBuf::from("/sys/fs/resctrl"),
        mounted_by: None,
        cache: Some(cache),
        bandwidth: Some(bandwidth),
        monitoring: None,
    };
    Shares {
        info: Ok(Some(info)),
        ways: Ok(Some(0x1f)),
        bandwidth: Ok(Some(Duration::from_micros(7))),
    }
}

/// A wake that is so late at the median and takes so much of a core, in nanoseconds.
fn costs(late_ns: u64, taken_ns: u64) -> Costs {
    let ns = maracas_core::Duration::from_nanos;
    Costs {
        wake: WakeCost { p50: ns(late_ns), p99: ns(late_ns * 5) },
        taken: ns(taken_ns),
        interrupt: Some(ns(2_000)),
        setting: ns(900),
        switch: ns(1_600),
    }
}

/// A host on which everything works, by hand.
fn everything() -> Findings {
    let reaction = Reaction {
        noticing: Noticing::Alarm,
        fifo: true,
        n: 200,
        p50: Duration::from_micros(12),
        p99: Duration::from_micros(40),
        longest: Duration::from_micros(90),
        beyond_p50: 30,
        beyond_p99: 100,
    };
    Findings {
        reservations: reservations(),
        costs: Ok(costs(4_000, 9_000)),
        stolen_ppb: Some(1_500_000),
        kernel: Kernel::default(),
        classes: Detected {
            classes: vec![HostClass { speed_milli: 1000, cores: CORES.to_vec() }],
            how: "a test".to_owned(),
            passed_over: Vec::new(),
        },
        instructions: Ok(TRIAL_STEPS),
        sensors: vec![Tried {
            sensor_kind: crate::sense::SensorKind::Uncore,
            state: preference::State::Works { proof: "moved".to_owned() },
            events: vec!["uncore_arb/event=0x80,umask=0x1/".to_owned()],
        }],
        meter: Ok(Metered { cores: 2, alarms: true, is_common: true, reaction: Ok(reaction) }),
        vcpus: Ok("counted".to_owned()),
        shares: shares(),
        frames: Ok(0x1234),
        rights: Rights { root: true, capabilities: vec!["CAP_PERFMON"], paranoid: Some(2) },
        socket: Ok("/run/maracas".to_owned()),
        client: Client::default(),
    }
}

fn row<'a>(report: &'a Report, capability: &str) -> &'a Row {
    let found = report.rows.iter().find(|row| row.capability == capability);
    found.unwrap_or_else(|| panic!("no row \"{capability}\""))
}

fn lose(found: &mut Findings, capability: Capability) {
    let all = found.reservations.findings.iter_mut();
    for finding in all.filter(|finding| finding.capability == capability) {
        finding.state = probe::State::Missing;
        finding.fallback = "something else";
    }
}

#[test]
fn a_host_with_everything_is_full_and_each_row_says_how_it_was_proved() {
    let report = Report::of(&everything());
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Full, 0));
    assert_eq!(report.why, [""; 0]);
    assert_eq!(report.sensor, Some(crate::sense::SensorKind::Uncore));
    assert!(report.support.starts_with("full"), "live tests go by this word");
    let missing: Vec<_> = report.rows.iter().filter(|row| row.state == State::Missing).collect();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0].capability, "client library");
    let ways = row(&report, "cache ways (CAT)");
    let words = "L3: 11 ways, at least 1 side by side, 16 classes; a core was given ways 0x1f and \
                 gave them back";
    assert_eq!((ways.state, ways.proof.as_str()), (State::Works, words));
    let mba = row(&report, "bandwidth (MBA)");
    let words = "from 10 in steps of 10 percent, 8 classes; a core was given the least and all \
                 again, in 7.0 us a write";
    assert_eq!(mba.proof, words);
    let meter = row(&report, "core memory meters");
    let words = "2 cores count their reads of memory; a mark was noticed by the counter's \
                 overflow: p50 12.0 us, p99 40.0 us, max 90.0 us; 30 events beyond the mark, p99 \
                 100 (n = 200)";
    assert_eq!(meter.proof, words);
    assert_eq!(report.numbers.meter_p99, Some(Duration::from_micros(40)));
    assert_eq!(report.numbers.bandwidth_write, Some(Duration::from_micros(7)));
    let sections: Vec<Section> = report.rows.iter().map(|row| row.section).collect();
    assert!(sections.is_sorted(), "each section stands together");
    let reported = |row: &Row| !row.proof.is_empty() && !row.capability.is_empty();
    assert!(report.rows.iter().all(reported));
}

#[test]
fn a_host_says_what_its_timers_let_it_keep() {
    let report = Report::of(&everything());
    let precision = row(&report, "precision");
    let words = "1 period in 100 is off by more than 20us (p99 of a wake); C from 400us is within \
                 1 %; the agent takes less than a tenth of a core for T from 180us";
    assert_eq!((precision.state, precision.proof.as_str()), (State::Works, words));
    let proofs = ["wake", "timer interrupt", "timer setting", "thread switch", "stolen time"];
    let proofs = proofs.map(|name| row(&report, name).proof.as_str());
    let words = [
        "4us late at the median, p99 20us; it takes 9us of the core",
        "takes 2us of the core",
        "takes 900ns",
        "takes 1.6us, with the wake through an eventfd",
        "0.1 % of the core that lost the most, while all this was tried",
    ];
    assert_eq!(proofs, words);
    assert_eq!(report.numbers.costs, Some(costs(4_000, 9_000)));
    assert_eq!(report.numbers.stolen_ppb, Some(1_500_000));
}

#[test]
fn a_host_with_slow_timers_is_degraded_and_says_from_where_on_it_keeps_budgets() {
    let mut found = everything();
    found.costs = Ok(costs(39_134, 24_000));
    let report = Report::of(&found);
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Degraded, 1));
    let words = "1ms in 10ms is not kept within 1 %: a budget ends 40us late at the median, and a \
                 wake takes 24us; give at least 4ms, in periods of at least 480us";
    assert_eq!(report.why, [words]);
    let precision = row(&report, "precision");
    assert_eq!(precision.state, State::Missing);
    assert!(!precision.remedy.is_empty() && precision.fallback.contains("owe it"));
    // A late wake alone, and one that takes much alone.
    for (costs, full) in [
        (costs(10_000, 9_000), true),
        (costs(10_001, 9_000), false),
        (costs(10_000, 500_001), false),
    ] {
        found.costs = Ok(costs);
        assert_eq!(Report::of(&found).verdict == Verdict::Full, full, "{costs:?}");
    }
    found.costs = Err("no right to real-time priority".to_owned());
    let report = Report::of(&found);
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(report.numbers.keeps, None);
    assert!(report.rows.iter().all(|row| row.capability != "wake"));
    assert!(row(&report, "precision").proof.ends_with("no right to real-time priority"));
}

#[test]
fn what_is_lost_degrades_and_says_what_is_done_instead() {
    let mut found = everything();
    lose(&mut found, Capability::Deadline);
    found.shares.info = Err("this kernel offers no resctrl on this processor".to_owned());
    found.frames = Err("zeros".to_owned());
    found.vcpus = Err("no".to_owned());
    let report = Report::of(&found);
    assert_eq!(report.verdict, Verdict::Full, "none of these is needed by every policy");
    assert!(row(&report, "bandwidth (MBA)").fallback.contains("freezing"));
    assert!(row(&report, "cache ways (CAT)").remedy.contains("MPAM (Linux 7.1)"));
    let by_overflow = "reads of memory are counted there by overflows";
    assert!(row(&report, "sched_ext").proof.contains(by_overflow));
    found.meter.as_mut().expect("meters").alarms = false;
    let report = Report::of(&found);
    assert!(row(&report, "sched_ext").proof.contains("policies that need them take agents"));
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::Degraded, 1));
    assert!(report.why[0].starts_with("no core signals by itself"), "{:?}", report.why);
    found.meter = Err(preference::State::Refused { why: "0 events".to_owned() });
    found.sensors[0].sensor_kind = crate::sense::SensorKind::Rate;
    lose(&mut found, Capability::GroupBudget);
    let report = Report::of(&found);
    let starts = ["reservations: no perfmon", "no sensor knows how long", "no core's reads"];
    assert_eq!(report.why.len(), starts.len());
    for (why, start) in report.why.iter().zip(starts) {
        assert!(why.starts_with(start), "{why}");
    }
    lose(&mut found, Capability::Pidfd);
    let report = Report::of(&found);
    assert_eq!((report.verdict, report.verdict.exit_code()), (Verdict::SimulationOnly, 3));
}

#[test]
fn resource_control_that_is_not_mounted_is_untried_and_refusals_are_reported() {
    let mut found = everything();
    found.shares = Shares { info: Ok(None), ways: Ok(None), bandwidth: Ok(None) };
    let report = Report::of(&found);
    let ways = row(&report, "cache ways (CAT)");
    assert_eq!(ways.state, State::Untried);
    assert!(ways.remedy.contains("mount -t resctrl"), "{}", ways.remedy);
    let mut found = everything();
    found.shares.ways = Err("/sys/fs/resctrl/x <- mkdir: Operation not permitted".to_owned());
    let report = Report::of(&found);
    let ways = row(&report, "cache ways (CAT)");
    assert_eq!(ways.state, State::Missing);
    assert!(
        ways.proof.ends_with("16 classes; /sys/fs/resctrl/x <- mkdir: Operation not permitted")
    );
}

#[test]
fn a_sensor_that_does_not_work_names_the_next_best() {
    let mut found = everything();
    let refused = |sensor_kind| Tried {
        sensor_kind,
        state: preference::State::Refused { why: "0 events under a known load".to_owned() },
        events: Vec::new(),
    };
    found.sensors.insert(0, refused(crate::sense::SensorKind::Uncore));
    found.sensors[1].sensor_kind = crate::sense::SensorKind::Chase;
    let report = Report::of(&found);
    let uncore = row(&report, "sensor uncore");
    assert!(uncore.proof.ends_with("not usable: 0 events under a known load"), "{}", uncore.proof);
    assert_eq!(uncore.fallback, "pointer chase (chase)");
    assert_eq!(report.sensor, Some(crate::sense::SensorKind::Chase));
    found.sensors[1].sensor_kind = crate::sense::SensorKind::Mbm;
    let report = Report::of(&found);
    assert!(row(&report, "sensor uncore").fallback.starts_with("none"), "no latency");
    assert_eq!(report.verdict, Verdict::Degraded);
}

#[test]
fn classes_colours_and_counters_say_what_is_done_without_them() {
    let mut found = everything();
    let even = Report::of(&found);
    let even = row(&even, "core classes");
    assert_eq!(even.proof, "equal cores, as far as this host says: a test");
    assert!(even.fallback.contains("--emulate") && even.remedy.is_empty());
    let class = |speed_milli, core| HostClass { speed_milli, cores: vec![HardwareCore(core)] };
    found.classes.classes = vec![class(1000, 1), class(500, 0)];
    found.instructions = Err("no such thing".to_owned());
    let hashed = "addresses are hashed over slices".to_owned();
    let cache =
        |cache: &str, colors, remark| CacheColors { cache: cache.to_owned(), colors, remark };
    found.client = Client {
        library: Some(PathBuf::from("/usr/lib/libmaracas_client.so")),
        caches: vec![cache("L2", Some(16), String::new()), cache("L3", None, hashed)],
    };
    let report = Report::of(&found);
    let uneven = row(&report, "core classes");
    assert!(uneven.proof.starts_with("2 classes by a test: core 1 at speed 1000, core 0 at"));
    assert!(uneven.remedy.contains("[[platform.class]]") && uneven.fallback.is_empty());
    let counters = row(&report, "instruction counters");
    assert_eq!((counters.state, counters.proof.as_str()), (State::Missing, "no such thing"));
    assert!(counters.fallback.contains("maracas_progress"));
    assert_eq!(row(&report, "client library").proof, "/usr/lib/libmaracas_client.so");
    let colors = report.rows.iter().filter(|row| row.capability == "page colours");
    let colors: Vec<_> = colors.map(|row| row.proof.as_str()).collect();
    let unknown = "L3: colours not known: addresses are hashed over slices";
    assert_eq!(colors, ["L2: 16 colours", unknown]);
}

#[test]
fn instructions_are_counted_or_refused_by_core() {
    let cores = Platform::detect().expect("readable").cores;
    match count_on_all(&cores) {
        // A step takes a handful of instructions, even where nothing is optimized.
        Ok(count) => assert!((TRIAL_STEPS..1000 * TRIAL_STEPS).contains(&count), "{count}"),
        Err(error) => assert!(error.to_string().starts_with("core ")),
    }
}

mod hosts;
