use super::*;
use crate::sense::fakes::{self, FakeHost};
use crate::sense::sysfs::Unit;

fn processor(vendor: Vendor, family: u32, model: u32) -> Processor {
    Processor { vendor, family, model, ..Processor::default() }
}

fn rows(processor: &Processor, sensor_kind: SensorKind) -> Vec<&'static Pair> {
    PAIRS
        .iter()
        .filter(|row| row.sensor_kind == sensor_kind && row.processors.hold(processor))
        .collect()
}

#[test]
fn processors_say_what_they_are() {
    let of = |tree| Processor::of(&FakeHost::of(tree)).to_string();
    assert_eq!(of(fakes::SKYLAKE), "Intel family 6 model 0x5e");
    assert_eq!(of(fakes::ZEN_5_GUEST), "AMD family 0x1a model 0x2");
    assert_eq!(of(fakes::NEOVERSE_N1), "Arm part 0xd0c");
    assert!(Processor::of(&FakeHost::of(fakes::ZEN_5_GUEST)).virtual_machine);
    assert!(!Processor::of(&FakeHost::of(fakes::ZEN_4)).virtual_machine);
    let little = "/proc/cpuinfo: CPU implementer : 0x41\\nCPU part : 0xd03\\nCPU part : 0xd08\\n";
    assert_eq!(of(little), "Arm part 0xd03, 0xd08");
    assert_eq!(of("/proc/cpuinfo: model name : A Fine Core"), "an unknown processor");
}

#[test]
fn every_processor_has_one_row_of_core_events() {
    let known = [
        processor(Vendor::Intel, 6, 0x2a),
        processor(Vendor::Intel, 6, 0xcc),
        processor(Vendor::Amd, 0x17, 0x31),
        processor(Vendor::Amd, 0x19, 0x21),
        processor(Vendor::Amd, 0x19, 0x11),
        processor(Vendor::Amd, 0x1a, 0x02),
        Processor { parts: vec![0xd4f], ..processor(Vendor::Arm, 0, 0) },
    ];
    for processor in known {
        let rows = CORES.iter().filter(|row| row.processors.hold(&processor));
        assert_eq!(rows.count(), 1, "{processor}");
    }
    let unknown = processor(Vendor::Amd, 0x1a, 0x90);
    assert!(!CORES.iter().any(|row| row.processors.hold(&unknown)));
    assert!(!CORES.iter().any(|row| row.processors.hold(&Processor::default())));
}

#[test]
fn what_is_known_of_platforms_stands_in_the_tables() {
    // Where the vendor says to use the cores, there is no arbiter's row.
    for model in [0x7e, 0xaa, 0xc6, 0xbd] {
        let client = processor(Vendor::Intel, 6, model);
        assert!(
            rows(&client, SensorKind::Uncore).is_empty() && absent(&client).is_some(),
            "{client}"
        );
        assert!(!rows(&client, SensorKind::Offcore).is_empty(), "{client}");
    }
    let first = |model, sensor_kind| {
        let rows = rows(&processor(Vendor::Intel, 6, model), sensor_kind);
        rows.first().map(|row| (row.units[0], row.occupancy[0], row.requests[0]))
    };
    let arbiter = Some(("uncore_arb", "event=0x80,umask=0x1", "event=0x81,umask=0x1"));
    for model in [0x2a, 0x3c, 0x5e, 0xa5, 0x8c, 0x97, 0xb7] {
        assert_eq!(first(model, SensorKind::Uncore), arbiter, "{model:#x}");
    }
    let agents = |model| first(model, SensorKind::Uncore).map(|row| row.0);
    for model in [0x55, 0x6a, 0x8f, 0xcf, 0xad, 0xaf] {
        assert_eq!(agents(model), Some("uncore_cha"), "{model:#x}");
    }
    let old = Some(("cpu", "event=0x60,umask=0x10", "event=0xb0,umask=0x10"));
    let new = Some(("cpu", "event=0x20,umask=0x10", "event=0x21,umask=0x10"));
    assert_eq!((first(0x55, SensorKind::Offcore), first(0x97, SensorKind::Offcore)), (old, new));
    let zen = |family, model| rows(&processor(Vendor::Amd, family, model), SensorKind::Amd);
    assert_eq!(zen(0x17, 0x71)[0].requests, ["event=0x9a,umask=0x3f"]);
    assert_eq!(zen(0x17, 0x71).len(), 1, "its cores do not count what is under way");
    assert_eq!(zen(0x19, 0x21)[0].requests, ["event=0x9a,umask=0xff"]);
    let last = |model| zen(0x1a, model).last().map(|row| row.requests);
    assert_eq!(last(0x02), Some(["event=0x41,umask=0xf"].as_slice()));
}

