//! The table that every run ends with.

mod memory;
pub(crate) mod promise;
mod uneven;

use crate::report::{CoreDispatchReport, CoreReport, Delivered, Report, TaskReport};
use std::fmt::Write as _;
use std::io;

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Style {
    /// Colours for terminals: misses and broken promises red, errors above the tolerance yellow.
    pub color: bool,
    /// Columns available; 100 where `None`. Names are cut to fit.
    pub width: Option<u16>,
}

/// Columns where the terminal does not say how many there are.
const WIDTH: u16 = 100;
/// Names are never cut below this many characters.
const NAME_LEAST: usize = 6;

const HEAD: [&str; 12] = [
    "vcpu",
    "C/T",
    "delivered",
    "err p1",
    "err p50",
    "err p99",
    "foregr",
    "backgr",
    "share",
    "preempt",
    "migr",
    "misses",
];

/// Prints the report as a table: one row per VCPU, then where the cores' time went.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(report: &Report, style: Style, out: &mut impl io::Write) -> io::Result<()> {
    let paint = Paint(style.color);
    let rows: Vec<Row> = report.tasks.iter().map(row).collect();
    let mut widths = HEAD.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let columns = usize::from(style.width.unwrap_or(WIDTH));
    let gap = fit(&mut widths, columns);
    writeln!(out, "{}", paint.bold(&line(&HEAD.map(String::from), &widths, gap, |_, text| text)))?;
    for row in &rows {
        let painted = line(&row.cells, &widths, gap, |column, text| match column {
            3..=5 if row.off => paint.yellow(&text),
            11 if row.missed => paint.red(&text),
            _ => text,
        });
        writeln!(out, "{painted}")?;
    }
    promise::verdicts(report, paint, columns, out)?;
    footnotes(report, columns, out)?;
    for core in &report.cores {
        writeln!(out, "{}", core_line(core, report.duration_ns, columns))?;
    }
    promise::causes(report, columns, out)?;
    dispatches(report, columns, out)?;
    uneven::write(report, paint, columns, out)?;
    memory::write(report, paint, columns, out)?;
    promise::programs(report, columns, out)?;
    closing(report, out)?;
    promise::overrun(report, paint, out)
}

/// One VCPU.
struct Row {
    cells: [String; 12],
    /// Its error at p1 or p99 exceeds the tolerance, which is 1 % of its budget at least.
    off: bool,
    missed: bool,
}

fn row(task: &TaskReport) -> Row {
    let delivered = &task.delivered;
    let judged = is_judged(delivered);
    let mean = match (delivered.mean_ns.filter(|_| judged), delivered.mean_of_all_ns) {
        (Some(mean), _) => time(mean),
        (None, Some(mean)) => format!("{}*", time(mean)),
        (None, None) => "-".into(),
    };
    let error = |ns: Option<i64>| ns.filter(|_| judged).map_or_else(|| "-".into(), signed_time);
    let promised = if task.period_ns == 0 {
        "-".into()
    } else {
        format!("{}/{}", time(task.budget_ns as f64), time(task.period_ns as f64))
    };
    Row {
        cells: [
            task.name.clone(),
            promised,
            mean,
            error(delivered.signed_error_p1_ns),
            error(delivered.signed_error_p50_ns),
            error(delivered.signed_error_p99_ns),
            time(task.foreground_ns as f64),
            time(task.background_ns as f64),
            percent(task.share),
            task.preemptions.to_string(),
            task.migrations.to_string(),
            if task.jobs == 0 { "-".into() } else { task.misses.to_string() },
        ],
        off: judged && is_off(task),
        missed: task.misses > 0,
    }
}

fn is_off(task: &TaskReport) -> bool {
    let most = task.verdict.tolerance_ns.max(task.budget_ns / 100);
    let tails = [task.delivered.signed_error_p1_ns, task.delivered.signed_error_p99_ns];
    tails.into_iter().flatten().any(|error| error.unsigned_abs() > most)
}

