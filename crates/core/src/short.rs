//! Queues that hardly ever have more than one entry.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// A queue of which the first entry stands in place: to look at it loads no memory of its own,
/// which with thousands of VCPUs is not in a cache.
#[derive(Clone, Debug)]
pub struct Short<T> {
    first: Option<T>,
    /// Those behind it. Once there were some, the memory is kept.
    #[allow(clippy::box_collection)] // 8 bytes of the record in place of 32.
    rest: Option<Box<VecDeque<T>>>,
}

impl<T> Default for Short<T> {
    fn default() -> Self {
        Self { first: None, rest: None }
    }
}

impl<T> Short<T> {
    /// Whether nothing is in it.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }
    /// How many entries are in it.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }
    /// All entries, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let slices = self.rest.as_ref().map(|rest| rest.as_slices());
        let (front, back) = slices.unwrap_or_default();
        self.first.iter().chain(front).chain(back)
    }
    /// All entries, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
    }
    /// The first entry.
    #[inline]
    pub const fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }
    /// The first entry, to be changed.
    #[inline]
    pub const fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }
    /// The entry behind the first.
    #[inline]
    pub fn second(&self) -> Option<&T> {
        self.rest.as_ref()?.front()
    }
    /// The same, to be changed.
    #[inline]
    pub fn second_mut(&mut self) -> Option<&mut T> {
        self.rest.as_mut()?.front_mut()
    }
    /// The last entry.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        self.rest.as_ref().and_then(|rest| rest.back()).or(self.first.as_ref())
    }
    /// The last entry, to be changed.
    #[inline]
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.as_mut().and_then(|rest| rest.back_mut()).or(self.first.as_mut())
    }
    /// Puts an entry in behind all others.
    #[inline]
    pub fn push_back(&mut self, entry: T) {
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.rest.get_or_insert_default().push_back(entry),
        }
    }
    /// Takes the first entry out.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let next = self.rest.as_mut().and_then(|rest| rest.pop_front());
        core::mem::replace(&mut self.first, next)
    }
    /// Takes out the first entry of which `is_it` is true.
    pub fn take(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Option<T> {
        if self.first.as_ref().is_some_and(&mut is_it) {
            return self.pop_front();
        }
        let rest = self.rest.as_mut()?;
        let place = rest.iter().position(is_it)?;
        rest.remove(place)
    }
    /// Takes out the entry behind the first.
    pub fn pop_second(&mut self) -> Option<T> {
        self.rest.as_mut()?.pop_front()
    }
    /// Takes all entries out.
    pub fn clear(&mut self) {
        self.first = None;
        self.rest.iter_mut().for_each(|rest| rest.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn it_is_a_queue() {
        let (mut short, mut plain) = (Short::default(), VecDeque::new());
        let mut number = 1_u32;
        for turn in 0..2_000_u32 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match number >> 16 & 7 {
                0..3 => {
                    short.push_back(turn);
                    plain.push_back(turn);
                }
                3..6 => assert_eq!(short.pop_front(), plain.pop_front()),
                6 if turn % 2 == 0 => assert_eq!(short.pop_second(), plain.remove(1)),
                6 => {
                    let which = |entry: &u32| entry % 4 == turn % 4;
                    let place = plain.iter().position(which);
                    assert_eq!(short.take(which), place.and_then(|place| plain.remove(place)));
                }
                _ => {
                    short.iter_mut().zip(&mut plain).for_each(|(a, b)| (*a, *b) = (*a + 1, *b + 1))
                }
            }
            assert_eq!(short.iter().collect::<Vec<_>>(), plain.iter().collect::<Vec<_>>());
            assert_eq!((short.len(), short.is_empty()), (plain.len(), plain.is_empty()));
            assert_eq!((short.front(), short.back()), (plain.front(), plain.back()));
            assert_eq!(short.second(), plain.get(1));
            assert_eq!(short.back_mut(), plain.back_mut());
        }
        short.clear();
        assert!(short.is_empty() && short.iter().next().is_none());
    }
}