#[test]
fn rows_are_whole() {
    for row in PAIRS {
        let Pair { platform, units, occupancy, requests, clock, sensor_kind, .. } = row;
        assert!(!platform.is_empty() && !units.is_empty() && !requests.is_empty(), "{row:?}");
        let waits = !occupancy.is_empty();
        assert_eq!(waits, sensor_kind.has_latency(), "{platform}");
        assert_eq!(waits, *clock != Clock::None, "{platform}");
        assert!(row.scale > 0 && (waits || row.sampled.is_empty()), "{platform}");
    }
}

/// Terms that this notation does not have would only be found on such a host.
#[test]
fn every_event_is_understood_by_its_unit() {
    // What the kernel shows of each kind of unit (arch/x86/events, drivers/perf/arm_pmuv3.c).
    const FORMATS: &[(&str, &str)] = &[
        ("cpu", "event umask"),
        ("uncore_arb", "event umask"),
        ("uncore_cbox", "event umask"),
        ("uncore_clock", "event"),
        ("uncore_cha", "event umask filter_opc0 filter_rem filter_loc filter_nm filter_not_nm"),
        ("uncore_imc", "event umask"),
        ("amd_l3", "event umask coreid enallslices enallcores sliceid threadmask"),
        ("amd_umc", "event rdwrmask"),
        ("armv", "event"),
    ];
    let bits = |term: &str| match term {
        "event" => "config:0-15",
        "umask" => "config:16-47",
        "filter_opc0" => "config1:41-50",
        "sliceid" | "threadmask" => "config1:0-2",
        _ => "config2:0",
    };
    let understood = |unit: &str, terms: &str| {
        let kind = FORMATS.iter().find(|(kind, _)| unit.starts_with(kind));
        let (_, format) = kind.unwrap_or_else(|| panic!("no format of {unit}"));
        let dir = "/sys/bus/event_source/devices/it";
        let fields = format.split(' ').map(|term| format!("{dir}/format/{term}: {}\n", bits(term)));
        let tree = format!("{dir}/type: 4\n{}", fields.collect::<String>());
        let it = Unit::read(&FakeHost::of(&tree), "it").expect("a unit");
        it.encode(terms).unwrap_or_else(|why| panic!("{unit}/{terms}/: {why}"));
    };
    for row in PAIRS {
        let less = row.less.iter().map(|(terms, _)| terms);
        let all = [row.occupancy, row.requests, row.sampled].concat();
        for terms in all.iter().chain(less) {
            understood(row.units[0], terms);
        }
        match row.clock {
            Clock::Own(terms) => understood(row.units[0], terms),
            Clock::Of(unit, terms) => understood(unit, terms),
            Clock::Core | Clock::NanosecondsOrCore | Clock::None => {}
        }
    }
    for row in CORES {
        for terms in row.reads.iter().chain(row.references).chain([&row.cycles]) {
            understood(row.units[0], terms);
        }
    }
}

#[test]
fn skylake_servers_filter_by_the_opcode_of_data_reads() {
    // The kernel's arch/x86/events/intel/uncore_snbep.c.
    let dir = "/sys/bus/event_source/devices/uncore_cha_0";
    let fields = [
        ("event", "config:0-7"),
        ("umask", "config:8-15"),
        ("filter_rem", "config1:32"),
        ("filter_loc", "config1:33"),
        ("filter_nm", "config1:36"),
        ("filter_not_nm", "config1:37"),
        ("filter_opc0", "config1:41-50"),
    ];
    let lines = fields.map(|(term, bits)| format!("{dir}/format/{term}: {bits}\n")).concat();
    let host = FakeHost::of(&format!("{dir}/type: 30\n{lines}"));
    let unit = Unit::read(&host, "uncore_cha_0").expect("a box");
    let row = rows(&processor(Vendor::Intel, 6, 0x55), SensorKind::Uncore)[0];
    let words = |terms| unit.encode(terms).map(|code| (code.config, code.config1));
    // 0x40433 in the second filter register, which is the upper half.
    assert_eq!(words(row.occupancy[0]), Ok((0x2136, 0x40433 << 32)));
    assert_eq!(words(row.requests[0]), Ok((0x2135, 0x40433 << 32)));
}
