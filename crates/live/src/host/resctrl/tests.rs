//! Resource control against a kernel that refuses when it is made to.

mod fake;

use super::remains::restore_by;
use super::*;
use crate::host::Identity;
use fake::{Fake, Maker};
use maracas_core::CoreId;
use maracas_core::memory::CachePart;

/// A run that is no process of this host.
const RUN: Identity = Identity { pid: 4711, start: 88, namespace: None };

fn open(fake: &Fake) -> Result<Resctrl, Error> {
    let hardware: Arc<dyn Hardware> = Arc::new(fake.clone());
    Resctrl::open_as(hardware, Arc::new(fake.clone()), RUN)
}

fn of_core(core: u32) -> String {
    name(RUN, HardwareCore(core))
}

fn ways(fake: &Fake, parts: &[(u32, u64)]) -> Result<Ways, Error> {
    let parts = parts.iter().map(|(core, ways)| (HardwareCore(*core), CachePart::new(*ways)));
    let parts: Vec<_> = parts.collect();
    Ways::split(&open(fake)?, &parts)
}

fn refusal(fake: &Fake, parts: &[(u32, u64)]) -> String {
    ways(fake, parts).expect_err("refused").to_string()
}

fn cores(of: &[u32]) -> Vec<(CoreId, HardwareCore)> {
    let cores = of.iter().enumerate();
    cores.map(|(place, core)| (CoreId(place as u16), HardwareCore(*core))).collect()
}

/// Nothing of the run is left.
fn is_as_before(fake: &Fake) -> bool {
    fake.groups().is_empty() && fake.cores("") == [0, 1, 2, 3]
}

#[test]
fn each_core_gets_a_class_with_its_ways_and_gives_it_back() {
    let fake = Fake::new(Maker::Intel);
    let split = ways(&fake, &[(3, 0xff), (1, 0x700), (0, 0)]).expect("split");
    assert_eq!(fake.groups(), [of_core(1), of_core(3)], "core 0 keeps all: no class");
    assert_eq!((fake.cores(&of_core(1)), fake.cores(&of_core(3))), (vec![1], vec![3]));
    assert_eq!(fake.cores(""), [0, 2]);
    // Core 1 is of cache 0 and core 3 of cache 1: each mask stands in its own domain.
    assert_eq!(fake.value(&of_core(1), "L3", 0), 0x700);
    assert_eq!(fake.value(&of_core(3), "L3", 1), 0xff);
    assert_eq!(fake.value(&of_core(3), "L3", 0), 0x7ff, "not its domain");
    assert_eq!(split.level(), 3);
    assert_eq!(split.shared_with_devices(), [HardwareCore(1)], "shareable_bits is 600");
    drop(split);
    assert!(is_as_before(&fake));
    assert_eq!(fake.kernel().mounted.as_deref(), Some("resctrl"), "it was mounted before us");
}

#[test]
fn masks_that_the_cache_cannot_give_are_refused_with_the_numbers() {
    let fake = Fake::new(Maker::Intel);
    let wrong = refusal(&fake, &[(0, 0xf), (1, 0x805)]);
    assert_eq!(wrong, "core 1: ways 0x805: the L3 has 11 ways, mask 0x7ff");
    let gaps = refusal(&fake, &[(0, 0x5)]);
    assert_eq!(gaps, "core 0: ways 0x5: this processor wants ways side by side; take 0x3");
    fake.kernel().put("/sys/fs/resctrl/info/L3/min_cbm_bits", "2\n");
    let few = refusal(&fake, &[(0, 0x4)]);
    assert_eq!(few, "core 0: ways 0x4: 1 ways, but the L3 gives no fewer than 2");
    assert!(fake.kernel().writes.is_empty(), "all are looked at before one is changed");
    // AMD's masks may have gaps, and so may those of a kernel that says so.
    assert!(ways(&Fake::new(Maker::Amd), &[(0, 0x5)]).is_ok());
    fake.kernel().put("/sys/fs/resctrl/info/L3/sparse_masks", "1\n");
    assert!(ways(&fake, &[(0, 0x5)]).is_ok());
}

