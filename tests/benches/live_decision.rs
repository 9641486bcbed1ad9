//! How long policy and live machine take for a decision on this host, without what they ask the
//! simulated one for: with what the last decision left in the caches, and where programs have
//! taken the near ones meanwhile (so many KiB are walked through before an agent wakes; the first
//! argument says how many, 4 MiB by default: twice the second-level cache of most cores).
//!
//! `cargo bench -p maracas-tests --bench live_decision`: medians, least and most of eleven rounds,
//! in which the rows take turns. `tests/tests/live_cost.rs` counts the instructions of the same
//! runs.

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
    println!("us a decision | warm | after {walked} KiB");
    for (row, times) in ROWS.iter().zip(times) {
        let [warm, cold] = times.map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            let [middle, least, most] = [ROUNDS / 2, 0, ROUNDS - 1].map(|at| times[at] / 1000.0);
            format!("{middle:.2} ({least:.2} to {most:.2})")
        });
        println!("{} | {warm} | {cold}", row.name());
    }
}
