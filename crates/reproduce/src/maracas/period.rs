//! MEM_PERIOD: how often the monitor looks (section VI.B).

use super::fig6::DELAY_NS;
use super::{TABLE_II, head, list, m_jump, program};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-period",
    title: "MEM_PERIOD",
    summary: "The three m_jump of Table II throttled by latency with the threshold of E2, at \
              monitor periods from 10 ms to 5 s; task1 and task2 run steadily, or for 10 s of \
              CPU time between sleeps of 10 s.",
    source: "MARACAS, section VI.B: \"smaller values enabling finer-grained monitoring\", larger \
             ones lower overhead; MEM_PERIOD = 2 s, set empirically",
    kind: Kind::Predicts,
    free: "the delay of task1 and task2 (65 ns, as in maracas-fig6), the lengths of bursts and \
           sleeps, 10 us for a sample",
    fitted: super::M_JUMP_FIT,
    run,
};

/// MEM_PERIOD in milliseconds.
const PERIODS_MS: [u32; 9] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
/// What one look of the monitor costs, in microseconds (our choice).
const SAMPLE_US: u32 = 10;

fn setup(period: u32, bursts: bool) -> Setup {
    let kind = if bursts { "bursts" } else { "steady" };
    let what = format!("MARACAS, section VI.B: MEM_PERIOD {period} ms, {kind} load.");
    let latency = TABLE_II[1].latency;
    let params =
        format!("throttle = \"latency\"\nmax_latency = {latency}\nmem_period = \"{period}ms\"\n");
    let mut text = head(&what, &params, 300);
    text += &format!("\n[overheads]\nsample = \"{SAMPLE_US}us\"\n");
    let mut load = |name: &str, times: (f64, f64), core: u32| {
        let one = program(name, times, Some(core), &m_jump(DELAY_NS));
        let sleeps = "workload = { kind = \"run-sleep\", run = \"10s\", sleep = \"10s\" }";
        text += &if bursts { one.replace("workload = { kind = \"busy\" }", sleeps) } else { one };
    };
    load("task1", (20.0, 40.0), 0);
    load("task2", (25.0, 50.0), 1);
    text += &program("task3", (30.0, 60.0), Some(2), &m_jump(0.0));
    Setup::new(format!("{kind}-{period}ms"), text)
}

/// task3's foreground instructions in 1e8, all instructions in 1e8, latency, seconds throttled.
fn reading(run: &Run) -> [f64; 4] {
    let all: u64 = ["task1", "task2", "task3"].iter().map(|name| run.all(name).instructions).sum();
    let task3 = run.foreground("task3").instructions as f64 / 1e8;
    [task3, all as f64 / 1e8, run.latency(), run.throttled_s()]
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|bursts| PERIODS_MS.map(|period| setup(period, bursts)))
        .collect();
    let readings: Vec<_> = lab.run(&setups)?.iter().map(reading).collect();
    let (steady, bursts) = readings.split_at(PERIODS_MS.len());
    let columns = [
        "MEM_PERIOD (ms)",
        "steady: task3 (1e8)",
        "steady: all (1e8)",
        "steady: latency (cycles)",
        "steady: throttled (s)",
        "bursts: task3 (1e8)",
        "bursts: all (1e8)",
        "bursts: latency (cycles)",
        "bursts: throttled (s)",
    ];
    let mut table = Table::new("", "Five minutes by MEM_PERIOD", &columns);
    for (place, period) in PERIODS_MS.iter().enumerate() {
        let mut row = vec![Cell::Number(f64::from(*period), 0)];
        for [task3, all, latency, throttled] in [steady[place], bursts[place]] {
            row.extend([
                Cell::Number(task3, 1),
                Cell::Number(all, 1),
                Cell::Number(latency, 1),
                Cell::Number(throttled, 0),
            ]);
        }
        table.row(row);
    }
    let points = |readings: &[[f64; 4]]| -> Vec<(f64, f64)> {
        PERIODS_MS
            .iter()
            .map(|period| f64::from(*period))
            .zip(readings.iter().map(|it| it[0]))
            .collect()
    };
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "task3 by MEM_PERIOD".into(),
            drawing: Drawing::Lines {
                along: "MEM_PERIOD (ms, logarithmic)".into(),
                logarithmic: true,
                share: false,
                left: "task3 foreground instructions (1e8)".into(),
                right: None,
                lines: vec![
                    Line::new("steady load", points(steady)),
                    Line::new("bursts", points(bursts)),
                ],
            },
        }],
        verdicts: verdicts(steady, bursts),
    })
}

fn verdicts(steady: &[[f64; 4]], bursts: &[[f64; 4]]) -> Vec<Verdict> {
    let task3 = |readings: &[[f64; 4]], place: usize| readings[place][0];
    // 100 ms and above: below, periods of the tasks are as long as the monitor's.
    let long: Vec<f64> = steady[3..].iter().map(|it| it[0]).collect();
    let (low, high) = (
        long.iter().copied().fold(f64::INFINITY, f64::min),
        long.iter().copied().fold(0.0, f64::max),
    );
    let last = PERIODS_MS.len() - 1;
    vec![
        Verdict::new(
            "under a steady load MEM_PERIOD from 100 ms to 5 s hardly matters (within 5 %)",
            high / low - 1.0 <= 0.05,
            format!("task3 from {} to {} 1e8", number(low, 1), number(high, 1)),
        ),
        Verdict::new(
            "under bursts the longest period protects task3 less than 100 ms does",
            task3(bursts, last) < task3(bursts, 3),
            format!(
                "{} 1e8, {}",
                list(&[task3(bursts, 3), task3(bursts, last)], 1),
                percent(relative(task3(bursts, last), task3(bursts, 3)))
            ),
        ),
    ]
}