#[test]
fn code_and_data_get_the_same_ways_and_the_l2_stands_in() {
    let fake = Fake::new(Maker::Intel);
    let rename = |from: &str, to: &[&str]| {
        let mut kernel = fake.kernel();
        let old = format!("/sys/fs/resctrl/info/{from}/");
        let files: Vec<_> =
            kernel.files.iter().filter(|(path, _)| path.starts_with(&old)).collect();
        let files: Vec<_> =
            files.into_iter().map(|(path, text)| (path.clone(), text.clone())).collect();
        for (path, text) in files {
            kernel.files.remove(&path);
            let name = path.file_name().and_then(|name| name.to_str()).expect("text");
            for to in to {
                kernel.put(&format!("/sys/fs/resctrl/info/{to}/{name}"), &text);
            }
        }
        let all = kernel.groups.get_mut(Path::new("")).expect("the default class");
        all.schemata.retain(|(resource, _), _| resource != from);
        for (to, domain) in to.iter().flat_map(|to| (0..4).map(move |domain| (to, domain))) {
            all.schemata.insert(((*to).to_owned(), domain), 0x7ff);
        }
    };
    rename("L3", &["L3CODE", "L3DATA"]);
    let split = ways(&fake, &[(2, 0x3)]).expect("split");
    assert_eq!(fake.value(&of_core(2), "L3CODE", 1), 3);
    assert_eq!(fake.value(&of_core(2), "L3DATA", 1), 3);
    drop(split);
    rename("L3CODE", &["L2"]);
    rename("L3DATA", &[]);
    let split = ways(&fake, &[(2, 0x3)]).expect("split");
    assert_eq!((split.level(), fake.value(&of_core(2), "L2", 2)), (2, 3), "its own L2");
    drop(split);
    rename("L2", &[]);
    assert_eq!(
        refusal(&fake, &[(2, 3)]),
        "resctrl has no cache allocation (CAT) on this processor"
    );
}

#[test]
fn a_refused_line_is_named_with_the_kernels_reason_and_all_is_put_back() {
    let fake = Fake::new(Maker::Intel);
    // The second core's mask fails when the first stands already.
    let words = "Mask 700 overlaps with exclusive group";
    fake.refuse(&format!("{}/schemata", of_core(2)), libc::EINVAL, words);
    let line = refusal(&fake, &[(1, 0xff), (2, 0x700)]);
    let file = format!("/sys/fs/resctrl/{}/schemata", of_core(2));
    assert_eq!(line, format!("{file} <- L3:1=700: {words}: Invalid argument (os error 22)"));
    assert!(is_as_before(&fake));
    // Where the class was there for the bandwidth, only its ways go back.
    let resctrl = open(&fake).expect("open");
    let mba = Mba::new(&resctrl, &cores(&[1])).expect("tried");
    let parts = [(HardwareCore(1), 0xff), (HardwareCore(2), 0x700)];
    let parts = parts.map(|(core, ways)| (core, CachePart::new(ways)));
    Ways::split(&resctrl, &parts).expect_err("refused");
    assert_eq!(fake.groups(), [of_core(1)]);
    assert_eq!(fake.value(&of_core(1), "L3", 0), 0x7ff);
    drop((mba, resctrl));
    assert!(is_as_before(&fake));
}

#[test]
fn what_reads_back_otherwise_is_no_success() {
    let fake = Fake::new(Maker::Intel);
    fake.kernel().rounds.insert(0xf, 0x1f);
    let line = refusal(&fake, &[(0, 0xf)]);
    let file = format!("/sys/fs/resctrl/{}/schemata", of_core(0));
    assert_eq!(line, format!("{file}: wrote L3:0=f, reads L3:0=1f"));
    assert!(is_as_before(&fake));
}

