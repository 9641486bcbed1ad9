//! A guest's file system: an archive of format newc, as the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst` describes it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// File types and rights of an entry (inode(7)).
const DIRECTORY: u32 = 0o040_755;
const SYMLINK: u32 = 0o120_777;
const REGULAR: u32 = 0o100_000;

/// What stands at a path.
enum Entry {
    Directory,
    Symlink(String),
    /// Contents and rights.
    Text(String, u32),
    /// A file of this machine.
    File(PathBuf),
}

/// What a guest finds in its file system, by path.
#[derive(Default)]
pub(super) struct Image {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Image {
    /// An empty directory, with those above it.
    pub(super) fn directory(&mut self, path: &Path) {
        for above in path.ancestors().filter(|above| above.parent().is_some()) {
            self.entries.entry(above.into()).or_insert(Entry::Directory);
        }
    }
    fn put(&mut self, path: &Path, entry: Entry) {
        if let Some(above) = path.parent() {
            self.directory(above);
        }
        self.entries.insert(path.into(), entry);
    }
    /// A symbolic link.
    pub(super) fn symlink(&mut self, path: &Path, to: &str) {
        self.put(path, Entry::Symlink(to.into()));
    }
    /// A file with this text.
    pub(super) fn text(&mut self, path: &str, text: &str, mode: u32) {
        self.put(Path::new(path), Entry::Text(text.into(), mode));
    }
    /// A file of this machine, elsewhere.
    pub(super) fn file(&mut self, path: &Path, from: &Path) {
        self.put(path, Entry::File(from.into()));
    }
    /// Files of this machine below a directory, at the same paths.
    ///
    /// # Errors
    /// Where a directory cannot be read.
    pub(super) fn below(&mut self, folder: &Path) -> io::Result<()> {
        self.directory(folder);
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.below(&path)?;
            } else {
                self.file(&path, &path);
            }
        }
        Ok(())
    }
    /// A program of this machine with the libraries that it links, each at its own path.
    ///
    /// # Errors
    /// Where `ldd` cannot be run.
    pub(super) fn program(&mut self, path: &Path, from: &Path) -> Result<(), String> {
        self.file(path, from);
        let output = Command::new("ldd").arg(from).output();
        let output = output.map_err(|error| format!("ldd does not start: {error}"))?;
        for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
            self.file(Path::new(library), &fs::canonicalize(library).unwrap_or(library.into()));
        }
        Ok(())
    }

    /// Writes the archive. Not packed: a guest takes longer to unpack it than to read it.
    ///
    /// # Errors
    /// Where a file cannot be read or the archive cannot be written.
    pub(super) fn write(&self, to: &Path) -> Result<(), String> {
        let written = File::create(to).and_then(|file| self.entries_to(BufWriter::new(file)));
        written.map_err(|error| format!("{}: {error}", to.display()))
    }

    fn entries_to(&self, mut out: impl Write) -> io::Result<()> {
        for (number, (path, entry)) in (1..).zip(&self.entries) {
            let (mode, data) = match entry {
                Entry::Directory => (DIRECTORY, Vec::new()),
                Entry::Symlink(to) => (SYMLINK, to.clone().into_bytes()),
                Entry::Text(text, mode) => (REGULAR | mode, text.clone().into_bytes()),
                Entry::File(from) => {
                    let rights = fs::metadata(from)?.permissions().mode() & 0o777;
                    (REGULAR | rights, fs::read(from)?)
                }
            };
            let name = path.to_string_lossy();
            record(&mut out, number, mode, name.trim_start_matches('/'), &data)?;
        }
        record(&mut out, 0, 0, "TRAILER!!!", &[])?;
        out.flush()
    }
}

/// One entry: a header of hexadecimal fields, the name, the data, each filled up to 4 bytes.
fn record(out: &mut impl Write, inode: u32, mode: u32, name: &str, data: &[u8]) -> io::Result<()> {
    let too_large = |_| io::Error::other(format!("{name} is larger than 4 GiB"));
    let (size, length) = (u32::try_from(data.len()).map_err(too_large)?, name.len() + 1);
    write!(out, "070701{inode:08x}{mode:08x}{0:08x}{0:08x}{1:08x}{0:08x}{size:08x}", 0, 1)?;
    write!(out, "{0:08x}{0:08x}{0:08x}{0:08x}{length:08x}{0:08x}{name}\0", 0)?;
    // The header has 110 bytes.
    out.write_all(&[0; 3][..(110 + length).wrapping_neg() % 4])?;
    out.write_all(data)?;
    out.write_all(&[0; 3][..data.len().wrapping_neg() % 4])
}

/// The paths of libraries in what `ldd` prints.
fn libraries(text: &str) -> Vec<&str> {
    let words = text.lines().flat_map(str::split_whitespace);
    words.filter(|word| word.starts_with('/')).collect()
}

#[cfg(test)]
mod tests {
    use super::{Image, libraries};
    use std::path::Path;

    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(text), ["/lib/x/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn an_archive_has_directories_before_files_and_everything_aligned() {
        let mut image = Image::default();
        image.text("/a/b/c", "xyz", 0o644);
        image.symlink(Path::new("/a/s"), "b");
        let mut bytes = Vec::new();
        image.entries_to(&mut bytes).unwrap();
        let mut names = Vec::new();
        let mut at = 0;
        let field = |at: usize, n: usize| {
            let digits = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
            usize::from_str_radix(digits, 16).unwrap()
        };
        while at < bytes.len() {
            assert_eq!((at % 4, &bytes[at..at + 6]), (0, &b"070701"[..]));
            let (size, length) = (field(at, 6), field(at, 11));
            let name = String::from_utf8(bytes[at + 110..at + 109 + length].to_vec()).unwrap();
            let data = (at + 110 + length).next_multiple_of(4);
            names.push((name, field(at, 1), bytes[data..data + size].to_vec()));
            at = (data + size).next_multiple_of(4);
        }
        let named: Vec<_> = names.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(named, ["a", "a/b", "a/b/c", "a/s", "TRAILER!!!"]);
        assert_eq!((names[2].1, names[2].2.as_slice()), (0o100_644, &b"xyz"[..]));
        assert_eq!((names[3].1, names[3].2.as_slice()), (0o120_777, &b"b"[..]));
    }
}
