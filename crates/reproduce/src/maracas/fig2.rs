//! Figure 2: the Sync Effect (section IV).

use super::{head, list, m_jump, program};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig2",
    title: "the Sync Effect",
    summary: "Three m_jump on cores of their own run for a part t/T of each period and are then \
              suspended (no background): with equal periods, so that they run and rest at the \
              same time, and with periods of 150, 100 and 50 ms, so that they do not.",
    source: "MARACAS, Figure 2 (section IV), a drawing without numbers; its claim: the rate falls \
             by t/T while the contention within t stays",
    kind: Kind::Predicts,
    free: "t/T from 100 to 20 %",
    fitted: super::M_JUMP_FIT,
    run,
};

/// Parts of the period in percent.
const PARTS: [u32; 6] = [100, 80, 60, 50, 40, 20];
const PERIODS: [(&str, [f64; 3]); 2] =
    [("equal", [100.0, 100.0, 100.0]), ("different", [150.0, 100.0, 50.0])];
const SECONDS: u32 = 60;

fn setup(part: u32, name: &str, periods: [f64; 3]) -> Setup {
    let what = format!("MARACAS, Figure 2: three m_jump for {part} % of {name} periods.");
    let params = "throttle = \"watch\"\nbackground = \"off\"\n";
    let mut text = head(&what, params, SECONDS);
    for (core, period) in periods.into_iter().enumerate() {
        let budget = period * f64::from(part) / 100.0;
        // Core 0 is left to the monitor, so that 100 % are admitted.
        let core = core as u32 + 1;
        text += &program(&format!("task{core}"), (budget, period), Some(core), &m_jump(0.0));
    }
    Setup::new(format!("{name}-{part}"), text)
}

/// What each metric reads, and how the tasks fare.
struct Reading {
    /// Million requests in two seconds: the rate metric per MEM_PERIOD.
    rate: f64,
    /// Mean latency in cycles: the latency metric.
    latency: f64,
    /// Million instructions of all three per second of their CPU time.
    speed: f64,
}

impl Reading {
    fn of(run: &Run) -> Self {
        let names = ["task1", "task2", "task3"];
        let sum = |of: fn(&Run, &str) -> f64| names.iter().map(|name| of(run, name)).sum::<f64>();
        let seconds = sum(|run, name| run.task(name).foreground_ns as f64 / 1e9);
        Self {
            rate: run.requests() / 1e6 * 2.0 / run.seconds(),
            latency: run.latency(),
            speed: sum(|run, name| run.foreground(name).instructions as f64) / 1e6 / seconds,
        }
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> = PERIODS
        .iter()
        .flat_map(|(name, periods)| PARTS.map(|part| setup(part, name, *periods)))
        .collect();
    let readings: Vec<Reading> = lab.run(&setups)?.iter().map(Reading::of).collect();
    let (equal, different) = readings.split_at(PARTS.len());
    let mut table = Table::new(
        "",
        "What the two metrics read, and how fast the tasks are",
        &[
            "t/T (%)",
            "equal: requests in 2 s (1e6)",
            "equal: latency (cycles)",
            "equal: instructions a CPU second (1e6)",
            "different: requests in 2 s (1e6)",
            "different: latency (cycles)",
            "different: instructions a CPU second (1e6)",
        ],
    );
    for (place, part) in PARTS.iter().enumerate() {
        let mut row = vec![Cell::Number(f64::from(*part), 0)];
        for reading in [&equal[place], &different[place]] {
            row.extend([
                Cell::Number(reading.rate, 1),
                Cell::Number(reading.latency, 1),
                Cell::Number(reading.speed, 1),
            ]);
        }
        table.row(row);
    }
    let points = |readings: &[Reading], value: fn(&Reading) -> f64| -> Vec<(f64, f64)> {
        let parts = PARTS.iter().map(|part| f64::from(*part));
        parts.zip(readings.iter().map(value)).rev().collect()
    };
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "Figure 2: suspended at the same time or not".into(),
            drawing: Drawing::Lines {
                along: "t/T (%)".into(),
                logarithmic: false,
                share: false,
                left: "latency (cycles)".into(),
                right: Some("requests in 2 s (1e6)".into()),
                lines: vec![
                    Line::new("latency, equal periods", points(equal, |it| it.latency)),
                    Line::new("latency, different periods", points(different, |it| it.latency)),
                    Line::new("requests, equal periods", points(equal, |it| it.rate))
                        .on_the_right(),
                ],
            },
        }],
        verdicts: verdicts(equal, different),
    })
}

fn verdicts(equal: &[Reading], different: &[Reading]) -> Vec<Verdict> {
    let (full, half) = (&equal[0], &equal[3]);
    let other = &different[3];
    let rates = relative(half.rate, full.rate * 0.5);
    vec![
        Verdict::new(
            "with equal periods the rate falls by t/T (half, within 2 %)",
            rates.abs() <= 0.02,
            format!("{} 1e6 requests in 2 s", list(&[full.rate, half.rate], 1)),
        ),
        Verdict::new(
            "the contention stays: latency and speed do not change (within 2 %)",
            relative(half.latency, full.latency).abs() <= 0.02
                && relative(half.speed, full.speed).abs() <= 0.02,
            format!(
                "{} cycles, {} 1e6 instructions a CPU second",
                list(&[full.latency, half.latency], 1),
                list(&[full.speed, half.speed], 1)
            ),
        ),
        Verdict::new(
            "with different periods the same t/T relieves the tasks, and latency sees it",
            other.latency < half.latency * 0.95 && other.speed > half.speed,
            format!(
                "{} cycles against {}, speed {}",
                number(other.latency, 1),
                number(half.latency, 1),
                percent(relative(other.speed, half.speed))
            ),
        ),
        Verdict::new(
            "a rate metric reads the less contended of the two as the busier",
            other.rate > half.rate,
            format!("{} against {} 1e6 requests", number(other.rate, 1), number(half.rate, 1)),
        ),
    ]
}
