//! Costs of scheduling primitives as `maracas bench primitives` measured and wrote them
//! (`docs/overheads.md`).

use crate::Error;
use std::collections::BTreeMap;

/// Measured costs: one line for each policy, platform, number of tasks, load and primitive.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    /// On which machine and when, as sentences.
    pub(super) origin: Vec<String>,
    pub(super) lines: Vec<Cost>,
    /// What locks around the policies would add.
    pub(super) locks: Vec<LockLine>,
}

/// What one primitive costs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Cost {
    pub(super) policy: String,
    pub(super) cores: u64,
    pub(super) tasks: u64,
    /// Load of the sets in percent of all cores.
    pub(super) utilization: u64,
    pub(super) primitive: String,
    /// How often it is done for each job.
    pub(crate) per_job: f64,
    /// In nanoseconds, warm.
    pub(crate) median: f64,
    pub(crate) mean: f64,
    pub(super) p99: f64,
    pub(crate) p999: f64,
    pub(super) max: f64,
    /// The median with cold caches, where it was measured.
    pub(super) cold_median: Option<f64>,
}

/// Lock waits: one line for each policy, platform, load, kind of lock and cost.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LockLine {
    pub(super) policy: String,
    pub(super) cores: u64,
    pub(super) tasks: u64,
    pub(super) utilization: u64,
    /// `global` or `hierarchy`.
    pub(super) lock: String,
    pub(super) locks: f64,
    /// With which cost the lock is held: a word such as `measured` or `median`.
    pub(super) cost: String,
    pub(super) schedule_median: f64,
    pub(super) waited: f64,
    pub(super) wait_mean: f64,
    pub(super) wait_p99: f64,
    pub(super) held_busiest: f64,
}

impl Costs {
    /// The costs that were recorded for the documents.
    pub(crate) fn recorded() -> Result<Self, Error> {
        let costs = include_str!("../../data/ecrts15-costs.csv");
        Self::parse(costs, include_str!("../../data/ecrts15-locks.csv"))
    }

    /// The costs that were recorded for the comparison, of its policies and platforms.
    pub(crate) fn recorded_for_the_comparison() -> Result<Self, Error> {
        Self::without_locks(include_str!("../../data/comparison-costs.csv"))
    }

    /// Reads the two tables that `maracas bench primitives --record` writes: costs and locks.
    ///
    /// # Errors
    /// Names the line and the column that is missing or no number.
    pub fn parse(costs: &str, locks: &str) -> Result<Self, Error> {
        Ok(Self { locks: lock_lines(locks)?, ..Self::without_locks(costs)? })
    }

    /// Reads the table that `maracas bench primitives --csv` writes.
    fn without_locks(costs: &str) -> Result<Self, Error> {
        let (origin, rows) = rows(costs)?;
        let lines = rows.iter().map(|row| {
            Ok(Cost {
                policy: row.word("policy")?,
                cores: row.number("cores")? as u64,
                tasks: row.number("tasks")? as u64,
                utilization: row.number("utilization")? as u64,
                primitive: row.word("primitive")?,
                per_job: row.number("per_job")?,
                median: row.number("median_ns")?,
                mean: row.number("mean_ns")?,
                p99: row.number("p99_ns")?,
                p999: row.number("p999_ns")?,
                max: row.number("max_ns")?,
                cold_median: match row.word("cold_median_ns")?.is_empty() {
                    true => None,
                    false => Some(row.number("cold_median_ns")?),
                },
            })
        });
        let lines = lines.collect::<Result<Vec<_>, Error>>()?;
        if lines.is_empty() {
            return Err(Error("the costs have no lines; measure them again".into()));
        }
        Ok(Self { origin, lines, locks: Vec::new() })
    }

    /// On which machine, when and how they were measured, as a sentence.
    pub(crate) fn said(&self) -> String {
        // The first line of the file's head says what it is.
        let reported: Vec<&str> = self.origin.iter().skip(1).map(String::as_str).collect();
        format!("{}.", reported.join("; "))
    }

    /// The lines of one primitive of one policy.
    pub(crate) fn of<'a>(
        &'a self,
        policy: &'a str,
        primitive: &'a str,
    ) -> impl Iterator<Item = &'a Cost> {
        let wanted = move |line: &&Cost| line.policy == policy && line.primitive == primitive;
        self.lines.iter().filter(wanted)
    }

    /// The line that was measured nearest to a system, by ratios of cores, tasks and loads.
    pub(crate) fn near<'a>(
        &'a self,
        policy: &'a str,
        primitive: &'a str,
        (cores, tasks, utilization): (u64, u64, u64),
    ) -> Option<&'a Cost> {
        let far = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).ln().abs();
        let distance = |line: &Cost| {
            let load = far(line.utilization, utilization);
            far(line.cores, cores) + far(line.tasks, tasks) + load
        };
        self.of(policy, primitive).min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// The lines of the lock study.
