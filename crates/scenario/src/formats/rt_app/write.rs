//! A task set as a workload of rt-app.

use super::{DEADLINE, ORIGIN};
use crate::error::counted;
use crate::formats::{Style, Written};
use crate::taskset::{TaskSet, is_sporadic, offset};
use maracas_core::{Duration, Vcpu};
use std::fmt::Write;

/// rt-app keeps microseconds in 32 bits with a sign.
const LONGEST_US: u64 = i32::MAX as u64;

/// A task in whole microseconds.
struct Thread {
    cost: u64,
    period: u64,
    deadline: u64,
    delay: u64,
    rounded: bool,
}

pub(in crate::formats) fn write(set: &TaskSet, style: Style) -> Result<Written, String> {
    let names = set.names();
    let threads: Vec<Thread> = set
        .tasks
        .iter()
        .zip(&names)
        .map(|(task, name)| thread(task).map_err(|why| format!("{name} {why}")))
        .collect::<Result<_, _>>()?;
    let mut text = String::from("{\n");
    if !set.origin.is_empty() {
        let lines: Vec<String> = set.origin.iter().map(|line| quoted(line)).collect();
        let _ = writeln!(text, "\t\"{ORIGIN}\": [\n\t\t{}\n\t],", lines.join(",\n\t\t"));
    }
    text += "\t\"tasks\": {\n";
    for (place, (thread, name)) in threads.iter().zip(&names).enumerate() {
        let Thread { cost, period, deadline, delay, .. } = thread;
        let _ = writeln!(text, "\t\t{}: {{", quoted(name));
        if style.deadline_class {
            let _ = writeln!(
                text,
                "\t\t\t\"policy\": \"{DEADLINE}\",\n\t\t\t\"dl-runtime\": {cost},\n\t\t\t\
                 \"dl-period\": {period},\n\t\t\t\"dl-deadline\": {deadline},"
            );
        }
        let comma = if place + 1 < threads.len() { "," } else { "" };
        let _ = writeln!(
            text,
            "\t\t\t\"loop\": -1,\n\t\t\t\"delay\": {delay},\n\t\t\t\"run\": {cost},\n\t\t\t\
             \"timer\": {{ \"ref\": \"unique\", \"period\": {period}, \"mode\": \"absolute\" }}\n\
             \t\t}}{comma}"
        );
    }
    text += "\t},\n\t\"global\": {\n\t\t\"duration\": 10,\n\t\t\"calibration\": \"CPU0\",\n\t\t\
             \"default_policy\": \"SCHED_OTHER\",\n\t\t\"logdir\": \"./\",\n\t\t\
             \"log_basename\": \"rt-app\",\n\t\t\"lock_pages\": false,\n\t\t\
             \"ftrace\": \"none\",\n\t\t\"gnuplot\": false\n\t}\n}\n";
    Ok(Written { text, losses: losses(set, &threads, style), ..Written::default() })
}

fn losses(set: &TaskSet, threads: &[Thread], style: Style) -> Vec<String> {
    let mut losses = Vec::new();
    let rounded = threads.iter().filter(|thread| thread.rounded).count();
    if rounded > 0 {
        losses.push(format!(
            "{} with fractions of a microsecond: costs are rounded up, periods and deadlines down",
            counted(rounded, "task")
        ));
    }
    let sporadic = set.tasks.iter().filter(|task| is_sporadic(task)).count();
    if sporadic > 0 {
        let tasks = counted(sporadic, "sporadic task");
        losses.push(format!("{tasks} made periodic: rt-app has timers only"));
    }
    let early = |task: &&Vcpu| task.reservation.deadline < task.reservation.period;
    let early = set.tasks.iter().filter(early).count();
    if early > 0 && !style.deadline_class {
        losses.push(format!(
            "{} before the end of the period lost without --deadline-class",
            counted(early, "deadline")
        ));
    }
    losses
}

fn thread(task: &Vcpu) -> Result<Thread, String> {
    let r = task.reservation;
    let whole =
        [r.budget, r.period, r.deadline, offset(task)].map(|time| time.ticks() % 1_000 == 0);
    let (up, down) =
        (|time: Duration| time.ticks().div_ceil(1_000), |time: Duration| time.ticks() / 1_000);
    let thread = Thread {
        cost: up(r.budget),
        period: down(r.period),
        deadline: down(r.deadline),
        delay: down(offset(task)),
        rounded: whole != [true; 4],
    };
    if thread.cost > thread.deadline {
        return Err(format!(
            "needs {} by {} and rt-app knows whole microseconds only; scale the set up",
            r.budget, r.deadline
        ));
    }
    if thread.period.max(thread.delay) > LONGEST_US {
        return Err(format!(
            "has a time above {LONGEST_US} us, the longest of rt-app (32 bits); shorten it"
        ));
    }
    Ok(thread)
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
