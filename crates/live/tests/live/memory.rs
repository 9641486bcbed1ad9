//! Shared memory sensed and steered under the policies of the register. What memory does is played
//! by sensors and meters of a script; programs, cores, freezing and moves are real.

use crate::support::bounds::{found, needs};
use crate::support::host::{MEAN_ERROR, at_least_wakes, reaction_ns};
use crate::support::witness::repeated;
use crate::support::{
    Chosen, SPIN, able, machine, replays, run_sensing, setup, shell, system, turn,
};
use maracas_core::contract::{End, Mode, Segment, ServiceRequest, Statistic};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, VcpuId};
use maracas_live::Means;
use maracas_live::host::HardwareCore;
use maracas_live::host::hardware::{EventCode, Hardware, Load, ThisHardware};
use maracas_live::machine::{CacheParts, Throttle};
use maracas_live::sense::{Meter, Reading, Senses, Sensor, SensorKind, VcpuEvents, meter};
use std::io;
use std::num::NonZero;
use std::os::fd::RawFd;

/// Memory that is contended from the first instant to the second: 1000 requests a millisecond of
/// two cores that wait 250 cycles of a clock of 2 GHz, before and after 100 that wait 90.
struct Episode(u64, u64);

impl Sensor for Episode {
    fn sensor_kind(&self) -> SensorKind {
        SensorKind::Replay
    }
    fn describe(&self) -> String {
        "a script".to_string()
    }
    fn cycles_per_us(&self) -> u64 {
        2000
    }
    fn read(&mut self, now: Instant, into: &mut Reading) -> io::Result<()> {
        let us = now.ticks() / 1000;
        let contended = us.clamp(self.0 * 1000, self.1 * 1000) - self.0 * 1000;
        let calm = us - contended;
        into.requests = contended + calm / 10;
        into.occupancy = contended * 250 + calm * 9;
        into.by_core = vec![into.requests / 2; 2];
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        None
    }
}

fn segments(records: &[Record]) -> impl Iterator<Item = &Segment> {
    records.iter().filter_map(|record| match record {
        Record::Event { event: Event::Ran(segment), .. } => Some(segment),
        Record::Event { .. }
        | Record::Planned(_)
        | Record::Gap(_)
        | Record::Note { .. }
        | Record::End(_) => None,
    })
}

