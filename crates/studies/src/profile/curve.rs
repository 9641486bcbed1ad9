//! Points of the miss curve: the program again with ever fewer ways of the last-level cache
//! (resctrl, CAT).

use maracas_core::memory::CachePart;
use maracas_live::host::HardwareCore;
use maracas_live::host::hardware::ThisHardware;
use maracas_live::host::resctrl::{Allocation, Resctrl, Ways};
use std::sync::Arc;

/// The cache as it can be cut for one core.
pub(super) struct Knife {
    resctrl: Resctrl,
    core: HardwareCore,
    /// The parts that are tried, as masks of ways, smallest first.
    pub(super) parts: Vec<u64>,
    ways: u32,
}

impl Knife {
    /// Takes hold of the host's resource control.
    ///
    /// # Errors
    /// Why the last-level cache cannot be cut here, as half a sentence.
    pub(super) fn of(core: HardwareCore) -> Result<Self, String> {
        let resctrl = Resctrl::open(Arc::new(ThisHardware)).map_err(|error| error.to_string())?;
        let cache = resctrl.info().cache.as_ref().filter(|cache| cache.level == 3);
        let cache = cache.ok_or("the host cannot split its L3 by ways")?;
        let (parts, ways) = (parts(cache), cache.mask.count_ones());
        Ok(Self { resctrl, core, parts, ways })
    }

    /// Leaves the core `part` of the cache for as long as what is returned lives, and returns how
    /// many of `cache_bytes` that is.
    ///
    /// # Errors
    /// As the kernel says.
    pub(super) fn cut(&self, part: u64, cache_bytes: u64) -> Result<(Ways, u64), String> {
        let ways = Ways::split(&self.resctrl, &[(self.core, CachePart::new(part))]);
        let bytes = cache_bytes * u64::from(part.count_ones()) / u64::from(self.ways);
        Ok((ways.map_err(|error| error.to_string())?, bytes))
    }
}

/// The lowest ways of the cache, doubled from the fewest that a class may have, all but the whole.
fn parts(cache: &Allocation) -> Vec<u64> {
    let ways = cache.mask.count_ones();
    let counts = std::iter::successors(Some(cache.min_bits.max(1)), |count| Some(count * 2));
    let lowest = cache.mask.trailing_zeros();
    counts.take_while(|count| *count < ways).map(|count| ((1 << count) - 1) << lowest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_double_from_the_fewest_ways() {
        let cache = |mask, min_bits| Allocation {
            level: 3,
            code_and_data: false,
            mask,
            min_bits,
            shareable: 0,
            sparse: false,
            classes: 16,
        };
        assert_eq!(parts(&cache(0xfff, 1)), [0x1, 0x3, 0xf, 0xff]);
        assert_eq!(parts(&cache(0x7ff, 2)), [0x3, 0xf, 0xff]);
        assert_eq!(parts(&cache(0x3, 2)), [] as [u64; 0]);
    }
}
