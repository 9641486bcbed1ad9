//! How memory was sensed and steered, as the notes of a live machine say.

use crate::report::{ReactionReport, SensingReport};
use crate::samples::Samples;

/// The key of the note that says what answers the policy's samples.
const SENSOR: &str = "sensor";
/// The key of a note that says what could not be sensed, or what else is to be known of it.
const NOTES: &str = "sense";
/// What a core loses, the key of the note that says how long that took, and the place of the
/// nanoseconds among its words, of which the first is the core.
const REACTIONS: [(&str, usize); 2] = [("throttled", 1), ("closed", 2)];

/// What the notes said so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Sensing {
    sensor: Option<String>,
    notes: Vec<String>,
    reactions: [Samples; REACTIONS.len()],
}

impl Sensing {
    /// Takes in one note; false where it says nothing of memory. A text of another form is left
    /// aside.
    pub(super) fn read(&mut self, key: &str, text: &str) -> bool {
        match key {
            SENSOR => self.sensor = Some(text.into()),
            NOTES => self.notes.push(text.into()),
            _ => {
                let Some(place) = REACTIONS.iter().position(|(known, _)| *known == key) else {
                    return false;
                };
                let took_ns = text.split(' ').nth(REACTIONS[place].1);
                if let Some(took_ns) = took_ns.and_then(|word| word.parse().ok()) {
                    self.reactions[place].add(took_ns);
                }
            }
        }
        true
    }

    /// `None` where no note said anything.
    pub(super) fn report(&self) -> Option<SensingReport> {
        let reaction = |((name, _), took): (&(&str, usize), &Samples)| ReactionReport {
            name: (*name).into(),
            count: took.count(),
            took_p50_ns: took.percentile(50),
            took_p99_ns: took.percentile(99),
            took_max_ns: took.max(),
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
        assert!(!sensing.read("progress", "instructions"));
        assert_eq!(sensing.report(), None);
        assert!(sensing.read("sensor", "pointer chase"));
        assert!(sensing.read("sense", "no requests by core"));
        for text in ["1 3000", "0 1000 400", "1 2000 900", "1 x", "1", ""] {
            assert!(sensing.read("throttled", text));
        }
        assert!(sensing.read("closed", "0 512 7000"));
        let report = sensing.report().unwrap();
        assert_eq!(report.sensor.as_deref(), Some("pointer chase"));
        assert_eq!(report.notes, ["no requests by core"]);
        let [one, other] = &report.reactions[..] else { panic!("{report:?}") };
        assert_eq!((other.name.as_str(), other.took_max_ns), ("closed", 7000));
        assert_eq!((one.name.as_str(), one.count), ("throttled", 3));
        assert_eq!((one.took_p50_ns, one.took_p99_ns, one.took_max_ns), (2000, 3000, 3000));
    }
}
