//! Overheads by number of tasks, in the form of SchedCAT: a table of comma-separated values with
//! a column `TASK-COUNT` and a column a cost, in microseconds. The cost of cold caches stands in a
//! table of its own, with a column `WSS` (the working set) and a column a level of the memory,
//! `L1`, `L2`, `L3` and `MEM`, that the core left and the core entered share.
//!
//! Between two rows a cost is interpolated linearly; before the first and after the last it goes on
//! as in the two rows nearest, but never below zero; a single row holds everywhere. Costs never
//! fall: a measured one that is lower than one at fewer tasks counts as that one. All this as in
//! SchedCAT (`overheads/model.py`, `monotonic_pwlin`).

use super::csv::in_micros;
use super::decimal::{self, MICROSECONDS};
use crate::error::{Error, Source, nearest, quoted, read_text};
use maracas_core::Duration;
use maracas_core::Overheads;
use std::fmt;
use std::path::Path;

/// The columns that SchedCAT knows beside `TASK-COUNT`.
pub const COLUMNS: [&str; 12] = [
    "RELEASE",
    "RELEASE-LATENCY",
    "SCHEDULE",
    "CXS",
    "IPI-LATENCY",
    "TICK",
    "LOCK",
    "UNLOCK",
    "READ-LOCK",
    "READ-UNLOCK",
    "SYSCALL-IN",
    "SYSCALL-OUT",
];
/// The columns that SchedCAT knows beside `WSS`.
pub const LEVELS: [&str; 4] = ["MEM", "L1", "L2", "L3"];
/// The columns that [`Table::charge`] turns into overheads.
const CHARGED: [&str; 3] = ["RELEASE", "SCHEDULE", "CXS"];

/// What distinguishes the rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Key {
    /// Number of tasks.
    #[default]
    TaskCount,
    /// Working set of a task, in whatever unit the table was measured (SchedCAT: KiB).
    WorkingSet,
}

impl Key {
    /// The column's name.
    pub const fn column(self) -> &'static str {
        match self {
            Self::TaskCount => "TASK-COUNT",
            Self::WorkingSet => "WSS",
        }
    }
}

/// One row: what was measured at one number of tasks, or one working set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Number of tasks, or working set.
    pub key: u64,
    /// One cost a column of the table.
    pub costs: Vec<Duration>,
}

/// A table of overheads. `to_string` writes it, [`Table::parse`] reads it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Table {
    /// Where it comes from: comment lines at the head, without their marks. SchedCAT reads no
    /// comments: a table for it has none.
    pub origin: Vec<String>,
    /// What the rows are distinguished by.
    pub key: Key,
    /// The names of the costs. Those of [`COLUMNS`] and [`LEVELS`] are SchedCAT's; it ignores
    /// others.
    pub columns: Vec<String>,
    /// At least one, with increasing keys.
    pub rows: Vec<Row>,
}