/// Whether the periods that are judged stand for all: half of them at least. Fewer are chance, such
/// as the one in which a late job filled the whole period.
const fn is_judged(delivered: &Delivered) -> bool {
    delivered.periods > 0 && delivered.periods >= delivered.periods_without_demand
}

/// Chooses the gap between columns and cuts the names so that a line fits `width`.
fn fit(widths: &mut [usize], width: usize) -> usize {
    let cells: usize = widths.iter().sum();
    let gaps = widths.len() - 1;
    let gap = if cells + 2 * gaps <= width { 2 } else { 1 };
    let excess = (cells + gap * gaps).saturating_sub(width);
    widths[0] = widths[0].saturating_sub(excess).max(NAME_LEAST);
    gap
}

/// A table of its own: a bold head, and rows of plain cells.
fn block(
    head: &[String],
    rows: &[Vec<String>],
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let gap = fit(&mut widths, columns);
    writeln!(out, "{}", paint.bold(&line(head, &widths, gap, |_, text| text)))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row, &widths, gap, |_, text| text)))
}

/// One line: the first cell to the left, all others to the right.
fn line(
    cells: &[String],
    widths: &[usize],
    gap: usize,
    paint: impl Fn(usize, String) -> String,
) -> String {
    let mut text = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column == 0 {
            let _ = write!(text, "{:<width$}", shortened(cell, width));
        } else {
            let _ = write!(text, "{:gap$}{}", "", paint(column, format!("{cell:>width$}")));
        }
    }
    text
}

fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.into();
    }
    // Names often differ at their ends alone: `migration-core0`.
    let kept = width.saturating_sub(1);
    let end = name.chars().count() - kept / 2;
    name.chars().take(kept - kept / 2).chain(['…']).chain(name.chars().skip(end)).collect()
}

fn footnotes(report: &Report, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let left_out: Vec<String> = report
        .tasks
        .iter()
        .filter(|task| is_judged(&task.delivered) && task.delivered.periods_without_demand > 0)
        .map(|task| {
            let delivered = &task.delivered;
            let all = delivered.periods + delivered.periods_without_demand;
            format!("{} {} of {all}", task.name, delivered.periods_without_demand)
        })
        .collect();
    if !left_out.is_empty() {
        let text = "periods left out of delivered and err, as the VCPU was blocked in them: ";
        for line in wrapped(text, &left_out, columns) {
            writeln!(out, "{line}")?;
        }
    }
    let starred =
        |task: &&TaskReport| !is_judged(&task.delivered) && task.delivered.mean_of_all_ns.is_some();
    let starred: Vec<_> = report.tasks.iter().filter(starred).collect();
    if !starred.is_empty() {
        let with_jobs = starred.iter().all(|task| task.jobs > 0);
        let why = if with_jobs { " (its jobs were done)" } else { "" };
        writeln!(out, "* blocked in most of its periods{why}: mean over all of them, no errors")?;
    }
    Ok(())
}

/// `text` and the comma-separated items, in lines of at most `columns` where items allow.
fn wrapped(text: &str, items: &[String], columns: usize) -> Vec<String> {
    let mut lines = vec![text.to_string()];
    for (place, item) in items.iter().enumerate() {
        let comma = if place + 1 < items.len() { ", " } else { "" };
        let last = lines.len() - 1;
        if lines[last].chars().count() + item.chars().count() + 1 > columns {
            lines.push("  ".into());
        }
        let last = lines.len() - 1;
        lines[last] += item;
        lines[last] += comma;
    }
    lines.iter().map(|line| line.trim_end().to_string()).collect()
}