#[test]
fn no_class_and_no_right_are_distinguished() {
    let fake = Fake::new(Maker::Intel);
    for group in ["anothers", "elses"] {
        fake.make_dir(&Path::new(mount::PLACE).join(group)).expect("made");
    }
    let line = refusal(&fake, &[(0, 0xf), (1, 0xf0)]);
    let numbers = "num_closids is 4, of which the default class takes 1, others 2 and this run 1";
    assert!(line.contains(numbers), "{line}");
    assert_eq!(fake.groups(), ["anothers", "elses"], "ours is put back");
    let fake = Fake::new(Maker::Intel);
    fake.refuse(&of_core(0), libc::EPERM, "ok");
    let line = refusal(&fake, &[(0, 0xf)]);
    let dir = format!("/sys/fs/resctrl/{}", of_core(0));
    assert_eq!(line, format!("{dir} <- mkdir: Operation not permitted (os error 1)"));
    let kind = std::io::Error::from(ways(&fake, &[(0, 0xf)]).expect_err("refused")).kind();
    assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
}

#[test]
fn a_core_that_cannot_be_had_is_refused_and_its_class_removed() {
    let fake = Fake::new(Maker::Intel);
    fake.refuse(&format!("{}/cpus_list", of_core(0)), libc::EINVAL, "Can only assign online CPUs");
    let line = refusal(&fake, &[(0, 0xf)]);
    assert!(line.contains("cpus_list <- 0: Can only assign online CPUs: Invalid"), "{line}");
    assert!(is_as_before(&fake));
    let resctrl = open(&fake).expect("open");
    resctrl.class(HardwareCore(0)).expect_err("refused");
    assert!(is_as_before(&fake), "at once: classes are few");
    drop(resctrl);
    let fake = Fake::new(Maker::Intel);
    fake.kernel().ignores = true;
    let line = refusal(&fake, &[(3, 0xf)]);
    let list = format!("/sys/fs/resctrl/{}/cpus_list", of_core(3));
    assert_eq!(line, format!("{list}: wrote 3, reads "));
    assert!(is_as_before(&fake));
    let fake = Fake::new(Maker::Intel);
    let theirs = Path::new(mount::PLACE).join("theirs");
    fake.make_dir(&theirs).expect("made");
    fake.write(&theirs.join("cpus_list"), "1-2").expect("given");
    let line = refusal(&fake, &[(0, 0xf), (2, 0xf0)]);
    assert!(line.starts_with("core 2 is in resctrl class \"theirs\" of another program"), "{line}");
    assert_eq!((fake.groups(), fake.cores("theirs")), (vec!["theirs".to_owned()], vec![1, 2]));
    fake.kernel().put("/proc/self/cpu_resctrl_groups", "res:/theirs/\nmon:/\n");
    let line = refusal(&fake, &[(0, 0xf)]);
    assert!(line.contains("class \"theirs\", and so is all that it starts"), "{line}");
}

/// The kernel moves a core from monitor to monitor without a word, and back to none of them.
#[test]
fn a_core_that_another_program_monitors_is_not_taken_from_it() {
    let fake = Fake::new(Maker::Intel);
    let theirs = Path::new(mount::PLACE).join("mon_groups/pqos");
    fake.make_dir(&theirs).expect("made");
    fake.write(&theirs.join("cpus_list"), "2").expect("given");
    let reported = "core 2 is in resctrl monitor \"pqos\" of another program; \
 take it out of there or \
                run on other cores";
    assert_eq!(refusal(&fake, &[(2, 0xf)]), reported);
    let resctrl = open(&fake).expect("open");
    let mut mbm = Mbm::new(&resctrl, &cores(&[1, 2])).expect("caches count all the same");
    assert_eq!(mbm.remark(), Some(format!("bytes are not known by core: {reported}")));
    fake.count("", 1, "640");
    assert_eq!(mbm.read().expect("read").by_domain[&1], 640);
    assert!(mbm.read().expect("read").by_core.is_empty());
    drop((mbm, resctrl));
    assert_eq!(fake.cores("mon_groups/pqos"), [2]);
    assert_eq!(fake.groups(), ["mon_groups/pqos"]);
}

