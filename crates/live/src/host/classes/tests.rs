//! Trees of files such as various hosts have them.

use super::*;
use std::env;

/// A tree of files in place of `/`, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let own = format!("maracas-classes-{}-{name}", std::process::id());
        let root = env::temp_dir().join(own);
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }
    fn write(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }
    /// One file for each core, in order.
    fn by_core(self, file: &str, contents: &[&str]) -> Self {
        let numbered = contents.iter().enumerate();
        numbered.fold(self, |tree, (core, content)| {
            tree.write(&format!("sys/devices/system/cpu/cpu{core}/{file}"), content)
        })
    }
    /// `capacity-dmips-mhz` of each core, as the device tree has it.
    fn device_tree(self, values: &[u32]) -> Self {
        let numbered = values.iter().enumerate();
        numbered.fold(self, |tree, (core, value)| {
            let path = format!("sys/devices/system/cpu/cpu{core}/of_node/{DEVICE_TREE}");
            tree.write(&path, value.to_be_bytes())
        })
    }
    fn monitors(self, core: &str, atom: &str) -> Self {
        let path = |name: &str| format!("sys/bus/event_source/devices/{name}/cpus");
        self.write(&path("cpu_core"), core).write(&path("cpu_atom"), atom)
    }
    fn detect(&self, cores: u32) -> Detected {
        self.detect_with(cores, |_| None)
    }
    fn detect_with(&self, cores: u32, cpuid: impl Fn(HardwareCore) -> Option<u8>) -> Detected {
        Host::new(&self.0, &range(0, cores)).detect(cpuid)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn range(from: u32, to: u32) -> Vec<HardwareCore> {
    (from..to).map(HardwareCore).collect()
}

fn class(speed_milli: u32, from: u32, to: u32) -> HostClass {
    HostClass { speed_milli, cores: range(from, to) }
}

/// An Alder Lake of 4 favoured and common P cores and 4 E cores; with hardware threads, so that
/// its kernel gives every core the same capacity.
fn alder_lake(name: &str) -> Tree {
    Tree::new(name).by_core(CAPACITY, &["1024\n"; 8]).monitors("0-3\n", "4-7\n")
}

#[test]
fn a_hybrid_with_capacities_is_what_its_kernel_says() {
    let capacities = ["1024\n", "1009\n", "1024\n", "1009\n", "693\n", "693\n", "693\n", "693\n"];
    let found = alder_lake("capacities").by_core(CAPACITY, &capacities).detect(8);
    assert_eq!(found.classes, [class(1000, 0, 4), class(676, 4, 8)]);
    assert_eq!(
        found.to_string(),
        "2 classes by cpu_capacity: cores 0-3 at speed 1000, cores 4-7 at speed 676 of 1000"
    );
}

#[test]
fn a_hybrid_without_capacities_is_known_by_its_monitors() {
    // P cores up to 5.2 and 5.1 GHz, E cores up to 3.9 GHz.
    let frequencies = ["5200000\n", "5200000\n", "5100000\n", "5100000\n"];
    let frequencies: Vec<&str> = frequencies.into_iter().chain(["3900000\n"; 4]).collect();
    let tree = alder_lake("monitors").by_core(FREQUENCY, &frequencies);
    let found = tree.detect(8);
    assert_eq!(found.classes, [class(1000, 0, 4), class(750, 4, 8)]);
    assert_eq!(found.how, "cpu_core/cpu_atom and cpufreq/cpuinfo_max_freq");
    // The firmware's scale of performance knows more than frequencies.
    let performance: Vec<&str> = ["68", "68", "66", "66"].into_iter().chain(["40"; 4]).collect();
    let tree = tree.by_core(PERFORMANCE, &performance);
    assert_eq!(tree.detect(8).classes, [class(1000, 0, 4), class(588, 4, 8)]);
    assert_eq!(tree.detect(8).how, "cpu_core/cpu_atom and acpi_cppc/highest_perf");
    // Only the cores that are asked about count.
    assert!(Detected::of_files(&tree.0, &range(4, 8)).is_even());
}

#[test]
fn kinds_are_given_by_cpuid_and_kept_apart_however_fast() {
    let frequencies = ["4000000", "4000000", "3900000", "3900000"];
    let tree = Tree::new("cpuid").by_core(FREQUENCY, &frequencies);
    let kind = |core: HardwareCore| Some(if core.0 < 2 { 0x40 } else { 0x20 });
    let found = tree.detect_with(4, kind);
    assert_eq!(found.classes, [class(1000, 0, 2), class(975, 2, 4)]);
    assert_eq!(found.how, "CPUID and cpufreq/cpuinfo_max_freq");
    assert!(tree.detect(4).is_even(), "of one kind they would be favoured cores");
}

#[test]
fn kinds_without_a_word_on_their_speeds_make_no_classes() {
    let found = alder_lake("speechless").detect(8);
    assert_eq!(found.classes, [class(1000, 0, 8)]);
    assert_eq!(
        found.to_string(),
        "equal cores, as far as this host says: cpu_capacity; \
         passed over: kinds by cpu_core/cpu_atom, whose speeds nothing distinguishes"
    );
}

#[test]
fn an_arm_board_is_what_its_kernel_says() {
    let capacities = ["446", "446", "446", "446", "1024", "1024"];
    let found = Tree::new("board").by_core(CAPACITY, &capacities).detect(6);
    assert_eq!(found.classes, [class(1000, 4, 6), class(435, 0, 4)], "the little ones come first");
    assert_eq!(found.how, "cpu_capacity");
}

#[test]
fn an_arm_board_without_capacities_is_reported_by_its_device_tree() {
    // The example of Linux' binding of cpu-capacity: 578 at 850 MHz beside 1024 at 1100 MHz.
    let tree = Tree::new("tree").device_tree(&[1024, 1024, 578, 578]);
    let found = tree.detect(4);
    assert_eq!(found.classes, [class(1000, 0, 2), class(564, 2, 4)]);
    let tree = tree.by_core(FREQUENCY, &["1100000", "1100000", "850000", "850000"]);
    assert_eq!(tree.detect(4).classes, [class(1000, 0, 2), class(436, 2, 4)]);
    assert_eq!(tree.detect(4).how, DEVICE_TREE);
}

#[test]
fn three_classes_of_one_board() {
    // One core at 2.84 GHz, three of its design at 2.42 GHz, four little ones.
    let capacities = ["325", "325", "325", "325", "871", "871", "871", "1024"];
    let found = Tree::new("three").by_core(CAPACITY, &capacities).detect(8);
    assert_eq!(found.classes, [class(1000, 7, 8), class(850, 4, 7), class(317, 0, 4)]);
    assert!(found.to_string().contains("core 7 at speed 1000, cores 4-6 at speed 850, "));
}

#[test]
fn favoured_cores_are_no_class_of_their_own() {
    // AMD's highest_perf ranks cores of one design; their frequencies differ by turbo bins.
    let tree = Tree::new("favoured")
        .write("proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\n")
        .by_core(PERFORMANCE, &["236", "231", "196", "166"])
        .by_core(FREQUENCY, &["5700000", "5700000", "5400000", "5400000"]);
    let found = tree.detect(4);
    assert_eq!(found.classes, [class(1000, 0, 4)]);
    assert_eq!(found.how, FREQUENCY);
    // Compact cores of the same make run at far lower ones.
    let tree = tree.by_core(FREQUENCY, &["5000000", "5000000", "3700000", "3700000"]);
    assert_eq!(tree.detect(4).classes, [class(1000, 0, 2), class(740, 2, 4)]);
}

#[test]
fn frequencies_that_a_user_limits_are_speeds() {
    // As the slides slowed down four of six equal cores.
    let limits = ["3300000", "3300000", "800000", "800000", "800000", "800000"];
    let tree = Tree::new("limited").by_core(FREQUENCY, &["3300000"; 6]).by_core(LIMIT, &limits);
    let found = tree.detect(6);
    assert_eq!(found.classes, [class(1000, 0, 2), class(242, 2, 6)]);
    assert_eq!(found.how, "cpufreq/cpuinfo_max_freq and cpufreq/scaling_max_freq");
    // All alike they say nothing.
    assert!(tree.by_core(LIMIT, &["800000"; 6]).detect(6).is_even());
}

#[test]
fn equal_servers_and_bare_virtual_machines_have_one_class() {
    let server = Tree::new("server")
        .by_core(CAPACITY, &["1024"; 4])
        .by_core(PERFORMANCE, &["46"; 4])
        .by_core(FREQUENCY, &["3800000"; 4]);
    let found = server.detect(4);
    assert_eq!(found.classes, [class(1000, 0, 4)]);
    assert_eq!(found.how, "cpu_capacity and acpi_cppc/highest_perf and cpufreq/cpuinfo_max_freq");
    let bare = Tree::new("bare").detect(2);
    assert!(bare.is_even() && bare.passed_over.is_empty());
    assert_eq!(bare.how, "nothing distinguishes them");
}

#[test]
fn broken_files_are_passed_over_by_name() {
    let why = |name: &str, broken: &str| {
        let tree = Tree::new(name).by_core(CAPACITY, &["1024", broken, "446", "446"]);
        let found =
            tree.by_core(FREQUENCY, &["2000000", "2000000", "1000000", "1000000"]).detect(4);
        assert_eq!(found.classes, [class(1000, 0, 2), class(500, 2, 4)], "by the next best");
        found.passed_over.join(", ")
    };
    assert_eq!(why("empty", ""), "cpu_capacity (core 1: empty)");
    assert_eq!(why("zero", "0\n"), "cpu_capacity (core 1: 0)");
    assert_eq!(why("words", "<unsupported>"), "cpu_capacity (core 1: no number)");
    assert_eq!(why("negative", "-1"), "cpu_capacity (core 1: no number)");
    let missing = Tree::new("missing").by_core(CAPACITY, &["1024", "446"]);
    assert_eq!(missing.detect(3).passed_over, ["cpu_capacity (core 2 has none)"]);
    let unreadable = Tree::new("unreadable").by_core("cpu_capacity/x", &["", ""]).detect(2);
    assert_eq!(unreadable.passed_over.len(), 1, "a directory cannot be read as a file");
    assert!(unreadable.is_even());
    let short = Tree::new("short").by_core("of_node/capacity-dmips-mhz", &["ab", "ab"]).detect(2);
    assert_eq!(short.passed_over, ["capacity-dmips-mhz (core 0: no number)"]);
}

#[test]
fn extreme_numbers_are_speeds_all_the_same() {
    let most = u64::MAX.to_string();
    let tree = Tree::new("extreme").by_core(CAPACITY, &[&most, "1"]);
    assert_eq!(tree.detect(2).classes, [class(1000, 0, 1), class(1, 1, 2)]);
    assert_eq!(tree.detect(0).classes, [class(1000, 0, 0)], "no cores are equal");
}

#[test]
fn every_core_of_this_host_is_in_one_class() {
    let cores = crate::host::platform::Platform::detect().unwrap().cores;
    let found = Detected::of_host(&cores);
    eprintln!("{found}");
    let mut all: Vec<_> = found.classes.iter().flat_map(|class| class.cores.clone()).collect();
    all.sort_unstable();
    assert_eq!(all, cores);
    assert_eq!(found.classes[0].speed_milli, 1000);
    assert!(found.classes.is_sorted_by(|a, b| a.speed_milli > b.speed_milli));
}
