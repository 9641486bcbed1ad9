//! The way of a journal from the agents to its reader: for each decider a ring of bytes, allocated
//! once, with one writer (the agent that decides) and one reader (a thread that is not real-time).
//!
//! Deciders hand over pieces, whole records each, which get their numbers by one addition. The
//! reader puts them into that order. So no agent waits for another, and a piece that an agent has
//! not finished holds up the reader alone.

use maracas_core::CoreId;
use maracas_core::journal::{Joined, Record, Recorder};
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use maracas_core::journal::Header;

/// Room for 40 s at 100 KB/s.
const RING_BYTES: usize = 1 << 22;
/// The same of a group of cores: 10 s.
const GROUP_BYTES: usize = RING_BYTES / 4;
/// How much of a journal is given at once. Rings are emptied between two such steps, so that a slow
/// reader loses nothing until its own room is full.
const STEP_BYTES: usize = 1 << 16;
/// Room for pieces that were taken from rings and not given yet: an hour at 18 KB/s, more than a
/// loaded host wrote where its reader had too little of the cores (docs/sched-ext.md).
const HELD_BYTES: usize = 1 << 26;
/// What stands before a piece: its number and its length, 8 bytes each.
const FRAME: usize = 16;

/// One ring, and what was taken from it and is no whole piece yet.
struct Ring {
    ring: Consumer<u8>,
    taken: Vec<u8>,
}

impl Ring {
    /// Moves all whole pieces to `into`, by their numbers; how many bytes these have.
    fn pull(&mut self, into: &mut BTreeMap<u64, Vec<u8>>) -> usize {
        let filled = self.ring.read_chunk(self.ring.slots()).expect("what is filled stays so");
        let (first, second) = filled.as_slices();
        self.taken.extend_from_slice(first);
        self.taken.extend_from_slice(second);
        filled.commit_all();
        let (mut rest, mut moved) = (&self.taken[..], 0);
        while let Some((number, piece, after)) = framed(rest) {
            into.insert(number, piece.to_vec());
            (rest, moved) = (after, moved + piece.len());
        }
        let left = rest.len();
        self.taken.drain(..self.taken.len() - left);
        moved
    }
}

/// The first piece of these bytes, its number, and what stands behind it.
fn framed(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (piece, rest) = rest.split_at_checked(u64::from_le_bytes(*length) as usize)?;
    Some((u64::from_le_bytes(*number), piece, rest))
}

/// The reader's end of the rings.
pub(crate) struct Drain {
    journal: Joined,
    rings: Vec<Ring>,
    /// Pieces that were taken from rings and not given yet, some because others are missing before
    /// them; and how many bytes they have.
    early: BTreeMap<u64, Vec<u8>>,
    held: usize,
    /// The number of the next piece.
    next: u64,
    /// The number that the next piece gets.
    numbers: Arc<AtomicU64>,
}

impl Drain {
    /// One more writer, whose ring has so much room, of all cores or of the group of this first
    /// one.
    fn writer(&mut self, room: usize, group: Option<CoreId>) -> Scribe {
        let (ring, consumer) = RingBuffer::new(room);
        self.rings.push(Ring { ring: consumer, taken: Vec::new() });
        let mut recorder = Recorder::of_pieces(group);
        recorder.bytes().reserve(1 << 16);
        Scribe { recorder, ring, numbers: Arc::clone(&self.numbers), lost: 0 }
    }
    /// One more writer, for the decider of the group of this first core.
    pub(crate) fn writer_of_group(&mut self, first: Option<CoreId>) -> Scribe {
        self.writer(GROUP_BYTES, first)
    }

    /// Takes what is in the rings, where there is room for it or a piece is missing. Whether it
    /// did.
    fn pull(&mut self) -> bool {
        let waits = self.early.first_key_value().is_some_and(|(number, _)| *number != self.next);
        let has_room = waits || self.held < HELD_BYTES;
        if has_room {
            let own = self.rings.iter_mut().map(|ring| ring.pull(&mut self.early));
            self.held += own.sum::<usize>();
        }
        has_room
    }
    /// Puts pieces together for one step; with `all` what a missing piece comes before too. Whether
    /// there are more.
    fn join(&mut self, all: bool) -> bool {
        while let Some(first) = self.early.first_entry() {
            if *first.key() != self.next && !all {
                return false;
            }
            if self.journal.bytes().len() >= STEP_BYTES {
                return true;
            }
            let (number, piece) = first.remove_entry();
            (self.next, self.held) = (number + 1, self.held - piece.len());
            if self.journal.append(&piece).is_err() {
                self.journal.record(&Record::Gap(1));
            }
        }
        false
    }