/// A program that looks for what is free and takes it locks the directory meanwhile.
#[test]
fn what_is_taken_is_taken_under_the_lock() {
    let fake = Fake::new(Maker::Intel);
    let resctrl = open(&fake).expect("open");
    resctrl.class(HardwareCore(0)).expect("a class");
    resctrl.monitor(HardwareCore(1)).expect("a monitor");
    assert_eq!(fake.kernel().locks, 2);
    fake.refuse("/sys/fs/resctrl", libc::EWOULDBLOCK, "");
    let reported = resctrl.class(HardwareCore(2)).expect_err("locked").to_string();
    assert!(reported.starts_with("/sys/fs/resctrl: "), "{reported}");
}

#[test]
fn it_is_mounted_for_the_run_and_unmounted_by_the_last() {
    let fake = Fake::new(Maker::Intel);
    fake.kernel().mounted = None;
    assert_eq!(Info::read(&fake).expect("offered"), None);
    let split = ways(&fake, &[(0, 0xf)]).expect("mounted and split");
    assert_eq!(fake.kernel().mounted.as_deref(), Some("maracas-4711-88"));
    assert_eq!(runs(&fake), [RUN]);
    // Another program's group would go with the mount.
    let theirs = Path::new(mount::PLACE).join("theirs");
    fake.make_dir(&theirs).expect("made");
    drop(split);
    assert_eq!(fake.groups(), ["theirs"]);
    assert!(fake.kernel().mounted.is_some());
    fake.remove_dir(&theirs).expect("removed");
    assert_eq!(restore_by(&fake, &fake, RUN).expect("restored"), 0);
    assert!(fake.kernel().mounted.is_none());
    // What a run mounted that died alone goes with the next one that ends; a living one's stays.
    fake.mount("maracas-4711-89", Path::new(mount::PLACE)).expect("mounted");
    drop(ways(&fake, &[(0, 0xf)]).expect("split"));
    assert!(fake.kernel().mounted.is_none());
    let living = format!("maracas-{}", Identity::own().expect("alive"));
    fake.mount(&living, Path::new(mount::PLACE)).expect("mounted");
    drop(ways(&fake, &[(0, 0xf)]).expect("split"));
    assert_eq!(fake.kernel().mounted.take(), Some(living));
    fake.refuse(mount::PLACE, libc::EPERM, "ok");
    let line = open(&fake).expect_err("refused").to_string();
    assert_eq!(line, "mount /sys/fs/resctrl: Operation not permitted (os error 1)");
    fake.kernel().put("/proc/filesystems", "nodev\tproc\n");
    let line = open(&fake).expect_err("absent").to_string();
    assert_eq!(line, "the processor has cat_l3, mba, cqm_mbm_total, this kernel no resctrl");
    fake.kernel().put("/proc/cpuinfo", "");
    let line = open(&fake).expect_err("absent").to_string();
    assert_eq!(line, "this kernel offers no resctrl on this processor");
}

#[test]
fn what_a_killed_run_left_is_found_by_name_and_removed() {
    let fake = Fake::new(Maker::Intel);
    fake.kernel().mounted = None;
    let resctrl = open(&fake).expect("open");
    let mba = Mba::new(&resctrl, &cores(&[0, 1])).expect("tried");
    mba.set(CoreId(1), Level::Lowest).expect("set");
    let split = Ways::split(&resctrl, &[(HardwareCore(1), CachePart::new(0xf))]).expect("split");
    let mbm = Mbm::new(&resctrl, &cores(&[0, 1, 2])).expect("open");
    // A kill runs no destructor.
    std::mem::forget((resctrl, mba, split, mbm));
    let monitor = format!("mon_groups/{}", of_core(2));
    assert_eq!(fake.groups(), [of_core(0), of_core(1), monitor]);
    lift(&fake, RUN);
    assert_eq!(fake.value(&of_core(1), "MB", 0), 100);
    assert_eq!(fake.value(&of_core(1), "L3", 0), 0xf, "its ways do no harm");
    let other = Identity { pid: 4711, start: 89, namespace: None };
    assert_eq!(restore_by(&fake, &fake, other).expect("nothing"), 0, "the number is another's now");
    assert_eq!(restore_by(&fake, &fake, RUN).expect("restored"), 3);
    assert!(is_as_before(&fake) && fake.kernel().mounted.is_none());
    assert_eq!(restore_by(&fake, &fake, RUN).expect("nothing left"), 0);
    assert_eq!(runs(&fake), []);
}

