//! Shared resources under the locking protocols: on random sets nothing that was admitted is late
//! and no job is blocked for longer than the bound, whatever the releases; and small sets whose
//! schedules follow from the rules by hand.
//!
//! Optimized (`cargo test --release`, as CI runs it) it is 1000 sets a protocol and policy;
//! `LOCK_SETS` says another number.

use maracas_core::contract::{End, Observer, Segment};
use maracas_core::params::{Params, Value};
use maracas_core::resources::{Protocol, Resources, Section};
use maracas_core::{
    Arrival, CoreId, Cost, Duration, Event, Instant, Plan, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_policies::find;
use maracas_sim::{Options, Outcome, run};
use maracas_tests::Dice;

/// All periods divide this, in units of a thousand ticks.
const HYPERPERIOD: u64 = 120;
const PERIODS: [u64; 9] = [5, 6, 8, 10, 12, 15, 20, 24, 30];
const UNIT: u64 = 1_000;
const SETS: u64 = if cfg!(debug_assertions) { 100 } else { 1_000 };

fn sets() -> u64 {
    std::env::var("LOCK_SETS").ok().and_then(|n| n.parse().ok()).unwrap_or(SETS)
}

fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}

/// One to three sections in order, apart, of at most `longest` each.
fn sections(dice: &mut Dice, budget: u64, resources: u64, longest: u64) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut from = dice.between(1, budget / 4);
    for _ in 0..dice.between(1, 3) {
        let length = dice.between(1, longest);
        if from + length > budget {
            break;
        }
        let resource = dice.between(0, resources - 1) as u32;
        sections.push(Section { resource, at: ticks(from), length: ticks(length) });
        from += length + dice.between(1, budget / 3);
    }
    sections
}

/// Two to four cores with two to five tasks each and one to four resources.
fn draw(seed: u64, protocol: Protocol) -> (System, Vec<Program>) {
    let mut dice = Dice::new(seed);
    let (cores, count) = (dice.between(2, 4), dice.between(1, 4));
    let mut resources = Resources {
        protocol,
        names: (0..count).map(|it| format!("r{it}")).collect(),
        sections: Default::default(),
    };
    let (mut vcpus, mut programs): (Vec<Vcpu>, Vec<Program>) = (Vec::new(), Vec::new());
    let (offsets, early) = (dice.one_in(2), dice.one_in(3));
    for core in 0..cores {
        for _ in 0..dice.between(2, 5) {
            let id = vcpus.len() as u32;
            let period = PERIODS[dice.between(0, PERIODS.len() as u64 - 1) as usize] * UNIT;
            let budget = dice.between(period / 50, period / 7);
            let mut vcpu = Vcpu::new(id, ticks(budget), ticks(period));
            vcpu.pinned = Some(CoreId(core as u16));
            if dice.one_in(3) {
                vcpu.reservation.deadline = ticks(dice.between(period * 2 / 3, period));
            }
            vcpu.arrival = match (dice.one_in(3), offsets) {
                (true, _) => Arrival::Sporadic,
                (false, true) => Arrival::Periodic { offset: ticks(dice.between(0, period)) },
                (false, false) => Arrival::Periodic { offset: Duration::ZERO },
            };
            if !dice.one_in(3) {
                let own = sections(&mut dice, budget, count, (budget / 3).max(1));
                resources.sections.insert(vcpu.id, own);
            }
            let least = if early { (budget / 2).max(1) } else { budget };
            let cost = Cost::Uniform(ticks(least), ticks(budget));
            programs.push(Program::new(vcpu.id, Workload::Periodic { cost }));
            vcpus.push(vcpu);
        }
    }
    for vcpu in &vcpus {
        assert_eq!(resources.check(vcpu), Ok(()), "seed {seed}");
    }
    let mut system = System::new(cores as usize, vcpus);
    system.resources = Some(Box::new(resources));
    (system, programs)
}

fn params(policy: &str) -> Params {
    let mut params = Params::new();
    if policy == "p-rm" {
        params.set("admission", Value::Text("rta".into()));
    }
    params
}

/// Of the sets that were admitted, how many, and the greatest part of its bound for which a job was
/// blocked, in thousandths.
fn try_sets(protocol: Protocol, policy: &str) -> (u64, u64) {
    let entry = find(policy).expect("it is registered");
    let params = params(policy);
    let (mut admitted, mut most) = (0, 0);
    for seed in 0..sets() {
        let (system, programs) = draw(seed, protocol);
        let verdict = entry.verdict(&system, &params);
        if !verdict.accepted() {
            continue;
        }
        admitted += 1;
        let mut policy = (entry.build)(&system, &params).expect("it was admitted");
        let until = Instant::ZERO + ticks(HYPERPERIOD * UNIT * 4);
        let options = Options { seed, audit: true, ..Options::new(until) };
        let outcome = run(&system, &programs, policy.as_mut(), &options, &mut ());
        let what = format!("{} under {}, seed {seed}", protocol.name(), entry.name);
        assert_eq!(outcome.missed, 0, "{what}");
        assert_eq!(verdict.blocking.len(), system.vcpus.len(), "{what}");
        let aware = entry.name == "p-rm" && matches!(protocol, Protocol::Mpcp | Protocol::FmlpPlus);
        for (vcpu, bound) in &verdict.blocking {
            let observed = &outcome.blocking[vcpu.0 as usize];
            assert!(observed.blocked_max <= *bound, "{what}: {observed:?} beyond {bound}");
            if aware {
                assert!(observed.waited_max <= *bound, "{what}: {observed:?} beyond {bound}");
            }
            most = most.max(observed.blocked_max.ticks() * 1_000 / bound.ticks().max(1));
        }
    }
    eprintln!(
        "{} under {policy}: {admitted} of {} admitted, at most {most} thousandths of the bound",
        protocol.name(),
        sets()
    );
    (admitted, most)
}