    /// Gives whole records to `sink` until nothing more will come: the writer thread's life.
    pub(crate) fn run(mut self, closed: &AtomicBool, mut sink: impl FnMut(&[u8])) {
        // Ten times a second is often enough for a live view and costs nothing.
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
        loop {
            let closed = closed.load(Ordering::Acquire);
            let has_all = self.pull();
            let has_more = self.join(closed);
            let bytes = self.journal.bytes();
            if !bytes.is_empty() {
                sink(bytes);
                bytes.clear();
            }
            if has_more || !has_all {
                continue;
            }
            if closed {
                return;
            }
            std::thread::park_timeout(PAUSE);
        }
    }
}

/// Records what a policy is given and answers, and hands it to the ring.
pub(crate) struct Scribe {
    /// The journal's own writer.
    pub(crate) recorder: Recorder,
    ring: Producer<u8>,
    numbers: Arc<AtomicU64>,
    lost: u64,
}

impl Scribe {
    /// The first writer of a new journal, and its reader.
    pub(crate) fn new(header: &Header) -> (Self, Drain) {
        let (journal, numbers) = (Joined::new(header), Arc::default());
        let (rings, early) = (Vec::new(), BTreeMap::new());
        let mut drain = Drain { journal, rings, early, held: 0, next: 0, numbers };
        (drain.writer(RING_BYTES, None), drain)
    }

    /// Hands over what was recorded since the last call, as one piece. What does not fit is lost,
    /// and the journal says so: [`Record::Gap`].
    pub(crate) fn flush(&mut self) {
        let is_empty = self.recorder.bytes().is_empty();
        if self.lost > 0 {
            self.lost += u64::from(!is_empty);
            self.recorder.bytes().clear();
            self.recorder.record(&Record::Gap(self.lost));
        }
        let piece = self.recorder.bytes();
        if piece.is_empty() {
            return;
        }
        // Room that is there stays; a number that was taken must come.
        if self.ring.slots() >= FRAME + piece.len() {
            let number = self.numbers.fetch_add(1, Ordering::AcqRel);
            let length = piece.len() as u64;
            for part in [&number.to_le_bytes(), &length.to_le_bytes(), &piece[..]] {
                self.ring.push_entire_slice(part).expect("there is room");
            }
            self.lost = 0;
        } else {
            self.lost += 1;
        }
        piece.clear();
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
        assert_eq!(drained(drain), [note("kept"), Record::Gap(2), Record::End(Instant::ZERO)]);
    }

    /// A reader that is slower than the writer: for two bytes that it has worked off there are
    /// three more. Four rings of them.
    #[test]
    fn what_comes_while_the_reader_is_at_work_is_kept() {
        const PIECE: usize = 1 << 14;
        let (mut scribe, drain) = Scribe::new(&header());
        let all = 4 * RING_BYTES / PIECE;
        let (mut written, mut due, mut bytes) = (0, 8 * PIECE, Vec::new());
        let mut write = |worked_off: usize| {
            due += worked_off / 2 * 3;
            while due >= PIECE && written < all {
                let note = Note::Host("x".repeat(PIECE));
                scribe.recorder.record(&Record::Note { at: Instant::ZERO, note });
                scribe.flush();
                (due, written) = (due - PIECE, written + 1);
            }
            written == all
        };
        let closed = AtomicBool::new(write(0));
        drain.run(&closed, |piece| {
            bytes.extend_from_slice(piece);
            closed.store(write(piece.len()), Ordering::Release);
        });
        // It has no end.
        let (_, reader) = Reader::open(&bytes).unwrap();
        let whole = reader.map_while(Result::ok).filter(|it| matches!(it, Record::Note { .. }));
        assert_eq!(whole.count(), all);
    }

    fn drained(drain: Drain) -> Vec<Record> {
        let mut bytes = Vec::new();
        drain.run(&AtomicBool::new(true), |piece| bytes.extend_from_slice(piece));
        let (_, reader) = Reader::open(&bytes).unwrap();
        reader.map(Result::unwrap).collect()
    }

    #[test]
    fn pieces_of_many_writers_come_in_the_order_in_which_they_were_handed_over() {
        let (first, mut drain) = Scribe::new(&header());
        let [one, other] = [0, 1].map(|core| drain.writer_of_group(Some(CoreId(core))));
        let mut writers = [first, one, other];
        let note = |round: u64| Record::Note {
            at: Instant::from_ticks(round),
            note: Note::Host(round.to_string()),
        };
        for round in 0..50 {
            let writer = &mut writers[(round * round % 3) as usize];
            writer.recorder.record(&note(round));
            writer.flush();
            writer.flush();
            if round % 7 == 0 {
                drain.pull();
                assert!(!drain.join(false));
            }
        }
        writers[2].recorder.end(Instant::ZERO);
        writers[2].flush();
        let end = [Record::End(Instant::ZERO)];
        assert_eq!(drained(drain), (0..50).map(note).chain(end).collect::<Vec<_>>());
    }
}
