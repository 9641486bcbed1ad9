//! How long policy and live machine take for a decision on this host, by a run on the simulated one
//! whose own time is left out. *Warm*: the caches hold what the last decision left there. *Cold*:
//! before an agent wakes 4 MiB are walked through, twice the second-level cache of most cores, as
//! programs may do between decisions; an argument gives another number of KiB.
//!
//! `cargo bench -p maracas-tests --bench live_decision`: medians, least and most of eleven rounds,
//! in which the rows take turns, and how many times as long a cold decision takes, round by round.
//! `tests/tests/live_cost.rs` counts the instructions of the same runs.

#![allow(clippy::print_stdout)] // The table.

#[path = "../shared/live_rows.rs"]
mod live_rows;

use live_rows::ROWS;
use std::env;

const ROUNDS: usize = 11;
/// KiB.
const WALKED: usize = 4 << 10;

fn main() {
    // Cargo passes options of its own.
    let walked = env::args().find_map(|arg| arg.parse().ok()).unwrap_or(WALKED);
    let time = |row: &live_rows::Row, walked: usize| {
        let time = row.case().time(walked << 10).expect("nothing goes wrong");
        time.unwrap_or_else(|| panic!("{} is refused", row.name()))
    };
    let mut times = vec![[const { Vec::new() }; 2]; ROWS.len()];
    for _ in 0..ROUNDS {
        for (row, [warm, cold]) in ROWS.iter().zip(&mut times) {
            warm.push(time(row, 0));
            cold.push(time(row, walked));
        }
    }
    println!("us a decision | warm | cold: after {walked} KiB | cold to warm");
    for (row, [warm, cold]) in ROWS.iter().zip(times) {
        let ratios = warm.iter().zip(&cold).map(|(warm, cold)| 1000.0 * cold / warm).collect();
        let [warm, cold, ratios] = [warm, cold, ratios].map(cell);
        println!("{} | {warm} | {cold} | {ratios}", row.name());
    }
}

/// Median, least and most, in thousands.
fn cell(mut all: Vec<f64>) -> String {
    all.sort_unstable_by(f64::total_cmp);
    let [middle, least, most] = [ROUNDS / 2, 0, ROUNDS - 1].map(|at| all[at] / 1000.0);
    format!("{middle:.2} ({least:.2} to {most:.2})")
}