/// The numbers in the texts of a key's notes, by their places.
fn noted(records: &[Record], wanted: &str, place: usize) -> Vec<u64> {
    let number = |record: &Record| match record {
        Record::Note { note, .. } if note.key() == wanted => {
            note.text().split_whitespace().nth(place)?.parse().ok()
        }
        Record::Event { .. }
        | Record::Planned(_)
        | Record::Gap(_)
        | Record::Note { .. }
        | Record::End(_) => None,
    };
    let mut numbers: Vec<_> = records.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// The median of numbers in order.
fn median(numbers: &[u64]) -> u64 {
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}

/// Background service of both VCPUs between two instants, in milliseconds.
fn surplus_ms(records: &[Record], from_ms: u64, to_ms: u64) -> u64 {
    let within = |segment: &&Segment| {
        let end = segment.to.ticks() / 1_000_000;
        segment.mode == Mode::Background && (from_ms..to_ms).contains(&end)
    };
    segments(records).filter(within).map(|segment| segment.usage.service.ticks()).sum::<u64>()
        / 1_000_000
}

#[test]
fn a_contended_episode_throttles_surplus_time_and_no_budget() {
    repeated(|| {
        let params =
            [("throttle", "latency"), ("mem_period", "200ms"), ("background_slice", "2ms")];
        let chosen = Chosen::new("maracas", &params);
        let system = system(2, &[(2_000, 10_000, 0), (3_000, 10_000, 1)]);
        let system = chosen.with_service_vcpus(system);
        let mut setup = setup(&system, vec![shell(0, SPIN), shell(1, SPIN)], 6);
        // The script's clock is twice as fast: 250 cycles are 125 of these, which are not yet too
        // many.
        setup.steering.cycles_per_us = Some(2000);
        let sensor = Some(Box::new(Episode(1500, 4500)) as Box<dyn Sensor>);
        let senses = Senses { sensor, ..Senses::default() };
        let policy = chosen.build(&system);
        let Some(ran) = run_sensing(setup, Means::FULL, policy, senses) else { return };
        let records = ran.untroubled();
        assert!(
            replays(records, &mut *chosen.build(&system), 2),
            "a fresh policy decides the same"
        );
        (0..2).for_each(|vcpu| ran.got_its_budget(vcpu, MEAN_ERROR));
        // Both cores are throttled 0.4 s after the episode began, and none 0.4 s after its end.
        let spans = [(500, 1500), (2200, 4400), (5200, 5900)];
        let spans =
            spans.map(|(from, to)| surplus_ms(records, from, to) as f64 / (to - from) as f64);
        let (frozen, last) = (noted(records, "throttled", 1), noted(records, "throttled", 2));
        let carried = segments(records).filter(|segment| segment.vcpu == VcpuId(2));
        let mut samples: Vec<_> = carried.map(|segment| segment.usage.service.ticks()).collect();
        samples.sort_unstable();
        eprintln!(
            "surplus per core time before, in and after the episode: {spans:.2?}; stopped {} \
             times: \
         frozen after p50 {} us, last instruction after p50 {} us, at most {} us; {} samples of \
         p50 {} ns",
            frozen.len(),
            median(&frozen) / 1000,
            median(&last) / 1000,
            last.last().copied().unwrap_or(0) / 1000,
            samples.len(),
            median(&samples),
        );
        assert!(samples.len() > 20, "{} samples in 6 s", samples.len());
        // Others use these cores too.
        assert!(spans[0] > 0.2 && spans[2] > 0.2, "{spans:?}");
        assert!(spans[1] < 0.05, "{spans:?}");
        assert!(!frozen.is_empty(), "nothing was stopped");
        let after_ns = median(&frozen) as f64;
        assert!(after_ns < reaction_ns(), "frozen {after_ns} ns after the decision");
    });
}

#[test]
fn a_policy_whose_samples_are_refused_goes_on() {
    repeated(|| {
        let chosen = Chosen::new("maracas", &[("throttle", "latency"), ("mem_period", "100ms")]);
        let system = chosen.with_service_vcpus(system(1, &[(2_000, 10_000, 0)]));
        let setup = setup(&system, vec![shell(0, SPIN)], 1);
        let policy = chosen.build(&system);
        let Some(ran) = run_sensing(setup, Means::FULL, policy, Senses::default()) else { return };
        let records = ran.untroubled();
        assert!(
            replays(records, &mut *chosen.build(&system), 1),
            "a fresh policy decides the same"
        );
        let failed =
            ran.outcome.statistics.iter().find(|statistic| statistic.name == "failed samples");
        let failed = failed.map_or(0, |statistic| statistic.value);
        assert!(
            (5..=10).contains(&failed),
            "{failed} samples failed: {:?}",
            ran.outcome.statistics
        );
    });
}

/// A meter that moves on evenly, so many reads a microsecond, whatever runs.
struct Even {
    per_us: u64,
    /// Whether it says beforehand when it will be where.
    foresees: bool,
}

impl Meter for Even {
    fn read(&mut self, now: Instant) -> io::Result<u64> {
        Ok(now.ticks() / 1000 * self.per_us)
    }
    fn arm(&mut self, _: Option<u64>) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<RawFd> {
        None
    }
    fn due(&self, limit: u64) -> Option<Instant> {
        self.foresees.then(|| Instant::from_ticks(limit.div_ceil(self.per_us) * 1000))
    }
}

/// Where nothing reports that a limit was reached, the meter is read: every 20 wakes of this host
/// at most, so that a closing is late by that and the agent's reaction.
fn closed_in_time(late: &[u64]) {
    let most = at_least_wakes(1_000_000.0, 40.0);
    assert!((median(late) as f64) < most, "closed {} ns late, {most} ns may be", median(late));
}

/// What MemGuard makes of a core that reads twice as much as it may, at 2 reads a microsecond and a
/// period of 10 ms; its meter is asked every 250 us, or foreseen.
fn guard(foresees: bool) {
    let params = [
        // 10,000 requests of 64 bytes in 10 ms.
        ("bandwidth", "64000000B/s"),
        ("reservation", "hard"),
        ("period", "10ms"),
    ];
    let chosen = Chosen::new("memguard+maracas", &params);
    let system = system(1, &[(6_000, 20_000, 0)]);
    let setup = setup(&system, vec![shell(0, SPIN)], 4);
    let meters: Vec<Box<dyn Meter>> = vec![Box::new(Even { per_us: 2, foresees })];
    let senses = Senses { meters, ..Senses::default() };
    let policy = chosen.build(&system);
    let Some(ran) = run_sensing(setup, Means::FULL, policy, senses) else { return };
    let records = ran.untroubled();
    assert!(replays(records, &mut *chosen.build(&system), 1), "a fresh policy decides the same");
    let reads: u64 = segments(records).map(|segment| segment.usage.reads).sum();
    let service: u64 = segments(records).map(|segment| segment.usage.service.ticks()).sum();
    let spent = records.iter().filter(|record| {
        matches!(record, Record::Event { event: Event::AllowanceSpent { core: CoreId(0) }, .. })
    });
    let (spent, beyond) = (spent.count(), noted(records, "closed", 1));
    let late = noted(records, "closed", 2);
    eprintln!(
        "foreseen: {foresees}; {reads} reads in {:.2} s of service; closed {spent} times, beyond \
         its mark p50 {}, after p50 {} us, at most {} us",
        service as f64 / 1e9,
        median(&beyond),
        median(&late) / 1000,
        late.last().copied().unwrap_or(0) / 1000,
    );
    // 399 periods of 10,000 requests, where an overrun is paid back by the next one.
    assert!((3_500_000..4_100_000).contains(&reads), "{reads} reads in 4 s");
    let least = (1.3e9 * ran.left(0)) as u64;
    assert!((least..2_300_000_000).contains(&service), "about half of the time: {service} ns");
    assert!(spent > 300, "spent {spent} times in 400 periods");
    assert!(!late.is_empty(), "no closing was noted");
    closed_in_time(&late);
}

#[test]
fn an_allowance_closes_a_core() {
    repeated(|| {
        guard(true);
        guard(false);
    });
}

#[test]
fn a_move_is_paid_for_by_its_service_vcpu_and_delays_none_by_two_periods() {
    repeated(|| {
        let params = [("balance", "vlb"), ("migration_budget", "1ms")];
        let chosen = Chosen::new("maracas", &params);
        // Two on each core; those of one core end, and one of the other takes their place.
        let mut system = system(2, &[(30, 100, 0), (29, 100, 0), (28, 100, 0), (27, 100, 0)]);
        for vcpu in &mut system.vcpus {
            vcpu.pinned = None;
            vcpu.reservation.budget = vcpu.reservation.budget * 100;
            vcpu.reservation.period = vcpu.reservation.period * 100;
            vcpu.reservation.deadline = vcpu.reservation.period;
        }
        let system = chosen.with_service_vcpus(system);
        let mut programs: Vec<_> = (0..4).map(|vcpu| shell(vcpu, SPIN)).collect();
        for vcpu in [1, 2] {
            programs[vcpu].stop = Instant::ZERO + Duration::from_millis(1000);
        }
        let setup = setup(&system, programs, 3);
        let policy = chosen.build(&system);
        let Some(ran) = run_sensing(setup, Means::FULL, policy, Senses::default()) else { return };
        let records = ran.untroubled();
        assert!(
            replays(records, &mut *chosen.build(&system), 2),
            "a fresh policy decides the same"
        );
        let done = |record: &Record| match record {
            Record::Event {
                at,
                event: Event::ServiceDone(ServiceRequest::Move { vcpu, to, .. }),
            } => Some((*at, *vcpu, *to)),
            Record::Event { .. }
            | Record::Planned(_)
            | Record::Gap(_)
            | Record::Note { .. }
            | Record::End(_) => None,
        };
        let moves: Vec<_> = records.iter().filter_map(done).collect();
        let paid: Vec<_> = segments(records).filter(|segment| segment.vcpu.0 >= 4).collect();
        eprintln!("moves {moves:?}, paid {paid:?}, figures {:?}", ran.outcome.statistics);
        assert_eq!(paid.len(), moves.len());
        assert!(
            paid.iter().all(|segment| segment.end == End::Blocked && segment.to > segment.from)
        );
        assert!(!moves.is_empty(), "none moved");
        // A move may be worth it no more when it is done: then its VCPU is brought back.
        let elsewhere = |(at, vcpu, to): &&(Instant, VcpuId, CoreId)| {
            let next =
                segments(records).find(|segment| segment.vcpu == *vcpu && segment.from >= *at);
            next.is_some_and(|segment| segment.core != *to)
        };
        let count = |name| {
            let of = |figure: &&Statistic| figure.name == name;
            ran.outcome.statistics.iter().find(of).map_or(0, |figure| figure.value)
        };
        let (kept, refused) = (count("moves"), count("refused moves"));
        assert_eq!(kept + refused, moves.len() as u64);
        assert!(kept > 0, "no move was worth it");
        let elsewhere = moves.iter().filter(elsewhere).count() as u64;
        assert!(elsewhere <= refused, "{elsewhere} were brought back, {refused} refused");
        [0, 3].into_iter().for_each(|vcpu| ran.got_its_budget(vcpu, 0.01));
    });
}

/// Under this variable this test program chases pointers through memory for ever.
const CHASE: &str = "MARACAS_TEST_CHASE";

/// Reads a line of 64 MiB after the other, each known only when the one before has come.
fn chase() -> ! {
    const LINES: usize = (64 << 20) / 64;
    const WORDS: usize = 8;
    let mut words = vec![0_usize; LINES * WORDS];
    // A step that shares no factor with the number of lines reaches them all.
    (0..LINES).for_each(|line| words[line * WORDS] = (line + 633_825) % LINES);
    let mut line = 0;
    loop {
        line = std::hint::black_box(words[line * WORDS]);
    }
}

/// What the hardware counts as misses and references of the last-level cache, by the kernel's own
/// names (`perf_event_open(2)`): type 0, 3 and 2.
fn event(config: u64) -> EventCode {
    EventCode { unit: 0, config, config1: 0, config2: 0 }
}

/// Whether a meter of core 0 sees at least a third of a load of known size.
fn counts(meter: &mut dyn Meter) -> bool {
    const LINES: u64 = 200_000;
    let load = |lines| ThisHardware.load(HardwareCore(0), Load::Scatter { lines });
    // The first load prepares its memory.
    load(1).expect("a load");
    let before = meter.read(Instant::ZERO).expect("it opened");
    load(LINES).expect("a load");
    meter.read(Instant::ZERO).expect("it opened") - before >= LINES / 3
}

/// 3 lines a microsecond, of the 5 to 10 that a chase reads: of the core, or of the VCPU alone and
/// without a meter of the core.
fn guard_a_chase(of_core: bool) {
    const RATE: u64 = 192_000_000;
    let name = "memory::a_real_reader_is_held_to_its_bandwidth";
    let mut params = vec![("reservation", "hard"), ("period", "1ms")];
    params.extend(of_core.then_some(("bandwidth", "192000000B/s")));
    let chosen = Chosen::new("memguard+maracas", &params);
    let mut system = system(1, &[(6_000, 20_000, 0)]);
    system.vcpus[0].bandwidth = NonZero::new(RATE).filter(|_| !of_core);
    let mut program = shell(0, "");
    let own = std::env::current_exe().expect("this program has a path");
    program.command.argv = vec![own.into(), "--exact".into(), name.into()];
    program.command.env.insert(CHASE.into(), "1".into());
    let setup = setup(&system, vec![program], 3);
    let reads = event(3);
    let what = "a counter of cache misses that moves with a load";
    let opened = meter::open(&ThisHardware, &reads, HardwareCore(0));
    let Some(mut meter) = found(opened, what) else { return };
    if !needs(counts(&mut *meter), what) {
        return;
    }
    let alarmed = meter.fd().is_some();
    let vcpus = VcpuEvents { reads: Some(reads), references: Some(event(2)) };
    let meters = if of_core { vec![meter] } else { Vec::new() };
    let senses = Senses { meters, vcpus, ..Senses::default() };
    let policy = chosen.build(&system);
    let Some(ran) = run_sensing(setup, Means::FULL, policy, senses) else { return };
    let records = ran.untroubled();
    assert!(replays(records, &mut *chosen.build(&system), 1), "a fresh policy decides the same");
    let sum = |of: fn(&Segment) -> u64| segments(records).map(of).sum::<u64>();
    let (reads, references) = (sum(|it| it.usage.reads), sum(|it| it.usage.references));
    let service = sum(|it| it.usage.service.ticks()) as f64 / 1e9;
    let ends = |end: End| segments(records).filter(|segment| segment.end == end).count();
    let (beyond, late) = (noted(records, "closed", 1), noted(records, "closed", 2));
    eprintln!(
        "of the core: {of_core}, alarm: {alarmed}; {reads} reads, {references} references in \
         {service:.2} s of service; {} segments to a memory mark; closed {} times, beyond p50 {}, \
         p99 {}, after p50 {} us, p99 {} us, at most {} us",
        ends(End::MemorySpent),
        beyond.len(),
        median(&beyond),
        beyond.get(beyond.len() * 99 / 100).copied().unwrap_or(0),
        median(&late) / 1000,
        late.get(late.len() * 99 / 100).copied().unwrap_or(0) / 1000,
        late.last().copied().unwrap_or(0) / 1000,
    );
    assert!(reads > 100_000, "only {reads} reads of a chase");
    // 3000 periods of 3000 lines at most, with what overruns cost.
    assert!(reads < 9_500_000, "{reads} reads in 3 s");
    assert!(references >= reads / 2, "{references} references, {reads} reads");
    let stopped = if of_core { beyond.len() } else { ends(End::MemorySpent) };
    assert!(stopped > 500, "stopped {stopped} times");
    closed_in_time(&late);
}

#[test]
fn a_real_reader_is_held_to_its_bandwidth() {
    repeated(|| {
        if std::env::var_os(CHASE).is_some() {
            chase();
        }
        guard_a_chase(true);
        guard_a_chase(false);
    });
}

#[test]
fn what_needs_resource_control_is_refused_in_one_line_where_there_is_none() {
    repeated(|| {
        let _turn = turn(Duration::from_secs(1));
        if !able(Means::FULL, 1) {
            return;
        }
        let chosen = Chosen::new("maracas", &[]);
        let system = system(1, &[(2_000, 10_000, 0)]);
        for ways in [false, true] {
            let mut setup = setup(&system, Vec::new(), 1);
            if ways {
                setup.steering.cache = CacheParts::Ways;
            } else {
                setup.steering.throttle = Throttle::Mba;
            }
            match machine(setup, Means::FULL, chosen.build(&system)) {
                Ok(machine) => machine.abandon().expect("everything is given back"),
                Err(error) => {
                    let text = error.to_string();
                    eprintln!("{text}");
                    assert!(!text.contains('\n') && text.contains("resctrl"), "{text}");
                }
            }
        }
    });
}
