//! What guests are made of, from Debian's archive: kernels, an emulator, a shell. All of it is kept
//! below `target/lab` and fetched once.
//!
//! apt runs with lists, caches and a state of its own there, so that nothing is installed on this
//! machine, its sources stay as they are, and no root is needed. apt checks the archive's
//! signatures.

use super::{compile, mirror};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The suites that packages are taken from: the kernels of Debian 12, the emulator of Debian 13
/// with a later one from its backports, and the kernels there.
const SUITES: [&str; 3] = ["bookworm", "trixie", "trixie-backports"];
/// Where kernels of Debian 12 are before its next point release.
const SECURITY: &str = "bookworm-security";
/// Debian 12's emulator (7.2) lets guest cores starve under `-icount` with more than one; that of
/// the backports of Debian 13 (11.1) does not.
const EMULATOR: (&str, &str) = ("qemu-system-x86", "trixie-backports");
/// A shell with its tools that needs no library.
const SHELL: &str = "busybox-static";

/// Where the lab keeps what it fetched.
pub(super) struct Store {
    root: PathBuf,
    /// Whether apt's lists were brought up to date by this run.
    is_fresh: bool,
}

/// A kernel to boot.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// What the user calls it, as `6.1-rt`.
    pub(super) word: String,
    /// Its image.
    pub(super) image: PathBuf,
}

