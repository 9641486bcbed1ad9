//! The way of a journal from the agents to its reader: a ring of bytes, allocated once, that one
//! agent at a time writes to and one thread reads, which is not real-time. Each decider writes its
//! events down by itself, and hands them over together with the plan that answers them, in one
//! piece: so the journal is one stream in which nothing of another core stands in between.

use maracas_core::contract::Observer;
use maracas_core::journal::{PlanHash, Record, Recorder};
use maracas_core::{Instant, Plan};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// What the writers of one journal share.
struct Stream {
    ring: Producer<u8>,
    /// Of all plans so far.
    hash: PlanHash,
    lost: u64,
}

impl Stream {
    /// Hands over what a recorder has. What does not fit is lost, and the journal says so:
    /// [`Record::Gap`].
    fn flush(&mut self, recorder: &mut Recorder) {
        if self.lost > 0 {
            self.lost += 1;
            recorder.bytes().clear();
            recorder.record(&Record::Gap(self.lost));
        }
        if self.ring.push_entire_slice(recorder.bytes()).is_ok() {
            self.lost = 0;
        } else {
            self.lost += 1;
        }
        recorder.bytes().clear();
    }
}

/// Records what the policy is given and answers, and hands it to the ring.
pub(crate) struct Scribe {
    /// The journal's own writer.
    pub(crate) recorder: Recorder,
    /// Locked for as long as it takes to write a plan down and hand a piece over.
    stream: Arc<Mutex<Stream>>,
}

impl Scribe {
    /// The writer's end of a new ring, and the reader's.
    pub(crate) fn new(header: &Header) -> (Self, Drain) {
        let (ring, drain) = RingBuffer::new(RING_BYTES);
        let mut recorder = Recorder::new(header);
        recorder.bytes().reserve(1 << 16);
        let stream = Stream { ring, hash: PlanHash::default(), lost: 0 };
        (Self { recorder, stream: Arc::new(Mutex::new(stream)) }, Drain(drain))
    }
    /// One more writer of the same journal, for what concerns one core.
    pub(crate) fn part(&self) -> Self {
        let mut recorder = Recorder::piece();
        recorder.bytes().reserve(1 << 14);
        Self { recorder, stream: Arc::clone(&self.stream) }
    }

    /// Writes a plan down and hands over what was recorded since the last call.
    pub(crate) fn planned(&mut self, now: Instant, plan: &Plan) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        self.recorder.swap_hash(&mut stream.hash);
        self.recorder.planned(now, plan);
        self.recorder.swap_hash(&mut stream.hash);
        stream.flush(&mut self.recorder);
    }
    /// Hands over what was recorded since the last call.
    pub(crate) fn flush(&mut self) {
        if !self.recorder.bytes().is_empty() {
            let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            stream.flush(&mut self.recorder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::{Grant, Limit};
    use maracas_core::journal::{Note, Reader};
    use maracas_core::params::Params;
    use maracas_core::{CoreId, Event, System, VcpuId};

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

    #[test]
    fn what_two_deciders_write_is_one_stream_with_one_hash() {
        let (mut all, drain) = Scribe::new(&header());
        all.flush();
        let (mut parts, mut whole) = ([all.part(), all.part()], Plan::new(2));
        for (core, part) in (0..2).map(CoreId).zip(&mut parts) {
            let mut plan = Plan::of_core(core);
            for plan in [&mut plan, &mut whole] {
                let grant = Grant::new(VcpuId(core.0.into()), Limit::NEVER);
                plan.run_queue_mut(core).foreground.push(grant);
            }
            part.recorder.event(Instant::ZERO, &Event::Left(VcpuId(9)));
            part.planned(Instant::ZERO, &plan);
        }
        all.recorder.end(Instant::ZERO);
        all.flush();
        let mut bytes = Vec::new();
        drain.run(&AtomicBool::new(true), |piece| bytes.extend_from_slice(piece));
        let (_, reader) = Reader::open(&bytes).unwrap();
        let hash = |record: Record| {
            if let Record::Planned(decision) = record { Some(decision.hash) } else { None }
        };
        let hashes: Vec<_> = reader.map(Result::unwrap).map(hash).collect();
        let last = PlanHash::default().update(&whole);
        assert_eq!(hashes.len(), 5);
        assert_eq!((hashes[0], hashes[2], hashes[3]), (None, None, Some(last)));
    }
}
