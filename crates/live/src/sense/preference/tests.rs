use super::*;
use crate::sense::fakes::{self, FakeHost};
use crate::sense::{Reading, Sense};
use maracas_core::Instant;

mod broken;
mod this_host;

/// The managed cores of a test.
fn cores(numbers: &[u32]) -> Vec<(CoreId, HardwareCore)> {
    let pair = |(id, number): (usize, &u32)| (CoreId(id as u16), HardwareCore(*number));
    numbers.iter().enumerate().map(pair).collect()
}

fn probe(host: &FakeHost, numbers: &[u32]) -> Preference {
    Preference::probe(&host.hardware(), &cores(numbers))
}

fn tried(preference: &Preference, sensor_kind: SensorKind) -> &Tried {
    preference
        .sensors()
        .iter()
        .find(|tried| tried.sensor_kind == sensor_kind)
        .expect("every sensor is tried")
}

/// What the best sensor opens: unit, first and second word, core.
fn opened(host: &FakeHost, preference: &Preference) -> Vec<(u32, u64, u64, u32)> {
    opened_by(host, preference, preference.best().expect("something works").sensor_kind)
}

/// The same of a sensor that works.
fn opened_by(
    host: &FakeHost,
    preference: &Preference,
    sensor_kind: SensorKind,
) -> Vec<(u32, u64, u64, u32)> {
    let before = host.opened().len();
    let sensor = preference.open(sensor_kind).expect("it works");
    assert_eq!(sensor.sensor_kind(), sensor_kind);
    let codes = host.opened();
    let codes = codes[before..].iter();
    codes.map(|(code, core)| (code.unit, code.config, code.config1, core.0)).collect()
}

fn assert_best(preference: &Preference, sensor_kind: SensorKind, events: &[&str]) {
    let best = preference.best().unwrap_or_else(|| panic!("nothing works: {preference:#?}"));
    assert_eq!(best.sensor_kind, sensor_kind, "{preference:#?}");
    assert_eq!(best.events, events);
}

/// The latency that a sensor shows of a chase on the first core, in nanoseconds.
fn chased(host: &FakeHost, preference: &Preference, core: u32) -> (u64, u64, Vec<u64>) {
    use crate::host::hardware::Load;
    let mut senses = preference.choose(&Sense::Auto).expect("it works");
    let sensor = senses.sensor.as_mut().expect("a sensor");
    let mut reading = Reading::default();
    host.load(HardwareCore(core), Load::Chase { lines: 10_000 }).expect("a chase");
    sensor.read(Instant::ZERO, &mut reading).expect("a reading");
    assert_eq!(sensor.remark(), None);
    let ns = reading.occupancy * 1000 / sensor.cycles_per_us() / reading.requests;
    (ns, reading.requests, reading.by_core)
}

#[test]
fn many_cores_take_no_longer_than_few() {
    let all: Vec<u32> = (0..128).collect();
    for tree in [fakes::SKYLAKE, fakes::ZEN_5_GUEST, fakes::BARE_GUEST] {
        let (few, many) = (FakeHost::of(tree), FakeHost::of(tree));
        probe(&few, &all[..4]);
        probe(&many, &all);
        assert_eq!(many.loaded(), few.loaded(), "four cores stand for their kind");
        assert!(many.loaded() < std::time::Duration::from_secs(2), "{:?}", many.loaded());
    }
}

#[test]
fn a_skylake_client_has_its_arbiter() {
    let host = FakeHost::of(fakes::SKYLAKE);
    let preference = probe(&host, &[0, 1]);
    let arbiter = ["uncore_arb/event=0x80,umask=0x1/", "uncore_arb/event=0x81,umask=0x1/"];
    let reads = "cpu/event=0x2e,umask=0x41/";
    assert_best(&preference, SensorKind::Uncore, &[arbiter[0], arbiter[1], reads]);
    let codes = opened(&host, &preference);
    let expected = [(13, 0x180, 0, 0), (13, 0x181, 0, 0), (4, 0x412e, 0, 0), (4, 0x412e, 0, 1)];
    assert_eq!(codes, expected);
    // 320 cycles of 3200 a us, and by core what the core itself missed.
    assert_eq!(chased(&host, &preference, 1), (100, 11_000, vec![0, 10_000]));
    // The next sensor works as well, and can be asked for.
    let codes = opened_by(&host, &preference, SensorKind::Offcore);
    assert_eq!(codes[..2], [(4, 0x1060, 0, 0), (4, 0x10b0, 0, 0)]);
    assert_eq!(tried(&preference, SensorKind::Rate).events, ["uncore_imc/event=0x1/", reads]);
    let reported = tried(&preference, SensorKind::Amd).to_string();
    assert_eq!(
        reported,
        "AMD fill latency: missing: this is Intel family 6 model 0x5e; other sensors \
                      are meant for it"
    );
}

