//! The event tables: which codes count occupancy, requests, references and misses on which machine.
//!
//! # Reading a row
//! Latency = occupancy / requests: a unit that adds up, cycle by cycle, the requests under way
//! (occupancy) and counts those that came (requests) knows how long they waited, whatever it knows
//! else. [`Pair`] says which unit of which processors counts the two, by the names that the
//! kernel's `format` has for its terms; [`CoreEvents`] what a core counts of its own reads.
//!
//! # What a row is worth
//! Nothing is believed because it stands here: every row is held against a known load before it is
//! used (see `preference`). Rows that are not in the tables that vendors gave to the kernel's perf
//! tool are marked [`Source::Unverified`].

mod tables;

pub use tables::{CORES, PAIRS, absent};

use super::SensorKind;
use super::sysfs::Reach;
use crate::host::hardware::Hardware;
use std::fmt;
use std::path::Path;

/// Occupancy and requests of one unit, or requests alone.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Whose unit it is, as users call it.
    pub platform: &'static str,
    /// Which processors have it.
    pub processors: Processors,
    /// The sensor it makes.
    pub sensor_kind: SensorKind,
    /// The unit, or what its boxes have in common (see `sysfs::means`); any of these.
    pub units: &'static [&'static str],
    /// Which cores share one such unit.
    pub reach: Reach,
    /// Events that add up requests under way; empty where only requests are known.
    pub occupancy: &'static [&'static str],
    /// How much one count of them is.
    pub scale: u64,
    /// Events whose requests are not meant, with the cycles that each was under way: what they
    /// added to the occupancy is taken off it.
    pub less: &'static [(&'static str, u64)],
    /// Events that count requests.
    pub requests: &'static [&'static str],
    /// The requests of which occupancy was taken, where those are not all.
    pub sampled: &'static [&'static str],
    /// The cycles in which it counts.
    pub clock: Clock,
    /// What the ratio means, where it is not the time from a miss of the last-level cache until its
    /// data are there.
    pub meaning: &'static str,
    /// Where the row is from.
    pub source: Source,
}

/// A clock in which occupancy is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// An event of the same unit counts its cycles.
    Own(&'static str),
    /// An event of another unit counts them.
    Of(&'static str, &'static str),
    /// The cores' cycles.
    Core,
    /// Nanoseconds or the cores' cycles: the tables say both, a known latency decides.
    NanosecondsOrCore,
    /// There is no occupancy.
    None,
}

/// Where a row is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The vendor's tables, in the kernel's tools/perf/pmu-events/arch.
    Tables,
    /// Not in them, or not for all of these processors: why it is tried nevertheless.
    Unverified(&'static str),
}

/// What a core counts of its own reads, each in order of preference.
#[derive(Clone, Copy, Debug)]
pub struct CoreEvents {
    /// Whose cores they are.
    pub platform: &'static str,
    /// Which processors have them.
    pub processors: Processors,
    /// Units of such cores; any of these.
    pub units: &'static [&'static str],
    /// Reads of memory: misses of the last-level cache.
    pub reads: &'static [&'static str],
    /// References to the last-level cache.
    pub references: &'static [&'static str],
    /// Cycles while the core is not halted.
    pub cycles: &'static str,
}

/// A set of processors.
#[derive(Clone, Copy, Debug)]
pub enum Processors {
    /// Intel's of family 6, by model.
    Intel(&'static [u32]),
    /// Every Intel.
    AnyIntel,
    /// AMD's, by family and a range of models.
    Amd(&'static [(u32, u32, u32)]),
    /// Arm's own designs, by part number (bits 15 to 4 of MIDR_EL1).
    Arm(&'static [u32]),
    /// Every Arm.
    AnyArm,
}

/// The processor of a host.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Processor {
    /// Its vendor.
    pub vendor: Vendor,
    /// Its family and its model (x86).
    pub family: u32,
    /// See `family`.
    pub model: u32,
    /// Part numbers of its kinds of cores (Arm), in the order of the cores.
    pub parts: Vec<u32>,
    /// Whether it says that it is a guest's.
    pub virtual_machine: bool,
}

/// The vendor of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Vendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Arm's design, or one after its architecture.
    Arm,
    /// Another vendor, or none is given.
    #[default]
    Other,
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, model, .. } = self;
        match self.vendor {
            Vendor::Intel => write!(f, "Intel family {family} model {model:#x}"),
            Vendor::Amd => write!(f, "AMD family {family:#x} model {model:#x}"),
            Vendor::Arm => {
                let parts: Vec<_> = self.parts.iter().map(|part| format!("{part:#x}")).collect();
                write!(f, "Arm part {}", parts.join(", "))
            }
            Vendor::Other => f.write_str("an unknown processor"),
        }
    }
}

impl Processor {
    /// What `/proc/cpuinfo` says.
    pub fn of(hardware: &dyn Hardware) -> Self {
        let text = hardware.read(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let mut processor = Self::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            match key.trim() {
                "vendor_id" => {
                    processor.vendor = match value {
                        "GenuineIntel" => Vendor::Intel,
                        "AuthenticAMD" => Vendor::Amd,
                        _ => Vendor::Other,
                    }
                }
                "cpu family" => processor.family = value.parse().unwrap_or(0),
                "model" => processor.model = value.parse().unwrap_or(0),
                "CPU implementer" => processor.vendor = Vendor::Arm,
                "CPU part" => processor.add_part(value),
                "flags" => {
                    processor.virtual_machine |= value.split(' ').any(|flag| flag == "hypervisor");
                }
                _ => {}
            }
        }
        processor
    }
    fn add_part(&mut self, value: &str) {
        let part = value.strip_prefix("0x").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if let Some(part) = part.filter(|part| !self.parts.contains(part)) {
            self.parts.push(part);
        }
    }
}

impl Processors {
    /// Whether `processor` is among them.
    pub fn hold(&self, processor: &Processor) -> bool {
        let Processor { vendor, family, model, parts, .. } = processor;
        match self {
            Self::Intel(models) => {
                *vendor == Vendor::Intel && *family == 6 && models.contains(model)
            }
            Self::AnyIntel => *vendor == Vendor::Intel,
            Self::Amd(ranges) => {
                let within = |range: &(u32, u32, u32)| {
                    range.0 == *family && (range.1..=range.2).contains(model)
                };
                *vendor == Vendor::Amd && ranges.iter().any(within)
            }
            Self::Arm(known) => {
                *vendor == Vendor::Arm && parts.iter().any(|part| known.contains(part))
            }
            Self::AnyArm => *vendor == Vendor::Arm,
        }
    }
}

#[cfg(test)]
mod tests;
