//! What is shown while a run goes on: on a terminal a small table that is rewritten once a second,
//! elsewhere a plain line now and then. On standard error, so that the closing table can be piped.

use maracas_console::output;
use maracas_core::Instant;
use maracas_core::journal::Record;
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use maracas_trace::{Metrics, Report};
use std::time;

/// Between two refreshes on a terminal.
const REFRESH: time::Duration = time::Duration::from_secs(1);

/// Between two plain lines.
const PLAIN: time::Duration = time::Duration::from_secs(5);

/// The view of one run.
pub(crate) struct View {
    terminal: bool,
    last: time::Instant,
    /// Instant of the latest record.
    now: Instant,
    lines: usize,
    before: Option<Report>,
}

impl View {
    /// Nothing shown yet.
    pub(crate) fn new() -> Self {
        let terminal = output::errors_on_terminal();
        let (last, now) = (time::Instant::now(), Instant::ZERO);
        Self { terminal, last, now, lines: 0, before: None }
    }

    /// Notes how far the run is.
    pub(crate) fn saw(&mut self, record: &Record) {
        let at = match record {
            Record::Event { at, .. } | Record::Note { at, .. } | Record::End(at) => *at,
            Record::Planned(decision) => decision.now,
            Record::Gap(_) => return,
        };
        self.now = self.now.max(at);
    }

    /// Shows the state where it is time to.
    pub(crate) fn refresh(&mut self, metrics: &Metrics) {
        let every = if self.terminal { REFRESH } else { PLAIN };
        if self.last.elapsed() < every {
            return;
        }
        self.last = time::Instant::now();
        let report = metrics.report(self.now);
        if self.terminal {
            self.clear();
            let text = table(&report, self.before.as_ref());
            self.lines = text.lines().count();
            output::status(&text);
        } else {
            output::note(&plain(&report));
        }
        self.before = Some(report);
    }

    /// Takes the table off the terminal.
    pub(crate) fn clear(&mut self) {
        if self.lines > 0 {
            // Up by so many lines, then erase to the end of the screen.
            output::status(&format!("\x1b[{}A\x1b[J", self.lines));
            self.lines = 0;
        }
    }
}

/// One line: how far, and each VCPU's share of its core.
fn plain(report: &Report) -> String {
    let each: Vec<_> = report
        .tasks
        .iter()
        .map(|task| format!("{} {:.1} %", task.name, task.share * 100.0))
        .collect();
    let seconds = report.duration_ns as f64 / 1e9;
    format!("{seconds:.0} s: {}; {} misses", each.join(", "), report.total.misses)
}

/// One row per VCPU: shares since the last refresh, sums since the start.
fn table(report: &Report, before: Option<&Report>) -> String {
    let span = report.duration_ns - before.map_or(0, |before| before.duration_ns);
    let at = format!("at {:.0} s", report.duration_ns as f64 / 1e9);
    let head = ["vcpu", "fg %", "bg %", "foreground", "background", "misses", &at];
    let mut table = Columns::new(head);
    for task in &report.tasks {
        let old = before.and_then(|before| before.tasks.iter().find(|old| old.id == task.id));
        let part = |now: u64, old: Option<u64>| {
            now.saturating_sub(old.unwrap_or(0)) as f64 * 100.0 / span.max(1) as f64
        };
        let percent = |now, old| format!("{:.1}", part(now, old));
        table.row([
            task.name.clone(),
            percent(task.foreground_ns, old.map(|old| old.foreground_ns)),
            percent(task.background_ns, old.map(|old| old.background_ns)),
            time(task.foreground_ns as f64),
            time(task.background_ns as f64),
            task.misses.to_string(),
        ]);
    }
    table.text(0)
}
