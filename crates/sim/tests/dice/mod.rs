//! Numbers drawn for the tests of the memory models, the same from the same seed.
#![allow(dead_code, reason = "every test binary uses its part")]

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Any 64 bits.
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// From 0 up to, but not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.unit() * end as f64) as usize
    }
}
