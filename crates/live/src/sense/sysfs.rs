//! Units of counters as sysfs shows them: their numbers, their formats, their cores.
//!
//! A unit is a directory below `/sys/bus/event_source/devices`. Its `type` is the number by which
//! events are opened; `format` has a file a term (`event`: `config:0-7,32-35`), which says where in
//! the words of an event the term's bits go, from the lowest up; `cpumask` names the cores on which
//! a unit outside the cores is to be asked, `cpus` those to which a unit inside them belongs.
//! Source: the kernel's Documentation/ABI/testing/sysfs-bus-event_source-devices-format, perf's
//! list of events (`perf-list(1)`) for the notation `unit/event=0x5f,umask=0x1/`.

use crate::host::HardwareCore;
use crate::host::hardware::{EventCode, Hardware};
use crate::host::platform::parse_cores;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Where the kernel shows its units.
const DEVICES: &str = "/sys/bus/event_source/devices";
/// Where it shows the cores.
const CORES: &str = "/sys/devices/system/cpu";

/// A unit that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The name of its directory, such as `uncore_cha_3`.
    pub name: String,
    /// The number by which its events are opened.
    pub number: u32,
    /// On which cores it is asked or to which it belongs; `None` = to all.
    pub cores: Option<Vec<HardwareCore>>,
    /// Where its terms go.
    fields: BTreeMap<String, Field>,
}

/// Where the bits of a term go.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    /// As the kernel says it.
    text: String,
    /// Which of the three words.
    word: usize,
    /// The places, in the order of the term's bits from the lowest up.
    bits: Vec<RangeInclusive<u32>>,
}

/// The names of all units, in order; empty where the kernel has no such directory.
pub fn names(hardware: &dyn Hardware) -> Vec<String> {
    hardware.list(Path::new(DEVICES)).unwrap_or_default()
}

/// Whether a unit of this name is one that `wanted` means: itself, one of its boxes (`uncore_cha`
/// means `uncore_cha_0`), or anything after a `*`.
pub fn means(wanted: &str, name: &str) -> bool {
    if let Some(start) = wanted.strip_suffix('*') {
        return name.starts_with(start);
    }
    let Some(rest) = name.strip_prefix(wanted) else { return false };
    let box_number = rest.strip_prefix('_').map(|box_number| box_number.parse::<u32>().is_ok());
    rest.is_empty() || box_number == Some(true)
}

impl Unit {
    /// Reads what the kernel shows of the unit of this name.
    ///
    /// # Errors
    /// A sentence that names the file that is missing or not understood.
    pub fn read(hardware: &dyn Hardware, name: &str) -> Result<Self, String> {
        let dir = Path::new(DEVICES).join(name);
        let text = |file: &str| {
            let path = dir.join(file);
            hardware.read(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let number = text("type")?;
        let number = number.trim().parse();
        let number = number.map_err(|_| format!("unit {name}: its type is no number"))?;
        let cores = text("cpumask").or_else(|_| text("cpus")).ok();
        let cores = match cores {
            Some(list) => Some(parse_cores(&list).ok_or_else(|| {
                format!("unit {name}: its cores \"{}\" are no list", list.trim())
            })?),
            None => None,
        };
        let mut fields = BTreeMap::new();
        for term in hardware.list(&dir.join("format")).unwrap_or_default() {
            let said = text(&format!("format/{term}"))?;
            let field = Field::parse(&said).ok_or_else(|| {
                format!("unit {name}: its format of {term} says \"{}\"", said.trim())
            })?;
            fields.insert(term, field);
        }
        Ok(Self { name: name.to_owned(), number, cores, fields })
    }

    /// The words of an event that is written in terms, such as `event=0x5f,umask=0x1`.
    ///
    /// # Errors
    /// A sentence that names unit and term, and what the format says.
    pub fn encode(&self, terms: &str) -> Result<EventCode, String> {
        let name = &self.name;
        let mut words = [0; 3];
        for term in terms.split(',') {
            let (key, value) = term.split_once('=').unwrap_or((term, "1"));
            let value = number(value).ok_or_else(|| format!("\"{term}\" has no number"))?;
            let field = self.fields.get(key).ok_or_else(|| {
                let known: Vec<_> = self.fields.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
                format!("unit {name} has no term {key}: its format has {known}")
            })?;
            words[field.word] |= field.place(value).ok_or_else(|| {
                format!("unit {name}: {term} does not fit into its format {}", field.text)
            })?;
        }
        let [config, config1, config2] = words;
        Ok(EventCode { unit: self.number, config, config1, config2 })
    }
}

impl Field {
    /// Reads `config1:0-7,32`; without a word it is the first.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (word, ranges) = text.split_once(':').unwrap_or(("config", text));
        let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
        let range = |range: &str| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (low <= high && high < u64::BITS).then_some(low..=high)
        };
        let bits: Option<Vec<_>> = ranges.split(',').map(range).collect();
        Some(Self { text: text.to_owned(), word, bits: bits? })
    }
    /// A value in its place; `None` where it has too many bits.
    fn place(&self, value: u64) -> Option<u64> {
        let places = self.bits.iter().cloned().flatten().enumerate();
        let bit = |(from, to): (usize, u32)| ((value >> from) & 1) << to;
        let count = self.bits.iter().map(|range| range.clone().count()).sum::<usize>();
        // A shift by all bits would be none.
        let rest = if count < u64::BITS as usize { value >> count } else { 0 };
        (rest == 0).then(|| places.map(bit).fold(0, |word, bit| word | bit))
    }
}

fn number(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).ok());
    hex.unwrap_or_else(|| text.parse().ok())
}

/// Which cores share something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Not given: a unit of every core.
    Core,
    /// Those below one last-level cache.
    Cache,
    /// Those of one package.
    Package,
}

/// Of the cores on which a unit can be asked, those that stand for what `cores` share: a machine of
/// several packages is watched only where it is managed. All of them where the kernel does not say
/// which cores share what.
pub fn slots(
    hardware: &dyn Hardware,
    unit: &Unit,
    cores: &[HardwareCore],
    reach: Reach,
) -> Vec<HardwareCore> {
    let asked = unit.cores.clone().unwrap_or_else(|| cores.to_vec());
    let near = |slot: &HardwareCore| {
        let here = domain(hardware, *slot, reach);
        let there = cores.iter().map(|core| domain(hardware, *core, reach));
        here.is_none() || there.into_iter().any(|there| there.is_none() || there == here)
    };
    let chosen: Vec<_> = asked.iter().copied().filter(near).collect();
    if chosen.is_empty() { asked } else { chosen }
}

/// A word for what a core shares; `None` where the kernel does not say.
fn domain(hardware: &dyn Hardware, core: HardwareCore, reach: Reach) -> Option<String> {
    let file: PathBuf = match reach {
        Reach::Core => return Some(core.to_string()),
        Reach::Cache => "cache/index3/shared_cpu_list".into(),
        Reach::Package => "topology/physical_package_id".into(),
    };
    let path = Path::new(CORES).join(format!("cpu{core}")).join(file);
    hardware.read(&path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests;
