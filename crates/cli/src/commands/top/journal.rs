//! A recorded run as a source of gauges.

use super::{Ended, Source};
use maracas_core::Instant;
use maracas_core::control::Gauges;
use maracas_core::journal::{JournalError, Reader, Record};
use maracas_session::metrics;
use maracas_trace::Metrics;
use std::time;

/// Plays a journal.
pub(super) struct Playback<'a> {
    reader: Reader<'a>,
    counted: Metrics,
    max_latency: Option<u64>,
    ticks_per_ns: u64,
    /// Read, and not yet due.
    next: Option<Record>,
    /// The journal has no more.
    over: Option<Ended>,
    last_shown: bool,
    speed: u32,
    /// How far it is played, in nanoseconds of the recorded run, as of `since`.
    played_ns: u64,
    /// Since when it plays on; `None` = it stands.
    since: Option<time::Instant>,
}

impl<'a> Playback<'a> {
    /// Opens a journal, to be played `speed` times faster than it was recorded.
    ///
    /// # Errors
    /// Where it is none, or of another format.
    pub(super) fn open(bytes: &'a [u8], speed: u32) -> Result<Self, JournalError> {
        let (header, reader) = Reader::open(bytes)?;
        Ok(Self {
            reader,
            counted: Metrics::new(&header),
            max_latency: metrics::max_latency(&header),
            ticks_per_ns: header.system.ticks_per_ns.max(1),
            next: None,
            over: None,
            last_shown: false,
            speed,
            played_ns: 0,
            since: None,
        })
    }

    /// Plays the rest at once. What is wrong with the journal, if anything is.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.play_until(Instant::NEVER);
        self.over.take().map(|Ended(why)| why).filter(|why| *why != ENDS)
    }

    /// What was counted so far.
    pub(super) fn gauges(&self) -> Gauges {
        metrics::gauges(&self.counted, self.max_latency)
    }

    fn play_until(&mut self, until: Instant) {
        loop {
            if self.next.is_none() && !self.read() {
                return;
            }
            let due = |record: &mut Record| reported_at(record).is_none_or(|at| at <= until);
            let Some(record) = self.next.take_if(due) else { return };
            self.counted.record(&record);
        }
    }

    /// Reads one record ahead; false at the end.
    fn read(&mut self) -> bool {
        let why = match self.reader.next() {
            Some(Ok(record)) => {
                self.next = Some(record);
                return true;
            }
            // Its way out is this command.
            Some(Err(error)) => format!("byte {}: {}", error.offset, error.what),
            None => ENDS.into(),
        };
        self.over.get_or_insert(Ended(why));
        false
    }

    fn position_ns(&self) -> u64 {
        let played = self.since.map_or(0, |since| since.elapsed().as_nanos() as u64);
        self.played_ns.saturating_add(played.saturating_mul(u64::from(self.speed)))
    }
}

/// What is said at the end of a journal that is whole.
const ENDS: &str = "the journal ends here";

/// When a machine noted it; `None` where it does not say.
const fn reported_at(record: &Record) -> Option<Instant> {
    match record {
        Record::Event { at, .. } | Record::Note { at, .. } | Record::End(at) => Some(*at),
        Record::Planned(decision) => Some(decision.now),
        Record::Gap(_) => None,
    }
}

impl Source for Playback<'_> {
    fn look(&mut self) -> Result<Box<Gauges>, Ended> {
        if let Some(ended) = self.over.clone().filter(|_| self.last_shown) {
            return Err(ended);
        }
        self.since.get_or_insert_with(time::Instant::now);
        let until = self.position_ns().saturating_mul(self.ticks_per_ns);
        self.play_until(Instant::from_ticks(until));
        // What came last is shown before it is said that it was the last.
        self.last_shown = self.over.is_some();
        Ok(Box::new(self.gauges()))
    }
    fn pause(&mut self, paused: bool) {
        self.played_ns = self.position_ns();
        self.since = (!paused).then(time::Instant::now);
    }
    fn stays(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::System;
    use maracas_core::journal::{Header, Note, Recorder};
    use maracas_core::params::Params;

    /// A note every hour for ten hours.
    fn journal() -> Vec<u8> {
        let header = Header {
            policy: "p-edf".into(),
            params: Params::new(),
            system: System::new(1, Vec::new()),
            names: Vec::new(),
            machine: "sim".into(),
            version: "test".into(),
            seed: 0,
        };
        let mut recorder = Recorder::new(&header);
        for hour in 1..=10 {
            let note = Note::Host(hour.to_string());
            recorder.record(&Record::Note { at: hours(hour), note });
        }
        recorder.end(hours(10));
        std::mem::take(recorder.bytes())
    }

    fn hours(count: u64) -> Instant {
        Instant::from_ticks(count * 3_600_000_000_000)
    }

    #[test]
    fn it_plays_as_fast_as_reported_and_says_where_it_ends() {
        let bytes = journal();
        // Ten hours in 36 ms.
        let mut playback = Playback::open(&bytes, 1_000_000).unwrap();
        let begin = time::Instant::now();
        let mut looks = 0;
        let last = loop {
            match playback.look() {
                Ok(_) => looks += 1,
                Err(ended) => break ended,
            }
        };
        assert!(begin.elapsed() >= time::Duration::from_millis(36) && looks > 1);
        assert_eq!(last, Ended("the journal ends here".into()));
        assert_eq!(playback.gauges().host, "10");
        assert_eq!(playback.look().unwrap_err(), last, "nothing comes after the end");
    }

    #[test]
    fn what_is_paused_stands_still() {
        let bytes = journal();
        let mut playback = Playback::open(&bytes, 1).unwrap();
        playback.look().unwrap();
        playback.pause(true);
        let before = playback.position_ns();
        std::thread::sleep(time::Duration::from_millis(20));
        assert_eq!(playback.position_ns(), before);
        playback.pause(false);
        std::thread::sleep(time::Duration::from_millis(20));
        assert!(playback.position_ns() >= before + 20_000_000);
        assert_eq!(playback.finish(), None);
        assert_eq!((playback.gauges().at, playback.gauges().over), (hours(10), true));
    }
}
