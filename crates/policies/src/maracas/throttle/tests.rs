use super::*;
use crate::maracas::ENTRY;
use crate::testing::{Rng, with};
use maracas_core::contract::Usage;
use maracas_core::params::Value;

const N: usize = 4;

fn throttle(metric: Metric) -> Throttle {
    Throttle::new(metric, Rate::new(1, 2), N)
}
/// A sample of `occupancy` and `requests`, of which the cores made those `by_core`.
fn sample(occupancy: u64, requests: u64, by_core: &[u64]) -> Sample {
    Sample { requests, occupancy, by_core: by_core.to_vec() }
}
fn segment(core: u16, from: u64, ticks: u64) -> Segment {
    Segment {
        vcpu: VcpuId(u32::from(core)),
        core: CoreId(core),
        mode: Mode::Background,
        from: Instant::from_ticks(from),
        to: Instant::from_ticks(from + ticks),
        usage: Usage { service: Duration::from_ticks(ticks), ..Usage::default() },
        end: maracas_core::contract::End::Metered,
    }
}
fn close(throttle: &mut Throttle, background: CoreSet) -> CoreSet {
    throttle.close(&background);
    throttle.closed
}
fn all() -> CoreSet {
    (0..N as u16).map(CoreId).collect()
}

#[test]
fn monitor_vector() {
    // algorithms.md G.2: MAX_MEM_LAT 180, IDLE_MEM 1/2; occupancy, requests, sum of m, then k and
    // R_high.
    let rows = [
        (100_000, 1000, 0, 0),
        (190_000, 1000, 1, 1000),
        (185_000, 1000, 2, 1000),
        (170_000, 1000, 2, 1000),
        (60_000, 600, 2, 1000),
        (40_000, 480, 1, 1000),
        (30_000, 450, 0, 0),
        (0, 0, 0, 0),
    ];
    let mut throttle = throttle(Metric::Latency(180));
    for (row, (occupancy, requests, k, r_high)) in rows.into_iter().enumerate() {
        let by_core = [requests / 2, requests / 2, 0, 0];
        throttle.monitor(Instant::ZERO, &sample(occupancy, requests, &by_core), Rate::ONE);
        assert_eq!((throttle.num_throttle, throttle.r_high), (k, r_high), "row {row}");
    }
    assert_eq!((throttle.most, throttle.ups, throttle.downs, throttle.oscillations), (2, 2, 2, 0));
}

#[test]
fn the_example_of_figure_3() {
    // r1 is in the queue in [0, 2), r2 and r3 in [1, 5): latency 10/3.
    let occupancy = 2 + 4 + 4;
    let queue = sample(occupancy, 3, &[1, 1, 1]);
    for (limit, k) in [(3, 1), (4, 0)] {
        let mut throttle = throttle(Metric::Latency(limit));
        throttle.monitor(Instant::ZERO, &queue, Rate::ONE);
        assert_eq!(throttle.num_throttle, k);
    }
}

#[test]
fn latency_sees_a_device_that_the_rate_of_the_cores_does_not() {
    let busy_device = sample(200 * 1000, 1000, &[100, 100, 0, 0]);
    let busy_cores = sample(100 * 1000, 1000, &[500, 500, 0, 0]);
    for (metric, seen, ks) in [
        (Metric::Latency(180), [&busy_device, &busy_cores], [1, 1]),
        (Metric::Rate(1000), [&busy_device, &busy_cores], [0, 1]),
    ] {
        let mut throttle = throttle(metric);
        let k = seen.map(|seen| {
            throttle.monitor(Instant::ZERO, seen, Rate::ONE);
            throttle.num_throttle
        });
        assert_eq!(k, ks, "{metric:?}");
    }
}

#[test]
fn counts_of_another_time_are_scaled_to_a_period() {
    let mut throttle = throttle(Metric::Rate(1000));
    throttle.monitor(Instant::ZERO, &sample(0, 0, &[999, 999, 0, 0]), Rate::new(1, 2));
    assert_eq!(throttle.num_throttle, 0);
    throttle.monitor(Instant::ZERO, &sample(0, 0, &[1000, 1000, 0, 0]), Rate::new(1, 2));
    assert_eq!((throttle.num_throttle, throttle.r_high), (1, 1000));
    throttle.monitor(Instant::ZERO, &sample(0, 0, &[300, 0, 0, 0]), Rate::new(10, 3));
    assert_eq!((throttle.num_throttle, throttle.mem_weight[0]), (2, 1000));
}

