use super::*;
use crate::sense::fakes::FakeHost;

const TREE: &str = "
/sys/bus/event_source/devices/cpu/type: 4
/sys/bus/event_source/devices/cpu/format/event: config:0-7,32-35
/sys/bus/event_source/devices/cpu/format/umask: config:8-15
/sys/bus/event_source/devices/cpu/format/offcore_rsp: config1:0-63
/sys/bus/event_source/devices/uncore_cha_0/type: 20
/sys/bus/event_source/devices/uncore_cha_0/cpumask: 0,2
/sys/bus/event_source/devices/uncore_cha_0/format/event: config:0-7
/sys/bus/event_source/devices/uncore_cha_0/format/umask: config:8-15,32-55
/sys/bus/event_source/devices/odd/type: 30
/sys/bus/event_source/devices/odd/format/event: config:7-0
/sys/bus/event_source/devices/nameless/type: many
/sys/devices/system/cpu/cpu0/topology/physical_package_id: 0
/sys/devices/system/cpu/cpu1/topology/physical_package_id: 0
/sys/devices/system/cpu/cpu2/topology/physical_package_id: 1
/sys/devices/system/cpu/cpu3/topology/physical_package_id: 1
";

fn unit(name: &str) -> Result<Unit, String> {
    Unit::read(&FakeHost::of(TREE), name)
}

#[test]
fn terms_go_where_the_format_says() {
    let words = |unit: &Unit, terms: &str| {
        unit.encode(terms).map(|code| (code.unit, code.config, code.config1, code.config2))
    };
    let core = unit("cpu").expect("the cores' unit");
    assert_eq!(words(&core, "event=0x5f"), Ok((4, 0x5f, 0, 0)));
    // The ninth bit of an event goes to the upper half.
    assert_eq!(words(&core, "event=0x1c0,umask=2"), Ok((4, 0x1_0000_02c0, 0, 0)));
    let response = "event=0x2a,umask=1,offcore_rsp=0x73C004477";
    assert_eq!(words(&core, response), Ok((4, 0x12a, 0x7_3c00_4477, 0)));
    let cha = unit("uncore_cha_0").expect("a box");
    let latency = words(&cha, "event=0x36,umask=0xc817fe01");
    assert_eq!(latency, Ok((20, 0x00c8_17fe_0000_0136, 0, 0)));
}

#[test]
fn what_does_not_fit_is_named() {
    let core = unit("cpu").expect("the cores' unit");
    let reported = core.encode("event=0x5f,filter_tid=1").expect_err("no such term");
    let whole = "unit cpu has no term filter_tid: its format has event, offcore_rsp, umask";
    assert_eq!(reported, whole);
    let reported = core.encode("event=0x1000").expect_err("thirteen bits");
    assert_eq!(reported, "unit cpu: event=0x1000 does not fit into its format config:0-7,32-35");
    assert!(core.encode("event=much").is_err());
    let reported = unit("odd").expect_err("a format that is none");
    assert_eq!(reported, "unit odd: its format of event says \"config:7-0\"");
    assert_eq!(unit("nameless").expect_err("no number"), "unit nameless: its type is no number");
    assert!(unit("uncore_arb").expect_err("none").contains("devices/uncore_arb/type"));
}

#[test]
fn boxes_are_meant_by_their_common_name() {
    assert!(means("uncore_cha", "uncore_cha_12") && means("uncore_arb", "uncore_arb"));
    assert!(!means("uncore_imc", "uncore_imc_free_running_0") && !means("cpu", "cpu_core"));
    assert!(means("armv8_*", "armv8_pmuv3_0") && !means("armv8_*", "arm_dsu_0"));
}

#[test]
fn a_unit_is_asked_where_the_managed_cores_are() {
    let host = FakeHost::of(TREE);
    let cha = Unit::read(&host, "uncore_cha_0").expect("a box");
    let at = |cores: &[u32], reach| {
        let cores: Vec<_> = cores.iter().copied().map(HardwareCore).collect();
        let slots = slots(&host, &cha, &cores, reach);
        slots.iter().map(|slot| slot.0).collect::<Vec<_>>()
    };
    assert_eq!(at(&[0, 1], Reach::Package), [0]);
    assert_eq!(at(&[3], Reach::Package), [2]);
    assert_eq!(at(&[1, 3], Reach::Package), [0, 2]);
    // Nothing is known of caches here.
    assert_eq!(at(&[1], Reach::Cache), [0, 2]);
}
