//! The sensors of shared memory, and how users ask for one: for scenarios, the command line and
//! the live machine.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A kind of sensor, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SensorKind {
    /// Occupancy and requests of a unit outside the cores: Intel's ARB, CHA or IMC.
    Uncore,
    /// Occupancy and requests of every core's own misses (Intel).
    Offcore,
    /// AMD: latency that the L3 samples, or what the cores count of their fills.
    Amd,
    /// Arm: reads under way and reads of the core's monitor.
    Arm,
    /// Bytes by last-level cache (resctrl bandwidth monitoring): no latency.
    Mbm,
    /// A pointer chase that feels others: latency alone.
    Chase,
    /// The cores' misses alone: no latency.
    Rate,
    /// Page faults in place of reads, for trials where nothing counts these; only taken by name.
    Faults,
    /// What was recorded elsewhere.
    Replay,
}

/// The sensors that are tried on a host, best first: the word that users write, and what it reads.
const TABLE: [(SensorKind, &str, &str); 7] = [
    (SensorKind::Uncore, "uncore", "uncore occupancy and requests"),
    (SensorKind::Offcore, "offcore", "per-core off-core occupancy and requests"),
    (SensorKind::Amd, "amd", "AMD fill latency"),
    (SensorKind::Arm, "arm", "Arm reads and their cycles"),
    (SensorKind::Mbm, "mbm", "resctrl bandwidth monitoring"),
    (SensorKind::Chase, "chase", "pointer chase"),
    (SensorKind::Rate, "rate", "misses of the cores"),
];

impl SensorKind {
    /// Those that are tried on a host, best first.
    pub fn tried() -> impl Iterator<Item = Self> + Clone {
        TABLE.iter().map(|(kind, ..)| *kind)
    }
    /// Those that users may name.
    fn named() -> impl Iterator<Item = Self> + Clone {
        Self::tried().chain([Self::Faults])
    }
    fn row(self) -> Option<&'static (Self, &'static str, &'static str)> {
        TABLE.iter().find(|(kind, ..)| *kind == self)
    }
    /// The word for it in files and on the command line.
    pub fn word(self) -> &'static str {
        let untried = if self == Self::Faults { "faults" } else { "replay" };
        self.row().map_or(untried, |(_, word, _)| word)
    }
    /// Whether it knows how long requests wait.
    pub const fn has_latency(self) -> bool {
        !matches!(self, Self::Mbm | Self::Rate | Self::Faults)
    }
}

impl fmt::Display for SensorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let untried = if *self == Self::Faults {
            "page faults in place of reads"
        } else {
            "replay of a recorded file"
        };
        f.write_str(self.row().map_or(untried, |(.., reads)| reads))
    }
}

/// By what memory is to be sensed.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Sense {
    /// By the best that works.
    #[default]
    Auto,
    /// By nothing.
    Off,
    /// By this one, or by none at all.
    Sensor(SensorKind),
    /// By what was recorded in this file.
    Replay(String),
}

/// How a file to be replayed is named.
const REPLAY: &str = "replay:";

impl Sense {
    /// All that users may write, as they write it.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let sensors = SensorKind::named().map(SensorKind::word);
        ["auto", "off"].into_iter().chain(sensors).chain(["replay:FILE"])
    }
    /// All that users may write, in a sentence.
    pub fn choices() -> String {
        let words: Vec<_> = Self::words().collect();
        let (last, others) = words.split_last().unwrap_or((&"", &[]));
        format!("{} or {last}", others.join(", "))
    }
}

impl FromStr for Sense {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix(REPLAY) {
            if file.is_empty() {
                return Err("replays no file; name one, such as \"replay:episode.csv\"".into());
            }
            return Ok(Self::Replay(file.into()));
        }
        match (text, SensorKind::named().find(|kind| kind.word() == text)) {
            ("auto", _) => Ok(Self::Auto),
            ("off", _) => Ok(Self::Off),
            (_, Some(kind)) => Ok(Self::Sensor(kind)),
            (_, None) => Err(format!("no sensor \"{text}\"; take {}", Self::choices())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sensor_is_chosen_by_its_word() {
        let sense = |text: &str| text.parse::<Sense>();
        assert_eq!((sense("auto"), sense("off")), (Ok(Sense::Auto), Ok(Sense::Off)));
        assert_eq!(sense("replay:a:b.csv"), Ok(Sense::Replay("a:b.csv".into())));
        for kind in SensorKind::named() {
            assert_eq!(sense(kind.word()), Ok(Sense::Sensor(kind)));
        }
        let reported = sense("imc").expect_err("no such word");
        let words = "uncore, offcore, amd, arm, mbm, chase, rate, faults or replay:FILE";
        assert_eq!(reported, format!("no sensor \"imc\"; take auto, off, {words}"));
        assert!(sense("replay:").is_err_and(|why| why.contains("replays no file")));
        assert!(sense("replay").is_err());
    }

    #[test]
    fn sensors_stand_in_order_and_two_know_no_latency() {
        assert!(SensorKind::tried().is_sorted());
        let blind: Vec<_> = SensorKind::tried().filter(|kind| !kind.has_latency()).collect();
        assert_eq!(blind, [SensorKind::Mbm, SensorKind::Rate]);
        assert!(SensorKind::tried().all(|kind| kind != SensorKind::Faults), "by name alone");
        assert!(!SensorKind::Faults.has_latency());
        assert!(SensorKind::Replay.has_latency() && SensorKind::Replay.word() == "replay");
    }
}
