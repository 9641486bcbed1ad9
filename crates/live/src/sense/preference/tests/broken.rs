//! Hosts that say one thing and do another.

use super::*;
use crate::host::hardware::Load;

#[test]
fn counters_that_stand_still_are_refused() {
    let host = FakeHost::of(fakes::SKYLAKE);
    host.script(|code| code.unit == 13, |script| script.lines = 0);
    let preference = probe(&host, &[0, 1]);
    let uncore = tried(&preference, SensorKind::Uncore);
    let why = "it stood still while 200000 lines were read from memory on core 0";
    assert_eq!(uncore.state, State::Refused { why: why.into() });
    assert_eq!(preference.best().map(|best| best.sensor_kind), Some(SensorKind::Offcore));
    let senses = preference.choose(&Sense::Auto).expect("the next sensor");
    assert!(senses.notes.iter().any(|note| note.contains("it stood still")), "{senses:?}");
}

#[test]
fn a_tenth_of_the_load_is_not_enough() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    host.script(|code| code.config == 0x4844, |script| script.lines = 100);
    let preference = probe(&host, &[0, 1]);
    let why = "it counted 2000 while 20000 lines were read from memory on core 0: at least 6666 \
               are due";
    assert_eq!(preference.reads().state, State::Refused { why: why.into() });
    let senses = preference.choose(&Sense::Auto).expect("the sensor works");
    assert_eq!((senses.meters.len(), senses.vcpus.reads), (0, None));
    assert!(senses.notes[0].contains("no memory meters of cores: not usable: it counted 2000"));
    // And ten times it is too much.
    host.script(|code| code.config == 0x4844, |script| script.lines = 10_000);
    let reported = probe(&host, &[0, 1]).reads().state.to_string();
    assert!(
        reported.contains("it counted 200000") && reported.contains("at most 160000 may be"),
        "{reported}"
    );
}

#[test]
fn what_counts_without_a_load_is_refused() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    // Something else per cycle: ten times a microsecond, whatever runs.
    host.script(|code| code.config == 0x4844, |script| script.clock = 10);
    let reported = probe(&host, &[0, 1]).reads().state.to_string();
    assert!(reported.contains("while core 0 computed in registers"), "{reported}");
}

#[test]
fn a_busy_machine_does_not_prove_what_all_share() {
    let host = FakeHost::of(fakes::SKYLAKE);
    // Others read 20 lines a microsecond all the time: the load may be among them or not.
    host.script(|code| code.unit == 13, |script| script.clock = 20);
    let preference = probe(&host, &[0, 1]);
    assert!(tried(&preference, SensorKind::Uncore).state.works(), "what the load adds is seen");
    host.script(|code| code.unit == 13, |script| script.lines = 0);
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
    assert!(reported.contains("at least 66666 are due beyond the 40000"), "{reported}");
}

#[test]
fn what_all_share_is_proved_beside_traffic_that_is_never_the_same() {
    let host = FakeHost::of(fakes::SKYLAKE);
    // 400 to 570 lines a microsecond (36 GB/s) by others: in 2 ms between 0 and 340,000 more than
    // at the least, which is more than the load itself.
    let busy = |script: &mut fakes::Script| (script.clock, script.noise) = (400, 170);
    host.script(|code| code.unit == 13, busy);
    for _ in 0..8 {
        // Whatever others do just when it begins.
        let short = std::time::Duration::from_nanos(1);
        host.load(HardwareCore(0), Load::Compute(short)).expect("a load");
        let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
        assert!(reported.contains("works: 200000 lines read from memory on core 0"), "{reported}");
    }
    // And what counts others alone is not taken for one that counts us.
    host.script(|code| code.unit == 13, |script| script.lines = 0);
    for _ in 0..8 {
        let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
        assert!(reported.contains("at least 66666 are due beyond"), "{reported}");
    }
}

