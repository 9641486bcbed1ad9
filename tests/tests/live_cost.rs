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
    /// Of 100 decisions: wakes of agents, readings of the clock, looks at pages, system calls.
    counts: [u64; 4],
    /// Of a decision.
    instructions: u64,
}

/// In the order of [`ROWS`].
const FIGURES: [Figures; ROWS.len()] = [
    figures([100, 302, 135, 299], 5_709),
    figures([107, 317, 318, 309], 7_298),
    figures([100, 303, 430, 339], 5_390),
    figures([138, 951, 572, 1_207], 14_592),
    figures([152, 622, 131, 557], 7_313),
    figures([139, 630, 126, 613], 8_397),
];
/// How far a figure may grow, in percent.
const MARGIN: u64 = 3;
/// What an interrupt with its wake, a reading of the clock, a look at a page that the kernel shares
/// and a system call cost on a good host, in microseconds (docs/results.md; a page is a line of a
/// cache that is not near), and instructions a microsecond there: one a cycle at 2.5 GHz.
const INTERRUPT: f64 = 2.0;
const CLOCK: f64 = 0.03;
const PAGE: f64 = 0.02;
const CALL: f64 = 0.15;
const INSTRUCTIONS: f64 = 2_500.0;

const fn figures(counts: [u64; 4], instructions: u64) -> Figures {
    Figures { counts, instructions }
}

/// What one row comes to.
struct Cost {
    decisions: u64,
    /// As in [`Figures`].
    counts: [u64; 4],
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
    let [clock, page] = [LiveCall::Clock, LiveCall::Page].map(|call| calls[call as usize]);
    let system = calls.iter().sum::<u64>() - clock - page;
    let counts = [played.wakes, clock, page, system].map(|count| count * 100 / played.decisions);
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
    let test = "a_decision_takes_no_more_instructions_than_before";
    let beside = Some("live::cost::beside");
    let (output, totals) =
        callgrind::count(test, "*live::cost::at_work*", beside, "*live_cost::played");
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

/// CPU time of a decision on such a host.
fn micros(counts: [u64; 4], instructions: u64) -> f64 {
    let costs = [INTERRUPT + CALL, CLOCK, PAGE, CALL];
    let calls: f64 = counts.iter().zip(costs).map(|(count, cost)| *count as f64 * cost).sum();
    calls / 100.0 + instructions as f64 / INSTRUCTIONS
}