#[test]
fn a_hybrid_sums_its_arbiters_and_keeps_kinds_of_cores_apart() {
    let host = FakeHost::of(fakes::ALDER_LAKE);
    let preference = probe(&host, &[0, 4]);
    assert_best(
        &preference,
        SensorKind::Uncore,
        &[
            "uncore_arb_*/event=0x80,umask=0x1/",
            "uncore_arb_*/event=0x81,umask=0x1/",
            "cpu_core/event=0x2e,umask=0x41/",
            "cpu_atom/event=0x2e,umask=0x41/",
        ],
    );
    let codes = opened(&host, &preference);
    let arbiters = [(20, 0x180), (20, 0x181), (21, 0x180), (21, 0x181)];
    let arbiters = arbiters.map(|(unit, config)| (unit, config, 0, 0));
    assert_eq!(codes[..4], arbiters);
    assert_eq!(codes[4..], [(4, 0x412e, 0, 0), (10, 0x412e, 0, 4)]);
    assert_eq!(chased(&host, &preference, 4), (92, 10_000, vec![0, 10_000]));
    // One event cannot count a group's reads on both kinds.
    let senses = preference.choose(&Sense::Auto).expect("it works");
    assert_eq!((senses.vcpus, senses.meters.len()), (VcpuEvents::default(), 2));
    assert!(senses.notes.iter().any(|note| note.contains("several kinds")), "{senses:?}");
    let offcore = tried(&preference, SensorKind::Offcore);
    let why = "core 4 belongs to none of the units cpu, cpu_core";
    assert!(offcore.to_string().contains(why), "{offcore}");
    // On the fast cores alone there is all of it.
    let preference = probe(&host, &[0, 1]);
    let codes = opened_by(&host, &preference, SensorKind::Offcore);
    assert_eq!(codes[..2], [(4, 0x1020, 0, 0), (4, 0x1021, 0, 0)]);
    let senses = preference.choose(&Sense::Auto).expect("it works");
    assert_eq!(senses.vcpus.reads.map(|code| code.config), Some(0x412e));
    assert_eq!(senses.vcpus.references.map(|code| code.config), Some(0x4f2e));
    // Those of this host that a test invents never interrupt.
    assert_eq!(senses.overflows, None);
    assert_eq!(overflows(senses.vcpus.reads, &senses.meters), None);
    let rings: [Box<dyn Meter>; 2] = [Box::new(Ringing(true)), Box::new(Ringing(true))];
    assert_eq!(overflows(senses.vcpus.reads, &rings), senses.vcpus.reads);
    let [first, _] = rings;
    let one_asked = [first, Box::new(Ringing(false)) as Box<dyn Meter>];
    assert_eq!(overflows(senses.vcpus.reads, &one_asked), None, "one would be held by none");
    assert_eq!(overflows(senses.vcpus.reads, &[]), None);
}

/// A meter that signals or not.
struct Ringing(bool);

impl Meter for Ringing {
    fn read(&mut self, _: Instant) -> std::io::Result<u64> {
        Ok(0)
    }
    fn arm(&mut self, _: Option<u64>) -> std::io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<std::os::fd::RawFd> {
        self.0.then_some(0)
    }
}

#[test]
fn a_server_asks_the_boxes_of_the_packages_it_manages() {
    let host = FakeHost::of(fakes::ICE_LAKE_SP);
    let preference = probe(&host, &[0, 1]);
    let (occupancy, requests) = (0x00c8_17fe_0000_0136, 0x00c8_17fe_0000_0135);
    let codes = opened(&host, &preference);
    let boxes = [(30, occupancy), (30, requests), (31, occupancy), (31, requests)];
    assert_eq!(codes[..4], boxes.map(|(unit, config)| (unit, config, 0, 0)));
    assert_eq!(codes.len(), 4 + 2);
    assert_eq!(chased(&host, &preference, 0), (90, 10_000, vec![10_000, 0]));
    let both = probe(&host, &[0, 2]);
    let codes = opened(&host, &both);
    let slots: Vec<_> = codes[..8].iter().map(|code| code.3).collect();
    assert_eq!(slots, [0, 0, 2, 2, 0, 0, 2, 2]);
    // Without the agents there are the controllers' queues.
    host.remove("/sys/bus/event_source/devices/uncore_cha_0");
    host.remove("/sys/bus/event_source/devices/uncore_cha_1");
    let preference = probe(&host, &[0, 1]);
    let codes = opened(&host, &preference);
    let queue = [0x80, 0x81, 0x110, 0x210].map(|config| (40, config, 0, 0));
    assert_eq!(codes[..4], queue);
    assert_eq!(tried(&preference, SensorKind::Uncore).sensor_kind, SensorKind::Uncore);
    assert!(preference.choose(&Sense::Auto).is_ok_and(|senses| {
        senses.sensor.is_some_and(|sensor| sensor.describe().contains("the queue of the memory"))
    }));
}

