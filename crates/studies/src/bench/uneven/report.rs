//! How the measurement is shown.

use super::Measured;
use super::judge::{Alone, Got, MAX_FAIR, Row, Run};
use super::workers::WORKERS;
use crate::bench::verdict;
use maracas_trace::columns::Columns;
use serde_json::{Value, json};

/// Where the programs had less of the cores, it was not only the machine and the kernel (some 2 %)
/// that took the rest.
const QUIET: f64 = 0.95;

/// For people.
pub(super) fn text(measured: &Measured) -> String {
    let Measured { host, emulation, seconds, settle, .. } = measured;
    let mut text = format!(
        "{host}\n{emulation}\n{seconds} s under each policy, one program changes half-way; each \
         phase is judged from {settle} s after its begin\nunder max-fair: units a second by \
         those of equal parts of both cores, alone; else by those under max-fair\n\n"
    );
    let head = ["program", "phase", "true speedup", "estimated", "error"].map(String::from);
    let policies = measured.runs.iter().map(|run| run.policy.to_string());
    let mut table = Columns::new(head.into_iter().chain(policies));
    measured.rows.iter().for_each(|row| table.row(cells(measured, row)));
    let none = std::iter::repeat_n(String::new(), 4);
    let had = measured.had.iter().map(|had| format!("{:.1} %", had * 100.0));
    table.row(["had of both cores".to_string()].into_iter().chain(none).chain(had));
    text += &table.text(0);
    if measured.had.iter().any(|had| *had < QUIET) {
        text += "others ran beside, and not always as much; measure on a quiet host\n";
    }
    text.push('\n');
    text + &verdict::text(&measured.verdicts)
}

fn cells(measured: &Measured, row: &Row) -> Vec<String> {
    let shown = measured.shown;
    let estimate = row.got[shown].estimate;
    let (estimate, error) = estimate.map_or(("-".into(), "-".into()), |estimate| {
        (format!("{estimate:.3}"), format!("{:+.1} %", row.error(shown) * 100.0))
    });
    let (phase, speedup) = ((row.phase + 1).to_string(), format!("{:.3}", row.truth.speedup()));
    let mut cells = vec![row.name().to_string(), phase, speedup, estimate, error];
    let fair = measured.runs.iter().position(|run| run.policy == MAX_FAIR);
    for (run, Got { performance, .. }) in row.got.iter().enumerate() {
        let of_fair = fair.filter(|fair| *fair != run).map(|fair| row.of_fair(run, fair));
        cells.push(format!("{:.3}", of_fair.unwrap_or(*performance)));
    }
    cells
}

/// For programs.
pub(super) fn to_json(measured: &Measured) -> String {
    let json = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "host": measured.host,
        "emulation": measured.emulation,
        "seconds": measured.seconds,
        "settle_s": measured.settle,
        "target": measured.target,
        "part_of_cores": measured.had,
        "estimates": measured.runs.iter().map(of_run).collect::<Vec<_>>(),
        "programs": measured.rows.iter().map(|row| of_row(measured, row)).collect::<Vec<_>>(),
        "verdicts": verdict::to_json(&measured.verdicts),
        "holds": verdict::hold(&measured.verdicts),
    });
    format!("{json:#}")
}

/// What a policy took the speedups to be, change by change.
fn of_run(run: &Run) -> Value {
    let changes = run.reported.estimates().iter().map(|estimate| {
        let program = WORKERS.get(estimate.vcpu.0 as usize).map(|worker| worker.name);
        json!({ "at_ns": estimate.at, "program": program, "speedup": estimate.speedup })
    });
    json!({ "policy": run.policy, "changes": changes.collect::<Vec<_>>() })
}

fn of_row(measured: &Measured, row: &Row) -> Value {
    let got = row.got.iter().zip(&measured.runs).map(|(got, run)| {
        json!({
            "policy": run.policy,
            "estimate": got.estimate,
            "worst_error": got.worst,
            "performance": got.performance,
        })
    });
    json!({
        "program": row.name(),
        "phase": row.phase + 1,
        "fast": alone(row.truth.fast),
        "slow": alone(row.truth.slow),
        "speedup": row.truth.speedup(),
        "policies": got.collect::<Vec<_>>(),
    })
}

fn alone(Alone { per_core_second, per_second }: Alone) -> Value {
    json!({ "units_per_core_s": per_core_second, "units_per_s": per_second })
}
