//! A recorded file as a sensor and as meters: what memory did elsewhere, played against the clock
//! of this run, so that every policy can be run live on a host without counters.
//!
//! Two kinds of files are read; which one a file is shows in its first bytes.
//!
//! * CSV: the header `time_us,requests,occupancy,core0,core1,...`, then rows. A row says what was
//!   counted since the row before it (the first: since the start of the run) by the instant
//!   `time_us`, with at most three decimals. Comments begin with `#`; two of them mean something,
//!   anywhere in the file: `# cycles_per_us = 3300` says in which cycles occupancy was counted, and
//!   `# repeat` lets the recording begin again at its end.
//! * A MARACAS journal, simulated or live: its samples, at their instants.
//!
//! Between two rows everything is linear; after the last one it stands still, or repeats.

mod csv;
mod samples;

use super::{Meter, Reading, Sensor, SensorKind};
use maracas_core::{Duration, Instant};
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Nanoseconds: the clock of a recording where neither it nor the run says another.
const CYCLES_PER_US: u64 = 1000;

/// A recording, as many sensors and meters of it as are wanted.
#[derive(Clone, Debug)]
pub struct Recording(Arc<Track>);

/// Why a recording cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// Which file.
    pub file: PathBuf,
    /// The line, from 1; `None` where it is about no line.
    pub line: Option<usize>,
    /// What is wrong, and the way out.
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for Error {}

impl Recording {
    /// Reads a recording for a run on so many managed cores, whose policy counts `cycles_per_us`
    /// cycles a microsecond. That is taken as the recording's clock too where it does not say its
    /// own, as journals do not; where it is `None` as well, occupancy is in nanoseconds.
    ///
    /// # Errors
    /// Where the file cannot be read or understood, or was recorded on more or fewer cores.
    pub fn read(path: &Path, cores: usize, cycles_per_us: Option<u64>) -> Result<Self, Error> {
        let error = |what: String| Error { file: path.into(), line: None, what };
        let bytes = std::fs::read(path).map_err(|why| error(why.to_string()))?;
        let track = if bytes.starts_with(b"MARACASJ") {
            samples::parse(&bytes, cores)
        } else {
            let text = std::str::from_utf8(&bytes);
            let what = "is neither a maracas journal nor text; see docs/sensing.md";
            csv::parse(text.map_err(|_| error(what.into()))?, cores)
        };
        let mut track = track.map_err(|wrong| Error { line: wrong.line, ..error(wrong.what) })?;
        track.file = path.into();
        track.cycles_per_us = track.cycles_per_us.or(cycles_per_us);
        Ok(Self(Arc::new(track)))
    }
    /// The sensor that plays it.
    pub fn sensor(&self) -> Box<dyn Sensor> {
        Box::new(Player { track: Arc::clone(&self.0), now: Instant::ZERO })
    }
    /// The meters of its cores, by `CoreId`.
    pub fn meters(&self) -> Vec<Box<dyn Meter>> {
        let meter = |core| -> Box<dyn Meter> {
            Box::new(CoreMeter { track: Arc::clone(&self.0), column: FIRST_CORE + core })
        };
        (0..self.0.cores()).map(meter).collect()
    }
    /// How long it lasts before it stands still or repeats.
    pub fn length(&self) -> Duration {
        self.0.length() - Instant::ZERO
    }
}

/// What is wrong with a file's content, and in which line.
struct Wrong {
    line: Option<usize>,
    what: String,
}

/// The columns of a row: requests, occupancy, and from [`FIRST_CORE`] on the requests of cores.
const REQUESTS: usize = 0;
const OCCUPANCY: usize = 1;
const FIRST_CORE: usize = 2;

/// A recording as sums since its start, so that any instant is found by bisection.
#[derive(Default, Debug)]
struct Track {
    file: PathBuf,
    /// The clock of occupancy; `None` where neither it nor the policy says one: nanoseconds.
    cycles_per_us: Option<u64>,
    repeats: bool,
    /// By increasing instant; never empty, and no row is at zero.
    rows: Vec<Row>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Row {
    at: Instant,
    /// Counted since the start, by column.
    sums: Vec<u64>,
}

impl Track {
    /// Adds what was counted since the row before.
    fn push(&mut self, at: Instant, counted: &[u64]) -> Result<(), String> {
        let (last, sums) = match self.rows.last() {
            Some(row) => (row.at, row.sums.clone()),
            None => (Instant::ZERO, vec![0; counted.len()]),
        };
        if at <= last {
            let (at, last) = (at - Instant::ZERO, last - Instant::ZERO);
            return Err(format!("its time {at} is not after {last}, the time before it"));
        }
        let add = |(sum, counted): (&u64, &u64)| sum.checked_add(*counted);
        let sums: Option<_> = sums.iter().zip(counted).map(add).collect();
        let sums = sums.ok_or("the counts so far do not fit into 64 bits")?;
        self.rows.push(Row { at, sums });
        Ok(())
    }
    fn cores(&self) -> usize {
        self.rows.last().map_or(0, |row| row.sums.len() - FIRST_CORE)
    }
    fn length(&self) -> Instant {
        self.rows.last().map_or(Instant::ZERO, |row| row.at)
    }
    fn total(&self, column: usize) -> u64 {
        self.rows.last().map_or(0, |row| row.sums[column])
    }
    /// Where the row before `index` stands, and its sum.
    fn before(&self, index: usize, column: usize) -> (u64, u64) {
        let row = index.checked_sub(1).map(|before| &self.rows[before]);
        row.map_or((0, 0), |row| (row.at.ticks(), row.sums[column]))
    }

