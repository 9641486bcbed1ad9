//! How the measurement is shown and written.

use super::host::Host;
use super::sets::Point;
use super::study::LockRow;
use super::{Args, Cell};
use maracas_stopwatch::Clock;
use maracas_sweep::primitives::{Primitive, Summary};
use maracas_trace::columns::Columns;
use maracas_trace::table::time;
use serde_json::{Value, json};

/// What every output says of how it came to be.
pub(super) struct Head {
    pub(super) host: Host,
    pub(super) clock: Clock,
    /// How, in one line.
    pub(super) how: String,
}

impl Head {
    /// The lines for people and for the heads of files.
    fn lines(&self) -> [String; 3] {
        let Clock { cost, resolution, .. } = self.clock;
        [
            self.host.line(),
            format!("clock: two readings {cost} ns, subtracted; resolution {resolution} ns"),
            self.how.clone(),
        ]
    }
    fn comment(&self, what: &str) -> String {
        let lines = self.lines().map(|line| format!("# {line}\n")).concat();
        format!("# {what} (docs/overheads.md)\n{lines}")
    }
}

/// The lines of a cell: primitives that were timed at all.
fn rows(cell: &Cell) -> impl Iterator<Item = (Primitive, Summary, Option<Summary>)> {
    Primitive::ALL.into_iter().filter_map(|primitive| {
        let warm = cell.warm.summary(primitive)?;
        Some((primitive, warm, cell.cold.summary(primitive)))
    })
}

/// For people.
pub(super) fn text(head: &Head, cells: &[Cell]) -> String {
    let text = head.lines().join("\n") + "\n\n";
    let point = ["policy", "cores", "tasks", "load", "primitive", "per job"];
    let figures = ["median", "mean", "p99", "p99.9", "max", "| cold median", "p99"];
    let mut table = Columns::new(point.into_iter().chain(figures)).left(&[4]);
    for cell in cells {
        let Point { cores, tasks, utilization } = cell.point;
        for (primitive, warm, cold) in rows(cell) {
            let ns = |ns: u32| time(f64::from(ns));
            let cold = |number: fn(&Summary) -> u32| {
                cold.as_ref().map_or("-".to_string(), |cold| ns(number(cold)))
            };
            table.row([
                cell.policy.to_string(),
                cores.to_string(),
                tasks.to_string(),
                format!("{utilization}%"),
                primitive.name().to_string(),
                format!("{:.2}", cell.warm.per_job(primitive)),
                ns(warm.median),
                time(warm.mean),
                ns(warm.p99),
                ns(warm.p999),
                ns(warm.max),
                cold(|cold| cold.median),
                cold(|cold| cold.p99),
            ]);
        }
    }
    text + &table.text(0) + &locks_text(cells)
}

fn locks_text(cells: &[Cell]) -> String {
    if cells.iter().all(|cell| cell.locks.is_empty()) {
        return String::new();
    }
    let point = ["policy", "cores", "tasks", "load", "lock", "locks", "cost"];
    let figures = ["schedule", "held", "waited", "mean", "p99", "max wait"];
    let mut table = Columns::new(point.into_iter().chain(figures)).left(&[4, 6]);
    for cell in cells {
        let Point { cores, tasks, utilization } = cell.point;
        for row in &cell.locks {
            let schedule = row.schedule.map_or(0, |summary| summary.median);
            table.row([
                cell.policy.to_string(),
                cores.to_string(),
                tasks.to_string(),
                format!("{utilization}%"),
                row.kind.to_string(),
                format!("{:.1}", row.locks),
                row.cost.to_string(),
                time(f64::from(schedule)),
                format!("{:.4}%", row.held * 100.0),
                format!("{:.2}%", row.waits.waited * 100.0),
                time(row.waits.mean),
                time(row.waits.p99 as f64),
                time(row.waits.max as f64),
            ]);
        }
    }
    format!("\n{}", table.text(0))
}