fn core_line(core: &CoreReport, duration_ns: u64, columns: usize) -> String {
    let part =
        |ns: u64| percent(if duration_ns == 0 { 0.0 } else { ns as f64 / duration_ns as f64 });
    let line = |foreground: &str, background: &str, gap: &str| {
        format!(
            "core{:<3} {foreground} {:>6}{gap}{background} {:>6}{gap}idle {:>6}{gap}\
             throttled {:>6}{gap}decisions {}",
            core.core,
            part(core.foreground_ns),
            part(core.background_ns),
            part(core.idle_ns),
            part(core.throttled_ns),
            core.decisions
        )
    };
    let full = line("foreground", "background", "  ");
    if full.len() <= columns { full } else { line("foregr", "backgr", " ") }
}

fn dispatches(report: &Report, columns: usize, out: &mut impl io::Write) -> io::Result<()> {
    let Some(dispatch) = &report.dispatch else { return Ok(()) };
    let said = |count, p50: u64, p99: u64| {
        let (p50, p99) = (time(p50 as f64), time(p99 as f64));
        format!("{} p50 {p50} p99 {p99}", counted(count, "dispatch"))
    };
    let all = said(dispatch.count, dispatch.latency_p50_ns, dispatch.latency_p99_ns);
    let of = |core: &CoreDispatchReport| {
        let said = said(core.count, core.latency_p50_ns, core.latency_p99_ns);
        format!("core{} {said}", core.core)
    };
    let mut items = vec![all];
    items.extend(dispatch.cores.iter().map(of));
    if dispatch.enacted > 0 {
        items.push(format!("{} of them measured up to the enactment only", dispatch.enacted));
    }
    wrapped("latency: ", &items, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn closing(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    let total = &report.total;
    let mut text = format!("{} of {}", time(report.duration_ns as f64), report.policy);
    if total.jobs > 0 {
        let (jobs, misses) = (counted(total.jobs, "job"), total.misses);
        let _ = write!(text, ", {jobs}, {}", counted(misses, "miss"));
    }
    let _ = write!(text, ", {}", counted(total.decisions, "decision"));
    if let Some(agents_ns) = report.agents_ns.filter(|_| report.duration_ns > 0) {
        let percent = agents_ns as f64 / report.duration_ns as f64 * 100.0;
        let _ = write!(text, ", agents {percent:.2}% of a core");
    }
    writeln!(out, "{text}")?;
    if report.lost_records > 0 {
        let lost = report.lost_records;
        writeln!(out, "{lost} journal records were lost: every figure is a lower bound")?;
    }
    promise::cut(report, out)
}

/// `1 job`, `2 jobs`, `0 misses`.
fn counted(number: u64, what: &str) -> String {
    let plural = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        _ if what.ends_with('h') => "es",
        (_, false) => "s",
    };
    format!("{number} {what}{plural}")
}

/// Four digits and the unit that needs fewest: `9.998ms`, `30.1us`, `0`.
pub fn time(ns: f64) -> String {
    let (scale, unit) = match ns {
        ns if ns < 0.5 => return "0".into(),
        ns if ns < 999.95 => (1.0, "ns"),
        ns if ns < 999.95e3 => (1e3, "us"),
        ns if ns < 999.95e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns / scale;
    let decimals = match value {
        value if value < 9.9995 => 3,
        value if value < 99.995 => 2,
        _ => 1,
    };
    let digits = if unit == "ns" { format!("{value:.0}") } else { format!("{value:.decimals$}") };
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        &digits
    };
    format!("{digits}{unit}")
}

/// The same of a difference: below zero with its sign.
pub fn signed_time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs() as f64))
}

/// A fraction of one in per cent with one decimal.
fn percent(fraction: f64) -> String {
    format!("{:.1}%", fraction * 100.0)
}

/// ANSI colours, or none.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn with(&self, code: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }
    fn bold(&self, text: &str) -> String {
        self.with(1, text)
    }
    fn red(&self, text: &str) -> String {
        self.with(31, text)
    }
    fn yellow(&self, text: &str) -> String {
        self.with(33, text)
    }
}

#[cfg(test)]
mod tests;
