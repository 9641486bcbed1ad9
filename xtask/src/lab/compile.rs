//! Kernels that no archive has as the lab needs them, compiled here: Debian's 6.12 is built without
//! sched_ext, so its source is taken with a configuration of the lab's own, `own.config`.
//!
//! It takes 20 minutes of one core and 3 GB below `target/lab/source` until it is done. What was
//! compiled so far is kept, so that a lab that was ended goes on where it was.

use super::fetch::{Kernel, Store, kept};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is compiled where its word is asked for. There is a package `linux-source-` of each.
pub(super) const WORDS: &[&str] = &["6.12"];
/// What is changed of the smallest configuration.
const CONFIG: &str = include_str!("own.config");
/// Debian's packages, and a program of each.
const TOOLS: [(&str, &str); 7] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("pahole", "pahole"),
    ("xz-utils", "xz"),
];
/// Of the package libelf-dev, by which objtool and resolve_btfids read object files.
const HEADER: &str = "/usr/include/libelf.h";

/// The image of a kernel in `WORDS`, compiled where it was not yet, or by another configuration.
///
/// # Errors
/// What is missing, in the words that follow `skipped: needs`.
pub(super) fn kernel(store: &mut Store, word: &str) -> Result<Kernel, String> {
    let folder = store.folder().join("kernels").join(word);
    let (image, config) = (folder.join("vmlinuz"), folder.join("config"));
    let is_made = fs::read_to_string(&config).is_ok_and(|text| text == CONFIG);
    if !is_made || !image.exists() {
        has_tools()?;
        let source = store.folder().join("source");
        let tree = source.join(format!("linux-source-{word}"));
        if !tree.join("Makefile").exists() {
            lay_out(store, word, &source)?;
        }
        eprintln!("lab: compiling kernel {word}, 20 minutes of one core");
        let log = folder.join("log");
        kept(fs::create_dir_all(&folder))?;
        let built = build(&tree, &log).map_err(|why| {
            format!("a kernel {word}, but compiling it failed: {why}; see {}", log.display())
        })?;
        let partial = folder.join("partial");
        kept(fs::copy(tree.join("arch/x86/boot/bzImage"), &partial))?;
        kept(fs::write(folder.join("package"), format!("linux-source-{word} {built}")))?;
        kept(fs::rename(partial, &image))?;
        kept(fs::write(config, CONFIG))?;
        let _ = fs::remove_dir_all(source);
        eprintln!("lab: kernel {word} is {built}");
    }
    Ok(Kernel { word: word.into(), image })
}

/// Whether what compiles a kernel is installed.
fn has_tools() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|at| at.join(name).exists());
    let tools = TOOLS.iter().filter(|(_, program)| !is_there(program)).map(|(package, _)| *package);
    let mut missing: Vec<_> = tools.collect();
    if !Path::new(HEADER).exists() {
        missing.push("libelf-dev");
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("packages {}", missing.join(", "))) }
}

/// Fetches the source and lays it out. It counts once it is whole.
fn lay_out(store: &mut Store, word: &str, source: &Path) -> Result<(), String> {
    let package = format!("linux-source-{word}");
    eprintln!("lab: fetching the source of kernel {word}, 150 MB");
    let _ = fs::remove_dir_all(source);
    let (fetched, partial) = (source.join("package"), source.join("partial"));
    store.unpack(&[&package], &fetched)?;
    kept(fs::create_dir_all(&partial))?;
    let archive = fetched.join("usr/src").join(format!("{package}.tar.xz"));
    let status = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&partial).status();
    if !status.map_err(|error| format!("tar: {error}"))?.success() {
        return Err(format!("tar to unpack {}", archive.display()));
    }
    kept(fs::rename(partial.join(&package), source.join(&package)))?;
    kept(fs::remove_dir_all(fetched))
}

/// Compiles the image by the lab's configuration, and says which version it is.
fn build(tree: &Path, log: &Path) -> Result<String, String> {
    let text = |error: std::io::Error| format!("{}: {error}", log.display());
    let log = File::create(log).map_err(text)?;
    let make = |words: &[&str]| {
        let mut command = Command::new("make");
        command.args(["--silent", "ARCH=x86_64"]).args(words).current_dir(tree);
        let (out, err) = (log.try_clone().map_err(text)?, log.try_clone().map_err(text)?);
        let status = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
        let status = status.map_err(|error| format!("make: {error}"))?;
        let failed = || format!("make {}", words.join(" "));
        status.success().then_some(()).ok_or_else(failed)
    };
    make(&["tinyconfig"])?;
    let config = tree.join(".config");
    // What stands last holds.
    let appended = OpenOptions::new().append(true).open(&config);
    appended.and_then(|mut file| file.write_all(CONFIG.as_bytes())).map_err(text)?;
    make(&["olddefconfig"])?;
    let taken = fs::read_to_string(&config).map_err(text)?;
    if let Some(line) = lost(CONFIG, &taken) {
        return Err(format!("its rules take `{line}` back"));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    make(&[&format!("-j{cores}"), "bzImage"])?;
    let release = fs::read_to_string(tree.join("include/config/kernel.release")).map_err(text)?;
    Ok(release.trim().into())
}

/// The first line of a configuration that is not in another one.
fn lost<'a>(asked: &'a str, taken: &str) -> Option<&'a str> {
    let is_setting = |line: &&str| {
        let word = line.trim_start_matches("# ");
        word.starts_with("CONFIG_") && (word.contains('=') || word.ends_with(" is not set"))
    };
    asked.lines().filter(is_setting).find(|line| !taken.lines().any(|it| it == *line))
}

#[cfg(test)]
mod tests {
    use super::{CONFIG, lost};

    #[test]
    fn a_setting_that_the_kernel_takes_back_is_named() {
        let asked = "# CONFIG_ words.\nCONFIG_A=y\n# CONFIG_B is not set\n";
        assert_eq!(lost(asked, "CONFIG_A=y\n# CONFIG_B is not set\n"), None);
        assert_eq!(lost(asked, "CONFIG_A=m\n# CONFIG_B is not set\n"), Some("CONFIG_A=y"));
        assert_eq!(lost(asked, "CONFIG_A=y\nCONFIG_B=y\n"), Some("# CONFIG_B is not set"));
    }

    #[test]
    fn the_lab_configures_what_a_run_by_the_scheduler_in_the_kernel_needs() {
        for name in ["SCHED_CLASS_EXT", "DEBUG_INFO_BTF", "FILE_LOCKING", "CPUSETS", "PERF_EVENTS"]
        {
            let line = format!("CONFIG_{name}=y");
            assert!(CONFIG.lines().any(|it| it == line), "{line}");
        }
    }
}
