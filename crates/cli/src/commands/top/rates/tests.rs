use super::*;
use maracas_core::contract::Mode;
use maracas_core::control::MemoryGauges;
use maracas_core::{CoreId, Instant, Reservation, VcpuId};

/// A run of two cores at `ms` milliseconds: core 0 on budget for half of the time and throttled for
/// a tenth, core 1 on surplus for all of it.
pub(crate) fn gauges(ms: u64) -> Gauges {
    let part = |percent: u64| Duration::from_micros(ms * percent * 10);
    let core = |core: u16, foreground: u64, background: u64, throttled: u64| CoreGauges {
        core: CoreId(core),
        foreground: part(foreground),
        background: part(background),
        throttled: part(throttled),
        is_throttled: throttled > 0,
        requests: 1_000 * ms * u64::from(core),
        ..CoreGauges::default()
    };
    let vcpu = |id: u32, name: &str, core: u16, foreground: u64, background: u64| VcpuGauges {
        vcpu: VcpuId(id),
        name: name.into(),
        reservation: Reservation::implicit(
            Duration::from_millis(2 + u64::from(id)),
            Duration::from_millis(10),
        ),
        last: Some((CoreId(core), Mode::Foreground)),
        foreground: part(foreground),
        background: part(background),
        used: Duration::from_micros(1_500),
        short_periods: 0,
        over_periods: 0,
        stolen_periods: 0,
        jobs: 0,
        misses: 0,
        preemptions: 3,
        migrations: 1,
        instructions: 0,
        references: 0,
        reads: 0,
        writes: 0,
    };
    Gauges {
        at: Instant::from_ticks(ms * 1_000_000),
        policy: "maracas".into(),
        host: "a board with two cores".into(),
        sensor: "amd: fills and how long they wait".into(),
        cores: vec![core(0, 50, 0, 10), core(1, 0, 100, 0)],
        vcpus: vec![vcpu(0, "control", 0, 50, 0), vcpu(1, "logger", 1, 0, 100)],
        memory: Some(MemoryGauges {
            samples: ms / 20,
            requests: 500 * ms,
            occupancy: 60_000 * ms,
            last_requests: 10_000,
            last_occupancy: 1_200_000,
            last_span: Duration::from_millis(20),
            max_latency: Some(180),
        }),
        decisions: ms,
        migrations: ms / 100,
        ..Gauges::default()
    }
}

#[test]
fn sums_become_shares_and_rates_of_the_time_between() {
    let (before, now) = (gauges(1_000), gauges(3_000));
    let rates = Rates::between(Some(&before), &now);
    let core = rates.cores[0];
    let shares = [core.foreground, core.background, core.throttled, core.idle];
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(shares.iter().zip([0.5, 0.0, 0.1, 0.4]).all(|(a, b)| near(*a, b)), "{shares:?}");
    assert_eq!((core.requests, rates.cores[1].requests), (None, Some(1e6)));
    assert_eq!((rates.seconds, rates.decisions, rates.migrations), (2.0, 1_000.0, 10.0));
    assert_eq!((rates.latency, rates.requests), (Some(120.0), Some(500_000.0)));
    assert_eq!((rates.vcpus[0].foreground, rates.vcpus[1].background), (0.5, 1.0));
    // The same look again: no time has passed, and nothing happened in it.
    let still = Rates::between(Some(&now), &now);
    assert_eq!((still.cores[0].foreground, still.decisions), (0.0, 0.0));
    // From the start.
    assert!(near(Rates::between(None, &now).cores[0].foreground, 0.5));
}

#[test]
fn what_is_new_or_late_makes_no_nonsense() {
    let (mut before, mut now) = (gauges(1_000), gauges(1_100));
    // A VCPU that came since, and a segment of a second that ended in this tenth of one.
    before.vcpus.truncate(1);
    now.cores[1].background = Duration::from_secs(9);
    now.vcpus[1].background = Duration::from_micros(50_000);
    let rates = Rates::between(Some(&before), &now);
    assert_eq!((rates.cores[1].background, rates.cores[1].idle), (1.0, 0.0));
    assert_eq!(rates.vcpus[1].background, 0.5);
    // Sums that went down: another run has the number now.
    let rates = Rates::between(Some(&now), &before);
    assert_eq!((rates.cores[1].background, rates.decisions), (0.0, 0.0));
    now.memory = None;
    now.cores[1].requests = 0;
    let rates = Rates::between(None, &now);
    assert_eq!((rates.latency, rates.requests, rates.cores[1].requests), (None, None, None));
}

#[test]
fn samples_stand_in_where_no_segment_counts() {
    let mut now = gauges(1_000);
    now.cores[1] = CoreGauges { sampled: 700, last_sampled: 40, requests: 0, ..now.cores[1] };
    let rates = Rates::between(None, &now);
    assert_eq!(rates.cores[1].requests, Some(2_000.0), "40 in 20 ms");
}