#[test]
fn counters_that_take_turns_are_refused() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    host.script(|code| code.config == 0x5f, |script| script.counted = 600);
    let preference = probe(&host, &[0, 1]);
    let reported = tried(&preference, SensorKind::Amd).to_string();
    assert!(reported.contains("it counts 60 % of the time alone and takes turns"), "{reported}");
    assert!(reported.contains("kernel.nmi_watchdog=0"), "{reported}");
    assert_eq!(preference.best().map(|best| best.sensor_kind), Some(SensorKind::Rate));
}

#[test]
fn counters_that_begin_to_take_turns_are_extrapolated_and_said() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    let preference = probe(&host, &[0, 1]);
    let mut senses = preference.choose(&Sense::Auto).expect("it works");
    let sensor = senses.sensor.as_mut().expect("a sensor");
    host.script(|code| code.config == 0xde44, |script| script.counted = 500);
    host.load(HardwareCore(0), Load::Chase { lines: 10_000 }).expect("a chase");
    let mut reading = Reading::default();
    sensor.read(Instant::ZERO, &mut reading).expect("a reading");
    assert_eq!(reading.requests, 15_000);
    let remark = sensor.remark().expect("it is said");
    assert!(remark.starts_with("2 of 6 counters took turns with another program's"), "{remark}");
    assert!(remark.contains("counted 50 % of its time"), "{remark}");
}

#[test]
fn without_the_right_to_count_the_way_out_is_named() {
    let host = FakeHost::of(fakes::SKYLAKE);
    host.script(|_| true, |script| script.refused = Some(libc::EACCES));
    let preference = probe(&host, &[0, 1]);
    let uncore = tried(&preference, SensorKind::Uncore);
    let State::Missing { why, way } = &uncore.state else { panic!("{uncore}") };
    assert!(why.starts_with("counting uncore_cbox_0/event=0xff/ of core 0"), "{why}");
    assert!(why.ends_with("the right to count is not, or no longer, ours"), "{why}");
    assert_eq!(way, "give CAP_PERFMON, or set kernel.perf_event_paranoid to 0 (it is 2)");
    assert_eq!(preference.best(), None);
    // What is there and not for us says more than what is not there.
    let guest = FakeHost::of(fakes::ZEN_5_GUEST);
    guest.script(|_| true, |script| script.refused = Some(libc::EACCES));
    let amd = probe(&guest, &[0, 1]);
    let amd = tried(&amd, SensorKind::Amd).to_string();
    assert!(amd.contains("missing: counting cpu/event=0x76/ of core 0"), "{amd}");
}

#[test]
fn without_memory_for_the_loads_nothing_is_called_broken() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    host.crowd();
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Amd).to_string();
    assert!(reported.contains("missing: only 200 MiB are free; give it more"), "{reported}");
}

#[test]
fn a_right_that_is_lost_midway_is_reported_and_does_not_panic() {
    let host = FakeHost::of(fakes::SKYLAKE);
    let preference = probe(&host, &[0, 1]);
    let lose = |script: &mut fakes::Script| {
        (script.reads, script.fails) = (Some(1), libc::EPERM);
    };
    host.script(|code| code.unit == 13, lose);
    let mut senses = preference.choose(&Sense::Auto).expect("it opens");
    let sensor = senses.sensor.as_mut().expect("a sensor");
    let error = sensor.read(Instant::ZERO, &mut Reading::default()).expect_err("it is lost");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    let reported = error.to_string();
    assert!(
        reported.starts_with("reading uncore_arb/event=0x80,umask=0x1/ of core 0: "),
        "{reported}"
    );
    // Tried again it is missing, by the same words.
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
    assert!(reported.contains("missing: reading uncore_arb"), "{reported}");
    host.script(|code| code.unit == 13, |script| script.fails = libc::ENODEV);
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
    assert!(reported.contains("not usable: reading uncore_arb/event=0x80"), "{reported}");
    assert!(reported.contains("its core or its unit is off line"), "{reported}");
}

