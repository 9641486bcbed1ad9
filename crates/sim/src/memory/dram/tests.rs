use super::*;
use std::num::NonZero;

const PATTERNS: [Pattern; 6] = [
    Pattern::Jump,
    Pattern::JumpRandom,
    Pattern::Random,
    Pattern::Sequential,
    Pattern::SameBank,
    Pattern::PrivateBank,
];

fn requestor(pattern: Pattern, outstanding: f64, think_ns: f64, writebacks: f64) -> Requestor {
    Requestor { pattern, outstanding, think_ns, writebacks }
}

fn solve(dram: &Dram, requestors: &[Requestor]) -> Vec<Solved> {
    let mut out = Vec::new();
    Law::new(dram).solve(requestors, &mut out);
    out
}

/// With the two effective constants that were measured of the i5-2500k.
fn i5() -> Dram {
    let (latency, service) = (NonZero::new(29_200), NonZero::new(12_900));
    Dram { conflict_latency_ps: latency, conflict_service_ps: service, ..DDR3_1333 }
}

#[test]
fn the_fitted_memory_has_the_fitted_constants() {
    let law = Law::new(&DDR3_1333);
    assert_eq!((law.hit_latency, law.conflict_latency, law.row_cycle), (26.5, 55.5, 49.7));
    assert_eq!((law.hit_service, law.conflict_service), (5.74, 6.66));
    assert_eq!((law.write_service, law.write_bank, law.write_wait), (1.21, 1.18, 296.0));
    assert_eq!((law.precharge, law.refresh_interval, law.banks), (13.5, 7800.0, 16.0));
    assert!((law.batch - 421.2).abs() < 0.1 && (law.write_block - 29.0).abs() < 0.1);
    assert!((law.transfer - 6.2077).abs() < 1e-4);
    assert_eq!(law.idle_latency_ns(Pattern::Sequential), 26.5);
    assert_eq!(law.idle_latency_ns(Pattern::PrivateBank), 55.5);
}

#[test]
fn constants_follow_the_timings() {
    // The same clocks at half the clock: every time doubles, and so do all latencies.
    let slow = Dram { clock_ps: 3_000, ..DDR3_1333 };
    for pattern in PATTERNS {
        let of = |scale: f64| [requestor(pattern, 4.0, 10.0 * scale, 0.5); 3];
        let (fast, slow) = (solve(&DDR3_1333, &of(1.0)), solve(&slow, &of(2.0)));
        assert!((slow[0].latency_ns / fast[0].latency_ns - 2.0).abs() < 1e-9, "{pattern:?}");
    }
    let measured = i5();
    let law = Law::new(&measured);
    assert_eq!((law.conflict_latency, law.conflict_service), (29.2, 12.9));
    assert_eq!((law.hit_latency, law.hit_service), (26.5, 5.74));
}

#[test]
fn one_bank_serves_a_row_cycle_each() {
    // algorithms.md H.1: tRC and 3 % refresh, 1.25 GB/s; with as many writes 1.14 GB/s.
    for (writebacks, gb_per_s) in [(0.0, 1.25), (1.0, 1.14)] {
        let mix = [requestor(Pattern::SameBank, 10.0, 0.0, writebacks); 4];
        let served = bytes_per_ns(&mix, &solve(&DDR3_1333, &mix));
        assert!((served / gb_per_s - 1.0).abs() < 0.05, "{served} GB/s");
    }
    // Private banks do not wait for each other.
    let alone = solve(&DDR3_1333, &[requestor(Pattern::PrivateBank, 1.0, 0.0, 0.0)]);
    let four = solve(&DDR3_1333, &[requestor(Pattern::PrivateBank, 1.0, 0.0, 0.0); 4]);
    assert!(four[0].latency_ns < 1.1 * alone[0].latency_ns);
}

#[test]
fn channels_share_the_load() {
    let mix = [requestor(Pattern::Random, 10.0, 0.0, 1.0); 8];
    let one = bytes_per_ns(&mix, &solve(&DDR3_1333, &mix));
    let two = bytes_per_ns(&mix, &solve(&Dram { channels: 2, ..DDR3_1333 }, &mix));
    assert!((1.9..2.1).contains(&(two / one)), "{one} and {two} GB/s");
}

