//! Finds the library that programs can be started with.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The shared library, as it is called after an installation and directly in a build directory.
const NAME: &str = "libmaracas_client.so";
/// How cargo calls it among dependencies: with a hash in between.
const PREFIX: &str = "libmaracas_client-";

/// The shared library for `LD_PRELOAD`, by which a program that knows nothing of this crate follows
/// orders of colours: beside this executable, in `deps` below it (where `cargo build` and
/// `cargo run` leave it), or in `lib` beside its directory (`bin/maracas`,
/// `lib/libmaracas_client.so`) or in Debian's folder below that for libraries of this architecture
/// (`lib/x86_64-linux-gnu`). The newest one where there are several.
///
/// Static programs, and programs with more rights than their caller, cannot be started with it.
pub fn preload_path() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    let beside = executable.parent()?;
    newest(&directories(beside))
}

/// Where it may lie, seen from the executable's directory.
fn directories(beside: &Path) -> Vec<PathBuf> {
    let lib = beside.parent().map(|above| above.join("lib"));
    let debian = lib.as_ref().map(|lib| lib.join(format!("{}-linux-gnu", env::consts::ARCH)));
    let directories = [Some(beside.to_path_buf()), Some(beside.join("deps")), lib, debian];
    directories.into_iter().flatten().collect()
}

/// The newest library of ours in these directories: what an older build left beside this program
/// is not what this program was built with.
fn newest(directories: &[PathBuf]) -> Option<PathBuf> {
    let entries = directories.iter().filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    ours.map(|entry| entry.path()).max_by_key(age)
}

fn is_ours(name: &str) -> bool {
    let hash = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(".so"));
    name == NAME || hash.is_some_and(|hash| hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_known_by_its_name() {
        assert!(is_ours("libmaracas_client.so"));
        assert!(is_ours("libmaracas_client-0123456789abcdef.so"));
        assert!(!is_ours("libmaracas_client.a"));
        assert!(!is_ours("libmaracas_client-x.so"));
        assert!(!is_ours("libother.so"));
    }

    #[test]
    fn it_is_looked_for_where_the_debian_package_has_it() {
        let library = format!("/usr/lib/{}-linux-gnu", env::consts::ARCH);
        assert!(directories(Path::new("/usr/bin")).contains(&PathBuf::from(library)));
    }

    #[test]
    fn the_newest_one_is_taken() {
        let directory = env::temp_dir().join(format!("maracas-preload-{}", std::process::id()));
        let (deps, missing) = (directory.join("deps"), directory.join("lib"));
        fs::create_dir_all(&deps).unwrap();
        let directories = [directory.clone(), deps.clone(), missing];
        assert_eq!(newest(&directories), None);
        fs::write(directory.join("libmaracas_client-00.so"), "").unwrap();
        let old = fs::File::open(directory.join("libmaracas_client-00.so")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::write(deps.join(NAME), "").unwrap();
        assert_eq!(newest(&directories), Some(deps.join(NAME)));
        fs::remove_dir_all(&directory).unwrap();
    }
}
