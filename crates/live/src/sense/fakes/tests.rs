use super::*;

/// A tree with everything of the kernel's that is acted out.
const RESCTRL: &str = "
/sys/fs/resctrl/schemata: L3:0=fff\\nMB:0=100
/sys/fs/resctrl/tasks: 1\\n77
/sys/fs/resctrl/cpus_list: 0-3
/sys/fs/resctrl/mode: shareable
/sys/fs/resctrl/info/last_cmd_status: ok
/sys/fs/resctrl/info/L3/num_closids: 3
/sys/fs/resctrl/info/L3/cbm_mask: fff
/sys/fs/resctrl/info/L3/min_cbm_bits: 2
/sys/fs/resctrl/info/MB/num_closids: 8
/sys/fs/resctrl/info/MB/min_bandwidth: 10
/sys/fs/resctrl/info/MB/bandwidth_gran: 10
/sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes: 1000
/sys/fs/resctrl/mon_groups/
";

#[test]
fn control_files_merge_what_they_understand_and_refuse_the_rest() {
    let host = FakeHost::of(RESCTRL);
    let group = Path::new("/sys/fs/resctrl/a");
    host.make_dir(group).expect("a group");
    let schemata = group.join("schemata");
    assert_eq!(host.text(&schemata).as_deref(), Some("L3:0=fff\nMB:0=100\n"));
    host.write(&schemata, "L3:0=0f\n").expect("four ways");
    host.write(&schemata, "MB:0=33\n").expect("a third, rounded up");
    assert_eq!(host.text(&schemata).as_deref(), Some("L3:0=f\nMB:0=40\n"));
    for bad in ["L3:0=5\n", "L3:0=1000\n", "L3:0=1\n", "L3:1=f\n", "L2:0=f\n", "MB:0=5\n"] {
        let error = host.write(&schemata, bad).expect_err("the kernel refuses it");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{bad}");
        let said = host.text("/sys/fs/resctrl/info/last_cmd_status");
        assert_ne!(said.as_deref(), Some("ok\n"), "{bad}");
    }
    host.write(&group.join("tasks"), "77").expect("a task");
    assert_eq!(host.text("/sys/fs/resctrl/tasks").as_deref(), Some("1\n"));
    host.remove_dir(group).expect("the group goes");
    assert_eq!(host.text("/sys/fs/resctrl/tasks").as_deref(), Some("1\n77\n"));
    assert_eq!(host.text(&schemata), None);
}

#[test]
fn there_are_as_many_groups_as_classes() {
    let host = FakeHost::of(RESCTRL);
    let make = |name: &str| host.make_dir(&Path::new("/sys/fs/resctrl").join(name));
    make("a").expect("the second of three");
    make("b").expect("the third");
    let error = make("c").expect_err("no fourth");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    make("mon_groups/c").expect("monitors are not counted");
    let names = host.list(Path::new("/sys/fs/resctrl")).expect("a list");
    assert!(names.contains(&"a".to_owned()) && !names.contains(&"c".to_owned()), "{names:?}");
}

#[test]
fn counters_follow_their_script_and_the_loads() {
    let tree = "
/sys/bus/event_source/devices/cpu/type: 4
count 4 0x5f: lines=2000
count 4 0x76: clock=3000
count 4 0x41: lines=1000 counted=500
count 4 0x42: lines=1000 reads=1 fails=1
";
    let host = FakeHost::of(tree);
    let open = |config, core| {
        let event = EventCode { unit: 4, config, config1: 0, config2: 0 };
        host.open(&event, Scope::Core(HardwareCore(core))).expect("a counter")
    };
    let (mut here, mut there, mut clock) = (open(0x5f, 0), open(0x5f, 1), open(0x76, 1));
    let (mut half, mut nothing, mut lost) = (open(0x41, 0), open(0x99, 0), open(0x42, 0));
    assert_eq!(lost.read().expect("the first").value, 0);
    host.load(HardwareCore(0), Load::Chase { lines: 1000 }).expect("a chase");
    let value = |counter: &mut Box<dyn Counter>| counter.read().expect("a reading");
    assert_eq!(value(&mut here).value, 2000);
    assert_eq!(value(&mut there).value, 0);
    // 1000 lines in 100 us at 3 GHz.
    assert_eq!(value(&mut clock).value, 300_000);
    let half = value(&mut half);
    assert_eq!((half.value, half.wanted_ns, half.counted_ns), (500, 100_000, 50_000));
    assert_eq!(value(&mut nothing).value, 0);
    assert_eq!(lost.read().expect_err("the right is lost").raw_os_error(), Some(libc::EPERM));
    let nowhere = EventCode { unit: 9, config: 0, config1: 0, config2: 0 };
    let missing = host.open(&nowhere, Scope::Core(HardwareCore(0))).map(|_| ());
    assert_eq!(missing.expect_err("no such unit").raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn files_are_refused_as_a_test_wants() {
    let host = FakeHost::of("/proc/version: Linux version 6.18\n/etc/");
    let hardware = host.hardware();
    let path = Path::new("/proc/version");
    assert_eq!(hardware.read(path).expect("a file"), "Linux version 6.18\n");
    assert_eq!(hardware.list(Path::new("/")).expect("a directory"), ["etc", "proc"]);
    host.refuse_reads(path, libc::EACCES);
    host.refuse_writes(path, libc::EINVAL);
    let code = |error: io::Error| error.raw_os_error();
    assert_eq!(hardware.read(path).map_err(code), Err(Some(libc::EACCES)));
    assert_eq!(hardware.write(path, "6.19").map_err(code), Err(Some(libc::EINVAL)));
    host.put("/etc/hostname", "fake");
    assert_eq!(hardware.remove_dir(Path::new("/etc")).map_err(code), Err(Some(libc::ENOTEMPTY)));
    hardware.write(Path::new("/etc/hostname"), "other").expect("a file of ours");
    assert_eq!(host.text("/etc/hostname").as_deref(), Some("other"));
    let written: Vec<_> = host.written().into_iter().map(|(_, text)| text).collect();
    assert_eq!(written, ["6.19", "other"]);
}