/// Table II of the MARACAS paper on the constants of the i5-2500k: three m_jump cores, of which two
/// pause by 71, 193 or 568 ns a store; 10.5 instructions per miss of the third. A calibration.
#[test]
fn table_2_of_maracas() {
    let i5 = i5();
    let rows = [(71.0, 3.76, 69.1, 166.0), (193.0, 3.50, 55.5, 203.0), (568.0, 3.25, 47.6, 238.0)];
    for (delay, gb_per_s, latency, instructions) in rows {
        let task = |think| requestor(Pattern::Jump, 1.0, think, 1.0);
        let mix = [task(delay), task(delay), task(0.0)];
        let solved = solve(&i5, &mix);
        let ours = [
            bytes_per_ns(&mix, &solved) / gb_per_s,
            mean_latency_ns(&mix, &solved) / latency,
            solved[2].reads_per_ns * 1e3 * 10.5 / instructions,
        ];
        let close = ours.iter().all(|ratio| (ratio - 1.0).abs() < 0.03);
        eprintln!("delay {delay} ns: ours / published {ours:?}");
        assert!(close, "delay {delay} ns: ours / published = {ours:?}");
    }
}

#[test]
fn figures_of_a_mix() {
    // Figure 3: occupancy 10 and 3 requests are a latency of 10/3.
    let mix =
        [requestor(Pattern::Random, 1.0, 0.0, 2.0), requestor(Pattern::Random, 1.0, 0.0, 0.0)];
    let one = |reads_per_ns, latency_ns| Solved {
        reads_per_ns,
        latency_ns,
        occupancy: reads_per_ns * latency_ns,
        hits: 0.0,
    };
    let solved = [one(1.0, 3.0), one(0.5, 6.0)];
    assert_eq!((requests_per_ns(&mix, &solved), occupancy(&mix, &solved)), (3.5, 12.0));
    assert_eq!(mean_latency_ns(&mix, &solved), 12.0 / 3.5);
    assert_eq!(mean_read_latency_ns(&solved), 4.0);
    assert_eq!(bytes_per_ns(&mix, &solved), 3.5 * 64.0);
    assert_eq!((mean_latency_ns(&[], &[]), mean_read_latency_ns(&[])), (0.0, 0.0));
}

/// All extremes in all mixes of two patterns: it converges, to finite and possible numbers.
#[test]
fn extremes_converge() {
    let law = Law::new(&DDR3_1333);
    let ceiling = 64.0 / law.transfer;
    let mut out = Vec::new();
    let mut slowest = 0;
    for (one, other) in PATTERNS.iter().flat_map(|one| PATTERNS.map(|other| (*one, other))) {
        for outstanding in [0.5, 1.0, 32.0] {
            for think_ns in [0.0, 1e2, 1e4, 1e12] {
                for writebacks in [0.0, 2.0] {
                    for count in [1, 3, 16] {
                        let mut mix =
                            vec![requestor(one, outstanding, think_ns, writebacks); count];
                        mix[0] = requestor(other, 10.0, 50.0, 1.0);
                        slowest = slowest.max(law.fixed_point(&mix, &mut out));
                        let sound = out.iter().all(|solved| {
                            solved.latency_ns.is_finite()
                                && solved.latency_ns > law.hit_latency
                                && solved.reads_per_ns > 0.0
                                && (0.0..=1.0).contains(&solved.hits)
                        });
                        assert!(sound, "{mix:?}: {out:?}");
                        let served = bytes_per_ns(&mix, &out);
                        assert!(served <= ceiling, "{mix:?}: {served} GB/s");
                    }
                }
            }
        }
    }
    assert!(slowest < 100, "{slowest} steps");
    law.solve(&[], &mut out);
    assert!(out.is_empty());
}

#[test]
fn the_answer_depends_on_the_input_alone() {
    let law = Law::new(&DDR3_1333);
    let mix = PATTERNS.map(|pattern| requestor(pattern, 4.0, 20.0, 0.5));
    let (mut fresh, mut used) = (Vec::new(), Vec::new());
    law.solve(&mix, &mut fresh);
    law.solve(&[requestor(Pattern::Jump, 10.0, 0.0, 2.0); 9], &mut used);
    law.solve(&mix, &mut used);
    assert_eq!(fresh, used);
}

#[test]
fn roots_are_the_standard_ones() {
    let numbers: [f64; 6] = [1e-9, 0.3, 1.0, 7.7, 50.0, 1e6];
    for a in numbers {
        for b in numbers {
            let cubes = (a.powi(3) + b.powi(3)).cbrt();
            assert!((root_of_cubes(a, b) / cubes - 1.0).abs() < 1e-12);
            let high = (a.powf(5.5) + b.powf(5.5)).powf(1.0 / 5.5);
            assert!((root_of_5_5(a, b) / high - 1.0).abs() < 1e-12);
        }
    }
    for x in [0.0_f64, 1e-12, 0.1, 1.0, 3.0, 10.0, 39.9, 41.0, f64::INFINITY] {
        assert!((one_minus_exp(x) - (1.0 - (-x).exp())).abs() < 1e-11, "{x}");
    }
}
