//! The classes of this host's cores: how fast each is beside the fastest, as far as the kernel and
//! the processor say.
//!
//! # Where it is read, the first that distinguishes cores
//! 1. `cpu_capacity` of each core: what the kernel's own scheduler uses, on Arm, RISC-V and hybrids
//!    without hardware threads.
//! 2. The performance monitors `cpu_core`, `cpu_atom` and `cpu_lowpower` of hybrids, which list
//!    their cores, or the kind that the instruction CPUID gives. These are kinds and no speeds; the
//!    speeds are taken from 4 or 5.
//! 3. `capacity-dmips-mhz` of the device tree, by the highest frequency where that is known: what
//!    kernels make `cpu_capacity` of.
//! 4. `acpi_cppc/highest_perf`, but for AMD's: theirs ranks cores of one design and is no speed.
//! 5. `cpufreq/cpuinfo_max_freq`.
//!
//! Each is lowered by what a user set as `scaling_max_freq`. A source counts only where it has a
//! number above zero for every core. Nothing is measured and nothing guessed: kinds of cores
//! without any word on their speeds make no classes.
//!
//! # What a speed means
//! An average: over a small benchmark (1 and 3), or of frequencies alone (5), as if both kinds of
//! cores did the same in a cycle. But [`Class::speed_milli`] bounds what *any* program may lose
//! there, and a budget C meant on one class is stretched on another by these numbers. So detected
//! speeds are good enough for fairness, which estimates every program's own speedup, but no ground
//! for hard guarantees: there, measure the program that suffers most from the slow cores and state
//! its speed in the scenario's `[[platform.class]]`, which overrides all that is detected here.
//!
//! [`Class::speed_milli`]: maracas_core::Class::speed_milli

mod cpuid;

use super::HardwareCore;
use super::platform::parse_cores;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// Cores belong to one class while they are within a tenth of its fastest. It must lie above what
/// favoured cores of one design differ by (turbo bins: 6.2 to 5.9 or 5.7 to 5.4 GHz, some 5 %, and
/// only while few cores are busy), and there is no use in classes closer than the worst error with
/// which speedups are estimated (9.92 %, slides on fairness). Kinds of cores that were made to
/// differ are further apart (the nearest are 871 to 1024: two frequencies of one Arm design).
const SAME_CLASS_PERCENT: u64 = 90;

/// The classes of some cores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Detected {
    /// The classes, the fastest first; one where the cores are equal, or not known to differ.
    pub classes: Vec<HostClass>,
    /// By what these were distinguished, or what says that they are equal.
    pub how: String,
    /// What could have distinguished them, but for a file that is broken or missing on some core.
    pub passed_over: Vec<String>,
}

/// Cores of the host that are equally fast.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostClass {
    /// How fast they are, the fastest class being 1000: the slowest core of the class decides.
    pub speed_milli: u32,
    /// Which they are, in the order in which they were given.
    pub cores: Vec<HardwareCore>,
}

impl Detected {
    /// The classes of these cores of this host.
    pub fn of_host(cores: &[HardwareCore]) -> Self {
        Host::new(Path::new("/"), cores).detect(cpuid::kind)
    }
    /// The same by the files alone, below `root` in the place of `/`.
    pub fn of_files(root: &Path, cores: &[HardwareCore]) -> Self {
        Host::new(root, cores).detect(|_| None)
    }
    /// Whether all cores are of one class.
    pub fn is_even(&self) -> bool {
        self.classes.len() <= 1
    }
    fn write_passed_over(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.passed_over.as_slice() {
            [] => Ok(()),
            some => write!(f, "; passed over: {}", some.join(", ")),
        }
    }
}

impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_even() {
            write!(f, "equal cores, as far as this host says: {}", self.how)?;
            return self.write_passed_over(f);
        }
        let one = |class: &HostClass| {
            let plural = if class.cores.len() == 1 { "" } else { "s" };
            format!("core{plural} {} at speed {}", List(&class.cores), class.speed_milli)
        };
        let all: Vec<String> = self.classes.iter().map(one).collect();
        write!(f, "{} classes by {}: {} of 1000", all.len(), self.how, all.join(", "))?;
        self.write_passed_over(f)
    }
}

/// Cores as the kernel writes them: `0-3,8`.
struct List<'a>(&'a [HardwareCore]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a.0 + 1 == b.0);
        for (place, run) in runs.enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

/// What one file says of one core.
enum Reading {
    /// It is not there.
    Absent,
    /// It is there and says nothing that can be used.
    Broken(String),
    /// A number above zero.
    Value(u64),
}