#[test]
fn an_obstacle_is_named_and_the_rest_is_restored() {
    let fake = Fake::new(Maker::Intel);
    std::mem::forget(ways(&fake, &[(0, 0xf), (1, 0xf0)]).expect("split"));
    fake.refuse(&of_core(0), libc::EPERM, "ok");
    let obstacle = restore_by(&fake, &fake, RUN).expect_err("refused").to_string();
    let dir = format!("/sys/fs/resctrl/{}", of_core(0));
    assert_eq!(obstacle, format!("{dir}: Operation not permitted (os error 1)"));
    assert_eq!(fake.groups(), [of_core(0)]);
}

#[test]
fn bandwidth_is_lowered_in_the_hardwares_own_units() {
    let set = |fake: &Fake, level| {
        let mba = Mba::new(&open(fake)?, &cores(&[1, 2]))?;
        mba.set(CoreId(1), level)?;
        let full = open(fake)?.info().bandwidth.as_ref().map(|it| it.unit) == Some(Unit::Percent);
        let full = if full { 100 } else { 2048 };
        assert_eq!(fake.value(&of_core(1), "MB", 0), full, "the other core keeps its own");
        Ok::<_, Error>(fake.value(&of_core(2), "MB", 1))
    };
    let intel = Fake::new(Maker::Intel);
    let values = [Level::Lowest, Level::Percent(33), Level::Percent(1), Level::Full];
    assert_eq!(values.map(|level| set(&intel, level).expect("set")), [10, 40, 10, 100]);
    let line = set(&intel, Level::Megabytes(500)).expect_err("a percentage").to_string();
    assert!(line.starts_with("bandwidth of 500 MB/s is not what this processor takes"), "{line}");
    let amd = Fake::new(Maker::Amd);
    let values = [Level::Lowest, Level::Megabytes(2000), Level::Full];
    assert_eq!(values.map(|level| set(&amd, level).expect("set")), [1, 16, 2048]);
    assert!(set(&amd, Level::Percent(10)).is_err());
    intel.kernel().options = "rw,mba_MBps";
    assert_eq!(
        open(&intel).expect("open").info().bandwidth.as_ref().expect("MBA").unit,
        Unit::Megabyte
    );
    assert!(is_as_before(&intel) && is_as_before(&amd));
}

#[test]
fn a_refused_bandwidth_leaves_nothing() {
    let fake = Fake::new(Maker::Intel);
    fake.refuse(
        &format!("{}/schemata", of_core(2)),
        libc::EINVAL,
        "MB value 10 out of range [20,100]",
    );
    let line =
        Mba::new(&open(&fake).expect("open"), &cores(&[1, 2])).expect_err("refused").to_string();
    assert!(line.contains("<- MB:1=10: MB value 10 out of range [20,100]"), "{line}");
    assert!(is_as_before(&fake));
}

#[test]
fn bytes_are_counted_by_cache_and_core_from_the_opening_on() {
    let fake = Fake::new(Maker::Intel);
    fake.count("", 0, "5000");
    let resctrl = open(&fake).expect("open");
    let mut mbm = Mbm::new(&resctrl, &cores(&[1, 3])).expect("open");
    assert_eq!(fake.cores(""), [0, 1, 2, 3], "a monitor leaves its cores in their class");
    let monitor = |core| format!("mon_groups/{}", of_core(core));
    fake.count("", 0, "5640");
    fake.count(&monitor(1), 0, "64");
    fake.count(&monitor(3), 1, "6400");
    fake.count("", 1, "6400");
    let bytes = mbm.read().expect("read").clone();
    assert_eq!(bytes.by_domain, BTreeMap::from([(0, 640), (1, 6400)]));
    assert_eq!(bytes.by_core, [64, 6400]);
    // The core gets a class: the kernel counts it there from zero, and no more in its monitor.
    let split = Ways::split(&resctrl, &[(HardwareCore(3), CachePart::new(0xf))]).expect("split");
    fake.count(&of_core(3), 1, "100");
    let bytes = mbm.read().expect("read").clone();
    assert_eq!((bytes.by_core, bytes.by_domain[&1]), (vec![64, 6500], 6500));
    drop((split, resctrl, mbm));
    assert!(is_as_before(&fake));
}

