//! Random systems, policies and faults, one case a seed, until something breaks or time is up.
//! Run it as `cargo xtask swarm [--cases N | --seconds N | --seed N]`.
#![allow(clippy::print_stdout)] // A command-line tool speaks on stdout.

use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    match swarm(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(cases) => {
            println!("{cases} cases passed");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn swarm(args: &[String]) -> Result<u64, String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is no number"));
    let (mut cases, mut limit) = (u64::MAX, Duration::from_secs(60));
    match words.as_slice() {
        [] => {}
        ["--seed", seed] => return maracas_tests::swarm_case(number(seed)?).map(|()| 1),
        ["--cases", n] => (cases, limit) = (number(n)?, Duration::MAX),
        ["--seconds", n] => limit = Duration::from_secs(number(n)?),
        other => return Err(format!("unknown arguments: {}", other.join(" "))),
    }
    let begun = Instant::now();
    let mut shown = begun;
    for seed in 0..cases {
        if begun.elapsed() >= limit {
            return Ok(seed);
        }
        if shown.elapsed() >= Duration::from_secs(10) {
            shown = Instant::now();
            println!("{seed} cases, {} s", begun.elapsed().as_secs());
        }
        maracas_tests::swarm_case(seed)?;
    }
    Ok(cases)
}