#[test]
fn hold_waits_and_few_requests_are_no_contention() {
    let mut throttle = Throttle { hold: 2, min_requests: 10, ..throttle(Metric::Latency(180)) };
    throttle.monitor(Instant::ZERO, &sample(9 * 500, 9, &[9]), Rate::ONE);
    assert_eq!(throttle.num_throttle, 0);
    throttle.monitor(Instant::ZERO, &sample(500 * 500, 500, &[500]), Rate::ONE);
    let quiet = sample(0, 100, &[100]);
    let loud = sample(0, 300, &[300]);
    let seen = [&quiet, &quiet, &loud, &quiet, &quiet, &quiet];
    let k = seen.map(|seen| {
        throttle.monitor(Instant::ZERO, seen, Rate::ONE);
        throttle.num_throttle
    });
    assert_eq!(k, [1, 1, 1, 1, 1, 0]);
    throttle.monitor(Instant::ZERO, &sample(500 * 500, 500, &[500]), Rate::ONE);
    assert_eq!(throttle.oscillations, 1);
}

/// Ticks of 2000 in which each core may use surplus time, all of them always in the background.
fn shares(k: usize, weights: [u64; N]) -> [u64; N] {
    let mut throttle = throttle(Metric::Latency(180));
    (throttle.num_throttle, throttle.monitored) = (k, true);
    throttle.mem_weight = weights.into();
    let mut runs = [0; N];
    for now in 0..2000 {
        let closed = close(&mut throttle, all());
        assert_eq!(closed.len(), k);
        for core in (0..N as u16).filter(|core| !closed.contains(CoreId(*core))) {
            runs[usize::from(core)] += 1;
            throttle.ran(&segment(core, now * TICK.ticks(), TICK.ticks()));
        }
    }
    runs
}

#[test]
fn surplus_time_is_inversely_proportional_to_traffic() {
    // algorithms.md G.2: the limits for weights 4:3:2:1, as numerators and their denominator.
    let limits = [(1, [6, 8, 12, 13], 13), (2, [6, 8, 12, 24], 25), (3, [3, 4, 6, 12], 25)];
    for (k, limits, denominator) in limits {
        for (got, limit) in shares(k, [400, 300, 200, 100]).into_iter().zip(limits) {
            // Within 2 ticks of the 2000 of one MEM_PERIOD.
            let error = (got * denominator).abs_diff(2000 * limit);
            assert!(error <= 2 * denominator, "k = {k}: {got} of 2000, not {limit}/{denominator}");
        }
    }
    // A core without traffic keeps its place but for the first tick, where all v are equal.
    assert_eq!(shares(1, [1, 1, 1, 0])[3], 1999);
    assert_eq!(shares(2, [1, 1, 1, 1]), [1000; N]);
}

#[test]
fn as_printed_no_core_runs_once_one_is_throttled() {
    let mut throttle = Throttle { published: true, ..throttle(Metric::Latency(180)) };
    assert!(close(&mut throttle, all()).is_empty());
    for k in 1..=N {
        let seen = sample(200 * 1000, 1000, &[400, 300, 200, 100]);
        throttle.monitor(Instant::ZERO, &seen, Rate::ONE);
        assert_eq!(throttle.num_throttle, k);
        // All v are 0, no VCPU runs, and so they stay.
        for _ in 0..10 {
            throttle.close(&CoreSet::EMPTY);
            assert_eq!(close(&mut throttle, all()), all(), "k = {k}");
        }
    }
    // Row 2: with k = n and high latency the printed lines lower k, ours do not.
    let seen = sample(400 * 200, 400, &[400, 0, 0, 0]);
    let mut ours = Throttle { published: false, ..throttle.clone() };
    throttle.monitor(Instant::ZERO, &seen, Rate::ONE);
    ours.monitor(Instant::ZERO, &seen, Rate::ONE);
    assert_eq!((throttle.num_throttle, ours.num_throttle), (N - 1, N));
}

#[test]
fn equals_take_turns_by_period() {
    let mut throttle = throttle(Metric::Latency(180));
    let seen = sample(200 * 1000, 1000, &[250; N]);
    throttle.monitor(Instant::ZERO, &seen, Rate::ONE);
    let high = sample(190 * 1000, 1000, &[250; N]);
    let mut first: Vec<CoreSet> = Vec::new();
    throttle.monitor(Instant::ZERO, &high, Rate::ONE);
    throttle.monitor(Instant::ZERO, &high, Rate::ONE);
    for _ in 0..N {
        // k = 3: one is open.
        throttle.monitor(Instant::ZERO, &sample(0, 1000, &[250; N]), Rate::ONE);
        first.push(close(&mut throttle, all()));
    }
    let was_open = |core: &CoreId| first.iter().any(|closed| !closed.contains(*core));
    assert_eq!((0..N as u16).map(CoreId).filter(was_open).count(), N);
}

