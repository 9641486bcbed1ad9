//! What a decision of the live machine costs, on the simulated host: system calls and readings of
//! the clock, which are the same in every build, and instructions of policy and machine, which
//! valgrind's callgrind counts. Neither the host's side of a call is in it nor the journal.
//!
//! Each figure below was counted once, and the tests fail where one has grown by more than 3 %.
//! What makes the machine cheaper lowers them; `--nocapture` prints the new ones, and what they
//! come to on a host that is given by the costs of a call and of an interrupt.

#![allow(clippy::print_stdout)] // The figures, to see with --nocapture.

use maracas_tests::LiveCall;

#[path = "../shared/bounds.rs"]
mod bounds;
#[path = "../shared/callgrind.rs"]
mod callgrind;
#[path = "../shared/live_rows.rs"]
mod live_rows;

use live_rows::{ROWS, Row};

/// What was counted of a row.
struct Figures {
    /// Of 100 decisions: wakes of agents, readings of the clock, system calls.
    counts: [u64; 3],
    /// Of a decision.
    instructions: u64,
}

/// In the order of [`ROWS`].
const FIGURES: [Figures; ROWS.len()] = [
    figures([100, 201, 584], 6_255),
    figures([107, 209, 787], 8_215),
    figures([100, 203, 932], 6_104),
    figures([138, 813, 2_188], 16_197),
    figures([152, 470, 842], 7_961),
    figures([139, 491, 915], 9_118),
];
/// How far a figure may grow, in percent.
const MARGIN: u64 = 3;
/// What a system call, an interrupt with its wake, and a reading of the clock cost on a good host,
/// in microseconds (docs/results.md), and instructions a microsecond there: one a cycle at 2.5 GHz.
const HOST: (f64, f64, f64, f64) = (0.15, 2.0, 0.03, 2_500.0);

const fn figures(counts: [u64; 3], instructions: u64) -> Figures {
    Figures { counts, instructions }
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
fn played(row: &Row) -> Cost {
    let (played, calls) = row
        .case()
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
    for (row, before) in ROWS.iter().zip(&FIGURES) {
        let (name, cost) = (row.name(), played(row));
        assert!(cost.decisions > 500, "{name}: {} decisions", cost.decisions);
        println!("{name}: {:?} of {}", cost.counts, cost.decisions);
        for (call, count) in LiveCall::ALL.into_iter().zip(cost.calls) {
            println!("  {call:?} {:.2}", count as f64 / cost.decisions as f64);
        }
        if before.counts.iter().zip(cost.counts).any(|(before, now)| grown(*before, now)) {
            grew.push(format!("{name}: {:?} -> {:?}", before.counts, cost.counts));
        }
    }
    assert!(grew.is_empty(), "calls of 100 decisions have grown by more than 3 %: {grew:#?}");
}

/// Optimized, as CI runs it; without optimization the figures say nothing.
#[test]
#[cfg_attr(debug_assertions, ignore = "counts optimized code: --release, as CI runs it")]
fn a_decision_takes_no_more_instructions_than_before() {
    if callgrind::is_counted() {
        for row in &ROWS {
            println!("decisions {}", played(row).decisions);
        }
        return;
    }
    if !bounds::needs(callgrind::is_there(), "valgrind, to count instructions") {
        return;
    }
    let inside = ["*live::cost::at_work*", "*live::cost::host*"];
    let test = "a_decision_takes_no_more_instructions_than_before";
    let (output, totals) = callgrind::count(test, &inside, "*live_cost::played");
    let decisions = output.lines().filter_map(|line| line.split_once("decisions ")?.1.parse().ok());
    let decisions: Vec<u64> = decisions.collect();
    assert_eq!((decisions.len(), totals.len()), (FIGURES.len(), FIGURES.len()), "{output}");
    let mut grew = Vec::new();
    let each = decisions.iter().zip(totals).map(|(count, all)| all / count);
    for ((row, before), now) in ROWS.iter().zip(&FIGURES).zip(each) {
        let name = row.name();
        println!("{name}: {now} instructions, {:.1} us", micros(before.counts, now));
        if grown(before.instructions, now) {
            grew.push(format!("{name}: {} -> {now}", before.instructions));
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