#[test]
fn nothing_admitted_is_late_and_bounds_hold() {
    for (protocol, policy) in [
        (Protocol::Mpcp, "p-rm"),
        (Protocol::FmlpPlus, "p-rm"),
        (Protocol::FmlpPlus, "p-edf"),
        (Protocol::Omlp, "p-rm"),
        (Protocol::Omlp, "p-edf"),
        (Protocol::Mrsp, "p-rm"),
    ] {
        let (admitted, most) = try_sets(protocol, policy);
        assert!(admitted * 5 >= sets(), "too few to say something: {admitted}");
        assert!(most >= 200, "none was blocked");
    }
}

/// What ran on each core, a letter a tick: `a` for the first VCPU, a dot where none did. And the
/// VCPUs that blocked before their job was complete, or woke, and when.
struct Schedule(Vec<Vec<char>>, Vec<(u64, u32, bool)>);

impl Observer for Schedule {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Woke { vcpu, .. } = event {
            self.1.push((at.ticks(), vcpu.0, true));
        }
        if let Event::Ran(Segment { vcpu, core, from, to, end, .. }) = event {
            if *end == End::Blocked {
                self.1.push((at.ticks(), vcpu.0, false));
            }
            let row = &mut self.0[core.0 as usize];
            for at in from.ticks()..to.ticks() {
                row[at as usize] = char::from(b'a' + vcpu.0 as u8);
            }
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// A task by core, C, offset and sections (resource, at, length); the first is the most urgent.
type Row<'a> = (u16, u64, u64, &'a [(u32, u64, u64)]);

/// The first 20 ticks of one job each.
fn schedule(protocol: Protocol, cores: usize, rows: &[Row<'_>]) -> (Vec<String>, Outcome) {
    let (seen, outcome) = seen(protocol, cores, rows);
    (seen.0.into_iter().map(String::from_iter).collect(), outcome)
}

fn seen(protocol: Protocol, cores: usize, rows: &[Row<'_>]) -> (Schedule, Outcome) {
    let mut resources = Resources {
        protocol,
        names: ["x", "y"].map(String::from).to_vec(),
        sections: Default::default(),
    };
    let mut vcpus = Vec::new();
    for (id, (core, budget, offset, sections)) in (0..).zip(rows) {
        let mut vcpu = Vcpu::new(id, ticks(*budget), ticks(100 + u64::from(id)));
        vcpu.pinned = Some(CoreId(*core));
        vcpu.arrival = Arrival::Periodic { offset: ticks(*offset) };
        let section = |&(resource, at, length): &(u32, u64, u64)| Section {
            resource,
            at: ticks(at),
            length: ticks(length),
        };
        resources.sections.insert(VcpuId(id), sections.iter().map(section).collect());
        assert_eq!(resources.check(&vcpu), Ok(()));
        vcpus.push(vcpu);
    }
    let program = |vcpu: &Vcpu| {
        let cost = Cost::Fixed(vcpu.reservation.budget);
        Program::new(vcpu.id, Workload::Periodic { cost })
    };
    let programs: Vec<_> = vcpus.iter().map(program).collect();
    let mut system = System::new(cores, vcpus);
    system.resources = Some(Box::new(resources));
    let entry = find("p-rm").expect("it is registered");
    let mut policy = (entry.build)(&system, &params("p-rm")).expect("it is admitted");
    let mut seen = Schedule(vec![vec!['.'; 20]; cores], Vec::new());
    let options = Options { audit: true, ..Options::new(Instant::from_ticks(20)) };
    let outcome = run(&system, &programs, policy.as_mut(), &options, &mut seen);
    (seen, outcome)
}

/// Core 0 has a, urgent, and c; core 1 has b. c holds x from 1 on when a is released at 2, and b
/// asks for x at 3. `y` is of core 0 alone.
const PLAIN: [Row<'_>; 3] = [(0, 4, 2, &[]), (1, 5, 2, &[(0, 1, 2)]), (0, 6, 0, &[(0, 1, 4)])];

#[test]
fn under_mpcp_a_holder_of_a_global_resource_is_ahead_of_all() {
    let (seen, outcome) = seen(Protocol::Mpcp, 2, &PLAIN);
    let rows: Vec<String> = seen.0.iter().map(|row| row.iter().collect()).collect();
    assert_eq!(rows, ["cccccaaaac..........", "..b..bbbb..........."]);
    let [a, b, c] = &outcome.blocking[..] else { panic!("three tasks") };
    assert_eq!((a.blocked_max, a.waited_max), (ticks(3), Duration::ZERO));
    assert_eq!((b.blocked_max, b.waited_max, b.requests), (ticks(2), ticks(2), 1));
    assert_eq!((c.blocked_max, c.waited_max), (Duration::ZERO, Duration::ZERO));
    // b is suspended for x from 3 to 5.
    assert_eq!(seen.1[..2], [(3, 1, false), (5, 1, true)]);
}

#[test]
fn under_mpcp_a_local_resource_has_its_ceiling() {
    // y is used by b and c; a is more urgent than both and goes ahead of c.
    let rows: [Row<'_>; 3] = [(0, 2, 3, &[]), (0, 3, 2, &[(1, 1, 1)]), (0, 5, 0, &[(1, 1, 3)])];
    let (rows, outcome) = schedule(Protocol::Mpcp, 1, &rows);
    assert_eq!(rows, ["cccaacbbbc.........."]);
    assert_eq!(outcome.blocking[0].blocked_max, Duration::ZERO);
    assert_eq!(outcome.blocking[1].blocked_max, ticks(2));
}

#[test]
fn under_mpcp_the_most_urgent_waits_least() {
    // c holds x; b asks at 2, a at 3, and a has it first.
    let rows: [Row<'_>; 3] =
        [(0, 4, 2, &[(0, 1, 2)]), (1, 4, 1, &[(0, 1, 2)]), (2, 7, 0, &[(0, 1, 5)])];
    let (mpcp, _) = schedule(Protocol::Mpcp, 3, &rows);
    assert_eq!(mpcp, ["..a...aaa...........", ".b......bbb.........", "ccccccc............."]);
    let (fmlp, outcome) = schedule(Protocol::FmlpPlus, 3, &rows);
    assert_eq!(fmlp, ["..a.....aaa.........", ".b....bbb...........", "ccccccc............."]);
    assert_eq!(outcome.blocking[0].waited_max, ticks(5));
}

#[test]
fn under_omlp_who_is_released_during_a_request_waits_for_its_end() {
    // b asks for x, which c holds, at 2. a is released at 3 on b's core and donates.
    let rows: [Row<'_>; 3] = [(0, 2, 3, &[]), (0, 4, 1, &[(0, 1, 2)]), (1, 6, 0, &[(0, 1, 4)])];
    let (omlp, outcome) = schedule(Protocol::Omlp, 2, &rows);
    assert_eq!(omlp, [".b...bbaab..........", "cccccc.............."]);
    assert_eq!(outcome.blocking[0].blocked_max, ticks(4));
    let (fmlp, _) = schedule(Protocol::FmlpPlus, 2, &rows);
    assert_eq!(fmlp, [".b.aabbb............", "cccccc.............."]);
}

#[test]
fn under_mrsp_a_job_spins_and_helps() {
    // c holds x on core 0 when a preempts it at 2. b spins for x on core 1 from 3 on, where c goes
    // on until 6; then b has it.
    let (mrsp, outcome) = schedule(Protocol::Mrsp, 2, &PLAIN);
    assert_eq!(mrsp, ["ccaaaac.............", "..bcccbbbb.........."]);
    assert_eq!(outcome.blocking[0].blocked_max, Duration::ZERO);
    assert_eq!(outcome.blocking[1].waited_max, ticks(3));
}

#[test]
fn a_job_that_spins_keeps_its_core_and_one_that_is_suspended_does_not() {
    // b waits for c's section from 2 to 5; d is on b's core.
    let rows: [Row<'_>; 3] = [(0, 3, 1, &[(0, 1, 1)]), (1, 6, 0, &[(0, 1, 4)]), (0, 3, 1, &[])];
    let (spins, _) = schedule(Protocol::Mrsp, 2, &rows);
    assert_eq!(spins[0], ".aaaaaaccc..........");
    let (suspended, outcome) = schedule(Protocol::FmlpPlus, 2, &rows);
    assert_eq!(suspended[0], ".acccaa.............");
    assert_eq!(outcome.blocking[0].blocked_max, ticks(3));
}

#[test]
fn policies_that_know_no_resources_refuse_them() {
    let (mut system, _) = draw(1, Protocol::FmlpPlus);
    system.vcpus.iter_mut().for_each(|vcpu| vcpu.pinned = None);
    let why = find("g-edf").expect("it is registered").verdict(&system, &Params::new()).why();
    assert!(why.contains("knows no shared resources; take p-rm or p-edf"), "{why}");
    let (system, _) = draw(1, Protocol::Mpcp);
    let why = find("p-edf").expect("it is registered").verdict(&system, &Params::new()).why();
    assert!(why.contains("mpcp is a protocol of fixed priorities; take policy p-rm"), "{why}");
}
