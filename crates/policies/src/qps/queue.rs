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

/// The pending items of a set, the most urgent first, by their classes. What goes by EDF is all in
/// class A. A set has few: a search goes from one to the next.
#[derive(Default, Debug)]
pub(super) struct Queue {
    classes: [ClassQueue; 2],
}

/// In the place of a master's VCPU, of which it has none.
const NO_VCPU: VcpuId = VcpuId(u32::MAX);

/// The pending items of a class.
#[derive(Default, Debug)]
struct ClassQueue {
    keys: Vec<Key>,
    /// What each is granted; of a master this says nothing.
    grants: Vec<Grant>,
    /// How many of them are masters.
    masters: usize,
}

impl Queue {
    /// The item of a class to be chosen, where `before` was last.
    #[inline]
    pub(super) fn most_urgent(&self, class: Class, before: Option<Key>) -> Option<Key> {
        let keys = &self.classes[class.index()].keys;
        let first = keys.first().copied();
        if first == before {
            return first;
        }
        let mut ties = keys.iter().take_while(|key| key.deadline == keys[0].deadline);
        before.filter(|before| ties.any(|key| key == before)).or(first)
    }
    /// The class of a late job: rounded budgets and late decisions make such.
    #[inline]
    pub(super) fn late_class(&self, now: Instant) -> Option<Class> {
        let first = |class: Class| self.classes[class.index()].keys.first();
        let is_late = |class: &Class| first(*class).is_some_and(|key| key.deadline <= now);
        let late = [Class::A, Class::B].into_iter().filter(is_late);
        late.min_by_key(|class| first(*class).copied())
    }

    /// The tasks of a class in the order of their deadlines, the chosen one first, up to the first
    /// master: that one starts something on another core, which needs a decision. Whether there was
    /// none.
    #[inline]
    pub(super) fn show<'a>(
        &'a self,
        class: Class,
        head: Option<Key>,
        scratch: &'a mut Vec<Grant>,
    ) -> (&'a [Grant], bool) {
        let own = &self.classes[class.index()];
        // Nearly always the first is the chosen one, or the chosen one has nothing left.
        if own.keys.first() != head.as_ref()
            && let Some(chosen) = own.keys.iter().position(|key| Some(*key) == head)
        {
            return own.show_first(chosen, scratch);
        }
        let is_master = |key: &Key| key.guest().is_some();
        let master = if own.masters == 0 { None } else { own.keys.iter().position(is_master) };
        (&own.grants[..master.unwrap_or(own.grants.len())], master.is_none())
    }
    /// Says in which class an item is, if it is pending.
    pub(super) fn set_class(&mut self, item: Item, class: Class) {
        let other = &mut self.classes[class.other().index()];
        if let Some(place) = other.keys.iter().position(|key| key.item() == item) {
            let (key, grant) = other.remove(place);
            self.classes[class.index()].insert(key, grant);
        }
    }
    /// Brings an item's entry in step with the deadline by which it is `wanted`, if at all, and
    /// with where its grants end; `queued` is the deadline by which it stands here. Whether
    /// anything changed.
    ///
    /// # Panics
    /// Where it is `queued` and does not stand in its class.
    #[inline]
    pub(super) fn requeue(
        &mut self,
        (item, class, until): (Item, Class, Duration),
        queued: &mut Option<Instant>,
        wanted: Option<Instant>,
    ) -> bool {
        let own = &mut self.classes[class.index()];
        let place = queued.map(|deadline| own.place(Key::new(deadline, item)));
        if *queued == wanted {
            let Some(place) = place else { return false };
            let limit = Limit(until);
            return core::mem::replace(&mut own.grants[place].until, limit) != limit;
        }
        *queued = wanted;
        if let Some(place) = place {
            own.remove(place);
        }
        if let Some(deadline) = wanted {
            let vcpu = if let Item::Task(vcpu) = item { vcpu } else { NO_VCPU };
            own.insert(Key::new(deadline, item), Grant::new(vcpu, Limit(until)));
        }
        true
    }
}

impl ClassQueue {
    /// As [`Queue::show`], with the one at `chosen` before all others.
    #[cold]
    fn show_first<'a>(&self, chosen: usize, scratch: &'a mut Vec<Grant>) -> (&'a [Grant], bool) {
        let others = (0..self.keys.len()).filter(|place| *place != chosen);
        let is_task = |place: &usize| self.keys[*place].guest().is_none();
        let tasks = core::iter::once(chosen).chain(others).take_while(is_task);
        scratch.clear();
        scratch.extend(tasks.map(|place| self.grants[place]));
        (scratch, scratch.len() == self.keys.len())
    }
    #[inline]
    fn place(&self, key: Key) -> usize {
        let place = self.keys.iter().position(|other| *other == key);
        place.unwrap_or_else(|| absent(key))
    }
    fn insert(&mut self, key: Key, grant: Grant) {
        self.masters += usize::from(key.guest().is_some());
        match self.keys.iter().position(|other| key < *other) {
            Some(place) => {
                self.keys.insert(place, key);
                self.grants.insert(place, grant);
            }
            None => {
                self.keys.push(key);
                self.grants.push(grant);
            }
        }
    }
    fn remove(&mut self, place: usize) -> (Key, Grant) {
        let key = self.keys.remove(place);
        self.masters -= usize::from(key.guest().is_some());
        (key, self.grants.remove(place))
    }
}

#[cold]
#[inline(never)]
fn absent(key: Key) -> ! {
    panic!("{:?} with the deadline {} does not stand in its class", key.item(), key.deadline)
}

#[cfg(test)]
impl Queue {
    /// All that is pending, with deadlines and classes, after a look at how it stands there.
    pub(super) fn entries(&self) -> Vec<(Item, Instant, Class)> {
        let mut entries = Vec::new();
        for class in [Class::A, Class::B] {
            let ClassQueue { keys, grants, masters } = &self.classes[class.index()];
            assert!(keys.is_sorted() && keys.len() == grants.len(), "{keys:?} {grants:?}");
            assert_eq!(keys.iter().filter(|key| key.guest().is_some()).count(), *masters);
            entries.extend(keys.iter().map(|key| (key.item(), key.deadline, class)));
        }
        entries
    }
}
