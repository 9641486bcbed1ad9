//! Journals of killed runs, made readable up to their last whole record.

use super::encoding::END;
use super::{Note, Reader, Record, Recorder, TRUNCATED};
use crate::wire::{Wire, take};
use crate::{Instant, fnv1a};
use alloc::vec::Vec;

/// Where a journal that has no end was cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The byte behind its last whole record.
    pub offset: usize,
    /// Bytes from there on: of a record that is not whole.
    pub left_out: usize,
    /// The latest instant of its whole records, in ticks of the journal.
    pub at: Instant,
}

/// Behind a record that is damaged others are looked for in so many bytes.
const SEARCHED: usize = 64 << 10;
/// Nearly all records are shorter than this; checksums of longer ones are not looked for.
const RECORD_MOST: u64 = 4 << 10;
/// No record is longer: a decision on a thousand cores with ten thousand VCPUs takes a tenth of it.
const RECORD_LONGEST: u64 = 64 << 20;
/// A varint of 64 bits has at most so many bytes.
const VARINT_MOST: usize = 10;

/// Gives a journal that has no end one behind its last whole record, at the latest instant that it
/// has, after a [`Note::Cut`]. `None` = it is left as it is, for [`Reader`] to read or refuse: it
/// has its end, or is damaged, or not even its header is whole.
///
/// What was under way there is told by no record: who judges a run by its journal must look at that
/// note. It is for bytes in memory and in no file.
pub fn mend(bytes: &mut Vec<u8>) -> Option<Cut> {
    // A length that is damaged in a whole journal looks like a cut to who reads from its begin.
    if ends(bytes) {
        return None;
    }
    let cut = find(bytes)?;
    if is_damage(&bytes[cut.offset..]) {
        return None;
    }
    bytes.truncate(cut.offset);
    let (offset, left_out) = (cut.offset as u64, cut.left_out as u64);
    let mut recorder = Recorder::of_pieces(None);
    recorder.record(&Record::Note { at: cut.at, note: Note::Cut { offset, left_out } });
    recorder.end(cut.at);
    // A journal may take half of the memory: no room is made beyond what is needed.
    bytes.reserve_exact(recorder.bytes().len());
    bytes.append(recorder.bytes());
    Some(cut)
}

/// Whether the last bytes are an end record.
fn ends(bytes: &[u8]) -> bool {
    // Its first byte, and an instant.
    (2..=1 + VARINT_MOST).any(|length| {
        let begin = bytes.len().checked_sub(length + 5);
        begin.is_some_and(|begin| {
            let record = &bytes[begin..];
            usize::from(record[0]) == length && record[1] == END && is_record(record)
        })
    })
}

/// Where the journal stops within a record or without its end; `None` where anything else is wrong.
fn find(bytes: &[u8]) -> Option<Cut> {
    let (_, reader) = Reader::open(bytes).ok()?;
    // Instants of groups that decide alone may go back.
    let mut at = Instant::ZERO;
    for record in reader {
        match record {
            Ok(Record::Event { at: now, .. } | Record::Note { at: now, .. }) => at = at.max(now),
            Ok(Record::Planned(decision)) => at = at.max(decision.now),
            Ok(Record::Gap(_)) => {}
            Ok(Record::End(_)) => return None,
            Err(error) if error.what == TRUNCATED => {
                let offset = error.offset;
                return Some(Cut { offset, left_out: bytes.len() - offset, at });
            }
            Err(_) => return None,
        }
    }
    None
}

/// Whether `tail`, which is no whole record, is more than the begin of one: then a length is wrong,
/// and what it would hide is not lost.
fn is_damage(tail: &[u8]) -> bool {
    let is_absurd = match take::<u64>(&mut { tail }) {
        Some(length) => length > RECORD_LONGEST,
        None => tail.len() >= VARINT_MOST,
    };
    let goes_on = (1..tail.len().min(SEARCHED)).any(|begin| is_record(&tail[begin..]));
    is_absurd || goes_on || tail.len() <= SEARCHED && is_whole_but_for_its_length(tail)
}

/// Whether `bytes` begin with a record that is not long.
fn is_record(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let length = take::<u64>(&mut rest).filter(|length| *length <= RECORD_MOST);
    let payload = length.and_then(|length| rest.split_at_checked(length as usize));
    payload.is_some_and(|(mut payload, after)| {
        let is_sound = after.starts_with(&checksum(payload));
        is_sound && Record::take(&mut payload).is_some() && payload.is_empty()
    })
}

/// Whether all bytes behind a length, of whatever size, are a payload and its checksum.
fn is_whole_but_for_its_length(tail: &[u8]) -> bool {
    let Some((before, sum)) = tail.split_last_chunk::<4>() else { return false };
    (1..=VARINT_MOST.min(before.len())).any(|begin| checksum(&before[begin..]) == *sum)
}

/// What stands behind a payload.
fn checksum(payload: &[u8]) -> [u8; 4] {
    (fnv1a(0, payload) as u32).to_le_bytes()
}