impl Store {
    /// The store below a directory, which need not exist.
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root, is_fresh: false }
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.root
    }

    /// The image of a kernel by its word: one that is compiled here, or `VERSION-FLAVOUR`, where
    /// `cloud` need not be said. Where the archive does not have that version any more, the newest
    /// of the same or a later one.
    ///
    /// # Errors
    /// What is missing, in the words that follow `skipped: needs`.
    pub(super) fn kernel(&mut self, word: &str) -> Result<Kernel, String> {
        if compile::WORDS.contains(&word) {
            return compile::kernel(self, word);
        }
        let folder = self.root.join("kernels").join(word);
        let image = |name: &str| folder.join(name);
        let chosen = image("vmlinuz");
        if !chosen.exists() {
            let (version, flavour) = split(word)?;
            eprintln!("lab: fetching kernel {word}");
            let names = self.names("^linux-(binary|image)-[0-9]")?;
            let package = newest(&names, &version, flavour)
                .ok_or_else(|| format!("a kernel like {word}, which the archive does not have"))?;
            let tree = self.root.join("unpacked");
            let _ = fs::remove_dir_all(&tree);
            self.unpack(&[&package], &tree)?;
            let found = vmlinuz(&tree).ok_or_else(|| format!("an image, not in {package}"))?;
            let partial = image("partial");
            kept(fs::create_dir_all(&folder))?;
            kept(fs::copy(found, &partial))?;
            kept(fs::write(image("package"), &package))?;
            kept(fs::rename(partial, &chosen))?;
            let _ = fs::remove_dir_all(&tree);
            eprintln!("lab: kernel {word} is {package}");
        }
        Ok(Kernel { word: word.into(), image: chosen })
    }

    /// The directory in which the emulator and its libraries lie as in a root directory.
    ///
    /// # Errors
    /// What is missing, in the words that follow `skipped: needs`.
    pub(super) fn emulator(&mut self) -> Result<PathBuf, String> {
        let tree = self.root.join("emulator");
        if !tree.exists() {
            eprintln!("lab: fetching the emulator, about 90 packages");
            self.refresh()?;
            let (package, suite) = EMULATOR;
            let install = ["install", "--yes", "--no-install-recommends", "--download-only"];
            self.apt(&[&install[..], &["--target-release", suite, package]].concat())?;
            let archives = self.root.join("apt/cache/archives");
            let partial = self.root.join("emulator.partial");
            let _ = fs::remove_dir_all(&partial);
            extract(&archives, &partial)?;
            kept(fs::rename(partial, &tree))?;
            let _ = fs::remove_dir_all(archives);
        }
        Ok(tree)
    }

    /// The shell of guests.
    ///
    /// # Errors
    /// What is missing, in the words that follow `skipped: needs`.
    pub(super) fn shell(&mut self) -> Result<PathBuf, String> {
        let tree = self.root.join("shell");
        let shell = || ["bin/busybox", "usr/bin/busybox"].map(|path| tree.join(path));
        if !shell().iter().any(|path| path.exists()) {
            self.unpack(&[SHELL], &tree)?;
        }
        let found = shell().into_iter().find(|path| path.exists());
        found.ok_or_else(|| format!("a shell, not in package {SHELL}"))
    }

    /// The names of packages that match, by the archive's lists.
    fn names(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        self.refresh()?;
        let mut command = Command::new("apt-cache");
        command.args(self.options()).args(["search", "--names-only", pattern]);
        let output = command.output().map_err(|error| format!("apt-cache: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.split(' ').next()).map(Into::into).collect())
    }

    /// Fetches packages and lays out what is in them.
    pub(super) fn unpack(&mut self, packages: &[&str], tree: &Path) -> Result<(), String> {
        self.refresh()?;
        let folder = self.root.join("download");
        let _ = fs::remove_dir_all(&folder);
        kept(fs::create_dir_all(&folder))?;
        self.apt(&[&["download"], packages].concat())?;
        extract(&folder, tree)?;
        kept(fs::remove_dir_all(folder))
    }

    /// Brings apt's lists up to date, once a run.
    fn refresh(&mut self) -> Result<(), String> {
        if self.is_fresh {
            return Ok(());
        }
        if !Path::new(mirror::KEYRING).exists() {
            return Err(format!("package debian-archive-keyring ({})", mirror::KEYRING));
        }
        let found = mirror::of_this_machine();
        let mirrors = found.map_err(|why| format!("Debian's archive: {why}"))?;
        let apt = self.root.join("apt");
        for folder in ["lists/partial", "cache/archives/partial"] {
            kept(fs::create_dir_all(apt.join(folder)))?;
        }
        let mut sources = SUITES.map(|suite| (&mirrors.main, suite)).to_vec();
        sources.extend(mirrors.security.as_ref().map(|mirror| (mirror, SECURITY)));
        let lines = sources.iter().map(|(mirror, suite)| {
            format!("deb [arch=amd64 signed-by={}] {mirror} {suite} main\n", mirror::KEYRING)
        });
        kept(fs::write(apt.join("sources.list"), lines.collect::<String>()))?;
        kept(fs::write(apt.join("status"), ""))?;
        eprintln!("lab: reading the archive's lists");
        self.apt(&["update"])?;
        self.is_fresh = true;
        Ok(())
    }

    /// The options by which apt leaves this machine's own state alone.
    fn options(&self) -> Vec<String> {
        let at = |path: &str| self.root.join("apt").join(path).display().to_string();
        let options = [
            ("Dir::Etc::SourceList", at("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::Etc::Preferences", "/dev/null".into()),
            ("Dir::Etc::PreferencesParts", "/dev/null".into()),
            ("Dir::State", at("")),
            ("Dir::State::Lists", at("lists")),
            ("Dir::State::Status", at("status")),
            ("Dir::Cache", at("cache")),
            ("Acquire::Languages", "none".into()),
            ("Acquire::Retries", "2".into()),
            ("APT::Architecture", "amd64".into()),
            ("APT::Sandbox::User", "root".into()),
            ("Debug::NoLocking", "true".into()),
        ];
        options.iter().flat_map(|(key, value)| ["-o".into(), format!("{key}={value}")]).collect()
    }

    fn apt(&self, words: &[&str]) -> Result<(), String> {
        let folder = self.root.join("download");
        kept(fs::create_dir_all(&folder))?;
        let mut command = Command::new("apt-get");
        command.args(self.options()).arg("--quiet=2").args(words).current_dir(folder);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("apt-get: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let why = said.lines().find(|line| line.starts_with("E:")).unwrap_or("it says nothing");
        Err(format!("packages, but apt-get {} failed: {why}", words.join(" ")))
    }
}

/// The parts of a kernel's word.
fn split(word: &str) -> Result<(Vec<u64>, &str), String> {
    let (version, flavour) = word.split_once('-').unwrap_or((word, "cloud"));
    let numbers: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    match (numbers, flavour) {
        (Some(numbers), "cloud" | "rt") if numbers.len() == 2 => Ok((numbers, flavour)),
        _ => Err(format!("a kernel's word such as 6.1-cloud, 6.1-rt or 7.3; not `{word}`")),
    }
}

/// The numbers in a package's name, by which versions are ordered.
fn numbers(name: &str) -> Vec<u64> {
    let name = name.split('+').next().unwrap_or(name);
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

/// The package with the newest kernel of a version; if there is none, of the next later one.
/// Where the image is a package of its own, `linux-binary`, `linux-image` only needs it.
fn newest(names: &[String], version: &[u64], flavour: &str) -> Option<String> {
    let ending = format!("-{flavour}-amd64");
    let mut found: Vec<(Vec<u64>, bool, &String)> = names
        .iter()
        .filter(|name| name.ends_with(&ending))
        .map(|name| {
            let stem = name.trim_end_matches(&ending);
            (numbers(stem), name.starts_with("linux-binary-"), name)
        })
        .filter(|(numbers, ..)| numbers.len() > 2 && numbers[..2] >= *version)
        .collect();
    found.sort();
    let (first, ..) = found.first()?;
    let first = first[..2].to_vec();
    found.into_iter().rfind(|(numbers, ..)| numbers[..2] == first).map(|(.., name)| name.clone())
}

/// The image in an unpacked package: below `boot`, or since Debian 13's later kernels beside
/// the modules.
fn vmlinuz(tree: &Path) -> Option<PathBuf> {
    let mut folders = vec![tree.join("boot")];
    if let Ok(entries) = fs::read_dir(tree.join("usr/lib/modules")) {
        folders.extend(entries.flatten().map(|entry| entry.path()));
    }
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut images = files.filter(|file| file.file_name().to_string_lossy().starts_with("vmlinuz"));
    images.next().map(|file| file.path())
}

/// Lays out what is in all packages of a folder.
fn extract(folder: &Path, tree: &Path) -> Result<(), String> {
    kept(fs::create_dir_all(tree))?;
    for package in kept(fs::read_dir(folder))?.flatten().map(|entry| entry.path()) {
        if package.extension().is_some_and(|extension| extension == "deb") {
            let status = Command::new("dpkg-deb").arg("--extract").args([&package, tree]).status();
            if !status.map_err(|error| format!("dpkg-deb: {error}"))?.success() {
                return Err(format!("dpkg-deb to unpack {}", package.display()));
            }
        }
    }
    Ok(())
}

/// What the store's own files may answer.
pub(super) fn kept<T>(done: std::io::Result<T>) -> Result<T, String> {
    done.map_err(|error| format!("room below target/lab: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{newest, split};

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_newest_kernel_of_a_version_and_flavour_is_taken() {
        let names = names(&[
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-57-cloud-amd64-unsigned",
            "linux-binary-7.3.4+deb13-cloud-amd64",
            "linux-image-7.3.4+deb13-cloud-amd64",
            "linux-binary-7.3.10+deb13-cloud-amd64",
            "linux-image-7.3.10+deb13-cloud-amd64",
        ]);
        let of = |word| {
            let (version, flavour) = split(word).unwrap();
            newest(&names, &version, flavour)
        };
        assert_eq!(of("6.1-cloud").unwrap(), "linux-image-6.1.0-56-cloud-amd64");
        assert_eq!(of("6.1-rt").unwrap(), "linux-image-6.1.0-56-rt-amd64");
        assert_eq!(of("7.3").unwrap(), "linux-binary-7.3.10+deb13-cloud-amd64");
        assert_eq!(of("7.1").unwrap(), "linux-binary-7.3.10+deb13-cloud-amd64");
        assert_eq!(of("7.3-rt"), None);
        assert_eq!(of("8.0"), None);
    }

    #[test]
    fn words_of_kernels_that_are_none_are_refused() {
        for word in ["", "6", "6.1-", "6.1-generic", "6.1.2", "x.y", "../6.1"] {
            assert!(split(word).is_err(), "{word}");
        }
    }
}
