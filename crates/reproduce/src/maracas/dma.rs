//! Traffic that no core sees (section IV).

use super::{TABLE_II, head, list, m_jump, program};
use crate::figure::{Drawing, Figure};
use crate::findings::{Cell, Findings, Table, Verdict, number, percent};
use crate::stats::relative;
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-dma",
    title: "DMA traffic",
    summary: "The three m_jump of Table II at the delay of E3, where neither metric throttles, \
              without and with a device that streams through memory; not throttled, by rate with \
              the threshold of E2, and by latency with that of E2.",
    source: "MARACAS, section IV: core counters do not see DMA, the latency does; no numbers",
    kind: Kind::Predicts,
    free: "the device: 1 GB/s of reads in a stream, four outstanding, one write per read; the \
           delay of E3, 568 ns",
    fitted: super::M_JUMP_FIT,
    run,
};

/// Delay of task1 and task2: E3's.
const DELAY_NS: f64 = super::DELAYS[2];

const METRICS: [&str; 3] = ["watch", "rate", "latency"];

fn setup(device: bool, metric: &str) -> Setup {
    let with = if device { "with" } else { "without" };
    let what = format!("MARACAS, section IV: throttling by {metric}, {with} a device.");
    let row = &TABLE_II[1];
    let requests = (row.traffic_gb * 1e9 / 300.0 * 2.0 / 64.0).round() as u64;
    let params = format!(
        "throttle = \"{metric}\"\nmax_latency = {}\nmax_requests = {requests}\n",
        row.latency
    );
    let mut text = head(&what, &params, 300);
    if device {
        text += "\n[[device]]\nname = \"disk\"\npattern = \"seq\"\nbandwidth = \"1GB/s\"\n\
                 writes = 1\noutstanding = 4\n";
    }
    text += &program("task1", (20.0, 40.0), Some(0), &m_jump(DELAY_NS));
    text += &program("task2", (25.0, 50.0), Some(1), &m_jump(DELAY_NS));
    text += &program("task3", (30.0, 60.0), Some(2), &m_jump(0.0));
    Setup::new(format!("{with}-{metric}"), text)
}

/// Latency, requests of cores and all requests in 2 s (1e6), task3 (1e8), seconds throttled.
fn reading(run: &Run) -> [f64; 5] {
    let each = |requests: f64| requests / 1e6 / run.seconds() * 2.0;
    [
        run.latency(),
        each(run.requests_by_cores()),
        each(run.requests()),
        run.foreground("task3").instructions as f64 / 1e8,
        run.throttled_s(),
    ]
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let setups: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|device| METRICS.map(|metric| setup(device, metric)))
        .collect();
    let readings: Vec<_> = lab.run(&setups)?.iter().map(reading).collect();
    let mut table = Table::new(
        "",
        "Five minutes, thresholds of E2",
        &[
            "device and metric",
            "latency (cycles)",
            "requests in 2 s by cores (1e6)",
            "all (1e6)",
            "task3 foreground (1e8)",
            "throttled (s)",
        ],
    );
    let words = ["not throttled", "by rate", "by latency"];
    for (place, values) in readings.iter().enumerate() {
        let device = if place < METRICS.len() { "none" } else { "1 GB/s" };
        let mut row = vec![Cell::Text(format!("{device}, {}", words[place % METRICS.len()]))];
        let decimals = [1, 1, 1, 0, 0];
        row.extend(values.iter().zip(decimals).map(|(value, it)| Cell::Number(*value, it)));
        table.row(row);
    }
    let bars = |from: usize| readings[from..from + METRICS.len()].iter().map(|it| it[3]).collect();
    Ok(Findings {
        notes: Vec::new(),
        tables: vec![table],
        figures: vec![Figure {
            name: String::new(),
            title: "task3 beside a device, by metric".into(),
            drawing: Drawing::Bars {
                axis: "task3 foreground instructions (1e8)".into(),
                groups: words.map(String::from).to_vec(),
                series: vec![
                    ("without the device".into(), bars(0)),
                    ("with the device".into(), bars(METRICS.len())),
                ],
            },
        }],
        verdicts: verdicts(&readings),
    })
}

fn verdicts(readings: &[[f64; 5]]) -> Vec<Verdict> {
    let [alone, _, _, free, by_rate, by_latency] = readings else { return Vec::new() };
    vec![
        Verdict::new(
            "the device raises the latency above the threshold, unseen by the cores' counters",
            free[0] >= TABLE_II[1].latency && free[2] > free[1] * 1.1,
            format!(
                "{} cycles without and with; {} of {} 1e6 requests seen",
                list(&[alone[0], free[0]], 1),
                number(free[1], 1),
                number(free[2], 1)
            ),
        ),
        Verdict::new(
            "a rate metric does not throttle",
            by_rate[4] == 0.0,
            format!("{} s throttled", number(by_rate[4], 0)),
        ),
        Verdict::new(
            "latency throttles, and task3 gets further for it",
            by_latency[4] > 0.0 && by_latency[3] > by_rate[3],
            format!(
                "{} s throttled, task3 {}",
                number(by_latency[4], 0),
                percent(relative(by_latency[3], by_rate[3]))
            ),
        ),
    ]
}
