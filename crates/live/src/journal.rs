//! The way of a journal from the agents to its reader: a ring of bytes, allocated once, with one
//! writer (the agent that holds the policy) and one reader (a thread that is not real-time).

use maracas_core::journal::{Record, Recorder};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering};

pub use maracas_core::journal::Header;

/// Room for 40 s at 100 KB/s, far more than a writer thread ever lags.
const RING_BYTES: usize = 1 << 22;

/// The reader's end of the ring.
pub(crate) struct Drain(Consumer<u8>);

impl Drain {
    /// Moves all that is in the ring to `into`.
    fn pull(&mut self, into: &mut Vec<u8>) {
        let filled = self.0.read_chunk(self.0.slots()).expect("what is filled stays so");
        let (first, second) = filled.as_slices();
        into.extend_from_slice(first);
        into.extend_from_slice(second);
        filled.commit_all();
    }

    /// Gives whole records to `sink` until nothing more will come: the writer thread's life.
    pub(crate) fn run(mut self, closed: &AtomicBool, mut sink: impl FnMut(&[u8])) {
        // Ten times a second is often enough for a live view and costs nothing.
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
        let mut bytes = Vec::with_capacity(RING_BYTES / 16);
        loop {
            let closed = closed.load(Ordering::Acquire);
            self.pull(&mut bytes);
            if !bytes.is_empty() {
                sink(&bytes);
                bytes.clear();
            }
            if closed {
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

/// Records what the policy is given and answers, and hands it to the ring.
pub(crate) struct Scribe {
    /// The journal's own writer.
    pub(crate) recorder: Recorder,
    ring: Producer<u8>,
    lost: u64,
}

impl Scribe {
    /// The writer's end of a new ring, and the reader's.
    pub(crate) fn new(header: &Header) -> (Self, Drain) {
        let (ring, drain) = RingBuffer::new(RING_BYTES);
        let mut recorder = Recorder::new(header);
        recorder.bytes().reserve(1 << 16);
        (Self { recorder, ring, lost: 0 }, Drain(drain))
    }

    /// Hands over what was recorded since the last call. What does not fit is lost, and the journal
    /// says so: [`Record::Gap`].
    pub(crate) fn flush(&mut self) {
        if self.lost > 0 {
            self.lost += 1;
            self.recorder.bytes().clear();
            self.recorder.record(&Record::Gap(self.lost));
        }
        if self.ring.push_entire_slice(self.recorder.bytes()).is_ok() {
            self.lost = 0;
        } else {
            self.lost += 1;
        }
        self.recorder.bytes().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::journal::{Note, Reader};
    use maracas_core::params::Params;
    use maracas_core::{Instant, System};

    fn header() -> Header {
        Header {
            policy: "none".into(),
            params: Params::new(),
            system: System::new(1, Vec::new()),
            names: Vec::new(),
            machine: "live".into(),
            version: "test".into(),
            seed: 0,
        }
    }

    #[test]
    fn what_does_not_fit_becomes_a_gap() {
        let (mut scribe, drain) = Scribe::new(&header());
        let note =
            |text: &str| Record::Note { at: Instant::ZERO, note: Note::Host(text.to_string()) };
        scribe.recorder.record(&note("kept"));
        scribe.flush();
        scribe.recorder.record(&note(&"x".repeat(RING_BYTES)));
        scribe.flush();
        scribe.recorder.record(&note("lost too: a gap stands for it"));
        scribe.flush();
        scribe.recorder.end(Instant::ZERO);
        scribe.flush();
        let mut bytes = Vec::new();
        drain.run(&AtomicBool::new(true), |piece| bytes.extend_from_slice(piece));
        let (_, reader) = Reader::open(&bytes).unwrap();
        let records: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(records, [note("kept"), Record::Gap(2), Record::End(Instant::ZERO)]);
    }
}
