//! How much of a cache each VCPU holds, estimated from its misses alone.
//!
//! R. West, P. Zaroo, C. A. Waldspurger, X. Zhang, "Online Cache Modeling for Commodity Multicore
//! Processors", 2010, as Quest does it: of C lines, whatever misses gets one that is any of them,
//!
//! ```text
//! E += (1 - E/C) m_self - (E/C) m_others
//! ```
//!
//! which is here applied to one miss at a time: m misses multiply what others hold, and what the
//! VCPU lacks, by (1 - 1/C)^m, so that a long segment cannot overshoot.
//!
//! # What it does not know
//! * Whose lines are there at first: lines of no VCPU count as taken, so an empty cache fills more
//!   quickly than estimated.
//! * That segments were at once: they count one after the other, as told. It errs by what one
//!   segment brings, so among cores that share a part segments should be short (a part of one core
//!   has none).
//! * That a VCPU whose working set conflicts with itself misses without taking from others.
//! * That a cache may keep the lines used lately.

use alloc::vec::Vec;
use maracas_core::VcpuId;

/// Binary digits of a line.
const LINE_BITS: u32 = 32;
/// Binary digits of a share; one is 2^63.
const SHARE_BITS: u32 = 63;

/// The estimate for one cache, or for one part that no other part overlaps.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    /// C, in 2^-32 lines.
    size: u64,
    /// 1 - 1/C: what stays of a VCPU's lines when another misses once.
    stays: u64,
    /// E, in 2^-32 lines, by VCPU. The sum never exceeds `size`.
    held: Vec<(VcpuId, u64)>,
}

impl Estimate {
    /// For a cache of so many lines, below 2^32, of which no VCPU is known to hold any.
    pub(crate) fn new(lines: u64) -> Self {
        let lines = lines.min(u64::from(u32::MAX));
        // A cache of no lines is one that keeps nothing.
        let goes = (1_u64 << SHARE_BITS).div_ceil(lines.max(1));
        let stays = (1 << SHARE_BITS) - goes;
        Self { size: lines << LINE_BITS, stays, held: Vec::new() }
    }

    /// `vcpu` ran, with so many misses.
    pub(crate) fn ran(&mut self, vcpu: VcpuId, misses: u64) {
        let stays = power(self.stays, misses);
        let place = self.held.binary_search_by_key(&vcpu, |held| held.0);
        let own = place.unwrap_or_else(|place| {
            self.held.insert(place, (vcpu, 0));
            place
        });
        for (at, (_, held)) in self.held.iter_mut().enumerate() {
            if at == own {
                *held = self.size - product(self.size - *held, stays).1;
            } else {
                *held = product(*held, stays).0;
            }
        }
    }

    /// Lines that `vcpu` holds, rounded down.
    pub(crate) fn lines(&self, vcpu: VcpuId) -> u64 {
        let place = self.held.binary_search_by_key(&vcpu, |held| held.0);
        place.map_or(0, |place| self.held[place].1 >> LINE_BITS)
    }

    /// `vcpu` is gone, or its pages are elsewhere. Its lines are no VCPU's.
    pub(crate) fn leave(&mut self, vcpu: VcpuId) {
        self.held.retain(|held| held.0 != vcpu);
    }
}

/// `lines * share`, rounded down and up. Whatever the share, what one takes is no more than what
/// the others lose and what was no VCPU's.
const fn product(lines: u64, share: u64) -> (u64, u64) {
    let exact = lines as u128 * share as u128;
    ((exact >> SHARE_BITS) as u64, exact.div_ceil(1 << SHARE_BITS) as u64)
}

/// `share` to the power of `exponent`, rounded down at each of at most 128 products.
const fn power(share: u64, exponent: u64) -> u64 {
    let (mut result, mut square, mut left) = (1_u64 << SHARE_BITS, share, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = product(result, square).0;
        }
        square = product(square, square).0;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VcpuId = VcpuId(3);
    const B: VcpuId = VcpuId(1);

    fn exact(estimate: &Estimate, vcpu: VcpuId) -> u64 {
        estimate.held.iter().find(|held| held.0 == vcpu).map_or(0, |held| held.1)
    }

    #[test]
    fn small_vectors_are_exact() {
        // Two lines: every share is a power of a half.
        let mut estimate = Estimate::new(2);
        let line = 1 << LINE_BITS;
        estimate.ran(A, 1);
        assert_eq!((exact(&estimate, A), exact(&estimate, B)), (line, 0));
        estimate.ran(B, 1);
        assert_eq!((exact(&estimate, A), exact(&estimate, B)), (line / 2, line));
        estimate.ran(A, 2);
        assert_eq!((exact(&estimate, A), exact(&estimate, B)), (line * 13 / 8, line / 4));
        assert_eq!((estimate.lines(A), estimate.lines(B)), (1, 0));
        estimate.ran(B, 0);
        assert_eq!((exact(&estimate, A), exact(&estimate, B)), (line * 13 / 8, line / 4));
        estimate.leave(A);
        assert_eq!((estimate.lines(A), exact(&estimate, B)), (0, line / 4));
    }

    #[test]
    fn a_long_segment_is_many_short_ones() {
        let (mut long, mut short) = (Estimate::new(98_304), Estimate::new(98_304));
        for (vcpu, misses) in [(A, 60_000), (B, 200_000), (A, 5_000)] {
            long.ran(vcpu, misses);
            (0..misses / 10).for_each(|_| short.ran(vcpu, 10));
        }
        for vcpu in [A, B] {
            let difference = exact(&long, vcpu).abs_diff(exact(&short, vcpu));
            assert!(difference < 1 << (LINE_BITS - 12), "{difference} of 2^-32 lines");
        }
        // C (1 - e^-1) within the difference of (1 - 1/C)^C from e^-1.
        let mut filled = Estimate::new(98_304);
        filled.ran(A, 98_304);
        assert_eq!(filled.lines(A), 62_140);
    }

    #[test]
    fn they_never_hold_more_than_there_is() {
        let mut state = 1_u64;
        for lines in [0, 1, 3, 1000, 98_304, u64::from(u32::MAX)] {
            let mut estimate = Estimate::new(lines);
            for _ in 0..2000 {
                // Knuth's linear congruential generator (MMIX).
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let vcpu = VcpuId((state >> 60) as u32);
                let misses = ((state >> 20) & 0xffff_ffff) >> ((state >> 52) & 31);
                if (state >> 40).trailing_zeros() >= 6 {
                    estimate.leave(vcpu)
                } else {
                    estimate.ran(vcpu, misses)
                }
                let all: u64 = estimate.held.iter().map(|held| held.1).sum();
                assert!(all <= estimate.size, "{all} of {}", estimate.size);
            }
        }
        let mut estimate = Estimate::new(98_304);
        estimate.ran(A, u64::MAX);
        assert_eq!(estimate.lines(A), 98_304);
    }
}