/// The cores that are asked about, and what has come out so far.
struct Host<'a> {
    root: &'a Path,
    cores: &'a [HardwareCore],
    /// Sources that had a number for every core and distinguished none.
    equal: Vec<&'static str>,
    /// Sources that could not be used, and why.
    passed_over: Vec<String>,
}

const CAPACITY: &str = "cpu_capacity";
const DEVICE_TREE: &str = "capacity-dmips-mhz";
const PERFORMANCE: &str = "acpi_cppc/highest_perf";
const FREQUENCY: &str = "cpufreq/cpuinfo_max_freq";
const LIMIT: &str = "cpufreq/scaling_max_freq";

impl<'a> Host<'a> {
    fn new(root: &'a Path, cores: &'a [HardwareCore]) -> Self {
        Self { root, cores, equal: Vec::new(), passed_over: Vec::new() }
    }

    fn detect(mut self, cpuid: impl Fn(HardwareCore) -> Option<u8>) -> Detected {
        let held = self.held();
        // Read at most once, and reported at most once where broken.
        let capacity = self.values(CAPACITY);
        let tree = self.values(DEVICE_TREE);
        let performance = if self.is_amd() { None } else { self.values(PERFORMANCE) };
        let frequency = self.values(FREQUENCY);
        let no_kinds = vec![0; self.cores.len()];
        if let Some(found) = self.split(&held, &no_kinds, &[(CAPACITY, &capacity)], "") {
            return found;
        }
        let speeds = [(PERFORMANCE, &performance), (FREQUENCY, &frequency)];
        if let Some((kinds, from)) = self.kinds(cpuid) {
            if let Some(found) = self.split(&held, &kinds, &speeds, from) {
                return found;
            }
            self.passed_over.push(format!("kinds by {from}, whose speeds nothing distinguishes"));
        }
        let by_cycle = |tree: Vec<u64>| match &frequency {
            Some(all) => tree.iter().zip(all).map(|(a, b)| a.saturating_mul(*b)).collect(),
            None => tree,
        };
        let tree = [(DEVICE_TREE, &tree.map(by_cycle))];
        let rest = self.split(&held, &no_kinds, &tree, "");
        let rest = rest.or_else(|| self.split(&held, &no_kinds, &speeds, ""));
        rest.unwrap_or_else(|| self.even())
    }

    /// The classes by the first of these sources that distinguishes any.
    fn split(
        &mut self,
        held: &[u64],
        kinds: &[u8],
        sources: &[(&'static str, &Option<Vec<u64>>)],
        from: &str,
    ) -> Option<Detected> {
        for (source, values) in sources {
            let Some(values) = values else { continue };
            let speeds: Vec<u128> = values
                .iter()
                .zip(held)
                .map(|(value, held)| u128::from(*value) * u128::from(*held))
                .collect();
            let classes = classes(self.cores, &speeds, kinds);
            if classes.len() > 1 {
                let limit = if held.iter().any(|one| *one != held[0]) { LIMIT } else { "" };
                let parts = [from, source, limit].into_iter().filter(|part| !part.is_empty());
                let how = parts.collect::<Vec<_>>().join(" and ");
                return Some(self.found(classes, how));
            }
            if !self.equal.contains(source) {
                self.equal.push(source);
            }
        }
        None
    }

    fn even(&mut self) -> Detected {
        let how = if self.equal.is_empty() {
            "nothing distinguishes them".to_owned()
        } else {
            self.equal.join(" and ")
        };
        self.found(vec![HostClass { speed_milli: 1000, cores: self.cores.to_vec() }], how)
    }

    fn found(&mut self, classes: Vec<HostClass>, how: String) -> Detected {
        Detected { classes, how, passed_over: std::mem::take(&mut self.passed_over) }
    }

    /// The kind of each core as a number, and the source; `None` where all are of one kind.
    fn kinds(&self, cpuid: impl Fn(HardwareCore) -> Option<u8>) -> Option<(Vec<u8>, &'static str)> {
        const MONITORS: [&str; 3] = ["cpu_core", "cpu_atom", "cpu_lowpower"];
        let list = |monitor: &str| {
            let path = self.root.join("sys/bus/event_source/devices").join(monitor).join("cpus");
            parse_cores(&fs::read_to_string(path).ok()?)
        };
        let lists = MONITORS.map(|monitor| list(monitor).unwrap_or_default());
        let monitor = |core: &HardwareCore| lists.iter().position(|list| list.contains(core));
        let by_monitor = || self.cores.iter().map(|core| Some(monitor(core)? as u8)).collect();
        let by_cpuid = || self.cores.iter().map(|core| cpuid(*core)).collect();
        let several = |kinds: &Vec<u8>| kinds.iter().any(|kind| *kind != kinds[0]);
        let monitors: Option<Vec<u8>> = by_monitor();
        if let Some(kinds) = monitors.filter(several) {
            return Some((kinds, "cpu_core/cpu_atom"));
        }
        let cpuid: Option<Vec<u8>> = by_cpuid();
        cpuid.filter(several).map(|kinds| (kinds, "CPUID"))
    }

    /// In which part of its highest frequency a user lets each core run, in millionths.
    fn held(&self) -> Vec<u64> {
        const ALL: u64 = 1_000_000;
        let of = |core: &HardwareCore| match (self.read(*core, LIMIT), self.read(*core, FREQUENCY))
        {
            (Reading::Value(limit), Reading::Value(highest)) => {
                (u128::from(limit) * u128::from(ALL) / u128::from(highest)).clamp(1, ALL.into())
                    as u64
            }
            (..) => ALL,
        };
        self.cores.iter().map(of).collect()
    }

    /// The numbers of one source, where it has one for every core.
    fn values(&mut self, source: &'static str) -> Option<Vec<u64>> {
        let mut values = Vec::new();
        let mut why = None;
        for core in self.cores {
            match self.read(*core, source) {
                Reading::Value(value) => values.push(value),
                Reading::Absent => why = why.or(Some(format!("{source} (core {core} has none)"))),
                Reading::Broken(what) => {
                    // Nothing else would show that the file is there at all.
                    self.passed_over.push(format!("{source} (core {core}: {what})"));
                    return None;
                }
            }
        }
        if values.len() == self.cores.len() {
            return Some(values);
        }
        self.passed_over.extend(why.filter(|_| !values.is_empty()));
        None
    }

    fn read(&self, core: HardwareCore, source: &str) -> Reading {
        let path = self.path(core, source);
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Reading::Absent,
            Err(error) => return Reading::Broken(error.to_string()),
        };
        // The device tree's numbers are four bytes, the highest first.
        let value = if source == DEVICE_TREE {
            <[u8; 4]>::try_from(bytes.as_slice()).ok().map(|bytes| u32::from_be_bytes(bytes).into())
        } else {
            str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse().ok())
        };
        match value {
            Some(0) => Reading::Broken("0".to_owned()),
            Some(value) => Reading::Value(value),
            None if bytes.is_empty() => Reading::Broken("empty".to_owned()),
            None => Reading::Broken("no number".to_owned()),
        }
    }

