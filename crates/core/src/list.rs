//! A list that may be long, of which a place or two change at a time.

use alloc::vec::Vec;
use core::fmt;
use core::iter::Flatten;
use core::ops::{Index, IndexMut};
use core::slice;

/// The most entries of a part. Finding the part costs their number, moving entries within it their
/// length: at 1,000 entries both are some tens of nanoseconds.
const PART: usize = 64;

/// So few entries are searched and moved one by one, which takes fewer instructions than the set-up
/// of a search by halves or of a rotation (docs/results.md, "What a decision asks for").
const FEW: usize = 4;

/// A list in parts: to put an entry in or take one out moves those of one part only, where a `Vec`
/// moves all behind it.
pub struct List<T> {
    /// None of them is empty, but for a single one.
    parts: Vec<Vec<T>>,
    length: usize,
    /// Whether all parts but the last have [`PART`] entries: then the part of a place is known
    /// without looking at those before it.
    is_even: bool,
}

/// The entries of a [`List`], in order.
pub type Entries<'a, T> = Flatten<slice::Iter<'a, Vec<T>>>;

impl<T> List<T> {
    /// No entries.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), length: 0, is_even: true }
    }
    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.length
    }
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
    /// All entries, in order.
    pub fn iter(&self) -> Entries<'_, T> {
        self.parts.iter().flatten()
    }
    /// All entries, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.parts.iter_mut().flatten()
    }
    /// The first entry.
    pub fn first(&self) -> Option<&T> {
        self.parts.first()?.first()
    }
    /// The number of entries before the first one of which `is_before` is false. Like
    /// [`slice::partition_point`] it searches by halves, and so needs a list in order.
    pub fn partition_point(&self, mut is_before: impl FnMut(&T) -> bool) -> usize {
        if let [entries] = &self.parts[..] {
            return entries.partition_point(is_before);
        }
        let behind = self.parts.partition_point(|part| part.first().is_some_and(&mut is_before));
        let Some(part) = behind.checked_sub(1) else { return 0 };
        let before: usize = self.parts[..part].iter().map(Vec::len).sum();
        before + self.parts[part].partition_point(is_before)
    }
    /// The same among the first `count` entries, where it is false of all others.
    pub fn partition_point_of(&self, count: usize, is_before: impl FnMut(&T) -> bool) -> usize {
        match self.parts.first() {
            Some(entries) if count <= entries.len() => {
                partition_point(&entries[..count], is_before)
            }
            _ => self.partition_point(is_before).min(count),
        }
    }
    /// Exchanges two entries.
    ///
    /// # Panics
    /// Where there are no such places.
    pub fn swap(&mut self, one: usize, other: usize) {
        let ((part, place), (another, there)) = (self.find(one), self.find(other));
        match self.parts.get_disjoint_mut([part, another]) {
            Ok([one, other]) => core::mem::swap(&mut one[place], &mut other[there]),
            Err(_) => self.parts[part].swap(place, there),
        }
    }
    /// Takes all entries out.
    pub fn clear(&mut self) {
        self.parts.truncate(1);
        self.parts.iter_mut().for_each(Vec::clear);
        (self.length, self.is_even) = (0, true);
    }
    /// Puts an entry behind all others.
    pub fn push(&mut self, entry: T) {
        self.length += 1;
        match self.parts.last_mut() {
            Some(part) if part.len() < PART => part.push(entry),
            Some(_) => {
                let mut part = Vec::with_capacity(PART + 1);
                part.push(entry);
                self.parts.push(part);
            }
            None => self.parts.push(alloc::vec![entry]),
        }
    }
    /// Puts an entry in, so that it stands at `place`.
    ///
    /// # Panics
    /// Where there are fewer than `place` entries.
    pub fn insert(&mut self, place: usize, entry: T) {
        if place == self.length {
            return self.push(entry);
        }
        let (part, place) = self.find(place);
        self.length += 1;
        self.is_even &= part + 1 == self.parts.len();
        let entries = &mut self.parts[part];
        entries.insert(place, entry);
        if entries.len() > PART {
            self.is_even = false;
            let rest = entries.split_off(PART / 2);
            self.parts.insert(part + 1, rest);
        }
    }
    /// Takes the entry at `place` out.
    ///
    /// # Panics
    /// Where there is none.
    pub fn remove(&mut self, place: usize) -> T {
        let (part, place) = self.find(place);
        self.remove_from(part, place)
    }
    /// Moves the entry at `from`, so that it stands at `to`.
    ///
    /// # Panics
    /// Where there are no such places.
    pub fn shift(&mut self, from: usize, to: usize) {
        let ((part, first), (other, last)) = (self.find(from), self.find(to));
        if part != other {
            let entry = self.remove_from(part, first);
            self.insert(to, entry);
        } else if from < to {
            rotate_left(&mut self.parts[part][first..=last]);
        } else {
            rotate_right(&mut self.parts[part][last..=first]);
        }
    }
    /// Takes out the entry of which `is_it` is true, if it is there: `is_behind` says of which
    /// entries it is true or which are behind that one. Like [`List::partition_point`] it searches
    /// by halves, and so needs a list in order, but only for the part; there it looks at all.
    pub fn take(
        &mut self,
        mut is_behind: impl FnMut(&T) -> bool,
        is_it: impl FnMut(&T) -> bool,
    ) -> Option<T> {
        let mut starts_behind = |part: &Vec<T>| part.first().is_some_and(&mut is_behind);
        let part = self.parts.partition_point(|part| !starts_behind(part)).checked_sub(1)?;
        let place = self.parts[part].iter().position(is_it)?;
        Some(self.remove_from(part, place))
    }
    fn remove_from(&mut self, part: usize, place: usize) -> T {
        self.length -= 1;
        self.is_even &= part + 1 == self.parts.len();
        let entry = self.parts[part].remove(place);
        let left = self.parts[part].len();
        if left == 0 && self.length > 0 {
            self.parts.remove(part);
        } else if self.parts.get(part + 1).is_some_and(|next| left + next.len() <= PART / 2) {
            // Else a list that only shrinks in its middle would become one of short parts.
            let mut next = self.parts.remove(part + 1);
            self.parts[part].append(&mut next);
        }
        entry
    }
    /// Takes out all entries but those of which `is_kept` is true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        self.parts.iter_mut().for_each(|part| part.retain(&mut is_kept));
        self.parts.retain(|part| !part.is_empty());
        self.is_even = self.parts.len() < 2;
        self.length = self.parts.iter().map(Vec::len).sum();
    }

    /// The part in which `place` is, and the place within.
    fn find(&self, place: usize) -> (usize, usize) {
        if self.is_even && place < self.length {
            return (place / PART, place % PART);
        }
        let mut rest = place;
        for (part, entries) in self.parts.iter().enumerate() {
            match rest.checked_sub(entries.len()) {
                Some(behind) => rest = behind,
                None => return (part, rest),
            }
        }
        panic!("place {place} of a list of {}", self.length);
    }
}

