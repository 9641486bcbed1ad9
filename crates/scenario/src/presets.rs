//! Platforms and programs that scenarios may name: data files in the same words as users' own
//! tables, read by the same reader. Each file says where its values come from.

use crate::read;
use crate::scenario::Platform;
use maracas_core::Pace;
use maracas_core::memory::Profile;

/// A data file: its name and its text.
pub(crate) type File = (&'static str, &'static str);

macro_rules! embedded {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../data/", $folder, "/", $name, ".toml")))),*]
    };
}

pub(crate) static PLATFORMS: &[File] = embedded!("platforms":
    "core2-ddr2-800" "ddr3-1333" "ddr4-2400" "exynos4412" "i5-2500k" "p4080"
    "odroid-xu3-lite" "phenom-ii-x6" "within-die-8"
);

pub(crate) static PACES: &[File] = embedded!("paces":
    "alu" "stream"
    "astar" "bwaves" "bzip2" "gcc" "gemsfdtd" "gobmk" "h264ref" "lbm" "leslie3d" "libquantum"
    "mcf" "milc" "namd" "omnetpp" "povray" "soplex" "sphinx3" "xalancbmk" "zeusmp"
);

pub(crate) static WORKLOADS: &[File] = embedded!("workloads":
    "adpcm" "canny" "compress" "fir" "hog" "m_jump" "matmult" "mwalk"
    "astar" "bwaves" "bzip2" "gcc" "gemsfdtd" "gobmk" "h264ref" "lbm" "leslie3d" "libquantum"
    "mcf" "milc" "namd" "omnetpp" "povray" "soplex" "sphinx3" "xalancbmk" "zeusmp"
);

/// The names that `preset` of `[platform]` takes.
pub fn platforms() -> impl Iterator<Item = &'static str> {
    PLATFORMS.iter().map(|(name, _)| *name)
}

/// The names that `memory` of a program takes.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}

/// The names that `pace` of a program takes.
pub fn paces() -> impl Iterator<Item = &'static str> {
    PACES.iter().map(|(name, _)| *name)
}

/// The platform of this name.
pub fn platform(name: &str) -> Option<Platform> {
    let file = PLATFORMS.iter().find(|(known, _)| *known == name)?;
    read::platform::preset(file).ok()
}

/// The memory use of the program of this name.
pub fn workload(name: &str) -> Option<Profile> {
    let file = WORKLOADS.iter().find(|(known, _)| *known == name)?;
    read::memory::model(file).ok()
}

/// The pace of the program of this name on the platform of that name.
pub fn pace(name: &str, platform: &str) -> Option<Pace> {
    let file = PACES.iter().find(|(known, _)| *known == name)?;
    let known = read::pace::paces(file).ok()?;
    known.into_iter().find(|(other, _)| other.preset == Some(platform)).map(|(_, pace)| pace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn names_in(folder: &str) -> BTreeSet<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(folder);
        let files = std::fs::read_dir(path).expect("the data files stand in the crate");
        files
            .map(|file| file.expect("the folder can be listed").file_name())
            .filter_map(|name| name.to_string_lossy().strip_suffix(".toml").map(str::to_owned))
            .collect()
    }

    #[test]
    fn every_data_file_is_embedded_and_read() {
        let embedded = |files: &[File]| files.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names_in("platforms"), embedded(PLATFORMS));
        assert_eq!(names_in("workloads"), embedded(WORKLOADS));
        assert_eq!(names_in("paces"), embedded(PACES));
        for file in PLATFORMS {
            let platform = read::platform::preset(file).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(platform.preset, Some(file.0));
            assert_ne!(platform.memory.is_none(), platform.classes.is_empty(), "{}", file.0);
            assert!(file.1.starts_with('#'), "{} says not where it comes from", file.0);
        }
        for file in WORKLOADS {
            let profile = read::memory::model(file).unwrap_or_else(|why| panic!("{why}"));
            assert!(!profile.phases.is_empty(), "{}", file.0);
            assert!(file.1.starts_with('#'), "{} says not where it comes from", file.0);
        }
        for file in PACES {
            let known = read::pace::paces(file).unwrap_or_else(|why| panic!("{why}"));
            let names: BTreeSet<_> = known.iter().map(|(platform, _)| platform.preset).collect();
            assert!(!known.is_empty() && names.len() == known.len(), "{}", file.0);
            for (platform, found) in &known {
                assert_eq!(pace(file.0, platform.preset.expect("a name")).as_ref(), Some(found));
            }
            assert!(file.1.starts_with('#'), "{} says not where it comes from", file.0);
        }
        assert!(pace("no-such", "phenom-ii-x6").is_none() && pace("alu", "p4080").is_none());
        assert!(platform("no-such").is_none() && workload("no-such").is_none());
    }
}
