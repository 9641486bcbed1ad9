//! The table of comma-separated values.

use super::task::{Draft, Given, MOST_TASKS, name_fault};
use crate::error::{Error, Source, did_you_mean, quoted};
use crate::taskset::{TaskSet, default_name, is_sporadic, offset};
use maracas_core::Duration;
use std::fmt;

/// The columns in the order in which they are written.
pub const COLUMNS: [&str; 6] = ["name", "cost_us", "period_us", "deadline_us", "offset_us", "jobs"];
/// Those that must be there.
const NEEDED: [&str; 2] = ["cost_us", "period_us"];

/// Reads a table.
pub(crate) fn read(source: &Source<'_>) -> Result<TaskSet, Error> {
    let mut rows = rows(source.text);
    let Some(header) = rows.next() else {
        let message = "the task set is empty; begin it with the header cost_us,period_us";
        return Err(source.error(0, message));
    };
    let columns = columns(source, &header)?;
    let (mut tasks, mut names) = (Vec::new(), Vec::new());
    for (cells, id) in rows.zip(0..) {
        if tasks.len() >= MOST_TASKS {
            let message = format!("more than {MOST_TASKS} tasks; split the file");
            return Err(source.error(cells[0].0, message));
        }
        let row = Row::new(source, &columns, &cells)?;
        tasks.push(row.draft()?.task(source, id)?);
        names.push(row.name()?);
    }
    if tasks.is_empty() {
        let message = "there are no tasks under the header; add lines such as 2000,10000";
        return Err(source.error(header[0].0, message));
    }
    let origin = origin(source.text);
    let mut set = TaskSet { tasks, origin, ..TaskSet::default() };
    let texts = names.iter().map(|(_, name)| (*name).to_owned()).collect();
    set.set_names(texts).map_err(|twice| {
        let (at, name) = names[twice];
        let shown = if name.is_empty() { default_name(twice) } else { name.to_owned() };
        let message = format!("another task is called {} too; rename one", quoted(&shown));
        source.error(at, message)
    })?;
    Ok(set)
}

/// Writes the table that [`TaskSet::parse`] reads, with the origin as comments.
impl fmt::Display for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.origin {
            // A line break would let the rest of it stand as a header.
            let line = line.replace(char::is_control, " ");
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        let names = self.names();
        let shown = |column: &&str| match *column {
            "name" => !self.names.is_empty(),
            "jobs" => self.tasks.iter().any(is_sporadic),
            _ => true,
        };
        let columns: Vec<&str> = COLUMNS.into_iter().filter(shown).collect();
        writeln!(f, "{}", columns.join(","))?;
        for (task, name) in self.tasks.iter().zip(&names) {
            let r = task.reservation;
            let cell = |column: &&str| match *column {
                "name" => name.clone(),
                "cost_us" => in_micros(r.budget),
                "period_us" => in_micros(r.period),
                "deadline_us" => in_micros(r.deadline),
                "offset_us" => in_micros(offset(task)),
                _ => if is_sporadic(task) { "sporadic" } else { "periodic" }.into(),
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            writeln!(f, "{}", cells.join(","))?;
        }
        Ok(())
    }
}

/// A time as microseconds, with the decimals that it needs.
pub(crate) fn in_micros(duration: Duration) -> String {
    let (whole, rest) = (duration.ticks() / 1_000, duration.ticks() % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
}

/// The comment lines before the header, without their marks.
fn origin(text: &str) -> Vec<String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let head = text.lines().map(str::trim).take_while(|it| it.is_empty() || it.starts_with('#'));
    let comments = head.filter_map(|line| line.strip_prefix('#'));
    comments.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()).collect()
}

/// A cell with the byte offset of its first character.
type Cell<'a> = (usize, &'a str);

/// The rows that hold something, cut into cells.
fn rows(text: &str) -> impl Iterator<Item = Vec<Cell<'_>>> {
    let mut next = 0;
    text.split('\n').filter_map(move |line| {
        let start = next;
        next += line.len() + 1;
        let content = line.split('#').next().unwrap_or_default();
        // Spreadsheets put a byte order mark before the first line.
        let content = content.strip_prefix('\u{feff}').unwrap_or(content);
        let start = start + line.find(content).unwrap_or(0);
        if content.trim().is_empty() {
            return None;
        }
        let mut at = start;
        let cells = content.split(',').map(|cell| {
            let inner = at + (cell.len() - cell.trim_start().len());
            at += cell.len() + 1;
            (inner, cell.trim())
        });
        Some(cells.collect())
    })
}