    fn path(&self, core: HardwareCore, source: &str) -> PathBuf {
        let core = self.root.join(format!("sys/devices/system/cpu/cpu{core}"));
        if source == DEVICE_TREE { core.join("of_node").join(source) } else { core.join(source) }
    }

    fn is_amd(&self) -> bool {
        let info = fs::read_to_string(self.root.join("proc/cpuinfo")).unwrap_or_default();
        let vendor = info.lines().find_map(|line| line.strip_prefix("vendor_id"));
        vendor.is_some_and(|vendor| vendor.contains("AMD") || vendor.contains("Hygon"))
    }
}

/// Puts cores of one kind and nearly one speed together.
fn classes(cores: &[HardwareCore], speeds: &[u128], kinds: &[u8]) -> Vec<HostClass> {
    struct Members {
        kind: u8,
        fastest: u128,
        slowest: u128,
        places: Vec<usize>,
    }
    let mut order: Vec<usize> = (0..cores.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(speeds[*place]));
    let mut found: Vec<Members> = Vec::new();
    for place in order {
        let (speed, kind) = (speeds[place], kinds[place]);
        let joins = |class: &&mut Members| {
            class.kind == kind && speed * 100 >= class.fastest * u128::from(SAME_CLASS_PERCENT)
        };
        match found.iter_mut().find(joins) {
            Some(class) => {
                class.slowest = speed;
                class.places.push(place);
            }
            None => {
                found.push(Members { kind, fastest: speed, slowest: speed, places: vec![place] })
            }
        }
    }
    let fastest = found.first().map_or(1, |class| class.fastest);
    let milli = |class: &Members| (class.slowest * 1000 / fastest).max(1) as u32;
    let mut classes: Vec<(u32, Vec<usize>)> = Vec::new();
    for (place, class) in found.iter().enumerate() {
        // What the cores of the first class differ by counts as nothing.
        let speed = if place == 0 { 1000 } else { milli(class) };
        match classes.iter_mut().find(|(other, _)| *other == speed) {
            Some((_, places)) => places.extend(&class.places),
            None => classes.push((speed, class.places.clone())),
        }
    }
    classes.sort_by_key(|(speed, _)| std::cmp::Reverse(*speed));
    let named = |(speed_milli, mut places): (u32, Vec<usize>)| {
        places.sort_unstable();
        HostClass { speed_milli, cores: places.iter().map(|place| cores[*place]).collect() }
    };
    classes.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests;
