use super::*;
use crate::MAX_CORES;
use crate::admission::{CoreVerdict, TestResult};
use core::num::NonZero;

fn created() -> NewVcpu {
    let mut new = NewVcpu::new(
        Duration::from_millis(2),
        Duration::from_millis(10),
        Members::Thread(4_000_000),
    );
    new.name = "camera".to_string();
    new.vcpu = Vcpu {
        arrival: crate::Arrival::Periodic { offset: Duration::from_micros(7) },
        pinned: Some(CoreId(1)),
        colors: 3,
        bandwidth: NonZero::new(200_000_000),
        criticality: crate::Criticality::Low,
        class: Some(1),
        speedup_milli: NonZero::new(2_500),
        ..new.vcpu
    };
    new
}

fn requests() -> Vec<Request> {
    let job = JobId { vcpu: VcpuId(3), index: 9 };
    alloc::vec![
        Request::Hello { version: VERSION },
        Request::Create(created()),
        Request::Create(NewVcpu { members: Members::Process(1), ..created() }),
        Request::Set { vcpu: VcpuId(3), reservation: created().vcpu.reservation },
        Request::Destroy { vcpu: VcpuId(u32::MAX) },
        Request::List,
        Request::Jobs { vcpu: VcpuId(0) },
        Request::JobDone { job, at: Instant::NEVER },
        Request::Gauges,
    ]
}

fn replies() -> Vec<Reply> {
    let number = Number {
        test: "rta".to_string(),
        vcpu: Some(VcpuId(2)),
        value: None,
        bound: 1,
        accepted: false,
    };
    let state = VcpuState {
        vcpu: VcpuId(4),
        name: "späher".to_string(),
        reservation: created().vcpu.reservation,
        core: CoreId(7),
        threads: 3,
        mode: Some(Mode::Background),
        foreground: Duration::from_secs(1),
        background: Duration::ZERO,
    };
    let id = JobId { vcpu: VcpuId(4), index: 0 };
    alloc::vec![
        Reply::Hello { version: 1, pid: 77, policy: "maracas".to_string(), origin: 5 },
        Reply::Created { vcpu: VcpuId(4), core: CoreId(2) },
        Reply::Refused(Refusal { text: "no".to_string(), numbers: alloc::vec![number] }),
        Reply::Done,
        Reply::Vcpus(alloc::vec![state]),
        Reply::Job(Job { id, release: Instant::ZERO, deadline: Instant::from_ticks(5) }),
        Reply::Error("what".to_string()),
        Reply::Gauges(Box::default()),
        Reply::Gauges(Box::new(gauges())),
    ]
}

fn gauges() -> Gauges {
    let vcpu = VcpuGauges {
        vcpu: VcpuId(4),
        name: "späher".to_string(),
        reservation: created().vcpu.reservation,
        last: Some((CoreId(1), Mode::Background)),
        foreground: Duration::from_secs(1),
        background: Duration::from_millis(2),
        used: Duration::from_micros(3),
        short_periods: 4,
        over_periods: 12,
        stolen_periods: 13,
        jobs: 5,
        misses: 6,
        preemptions: 7,
        migrations: 8,
        instructions: 9,
        references: 10,
        reads: 11,
        writes: u64::MAX,
    };
    let core = CoreGauges { core: CoreId(1), is_throttled: true, late: 2, ..CoreGauges::default() };
    let (name, core_id) = ("underruns".to_string(), Some(CoreId(1)));
    let statistic = StatisticGauge { name, core: core_id, vcpu: None, value: 3 };
    let mut dispatch = Histogram::default();
    dispatch.add(Duration::from_micros(16));
    let max_latency = Some(180);
    Gauges {
        at: Instant::from_ticks(99),
        over: true,
        policy: "maracas".to_string(),
        sensor: "replay".to_string(),
        cores: alloc::vec![CoreGauges::default(), core],
        vcpus: alloc::vec![vcpu],
        memory: Some(MemoryGauges { samples: 3, max_latency, ..MemoryGauges::default() }),
        dispatch,
        migrations: 12,
        statistics: alloc::vec![statistic],
        ..Gauges::default()
    }
}

#[test]
fn every_message_comes_back_however_the_stream_is_cut() {
    let mut stream = Vec::new();
    requests().iter().for_each(|request| request.write(&mut stream).unwrap());
    for piece in [1, 3, 7, stream.len()] {
        let mut frames = Frames::new();
        let mut seen = Vec::new();
        for bytes in stream.chunks(piece) {
            frames.extend(bytes);
            while let Some(request) = frames.take::<Request>().unwrap() {
                seen.push(request);
            }
        }
        assert_eq!(seen, requests(), "cut in pieces of {piece}");
    }
    for reply in replies() {
        let mut frame = Vec::new();
        reply.write(&mut frame).unwrap();
        assert_eq!(Reply::read(&frame[4..]), Ok(reply));
    }
}

