//! What the host's resource control can do: the files below `info`.

use super::{Error, mount};
use crate::host::hardware::Hardware;
use crate::host::{HardwareCore, Identity, naming};
use std::io;
use std::path::{Path, PathBuf};

/// What is there, as the kernel says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// Where the file system is mounted.
    pub root: PathBuf,
    /// The run of ours that mounted it; `None` = another program did.
    pub mounted_by: Option<Identity>,
    /// Parts of a cache by ways: of the L3, or of the L2 where only that has them.
    pub cache: Option<Allocation>,
    /// Bandwidth that can be lowered.
    pub bandwidth: Option<Bandwidth>,
    /// Bytes that are counted.
    pub monitoring: Option<Monitoring>,
}

/// Cache allocation (CAT).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Of which level: 3, or 2.
    pub level: u32,
    /// Code and data have masks of their own (CDP); both get the same.
    pub code_and_data: bool,
    /// Every way that there is, one bit each.
    pub mask: u64,
    /// The fewest ways that a class may have.
    pub min_bits: u32,
    /// Ways that devices use too.
    pub shareable: u64,
    /// Whether a class' ways may have gaps.
    pub sparse: bool,
    /// Classes in all, the default one included (`num_closids`).
    pub classes: u32,
}

impl Allocation {
    /// The resources in `schemata` that hold its masks.
    pub fn resources(&self) -> &'static [&'static str] {
        match (self.level, self.code_and_data) {
            (2, false) => &["L2"],
            (2, true) => &["L2CODE", "L2DATA"],
            (_, false) => &["L3"],
            (_, true) => &["L3CODE", "L3DATA"],
        }
    }
}

/// In what bandwidth is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Of what the core could use: Intel, Arm.
    Percent,
    /// An eighth of a GB/s: AMD.
    EighthOfGigabyte,
    /// MB/s, held by a controller in the kernel (mount option `mba_MBps`) that looks once a second.
    Megabyte,
}

/// Bandwidth allocation (MBA).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bandwidth {
    /// Classes in all, the default one included (`num_closids`).
    pub classes: u32,
    /// The least that may be given.
    pub min: u32,
    /// The steps to which what is given is rounded up.
    pub step: u32,
    /// In what it is said.
    pub unit: Unit,
}

/// Monitoring by groups (MBM, CMT).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Monitoring {
    /// Groups that can be counted at a time (`num_rmids`).
    pub groups: u32,
    /// Bytes from anywhere.
    pub total_bytes: bool,
    /// Bytes from the memory of the same node.
    pub local_bytes: bool,
    /// Bytes of the cache that a group holds.
    pub occupancy: bool,
}

impl Info {
    /// Looks, and changes nothing. `None` where it could be mounted and is not.
    ///
    /// # Errors
    /// [`Error::Absent`] where the kernel offers none; else files that cannot be read.
    pub fn read(hardware: &dyn Hardware) -> Result<Option<Self>, Error> {
        let Some(mounted) = mount::mounted(hardware) else {
            return if is_offered(hardware) { Ok(None) } else { Err(absent(hardware)) };
        };
        let dir = Dir { hardware, path: mounted.root.join("info") };
        Ok(Some(Self {
            cache: dir.allocation()?,
            bandwidth: dir.bandwidth(mounted.in_megabytes)?,
            monitoring: dir.monitoring()?,
            root: mounted.root,
            mounted_by: mounted.by,
        }))
    }
}

/// The directory `info`.
struct Dir<'a> {
    hardware: &'a dyn Hardware,
    path: PathBuf,
}

