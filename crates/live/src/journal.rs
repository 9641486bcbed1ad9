//! The way of a journal from the agents to its reader: a ring of bytes, allocated once, with one
//! writer (the agent that holds the policy) and one reader (a thread that is not real-time).

use maracas_core::journal::{Record, Recorder};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub use maracas_core::journal::Header;

/// Room for 40 s at 100 KB/s, far more than a writer thread ever lags.
const RING_BYTES: usize = 1 << 22;

/// The ring. Positions only grow; a position modulo the length is its place.
pub(crate) struct Ring {
    bytes: Box<[UnsafeCell<u8>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
    closed: AtomicBool,
}

// SAFETY: a byte is written only between tail + length and head by the one producer, and read only
// between tail and head by the one consumer; the positions are handed over by release and acquire.
unsafe impl Sync for Ring {}

impl Ring {
    pub(crate) fn new() -> Self {
        let bytes = (0..RING_BYTES).map(|_| UnsafeCell::new(0)).collect();
        Self {
            bytes,
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts all of `from` in, or nothing where there is no room. To be called by one thread at a
    /// time.
    fn push(&self, from: &[u8]) -> bool {
        let (head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Acquire));
        if self.bytes.len() - (head - tail) < from.len() {
            return false;
        }
        let at = head % self.bytes.len();
        let (first, rest) = from.split_at(from.len().min(self.bytes.len() - at));
        for (place, part) in [(at, first), (0, rest)] {
            let free = self.bytes[place..place + part.len()].as_ptr().cast::<u8>().cast_mut();
            // SAFETY: these places are free (see `Sync` above), and there is one producer.
            unsafe { free.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
        }
        self.head.store(head + from.len(), Ordering::Release);
        true
    }

    /// Moves all that is in the ring to `into`. To be called by one thread.
    fn pull(&self, into: &mut Vec<u8>) {
        let (tail, head) = (self.tail.load(Ordering::Relaxed), self.head.load(Ordering::Acquire));
        let at = tail % self.bytes.len();
        let first = (head - tail).min(self.bytes.len() - at);
        for (place, length) in [(at, first), (0, head - tail - first)] {
            let filled = self.bytes[place..place + length].as_ptr().cast::<u8>();
            // SAFETY: these places are filled (see `Sync` above), and there is one consumer.
            into.extend_from_slice(unsafe { std::slice::from_raw_parts(filled, length) });
        }
        self.tail.store(head, Ordering::Release);
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Gives whole records to `sink` until the ring is closed: the writer thread's life.
    pub(crate) fn drain(&self, mut sink: impl FnMut(&[u8])) {
        // Ten times a second is often enough for a live view and costs nothing.
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
        let mut bytes = Vec::with_capacity(RING_BYTES / 16);
        loop {
            let closed = self.closed.load(Ordering::Acquire);
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
    ring: Arc<Ring>,
    lost: u64,
}

impl Scribe {
    pub(crate) fn new(header: &Header, ring: Arc<Ring>) -> Self {
        let mut recorder = Recorder::new(header);
        recorder.bytes().reserve(1 << 16);
        Self { recorder, ring, lost: 0 }
    }

    /// Hands over what was recorded since the last call. What does not fit is lost, and the journal
    /// says so: [`Record::Gap`].
    pub(crate) fn flush(&mut self) {
        if self.lost > 0 {
            self.lost += 1;
            self.recorder.bytes().clear();
            self.recorder.record(&Record::Gap(self.lost));
        }
        if self.ring.push(self.recorder.bytes()) {
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
        let ring = Arc::new(Ring::new());
        let mut scribe = Scribe::new(&header(), Arc::clone(&ring));
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
        ring.close();
        let mut bytes = Vec::new();
        ring.drain(|piece| bytes.extend_from_slice(piece));
        let (_, reader) = Reader::open(&bytes).unwrap();
        let records: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(records, [note("kept"), Record::Gap(2), Record::End(Instant::ZERO)]);
    }
}
