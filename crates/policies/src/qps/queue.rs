//! The pending items of a set, in the order of their deadlines.

use super::Class;
use super::offline::Item;
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::contract::{Grant, Limit};
use maracas_core::{Duration, Instant, VcpuId};

/// The urgency of an item with work left: smaller runs first. Two words, so that comparing two
/// takes two instructions more than comparing deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) deadline: Instant,
    /// The item, in the order of ties: masters by their sets' places, then tasks by their ids.
    /// Never 0, so that no key takes no more room.
    rank: NonZero<u64>,
}

/// Ranks of masters are up to this, those of tasks above it.
const TASKS: u64 = 1 << 32;

impl Key {
    pub(super) const fn new(deadline: Instant, item: Item) -> Self {
        let rank = match item {
            Item::Master(guest) => guest as u64,
            Item::Task(vcpu) => TASKS + vcpu.0 as u64,
        };
        Self { deadline, rank: NonZero::<u64>::MIN.saturating_add(rank) }
    }
    /// The set whose master it is, if it is one.
    #[inline]
    pub(super) const fn guest(self) -> Option<usize> {
        let rank = self.rank.get();
        if rank <= TASKS { Some(rank as usize - 1) } else { None }
    }
    pub(super) const fn item(self) -> Item {
        match self.guest() {
            Some(guest) => Item::Master(guest),
            None => Item::Task(VcpuId((self.rank.get() - TASKS - 1) as u32)),
        }
    }
}

/// A pending item, with all that dispatching looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) class: Class,
    /// Of a task: where its grants end.
    pub(super) until: Duration,
}

impl Entry {
    /// Whether it is of a class, or of any.
    #[inline]
    pub(super) fn is_of(&self, class: Option<Class>) -> bool {
        class.is_none_or(|class| class == self.class)
    }
}

/// The pending items of a set, the most urgent first. A set has few: a search goes from one to the
/// next.
#[derive(Default, Debug)]
pub(super) struct Queue {
    entries: Vec<Entry>,
}

impl Queue {
    /// The item of a class to be chosen, where `before` was last.
    #[inline]
    pub(super) fn most_urgent(&self, class: Option<Class>, before: Option<Key>) -> Option<Key> {
        let mut own = self.entries.iter().filter(|entry| entry.is_of(class)).map(|entry| entry.key);
        let first = own.next()?;
        let ties = own.take_while(|key| key.deadline == first.deadline);
        Some(before.filter(|before| ties.into_iter().any(|key| key == *before)).unwrap_or(first))
    }
    /// The class of a late job: rounded budgets and late decisions make such.
    #[inline]
    pub(super) fn late_class(&self, now: Instant) -> Option<Class> {
        self.entries.first().filter(|entry| entry.key.deadline <= now).map(|entry| entry.class)
    }

    /// Adds the tasks of a class in the order of their deadlines, the chosen one first, up to the
    /// first master: that one starts something on another core, which needs a decision. Whether
    /// there was none.
    #[inline]
    pub(super) fn show(
        &self,
        class: Option<Class>,
        head: Option<Key>,
        run_queue: &mut Vec<Grant>,
    ) -> bool {
        let own = |entry: &&Entry| entry.is_of(class);
        let Some(first) = self.entries.iter().find(own) else { return true };
        // Nearly always it is the chosen one, or that has nothing left.
        let is_chosen = |entry: &&Entry| Some(entry.key) == head;
        if !is_chosen(&first)
            && let Some(chosen) = self.entries.iter().filter(own).find(is_chosen)
        {
            let others = self.entries.iter().filter(own).filter(|entry| !is_chosen(entry));
            return show(core::iter::once(chosen).chain(others), run_queue);
        }
        show(self.entries.iter().filter(own), run_queue)
    }
    /// Says in which class an item is, if it is pending.
    pub(super) fn set_class(&mut self, item: Item, class: Class) {
        let own = |entry: &&mut Entry| entry.key.item() == item;
        self.entries.iter_mut().filter(own).for_each(|entry| entry.class = class);
    }
    /// Brings an item's entry in step with the deadline by which it is `wanted`, if at all, and
    /// with where its grants end; `queued` is the deadline by which it stands here. Whether
    /// anything changed.
    #[inline]
    pub(super) fn requeue(
        &mut self,
        (item, class, until): (Item, Class, Duration),
        queued: &mut Option<Instant>,
        wanted: Option<Instant>,
    ) -> bool {
        let place = queued.and_then(|deadline| {
            let key = Key::new(deadline, item);
            self.entries.iter().position(|entry| entry.key == key)
        });
        if *queued == wanted {
            let Some(place) = place else { return false };
            return core::mem::replace(&mut self.entries[place].until, until) != until;
        }
        *queued = wanted;
        if let Some(place) = place {
            self.entries.remove(place);
        }
        if let Some(deadline) = wanted {
            let key = Key::new(deadline, item);
            let behind = self.entries.iter().position(|other| key < other.key);
            let place = behind.unwrap_or(self.entries.len());
            self.entries.insert(place, Entry { key, class, until });
        }
        true
    }
}

/// Adds what entries grant, up to the first master; whether there was none.
#[inline]
fn show<'a>(entries: impl Iterator<Item = &'a Entry>, run_queue: &mut Vec<Grant>) -> bool {
    for entry in entries {
        let Item::Task(vcpu) = entry.key.item() else { return false };
        run_queue.push(Grant::new(vcpu, Limit(entry.until)));
    }
    true
}
