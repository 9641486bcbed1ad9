//! Table II: three `m_jump` profiled at three delays (algorithms.md G.5, X2).

use super::{DELAYS, TABLE_II, head, three_m_jumps};
use crate::figure::{Drawing, Figure};
use crate::findings::{Findings, Table, Verdict, number};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup, bars};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-table2",
    title: "the profile of three m_jump",
    summary: "Three m_jump with (C, T) = (20, 40), (25, 50) and (30, 60) ms on cores of their own \
              run for five minutes, monitored and not throttled, task1 and task2 slowed by a \
              delay before each store.",
    source: "MARACAS, Table II (section VI.B)",
    kind: Kind::Calibrates,
    free: "six fitted to these nine numbers: idle latency 29.2 ns and service time 12.9 ns of the \
           platform `i5-2500k`, 10.5 instructions per store of `m_jump`, the delays 71, 193 and \
           568 ns; two set by hand: one store outstanding, no time of its own between stores",
    fitted: "",
    run,
};

/// The profile at one delay.
pub(super) fn setup(name: &str, delay_ns: f64) -> Setup {
    let what = format!("MARACAS, Table II and Figure 5: three m_jump, delay {delay_ns} ns.");
    let params = "throttle = \"watch\"\n";
    Setup::new(name, head(&what, params, 300) + &three_m_jumps(delay_ns))
}

/// What Table II says of a run: traffic in GB, latency in cycles, instructions of task3 in 1e8.
pub(super) fn profile(run: &Run) -> [f64; 3] {
    [run.traffic_gb(), run.latency(), run.foreground("task3").instructions as f64 / 1e8]
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> =
        TABLE_II.iter().zip(DELAYS).map(|(row, delay)| setup(row.name, delay)).collect();
    let runs = lab.run(&setups)?;
    let mut table = Table::comparison("", "Five minutes, all of it", "case and quantity");
    let (mut groups, mut ratios) = (Vec::new(), Vec::new());
    for (row, run) in TABLE_II.iter().zip(&runs) {
        let published = [row.traffic_gb, row.latency, row.instructions];
        let what = ["traffic (GB)", "latency (cycles)", "task3 instructions (1e8)"];
        let short = ["traffic", "latency", "task3"];
        for (place, ours) in profile(run).into_iter().enumerate() {
            table.compare(format!("{} {}", row.name, what[place]), ours, Some(published[place]), 1);
            groups.push(format!("{} {}", row.name, short[place]));
            ratios.push(100.0 * ours / published[place]);
        }
    }
    let off = |ratio: &f64| relative(*ratio, 100.0).abs();
    let worst = ratios.iter().map(off).fold(0.0, f64::max);
    let mean = ratios.iter().map(off).sum::<f64>() / ratios.len() as f64;
    let numbers = format!(
        "largest difference {} %, mean {} %",
        number(worst * 100.0, 1),
        number(mean * 100.0, 1)
    );
    Ok(Findings {
        notes: vec!["One GB is 1e9 bytes.".into()],
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Table II: ours as a percentage of the published".into(),
            drawing: Drawing::Bars {
                axis: "% of the published".into(),
                groups,
                series: vec![("ours".into(), ratios)],
            },
        }],
        verdicts: vec![Verdict::new(
            "all nine numbers are within 3 %",
            worst <= bars::FITTED,
            numbers,
        )],
    })
}
