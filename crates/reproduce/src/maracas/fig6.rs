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
              rows in two seconds; task3's foreground instructions. Then the same at every delay \
              from 0 to 100 ns. The paper does not say what its rate counts: all requests, as the \
              traffic does, or the cores' misses, as MemGuard; both are run.",
    source: "MARACAS, Figure 6 (section VI.B); of the bars only their order is printed",
    kind: Kind::Predicts,
    free: "the one delay of task1 and task2, which the paper does not give (65 ns), and \
           IDLE_MEM = 1/2",
    run,
};

/// The one delay, in nanoseconds: heavy contention without any throttling.
pub(super) const DELAY_NS: f64 = 65.0;
/// Between two delays of the window.
const STEP_NS: f64 = 5.0;

/// The delays of the window, in nanoseconds.
fn delays() -> Vec<f64> {
    (0..=20).map(|step| f64::from(step) * STEP_NS).collect()
}

/// Requests in two seconds at the traffic of `row`: GB of 300 s in lines of 64 bytes (section
/// VI.B derives its rates so).
fn rate_threshold(row: &Row) -> u64 {
    (row.traffic_gb * 1e9 / 300.0 * 2.0 / 64.0).round() as u64
}

/// Ways to throttle: by requests, by misses, by latency.
const METRICS: [&str; 3] = ["rate", "misses", "latency"];
const RATE: usize = 0;
const MISSES: usize = 1;
const LATENCY: usize = 2;

/// Runs of one delay.
const RUNS: usize = METRICS.len() * TABLE_II.len();

/// One row of Table II by one metric.
fn setup(delay: f64, row: &Row, metric: usize) -> Setup {
    let rate = rate_threshold(row);
    let params = match metric {
        RATE => format!("throttle = \"rate\"\nmax_requests = {rate}\n"),
        // Misses are half of m_jump's requests, the others are write-backs.
        MISSES => {
            let requests = 2 * rate;
            let said = "# As many misses: the requests are twice that.";
            format!("throttle = \"rate\"\n{said}\nmax_requests = {requests}\n")
        }
        _ => format!("throttle = \"latency\"\nmax_latency = {}\n", row.latency),
    };
    let metric = METRICS[metric];
    let what = format!("MARACAS, Figure 6: {} by {metric}, delay {delay} ns.", row.name);
    let name = format!("{}-{metric}-delay-{delay}ns", row.name.to_lowercase());
    Setup::new(name, head(&what, &params, 300) + &three_m_jumps(delay))
}