/// The costs as a table for programs.
pub(super) fn csv(head: &Head, cells: &[Cell]) -> String {
    let mut text = head.comment("cost of scheduling primitives");
    text += "policy,cores,tasks,utilization,sets,primitive,samples,per_job,median_ns,mean_ns,\
             p99_ns,p999_ns,max_ns,cold_samples,cold_median_ns,cold_mean_ns,cold_p99_ns,\
             cold_p999_ns,cold_max_ns\n";
    for cell in cells {
        let Point { cores, tasks, utilization } = cell.point;
        for (primitive, warm, cold) in rows(cell) {
            let cold = cold.map_or(",,,,,".to_string(), |cold| numbers(&cold).join(","));
            let [samples, warm @ ..] = numbers(&warm);
            text += &format!(
                "{},{cores},{tasks},{utilization},{},{},{samples},{:.3},{},{cold}\n",
                cell.policy,
                cell.sets,
                primitive.name(),
                cell.warm.per_job(primitive),
                warm.join(",")
            );
        }
    }
    text
}

fn numbers(summary: &Summary) -> [String; 6] {
    let Summary { samples, median, mean, p99, p999, max } = summary;
    [
        samples.to_string(),
        median.to_string(),
        format!("{mean:.1}"),
        p99.to_string(),
        p999.to_string(),
        max.to_string(),
    ]
}

/// The lock study as a table for programs.
pub(super) fn locks_csv(head: &Head, cells: &[Cell]) -> String {
    let mut text = head.comment("what locks around the scheduler would add");
    text += "policy,cores,tasks,utilization,sets,lock,locks,cost,schedule_median_ns,\
             schedule_p99_ns,release_median_ns,requests,waited,wait_mean_ns,wait_p99_ns,\
             wait_max_ns,held,held_busiest\n";
    for cell in cells {
        let Point { cores, tasks, utilization } = cell.point;
        for row in &cell.locks {
            let LockRow { kind, cost, locks, waits, held, held_busiest, .. } = row;
            let number = |of: Option<Summary>, number: fn(&Summary) -> u32| {
                of.map_or(String::new(), |summary| number(&summary).to_string())
            };
            text += &format!(
                "{},{cores},{tasks},{utilization},{},{kind},{locks:.2},{cost},{},{},{},{},{:.5},\
                 {:.1},{},{},{held:.3e},{held_busiest:.3e}\n",
                cell.policy,
                cell.sets,
                number(row.schedule, |summary| summary.median),
                number(row.schedule, |summary| summary.p99),
                number(row.release, |summary| summary.median),
                waits.requests,
                waits.waited,
                waits.mean,
                waits.p99,
                waits.max,
            );
        }
    }
    text
}

/// For programs that read JSON.
pub(super) fn to_json(head: &Head, args: &Args, cells: &[Cell]) -> String {
    let Host { cpu, cores, kernel, date, load } = &head.host;
    let cells: Vec<_> = cells.iter().map(cell_json).collect();
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": { "cpu": cpu, "cores": cores, "kernel": kernel, "date": date, "load": load },
        "clock_ns": head.clock.cost,
        "resolution_ns": head.clock.resolution,
        "seed": args.seed,
        "how": head.how,
        "cells": cells,
    });
    format!("{json:#}")
}

fn cell_json(cell: &Cell) -> Value {
    let summary = |summary: Option<Summary>| {
        summary.map(|s| {
            json!({
                "samples": s.samples, "median_ns": s.median, "mean_ns": s.mean, "p99_ns": s.p99,
                "p999_ns": s.p999, "max_ns": s.max,
            })
        })
    };
    let primitives = rows(cell).map(|(primitive, warm, cold)| {
        json!({
            "primitive": primitive.name(),
            "per_job": cell.warm.per_job(primitive),
            "warm": summary(Some(warm)),
            "cold": summary(cold),
        })
    });
    let locks = cell.locks.iter().map(|row| {
        json!({
            "lock": row.kind, "locks": row.locks, "cost": row.cost,
            "schedule": summary(row.schedule), "release": summary(row.release),
            "requests": row.waits.requests, "waited": row.waits.waited,
            "wait_mean_ns": row.waits.mean, "wait_p99_ns": row.waits.p99,
            "wait_max_ns": row.waits.max,
            "held": row.held, "held_busiest": row.held_busiest,
        })
    });
    let Point { cores, tasks, utilization } = cell.point;
    json!({
        "policy": cell.policy, "cores": cores, "tasks": tasks, "utilization": utilization,
        "sets": cell.sets,
        "primitives": primitives.collect::<Vec<_>>(),
        "locks": locks.collect::<Vec<_>>(),
    })
}