#[test]
fn a_huge_length_is_refused_before_its_bytes_come() {
    let mut frames = Frames::new();
    frames.extend(&u32::MAX.to_le_bytes());
    assert_eq!(frames.take::<Request>(), Err(FrameError::TooLong(u32::MAX as usize)));
    let long = Reply::Error("x".repeat(MAX_REPLY));
    let mut out = alloc::vec![1, 2];
    assert!(matches!(long.write(&mut out), Err(FrameError::TooLong(_))));
    assert_eq!(out, [1, 2], "nothing of a refused frame may stay in the buffer");
}

#[test]
fn a_list_of_a_hundred_thousand_vcpus_fits() {
    let state = |id| VcpuState {
        vcpu: VcpuId(id),
        name: "x".repeat(MAX_NAME),
        reservation: Reservation::implicit(Duration::MAX, Duration::MAX),
        core: CoreId(MAX_CORES as u16 - 1),
        threads: u32::MAX,
        mode: Some(Mode::Background),
        foreground: Duration::MAX,
        background: Duration::MAX,
    };
    let reply = Reply::Vcpus((0..100_000).map(state).collect());
    let (mut bytes, mut frames) = (Vec::new(), Frames::new());
    reply.write(&mut bytes).unwrap();
    frames.extend(&bytes);
    assert_eq!(frames.take(), Ok(Some(reply)));
}

#[test]
fn garbage_is_refused_and_never_panics() {
    let mut seed = 1u64;
    let mut accepted = 0;
    for length in 0..200 {
        for _ in 0..50 {
            let body: Vec<u8> = (0..length)
                .map(|_| {
                    // Xorshift (Marsaglia, 2003) suffices for noise.
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    seed as u8
                })
                .collect();
            accepted += usize::from(Request::read(&body).is_ok());
            accepted += usize::from(Reply::read(&body).is_ok());
        }
    }
    // A few short bodies are messages by chance (a lone 4 is a list request).
    assert!(accepted < 2_000, "{accepted} of 20000 random bodies were taken for messages");
    // Every message cut short, and every one with a byte too many, is none.
    for request in requests() {
        let mut frame = Vec::new();
        request.write(&mut frame).unwrap();
        let body = &frame[4..];
        for cut in 0..body.len() {
            assert_eq!(Request::read(&body[..cut]), Err(FrameError::Malformed));
        }
        frame.push(0);
        assert_eq!(Request::read(&frame[4..]), Err(FrameError::Malformed));
    }
}

#[test]
fn values_out_of_range_are_named() {
    let why = |change: fn(&mut NewVcpu)| {
        let mut new = created();
        change(&mut new);
        new.check().unwrap_err()
    };
    assert_eq!(created().check(), Ok(()));
    assert!(why(|n| n.vcpu.reservation.budget = Duration::ZERO).contains("budget is 0"));
    assert!(why(|n| n.vcpu.reservation.period = Duration::ZERO).contains("period 0"));
    assert!(why(|n| n.vcpu.reservation.period = Duration::MAX).contains("must lie between"));
    assert!(why(|n| n.vcpu.reservation.budget = Duration::from_millis(11)).contains("exceeds"));
    assert!(why(|n| n.vcpu.reservation.deadline = Duration::from_millis(11)).contains("exceeds"));
    assert!(why(|n| n.vcpu.weight = 0).contains("weight"));
    assert!(why(|n| n.vcpu.weight = 10_001).contains("10000"));
    assert!(why(|n| n.vcpu.speedup_milli = NonZero::new(999)).contains("speedup"));
    assert!(why(|n| n.vcpu.role = Role::Monitor).contains("belongs to the policy"));
    assert!(why(|n| n.name = "../up".to_string()).contains("'/'"));
    assert!(why(|n| n.name = "x".repeat(201)).contains("201 bytes"));
}

#[test]
fn a_refusal_carries_every_number() {
    let response = (VcpuId(1), None, Duration::from_millis(10));
    let tests = alloc::vec![
        TestResult {
            test: "ll",
            measure: Measure::Ratio { value: 900_000_000, bound: 828_427_124 },
            accepted: false,
        },
        TestResult {
            test: "rta",
            measure: Measure::Responses(alloc::vec![response]),
            accepted: false
        },
    ];
    let closest = Some(CoreVerdict { core: Some(CoreId(0)), vcpus: Vec::new(), tests });
    let refusal = Refusal::from(&NotAdmitted { reason: "too much".to_string(), closest });
    assert!(refusal.text.contains("too much") && refusal.text.contains("0.900000"));
    let numbers: Vec<_> = refusal.numbers.iter().map(|n| (n.value, n.bound)).collect();
    assert_eq!(numbers, [(Some(900_000_000), 828_427_124), (None, 10_000_000)]);
}