/// As [`slice::partition_point`]; so few are looked at one by one.
#[inline]
fn partition_point<T>(entries: &[T], mut is_before: impl FnMut(&T) -> bool) -> usize {
    if entries.len() <= FEW {
        entries.iter().position(|entry| !is_before(entry)).unwrap_or(entries.len())
    } else {
        entries.partition_point(is_before)
    }
}

/// The first entry goes behind the others.
#[inline]
fn rotate_left<T>(entries: &mut [T]) {
    if entries.len() <= FEW {
        (1..entries.len()).for_each(|place| entries.swap(place - 1, place));
    } else {
        entries.rotate_left(1);
    }
}

/// The last entry goes before the others.
#[inline]
fn rotate_right<T>(entries: &mut [T]) {
    if entries.len() <= FEW {
        (1..entries.len()).rev().for_each(|place| entries.swap(place - 1, place));
    } else {
        entries.rotate_right(1);
    }
}

impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> Self {
        Self { parts: self.parts.clone(), ..*self }
    }
    /// In the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        match (&mut self.parts[..], &other.parts[..]) {
            // Without a look for parts that come or go: most lists are short.
            ([entries], [others]) => entries.clone_from(others),
            _ => self.parts.clone_from(&other.parts),
        }
        (self.length, self.is_even) = (other.length, other.is_even);
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Index<usize> for List<T> {
    type Output = T;
    fn index(&self, place: usize) -> &T {
        let (part, place) = self.find(place);
        &self.parts[part][place]
    }
}