fn setups(delay: f64) -> Vec<Setup> {
    let metrics = 0..METRICS.len();
    let rows = TABLE_II.iter().flat_map(|row| metrics.clone().map(move |metric| (row, metric)));
    rows.map(|(row, metric)| setup(delay, row, metric)).collect()
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

/// The runs of one delay: for each row of Table II by each metric.
struct AtDelay(Vec<[Outcome; 3]>);

impl AtDelay {
    fn task3(&self, place: usize) -> [f64; 3] {
        self.0[place].map(|it| it.task3)
    }
    /// What the paper's bars show in the row at `place`, with RATE or MISSES for its rate:
    /// latency-based above expected in E1 and E2 and below in E3, rate-based below everywhere, and
    /// less than latency-based.
    fn as_published(&self, place: usize, metric: usize) -> bool {
        let (rate, latency) = (self.task3(place)[metric], self.task3(place)[LATENCY]);
        let expected = TABLE_II[place].instructions;
        rate < expected && (latency > expected) == (place < 2) && latency > rate
    }
    /// Where both throttle, latency gives task3 at least what rate gives.
    fn latency_wins(&self) -> bool {
        let mut rows = self.0.iter().map(|row| (row[RATE], row[LATENCY]));
        rows.all(|(rate, latency)| {
            let both = rate.throttled_s > 0.0 && latency.throttled_s > 0.0;
            !both || latency.task3 >= rate.task3
        })
    }
}

fn run(lab: &Lab<'_>) -> Result<Findings, Error> {
    let profiles = fig5::profiles(lab)?;
    let all: Vec<_> = delays().into_iter().flat_map(setups).collect();
    let outcomes: Vec<Outcome> = lab.run(&all)?.iter().map(Outcome::of).collect();
    let row = |row: &[Outcome]| [row[RATE], row[MISSES], row[LATENCY]];
    let window: Vec<AtDelay> = outcomes
        .chunks(RUNS)
        .map(|runs| AtDelay(runs.chunks(METRICS.len()).map(row).collect()))
        .collect();
    let chosen = delays().iter().position(|delay| *delay == DELAY_NS);
    let chosen = &window[chosen.unwrap_or(0)];
    let off = [0, 1].map(|reading| promises(&profiles, &outcomes, reading));
    Ok(Findings {
        notes: vec![format!(
            "Thresholds: {} cycles against {} million requests of 64 bytes in MEM_PERIOD = 2 s.",
            super::list(&TABLE_II.map(|row| row.latency), 0),
            super::list(&TABLE_II.map(|row| rate_threshold(&row) as f64 / 1e6), 1)
        )],
        tables: vec![bars_table(chosen), window_table(&window)],
        figures: vec![bars(chosen), lines(&window)],
        verdicts: verdicts(chosen, &window, off),
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
        "rate of misses",
        "latency",
        "expected (published)",
        "rate throttled (s)",
        "rate of misses throttled (s)",
        "latency throttled (s)",
    ];
    let mut table = Table::new("", &title, &columns);
    for (row, runs) in TABLE_II.iter().zip(&chosen.0) {
        let mut cells = vec![Cell::text(row.name)];
        cells.extend(runs.iter().map(|it| Cell::Number(it.task3, 0)));
        cells.push(Cell::Number(row.instructions, 0));
        cells.extend(runs.iter().map(|it| Cell::Number(it.throttled_s, 0)));
        table.row(cells);
    }
    table
}

fn window_table(window: &[AtDelay]) -> Table {
    let columns = [
        "delay (ns)",
        "E1 rate",
        "E1 misses",
        "E1 latency",
        "E2 rate",
        "E2 misses",
        "E2 latency",
        "E3 rate",
        "E3 misses",
        "E3 latency",
        "as published",
        "with misses",
    ];
    let mut table = Table::new("window", "The same at every delay", &columns);
    for (delay, runs) in delays().into_iter().zip(window) {
        let mut row = vec![Cell::Number(delay, 0)];
        row.extend(runs.0.iter().flatten().map(|it| Cell::Number(it.task3, 0)));
        for metric in [RATE, MISSES] {
            let held = (0..3).filter(|place| runs.as_published(*place, metric));
            let held: Vec<&str> = held.map(|place| TABLE_II[place].name).collect();
            row.push(Cell::text(held.join(" ")));
        }
        table.row(row);
    }
    table
}

fn bars(chosen: &AtDelay) -> Figure {
    let metric = |metric: usize| chosen.0.iter().map(|row| row[metric].task3).collect();
    Figure {
        name: String::new(),
        title: format!("Figure 6: rate- and latency-based throttling, delay {DELAY_NS} ns"),
        drawing: Drawing::Bars {
            axis: "task3 foreground instructions (1e8)".into(),
            groups: TABLE_II.iter().map(|row| row.name.to_string()).collect(),
            series: vec![
                ("rate".into(), metric(RATE)),
                ("rate of misses".into(), metric(MISSES)),
                ("latency".into(), metric(LATENCY)),
                ("expected".into(), TABLE_II.iter().map(|row| row.instructions).collect()),
            ],
        },
    }
}

fn lines(window: &[AtDelay]) -> Figure {
    let line = |place: usize, metric: usize| {
        let values = window.iter().map(|runs| runs.task3(place)[metric]);
        let name = format!("{} {}", TABLE_II[place].name, METRICS[metric]);
        Line::new(name, delays().into_iter().zip(values).collect())
    };
    Figure {
        name: "window".into(),
        title: "Figure 6 by the delay of task1 and task2".into(),
        drawing: Drawing::Lines {
            along: "delay (ns)".into(),
            logarithmic: false,
            left: "task3 foreground instructions (1e8)".into(),
            right: None,
            lines: vec![
                line(0, RATE),
                line(0, LATENCY),
                line(1, RATE),
                line(1, LATENCY),
                line(0, MISSES),
            ],
        },
    }
}

/// Why rate-based throttling is not below expected in E1.
const WHY_E1: &str = "Cores are throttled one by one, and the first takes the traffic from above \
                      the threshold to far below it, where task3 is above the expected whichever \
                      metric throttles. Where one core leaves the traffic just at the threshold \
                      (20 ns, the latency column), task3 is below, as published.";
/// Why rate-based is ahead at small delays.
const WHY_AHEAD: &str = "Where the bus is saturated, one throttled core lowers the latency below \
                         228 cycles and hardly the traffic, so that the rate metric throttles one \
                         core more; task3 gains by that.";

fn verdicts(chosen: &AtDelay, window: &[AtDelay], off: [f64; 2]) -> Vec<Verdict> {
    let claims = [
        "E1: latency-based gives task3 more than expected, rate-based less",
        "E2: latency-based gives task3 more than expected, rate-based less",
        "E3: latency-based gives task3 less than expected, and more than rate-based",
    ];
    let row = |place: usize| {
        let numbers = format!(
            "at {DELAY_NS} ns rate {}, latency {}, expected {}",
            number(chosen.task3(place)[RATE], 0),
            number(chosen.task3(place)[LATENCY], 0),
            TABLE_II[place].instructions
        );
        Verdict::new(claims[place], chosen.as_published(place, RATE), numbers)
    };
    let (wins, lost) = within(window, AtDelay::latency_wins);
    let whole = |claim: &str, metric: usize| {
        let (all, _) = within(window, |it| (0..3).all(|place| it.as_published(place, metric)));
        let each = (0..3).map(|place| {
            let (delays, _) = within(window, |it| it.as_published(place, metric));
            format!("{} {}", TABLE_II[place].name, at(&delays))
        });
        let each = each.collect::<Vec<_>>().join("; ");
        Verdict::new(claim, !all.is_empty(), format!("whole {}: {each}", at(&all)))
    };
    vec![
        row(0).because(WHY_E1),
        row(1),
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
        whole("there is a window of delays with the paper's whole pattern", RATE)
            .because("E1 has none, for the reason above."),
        whole("there is one where the rate counts the cores' misses", MISSES),
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
        let millions = TABLE_II.map(|row| (rate_threshold(&row) as f64 / 1e5).round() / 10.0);
        assert_eq!(millions, [117.5, 109.3, 101.7]);
    }
}
