//! The report of every host that is not there, and of the same hosts with something broken.

use super::super::*;
use super::{everything, row};
use crate::host::hardware::Hardware;
use crate::host::{HardwareCore, Identity};
use crate::sense::fakes::{self, FakeHost};
use crate::sense::preference::{self, Preference};
use maracas_core::CoreId;
use std::path::Path;

/// What is found on a fake, with reservations, rights and whatever else is no matter of hardware
/// as on a host where all of it works.
fn found(host: &FakeHost, cores: &[u32]) -> Findings {
    let hardware = host.hardware();
    let cores: Vec<_> = (0..).map(CoreId).zip(cores.iter().map(|it| HardwareCore(*it))).collect();
    let preference = Preference::probe(&hardware, &cores);
    let reads = preference.reads();
    let mut found = everything();
    found.sensors = preference.sensors().to_vec();
    // Counters of fakes count and have no alarms; where reads are counted at all, they overflow.
    if !matches!(reads.state, preference::State::Works { .. }) {
        found.meter = Err(reads.state.clone());
        found.vcpus = Err("no event".to_owned());
    }
    found.shares = Shares::probe(&hardware, cores[1].1);
    found
}

fn report(tree: &str, cores: [u32; 2]) -> Report {
    Report::of(&found(&FakeHost::of(tree), &cores))
}

#[test]
fn every_host_gets_its_sensor_and_its_verdict() {
    use crate::sense::SensorKind::{Amd, Arm, Rate, Uncore};
    let hosts = [
        ("Skylake", fakes::SKYLAKE, [0, 1], Some(Uncore), Verdict::Full),
        ("Alder Lake", fakes::ALDER_LAKE, [0, 4], Some(Uncore), Verdict::Full),
        ("Ice Lake-SP", fakes::ICE_LAKE_SP, [0, 1], Some(Uncore), Verdict::Full),
        ("Sapphire Rapids", fakes::SAPPHIRE_RAPIDS, [0, 1], Some(Uncore), Verdict::Full),
        ("Zen 3", fakes::ZEN_3, [0, 1], Some(Amd), Verdict::Full),
        ("Zen 4", fakes::ZEN_4, [0, 1], Some(Amd), Verdict::Full),
        ("Zen 5 guest", fakes::ZEN_5_GUEST, [0, 1], Some(Amd), Verdict::Full),
        ("Neoverse N1", fakes::NEOVERSE_N1, [0, 1], Some(Rate), Verdict::Degraded),
        ("Neoverse V3", fakes::NEOVERSE_V3, [0, 1], Some(Arm), Verdict::Full),
        ("bare guest", fakes::BARE_GUEST, [0, 1], None, Verdict::Degraded),
    ];
    for (name, tree, cores, sensor, verdict) in hosts {
        let report = report(tree, cores);
        assert_eq!((report.sensor, report.verdict), (sensor, verdict), "{name}: {:?}", report.why);
        let sensors = report.rows.iter().filter(|row| row.capability.starts_with("sensor "));
        assert_eq!(sensors.clone().count(), 7, "{name}: every sensor has its row");
        for row in sensors {
            let works = row.state == State::Works;
            assert_eq!(works, row.fallback.is_empty(), "{name}: {row:?}");
        }
        if let Some(sensor_kind) = sensor {
            let best = row(&report, &format!("sensor {}", sensor_kind.word()));
            assert_eq!(best.state, State::Works, "{name}");
        }
    }
}

#[test]
fn a_host_that_counts_nothing_says_what_it_loses() {
    let report = report(fakes::BARE_GUEST, [0, 1]);
    assert_eq!(report.verdict.exit_code(), 1);
    assert!(report.why[0].contains("never throttle"), "{:?}", report.why);
    assert!(report.why[1].contains("(MemGuard) cannot be held"), "{:?}", report.why);
    let meters = row(&report, "core memory meters");
    assert_eq!(meters.state, State::Missing);
    assert!(!meters.remedy.is_empty() && !meters.proof.starts_with("missing"), "{meters:?}");
    let ways = row(&report, "cache ways (CAT)");
    assert_eq!(ways.proof, "this kernel offers no resctrl on this processor");
    assert!(ways.remedy.contains("outside of a virtual machine"));
}

