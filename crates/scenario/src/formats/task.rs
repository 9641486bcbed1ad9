//! What all formats have in common: one task as it is written, its checks, and what is said of
//! that which a task set cannot mean.

use crate::error::{Error, Source};
use maracas_core::{Arrival, Duration, Vcpu};

/// The most tasks that one file may mean: an `instance` of a billion must not eat the memory.
pub(crate) const MOST_TASKS: usize = 100_000;

/// A time of the file: its key, where its value stands, the value as people write it, and in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) label: &'static str,
    pub(crate) at: usize,
    pub(crate) text: String,
    pub(crate) time: Duration,
}

/// A task before it is checked.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) cost: Given,
    pub(crate) period: Given,
    /// `None` = the period.
    pub(crate) deadline: Option<Given>,
    /// `None` = 0.
    pub(crate) offset: Option<Given>,
    pub(crate) sporadic: bool,
}

impl Draft {
    /// The task, if 0 < C <= D <= T.
    pub(crate) fn task(&self, source: &Source<'_>, id: u32) -> Result<Vcpu, Error> {
        let Self { cost, period, deadline, .. } = self;
        let error = |given: &Given, message: String| Err(source.error(given.at, message));
        for given in [Some(cost), Some(period), deadline.as_ref()].into_iter().flatten() {
            if given.time.is_zero() {
                let label = given.label;
                let message = format!("{label} must be above zero; raise it or drop the task");
                return error(given, message);
            }
        }
        let shown = |given: &Given| format!("{} {}", given.label, given.text);
        let (c, t) = (shown(cost), shown(period));
        if cost.time > period.time {
            let ways = "lower the cost or raise the period";
            return error(cost, format!("{c} exceeds {t}; {ways}"));
        }
        if let Some(deadline) = deadline {
            let d = shown(deadline);
            if deadline.time > period.time {
                let ways = "lower it or raise the period";
                return error(deadline, format!("{d} exceeds {t}; {ways}"));
            }
            if cost.time > deadline.time {
                let ways = "raise it or lower the cost";
                return error(deadline, format!("{d} is shorter than {c}; {ways}"));
            }
        }
        let mut vcpu = Vcpu::new(id, cost.time, period.time);
        vcpu.reservation.deadline = deadline.as_ref().map_or(period.time, |given| given.time);
        let offset = self.offset.as_ref().map_or(Duration::ZERO, |given| given.time);
        let periodic = Arrival::Periodic { offset };
        vcpu.arrival = if self.sporadic { Arrival::Sporadic } else { periodic };
        Ok(vcpu)
    }
}

/// What of a name cannot stand in a table of comma-separated values, in words.
pub(crate) fn name_fault(name: &str) -> Option<&'static str> {
    if name.contains(is_bad) {
        return Some("holds a comma, a hash, a quote or a control character");
    }
    (name.trim() != name).then_some("begins or ends with a blank")
}

/// `name` with such characters replaced.
pub(crate) fn clean_name(name: &str) -> String {
    name.trim().replace(is_bad, "_")
}

fn is_bad(c: char) -> bool {
    matches!(c, ',' | '#' | '"') || c.is_control()
}

/// What is left aside, and of which tasks.
#[derive(Default, Debug)]
pub(crate) struct Asides(Vec<(String, Vec<String>)>);

impl Asides {
    /// Of the whole file.
    pub(crate) fn add(&mut self, what: impl Into<String>) {
        self.0.push((what.into(), Vec::new()));
    }
    /// Of one task; the same sentence about several tasks becomes one.
    pub(crate) fn of(&mut self, what: &str, task: &str) {
        match self.0.iter_mut().find(|(known, tasks)| known == what && !tasks.is_empty()) {
            Some((_, tasks)) if tasks.last().is_some_and(|last| last == task) => {}
            Some((_, tasks)) => tasks.push(task.into()),
            None => self.0.push((what.into(), vec![task.into()])),
        }
    }
    /// As sentences, each after the names of its tasks.
    pub(crate) fn notes(self) -> Vec<String> {
        /// As many names as people read.
        const SHOWN: usize = 3;
        let note = |(what, tasks): (String, Vec<String>)| {
            if tasks.is_empty() {
                return what;
            }
            let shown = tasks.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = tasks.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{shown}{more}: {what}").replace(char::is_control, " ")
        };
        self.0.into_iter().map(note).collect()
    }
}