#[test]
fn background_before_the_sample_is_not_counted() {
    let mut throttle = throttle(Metric::Latency(180));
    throttle.monitor(Instant::from_ticks(100), &sample(190, 1, &[1; N]), Rate::ONE);
    throttle.ran(&segment(0, 0, 100));
    throttle.ran(&segment(1, 40, 70));
    throttle.ran(&Segment { mode: Mode::Foreground, ..segment(2, 200, 50) });
    assert_eq!(throttle.bg_vtime, [0, 10, 0, 0]);
}

#[test]
fn any_samples_and_segments() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let n = 1 + rng.below(9) as usize;
        let idle_mem = Rate::new(rng.below(5), 4);
        let mut throttle = Throttle::new(Metric::Latency(180), idle_mem, n);
        throttle.published = seed % 5 == 4;
        for at in 0..60 {
            let by_core: Vec<u64> = (0..rng.below(n as u64 + 2)).map(|_| rng.below(500)).collect();
            let requests = rng.below(3) * rng.below(2000);
            let seen = sample(requests * (90 + rng.below(180)), requests, &by_core);
            monitored(&mut throttle, at * 1000, &seen);
            for now in 0..20 {
                let background = (0..n as u16).map(CoreId).filter(|_| rng.one_in(2)).collect();
                let closed = close(&mut throttle, background);
                let again = close(&mut throttle, background);
                assert_eq!(again, closed, "asking again changes nothing");
                if !throttle.published {
                    assert_eq!(closed.len(), throttle.num_throttle, "seed {seed}");
                } else if throttle.num_throttle == n {
                    assert_eq!(closed.len(), n);
                }
                let core = rng.below(n as u64 + 1) as u16;
                throttle.ran(&segment(core, at * 1000 + now * 40, rng.below(60)));
            }
        }
    }
}

/// One MONITOR, held to what the paper and G.4 say of k and R_high.
fn monitored(throttle: &mut Throttle, at: u64, seen: &Sample) {
    let (before, high_before) = (throttle.num_throttle, throttle.r_high);
    let n = throttle.cores();
    throttle.monitor(Instant::from_ticks(at), seen, Rate::ONE);
    let k = throttle.num_throttle;
    let r_cur = seen.by_core.iter().take(n).sum::<u64>();
    let high = if before > 0 { high_before.max(r_cur) } else { r_cur };
    let idle = |r: u64| {
        let share = throttle.idle_mem;
        u128::from(r_cur) * u128::from(share.den()) <= u128::from(r) * u128::from(share.num())
    };
    assert!(k <= n && k.abs_diff(before) <= 1);
    match (seen.latency_reaches(180), idle(high)) {
        (true, _) if before < n => assert_eq!(k, before + 1),
        (true, _) if !throttle.published => assert_eq!(k, before),
        (_, false) => assert_eq!(k, before),
        (_, true) => assert_eq!(k, before.saturating_sub(1)),
    }
    assert_eq!(throttle.r_high, if k > 0 { high } else { 0 });
    assert!(throttle.bg_vtime.iter().all(|v| *v == 0));
}

