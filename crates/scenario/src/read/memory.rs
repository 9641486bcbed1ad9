//! `memory` of a program: a model's name, its file, or a table.

use crate::cursor::{Field, Table};
use crate::error::{Error, Source, read_text};
use crate::keys;
use crate::presets::{File, WORKLOADS};
use maracas_core::Duration;
use maracas_core::memory::{LINE_BYTES, MemoryUse, Pattern, Profile, Reuse};

/// The patterns by the words of memory controllers' test programs.
pub(crate) const PATTERNS: [(&str, Pattern); 6] = [
    ("jump", Pattern::Jump),
    ("jumpr", Pattern::JumpRandom),
    ("rand", Pattern::Random),
    ("seq", Pattern::Sequential),
    ("bank1", Pattern::SameBank),
    ("bankp", Pattern::PrivateBank),
];

/// Misses outstanding at once, in thousandths: no core or device has a thousand.
pub(crate) const MOST_OUTSTANDING: u64 = 1_000_000;
/// Write-backs per read miss, in thousandths.
pub(crate) const MOST_WRITEBACKS: u64 = 100_000;
/// Instructions per reference, in thousandths: a program with fewer references touches no memory.
const MOST_INSTRUCTIONS: u64 = 1_000_000_000_000;

/// What is said of memory so far.
#[derive(Clone, Default)]
struct Draft {
    pattern: Option<Pattern>,
    instructions_milli: Option<u64>,
    think_ps: u64,
    outstanding_milli: Option<u64>,
    writebacks_milli: u64,
    working_set: Option<u64>,
    reuse: Option<Reuse>,
}

/// The memory use that `field` says.
pub(super) fn profile(field: &Field<'_>) -> Result<Profile, Error> {
    if field.value().is_str() {
        return named(field);
    }
    if !field.value().is_table() {
        return Err(field.mismatch("a model's name, such as \"m_jump\", its file, or a table"));
    }
    read(&field.table(&keys::MEMORY)?)
}

/// The memory use that a data file describes.
pub(crate) fn model((name, text): &File) -> Result<Profile, Error> {
    let file = format!("workloads/{name}.toml");
    let source = Source::new(&file, text);
    let document = super::document(&source)?;
    read(&Table::new(&source, document.get_ref(), 0, &keys::MEMORY)?)
}

fn named(field: &Field<'_>) -> Result<Profile, Error> {
    if let Some(file) = file_named(field) {
        return from_file(field, file);
    }
    let files: Vec<_> = WORKLOADS.iter().map(|file| (file.0, file)).collect();
    model(field.word(&files)?)
}

/// The model's file, where `field` names one and no model that is known by name.
fn file_named<'a>(field: &Field<'a>) -> Option<&'a str> {
    field.value().as_str().filter(|text| text.ends_with(".toml"))
}

/// The memory use that a file of the user's describes, in the words of our own data files; such as
/// `maracas profile` writes.
fn from_file(field: &Field<'_>, file: &str) -> Result<Profile, Error> {
    let path = field.folder().join(file);
    let text = read_text(&path).map_err(|error| field.error(error.to_string()))?;
    let name = path.display().to_string();
    let source = Source::new(&name, &text);
    let document = super::document(&source)?;
    let table = Table::new(&source, document.get_ref(), 0, &keys::MEMORY)?;
    let phases = table.get("phases").map(|_| table.tables("phases", &keys::PHASE)).transpose()?;
    let tables = phases.iter().flatten().chain([&table]);
    // One file may not name another: a circle of them would never be read to its end.
    for model in tables.filter_map(|table| table.get("model")) {
        if file_named(&model).is_some() {
            return Err(model.error("a model in a file may not come from a file; name a known one"));
        }
    }
    read(&table)
}

/// The keys of a model in a file of which that says that they are not measured.
pub(super) fn unmeasured(field: &Field<'_>) -> Vec<String> {
    let file = file_named(field).map(|file| field.folder().join(file));
    let text = file.and_then(|path| read_text(&path).ok()).unwrap_or_default();
    let key = |line: &str| Some(line.split_once(" = ")?.0.trim().to_string());
    text.lines().filter(|line| line.ends_with("# not measured")).filter_map(key).collect()
}

fn read(table: &Table<'_>) -> Result<Profile, Error> {
    let base = base(table)?;
    let Some(field) = table.get("phases") else {
        let phases = base
            .into_iter()
            .map(|(run, draft)| Ok((run, finished(overlaid(draft, table)?, table)?)))
            .collect::<Result<_, Error>>()?;
        return Ok(Profile { phases });
    };
    let [(_, first)] = base.as_slice() else {
        return Err(field
            .key_error("the model has phases of its own; drop `phases`, or name another model"));
    };
    let common = overlaid(first.clone(), table)?;
    let phases = table
        .tables("phases", &keys::PHASE)?
        .iter()
        .map(|phase| {
            let run = phase.need("run", "\"100ms\"")?.noticeable()?;
            let draft = match phase.get("model") {
                Some(model) => match named(&model)?.phases.as_slice() {
                    [(_, memory)] => known(memory),
                    _ => {
                        let line = "the model of a phase may have no phases itself; name another";
                        return Err(model.error(line));
                    }
                },
                None => common.clone(),
            };
            Ok((run, finished(overlaid(draft, phase)?, phase)?))
        })
        .collect::<Result<Vec<_>, _>>()?;
    if phases.is_empty() {
        return Err(field.error("`phases` is empty; add { run = \"100ms\", ... } or drop it"));
    }
    Ok(Profile { phases })
}

