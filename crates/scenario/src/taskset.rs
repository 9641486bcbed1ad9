//! Bare task sets: one task a line, no scenario around them.
//!
//! ```csv
//! # anything after a hash is a comment
//! cost_us, period_us, deadline_us, offset_us
//! 2000,    10000,     10000,       0
//! 333.333, 1000,      ,
//! ```
//! The header is required; its columns may stand in any order, `deadline_us` (default: the
//! period) and `offset_us` (default: 0) may be missing or empty. Times are in microseconds, with up
//! to three decimals.

use crate::error::{Error, Source, did_you_mean, read_text};
use maracas_core::{
    Arrival, Cost, Duration, MAX_CORES, Program, Reservation, System, Vcpu, Workload,
};
use std::fmt;
use std::path::Path;

/// The columns in the order in which they are written.
pub const COLUMNS: [&str; 4] = ["cost_us", "period_us", "deadline_us", "offset_us"];

/// Periodic tasks. Task i is `VcpuId(i)`: its budget is its cost, and every job needs all of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TaskSet {
    /// The tasks in the order of the file.
    pub tasks: Vec<Vcpu>,
}

impl TaskSet {
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
        let source = Source { file, text };
        let mut rows = rows(text);
        let Some(header) = rows.next() else {
            let message = "the task set is empty; begin it with the header cost_us,period_us";
            return Err(source.error(0, message));
        };
        let columns = columns(source, &header)?;
        let tasks = rows
            .zip(0..)
            .map(|(row, id)| task(source, &columns, &row, id))
            .collect::<Result<Vec<_>, _>>()?;
        if tasks.is_empty() {
            let message = "there are no tasks under the header; add lines such as 2000,10000";
            return Err(source.error(header[0].0, message));
        }
        Ok(Self { tasks })
    }

    /// The tasks on `cores` simulated cores.
    ///
    /// # Panics
    /// Where `cores` is 0 or above [`MAX_CORES`].
    pub fn system(&self, cores: usize) -> System {
        assert!((1..=MAX_CORES).contains(&cores), "{cores} cores: from 1 to {MAX_CORES} may be");
        System::new(cores, self.tasks.clone())
    }

    /// One program a task, each job costing the whole budget.
    pub fn programs(&self) -> Vec<Program> {
        let workload =
            |task: &Vcpu| Workload::Periodic { cost: Cost::Fixed(task.reservation.budget) };
        self.tasks.iter().map(|task| Program::new(task.id, workload(task))).collect()
    }
}

/// Writes the table that [`TaskSet::parse`] reads.
impl fmt::Display for TaskSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", COLUMNS.join(","))?;
        for task in &self.tasks {
            let Reservation { budget, period, deadline } = task.reservation;
            let offset = match task.arrival {
                Arrival::Periodic { offset } => offset,
                Arrival::Sporadic | Arrival::None => Duration::ZERO,
            };
            let cells = [budget, period, deadline, offset].map(in_micros);
            writeln!(f, "{}", cells.join(","))?;
        }
        Ok(())
    }
}

fn in_micros(duration: Duration) -> String {
    let (whole, rest) = (duration.ticks() / 1_000, duration.ticks() % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
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
fn columns(source: Source<'_>, header: &[Cell<'_>]) -> Result<Vec<&'static str>, Error> {
    let mut columns = Vec::new();
    for (at, word) in header {
        let Some(column) = COLUMNS.into_iter().find(|column| column == word) else {
            let message = if word.starts_with(|c: char| c.is_ascii_digit()) {
                format!("the first line must be a header; begin with {}", COLUMNS.join(","))
            } else if word.contains([';', '\t']) {
                "the columns must be separated by commas, such as cost_us,period_us".into()
            } else {
                format!("unknown column `{word}`; {}", did_you_mean(word, COLUMNS, "columns"))
            };
            return Err(source.error(*at, message));
        };
        if columns.contains(&column) {
            return Err(source.error(*at, format!("the column `{column}` stands twice; drop one")));
        }
        columns.push(column);
    }
    for needed in &COLUMNS[..2] {
        if !columns.contains(needed) {
            let message = format!("the column `{needed}` is missing; begin with cost_us,period_us");
            return Err(source.error(header[0].0, message));
        }
    }
    Ok(columns)
}

/// One line with what its cells mean.
struct Row<'a> {
    source: Source<'a>,
    columns: &'a [&'static str],
    cells: &'a [Cell<'a>],
}

