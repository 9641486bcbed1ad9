//! The contract under shared memory: every policy, alone and with MemGuard around it, on random
//! systems with random memories and parameters. What is audited stands in `MemoryAudit`,
//! `GuardAudit` (algorithms.md D.7) and `MaracasAudit` (algorithms.md G.4).

use maracas_core::contract::{Entry, Observer, Usage};
use maracas_core::memory::Profile;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Program, System, Vcpu, Workload};
use maracas_sim::Overheads;
use maracas_tests::{Case, Faults, Mix, RandomSystem, check, memory_for};

const UNRULY: Mix = Mix { jobs_only: false, changes: true, unruly: true, load: 60 };
const MIXES: [Mix; 3] = [Mix::tasks(60), Mix::programs(50), UNRULY];

/// Runs every policy on `seeds` systems with memory of each mix, two of three with random
/// parameters; fails with the case. Every policy must accept some.
fn on_random_memories(seeds: u64, faults: impl Fn(&Entry, u64, Duration) -> Faults) {
    for entry in maracas_policies::all() {
        let mut accepted = 0;
        for (seed, mix) in (0..seeds).flat_map(|seed| MIXES.map(|mix| (seed, mix))) {
            let mix = Mix { jobs_only: mix.jobs_only || entry.needs.jobs, ..mix };
            let mut case = Case::with_memory(entry, seed, mix);
            if seed % 3 > 0 {
                case = case.with_random_params(seed);
            }
            let unit = Duration::from_ticks(case.until.ticks() / 500 + 1);
            case.faults = faults(entry, seed, unit);
            match check(&case) {
                Ok(outcome) => accepted += u64::from(outcome.is_some()),
                Err(why) => panic!("seed {seed}: {why}\n{case}"),
            }
        }
        assert!(accepted >= seeds / 2, "{} accepted {accepted} of {seeds} x 3", entry.name);
    }
}

#[test]
fn invariants_hold_with_memory() {
    on_random_memories(16, |_, _, _| Faults::default());
}

#[test]
fn invariants_hold_with_memory_late_charged_nagged_and_with_hidden_wakes() {
    on_random_memories(16, |entry, seed, unit| {
        let some = |bit: u64| if seed >> bit & 1 == 1 { unit } else { Duration::ZERO };
        Faults {
            late: some(0) * 4,
            hidden_wakes: seed % 5 == 4 && !entry.needs.visible_wakes,
            overheads: Overheads {
                context_switch: some(1),
                migration: some(2),
                decision: some(3),
                release: some(4),
                sample: some(1),
                lock: some(2),
                structure: some(3),
                page_copy: Duration::from_ticks(some(4).ticks() / 100),
            },
            nag: (seed % 3 == 1).then_some(unit * 3),
        }
    });
}

/// What each VCPU used.
#[derive(Default)]
struct Used(Vec<Usage>);

impl Observer for Used {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let index = segment.vcpu.0 as usize;
        self.0.resize(self.0.len().max(index + 1), Usage::default());
        self.0[index].add(&segment.usage);
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// One program on each of some cores; what they did.
fn side_by_side(seed: u64, alone: Option<usize>) -> Vec<Usage> {
    let cores = 2 + seed as usize % 3;
    let period = Duration::from_micros(300);
    let vcpus: Vec<_> = (0..cores as u32)
        .map(|id| Vcpu { pinned: Some(CoreId(id as u16)), ..Vcpu::new(id, period, period) })
        .collect();
    let programs = vcpus.iter().map(|vcpu| Program::new(vcpu.id, Workload::Busy)).collect();
    let mut random = RandomSystem { system: System::new(cores, vcpus), programs };
    let mut memory = memory_for(&mut random, seed);
    for vcpu in &mut random.system.vcpus {
        vcpu.colors = 0;
    }
    for profile in memory.programs.iter_mut().flatten() {
        // Phases begin after so much work: earlier, where a program is faster.
        *profile = Profile::steady(profile.phases[0].1.clone());
    }
    if let Some(alone) = alone {
        memory.devices.clear();
        for (other, profile) in memory.programs.iter_mut().enumerate() {
            profile.take_if(|_| other != alone);
        }
    }
    let entry = maracas_policies::find("maracas").expect("maracas is registered");
    let mut case = Case::new(entry, random, seed);
    (case.memory, case.until) = (Some(memory), Instant::ZERO + period * 10);
    let mut policy = case.policy().expect("one VCPU fits on a core");
    let mut used = Used::default();
    case.run(&mut *policy, &mut used);
    used.0
}

/// No VCPU is faster beside others than alone.
#[test]
fn contention_never_helps() {
    let mut slower = 0;
    for seed in 0..60 {
        let together = side_by_side(seed, None);
        for (vcpu, shared) in together.iter().enumerate() {
            let own = side_by_side(seed, Some(vcpu))[vcpu];
            assert_eq!(shared.service, own.service);
            // While a cache fills, miss ratios follow in steps, and these fall elsewhere: 4 in
            // 1,000 more was the most in a thousand systems.
            let most = own.instructions + own.instructions / 100 + 1;
            assert!(shared.instructions <= most, "{seed}: vcpu{vcpu} {shared:?}, alone {own:?}");
            slower += u32::from(shared.instructions < own.instructions / 10 * 9);
        }
    }
    assert!(slower > 30, "only {slower} programs were slowed down by a tenth");
}
