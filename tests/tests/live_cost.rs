//! What a decision of the live machine costs, on the simulated host: system calls and readings of
//! the clock, which are the same in every build, and instructions of policy and machine, which
//! valgrind's callgrind counts. Neither the host's side of a call is in it nor the journal.
//!
//! Each figure below was counted once, and the tests fail where one has grown by more than 3 %.
//! What makes the machine cheaper lowers them; `--nocapture` prints the new ones, and what they
//! come to on a host that is given by the costs of a call and of an interrupt.

#![allow(clippy::print_stdout)] // The figures, to see with --nocapture.

use maracas_core::Duration;
use maracas_tests::{LiveCall, LiveCase};

#[path = "../shared/bounds.rs"]
mod bounds;
#[path = "../shared/callgrind.rs"]
mod callgrind;

/// What is run, and what was counted.
struct Figures {
    policy: &'static str,
    tasks: usize,
    cores: usize,
    /// Of the cores, in percent.
    load: u64,
    /// Of 100 decisions: wakes of agents, readings of the clock, system calls.
    counts: [u64; 3],
    /// Of a decision.
    instructions: u64,
}

/// The first has the budgets of the quickstart; five tasks fit on four cores under no packing.
const FIGURES: [Figures; 6] = [
    figures("maracas", (4, 2), 45, [100, 201, 584], 6_988),
    figures("maracas", (20, 4), 60, [107, 209, 787], 9_187),
    figures("p-edf", (20, 4), 80, [100, 203, 932], 6_320),
    figures("g-edf", (20, 4), 80, [138, 813, 2_188], 16_606),
    figures("run", (5, 4), 87, [152, 470, 842], 8_265),
    figures("qps", (5, 4), 87, [139, 491, 915], 9_466),
];
/// How far a figure may grow, in percent.
const MARGIN: u64 = 3;
/// Simulated time in nanoseconds: enough for 500 decisions and more.
const UNTIL: u64 = 1_000_000_000;
/// What a system call, an interrupt with its wake, and a reading of the clock cost on a good host,
/// in microseconds (docs/results.md), and instructions a microsecond there: one a cycle at 2.5 GHz.
const HOST: (f64, f64, f64, f64) = (0.15, 2.0, 0.03, 2_500.0);

const fn figures(
    policy: &'static str,
    (tasks, cores): (usize, usize),
    load: u64,
    counts: [u64; 3],
    instructions: u64,
) -> Figures {
    Figures { policy, tasks, cores, load, counts, instructions }
}

impl Figures {
    fn name(&self) -> String {
        format!("{}, {} on {}", self.policy, self.tasks, self.cores)
    }
}

/// Budgets and periods: those of the quickstart, or equal utilizations and periods from 5 to 40 ms.
fn reservations(row: &Figures) -> Vec<(Duration, Duration)> {
    let (tasks, cores) = (row.tasks as u64, row.cores as u64);
    let micros = |(budget, period)| (Duration::from_micros(budget), Duration::from_micros(period));
    if tasks == 4 {
        let all = [(2_000, 10_000), (3_000, 10_000), (4_000, 20_000), (3_000, 15_000)];
        return all.map(micros).to_vec();
    }
    let periods = [5_000, 10_000, 20_000, 25_000, 40_000];
    let task = |task: u64| {
        let period = periods[task as usize % periods.len()];
        micros((period * row.load * cores / (100 * tasks), period))
    };
    (0..tasks).map(task).collect()
}

/// What one row comes to.
struct Cost {
    decisions: u64,
    /// As in [`Figures`].
    counts: [u64; 3],
    calls: [u64; LiveCall::ALL.len()],
}

/// One row; its end is where callgrind takes a figure down.
#[inline(never)]
fn played(row: &Figures) -> Cost {
    let entry = maracas_policies::find(row.policy).expect("the rows name policies that exist");
    let case = LiveCase::steady(entry, row.cores, &reservations(row), UNTIL);
    let (played, calls) = case
        .cost()
        .expect("nothing goes wrong")
        .unwrap_or_else(|| panic!("{} is refused", row.name()));
    let clock = calls[LiveCall::Clock as usize];
    let system = calls.iter().sum::<u64>() - clock;
    let counts = [played.wakes, clock, system].map(|count| count * 100 / played.decisions);
    Cost { decisions: played.decisions, counts, calls }
}

fn grown(before: u64, now: u64) -> bool {
    now * 100 > before * (100 + MARGIN)
}

#[test]
fn a_decision_takes_no_more_calls_than_before() {
    let mut grew = Vec::new();
    for row in &FIGURES {
        let (name, cost) = (row.name(), played(row));
        assert!(cost.decisions > 500, "{name}: {} decisions", cost.decisions);
        println!("{name}: {:?} of {}", cost.counts, cost.decisions);
        for (call, count) in LiveCall::ALL.into_iter().zip(cost.calls) {
            println!("  {call:?} {:.2}", count as f64 / cost.decisions as f64);
        }
        if row.counts.iter().zip(cost.counts).any(|(before, now)| grown(*before, now)) {
            grew.push(format!("{name}: {:?} -> {:?}", row.counts, cost.counts));
        }
    }
    assert!(grew.is_empty(), "calls of 100 decisions have grown by more than 3 %: {grew:#?}");
}

/// Optimized, as CI runs it; without optimization the figures say nothing.
#[test]
#[cfg_attr(debug_assertions, ignore = "counts optimized code: --release, as CI runs it")]
fn a_decision_takes_no_more_instructions_than_before() {
    if callgrind::is_counted() {
        for row in &FIGURES {
            println!("decisions {}", played(row).decisions);
        }
        return;
    }
    if !bounds::needs(callgrind::is_there(), "valgrind, to count instructions") {
        return;
    }
    let inside = ["*live::cost::machine*", "*live::cost::host*"];
    let test = "a_decision_takes_no_more_instructions_than_before";
    let (output, totals) = callgrind::count(test, &inside, "*live_cost::played");
    let decisions = output.lines().filter_map(|line| line.split_once("decisions ")?.1.parse().ok());
    let decisions: Vec<u64> = decisions.collect();
    assert_eq!((decisions.len(), totals.len()), (FIGURES.len(), FIGURES.len()), "{output}");
    let mut grew = Vec::new();
    for (row, (count, all)) in FIGURES.iter().zip(decisions.iter().zip(totals)) {
        let (name, now) = (row.name(), all / count);
        println!("{name}: {now} instructions, {:.1} us", micros(row.counts, now));
        if grown(row.instructions, now) {
            grew.push(format!("{name}: {} -> {now}", row.instructions));
        }
    }
    assert!(grew.is_empty(), "instructions a decision have grown by more than 3 %: {grew:#?}");
}

/// CPU time of a decision on [`HOST`], by its counts.
fn micros([wakes, clock, system]: [u64; 3], instructions: u64) -> f64 {
    let (call, interrupt, reading, speed) = HOST;
    let of = |count: u64, cost: f64| count as f64 / 100.0 * cost;
    of(wakes, interrupt + call)
        + of(clock, reading)
        + of(system, call)
        + instructions as f64 / speed
}