impl Table {
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
        let mut lines = lines(text).peekable();
        let mut table = Self::default();
        while let Some((_, comment)) = lines.next_if(|(_, line)| line.starts_with('#')) {
            let line = comment.trim_start_matches('#');
            table.origin.push(line.strip_prefix(' ').unwrap_or(line).trim_end().into());
        }
        let (at, header) = lines.next().ok_or_else(|| {
            source.error(0, "the table is empty; begin it with TASK-COUNT,SCHEDULE,CXS")
        })?;
        let cells = cells(at, header);
        let key_column = table.header(&source, at, &cells)?;
        for (at, line) in lines {
            table.row(&source, at, line, key_column)?;
        }
        if table.rows.is_empty() {
            let message = "there are no rows under the header; add lines such as 10,2.5,1.2";
            return Err(source.error(at, message));
        }
        Ok(table)
    }

    /// Takes the names of the columns; returns the place of the key among them.
    fn header(
        &mut self,
        source: &Source<'_>,
        at: usize,
        cells: &[(usize, &str)],
    ) -> Result<usize, Error> {
        let is_key = |key: Key| cells.iter().position(|(_, name)| *name == key.column());
        let (place, key) = match (is_key(Key::TaskCount), is_key(Key::WorkingSet)) {
            (Some(place), _) => (place, Key::TaskCount),
            (None, Some(place)) => (place, Key::WorkingSet),
            (None, None) => {
                let message = "the column TASK-COUNT (or WSS, of cache delays) is missing; name \
                               the columns in the first line";
                return Err(source.error(at, message));
            }
        };
        self.key = key;
        for (other, (at, name)) in cells.iter().enumerate() {
            let shown = quoted(name).replace('"', "`");
            if name.is_empty() {
                return Err(source.error(*at, "a column has no name; name it or drop it"));
            }
            if cells[..other].iter().any(|(_, earlier)| earlier == name) {
                return Err(source.error(*at, format!("the column {shown} stands twice; drop one")));
            }
            if let Some(near) = self.misspelt(name) {
                return Err(
                    source.error(*at, format!("unknown column {shown}; did you mean `{near}`?"))
                );
            }
            if other != place {
                self.columns.push((*name).to_owned());
            }
        }
        if self.columns.is_empty() {
            let message = "there is no cost beside the key; add columns such as SCHEDULE,CXS";
            return Err(source.error(at, message));
        }
        Ok(place)
    }
    /// The column that was meant by a name that is almost one: a wrong letter must not leave a cost
    /// out without a word.
    fn misspelt(&self, name: &str) -> Option<&'static str> {
        let known = match self.key {
            Key::TaskCount => COLUMNS.as_slice(),
            Key::WorkingSet => LEVELS.as_slice(),
        };
        if name == self.key.column() || known.contains(&name) {
            return None;
        }
        let (edits, near) = nearest(&name.to_uppercase(), known.iter().copied())?;
        // SchedCAT takes further columns of a table of costs for what they are: of no concern.
        let is_near = edits <= name.len() / 4;
        (is_near || self.key == Key::WorkingSet).then_some(near[0])
    }

    fn row(
        &mut self,
        source: &Source<'_>,
        at: usize,
        line: &str,
        key_column: usize,
    ) -> Result<(), Error> {
        let mut cells = cells(at, line);
        let (found, wanted) = (cells.len(), self.columns.len() + 1);
        if found != wanted {
            let message = format!("{found} given for {wanted} columns; give one value for each");
            return Err(source.error(at, message));
        }
        let (key_at, text) = cells.remove(key_column);
        let name = self.key.column();
        // SchedCAT takes floats; tasks and KiB come whole.
        let whole = text.split_once('.').map_or(text, |(whole, rest)| {
            if rest.bytes().all(|digit| digit == b'0') { whole } else { text }
        });
        let key = whole.parse().ok().filter(|_| !whole.starts_with('+')).ok_or_else(|| {
            source.error(key_at, format!("{name} must be a whole number, not {}", quoted(text)))
        })?;
        if let Some(last) = self.rows.last().filter(|last| last.key >= key) {
            let message = format!("{name} {key} follows {}; sort the rows by it", last.key);
            return Err(source.error(key_at, message));
        }
        let cost = |((at, text), name): (&(usize, &str), &String)| {
            let time = decimal::time(text, MICROSECONDS)
                .map_err(|why| source.error(*at, format!("{name} {} {why}", quoted(text))))?;
            Ok(time.time)
        };
        let costs = cells.iter().zip(&self.columns).map(cost).collect::<Result<_, Error>>()?;
        self.rows.push(Row { key, costs });
        Ok(())
    }

    /// The cost in `column` at `key` tasks, or with a working set of `key`; `None` where there is
    /// no such column.
    pub fn cost(&self, column: &str, key: u64) -> Option<Duration> {
        let column = self.columns.iter().position(|name| name == column)?;
        let mut most = 0;
        let risen = |row: &Row| {
            most = row.costs[column].ticks().max(most);
            (row.key, most)
        };
        let points: Vec<(u64, u64)> = self.rows.iter().map(risen).collect();
        let [first, .., last] = points.as_slice() else {
            return points.first().map(|(_, cost)| Duration::from_ticks(*cost));
        };
        let after = points.partition_point(|(at, _)| *at < key).clamp(1, points.len() - 1);
        let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
        assert!(first.0 < last.0 && x0 < x1, "keys increase: {first:?}, {last:?}");
        let [x, x0, y0, x1, y1] = [key, x0, y0, x1, y1].map(i128::from);
        let rise = (y1 - y0) * (x - x0);
        // To the nearest nanosecond.
        let cost = y0 + (2 * rise + (x1 - x0)).div_euclid(2 * (x1 - x0));
        Some(Duration::from_ticks(u64::try_from(cost.max(0)).unwrap_or(u64::MAX)))
    }

    /// Makes the simulator charge what the table says of so many tasks: `RELEASE` a release,
    /// `SCHEDULE` a decision and `CXS` a context switch. Of columns that are missing it charges
    /// what it did.
    pub fn charge(&self, tasks: u64, overheads: &mut Overheads) {
        let Overheads { release, decision, context_switch, .. } = overheads;
        for (column, charged) in CHARGED.into_iter().zip([release, decision, context_switch]) {
            *charged = self.cost(column, tasks).unwrap_or(*charged);
        }
    }

    /// The columns that [`Table::charge`] leaves aside though they cost something.
    pub fn uncharged(&self) -> Vec<&str> {
        let costs = |column: usize| self.rows.iter().any(|row| !row.costs[column].is_zero());
        let columns = self.columns.iter().enumerate();
        let left = columns.filter(|(place, name)| !CHARGED.contains(&&***name) && costs(*place));
        left.map(|(_, name)| name.as_str()).collect()
    }

    /// The greatest cost at `key` over all columns: of a table of cache delays, what a job pays at
    /// most for being moved.
    pub fn greatest(&self, key: u64) -> Duration {
        let costs = self.columns.iter().filter_map(|column| self.cost(column, key));
        costs.max().unwrap_or_default()
    }

    /// Whether `key` lies between the first and the last row, so that nothing is extrapolated.
    pub fn covers(&self, key: u64) -> bool {
        let (first, last) = (self.rows.first(), self.rows.last());
        first.is_some_and(|row| row.key <= key) && last.is_some_and(|row| key <= row.key)
    }
}