/// For every cell of a row the column that it belongs to.
fn columns(source: &Source<'_>, header: &[Cell<'_>]) -> Result<Vec<&'static str>, Error> {
    let mut columns = Vec::new();
    for (at, word) in header {
        let Some(column) = COLUMNS.into_iter().find(|column| column == word) else {
            let message = if word.starts_with(|c: char| c.is_ascii_digit()) {
                format!("the first line must be a header; begin with {}", NEEDED.join(","))
            } else if word.contains([';', '\t']) {
                "the columns must be separated by commas, such as cost_us,period_us".into()
            } else {
                let shown = quoted(word).replace('"', "`");
                format!("unknown column {shown}; {}", did_you_mean(word, COLUMNS, "columns"))
            };
            return Err(source.error(*at, message));
        };
        if columns.contains(&column) {
            return Err(source.error(*at, format!("the column `{column}` stands twice; drop one")));
        }
        columns.push(column);
    }
    for needed in NEEDED {
        if !columns.contains(&needed) {
            let message = format!("the column `{needed}` is missing; begin with cost_us,period_us");
            return Err(source.error(header[0].0, message));
        }
    }
    Ok(columns)
}

/// One line with what its cells mean.
struct Row<'r, 'a> {
    source: &'a Source<'a>,
    columns: &'r [&'static str],
    cells: &'r [Cell<'a>],
}

impl<'r, 'a> Row<'r, 'a> {
    fn new(
        source: &'a Source<'a>,
        columns: &'r [&'static str],
        cells: &'r [Cell<'a>],
    ) -> Result<Self, Error> {
        if cells.len() != columns.len() {
            let (found, wanted) = (cells.len(), columns.len());
            let message = format!("{found} given for {wanted} columns; give one value for each");
            return Err(source.error(cells[0].0, message));
        }
        Ok(Self { source, columns, cells })
    }
    fn cell(&self, column: &str) -> Option<Cell<'a>> {
        let place = self.columns.iter().position(|name| *name == column)?;
        Some(self.cells[place])
    }
    /// The cell in `column`; `None` where the column is missing or empty.
    fn filled(&self, column: &str) -> Option<Cell<'a>> {
        self.cell(column).filter(|(_, text)| !text.is_empty())
    }
    /// The time in `column`; `None` where it is missing.
    fn time(&self, label: &'static str) -> Result<Option<Given>, Error> {
        let Some((at, text)) = self.filled(label) else { return Ok(None) };
        let time = micros(text).map_err(|why| {
            let shown = text.chars().take(40).collect::<String>();
            self.source.error(at, format!("{label} {shown} {why}"))
        })?;
        Ok(Some(Given { label, at, text: in_micros(time), time }))
    }
    fn needed(&self, label: &'static str) -> Result<Given, Error> {
        self.time(label)?.ok_or_else(|| {
            let at = self.cell(label).map_or(self.cells[0].0, |(at, _)| at);
            self.source.error(at, format!("{label} is empty; give it in microseconds"))
        })
    }
    fn draft(&self) -> Result<Draft, Error> {
        let sporadic = match self.filled("jobs") {
            None | Some((_, "periodic")) => false,
            Some((_, "sporadic")) => true,
            Some((at, word)) => {
                let hint = did_you_mean(word, ["periodic", "sporadic"], "choices");
                let message = format!("`jobs` cannot be {}; {hint}", quoted(word));
                return Err(self.source.error(at, message));
            }
        };
        let draft = Draft {
            cost: self.needed("cost_us")?,
            period: self.needed("period_us")?,
            deadline: self.time("deadline_us")?,
            offset: self.time("offset_us")?,
            sporadic,
        };
        match &draft.offset {
            Some(given) if sporadic && !given.time.is_zero() => {
                let message = format!(
                    "offset_us {} cannot be kept by a sporadic task, whose jobs come when they \
                     like; drop it, or make the task periodic",
                    given.text
                );
                Err(self.source.error(given.at, message))
            }
            Some(_) | None => Ok(draft),
        }
    }
    fn name(&self) -> Result<Cell<'a>, Error> {
        let (at, name) = self.cell("name").unwrap_or((self.cells[0].0, ""));
        match name_fault(name) {
            Some(fault) => {
                let message = format!("the name {} {fault}; rename the task", quoted(name));
                Err(self.source.error(at, message))
            }
            None => Ok((at, name)),
        }
    }
}

/// Microseconds, with decimals down to a nanosecond, without ever going through a float.
fn micros(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') {
        return Err("is negative; drop the minus sign".into());
    }
    if !text.starts_with(|c: char| c.is_ascii_digit())
        || !text.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return Err("is not a number of microseconds, such as 2000 or 333.333".into());
    }
    let duration = Duration::parse(&format!("{text}us"))
        .map_err(|why| format!("{why}; give microseconds, such as 2000 or 333.333"))?;
    if duration > crate::cursor::LONGEST {
        return Err("is longer than 100 days; shorten it".into());
    }
    Ok(duration)
}
