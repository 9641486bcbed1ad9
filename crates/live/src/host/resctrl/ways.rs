//! Parts of a cache by ways, one class a core.

use super::info::{Allocation, cache_id};
use super::schemata::{self, Entry};
use super::{Error, Resctrl};
use crate::host::HardwareCore;
use maracas_core::memory::CachePart;
use std::path::PathBuf;

/// The split of the last-level cache by ways, as long as it lives; of the L2 where only that can be
/// split.
///
/// What runs on cores without a part of their own, the kernel's work for others among it, keeps
/// all ways: only the cores of the run are kept apart from each other. Hits in foreign ways stay
/// possible; a mask says where a core's misses may put lines.
#[derive(Debug)]
pub struct Ways {
    resctrl: Resctrl,
    before: Vec<Before>,
    level: u32,
    cores: Vec<(HardwareCore, u64)>,
    shared_with_devices: Vec<HardwareCore>,
}

impl Ways {
    /// Gives each core its ways; `None` = all of them, and no class of its own. Nothing
    /// is changed where one of them is refused.
    ///
    /// # Errors
    /// A mask that the cache cannot give, with the numbers; too few classes; the kernel's refusal.
    pub fn split(
        resctrl: &Resctrl,
        cores: &[(HardwareCore, Option<CachePart>)],
    ) -> Result<Self, Error> {
        let info = resctrl.info().cache.as_ref();
        let info = info.ok_or(Error::Lacks("cache allocation (CAT)"))?.clone();
        let own = cores.iter().filter_map(|(core, part)| Some((*core, part.as_ref()?.get())));
        let mut parts: Vec<_> = own.collect();
        parts.sort_unstable();
        // All are looked at before one is changed.
        for (core, ways) in &parts {
            check(&info, *ways).map_err(|why| Error::Mask { core: *core, ways: *ways, why })?;
        }
        let mut before = Vec::new();
        for (core, ways) in &parts {
            if let Err(error) = give(resctrl, &info, *core, *ways, &mut before) {
                for before in before.iter().rev() {
                    before.undo(resctrl);
                }
                return Err(error);
            }
        }
        let shared = parts.iter().filter(|(_, ways)| ways & info.shareable != 0);
        Ok(Self {
            resctrl: resctrl.clone(),
            before,
            level: info.level,
            shared_with_devices: shared.map(|(core, _)| *core).collect(),
            cores: parts,
        })
    }

    /// Of which cache: 3, or 2.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// The cores with a part of their own, and their ways.
    pub fn cores(&self) -> &[(HardwareCore, u64)] {
        &self.cores
    }

    /// Cores some of whose ways devices use too (`shareable_bits`).
    pub fn shared_with_devices(&self) -> &[HardwareCore] {
        &self.shared_with_devices
    }
}

impl Drop for Ways {
    fn drop(&mut self) {
        // The classes stay with the run, whose bandwidth they may hold too.
        self.before.iter().rev().for_each(|before| before.restore(&self.resctrl));
    }
}

/// What a class was before.
#[derive(Debug)]
struct Before {
    core: HardwareCore,
    class: PathBuf,
    masks: Vec<Entry>,
    /// Whether it was not there.
    fresh: bool,
}

impl Before {
    /// Puts its masks back. Best effort: what is still wrong goes with the class.
    fn restore(&self, resctrl: &Resctrl) {
        let shared = &*resctrl.0;
        let _ = schemata::write(&*shared.hardware, &shared.info.root, &self.class, &self.masks);
    }

    /// As if it had never been split.
    fn undo(&self, resctrl: &Resctrl) {
        if self.fresh {
            // The error that led here is the one to report.
            let _ = resctrl.drop_class(self.core);
        } else {
            self.restore(resctrl);
        }
    }
}

fn give(
    resctrl: &Resctrl,
    info: &Allocation,
    core: HardwareCore,
    ways: u64,
    done: &mut Vec<Before>,
) -> Result<(), Error> {
    let (shared, resource) = (&*resctrl.0, info.resources()[0]);
    let domain = cache_id(&*shared.hardware, core, info.level);
    let domain = domain.ok_or(Error::NoDomain { core, resource })?;
    let fresh = resctrl.known_class(core).is_none();
    let class = resctrl.class(core)?;
    let hardware = &*shared.hardware;
    let mut masks = schemata::read(hardware, &class)?;
    masks.retain(|it| it.domain == domain && info.resources().contains(&it.resource.as_str()));
    done.push(Before { core, class: class.clone(), masks, fresh });
    let entry = |resource: &&str| Entry::new(resource, domain, ways);
    let entries: Vec<Entry> = info.resources().iter().map(entry).collect();
    schemata::write_checked(hardware, &shared.info.root, &class, &entries, 0)
}

/// Why a mask cannot be given, and what would do.
fn check(info: &Allocation, ways: u64) -> Result<(), String> {
    let (mask, level) = (info.mask, info.level);
    let count = mask.count_ones();
    if ways & !mask != 0 {
        return Err(format!("the L{level} has {count} ways, mask {mask:#x}"));
    }
    let bits = ways.count_ones();
    if bits < info.min_bits {
        let least = info.min_bits;
        return Err(format!("{bits} ways, but the L{level} gives no fewer than {least}"));
    }
    let (lowest, highest) = (ways.trailing_zeros(), 63 - ways.leading_zeros());
    if !info.sparse && highest - lowest + 1 != bits {
        let whole = (u64::MAX >> (64 - bits)) << lowest;
        return Err(format!("this processor wants ways side by side; take {whole:#x}"));
    }
    Ok(())
}
