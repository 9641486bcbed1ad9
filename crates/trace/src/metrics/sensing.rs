//! How memory was sensed and steered, as the notes of a live machine say.

use crate::report::{ReactionReport, SensingReport};
use crate::samples::Samples;
use maracas_core::journal::Note;

/// What a core loses, by the word of reports.
const REACTIONS: [&str; 2] = ["throttled", "closed"];

/// What the notes said so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Sensing {
    sensor: Option<String>,
    notes: Vec<String>,
    reactions: [Samples; REACTIONS.len()],
    /// The most reads of a core that closed beyond its limit; `None` where none did.
    beyond: Option<u64>,
}

impl Sensing {
    /// Takes in one note; those that say nothing of memory are left aside.
    pub(super) fn read(&mut self, note: &Note) {
        if let Note::Sensor(text) = note {
            self.sensor = Some(text.clone());
        } else if let Note::Sense { text, .. } = note {
            self.notes.push(text.clone());
        } else if let Note::Throttled { took_ns, .. } = note {
            self.reactions[0].add(*took_ns);
        } else if let Note::Closed { took_ns, beyond, .. } = note {
            self.reactions[1].add(*took_ns);
            self.beyond = self.beyond.max(Some(*beyond));
        }
    }

    /// `None` where no note said anything.
    pub(super) fn report(&self) -> Option<SensingReport> {
        let reaction = |(name, took): (&&str, &Samples)| ReactionReport {
            name: (*name).into(),
            count: took.count(),
            took_p50_ns: took.percentile(50),
            took_p99_ns: took.percentile(99),
            took_max_ns: took.max(),
            beyond_max: self.beyond.filter(|_| *name == REACTIONS[1]),
        };
        let all = REACTIONS.iter().zip(&self.reactions).filter(|(_, took)| took.count() > 0);
        let report = SensingReport {
            sensor: self.sensor.clone(),
            notes: self.notes.clone(),
            reactions: all.map(reaction).collect(),
        };
        (report != SensingReport::default()).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_say_what_senses_and_how_fast_cores_were_steered() {
        let mut sensing = Sensing::default();
        let mut read = |key: &str, text: &str| {
            sensing.read(&Note::read(key.into(), None, text.into()));
            sensing.report()
        };
        assert_eq!(read("progress", "instructions"), None);
        read("sensor", "pointer chase");
        read("sense", "no requests by core");
        for text in ["1 3000", "0 1000 400", "1 2000 900", "1 x", "1", ""] {
            read("throttled", text);
        }
        read("closed", "0 512 7000");
        read("closed", "0 3 6000");
        let report = sensing.report().unwrap();
        assert_eq!(report.sensor.as_deref(), Some("pointer chase"));
        assert_eq!(report.notes, ["no requests by core"]);
        let [one, other] = &report.reactions[..] else { panic!("{report:?}") };
        assert_eq!((other.name.as_str(), other.took_max_ns), ("closed", 7000));
        assert_eq!((one.beyond_max, other.beyond_max), (None, Some(512)));
        assert_eq!((one.name.as_str(), one.count), ("throttled", 3));
        assert_eq!((one.took_p50_ns, one.took_p99_ns, one.took_max_ns), (2000, 3000, 3000));
    }
}
