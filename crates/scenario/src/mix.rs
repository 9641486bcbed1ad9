//! A static mix of requestors to one memory, for `maracas memory`.

use crate::cursor::Table;
use crate::error::{Error, Source, read_text};
use crate::keys;
use crate::read;
use crate::scenario::{Places, PlatformMemory};
use maracas_core::MAX_CORES;
use maracas_core::memory::Pattern;
use std::path::Path;

/// Requestors that use one memory at the same time, for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mix {
    /// The memory that they share.
    pub memory: PlatformMemory,
    /// The requestors in the order of the file.
    pub requestors: Vec<Requestor>,
}

/// One core or device that reads memory as fast as it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requestor {
    /// In which order.
    pub pattern: Pattern,
    /// Z: time between a read's data and the next read of the same slot, in picoseconds.
    pub think_ps: u64,
    /// W: reads outstanding at once, in thousandths.
    pub outstanding_milli: u64,
    /// Write-backs per read, in thousandths.
    pub writebacks_milli: u64,
}

impl Mix {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where the file cannot be read or says something wrong; the first error in it.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::parse(&read_text(path)?, &path.display().to_string())
    }

    /// Reads and checks a text; `file` is its name in errors.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place and the way out.
    pub fn parse(text: &str, file: &str) -> Result<Self, Error> {
        let source = Source::new(file, text);
        let document = read::document(&source)?;
        let root = Table::new(&source, document.get_ref(), 0, &keys::MIX)?;
        let platform = read::platform::platform(&root, &mut Places::default())?;
        let memory = platform.memory.ok_or_else(|| {
            root.error("the mix has no memory; add [platform] with preset = \"ddr3-1333\"")
        })?;
        let tables = root.tables("requestor", &keys::REQUESTOR)?;
        if tables.is_empty() {
            return Err(root.error("the mix has no requestors; add a [[requestor]] table"));
        }
        if tables.len() > MAX_CORES {
            let count = tables.len();
            let why = format!("the mix has {count} requestors; at most {MAX_CORES} may be");
            return Err(root.error(why));
        }
        let requestors = tables.iter().map(requestor).collect::<Result<_, _>>()?;
        Ok(Self { memory, requestors })
    }
}

fn requestor(table: &Table<'_>) -> Result<Requestor, Error> {
    Ok(Requestor {
        pattern: table.need("pattern", "\"rand\"")?.word(&read::memory::PATTERNS)?,
        think_ps: table.get("think").map_or(Ok(0), |field| field.picoseconds())?,
        outstanding_milli: match table.get("outstanding") {
            Some(field) => field.thousandths(1, read::memory::MOST_OUTSTANDING)?,
            None => 1000,
        },
        writebacks_milli: match table.get("writebacks") {
            Some(field) => field.thousandths(0, read::memory::MOST_WRITEBACKS)?,
            None => 0,
        },
    })
}

/// The pattern that users call `word`.
///
/// # Errors
/// `did you mean`, or the list of patterns.
pub fn pattern(word: &str) -> Result<Pattern, String> {
    let found = read::memory::PATTERNS.iter().find(|(name, _)| *name == word);
    found.map(|(_, pattern)| *pattern).ok_or_else(|| {
        let names = read::memory::PATTERNS.iter().map(|(name, _)| *name);
        crate::error::did_you_mean(word, names, "patterns")
    })
}

/// What users call `pattern`.
pub fn pattern_word(pattern: Pattern) -> &'static str {
    let found = read::memory::PATTERNS.iter().find(|(_, known)| *known == pattern);
    found.map_or("", |(word, _)| word)
}
