//! The DRAM law on random mixes, against a memory that is simulated request by request.

mod dice;

use dice::Dice;
use maracas_core::memory::Pattern;
use maracas_sim::memory::dram::{DDR3_1333, Law, Requestor, Solved};
use maracas_sim::memory::requests::{Measured, Requests};

/// The cores, request by request.
fn simulate(cores: &[Requestor], ns: f64, seed: u64) -> Vec<Measured> {
    Requests::new(&DDR3_1333).measure(cores, ns, seed)
}

fn law(cores: &[Requestor]) -> Vec<Solved> {
    let mut out = Vec::new();
    Law::new(&DDR3_1333).solve(cores, &mut out);
    out
}

/// Two to four cores of these patterns.
fn mix(dice: &mut Dice, patterns: &[Pattern]) -> Vec<Requestor> {
    let count = 2 + (dice.unit() * 3.0) as usize;
    let mut pick = |of: &[f64]| of[(dice.unit() * of.len() as f64) as usize];
    let indices: Vec<f64> = (0..patterns.len()).map(|i| i as f64).collect();
    (0..count)
        .map(|_| Requestor {
            pattern: patterns[pick(&indices) as usize],
            outstanding: pick(&[1.0, 2.0, 4.0, 10.0]),
            think_ns: pick(&[0.0, 5.0, 10.0, 20.0, 40.0, 80.0, 150.0, 300.0]),
            writebacks: pick(&[0.0, 0.5, 1.0]),
        })
        .collect()
}

/// Requests per ns and mean read latency of the whole mix.
fn whole(
    cores: &[Requestor],
    reads: impl Fn(usize) -> f64,
    latency: impl Fn(usize) -> f64,
) -> (f64, f64) {
    let all = || 0..cores.len();
    let requests = all().map(|i| reads(i) * (1.0 + cores[i].writebacks)).sum();
    let outstanding: f64 = all().map(|i| reads(i) * latency(i)).sum();
    (requests, outstanding / all().map(&reads).sum::<f64>())
}

/// Mean and 90th percentile, in percent.
fn summary(mut errors: Vec<f64>) -> (f64, f64) {
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (100.0 * mean, 100.0 * errors[errors.len() * 9 / 10])
}

/// Throughput and latency errors over so many mixes.
fn errors(name: &str, patterns: &[Pattern], mixes: u64) -> [(f64, f64); 2] {
    let mut dice = Dice(7);
    let (mut throughput, mut latency) = (Vec::new(), Vec::new());
    for seed in 0..mixes {
        let cores = mix(&mut dice, patterns);
        let (true_ones, ours) = (simulate(&cores, 200_000.0, seed), law(&cores));
        let truth = whole(&cores, |i| true_ones[i].reads_per_ns, |i| true_ones[i].latency_ns);
        let ours = whole(&cores, |i| ours[i].reads_per_ns, |i| ours[i].latency_ns);
        throughput.push((ours.0 / truth.0 - 1.0).abs());
        latency.push((ours.1 / truth.1 - 1.0).abs());
    }
    let both = [summary(throughput), summary(latency)];
    eprintln!("{name}, {mixes} mixes: throughput, latency (mean, p90) {both:.2?} %");
    both
}

/// The controller is a fair judge: it gives what another simulator gave for equal cores.
#[test]
fn the_controller_agrees_with_the_data() {
    let (mut throughput, mut latency) = (Vec::new(), Vec::new());
    let lines = include_str!("data/dram_ddr3_1333_grid.csv").lines().skip(1);
    let rows = lines.filter(|line| line.starts_with("A,DDR3-1333,")).step_by(29);
    for (seed, line) in rows.enumerate() {
        let field: Vec<&str> = line.split(',').collect();
        let number = |at: usize| field[at].parse::<f64>().expect("the data are numbers");
        let core = Requestor {
            pattern: match field[2] {
                "jump" => Pattern::Jump,
                "rand" => Pattern::Random,
                "seq" => Pattern::Sequential,
                _ => Pattern::SameBank,
            },
            outstanding: number(4),
            think_ns: number(5),
            writebacks: number(6),
        };
        let cores = vec![core; number(3) as usize];
        let got = simulate(&cores, 300_000.0, seed as u64);
        let (requests, mean) = whole(&cores, |i| got[i].reads_per_ns, |i| got[i].latency_ns);
        throughput.push((requests * 1e3 / (number(9) + number(10)) - 1.0).abs());
        latency.push((mean / number(12) - 1.0).abs());
    }
    let rows = latency.len();
    let [throughput, latency] = [summary(throughput), summary(latency)];
    eprintln!("controller, {rows} rows: throughput {throughput:.2?}, latency {latency:.2?} %");
    assert!(throughput.0 <= 4.0 && latency.0 <= 5.0);
}

#[test]
fn spread_mixes() {
    use Pattern::{Jump, JumpRandom, Random, Sequential};
    let [throughput, latency] =
        errors("spread and streams", &[Jump, JumpRandom, Random, Sequential], MIXES);
    assert!(throughput.0 <= 5.0 && throughput.1 <= 10.0);
    assert!(latency.0 <= 6.0 && latency.1 <= 15.0);
}

/// Single banks are what the law does worst: the bars are what was measured over many more mixes.
#[test]
fn mixes_of_all_patterns() {
    use Pattern::{Jump, JumpRandom, PrivateBank, Random, SameBank, Sequential};
    let all = [Jump, JumpRandom, Random, Sequential, SameBank, PrivateBank];
    let [throughput, latency] = errors("all patterns", &all, MIXES);
    assert!(throughput.0 <= 5.5 && throughput.1 <= 11.0);
    assert!(latency.0 <= 8.0 && latency.1 <= 16.0);
}

/// Mixes in one test: more where the compiler optimises.
const MIXES: u64 = if cfg!(debug_assertions) { 40 } else { 400 };
