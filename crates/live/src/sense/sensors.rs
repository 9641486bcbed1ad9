//! The sensors: one file each, of which the counting one serves five of them.
//!
//! [`EventSet`] says which counters make a sensor, [`Counted`] is that sensor; [`Bytes`] counts
//! bytes by resctrl. What chases is in [`super::chase`], what was recorded in [`super::replay`].

mod bytes;
mod counted;

pub use bytes::Bytes;
pub use counted::Counted;

use super::SensorKind;
use crate::host::HardwareCore;
use crate::host::hardware::EventCode;

/// What a counter adds to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Requests under way, added up cycle by cycle.
    Occupancy,
    /// Requests that are not meant, each of which added so many cycles to the occupancy.
    Less(u64),
    /// Requests of all.
    Requests,
    /// Requests of one core, by its `CoreId`, and therefore a part of all.
    RequestsOf(usize),
    /// Requests of one core that others count for all already.
    ShareOf(usize),
    /// The requests of which occupancy was taken, where those are not all.
    Sampled,
}

/// One counter of a sensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// What it adds to.
    pub role: Role,
    /// The event as the kernel takes it.
    pub code: EventCode,
    /// Where it is asked.
    pub core: HardwareCore,
    /// The event as users write it: `uncore_arb/event=0x80,umask=0x1/`.
    pub name: String,
}

/// Which counters make a sensor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventSet {
    /// Which kind of sensor.
    pub sensor_kind: SensorKind,
    /// Its counters, in the order in which they are read.
    pub counters: Vec<Wanted>,
    /// How many requests under way one count of occupancy stands for.
    pub scale: u64,
    /// Cycles of the clock in which occupancy is counted, per microsecond.
    pub cycles_per_us: u64,
    /// How many cores are managed.
    pub cores: usize,
    /// What latency means here, where it is not the time of a miss of the last-level cache.
    pub meaning: &'static str,
}

impl EventSet {
    /// The events it reads, each once, in order, as users write them; boxes of one kind together:
    /// `uncore_cha_*/event=0x36/`.
    pub fn events(&self) -> Vec<String> {
        let mut found: Vec<(&str, &str, bool)> = Vec::new();
        for wanted in &self.counters {
            let (unit, terms) = wanted.name.split_once('/').unwrap_or((&wanted.name, ""));
            let like = |other: &str| kind_of(other) == kind_of(unit);
            match found.iter_mut().find(|(other, known, _)| *known == terms && like(other)) {
                Some((other, _, several)) => *several |= *other != unit,
                None => found.push((unit, terms, false)),
            }
        }
        let text = |(unit, terms, several): (&str, &str, bool)| match several {
            true => format!("{}_*/{terms}", kind_of(unit)),
            false => format!("{unit}/{terms}"),
        };
        found.into_iter().map(text).collect()
    }
}

/// A unit's name without the number of its box.
fn kind_of(unit: &str) -> &str {
    match unit.rsplit_once('_') {
        Some((kind, number)) if number.parse::<u32>().is_ok() => kind,
        _ => unit,
    }
}

#[cfg(test)]
mod tests;