#[test]
fn two_parts_of_a_run_that_do_not_know_each_other_share_its_classes() {
    let fake = Fake::new(Maker::Intel);
    fake.kernel().mounted = None;
    let hardware: Arc<dyn Hardware> = Arc::new(fake.clone());
    let find = || Resctrl::find_as(Arc::clone(&hardware), Arc::new(fake.clone()), RUN);
    let line = find().expect_err("a sensor mounts nothing").to_string();
    assert!(line.ends_with("mount -t resctrl resctrl /sys/fs/resctrl"), "{line}");
    let split = ways(&fake, &[(0, 0xf)]).expect("split");
    // The core is in a class already, and is counted there; another gets its class later.
    let mut mbm = Mbm::new(&find().expect("mounted"), &cores(&[0, 2])).expect("open");
    assert_eq!(fake.groups(), [of_core(0), format!("mon_groups/{}", of_core(2))]);
    let twice = Mbm::new(&find().expect("mounted"), &cores(&[2])).expect("the same monitor");
    drop(twice);
    assert_eq!(fake.groups().len(), 2, "it goes with its maker");
    let later = ways(&fake, &[(2, 0xf0)]).expect("split");
    fake.count(&of_core(0), 0, "10");
    fake.count(&of_core(2), 1, "20");
    assert_eq!(mbm.read().expect("read").by_core, [10, 20]);
    drop((split, later));
    assert!(fake.kernel().mounted.is_some(), "still counted");
    drop(mbm);
    assert!(is_as_before(&fake) && fake.kernel().mounted.is_none());
}

#[test]
fn ways_go_back_when_they_are_dropped_and_the_class_stays_with_the_run() {
    let fake = Fake::new(Maker::Intel);
    let resctrl = open(&fake).expect("open");
    for part in [0x3, 0xf] {
        let split =
            Ways::split(&resctrl, &[(HardwareCore(1), CachePart::new(part))]).expect("split");
        assert_eq!(fake.value(&of_core(1), "L3", 0), part);
        drop(split);
        assert_eq!(fake.value(&of_core(1), "L3", 0), 0x7ff);
    }
    drop(resctrl);
    assert!(is_as_before(&fake));
}

