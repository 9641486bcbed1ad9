//! `maracas doctor`: what this host can do.

use crate::failure::{Answer, Failure, Outcome};
use crate::output::{self, Paint, paint};
use maracas_live::host::classes::HostClass;
use maracas_live::host::doctor::{self, Report, Row};
use maracas_live::host::platform::Platform;
use maracas_live::host::probe::Capabilities;
use serde_json::json;

/// Try everything that live runs need on this host, and say what is missing
///
/// Example: maracas doctor
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The table as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let platform = Platform::detect().map_err(|error| Failure::about("this host", error))?;
    let found = Capabilities::probe(&platform.cores)
        .map_err(|error| Failure::about("this host cannot be probed", error))?;
    let report = doctor::report(&found);
    if args.json {
        output::line(&format!("{:#}", to_json(&report)))?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(Answer::Yes)
}

fn text(report: &Report) -> String {
    let width = |cell: fn(&Row) -> usize| report.rows.iter().map(cell).max().unwrap_or(0);
    let names = width(|row| row.capability.chars().count());
    let states = width(|row| row.state.chars().count());
    let mut text = format!("{}\n", report.machine);
    for row in &report.rows {
        let state = format!("{:states$}", row.state);
        let state = match row.state {
            "works" => paint(Paint::Good, &state),
            "missing" => paint(Paint::Bad, &state),
            _ => state,
        };
        text += &format!("  {:names$}  {state}  {}\n", row.capability, row.proof);
        let indent = " ".repeat(names + states + 6);
        if !row.remedy.is_empty() {
            text += &format!("{indent}remedy: {}\n", row.remedy);
        }
        if !row.fallback.is_empty() {
            text += &format!("{indent}instead: {}\n", row.fallback);
        }
    }
    text + &format!("live runs: {}\n", paint(Paint::Strong, &report.rung))
}

fn to_json(report: &Report) -> serde_json::Value {
    let row = |row: &Row| {
        json!({
            "capability": row.capability,
            "state": row.state,
            "proof": row.proof,
            "remedy": row.remedy,
            "fallback": row.fallback,
        })
    };
    let class = |class: &HostClass| {
        let cores: Vec<u32> = class.cores.iter().map(|core| core.0).collect();
        json!({ "speed_milli": class.speed_milli, "cores": cores })
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": report.machine,
        "rung": report.rung,
        "capabilities": report.rows.iter().map(row).collect::<Vec<_>>(),
        "classes": report.classes.classes.iter().map(class).collect::<Vec<_>>(),
        "classes_by": report.classes.how,
    })
}
