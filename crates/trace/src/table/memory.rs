//! What the run did to memory, below the table of times.

use super::{Paint, fit, line};
use crate::report::{Counts, Report, TaskReport};
use std::io;

const HEAD: [&str; 7] =
    ["memory", "Minst foregr", "Minst backgr", "references", "miss ratio", "read", "written"];

/// Bytes of one request.
const LINE_BYTES: f64 = maracas_core::memory::LINE_BYTES as f64;

/// Prints what was counted: VCPUs, controller, the policy's own figures. Nothing where nothing was.
pub(super) fn write(
    report: &Report,
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let counted = |task: &&TaskReport| task.foreground.plus(&task.background) != Counts::default();
    let rows: Vec<[String; 7]> = report.tasks.iter().filter(counted).map(row).collect();
    if !rows.is_empty() {
        let mut widths = HEAD.map(str::len);
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let gap = fit(&mut widths, columns);
        let head = line(&HEAD.map(String::from), &widths, gap, |_, text| text);
        writeln!(out, "{}", paint.bold(&head))?;
        for row in &rows {
            writeln!(out, "{}", line(row, &widths, gap, |_, text| text))?;
        }
    }
    controller(report, out)?;
    figures(report, out)
}

fn row(task: &TaskReport) -> [String; 7] {
    let all = task.foreground.plus(&task.background);
    let millions = |count: u64| format!("{:.1}", count as f64 / 1e6);
    [
        task.name.clone(),
        millions(task.foreground.instructions),
        millions(task.background.instructions),
        all.references.to_string(),
        all.miss_ratio().map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0)),
        bytes(all.misses),
        bytes(all.writes),
    ]
}

/// Lines of memory as bytes, with the unit that fits.
fn bytes(lines: u64) -> String {
    let bytes = lines as f64 * LINE_BYTES;
    match bytes {
        bytes if bytes < 1e6 => format!("{:.1}kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1}MB", bytes / 1e6),
        bytes => format!("{:.2}GB", bytes / 1e9),
    }
}

fn controller(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    let Some(controller) = &report.controller else { return Ok(()) };
    let cycles = |latency: Option<f64>| {
        latency.map_or_else(|| "-".into(), |cycles| format!("{cycles:.1} cycles"))
    };
    writeln!(
        out,
        "controller: {} in {} requests, latency {} (highest {}), {} sampled",
        bytes(controller.requests),
        controller.requests,
        cycles(controller.latency_mean_cycles),
        cycles(controller.latency_max_cycles),
        super::counted(controller.samples, "time")
    )
}

fn figures(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for figure in report.figures.iter().filter(|figure| figure.value > 0) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    for name in names {
        let own = report.figures.iter().filter(|figure| figure.name == name && figure.value > 0);
        let parts: Vec<String> = own
            .map(|figure| match figure.core {
                Some(core) => format!("core{core} {}", figure.value),
                None => figure.value.to_string(),
            })
            .collect();
        writeln!(out, "{name}: {}", parts.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        assert_eq!([10, 100_000, 20_000_000].map(bytes), ["0.6kB", "6.4MB", "1.28GB"]);
    }
}