#[test]
fn what_is_not_available_is_passed_over_and_said() {
    let fake = Fake::new(Maker::Intel);
    let mut mbm = Mbm::new(&open(&fake).expect("open"), &cores(&[0])).expect("open");
    fake.count("", 0, &u64::MAX.to_string());
    assert_eq!(mbm.read().expect("read").by_domain[&0], u64::MAX);
    fake.count("", 0, "Unavailable");
    assert_eq!(mbm.read().expect("read").by_domain[&0], u64::MAX);
    assert_eq!(mbm.remark().as_deref(), Some("1 readings of mbm_total_bytes were not available"));
    // The sum of 64 bits goes round: 10 more than before it did.
    fake.count("", 0, "9");
    assert_eq!(mbm.read().expect("read").by_domain[&0], 9, "sums go round as well");
    // A counter that had no number at the opening begins with its first.
    fake.count("", 1, "Unavailable");
    let mut late = Mbm::new(&open(&fake).expect("open"), &cores(&[])).expect("open");
    fake.count("", 1, "123456");
    assert_eq!(late.read().expect("read").by_domain[&1], 0);
    fake.count("", 1, "123466");
    assert_eq!(late.read().expect("read").by_domain[&1], 10);
    // Where counters are assigned to groups, one of another program may have none.
    let theirs = Path::new(mount::PLACE).join("theirs");
    fake.make_dir(&theirs).expect("made");
    fake.count("theirs", 0, "Unassigned");
    mbm.read().expect("all others are read");
    let said = mbm.remark().expect("a remark");
    assert!(said.contains("theirs/mon_data/mon_L3_00/mbm_total_bytes has no counter"), "{said}");
    fake.remove_dir(&theirs).expect("removed");
    fake.count("", 0, "Error");
    let line = mbm.read().expect_err("no number").to_string();
    assert_eq!(line, "/sys/fs/resctrl/mon_data/mon_L3_00/mbm_total_bytes: says Error");
    drop(mbm);
    for domain in 0..2 {
        fake.count("", domain, "Unavailable");
    }
    fake.refuse(&of_core(0), libc::ENOSPC, "Out of RMIDs");
    let line = Mbm::new(&open(&fake).expect("open"), &cores(&[0])).expect_err("no number");
    assert_eq!(line.to_string(), "/sys/fs/resctrl/mon_data: says Unavailable everywhere");
    fake.count("", 0, "0");
    let mut mbm = Mbm::new(&open(&fake).expect("open"), &cores(&[0])).expect("no monitors");
    assert!(mbm.remark().is_some_and(|said| said.contains("num_rmids is 8")));
    assert!(mbm.read().expect("read").by_core.is_empty());
}

#[test]
fn the_mount_is_found_among_others_with_its_options() {
    let cgroup = "30 25 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,mba_MBps";
    let ours = "41 25 0:36 / /mnt/shares rw,nosuid - resctrl maracas-4711-88 rw,cdp,mba_MBps";
    let found = mount::find(&format!("{cgroup}\n{ours}\n")).expect("mounted");
    let (root, by) = (PathBuf::from("/mnt/shares"), Some(RUN));
    assert_eq!(found, mount::Mounted { root, by, in_megabytes: true });
    assert_eq!(mount::find(cgroup), None);
}

#[test]
fn names_of_groups_show_whose_they_are() {
    assert_eq!(owner(&of_core(12)), Some(RUN));
    assert_eq!(owner("maracas-4711-core1"), None);
    assert_eq!(owner("anothers-4711-88-core1"), None);
}

#[test]
fn this_host_is_split_or_says_why_not() {
    use crate::host::hardware::ThisHardware;
    let host: Arc<dyn Hardware> = Arc::new(ThisHardware);
    let before = classes(&*host, Path::new(mount::PLACE)).unwrap_or_default();
    match Info::read(&*host) {
        Err(error) => {
            assert!(matches!(error, Error::Absent(_)), "{error:?}");
            crate::host::tests::skip("resctrl");
            let mounted = Kernel.mount("maracas-trial", Path::new(mount::PLACE));
            assert!(mounted.is_err(), "what the kernel does not offer cannot be mounted");
        }
        Ok(None) => crate::host::tests::skip("resctrl mounted, as no test mounts it"),
        Ok(Some(info)) => {
            let core = *crate::host::platform::Platform::detect()
                .expect("readable")
                .cores
                .last()
                .expect("one");
            let Some(cache) = info.cache else {
                return crate::host::tests::skip("CAT");
            };
            let ways = (1 << cache.min_bits.max(1)) - 1;
            let resctrl = match Resctrl::find(Arc::clone(&host)) {
                Ok(resctrl) => resctrl,
                Err(error) => panic!("the default class: {error}"),
            };
            match Ways::split(&resctrl, &[(core, CachePart::new(ways))]) {
                Ok(split) => assert_eq!(split.cores(), [(core, ways)]),
                Err(error) => {
                    eprintln!("{error}");
                    crate::host::tests::skip("root and a free class of resctrl");
                }
            }
            resctrl.close().expect("removed");
        }
    }
    assert_eq!(classes(&*host, Path::new(mount::PLACE)).unwrap_or_default(), before);
}