#[test]
fn samples_are_due_at_nominal_instants_however_late_the_decision() {
    let mut system = System::new(2, Vec::new());
    system.vcpus.extend(service_vcpu(&system, &with(&[("throttle", "latency")]), VcpuId(0)));
    let params = with(&[("throttle", "latency"), ("mem_period", "100ns")]);
    let mut monitor = Monitor::chosen(&system, &params).unwrap();
    let at = Instant::from_ticks;
    let high = Event::Sampled(sample(500, 1, &[300, 300]));
    assert_eq!(monitor.order(at(99)), None);
    assert_eq!((monitor.order(at(130)), monitor.order(at(130))), (Some(VcpuId(0)), None));
    assert_eq!(monitor.next(), at(200));
    monitor.on_event(at(140), &high);
    // Reported twice it counts once; so does a failure after it.
    monitor.on_event(at(140), &high);
    monitor.on_event(at(150), &Event::Failed { core: CoreId(0), what: Refused::Sample });
    assert_eq!((monitor.throttle.num_throttle, monitor.samples, monitor.failed), (1, 1, 0));
    assert_eq!((monitor.order(at(420)), monitor.next()), (Some(VcpuId(0)), at(500)));
    let other = Event::Failed { core: CoreId(0), what: Refused::Start(VcpuId(0)) };
    monitor.on_event(at(430), &other);
    let before = monitor.throttle.clone();
    monitor.on_event(at(430), &Event::Failed { core: CoreId(0), what: Refused::Sample });
    assert_eq!((monitor.samples, monitor.failed), (1, 1));
    let state = |t: &Throttle| (t.num_throttle, t.r_high, t.turn, t.bg_vtime.clone());
    assert_eq!(state(&monitor.throttle), state(&before));
    // The next sample holds the traffic of 370 ticks.
    assert_eq!(monitor.order(at(500)), Some(VcpuId(0)));
    monitor.on_event(at(510), &high);
    assert_eq!(monitor.throttle.mem_weight, [81, 81]);
    // One that comes after the next was due is one sample, of both periods.
    assert_eq!(monitor.order(at(600)), Some(VcpuId(0)));
    assert_eq!((monitor.order(at(700)), monitor.next()), (None, at(800)));
    monitor.on_event(at(710), &high);
    assert_eq!(monitor.throttle.mem_weight, [150, 150]);
    assert_eq!((monitor.samples, monitor.failed), (3, 1));
    assert_eq!(monitor.order(at(800)), Some(VcpuId(0)));
}

#[test]
fn the_monitor_s_vcpu_is_part_of_its_core_s_admission() {
    let mut params = with(&[("throttle", "watch"), ("monitor_budget", "1ms")]);
    let ms = Duration::from_millis;
    let mut system = System::new(1, alloc::vec![Vcpu::new(0, ms(82), ms(100))]);
    assert!((ENTRY.service_vcpus)(&system, &with(&[]), VcpuId(1)).is_empty());
    let service_vcpus = (ENTRY.service_vcpus)(&system, &params, VcpuId(1));
    let [monitor] = &service_vcpus[..] else { panic!("{service_vcpus:?}") };
    assert_eq!(
        (monitor.id, monitor.role, monitor.pinned),
        (VcpuId(1), Role::Monitor, Some(CoreId(0)))
    );
    assert_eq!((monitor.reservation.budget, monitor.reservation.period), (ms(1), ms(1000)));
    let scaled = System { ticks_per_ns: 7, ..system.clone() };
    assert_eq!((ENTRY.service_vcpus)(&scaled, &params, VcpuId(1))[0].reservation.period, ms(7000));
    system.vcpus.extend(service_vcpus);
    // 1/100, as if it had the shortest period, and 82/100 are 83 %, of 82.8 % for two.
    let verdict = (ENTRY.admit)(&system, &params);
    assert_eq!(verdict.refused.len(), 1);
    // Response times, above the RM order: 1 ms and 83 ms.
    params.set("admission", Value::Text("rta".into()));
    let verdict = (ENTRY.admit)(&system, &params);
    assert!(verdict.accepted());
    assert_eq!(verdict.cores[0].vcpus, [VcpuId(1), VcpuId(0)]);
}

#[test]
fn what_cannot_work_is_refused_with_the_way_out() {
    let objections = |params: &[(&str, &str)], with_monitor: bool| {
        let params = with(params);
        let mut system = System::new(1, Vec::new());
        if with_monitor {
            system.vcpus.extend((ENTRY.service_vcpus)(&system, &params, VcpuId(0)));
        }
        (ENTRY.admit)(&system, &params).why()
    };
    assert_eq!(objections(&[("throttle", "latency")], true), "");
    assert_eq!(objections(&[("throttle", "off"), ("mem_period", "0s")], false), "");
    for (params, word) in [
        ([("throttle", "rate"), ("hold", "")], "needs max_requests above 0"),
        ([("throttle", "latency"), ("mem_period", "0s")], "mem_period is 0"),
        ([("throttle", "latency"), ("mem_period", "")], "mem_period is 0"),
        ([("throttle", "latency"), ("mem_period", "60us")], "more than half of mem_period"),
        ([("throttle", "watch"), ("monitor_budget", "0s")], "monitor_budget is 0"),
        ([("throttle", "watch"), ("idle_mem", "3/2")], "idle_mem is 3/2"),
    ] {
        let text = objections(&params, true);
        assert!(text.contains(word), "{params:?}: {text}");
    }
    let text = objections(&[("throttle", "watch")], false);
    assert!(text.contains("a VCPU of role monitor"), "{text}");
}