#[test]
fn sapphire_rapids_has_agents_its_cores_and_resctrl() {
    let host = FakeHost::of(fakes::SAPPHIRE_RAPIDS);
    let preference = probe(&host, &[0, 1]);
    assert_eq!(preference.best().map(|best| best.sensor_kind), Some(SensorKind::Uncore));
    assert_eq!(chased(&host, &preference, 0).0, 105);
    let codes = opened_by(&host, &preference, SensorKind::Offcore);
    assert_eq!(codes[..2], [(4, 0x1020, 0, 0), (4, 0x1021, 0, 0)]);
    let bytes = tried(&preference, SensorKind::Mbm);
    assert!(bytes.state.works(), "{bytes}");
    assert_eq!(bytes.events, ["mon_data/mon_L3_*/mbm_total_bytes"]);
    let mut senses = preference.choose(&Sense::Sensor(SensorKind::Mbm)).expect("it works");
    let sensor = senses.sensor.as_mut().expect("a sensor");
    use crate::host::hardware::Load;
    host.load(HardwareCore(0), Load::Chase { lines: 5_000 }).expect("a chase");
    let mut reading = Reading::default();
    sensor.read(Instant::ZERO, &mut reading).expect("a reading");
    assert_eq!((reading.requests, reading.occupancy), (5_000, 0));
    assert!(senses.notes.iter().any(|note| note.contains("how long requests wait is not known")));
}

#[test]
fn zen_3_has_the_fill_latency_of_its_l3() {
    let host = FakeHost::of(fakes::ZEN_3);
    let preference = probe(&host, &[0, 1]);
    let events =
        ["amd_l3/event=0x90/", "amd_l3/event=0x9a,umask=0xff/", "cpu/event=0x44,umask=0x48/"];
    assert_best(&preference, SensorKind::Amd, &events);
    let codes = opened(&host, &preference);
    assert_eq!(codes[..2], [(12, 0x90, 0, 0), (12, 0xff9a, 0, 0)]);
    // 23 x 16 cycles of 4500 a us for 1.05 requests.
    assert_eq!(chased(&host, &preference, 0), (77, 10_500, vec![10_000, 0]));
    // A guest without that unit: its cores see nothing of a chase, and are not believed.
    host.remove("/sys/bus/event_source/devices/amd_l3");
    let preference = probe(&host, &[0, 1]);
    let amd = tried(&preference, SensorKind::Amd);
    assert_eq!(amd.events, ["cpu/event=0x5f/", "cpu/event=0x41,umask=0x7f/"]);
    assert!(
        matches!(&amd.state, State::Refused { why } if why.contains("its occupancy stood still"))
    );
    assert_eq!(preference.best().map(|best| best.sensor_kind), Some(SensorKind::Rate));
}

#[test]
fn zen_4_samples_latency_in_nanoseconds_and_counts_misses_beside_it() {
    let host = FakeHost::of(fakes::ZEN_4);
    let preference = probe(&host, &[0, 1]);
    assert_eq!(preference.best().map(|best| best.sensor_kind), Some(SensorKind::Amd));
    let codes = opened(&host, &preference);
    let l3 = [0x0303_c000_0000_3fac, 0x0303_c000_0000_3fad, 0x0303_c000_0000_0104];
    // Both cores are below the first L3; the other one is not asked.
    assert_eq!(codes[..3], l3.map(|config| (13, config, 0, 0)));
    assert_eq!(codes[3..], [(4, 0x4844, 0, 0), (4, 0x4844, 0, 1)]);
    assert_eq!(chased(&host, &preference, 0), (95, 11_000, vec![10_000, 0]));
    assert_eq!(opened(&host, &probe(&host, &[0, 2])).len(), 3 * 2 + 2);
    // Were it in cycles, the same chase would say so.
    host.script(|code| code.config == l3[0], |script| script.lines = 1800);
    let preference = probe(&host, &[0, 1]);
    assert_eq!(chased(&host, &preference, 0).0, 97);
    let rate = tried(&preference, SensorKind::Rate);
    assert_eq!(rate.events, ["amd_umc_*/event=0xa,rdwrmask=0x1/", "cpu/event=0x44,umask=0x48/"]);
    assert!(tried(&preference, SensorKind::Mbm).state.works());
    host.remove("/sys/bus/event_source/devices/amd_l3");
    let codes = opened(&host, &probe(&host, &[0, 1]));
    assert_eq!(codes[..3], [(4, 0x5f, 0, 0), (4, 0xde44, 0, 0), (4, 0x144, 0, 0)]);
}