/// The table, as SchedCAT reads it if there is no origin.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.origin {
            let line = line.replace(char::is_control, " ");
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        writeln!(f, "{},{}", self.key.column(), self.columns.join(","))?;
        for Row { key, costs } in &self.rows {
            let costs: Vec<String> = costs.iter().map(|cost| in_micros(*cost)).collect();
            writeln!(f, "{key},{}", costs.join(","))?;
        }
        Ok(())
    }
}

/// The lines that hold something, each with the byte offset of its first character.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split('\n').filter_map(move |line| {
        let start = next;
        next += line.len() + 1;
        let content = line.trim_start_matches('\u{feff}').trim();
        let at = start + line.find(content).unwrap_or(0);
        (!content.is_empty()).then_some((at, content))
    })
}

/// The cells of a line that begins at `at`.
fn cells(at: usize, line: &str) -> Vec<(usize, &str)> {
    let mut next = at;
    let cell = |cell: &'_ str| {
        let start = next + (cell.len() - cell.trim_start().len());
        next += cell.len() + 1;
        start
    };
    let starts: Vec<usize> = line.split(',').map(cell).collect();
    starts.into_iter().zip(line.split(',').map(str::trim)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(text: &str) -> Duration {
        decimal::time(text, MICROSECONDS).unwrap().time
    }

    #[test]
    fn costs_between_and_beyond_the_rows_are_those_of_schedcat() {
        // The table and the answers of SchedCAT's own test (`tests/overheads.py`).
        let text = "TASK-COUNT, SCHEDULE\n 10, 10\n 20, 20\n 30, 20\n 40, 17\n 50, 40\n";
        let table = Table::parse(text, "x").unwrap();
        for (tasks, cost) in [
            (10, "10"),
            (5, "5"),
            (15, "15"),
            (20, "20"),
            (25, "20"),
            (30, "20"),
            (40, "20"),
            (45, "30"),
            (60, "60"),
            (0, "0"),
        ] {
            assert_eq!(table.cost("SCHEDULE", tasks), Some(us(cost)), "{tasks}");
            let before = Overheads { release: us("7"), ..Overheads::default() };
            let mut charged = before;
            table.charge(tasks, &mut charged);
            let only = "the scenario's own costs stay where the table has no column";
            assert_eq!(charged, Overheads { decision: us(cost), ..before }, "{tasks}: {only}");
        }
        assert_eq!(table.cost("CXS", 10), None);
        assert!(table.covers(10) && table.covers(50) && !table.covers(9) && !table.covers(51));
        let steep = Table::parse("TASK-COUNT,CXS\n10,1\n20,11\n", "x").unwrap();
        assert_eq!(steep.cost("CXS", 5), Some(Duration::ZERO), "never below zero");
        let single = Table::parse("CXS,TASK-COUNT\n1.5,10\n", "x").unwrap();
        assert_eq!(single.cost("CXS", 99), Some(us("1.5")));
    }

    #[test]
    fn cache_delays_are_read_by_working_set() {
        // SchedCAT's own test again.
        let text = "WSS, MEM, L3\n1024,   100, 50\n2048,   200, 50\n4096,   400, 400\n\
                    16384, 1600, 17000\n";
        let table = Table::parse(text, "x").unwrap();
        assert_eq!(table.key, Key::WorkingSet);
        assert_eq!(table.greatest(1024), us("100"));
        assert_eq!(table.cost("MEM", 8192), Some(us("800")));
        assert!(table.greatest(8192) > us("800"));
        assert_eq!(table.greatest(16384), us("17000"));
    }

    #[test]
    fn tables_are_written_as_they_are_read() {
        let text = "# measured here\n#\n#  twice\nTASK-COUNT,RELEASE,TREE-UPDATE,TICK\n\
                    5,1.25,0.003,0\n10,2,0.1,0\n";
        let table = Table::parse(text, "x").unwrap();
        assert_eq!(table.origin, ["measured here", "", " twice"]);
        assert_eq!(table.uncharged(), ["TREE-UPDATE"]);
        assert_eq!(table.to_string(), text);
        assert_eq!(Table::parse(&table.to_string(), "x"), Ok(table));
    }
}
