use super::*;
use crate::{CoreId, Instant, Reservation, VcpuId};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// What the tallies of `gauge` say: each must say something of its own, under a key of its own.
fn said<T>(tallies: &[Tally<T>], gauge: &T) -> BTreeSet<u64> {
    let keys: BTreeSet<_> = tallies.iter().map(|tally| tally.key).collect();
    assert_eq!(keys.len(), tallies.len(), "two of one key");
    let names: BTreeSet<_> = tallies.iter().map(|it| (it.metric, it.mode)).collect();
    assert_eq!(names.len(), tallies.len(), "two of one name");
    let values: Vec<_> = tallies.iter().filter_map(|tally| (tally.of)(gauge)).collect();
    assert_eq!(values.len(), tallies.len());
    values.into_iter().collect()
}

// The patterns are whole: a field that is added does not compile until it is shown or let be.

#[test]
fn every_field_of_a_core_is_shown() {
    let time = |ns| Duration::from_nanos(ns);
    let core = CoreGauges {
        core: CoreId(0),
        foreground: time(10),
        background: time(11),
        throttled: time(12),
        is_throttled: true,
        is_closed: false,
        requests: 13,
        sampled: 14,
        last_sampled: 15,
        decisions: 16,
        late: 17,
        longest_late: time(18),
        stolen: time(19),
        reliefs: 20,
    };
    let CoreGauges {
        core: _,
        foreground,
        background,
        throttled,
        is_throttled,
        is_closed,
        requests,
        sampled,
        // A rate of `top` is made of it.
        last_sampled: _,
        decisions,
        late,
        longest_late,
        stolen,
        reliefs,
    } = core;
    let times = [foreground, background, throttled, longest_late, stolen].map(Duration::ticks);
    let flags = [is_throttled, is_closed].map(u64::from);
    let counts = [requests, sampled, decisions, late, reliefs];
    assert_eq!(said(&CORE, &core), times.into_iter().chain(flags).chain(counts).collect());
}

#[test]
fn every_field_of_a_vcpu_is_shown() {
    let time = |ns| Duration::from_nanos(ns);
    let (budget, period, deadline) = (time(10), time(12), time(11));
    let vcpu = VcpuGauges {
        vcpu: VcpuId(0),
        name: String::new(),
        reservation: Reservation { budget, period, deadline },
        last: None,
        foreground: time(13),
        background: time(14),
        used: time(15),
        short_periods: 16,
        over_periods: 17,
        stolen_periods: 18,
        jobs: 19,
        misses: 20,
        preemptions: 21,
        migrations: 22,
        instructions: 23,
        references: 24,
        reads: 25,
        writes: 26,
    };
    let VcpuGauges {
        vcpu: _,
        name: _,
        reservation: Reservation { budget, period, deadline },
        last: _,
        foreground,
        background,
        used,
        short_periods,
        over_periods,
        stolen_periods,
        jobs,
        misses,
        preemptions,
        migrations,
        instructions,
        references,
        reads,
        writes,
    } = &vcpu;
    let times = [budget, period, deadline, foreground, background, used].map(|it| it.ticks());
    let periods = [*short_periods, *over_periods, *stolen_periods];
    let counts = [*jobs, *misses, *preemptions, *migrations];
    let memory = [*instructions, *references, *reads, *writes];
    let fields = times.into_iter().chain(periods).chain(counts).chain(memory);
    assert_eq!(said(&VCPU, &vcpu), fields.collect());
    let without = VcpuGauges { reservation: Reservation::NONE, ..vcpu };
    let silent: Vec<_> = VCPU.iter().filter(|it| (it.of)(&without).is_none()).collect();
    assert_eq!(silent.len(), 4, "nothing is promised to it: {silent:?}");
}

#[test]
fn every_field_of_a_run_and_of_memory_is_shown() {
    let run = Gauges {
        at: Instant::from_ticks(10),
        over: true,
        decisions: 11,
        misses: 12,
        migrations: 13,
        failures: 14,
        lost_records: 15,
        ..Gauges::default()
    };
    let Gauges {
        at,
        over,
        // Words, and lists that have rows of their own.
        policy: _,
        host: _,
        sensor: _,
        cores: _,
        vcpus: _,
        memory: _,
        dispatch: _,
        statistics: _,
        decisions,
        misses,
        migrations,
        failures,
        lost_records,
    } = &run;
    let counts = [*decisions, *misses, *migrations, *failures, *lost_records];
    let all = counts.into_iter().chain([at.ticks(), u64::from(*over)]).collect();
    assert_eq!(said(&RUN, &run), all);
    let memory = MemoryGauges {
        samples: 10,
        requests: 11,
        occupancy: 12,
        max_latency: Some(13),
        ..MemoryGauges::default()
    };
    let MemoryGauges {
        samples,
        requests,
        occupancy,
        // The rates of `top` are made of these.
        last_requests: _,
        last_occupancy: _,
        last_span: _,
        max_latency,
    } = memory;
    let counts = [samples, requests, occupancy].into_iter().chain(max_latency).collect();
    assert_eq!(said(&MEMORY, &memory), counts);
}
