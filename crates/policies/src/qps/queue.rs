//! The pending items of a set, in the order of their deadlines.

use super::offline::Item;
use alloc::vec::Vec;
use maracas_core::Instant;

/// The urgency of an item with work left: smaller runs first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) deadline: Instant,
    pub(super) item: Item,
}

/// Moves `item` from where `queued` says it stands to where `wanted` says it belongs, and notes
/// that. True where anything changed.
pub(super) fn requeue(
    queue: &mut Vec<Key>,
    item: Item,
    queued: &mut Option<Instant>,
    wanted: Option<Instant>,
) -> bool {
    if *queued == wanted {
        return false;
    }
    if let Some(deadline) = *queued
        && let Ok(place) = queue.binary_search(&Key { deadline, item })
    {
        queue.remove(place);
    }
    if let Some(deadline) = wanted {
        let key = Key { deadline, item };
        let place = queue.partition_point(|other| *other < key);
        queue.insert(place, key);
    }
    *queued = wanted;
    true
}