impl<'a> Row<'a> {
    fn cell(&self, column: &str) -> Option<Cell<'a>> {
        let place = self.columns.iter().position(|name| *name == column)?;
        Some(self.cells[place])
    }
    /// The time in `column`, with its offset; `None` where the column is missing or empty.
    fn time(&self, column: &str) -> Result<Option<(usize, Duration)>, Error> {
        let Some((at, text)) = self.cell(column).filter(|(_, text)| !text.is_empty()) else {
            return Ok(None);
        };
        let time =
            micros(text).map_err(|why| self.source.error(at, format!("{column} {text} {why}")))?;
        Ok(Some((at, time)))
    }
    /// Like [`Row::time`], above zero.
    fn positive(&self, column: &str) -> Result<Option<(usize, Duration)>, Error> {
        match self.time(column)? {
            Some((at, Duration::ZERO)) => {
                let message = format!("{column} must be above zero; raise it or drop the task");
                Err(self.source.error(at, message))
            }
            time => Ok(time),
        }
    }
    fn needed(&self, column: &str) -> Result<(usize, Duration), Error> {
        self.positive(column)?.ok_or_else(|| {
            let at = self.cell(column).map_or(self.cells[0].0, |(at, _)| at);
            self.source.error(at, format!("{column} is empty; give it in microseconds"))
        })
    }
}

fn task(
    source: Source<'_>,
    columns: &[&'static str],
    cells: &[Cell<'_>],
    id: u32,
) -> Result<Vcpu, Error> {
    if cells.len() != columns.len() {
        let (found, wanted) = (cells.len(), columns.len());
        let message = format!("{found} given for {wanted} columns; give one value for each");
        return Err(source.error(cells[0].0, message));
    }
    let row = Row { source, columns, cells };
    let (cost_at, budget) = row.needed("cost_us")?;
    let (_, period) = row.needed("period_us")?;
    let (deadline_at, deadline) = row.positive("deadline_us")?.unwrap_or((cost_at, period));
    let offset = row.time("offset_us")?.map_or(Duration::ZERO, |(_, offset)| offset);
    let (c, t, d) = (in_micros(budget), in_micros(period), in_micros(deadline));
    if budget > period {
        let ways = "lower the cost or raise the period";
        return Err(source.error(cost_at, format!("cost_us {c} exceeds period_us {t}; {ways}")));
    }
    if deadline > period {
        let ways = "lower it or raise the period";
        let message = format!("deadline_us {d} exceeds period_us {t}; {ways}");
        return Err(source.error(deadline_at, message));
    }
    if budget > deadline {
        let ways = "raise it or lower the cost";
        let message = format!("deadline_us {d} is shorter than cost_us {c}; {ways}");
        return Err(source.error(deadline_at, message));
    }
    let mut vcpu = Vcpu::new(id, budget, period);
    vcpu.reservation.deadline = deadline;
    vcpu.arrival = Arrival::Periodic { offset };
    Ok(vcpu)
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

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn task(id: u32, budget: u64, period: u64, deadline: u64, offset: u64) -> Vcpu {
        let time = Duration::from_nanos;
        let mut vcpu = Vcpu::new(id, time(budget), time(period));
        vcpu.reservation.deadline = time(deadline);
        vcpu.arrival = Arrival::Periodic { offset: time(offset) };
        vcpu
    }

    #[test]
    fn columns_stand_in_any_order_and_spaces_comments_and_line_ends_do_not_matter() {
        let expected = TaskSet {
            tasks: vec![
                task(0, 2000 * US, 10_000 * US, 8000 * US, 0),
                task(1, 333_333, 1000 * US, 1000 * US, 1),
            ],
        };
        for text in [
            "cost_us,period_us,deadline_us,offset_us\n2000,10000,8000,0\n333.333,1000,,0.001\n",
            "\u{feff}# head\r\n\r\n offset_us ,deadline_us, cost_us,\tperiod_us # x\r\n\
             ,8000, 2000, 10000\r\n   \n0.001,,333.333,1000#,7",
        ] {
            assert_eq!(TaskSet::parse(text, "x"), Ok(expected.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let tasks = (0..200u32).map(|id| {
            let n = u64::from(id) * 7919 + 1;
            task(id, n, n * 1001, n * 1000, n % 17 * 50)
        });
        let set = TaskSet { tasks: tasks.collect() };
        assert_eq!(TaskSet::parse(&set.to_string(), "x"), Ok(set));
    }

    #[test]
    fn tasks_are_periodic_and_cost_their_budget() {
        let set = TaskSet::parse("period_us,cost_us\n10,2\n20,5\n", "x").unwrap();
        let system = set.system(3);
        assert_eq!((system.cores.len(), system.vcpus.len()), (3, 2));
        let cost = Cost::Fixed(Duration::from_micros(5));
        let expected = Program::new(maracas_core::VcpuId(1), Workload::Periodic { cost });
        assert_eq!(set.programs()[1], expected);
        assert!(TaskSet::read("no/such.csv").is_err_and(|error| error.line == 0));
    }
}