/// The phases of the model, or one phase of which nothing is known.
fn base(table: &Table<'_>) -> Result<Vec<(Duration, Draft)>, Error> {
    let Some(field) = table.get("model") else {
        return Ok(vec![(Duration::MAX, Draft::default())]);
    };
    let phases = named(&field)?.phases;
    Ok(phases.iter().map(|(run, memory)| (*run, known(memory))).collect())
}

fn known(memory: &MemoryUse) -> Draft {
    Draft {
        pattern: Some(memory.pattern),
        instructions_milli: Some(memory.instructions_milli),
        think_ps: memory.think_ps,
        outstanding_milli: Some(memory.outstanding_milli),
        writebacks_milli: memory.writebacks_milli,
        working_set: Some(memory.working_set),
        reuse: Some(memory.reuse.clone()),
    }
}

/// `draft` with what `table` says in place of it.
fn overlaid(mut draft: Draft, table: &Table<'_>) -> Result<Draft, Error> {
    if let Some(field) = table.get("pattern") {
        draft.pattern = Some(field.word(&PATTERNS)?);
    }
    if let Some(field) = table.get("instructions") {
        draft.instructions_milli = Some(field.thousandths(1, MOST_INSTRUCTIONS)?);
    }
    if let Some(field) = table.get("think") {
        draft.think_ps = field.picoseconds()?;
    }
    if let Some(field) = table.get("delay") {
        draft.think_ps += field.picoseconds()?;
    }
    if let Some(field) = table.get("outstanding") {
        draft.outstanding_milli = Some(field.thousandths(1, MOST_OUTSTANDING)?);
    }
    if let Some(field) = table.get("writebacks") {
        draft.writebacks_milli = field.thousandths(0, MOST_WRITEBACKS)?;
    }
    if let Some(field) = table.get("working_set") {
        draft.working_set = Some(at_least_a_line(&field)?);
    }
    let words = [("stream", Reuse::Stream), ("random", Reuse::Random), ("cyclic", Reuse::Cyclic)];
    let indexed: Vec<_> = words.iter().map(|(word, reuse)| (*word, reuse)).collect();
    match (table.get("reuse"), table.get("curve")) {
        (Some(_), Some(curve)) => {
            let line = "`reuse` and `curve` both say how references miss; drop one of them";
            return Err(curve.key_error(line));
        }
        (Some(field), None) => draft.reuse = Some(field.word(&indexed)?.clone()),
        (None, Some(field)) => {
            let points = curve(&field)?;
            draft.working_set = draft.working_set.or(points.last().map(|(bytes, _)| *bytes));
            draft.reuse = Some(Reuse::Curve(points));
        }
        (None, None) => {}
    }
    Ok(draft)
}

fn at_least_a_line(field: &Field<'_>) -> Result<u64, Error> {
    let bytes = field.bytes()?;
    if bytes < LINE_BYTES {
        let line = format!("{} of {bytes} B is less than a line of {LINE_BYTES} B", field.key);
        return Err(field.error(line + "; raise it"));
    }
    Ok(bytes)
}

/// Points (bytes held, misses per million references).
fn curve(field: &Field<'_>) -> Result<Vec<(u64, u32)>, Error> {
    let what = "a list of points, such as [[\"64KiB\", 0.9], [\"1MiB\", 0.1]]";
    let mut points: Vec<(u64, u32)> = Vec::new();
    for point in field.elements(what)? {
        let pair = point.elements(what)?;
        let [held, ratio] = pair.as_slice() else {
            let line =
                format!("a point of `curve` holds bytes and a miss ratio, not {}", pair.len());
            return Err(point.error(line + " values; write [\"64KiB\", 0.9]"));
        };
        let (held_bytes, misses) = (at_least_a_line(held)?, ratio.millionths()?);
        if let Some((before, more)) = points.last() {
            if held_bytes <= *before {
                return Err(held.error("the bytes of `curve` must rise; sort its points"));
            }
            if misses > *more {
                let line = "the misses of `curve` may not rise with the bytes held; correct them";
                return Err(ratio.error(line));
            }
        }
        points.push((held_bytes, misses));
    }
    if points.is_empty() {
        return Err(field.error(format!("`curve` is empty; it must be {what}")));
    }
    Ok(points)
}

fn finished(draft: Draft, table: &Table<'_>) -> Result<MemoryUse, Error> {
    let missing = |key: &str, example: &str| {
        table.error(format!(
            "the memory use has no `{key}`; add {key} = {example}, or model = \"m_jump\""
        ))
    };
    let reuse = draft.reuse.unwrap_or(Reuse::Stream);
    if draft.think_ps == 0 && reuse != Reuse::Stream {
        return Err(table.error(
            "without `think` a reference that hits would take no time; add think = \"12ns\"",
        ));
    }
    Ok(MemoryUse {
        pattern: draft.pattern.ok_or_else(|| missing("pattern", "\"rand\""))?,
        instructions_milli: draft
            .instructions_milli
            .ok_or_else(|| missing("instructions", "10"))?,
        think_ps: draft.think_ps,
        outstanding_milli: draft.outstanding_milli.unwrap_or(1000),
        writebacks_milli: draft.writebacks_milli,
        working_set: draft.working_set.ok_or_else(|| missing("working_set", "\"1MiB\""))?,
        reuse,
    })
}
