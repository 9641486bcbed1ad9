//! One solution of the DRAM law: what a change of the running set costs where it is not memoised.
//!
//! `light` is four different cores far from saturation, `full` four that saturate the bus, `knee`
//! where the fixed point is slowest, `banks` includes single-bank requestors (the high root), and
//! `16` sixteen cores.

use criterion::{Criterion, criterion_group, criterion_main};
use maracas_core::memory::Pattern;
use maracas_sim::memory::dram::{DDR3_1333, Law, Requestor};
use std::hint::black_box;

fn requestor(pattern: Pattern, outstanding: f64, think_ns: f64, writebacks: f64) -> Requestor {
    Requestor { pattern, outstanding, think_ns, writebacks }
}

fn dram(criterion: &mut Criterion) {
    use Pattern::{Jump, PrivateBank, Random, SameBank, Sequential};
    let law = Law::new(&DDR3_1333);
    let mixed = |outstanding, think| {
        [Jump, Random, Sequential, Random]
            .map(|one| requestor(one, outstanding, think, 0.5))
            .to_vec()
    };
    let banks = [SameBank, PrivateBank, Random, SameBank];
    let mut out = Vec::new();
    for (name, mix) in [
        ("light", mixed(1.0, 150.0)),
        ("full", mixed(10.0, 0.0)),
        ("knee", mixed(10.0, 30.0)),
        ("banks", banks.map(|one| requestor(one, 4.0, 40.0, 0.5)).to_vec()),
        ("16", mixed(4.0, 100.0).repeat(4)),
    ] {
        criterion.bench_function(&format!("dram {name}"), |bencher| {
            bencher.iter(|| {
                law.solve(black_box(&mix), &mut out);
                out[0].latency_ns
            });
        });
    }
}

fn short() -> Criterion {
    let seconds = std::time::Duration::from_secs;
    Criterion::default().sample_size(10).warm_up_time(seconds(1)).measurement_time(seconds(2))
}

criterion_group! {
    name = benches;
    config = short();
    targets = dram
}
criterion_main!(benches);