impl<T> IndexMut<usize> for List<T> {
    fn index_mut(&mut self, place: usize) -> &mut T {
        let (part, place) = self.find(place);
        &mut self.parts[part][place]
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = Entries<'a, T>;
    fn into_iter(self) -> Entries<'a, T> {
        self.iter()
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, entries: I) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        let mut list = Self::new();
        list.extend(entries);
        list
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(entries: Vec<T>) -> Self {
        entries.into_iter().collect()
    }
}

/// Whatever their parts.
impl<T: PartialEq> PartialEq for List<T> {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().eq(other)
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: PartialEq> PartialEq<[T]> for List<T> {
    fn eq(&self, other: &[T]) -> bool {
        self.length == other.len() && self.iter().eq(other)
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a `Vec`, while it grows to some thousands and shrinks to nothing.
    #[test]
    fn it_is_what_a_vec_is() {
        let (mut list, mut plain) = (List::new(), Vec::new());
        let mut number = 1_u32;
        for turn in 0..12_000_u32 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let grows = (number >> 8) % 5 < if turn < 6_000 { 4 } else { 1 };
            let place = (number >> 16) as usize % (plain.len() + usize::from(grows)).max(1);
            if grows {
                list.insert(place, turn);
                plain.insert(place, turn);
            } else if !plain.is_empty() {
                assert_eq!(list[place], plain[place]);
                assert_eq!(list.remove(place), plain.remove(place));
            }
            assert_eq!(list.len(), plain.len());
            if turn % 3 == 0 && !plain.is_empty() {
                let (from, to) = (place % plain.len(), (number >> 4) as usize % plain.len());
                list.shift(from, to);
                let entry = plain.remove(from);
                plain.insert(to, entry);
                assert_eq!(list[to], entry);
                list.swap(from, to);
                plain.swap(from, to);
            }
            assert!(list.parts.iter().all(|part| part.len() <= PART));
            assert!(list.is_empty() || list.parts.iter().all(|part| !part.is_empty()));
            if turn % 100 == 0 {
                assert!(list == plain[..], "turn {turn}");
                let short = list.parts.windows(2).filter(|p| p[0].len() + p[1].len() < PART / 2);
                assert!(short.count() <= 1 + list.parts.len() / 4, "{} parts", list.parts.len());
            }
        }
        plain.sort_unstable();
        let sorted: List<_> = plain.iter().copied().collect();
        for bound in [0, 1, 500, 3_000, 11_999, 12_000] {
            let place = plain.partition_point(|entry| *entry < bound);
            assert_eq!(sorted.partition_point(|entry| *entry < bound), place);
            for count in [0, 1, 64, 65, plain.len()].map(|count| count.min(plain.len())) {
                let among = sorted.partition_point_of(count, |entry| *entry < bound);
                assert_eq!(among, place.min(count));
            }
        }
        let mut sorted: List<u32> = sorted.into_iter().copied().collect();
        for number in (0..12_001).map(|turn| turn * 7 % 12_001) {
            let taken = sorted.take(|entry| *entry > number, |entry| *entry == number);
            assert_eq!(taken, plain.binary_search(&number).ok().map(|_| number));
        }
        assert!(sorted.is_empty());
        list.retain(|entry| entry % 3 == 0);
        let kept = list.iter().filter(|entry| *entry % 3 == 0).count();
        assert_eq!(list.len(), kept);
    }
}
