//! What colours the caches of this host have.

use super::sys::page_size;
use std::path::Path;
use std::{fmt, fs, io};

/// How a cache finds the set of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexing {
    /// By bits of the physical address as they are: colours are real.
    Plain,
    /// A hash of many address bits chooses among slices: within a slice the lowest bits choose the
    /// set, so there are at most so many colours, and fewer where slices are smaller.
    Hashed,
    /// Not known: the system does not say. Measure it (`maracas bench colors`).
    Unknown,
}

impl fmt::Display for Indexing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Hashed => "hashed",
            Self::Unknown => "unknown",
        })
    }
}

/// A cache and its colours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheColors {
    /// 1 for the one next to the core, 2, 3, ...
    pub level: u32,
    /// Bytes.
    pub size: usize,
    /// Lines of a set.
    pub ways: usize,
    /// Bytes of a line.
    pub line: usize,
    /// size / ways / page size: into so many parts can frames divide it. 1 = not at all.
    pub colors: usize,
    /// Whether they can be relied on.
    pub indexing: Indexing,
    /// The cores that share it, as the kernel lists them.
    pub cores: String,
}

/// The caches for data of a core, from the nearest to the farthest, as sysfs lists them.
///
/// In a virtual machine these are what the hypervisor reports, and frames are the guest's: their
/// colours are real ones as far as the host's own pages reach (up to 9 bits with 2 MiB pages).
///
/// # Errors
/// Where sysfs shows no caches.
pub fn caches(core: u32) -> io::Result<Vec<CacheColors>> {
    let directory = format!("/sys/devices/system/cpu/cpu{core}/cache");
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    of_directory(Path::new(&directory), Vendor::of(&cpuinfo))
}

/// The maker of the processor, as far as their caches are known to differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vendor {
    Intel,
    Amd,
    Other,
}

impl Vendor {
    fn of(cpuinfo: &str) -> Self {
        if cpuinfo.contains("GenuineIntel") {
            Self::Intel
        } else if cpuinfo.contains("AuthenticAMD") {
            Self::Amd
        } else {
            Self::Other
        }
    }
}

fn of_directory(directory: &Path, vendor: Vendor) -> io::Result<Vec<CacheColors>> {
    let entries = fs::read_dir(directory)?.flatten().map(|entry| entry.path());
    let caches = entries.filter(|path| path.join("level").exists());
    let mut caches: Vec<_> = caches.filter_map(|path| cache(&path, vendor)).collect();
    caches.sort_by_key(|cache| cache.level);
    Ok(caches)
}

/// One cache, unless it holds instructions alone or its geometry is not given.
fn cache(directory: &Path, vendor: Vendor) -> Option<CacheColors> {
    let text = |name: &str| Some(fs::read_to_string(directory.join(name)).ok()?.trim().to_string());
    let number = |name: &str| text(name)?.parse::<usize>().ok().filter(|number| *number > 0);
    if text("type")? == "Instruction" {
        return None;
    }
    let size = text("size")?.strip_suffix('K')?.parse::<usize>().ok()? * 1024;
    let (ways, line) = (number("ways_of_associativity")?, number("coherency_line_size")?);
    let level = number("level")? as u32;
    let sets = number("number_of_sets").unwrap_or(size / ways / line);
    let indexing = match (vendor, level) {
        // Intel's levels 1 and 2 are indexed plainly; level 3 has been in slices since Sandy Bridge
        // (2011), AMD's since Zen (2017). AMD's level 2 showed no conflict among frames that are
        // alike modulo its colours on one host (Zen 5; docs/colors.md), so it is not promised.
        (Vendor::Intel, 1 | 2) if sets.is_power_of_two() => Indexing::Plain,
        (Vendor::Intel | Vendor::Amd, 3..) => Indexing::Hashed,
        (Vendor::Intel | Vendor::Amd | Vendor::Other, _) => Indexing::Unknown,
    };
    let colors = (size / ways / page_size()).max(1);
    let cores = text("shared_cpu_list").unwrap_or_default();
    Some(CacheColors { level, size, ways, line, colors, indexing, cores })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> std::path::PathBuf {
        let own = format!("maracas-palette-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(own);
        for (file, text) in files {
            let path = directory.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        directory
    }

    #[test]
    fn colours_are_size_by_ways_by_page() {
        let directory = tree(
            "geometry",
            &[
                ("index2/level", "2"),
                ("index2/type", "Unified"),
                ("index2/size", "1024K"),
                ("index2/ways_of_associativity", "16"),
                ("index2/coherency_line_size", "64"),
                ("index2/number_of_sets", "1024"),
                ("index2/shared_cpu_list", "0"),
                ("index1/level", "1"),
                ("index1/type", "Instruction"),
                ("index3/level", "3"),
                ("index3/type", "Unified"),
                ("index3/size", "6144K"),
                ("index3/ways_of_associativity", "12"),
                ("index3/coherency_line_size", "64"),
                ("index3/number_of_sets", "8192"),
                ("index3/shared_cpu_list", "0-3"),
                ("index4/level", "4"),
                ("index4/type", "Unified"),
            ],
        );
        let found = of_directory(&directory, Vendor::Intel).unwrap();
        let page = page_size();
        let seen: Vec<_> = found.iter().map(|c| (c.level, c.colors * page, c.indexing)).collect();
        let expected =
            [(2, 1024 * 1024 / 16, Indexing::Plain), (3, 6144 * 1024 / 12, Indexing::Hashed)];
        assert_eq!(seen, expected);
        assert_eq!(found[1].cores, "0-3");
        let others = of_directory(&directory, Vendor::of("vendor_id : Another")).unwrap();
        assert!(others.iter().all(|cache| cache.indexing == Indexing::Unknown));
        let amd = of_directory(&directory, Vendor::of("vendor_id : AuthenticAMD")).unwrap();
        assert_eq!(amd[0].indexing, Indexing::Unknown);
        fs::remove_dir_all(&directory).unwrap();
        assert!(of_directory(&directory, Vendor::Other).is_err());
    }
}