impl Dir<'_> {
    fn allocation(&self) -> Result<Option<Allocation>, Error> {
        let kinds = [("L3", 3, false), ("L3CODE", 3, true), ("L2", 2, false), ("L2CODE", 2, true)];
        let has = |name: &str| self.text(&format!("{name}/cbm_mask")).is_ok();
        let Some((name, level, code_and_data)) = kinds.into_iter().find(|kind| has(kind.0)) else {
            return Ok(None);
        };
        // Kernels before 6.7 do not say; Intel's masks then had to be whole, AMD's never had to.
        let sparse = self.number(&format!("{name}/sparse_masks"), 10);
        Ok(Some(Allocation {
            level,
            code_and_data,
            mask: self.number(&format!("{name}/cbm_mask"), 16)?,
            min_bits: self.number(&format!("{name}/min_cbm_bits"), 10)? as u32,
            shareable: self.number(&format!("{name}/shareable_bits"), 16).unwrap_or(0),
            sparse: sparse.map_or_else(|_| is_amd(self.hardware), |sparse| sparse != 0),
            classes: self.number(&format!("{name}/num_closids"), 10)? as u32,
        }))
    }

    fn bandwidth(&self, in_megabytes: bool) -> Result<Option<Bandwidth>, Error> {
        if self.text("MB/num_closids").is_err() {
            return Ok(None);
        }
        let unit = match (in_megabytes, is_amd(self.hardware)) {
            (true, _) => Unit::Megabyte,
            (false, true) => Unit::EighthOfGigabyte,
            (false, false) => Unit::Percent,
        };
        Ok(Some(Bandwidth {
            classes: self.number("MB/num_closids", 10)? as u32,
            min: self.number("MB/min_bandwidth", 10)? as u32,
            step: (self.number("MB/bandwidth_gran", 10)? as u32).max(1),
            unit,
        }))
    }

    fn monitoring(&self) -> Result<Option<Monitoring>, Error> {
        let Ok(features) = self.text("L3_MON/mon_features") else { return Ok(None) };
        let has = |name: &str| features.lines().any(|feature| feature.trim() == name);
        Ok(Some(Monitoring {
            groups: self.number("L3_MON/num_rmids", 10)? as u32,
            total_bytes: has("mbm_total_bytes"),
            local_bytes: has("mbm_local_bytes"),
            occupancy: has("llc_occupancy"),
        }))
    }

    fn text(&self, name: &str) -> io::Result<String> {
        let path = self.path.join(name);
        self.hardware.read(&path).map_err(naming(path.display()))
    }

    fn number(&self, name: &str, radix: u32) -> io::Result<u64> {
        let text = self.text(name)?;
        u64::from_str_radix(text.trim(), radix)
            .map_err(|_| crate::host::bad_data(self.path.join(name).display()))
    }
}

/// The kernel registers the file system only where the processor has something for it.
fn is_offered(hardware: &dyn Hardware) -> bool {
    let kinds = hardware.read(Path::new("/proc/filesystems")).unwrap_or_default();
    kinds.lines().any(|line| line.split_whitespace().last() == Some("resctrl"))
}

fn absent(hardware: &dyn Hardware) -> Error {
    // As arch/x86/kernel/cpu names them in /proc/cpuinfo; a kernel without the file system shows
    // them all the same.
    const FEATURES: [&str; 5] = ["cat_l3", "cat_l2", "mba", "cqm_mbm_total", "cqm_mbm_local"];
    let info = hardware.read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has: Vec<&str> = FEATURES
        .into_iter()
        .filter(|name| flags.split_whitespace().any(|it| it == *name))
        .collect();
    Error::Absent(match has.as_slice() {
        [] => "this kernel offers no resctrl on this processor".to_owned(),
        has => format!("the processor has {}, this kernel no resctrl", has.join(", ")),
    })
}

fn is_amd(hardware: &dyn Hardware) -> bool {
    let info = hardware.read(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let vendor = info.lines().find_map(|line| line.strip_prefix("vendor_id"));
    vendor.is_some_and(|vendor| vendor.contains("AMD") || vendor.contains("Hygon"))
}

/// The number of the cache of this level that a core uses: the domain's number in `schemata` and
/// `mon_data`.
pub(super) fn cache_id(hardware: &dyn Hardware, core: HardwareCore, level: u32) -> Option<u32> {
    let caches = PathBuf::from(format!("/sys/devices/system/cpu/cpu{core}/cache"));
    let number = |index: &str, file: &str| -> Option<u32> {
        hardware.read(&caches.join(index).join(file)).ok()?.trim().parse().ok()
    };
    let indices = hardware.list(&caches).ok()?;
    let of_level = |index: &&String| number(index, "level") == Some(level);
    indices.iter().filter(of_level).find_map(|index| number(index, "id"))
}