#[test]
fn a_format_that_lacks_a_term_is_named() {
    let host = FakeHost::of(fakes::ZEN_4);
    host.remove("/sys/bus/event_source/devices/amd_l3/format/enallslices");
    let preference = probe(&host, &[0, 1]);
    // The cores count themselves; what is wrong with the L3 is seen where they do not.
    assert_eq!(tried(&preference, SensorKind::Amd).events[0], "cpu/event=0x5f/");
    host.script(|code| code.config == 0x5f, |script| script.lines = 0);
    let host_without = probe(&host, &[0, 1]);
    let reported = tried(&host_without, SensorKind::Amd).to_string();
    let why = "unit amd_l3 has no term enallslices: its format has coreid, enallcores, event, \
               sliceid, threadmask, umask";
    assert!(reported.contains(why), "{reported}");
}

#[test]
fn a_clock_that_stands_is_refused() {
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    host.script(|code| code.config == 1, |script| script.clock = 0);
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
    assert!(
        reported
            .contains("not usable: its clock, uncore_cha_0/event=0x1/ of core 0, went 0 cycles"),
        "{reported}"
    );
}

#[test]
fn a_latency_beyond_reason_is_refused() {
    let host = FakeHost::of(fakes::SKYLAKE);
    host.script(|code| code.config == 0x180, |script| script.lines = 3000);
    host.script(|code| code.config == 0x280, |script| script.lines = 320_000_000);
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Uncore).to_string();
    assert!(reported.contains("220000 requests of 0 ns each"), "{reported}");
}

#[test]
fn resctrl_that_is_not_mounted_is_left_so() {
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    host.put("/proc/self/mountinfo", "");
    let bytes = probe(&host, &[0, 1]);
    let reported = tried(&bytes, SensorKind::Mbm).to_string();
    assert!(reported.ends_with("mount -t resctrl resctrl /sys/fs/resctrl"), "{reported}");
    assert_eq!(host.written(), []);
}

#[test]
fn bytes_that_stand_still_are_refused() {
    let host = FakeHost::of(fakes::ZEN_4);
    // The core's cache is another than those that are counted.
    host.put("/sys/devices/system/cpu/cpu0/cache/index3/id", "7\n");
    let reported = tried(&probe(&host, &[0, 1]), SensorKind::Mbm).to_string();
    assert!(reported.contains("not usable: it stood still"), "{reported}");
}

#[test]
fn one_kind_of_cores_that_does_not_count_is_found_among_many() {
    let host = FakeHost::of(fakes::ALDER_LAKE);
    host.script(|code| code.unit == 10, |script| script.lines = 0);
    let preference = probe(&host, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let reported = preference.reads().state.to_string();
    assert!(reported.contains("it stood still while 20000 lines were read from memory on core 4"));
    // The arbiters do not need the cores, and no core is distinguished.
    assert_best(
        &preference,
        SensorKind::Uncore,
        &["uncore_arb_*/event=0x80,umask=0x1/", "uncore_arb_*/event=0x81,umask=0x1/"],
    );
    assert_eq!(chased(&host, &preference, 4).2, [0; 8]);
}

#[test]
fn counters_that_stand_still_in_company_are_left_out() {
    // The sensor takes three of a core, the meter one: VCPUs get what is left.
    for (most, references, reads) in [(6, true, true), (5, false, true), (4, false, false)] {
        let host = FakeHost::of(fakes::ZEN_5_GUEST);
        host.counters_of_a_core(most);
        let senses = probe(&host, &[0, 1]).choose(&Sense::Auto).expect("the sensor works");
        let counted = (senses.vcpus.references.is_some(), senses.vcpus.reads.is_some());
        assert_eq!(counted, (references, reads), "{most} counters: {:?}", senses.notes);
        let reported = |what: &str| {
            let reported = format!("{what} of VCPUs are not counted: too many at once");
            senses.notes.iter().any(|note| note.starts_with(&reported))
        };
        assert_eq!((reported("references"), reported("reads")), (!references, !reads));
    }
}