fn lock_lines(text: &str) -> Result<Vec<LockLine>, Error> {
    let line = |row: &Row<'_>| {
        Ok(LockLine {
            policy: row.word("policy")?,
            cores: row.number("cores")? as u64,
            tasks: row.number("tasks")? as u64,
            utilization: row.number("utilization")? as u64,
            lock: row.word("lock")?,
            locks: row.number("locks")?,
            cost: row.word("cost")?,
            schedule_median: row.number("schedule_median_ns")?,
            waited: row.number("waited")?,
            wait_mean: row.number("wait_mean_ns")?,
            wait_p99: row.number("wait_p99_ns")?,
            held_busiest: row.number("held_busiest")?,
        })
    };
    rows(text)?.1.iter().map(line).collect()
}

/// One line of a table: what stands in each column.
struct Row<'a> {
    number: usize,
    cells: BTreeMap<&'a str, &'a str>,
}

impl Row<'_> {
    fn word(&self, column: &str) -> Result<String, Error> {
        let missing = || Error(format!("line {} of the costs has no `{column}`", self.number));
        self.cells.get(column).map(|cell| (*cell).to_string()).ok_or_else(missing)
    }
    fn number(&self, column: &str) -> Result<f64, Error> {
        let (word, number) = (self.word(column)?, self.number);
        word.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| {
            Error(format!("line {number} of the costs: `{column}` is \"{word}\" and no number"))
        })
    }
}

/// The comment lines at the head, and the lines under the names of the columns.
fn rows(text: &str) -> Result<(Vec<String>, Vec<Row<'_>>), Error> {
    let comment = |line: &str| line.strip_prefix('#').map(|text| text.trim().to_string());
    let origin = text.lines().filter_map(comment).collect();
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#'));
    let Some((_, head)) = lines.next() else {
        return Err(Error("the costs are empty; measure them again".into()));
    };
    let cells = |line| str::split(line, ',').map(str::trim);
    let row = |(number, line)| Row { number, cells: cells(head).zip(cells(line)).collect() };
    Ok((origin, lines.map(row).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# a machine\npolicy,cores,tasks,utilization,primitive,per_job,median_ns,\
                        mean_ns,p99_ns,p999_ns,max_ns,cold_median_ns\n";

    const LOCKS: &str = "policy,cores\n";

    #[test]
    fn the_nearest_measurement_is_found() {
        let text = format!(
            "{HEAD}run,4,20,50,schedule,3,90,95,120,150,200,\nrun,16,100,50,schedule,3,190,195,\
             220,250,300,400\nrun,16,100,100,schedule,3,210,215,220,250,300,410\n"
        );
        let costs = Costs::parse(&text, LOCKS).unwrap();
        assert_eq!(costs.origin, ["a machine"]);
        let median = |at| costs.near("run", "schedule", at).map(|line| line.median);
        assert_eq!(median((4, 16, 60)), Some(90.0));
        assert_eq!(median((32, 128, 60)), Some(190.0));
        assert_eq!(median((32, 128, 90)), Some(210.0));
        assert!(costs.near("qps", "schedule", (4, 16, 60)).is_none());
        assert_eq!(costs.lines[0].cold_median, None);
    }

    #[test]
    fn what_is_no_table_of_costs_is_refused_with_its_line() {
        let reported = |text: &str| Costs::parse(text, LOCKS).expect_err("it is none").0;
        assert!(reported("").contains("empty") && reported(HEAD).contains("no lines"));
        let text = format!("{HEAD}run,4,20,50,schedule,3,many,95,120,150,200,\n");
        assert_eq!(reported(&text), "line 3 of the costs: `median_ns` is \"many\" and no number");
        assert!(reported("policy\nrun\n").contains("line 2 of the costs has no `cores`"));
    }

    #[test]
    fn the_recorded_costs_are_read() {
        let costs = Costs::recorded().unwrap();
        assert!(!costs.origin.is_empty() && costs.near("run", "schedule", (16, 100, 90)).is_some());
        assert!(costs.locks.iter().any(|line| line.lock == "global"));
    }
}
