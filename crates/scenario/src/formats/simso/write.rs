//! A task set as SimSo saves one (`configuration/GenerateConfiguration.py`).

use crate::error::counted;
use crate::formats::{Written, xml};
use crate::taskset::{TaskSet, is_sporadic, offset};
use maracas_core::Duration;
use std::collections::BTreeSet;
use std::fmt::Write;

/// One cycle a nanosecond, so that nothing is rounded.
const CYCLES_PER_MS: u64 = 1_000_000;
/// The horizon that we simulate where none is given.
const DURATION: Duration = Duration::from_secs(10);

pub(in crate::formats) fn write(set: &TaskSet) -> Written {
    let processors = processors(set);
    let mut text = format!("<?xml version=\"1.0\" ?>\n{}", xml::comments(&set.origin));
    let _ = write!(
        text,
        "<simulation duration=\"{}\" cycles_per_ms=\"{CYCLES_PER_MS}\" etm=\"wcet\">\n\
         \t<sched overhead=\"0\" overhead_activate=\"0\" overhead_terminate=\"0\" \
         class=\"simso.schedulers.EDF\"/>\n\
         \t<caches memory_access_time=\"100\"/>\n\t<processors>\n",
        DURATION.ticks(),
    );
    for id in 1..=processors {
        let _ = writeln!(
            text,
            "\t\t<processor name=\"CPU {id}\" id=\"{id}\" cl_overhead=\"0\" cs_overhead=\"0\" \
             speed=\"1.0\"/>"
        );
    }
    text += "\t</processors>\n\t<tasks>\n";
    let (names, renamed) = names(set);
    for (place, (task, name)) in set.tasks.iter().zip(&names).enumerate() {
        let r = task.reservation;
        let [offset, period, deadline, cost] =
            [offset(task), r.period, r.deadline, r.budget].map(in_millis);
        let _ = writeln!(
            text,
            "\t\t<task name=\"{}\" id=\"{}\" task_type=\"Periodic\" abort_on_miss=\"no\" \
             period=\"{period}\" activationDate=\"{offset}\" list_activation_dates=\"\" \
             deadline=\"{deadline}\" base_cpi=\"1.0\" instructions=\"0\" mix=\"0.5\" \
             WCET=\"{cost}\" ACET=\"0\" preemption_cost=\"0\" et_stddev=\"0\"/>",
            xml::escaped(name),
            place + 1,
        );
    }
    text += "\t</tasks>\n</simulation>\n";
    let run = format!(
        "a file of SimSo names the run too: EDF on {} for {DURATION} stands there; change it as \
         needed",
        counted(processors as usize, "processor")
    );
    Written { text, losses: losses(set, renamed), additions: vec![run] }
}

fn losses(set: &TaskSet, renamed: usize) -> Vec<String> {
    let mut losses = Vec::new();
    let sporadic = set.tasks.iter().filter(|task| is_sporadic(task)).count();
    if sporadic > 0 {
        losses.push(format!(
            "{} written as periodic: SimSo takes sporadic jobs from a list of dates only",
            counted(sporadic, "sporadic task")
        ));
    }
    if renamed > 0 {
        losses.push(format!(
            "{} with characters that SimSo refuses; `_` stands in their place",
            counted(renamed, "name")
        ));
    }
    losses
}

/// As many as the tasks need together.
fn processors(set: &TaskSet) -> u64 {
    /// Utilizations are summed in parts of this: 128 bits hold the sum of a hundred thousand.
    const PARTS: u128 = 1 << 64;
    let share = |r: maracas_core::Reservation| {
        let (cost, period) = (u128::from(r.budget.ticks()), u128::from(r.period.ticks()));
        // Shares below one core; a whole one must not gain a part by rounding up.
        if cost == period { PARTS } else { (cost << 64) / period }
    };
    let total: u128 = set.tasks.iter().map(|task| share(task.reservation)).sum();
    // Rounding down loses less than a part a task.
    (total.div_ceil(PARTS).max(1)) as u64
}

/// Names that SimSo takes (a letter, then letters, digits, blanks, `_` and `-`), no two alike, and
/// how many had to change.
fn names(set: &TaskSet) -> (Vec<String>, usize) {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-');
    let (mut known, mut renamed) = (BTreeSet::new(), 0);
    let taken = |name: String| {
        let mut good: String = name.chars().map(|c| if is_good(c) { c } else { '_' }).collect();
        if !good.starts_with(|c: char| c.is_ascii_alphabetic()) {
            good.insert(0, 'T');
        }
        while !known.insert(good.clone()) {
            good.push('_');
        }
        renamed += usize::from(good != name);
        good
    };
    let names = set.names().into_iter().map(taken).collect();
    (names, renamed)
}

/// A time as milliseconds. SimSo multiplies the float by the cycles of a millisecond and cuts;
/// where that would lose a nanosecond, half a one is added, which is cut again here and there.
fn in_millis(time: Duration) -> String {
    let (whole, rest) = (time.ticks() / CYCLES_PER_MS, time.ticks() % CYCLES_PER_MS);
    let exact = format!("{whole}.{rest:06}");
    let cycles = exact.parse::<f64>().map_or(0.0, |ms| ms * CYCLES_PER_MS as f64);
    if (cycles as u64) < time.ticks() {
        return format!("{exact}5");
    }
    let short = exact.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.into() }
}
