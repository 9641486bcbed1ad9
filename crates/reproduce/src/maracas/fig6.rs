//! Figure 6: rate-based against latency-based throttling (algorithms.md G.5, X3).

use super::{Row, TABLE_II, fig5, head, three_m_jumps};
use crate::figure::{Drawing, Figure, Line};
use crate::findings::{Cell, Findings, Table, Verdict, number};
use crate::stats::{Mean, relative};
use crate::{Error, Experiment, Kind, Lab, Run, Setup};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "maracas-fig6",
    title: "rate-based against latency-based throttling",
    summary: "The three m_jump of Table II with throttling, at one delay for all runs: by latency \
              with thresholds of 228, 183 and 157 cycles, or by rate with the traffic of the same \
              rows in two seconds; task3's foreground instructions, against what task3 comes to at \
              these latencies in our own profile (maracas-fig5). Then the same at every delay from \
              0 to 100 ns, and with what else the paper \
              leaves open.",
    source: "MARACAS, Figure 6 (section VI.B); of the bars only their order is printed",
    kind: Kind::Predicts,
    free: "the one delay of task1 and task2, which the paper does not give (65 ns, a little \
           heavier than the 71 ns of E1), and IDLE_MEM = 1/2; both are swept",
    fitted: super::M_JUMP_FIT,
    run,
};

/// The one delay, in nanoseconds: heavy contention without any throttling.
pub(super) const DELAY_NS: f64 = 65.0;
/// Where what else may differ is tried: at the first delay at which two cases are as published.
const VARIANTS_AT_NS: f64 = 75.0;
/// Between two delays of the window.
const STEP_NS: f64 = 5.0;
/// What else may differ, as lines of TOML, at the one delay; the first is everywhere.
const VARIANTS: [(&str, &str); 8] = [
    ("IDLE_MEM 1/2", ""),
    ("IDLE_MEM 1/4", "idle_mem = 0.25\n"),
    ("IDLE_MEM 5/8", "idle_mem = 0.625\n"),
    ("IDLE_MEM 3/4", "idle_mem = 0.75\n"),
    ("IDLE_MEM 9/10", "idle_mem = 0.9\n"),
    ("MEM_PERIOD 0.2 s", "mem_period = \"200ms\"\n"),
    ("MEM_PERIOD 5 s", "mem_period = \"5s\"\n"),
    ("as printed", "published = true\n"),
];

/// The delays of the window, in nanoseconds.
fn delays() -> Vec<f64> {
    (0..=20).map(|step| f64::from(step) * STEP_NS).collect()
}

/// Requests in `seconds` at the traffic of `row`: GB of 300 s in lines of 64 bytes (section VI.B
/// derives its rates so).
fn rate_threshold(row: &Row, seconds: f64) -> u64 {
    (row.traffic_gb * 1e9 / 300.0 * seconds / 64.0).round() as u64
}

/// MEM_PERIOD of a variant in seconds.
fn period_s(variant: usize) -> f64 {
    match VARIANTS[variant].0 {
        "MEM_PERIOD 0.2 s" => 0.2,
        "MEM_PERIOD 5 s" => 5.0,
        _ => 2.0,
    }
}

/// Ways to throttle: by requests, by latency.
const METRICS: [&str; 2] = ["rate", "latency"];
const RATE: usize = 0;
const LATENCY: usize = 1;

/// Runs of one delay.
const RUNS: usize = METRICS.len() * TABLE_II.len();

fn throttled(metric: usize, row: &Row, period_s: f64) -> String {
    if metric == RATE {
        format!("throttle = \"rate\"\nmax_requests = {}\n", rate_threshold(row, period_s))
    } else {
        format!("throttle = \"latency\"\nmax_latency = {}\n", row.latency)
    }
}

/// One row of Table II by one metric.
fn setup(delay: f64, row: &Row, metric: usize, variant: usize) -> Setup {
    let params = throttled(metric, row, period_s(variant)) + VARIANTS[variant].1;
    let metric = METRICS[metric];
    let what = format!("MARACAS, Figure 6: {} by {metric}, delay {delay} ns.", row.name);
    let mut name = format!("{}-{metric}-delay-{delay}ns", row.name.to_lowercase());
    if variant > 0 {
        name += &format!("-variant-{variant}");
    }
    Setup::new(name, head(&what, &params, 300) + &three_m_jumps(delay))
}

fn setups(delay: f64, variant: usize) -> impl Iterator<Item = Setup> {
    let metrics = 0..METRICS.len();
    let rows = TABLE_II.iter().flat_map(move |row| metrics.clone().map(move |it| (row, it)));
    rows.map(move |(row, metric)| setup(delay, row, metric, variant))
}

