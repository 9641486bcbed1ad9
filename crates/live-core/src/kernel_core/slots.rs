//! Which slot of the kernel's tables each VCPU has.
//!
//! VCPUs are numbered without end, and the kernel's tables have an end. So each VCPU has a slot as
//! long as it is there, and one that comes later may have the same. What the kernel is
//! told and says is a number of its own: the slot and, above that, how many had it before. No two
//! VCPUs of a run have the same one, so that what is said of a VCPU which has left is never taken
//! for its successor's, however late it is read.

use maracas_core::VcpuId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a VCPU that comes has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its number, which is new.
    pub number: u32,
    /// Who had the slot before, of which nothing can be said any more.
    pub before: Option<VcpuId>,
}

/// The slots, and who has them.
#[derive(Clone, Debug)]
pub struct Slots {
    /// By how much the numbers of one slot differ.
    stride: u32,
    /// The next number of each slot that no VCPU has, the one first that rested for longest.
    free: VecDeque<u32>,
    /// Of VCPUs that are there.
    numbers: BTreeMap<VcpuId, u32>,
    /// By number, who has each slot or had it last.
    vcpus: BTreeMap<u32, VcpuId>,
    /// What has left and not been let go.
    left: BTreeSet<u32>,
}

impl Slots {
    /// So many slots, all free. `stride`: for how many the kernel's tables are made, above which
    /// its numbers count who had a slot before.
    #[must_use]
    pub fn new(stride: u32, slots: u32) -> Self {
        Self {
            stride,
            free: (0..slots.min(stride)).collect(),
            numbers: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            left: BTreeSet::new(),
        }
    }

    /// How many VCPUs may be there at once now, those that are there among them: all but what has
    /// left and not been let go.
    #[must_use]
    pub fn room(&self) -> usize {
        self.free.len() + self.numbers.len()
    }

    /// A VCPU comes, and gets a slot; `None` where none is free, or it has one.
    pub fn take(&mut self, vcpu: VcpuId) -> Option<Taken> {
        if self.numbers.contains_key(&vcpu) {
            return None;
        }
        let number = self.free.pop_front()?;
        self.numbers.insert(vcpu, number);
        self.vcpus.insert(number, vcpu);
        let last = number.checked_sub(self.stride);
        Some(Taken { number, before: last.and_then(|last| self.vcpus.remove(&last)) })
    }

    /// The number of a VCPU that is there.
    #[must_use]
    pub fn number(&self, vcpu: VcpuId) -> Option<u32> {
        self.numbers.get(&vcpu).copied()
    }

    /// Those of all that are there.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        self.numbers.values().copied().collect()
    }

    /// The VCPU that has, or had, this number; `None` where another one has its slot by now.
    #[must_use]
    pub fn vcpu(&self, number: u32) -> Option<VcpuId> {
        self.vcpus.get(&number).copied()
    }

    /// A VCPU leaves: its number, under which the kernel may have something of it still.
    pub fn leave(&mut self, vcpu: VcpuId) -> Option<u32> {
        let number = self.numbers.remove(&vcpu)?;
        self.left.insert(number);
        Some(number)
    }

    /// Numbers of what has left and not been let go.
    #[must_use]
    pub fn left(&self) -> Vec<u32> {
        self.left.iter().copied().collect()
    }

    /// The kernel has nothing of what left under this number: its slot is free. What was said of
    /// it before may still be read, until another one takes the slot.
    pub fn let_go(&mut self, number: u32) {
        if self.left.remove(&number) {
            // A slot of which all numbers are used, the highest of which is no VCPU's, is not used
            // again.
            let next = number.checked_add(self.stride).filter(|next| *next != u32::MAX);
            self.free.extend(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VcpuId = VcpuId(7);
    const B: VcpuId = VcpuId(2_000);
    const C: VcpuId = VcpuId(3_000_000);

    fn number(taken: Option<Taken>) -> Option<u32> {
        taken.map(|taken| taken.number)
    }

    #[test]
    fn a_slot_is_used_again_under_another_number() {
        let mut slots = Slots::new(1024, 2);
        assert_eq!([A, B, C].map(|id| number(slots.take(id))), [Some(0), Some(1), None]);
        assert_eq!((slots.leave(A), slots.leave(A)), (Some(0), None));
        assert_eq!((slots.take(C), slots.room()), (None, 1), "the kernel may have something of A");
        slots.let_go(0);
        assert_eq!((slots.vcpu(0), slots.number(A)), (Some(A), None), "what is read now is A's");
        assert_eq!(slots.take(B), None, "it has one");
        assert_eq!(slots.take(C), Some(Taken { number: 1024, before: Some(A) }));
        assert_eq!([0, 1024, 1].map(|it| slots.vcpu(it)), [None, Some(C), Some(B)]);
        assert_eq!((slots.numbers(), slots.left(), slots.room()), (vec![1, 1024], vec![], 2));
    }

    #[test]
    fn what_is_there_is_not_let_go_and_what_was_is_once() {
        let mut slots = Slots::new(1024, 1);
        slots.take(A);
        slots.let_go(0);
        assert_eq!((slots.number(A), slots.take(B)), (Some(0), None));
        slots.leave(A);
        slots.let_go(0);
        slots.let_go(0);
        assert_eq!((number(slots.take(B)), slots.take(C), slots.room()), (Some(1024), None, 1));
    }

    #[test]
    fn the_slot_that_rested_for_longest_is_used_first() {
        let mut slots = Slots::new(8, 4);
        let mut numbers = Vec::new();
        for id in (0..40).map(VcpuId) {
            numbers.extend(number(slots.take(id)));
            slots.leave(id).into_iter().for_each(|number| slots.let_go(number));
        }
        assert_eq!(numbers[..6], [0, 1, 2, 3, 8, 9]);
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 40, "no number comes twice");
        assert_eq!(slots.vcpus.len(), 4, "no more is kept than there are slots");
    }

    #[test]
    fn a_slot_whose_numbers_are_used_up_is_not_used_again() {
        let mut slots = Slots::new(1 << 31, 2);
        for (vcpu, own) in [(A, 0), (B, 1), (C, 1 << 31)] {
            assert_eq!(number(slots.take(vcpu)), Some(own));
            slots.leave(vcpu);
            slots.let_go(own);
        }
        assert_eq!((number(slots.take(A)), slots.room()), (Some((1 << 31) + 1), 1));
    }
}
