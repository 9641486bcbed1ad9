//! The file `schemata` of a class: read, written, and held against what was written.

use super::Error;
use crate::host::hardware::Hardware;
use crate::host::naming;
use std::io;
use std::path::Path;

/// One value of one resource in one domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Such as `L3` or `MB`.
    pub(super) resource: String,
    /// The number of the cache.
    pub(super) domain: u32,
    /// A mask, or an amount.
    pub(super) value: u64,
}

impl Entry {
    pub(super) fn new(resource: &str, domain: u32, value: u64) -> Self {
        Self { resource: resource.to_owned(), domain, value }
    }

    /// As it is written.
    pub(super) fn line(&self) -> String {
        let Self { resource, domain, value } = self;
        if is_mask(resource) {
            format!("{resource}:{domain}={value:x}\n")
        } else {
            format!("{resource}:{domain}={value}\n")
        }
    }
}

/// Caches have masks, written in hexadecimal digits; all else is a decimal number.
fn is_mask(resource: &str) -> bool {
    resource.starts_with('L')
}

/// Reads `    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n`. What is no number (a pseudo-locked domain) is
/// left out.
pub(super) fn parse(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in text.lines() {
        let Some((resource, domains)) = line.trim().split_once(':') else { continue };
        let radix = if is_mask(resource) { 16 } else { 10 };
        for pair in domains.split(';') {
            let Some((domain, value)) = pair.trim().split_once('=') else { continue };
            let value = u64::from_str_radix(value.trim(), radix);
            if let (Ok(domain), Ok(value)) = (domain.trim().parse(), value) {
                entries.push(Entry::new(resource, domain, value));
            }
        }
    }
    entries
}

/// The values of a class.
pub(super) fn read(hardware: &dyn Hardware, class: &Path) -> Result<Vec<Entry>, Error> {
    let file = class.join("schemata");
    Ok(parse(&hardware.read(&file).map_err(naming(file.display()))?))
}

/// The value of a resource in a domain.
pub(super) fn value(entries: &[Entry], resource: &str, domain: u32) -> Option<u64> {
    let mut of = entries.iter().filter(|it| it.resource == resource && it.domain == domain);
    of.next().map(|entry| entry.value)
}

/// Writes the entries in one call, which the kernel takes as a whole or not at all.
pub(super) fn write(
    hardware: &dyn Hardware,
    root: &Path,
    class: &Path,
    entries: &[Entry],
) -> Result<(), Error> {
    let text: String = entries.iter().map(Entry::line).collect();
    let file = class.join("schemata");
    let written = hardware.write(&file, &text);
    written.map_err(|error| refused(hardware, root, &file, &text, error))
}

/// Writes the entries and reads them back; each may differ by `step` (what hardware rounds to).
pub(super) fn write_checked(
    hardware: &dyn Hardware,
    root: &Path,
    class: &Path,
    entries: &[Entry],
    step: u64,
) -> Result<(), Error> {
    write(hardware, root, class, entries)?;
    let back = read(hardware, class)?;
    for entry in entries {
        let reads = value(&back, &entry.resource, entry.domain);
        if reads.is_none_or(|reads| reads.abs_diff(entry.value) > step) {
            let shown = reads.map(|value| Entry { value, ..entry.clone() });
            let shown = shown.map_or("nothing".to_owned(), |it| it.line().trim_end().to_owned());
            let (file, wrote) = (class.join("schemata"), entry.line().trim_end().to_owned());
            return Err(Error::Differs { file, wrote, reads: shown });
        }
    }
    Ok(())
}

/// A refusal of `text` with the kernel's reason: `info/last_cmd_status`, where it has one.
pub(super) fn refused(
    hardware: &dyn Hardware,
    root: &Path,
    file: &Path,
    text: &str,
    source: io::Error,
) -> Error {
    let status = hardware.read(&root.join("info/last_cmd_status")).unwrap_or_default();
    let reason = match status.trim() {
        "" | "ok" => source.to_string(),
        status => format!("{}: {source}", status.replace('\n', "; ")),
    };
    Error::Refused { file: file.to_owned(), text: text.to_owned(), reason, source }
}