/// What a run came to.
#[derive(Clone, Copy)]
struct Outcome {
    /// task3's foreground instructions in 1e8.
    task3: f64,
    /// Seconds that cores were throttled, all together.
    throttled_s: f64,
    /// What the two metrics read: traffic in GB, mean latency in cycles.
    read: [f64; 2],
}

impl Outcome {
    fn of(run: &Run) -> Self {
        Self {
            task3: run.foreground("task3").instructions as f64 / 1e8,
            throttled_s: run.throttled_s(),
            read: [run.traffic_gb(), run.latency()],
        }
    }
}

/// The runs of one delay: for each row of Table II by each metric, and what is expected there.
struct AtDelay(Vec<([Outcome; 2], f64)>);

impl AtDelay {
    fn of(runs: &[Outcome], expected: &[f64]) -> Self {
        let rows = runs.chunks(METRICS.len()).map(|row| [row[RATE], row[LATENCY]]);
        Self(rows.zip(expected.iter().copied()).collect())
    }
    /// What the paper's bars show in the row at `place`: latency-based above expected in E1 and E2
    /// and below in E3, rate-based below everywhere, and less than latency-based.
    fn as_published(&self, place: usize) -> bool {
        let ([rate, latency], expected) = self.0[place];
        rate.task3 < expected
            && (latency.task3 > expected) == (place < 2)
            && latency.task3 > rate.task3
    }
    /// The names of the rows that are as published.
    fn held(&self) -> String {
        let held = (0..TABLE_II.len()).filter(|place| self.as_published(*place));
        held.map(|place| TABLE_II[place].name).collect::<Vec<_>>().join(" ")
    }
    /// Where both throttle, latency gives task3 at least what rate gives.
    fn latency_wins(&self) -> bool {
        self.0.iter().all(|([rate, latency], _)| {
            let both = rate.throttled_s > 0.0 && latency.throttled_s > 0.0;
            !both || latency.task3 >= rate.task3
        })
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let profiles = fig5::profiles(lab)?;
    let curve: Vec<(f64, f64)> = profiles.iter().rev().map(|it| (it[1], it[2])).collect();
    let expected = TABLE_II.map(|row| fig5::interpolated(&curve, row.latency));
    let all: Vec<_> = delays().into_iter().flat_map(|delay| setups(delay, 0)).collect();
    let outcomes: Vec<Outcome> = lab.run(&all)?.iter().map(Outcome::of).collect();
    let window: Vec<AtDelay> =
        outcomes.chunks(RUNS).map(|runs| AtDelay::of(runs, &expected)).collect();
    let others: Vec<_> =
        (1..VARIANTS.len()).flat_map(|variant| setups(VARIANTS_AT_NS, variant)).collect();
    let others: Vec<Outcome> = lab.run(&others)?.iter().map(Outcome::of).collect();
    let others: Vec<AtDelay> =
        others.chunks(RUNS).map(|runs| AtDelay::of(runs, &expected)).collect();
    let at = |wanted: f64| {
        let place = delays().iter().position(|delay| *delay == wanted);
        &window[place.unwrap_or(0)]
    };
    let chosen = at(DELAY_NS);
    let off = [0, 1].map(|reading| promises(&profiles, &outcomes, reading));
    let variants: Vec<&AtDelay> = [at(VARIANTS_AT_NS)].into_iter().chain(&others).collect();
    Ok(Findings {
        notes: vec![
            format!(
                "Thresholds: {} cycles against {} million requests of 64 bytes in MEM_PERIOD = 2 \
                 s.",
                super::list(&TABLE_II.map(|row| row.latency), 0),
                super::list(&TABLE_II.map(|row| rate_threshold(&row, 2.0) as f64 / 1e6), 1)
            ),
            "The paper does not say what its rate counts. Were it the cores' misses against a \
             threshold taken from all traffic, it would never throttle here, half of the traffic \
             being write-backs, and every bar would be as published; but that would be latency \
             against nothing, and is not counted."
                .into(),
        ],
        tables: vec![bars_table(chosen), window_table(&window), variants_table(&variants)],
        figures: vec![bars(chosen), lines(&window)],
        verdicts: verdicts(chosen, &window, &variants, off),
    })
}

/// How far throttled runs are on average from what the profile of Figure 5 promises task3 at the
/// reading of traffic (0) or latency (1): the mean of |ours / promised - 1|.
fn promises(profiles: &[[f64; 3]], outcomes: &[Outcome], reading: usize) -> f64 {
    let mut curve: Vec<(f64, f64)> = profiles.iter().map(|it| (it[reading], it[2])).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let throttled = outcomes.iter().filter(|it| it.throttled_s > 0.0);
    let off: Vec<f64> = throttled
        .map(|it| relative(it.task3, fig5::interpolated(&curve, it.read[reading])).abs())
        .collect();
    Mean::of(&off).mean
}

fn bars_table(chosen: &AtDelay) -> Table {
    let title = format!("task3's foreground instructions (1e8), delay {DELAY_NS} ns");
    let columns = [
        "case",
        "rate",
        "latency",
        "expected (our profile)",
        "expected (published)",
        "rate throttled (s)",
        "latency throttled (s)",
    ];
    let mut table = Table::new("", &title, &columns);
    for (row, (runs, expected)) in TABLE_II.iter().zip(&chosen.0) {
        let mut cells = vec![Cell::text(row.name)];
        cells.extend(runs.iter().map(|it| Cell::Number(it.task3, 0)));
        cells.extend([Cell::Number(*expected, 0), Cell::Number(row.instructions, 0)]);
        cells.extend(runs.iter().map(|it| Cell::Number(it.throttled_s, 0)));
        table.row(cells);
    }
    table
}

const CASES: [&str; 6] =
    ["E1 rate", "E1 latency", "E2 rate", "E2 latency", "E3 rate", "E3 latency"];

fn window_table(window: &[AtDelay]) -> Table {
    let columns: Vec<&str> =
        ["delay (ns)"].into_iter().chain(CASES).chain(["as published"]).collect();
    let mut table = Table::new("window", "The same at every delay", &columns);
    for (delay, runs) in delays().into_iter().zip(window) {
        table.row(cases(Cell::Number(delay, 0), runs));
    }
    table
}

fn variants_table(variants: &[&AtDelay]) -> Table {
    let columns: Vec<&str> =
        ["what differs"].into_iter().chain(CASES).chain(["as published"]).collect();
    let title = format!("The same with what else may differ, delay {VARIANTS_AT_NS} ns");
    let mut table = Table::new("variants", &title, &columns);
    for ((name, _), runs) in VARIANTS.iter().zip(variants) {
        table.row(cases(Cell::text(*name), runs));
    }
    table
}

fn cases(first: Cell, runs: &AtDelay) -> Vec<Cell> {
    let mut row = vec![first];
    row.extend(runs.0.iter().flat_map(|(it, _)| it).map(|it| Cell::Number(it.task3, 0)));
    row.push(Cell::text(runs.held()));
    row
}

fn bars(chosen: &AtDelay) -> Figure {
    let metric = |metric: usize| chosen.0.iter().map(|(row, _)| row[metric].task3).collect();
    Figure {
        name: String::new(),
        title: format!("Figure 6: rate- and latency-based throttling, delay {DELAY_NS} ns"),
        drawing: Drawing::Bars {
            axis: "task3 foreground instructions (1e8)".into(),
            groups: TABLE_II.iter().map(|row| row.name.to_string()).collect(),
            series: vec![
                ("rate".into(), metric(RATE)),
                ("latency".into(), metric(LATENCY)),
                ("expected".into(), chosen.0.iter().map(|(_, expected)| *expected).collect()),
            ],
        },
    }
}

fn lines(window: &[AtDelay]) -> Figure {
    let line = |place: usize, metric: usize| {
        let values = window.iter().map(|runs| runs.0[place].0[metric].task3);
        let name = format!("{} {}", TABLE_II[place].name, METRICS[metric]);
        Line::new(name, delays().into_iter().zip(values).collect())
    };
    Figure {
        name: "window".into(),
        title: "Figure 6 by the delay of task1 and task2".into(),
        drawing: Drawing::Lines {
            along: "delay (ns)".into(),
            logarithmic: false,
            share: false,
            left: "task3 foreground instructions (1e8)".into(),
            right: None,
            lines: vec![line(0, RATE), line(0, LATENCY), line(1, RATE), line(1, LATENCY)],
        },
    }
}

/// Why rate-based throttling is not below expected in E1.
const WHY_E1: &str = "Cores are throttled one by one, and the first takes the traffic from above \
                      the threshold to far below it, where task3 is above the expected whichever \
                      metric throttles. What would change that, and what does not, is in \
                      maracas-requests.";
/// Why latency-based stays below our own expectation in E2.
const WHY_E2: &str = "Two throttled cores bring the latency below 183 cycles, and task3 to a \
                      little less than our profile has there; held against the paper's 304 it \
                      would be above. With a delay a little longer it is above ours too.";
/// Why rate-based is ahead at small delays.
const WHY_AHEAD: &str = "Where the bus is saturated, one throttled core lowers the latency below \
                         228 cycles and hardly the traffic, so that the rate metric throttles one \
                         core more; task3 gains by that.";
/// Why the pattern hangs on IDLE_MEM.
const WHY_IDLE: &str = "What is throttled lowers the traffic by itself. Where IDLE_MEM is above \
                        what is left of it, IS_LESS_TRAFFIC takes a core's throttling back at the \
                        next sample, and task3 has the mean of both.";

fn verdicts(
    chosen: &AtDelay,
    window: &[AtDelay],
    variants: &[&AtDelay],
    off: [f64; 2],
) -> Vec<Verdict> {
    let claims = [
        "E1: latency-based gives task3 more than expected, rate-based less",
        "E2: latency-based gives task3 more than expected, rate-based less",
        "E3: latency-based gives task3 less than expected, and more than rate-based",
    ];
    let row = |place: usize| {
        let ([rate, latency], expected) = chosen.0[place];
        let numbers = format!(
            "at {DELAY_NS} ns rate {}, latency {}, expected {}",
            number(rate.task3, 0),
            number(latency.task3, 0),
            number(expected, 0)
        );
        Verdict::new(claims[place], chosen.as_published(place), numbers)
    };
    let (wins, lost) = within(window, AtDelay::latency_wins);
    let (all, _) = within(window, |it| (0..3).all(|place| it.as_published(place)));
    let each = (0..3).map(|place| {
        let (delays, _) = within(window, |it| it.as_published(place));
        format!("{} {}", TABLE_II[place].name, at(&delays))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let held: Vec<String> = variants.iter().map(|it| it.held()).collect();
    let shown = VARIANTS.iter().zip(&held).map(|((name, _), held)| {
        format!("{name}: {}", if held.is_empty() { "none" } else { held.as_str() })
    });
    vec![
        row(0).because(WHY_E1),
        row(1).because(WHY_E2),
        row(2),
        Verdict::new(
            "under throttling the latency says better than the traffic how task3 fares",
            off[1] < off[0],
            format!(
                "task3 is on average {} % off what the profile of Figure 5 has at the same \
                 latency, {} % off what it has at the same traffic",
                number(off[1] * 100.0, 1),
                number(off[0] * 100.0, 1)
            ),
        ),
        Verdict::new(
            "wherever both throttle, latency-based gives task3 at least what rate-based gives",
            lost.is_empty(),
            format!("not {}; at the other {} delays from 0 to 100 ns", at(&lost), wins.len()),
        )
        .because(WHY_AHEAD),
        Verdict::new(
            "there is a window of delays with the paper's whole pattern",
            !all.is_empty(),
            format!("whole {}: {each}", at(&all)),
        )
        .because("E1 has none, for the reason above."),
        Verdict::new(
            "which cases are as published at 75 ns hangs neither on IDLE_MEM nor on MEM_PERIOD",
            held[..VARIANTS.len() - 1].iter().all(|it| *it == held[0]),
            shown.collect::<Vec<_>>().join("; "),
        )
        .because(WHY_IDLE),
    ]
}

/// The delays at which `holds`, and those at which it does not.
fn within(window: &[AtDelay], holds: impl Fn(&AtDelay) -> bool) -> (Vec<f64>, Vec<f64>) {
    let (yes, no): (Vec<_>, Vec<_>) =
        delays().into_iter().zip(window).partition(|(_, runs)| holds(runs));
    let delay = |list: Vec<(f64, &AtDelay)>| list.into_iter().map(|(delay, _)| delay).collect();
    (delay(yes), delay(no))
}

/// Delays in words: `at 5 to 20 and 60 ns`.
fn at(held: &[f64]) -> String {
    let mut ranges: Vec<(f64, f64)> = Vec::new();
    for delay in held {
        match ranges.last_mut() {
            Some((_, end)) if *delay - *end <= STEP_NS => *end = *delay,
            Some(_) | None => ranges.push((*delay, *delay)),
        }
    }
    let word = |(from, to): &(f64, f64)| {
        if from == to { from.to_string() } else { format!("{from} to {to}") }
    };
    match ranges.as_slice() {
        [] => "at none".into(),
        ranges => format!("at {} ns", ranges.iter().map(word).collect::<Vec<_>>().join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_reported_as_ranges() {
        assert_eq!(at(&[]), "at none");
        assert_eq!(at(&[5.0, 10.0, 15.0, 60.0]), "at 5 to 15 and 60 ns");
    }

    #[test]
    fn rates_are_the_traffic_of_table_ii() {
        // algorithms.md G.5, X3: 117.5, 109.3 and 101.7 million requests in two seconds.
        let millions = TABLE_II.map(|row| (rate_threshold(&row, 2.0) as f64 / 1e5).round() / 10.0);
        assert_eq!(millions, [117.5, 109.3, 101.7]);
    }
}
