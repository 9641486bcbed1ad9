use super::*;
use crate::host::hardware::{Hardware, Load};
use crate::sense::fakes::FakeHost;
use crate::sense::{Reading, Sensor};
use maracas_core::Instant;

const TREE: &str = "
/sys/bus/event_source/devices/uncore_cha_0/type: 30
/sys/bus/event_source/devices/uncore_cha_1/type: 31
/sys/bus/event_source/devices/cpu/type: 4
count 30 0x36: lines=100000 everywhere
count 30 0x35: lines=500 everywhere
count 31 0x36: lines=140000 everywhere
count 31 0x35: lines=500 everywhere
count 4 0x41: lines=1000
";

fn wanted(role: Role, unit: u32, config: u64, core: u32) -> Wanted {
    let code = EventCode { unit, config, config1: 0, config2: 0 };
    let name = match unit {
        4 => format!("cpu/event={config:#x}/"),
        _ => format!("uncore_cha_{}/event={config:#x}/", unit - 30),
    };
    Wanted { role, code, core: HardwareCore(core), name }
}

fn boxes() -> EventSet {
    let counters = vec![
        wanted(Role::Occupancy, 30, 0x36, 0),
        wanted(Role::Requests, 30, 0x35, 0),
        wanted(Role::Occupancy, 31, 0x36, 0),
        wanted(Role::Requests, 31, 0x35, 0),
        wanted(Role::ShareOf(0), 4, 0x41, 0),
        wanted(Role::ShareOf(1), 4, 0x41, 1),
    ];
    let (sensor_kind, cycles_per_us) = (SensorKind::Uncore, 2000);
    EventSet { sensor_kind, counters, scale: 1, cycles_per_us, cores: 2, meaning: "" }
}

/// What a sensor reads after a chase of so many lines on each core.
fn read(host: &FakeHost, sensor: &mut Counted, lines: [u64; 2]) -> Reading {
    for (core, lines) in lines.into_iter().enumerate() {
        host.load(HardwareCore(core as u32), Load::Chase { lines }).expect("a chase");
    }
    let mut reading = Reading::default();
    sensor.read(Instant::ZERO, &mut reading).expect("a reading");
    reading
}

#[test]
fn boxes_are_summed_and_cores_distinguished() {
    let host = FakeHost::of(TREE);
    let mut sensor = Counted::open(&host, &boxes()).expect("it opens");
    let reading = read(&host, &mut sensor, [1000, 3000]);
    assert_eq!((reading.requests, reading.occupancy), (4000, 4 * 240_000));
    assert_eq!(reading.by_core, [1000, 3000]);
    // Readings are sums since it was opened.
    assert_eq!(read(&host, &mut sensor, [0, 1000]).by_core, [1000, 4000]);
    let described = "uncore occupancy and requests: uncore_cha_*/event=0x36/ \
                     uncore_cha_*/event=0x35/ cpu/event=0x41/, 6 counters";
    assert_eq!(sensor.describe(), described);
    assert_eq!((sensor.cycles_per_us(), sensor.remark()), (2000, None));
}

#[test]
fn scales_samples_and_what_is_not_meant_are_reckoned_with() {
    let host = FakeHost::of(TREE);
    let counters = vec![
        wanted(Role::Occupancy, 30, 0x36, 0),
        wanted(Role::Less(20), 31, 0x35, 0),
        wanted(Role::Requests, 4, 0x41, 0),
    ];
    let mut set = EventSet { counters, scale: 16, ..boxes() };
    let mut sensor = Counted::open(&host, &set).expect("it opens");
    let reading = read(&host, &mut sensor, [1000, 0]);
    assert_eq!((reading.requests, reading.occupancy), (1000, 16 * 100_000 - 20 * 500));
    // Of a thousand requests half are sampled: the others are taken to wait as long.
    set.counters[1].role = Role::Sampled;
    let mut sensor = Counted::open(&host, &set).expect("it opens");
    assert_eq!(read(&host, &mut sensor, [1000, 0]).occupancy, 2 * 16 * 100_000);
    // Nothing sampled says nothing of latency, until something is.
    host.script(|code| code.unit == 31 && code.config == 0x35, |script| script.lines = 0);
    let mut sensor = Counted::open(&host, &set).expect("it opens");
    let reading = read(&host, &mut sensor, [1000, 0]);
    assert_eq!((reading.requests, reading.occupancy), (1000, 0));
    host.script(|code| code.unit == 31 && code.config == 0x35, |script| script.lines = 1000);
    assert_eq!(read(&host, &mut sensor, [1000, 0]).occupancy, 16 * 200_000);
}

#[test]
fn a_box_that_stands_still_is_remarked_on() {
    let host = FakeHost::of(TREE);
    host.script(|code| code.unit == 31 && code.config == 0x35, |script| script.lines = 0);
    let mut sensor = Counted::open(&host, &boxes()).expect("it opens");
    read(&host, &mut sensor, [1000, 0]);
    assert_eq!(sensor.remark(), None, "too little to say");
    read(&host, &mut sensor, [10_000, 0]);
    let remark = sensor.remark().expect("there is one");
    let reported = "uncore_cha_1/event=0x35/ of core 0 stands at 0 although others there counted \
                1540000";
    assert_eq!(remark, reported);
}

#[test]
fn a_core_that_went_off_line_is_not_taken_for_one_at_rest() {
    let host = FakeHost::of(TREE);
    let mut sensor = Counted::open(&host, &boxes()).expect("it opens");
    let at = |ms| Instant::ZERO.saturating_add(maracas_core::Duration::from_millis(ms));
    let mut reading = Reading::default();
    sensor.read(at(5), &mut reading).expect("the first");
    host.load(HardwareCore(0), Load::Chase { lines: 1 }).expect("a chase");
    sensor.read(at(10), &mut reading).expect("its time passes");
    // A counter's own time stands still once the kernel has taken it off its core.
    let error = sensor.read(at(15), &mut reading).expect_err("it is gone");
    assert!(error.to_string().ends_with(": its core or its unit is off line"), "{error}");
}

#[test]
fn a_unit_that_vanishes_is_an_error_with_its_name() {
    let host = FakeHost::of(TREE);
    host.script(|code| code.unit == 31, |script| script.reads = Some(1));
    let mut sensor = Counted::open(&host, &boxes()).expect("it opens");
    let error = sensor.read(Instant::ZERO, &mut Reading::default()).expect_err("it is gone");
    let reported = "reading uncore_cha_1/event=0x36/ of core 0: No such device (os error 19): its \
                core or its unit is off line";
    assert_eq!(error.to_string(), reported);
    host.remove("/sys/bus/event_source/devices/uncore_cha_0");
    let error = Counted::open(&host, &boxes()).err().expect("it does not open");
    assert!(error.to_string().starts_with("counting uncore_cha_0/event=0x36/ of core 0: "));
    assert!(error.to_string().ends_with("there is no such event here"), "{error}");
}
