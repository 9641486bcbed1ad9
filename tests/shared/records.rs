//! Where the records of a journal stand, for tests that cut and damage it. Included by path, as it
//! belongs to no room.

/// Where the first record of a journal begins, its header.
pub(crate) const FIRST: usize = 8;

/// The byte behind the record at `at`.
pub(crate) fn record_end(journal: &[u8], at: usize) -> usize {
    let (payload, length) = payload_at(journal, at);
    payload + length + 4
}

/// Where the payload begins of the record at `at`, and how long it is.
pub(crate) fn payload_at(journal: &[u8], mut at: usize) -> (usize, usize) {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = journal[at];
        length |= usize::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            return (at, length);
        }
    }
}