#[test]
fn resource_control_is_tried_and_given_back() {
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    let report = Report::of(&found(&host, &[0, 1]));
    let ways = row(&report, "cache ways (CAT)");
    let words = "L3: 15 ways, at least 1 side by side, 15 classes; a core was given ways 0x7f and \
                 gave them back";
    assert_eq!((ways.state, ways.proof.as_str()), (State::Works, words));
    let bandwidth = row(&report, "bandwidth (MBA)");
    let start = "from 10 in steps of 10 percent, 15 classes; a core was given the least and all";
    assert!(bandwidth.proof.starts_with(start), "{}", bandwidth.proof);
    assert!(report.numbers.bandwidth_write.is_some());
    let left = host.list(Path::new("/sys/fs/resctrl")).expect("there");
    assert!(left.iter().all(|name| !name.starts_with("maracas-")), "{left:?}");
    let amd = super::hosts::report(fakes::ZEN_4, [0, 1]);
    let bandwidth = row(&amd, "bandwidth (MBA)");
    assert!(bandwidth.proof.starts_with("from 1 in steps of 1 eighths of a GB/s, 16 classes"));
    let gaps = row(&amd, "cache ways (CAT)");
    assert!(gaps.proof.starts_with("L3: 16 ways, at least 1, 16 classes"), "{}", gaps.proof);
}

#[test]
fn a_refused_class_is_reported_and_the_other_actuator_tried_all_the_same() {
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    let own = Identity::own().expect("alive");
    let schemata = format!("/sys/fs/resctrl/maracas-{own}-core1/schemata");
    host.refuse_writes(&schemata, libc::EINVAL);
    let report = Report::of(&found(&host, &[0, 1]));
    for (capability, line) in [("cache ways (CAT)", "L3:0=7f"), ("bandwidth (MBA)", "MB:0=10")] {
        let row = row(&report, capability);
        assert_eq!(row.state, State::Missing);
        let words = format!("{schemata} <- {line}: Invalid argument (os error 22)");
        assert!(row.proof.ends_with(&words), "{}", row.proof);
        assert!(!row.fallback.is_empty() && !row.remedy.is_empty());
    }
    assert_eq!(report.verdict, Verdict::Full, "no policy needs them");
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    host.put("/proc/self/mountinfo", "");
    let report = Report::of(&found(&host, &[0, 1]));
    assert_eq!(row(&report, "bandwidth (MBA)").state, State::Untried);
    assert!(host.written().is_empty(), "nothing is mounted, nothing is touched");
}

#[test]
fn counters_that_stand_still_take_turns_or_are_refused_are_not_offered() {
    let zeros = FakeHost::of(fakes::ZEN_3);
    zeros.script(|_| true, |script| script.lines = 0);
    let turns = FakeHost::of(fakes::ZEN_3);
    turns.script(|_| true, |script| script.counted = 300);
    let refused = FakeHost::of(fakes::ZEN_3);
    refused.script(|_| true, |script| script.refused = Some(libc::EACCES));
    for (name, host) in [("zeros", &zeros), ("turns", &turns), ("refused", &refused)] {
        let report = Report::of(&found(host, &[0, 1]));
        assert_eq!((report.sensor, report.verdict), (None, Verdict::Degraded), "{name}");
        let amd = row(&report, "sensor amd");
        assert_eq!(amd.state, State::Missing, "{name}: {}", amd.proof);
        let hopeless = "none: no sensor that knows latency works";
        assert_eq!(amd.fallback, hopeless, "{name}");
    }
    let report = Report::of(&found(&refused, &[0, 1]));
    let amd = row(&report, "sensor amd");
    assert!(amd.remedy.contains("CAP_PERFMON"), "{}", amd.remedy);
}

#[test]
fn a_meter_without_alarm_is_measured_by_asking() {
    let host = FakeHost::of(fakes::SKYLAKE);
    let hardware = host.hardware();
    let cores = [(CoreId(0), HardwareCore(0))];
    let preference = Preference::probe(&hardware, &cores);
    let meter = Metered::probe(&*hardware, &cores, preference.reads()).expect("reads are counted");
    assert_eq!((meter.cores, meter.alarms), (1, false));
    let mut found = everything();
    found.meter = Ok(meter);
    let report = Report::of(&found);
    assert_eq!(report.verdict, Verdict::Degraded);
    assert_eq!(row(&report, "core memory meters").state, State::Missing);
    let nothing = FakeHost::of(fakes::BARE_GUEST).hardware();
    let preference = Preference::probe(&nothing, &cores);
    assert!(Metered::probe(&*nothing, &cores, preference.reads()).is_err());
}