#[test]
fn a_guest_with_the_cores_counters_takes_hits_of_the_l2_off() {
    let host = FakeHost::of(fakes::ZEN_5_GUEST);
    let preference = probe(&host, &[0, 1]);
    let events = ["cpu/event=0x5f/", "cpu/event=0x44,umask=0xde/", "cpu/event=0x44,umask=0x1/"];
    assert_best(&preference, SensorKind::Amd, &events);
    let codes = opened(&host, &preference);
    let core = |core| [0x5f, 0xde44, 0x144].map(|config| (4, config, 0, core));
    assert_eq!(codes, [core(0), core(1)].concat());
    // (650 - 0.4 x 12) cycles of 4200 a us for 1.5 fills.
    assert_eq!(chased(&host, &preference, 1), (102, 15_000, vec![0, 15_000]));
    assert_eq!(preference.reads().common().map(|code| code.config), Some(0x4844));
    assert_eq!(preference.references().common().map(|code| code.config), Some(0xde44));
}

#[test]
fn an_arm_server_has_reads_under_way_or_rates() {
    let host = FakeHost::of(fakes::NEOVERSE_V3);
    let preference = probe(&host, &[0, 1]);
    assert_best(
        &preference,
        SensorKind::Arm,
        &["armv8_pmuv3_0/event=0x8121/", "armv8_pmuv3_0/event=0x66/"],
    );
    let codes = opened(&host, &preference);
    let core = |core| [0x8121, 0x66].map(|config| (8, config, 0, core));
    assert_eq!(codes, [core(0), core(1)].concat());
    assert_eq!(chased(&host, &preference, 0).0, 115);
    let host = FakeHost::of(fakes::NEOVERSE_N1);
    let preference = probe(&host, &[0, 1]);
    assert_best(&preference, SensorKind::Rate, &["armv8_pmuv3_0/event=0x37/"]);
    let arm = tried(&preference, SensorKind::Arm);
    assert!(arm.to_string().contains("not usable: its occupancy stood still"), "{arm}");
    // A core that does not implement the first of the events has the third.
    host.script(|code| code.config == 0x37, |script| script.lines = 0);
    let preference = probe(&host, &[0, 1]);
    assert_best(&preference, SensorKind::Rate, &["armv8_pmuv3_0/event=0x19/"]);
    let codes = opened(&host, &preference);
    assert_eq!(codes, [(8, 0x19, 0, 0), (8, 0x19, 0, 1)]);
}

#[test]
fn a_virtual_machine_with_nothing_runs_and_says_so() {
    let host = FakeHost::of(fakes::BARE_GUEST);
    let preference = probe(&host, &[0, 1]);
    assert_eq!(preference.best(), None);
    let senses = preference.choose(&Sense::Auto).expect("everything runs without");
    assert!(senses.sensor.is_none() && senses.meters.is_empty());
    assert_eq!(senses.notes[0], "memory cannot be sensed here: no sensor of the preference works");
    let said = senses.notes.join("\n");
    for line in [
        "no memory meters of cores: missing: this kernel shows no unit cpu or cpu_core",
        "uncore occupancy and requests: missing: this kernel shows no unit uncore_cha",
        "a virtual machine has what its host passes on: use bare metal",
        "resctrl bandwidth monitoring: missing: this kernel offers no resctrl",
        "pointer chase: not usable: a line takes 100 ns alone and 100 ns beside a load",
    ] {
        assert!(said.contains(line), "{line}\n\nis not in\n\n{said}");
    }
    let refused = preference.choose(&Sense::Sensor(SensorKind::Uncore)).expect_err("it is missing");
    assert!(refused.starts_with("sensor uncore: missing: this kernel shows no unit"), "{refused}");
    // Neighbours that can be felt make the chase a sensor.
    host.contended(1500);
    let preference = probe(&host, &[0, 1]);
    assert_best(&preference, SensorKind::Chase, &[]);
    let alone = probe(&host, &[0]);
    assert!(tried(&alone, SensorKind::Chase).to_string().contains("no second managed core"));
}

#[test]
fn off_and_recordings_need_no_sensor_kind() {
    let preference = probe(&FakeHost::of(fakes::BARE_GUEST), &[0]);
    let senses = preference.choose(&Sense::Off).expect("nothing is always there");
    assert!(senses.sensor.is_none() && senses.notes.is_empty());
    let missing = Sense::Replay("/nowhere/recording.csv".into());
    let reported = preference.choose(&missing).expect_err("no such file");
    assert!(reported.starts_with("/nowhere/recording.csv: "), "{reported}");
    let none = Preference::probe(&FakeHost::of(fakes::SKYLAKE).hardware(), &[]);
    assert_eq!(none.sensors(), []);
}