    /// What was counted from the start until `now`, rounded down.
    fn count(&self, now: Instant, column: usize) -> u64 {
        let length = self.length().ticks();
        let rounds = if self.repeats { now.ticks() / length } else { 0 };
        let now = now.ticks() - rounds * length;
        let whole = rounds.saturating_mul(self.total(column));
        let index = self.rows.partition_point(|row| row.at.ticks() < now);
        let Some(row) = self.rows.get(index) else { return self.total(column) };
        let (from, sum) = self.before(index, column);
        let gain = u128::from(row.sums[column] - sum) * u128::from(now - from)
            / u128::from(row.at.ticks() - from);
        // A part of a difference of two counts is itself a count.
        whole.saturating_add(sum + gain as u64)
    }

    /// The first instant at which [`count`](Self::count) is `limit` or more.
    fn due(&self, limit: u64, column: usize) -> Option<Instant> {
        let Some(below) = limit.checked_sub(1) else { return Some(Instant::ZERO) };
        let rounds = if self.repeats { below.checked_div(self.total(column))? } else { 0 };
        let rest = limit - rounds * self.total(column);
        let index = self.rows.partition_point(|row| row.sums[column] < rest);
        let row = self.rows.get(index)?;
        let (from, sum) = self.before(index, column);
        let wait = (u128::from(rest - sum) * u128::from(row.at.ticks() - from))
            .div_ceil(u128::from(row.sums[column] - sum));
        // At most the distance of two instants.
        let at = from + wait as u64;
        let at = rounds.checked_mul(self.length().ticks()).and_then(|start| start.checked_add(at));
        at.map(Instant::from_ticks)
    }
}

struct Player {
    track: Arc<Track>,
    now: Instant,
}

impl Sensor for Player {
    fn sensor_kind(&self) -> SensorKind {
        SensorKind::Replay
    }
    fn describe(&self) -> String {
        let Track { file, rows, .. } = &*self.track;
        let again = if self.track.repeats { ", again and again" } else { "" };
        let length = self.track.length() - Instant::ZERO;
        let (count, rows) = (rows.len(), if rows.len() == 1 { "row" } else { "rows" });
        format!("{}: {count} {rows} over {length}{again}", file.display())
    }
    fn cycles_per_us(&self) -> u64 {
        self.track.cycles_per_us.unwrap_or(CYCLES_PER_US)
    }
    fn read(&mut self, now: Instant, into: &mut Reading) -> io::Result<()> {
        self.now = now;
        into.requests = self.track.count(now, REQUESTS);
        into.occupancy = self.track.count(now, OCCUPANCY);
        into.by_core.clear();
        let cores = 0..self.track.cores();
        into.by_core.extend(cores.map(|core| self.track.count(now, FIRST_CORE + core)));
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        let length = self.track.length();
        (!self.track.repeats && self.now > length).then(|| {
            let (file, length) = (self.track.file.display(), length - Instant::ZERO);
            format!("the recording {file} ended at {length}; nothing was counted after that")
        })
    }
}

struct CoreMeter {
    track: Arc<Track>,
    column: usize,
}

impl Meter for CoreMeter {
    fn read(&mut self, now: Instant) -> io::Result<u64> {
        Ok(self.track.count(now, self.column))
    }
    fn arm(&mut self, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn due(&self, limit: u64) -> Option<Instant> {
        self.track.due(limit, self.column)
    }
}

/// What a header or a sample says of cores, held against the run's.
fn check_cores(found: usize, cores: usize) -> Result<(), String> {
    if found == cores {
        return Ok(());
    }
    Err(format!(
        "it was recorded on {found} cores, but this run manages {cores}; take a recording of \
         {cores}, or manage {found}"
    ))
}

#[cfg(test)]
mod tests;
