//! What threads with scripts came to, beside what their VCPUs were given.

use crate::case::Case;
use maracas_core::Duration;
use maracas_sim::script::{AtEnd, ThreadOutcome};
use maracas_trace::table::time;
use serde_json::{Value, json};
use std::fmt::Write;

const HEAD: [&str; 9] = [
    "thread",
    "worked",
    "loops",
    "active",
    "resp mean",
    "resp max",
    "locks",
    "lock mean",
    "lock max",
];

/// The threads of a run, by name.
pub struct Threads {
    threads: Vec<(String, ThreadOutcome)>,
    ticks_per_ns: u64,
}

impl Threads {
    /// What the threads of `case` came to.
    pub fn new(case: &Case, acted: &[ThreadOutcome]) -> Self {
        let names = case.names.iter().cloned();
        Self {
            threads: names.zip(acted.iter().cloned()).collect(),
            ticks_per_ns: case.system.ticks_per_ns,
        }
    }

    /// A table, a line for each thread, and what held them up in the end.
    pub fn text(&self) -> String {
        let mut rows = vec![HEAD.map(String::from)];
        rows.extend(self.threads.iter().map(|(name, acted)| self.row(name, acted)));
        let width = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let mut text = String::new();
        for (place, row) in rows.iter().enumerate() {
            let _ = write!(text, "{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                let _ = write!(text, "  {cell:>width$}");
            }
            let end = place.checked_sub(1).map_or("at the end".into(), |at| self.at_end(at));
            let _ = writeln!(text, "  {end}");
        }
        let ends = || self.threads.iter().map(|(_, acted)| &acted.at_end);
        let over = |end: &AtEnd| matches!(end, AtEnd::Over | AtEnd::Unforked);
        if ends().all(over) {
            text += "all threads were done\n";
        } else if ends().all(|end| over(end) || matches!(end, AtEnd::Waits(..))) {
            text += "every thread that is not done waits for another: nothing goes on\n";
        }
        let unforked: u64 = self.threads.iter().map(|(_, acted)| acted.unforked).sum();
        if unforked > 0 {
            let _ = writeln!(text, "{unforked} forks were not done: all forked threads still ran");
        }
        text
    }

    fn ns(&self, time: Duration) -> u64 {
        time.ticks() / self.ticks_per_ns
    }

    fn row(&self, name: &str, acted: &ThreadOutcome) -> [String; 9] {
        let shown = |it: Duration| time(self.ns(it) as f64);
        let mean = |sum: Duration, count: u64| match count {
            0 => "-".to_string(),
            count => time(self.ns(sum) as f64 / count as f64),
        };
        [
            name.into(),
            shown(acted.work),
            acted.loops.to_string(),
            acted.activations.to_string(),
            mean(acted.response_sum, acted.activations),
            shown(acted.response_max),
            acted.lock_waits.to_string(),
            mean(acted.lock_sum, acted.lock_waits),
            shown(acted.lock_max),
        ]
    }

    fn at_end(&self, place: usize) -> String {
        match &self.threads[place].1.at_end {
            AtEnd::Unforked => "not forked".into(),
            AtEnd::Ready => "has work".into(),
            AtEnd::Sleeps => "sleeps".into(),
            AtEnd::Over => "done".into(),
            AtEnd::Waits(what, since) => {
                let ns = since.ticks() / self.ticks_per_ns;
                format!("waits for {what} since {}", time(ns as f64))
            }
        }
    }

    /// The same for programs; times are nanoseconds.
    pub fn to_json(&self) -> Value {
        let thread = |(place, (name, acted)): (usize, &(String, ThreadOutcome))| {
            json!({
                "name": name,
                "work_ns": self.ns(acted.work),
                "loops": acted.loops,
                "activations": acted.activations,
                "response_sum_ns": self.ns(acted.response_sum),
                "response_max_ns": self.ns(acted.response_max),
                "lock_waits": acted.lock_waits,
                "lock_sum_ns": self.ns(acted.lock_sum),
                "lock_max_ns": self.ns(acted.lock_max),
                "unforked": acted.unforked,
                "at_end": self.at_end(place),
            })
        };
        self.threads.iter().enumerate().map(thread).collect()
    }
}
