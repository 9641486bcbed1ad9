//! Every policy on a hostile machine: whatever is legal, at any lateness.

use crate::testing::{Machine, Manners, Rng, with};
use crate::{ENTRIES, find};
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::contract::{Entry, Needs};
use maracas_core::{CoreId, Duration, Event, Role, System, Vcpu, VcpuId};

/// Migrations that cost a tick, and samples likewise.
const VLB: (&str, &str) = ("balance", "vlb");
const CHEAP: [(&str, &str); 2] = [("lock_cost", "0ns"), ("struct_cost", "1ns")];
/// Rounds and updates of which a short run has many.
const ROUNDS: [(&str, &str); 2] = [("round", "6ns"), ("update", "40ns")];
const SAMPLE: (&str, &str) = ("monitor_budget", "1ns");

/// Parameters under which each policy is tried; a policy not named here: the defaults.
const VARIANTS: &[(&str, &[(&str, &str)])] = &[
    ("c-d", &[("enforcement", "precise")]),
    ("c-edf", &[("packing", "wfd"), ("enforcement", "precise")]),
    ("c-edf", &[("admission", "none")]),
    ("edf-wm", &[("enforcement", "precise")]),
    ("g-edf", &[("ties", "reverse-index"), ("enforcement", "precise")]),
    ("g-edf", &[("ties", "longer-period"), ("admission", "gfb")]),
    ("g-rm", &[("priorities", "period"), ("admission", "none"), ("enforcement", "precise")]),
    ("g-rm", &[("admission", "bcl")]),
    ("maracas", &[("background", "sticky"), ("admission", "rta")]),
    ("maracas", &[("background", "light"), ("background_slice", "2ns")]),
    ("maracas", &[("background", "off"), ("admission", "hyperbolic")]),
    ("maracas", &[("background", "fair"), ("background_slice", "3ns")]),
    ("maracas", &[("throttle", "latency"), ("mem_period", "20ns"), ("monitor_budget", "1ns")]),
    ("maracas", &[VLB, CHEAP[0], CHEAP[1], ("migration_period", "20ns")]),
    ("maracas", &[VLB, CHEAP[0], CHEAP[1], ("moves", "0"), ("admission", "rta")]),
    ("maracas", &[VLB, CHEAP[0], CHEAP[1], ("throttle", "watch"), ("mem_period", "30ns"), SAMPLE]),
    ("maracas", &[("ahead", "true"), ("background_slice", "3ns")]),
    ("maracas", &[("ahead", "true"), VLB, CHEAP[0], CHEAP[1], ("migration_period", "20ns")]),
    ("max-fair", &ROUNDS),
    ("max-perf", &ROUNDS),
    ("min-fair", &[ROUNDS[0], ROUNDS[1], ("target", "9/10"), ("admission", "rta")]),
    ("similar-min-fair", &[ROUNDS[0], ROUNDS[1], ("similarity", "1")]),
    ("p-edf", &[("packing", "wfd"), ("enforcement", "precise")]),
    ("p-edf", &[("packing", "bfd"), ("admission", "qpa")]),
    ("p-edf", &[("ahead", "true"), ("enforcement", "precise")]),
    ("p-rm", &[("packing", "wfd"), ("admission", "rta"), ("enforcement", "precise")]),
    ("p-rm", &[("admission", "none")]),
    ("p-rm", &[("ahead", "true"), ("enforcement", "precise")]),
    ("qps", &[("packing", "wfd"), ("enforcement", "none")]),
    ("qps", &[("packing", "wfd"), ("enforcement", "precise")]),
    ("qps", &[("packing", "bfd"), ("split", "fixed"), ("master", "fixed")]),
    ("run", &[("packing", "wfd"), ("enforcement", "none")]),
    ("run", &[("packing", "bfd"), ("rounding", "tolerate"), ("enforcement", "precise")]),
];

fn random_vcpu(rng: &mut Rng, id: u32, needs: Needs) -> Vcpu {
    if !needs.budgets && rng.one_in(2) {
        return random_place(rng, Vcpu::best_effort(id), needs);
    }
    let jobs = needs.jobs;
    let period = 4 + rng.below(20);
    let budget = 1 + rng.below(1 + period / 4);
    let mut vcpu = Vcpu::new(id, Duration::from_ticks(budget), Duration::from_ticks(period));
    if jobs || rng.one_in(2) {
        vcpu = vcpu.periodic();
    } else if rng.one_in(4) {
        vcpu.role = Role::Io;
    }
    if rng.one_in(4) {
        let shorter = budget.max(period - rng.below(period / 2));
        vcpu.reservation.deadline = Duration::from_ticks(shorter);
    }
    random_place(rng, vcpu, needs)
}

/// What matters on uneven cores only.
fn random_place(rng: &mut Rng, mut vcpu: Vcpu, needs: Needs) -> Vcpu {
    if needs.classes > 0 {
        vcpu.pinned = rng.one_in(6).then(|| CoreId(rng.below(2) as u16));
        vcpu.class = rng.one_in(2).then(|| rng.below(2) as u8);
        vcpu.speedup_milli = NonZero::new(rng.below(2) as u32 * (1000 + rng.below(1500) as u32));
    }
    vcpu
}

/// A set that the policy admits: refused VCPUs are left out and the ids closed up.
fn random_system(rng: &mut Rng, entry: &Entry, params: &[(&str, &str)]) -> System {
    let uneven = entry.needs.classes > 0;
    let cores = 1 + usize::from(uneven) + rng.below(3) as usize;
    let fast = 1 + rng.below(cores.max(2) as u64 - 1) as usize;
    let n = 1 + rng.below(8) as u32;
    let mut vcpus: Vec<Vcpu> = (0..n).map(|id| random_vcpu(rng, id, entry.needs)).collect();
    loop {
        (0..).zip(&mut vcpus).for_each(|(id, vcpu)| vcpu.id = VcpuId(id));
        let mut system = System::new(cores, vcpus.clone());
        if uneven {
            system = system.uneven(&[(fast, 1000), (cores - fast, 600)]);
        }
        entry.add_service_vcpus(&mut system, &with(params));
        let verdict = (entry.admit)(&system, &with(params));
        assert!(verdict.objections.is_empty(), "{:?}", verdict.objections);
        let Some((refused, _)) = verdict.refused.first() else { return system };
        vcpus.retain(|vcpu| vcpu.id != *refused);
    }
}

struct Life {
    vcpu: Vcpu,
    since: u64,
    admitted: bool,
    changed: bool,
    next_release: u64,
}

pub(crate) fn try_hard(entry: &Entry, params: &[(&str, &str)], seed: u64) {
    let mut rng = Rng(seed);
    let system = random_system(&mut rng, entry, params);
    let manners = if seed.is_multiple_of(3) { Manners::PERFECT } else { Manners::HOSTILE };
    let mut machine = Machine::new(entry, &with(params), &system, manners);
    machine.rng = Rng(seed ^ 0x5eed);
    // Service VCPUs live by their service requests alone.
    let lives_freely = |vcpu: &Vcpu| matches!(vcpu.role, Role::Main | Role::Io);
    let vcpus = system.vcpus.into_iter().map(|vcpu| (lives_freely(&vcpu), vcpu));
    let mut lives: Vec<Life> = vcpus.map(|(admitted, vcpu)| life(vcpu, 0, admitted)).collect();
    for now in 0..250 {
        for one in &mut lives {
            live(&mut machine, one, &mut rng, now);
        }
        if rng.one_in(40) {
            let vcpu = random_vcpu(&mut rng, lives.len() as u32, entry.needs);
            machine.arrive(vcpu.clone());
            lives.push(life(vcpu, now, false));
        }
        machine.tick();
        for (vcpu, verdict) in machine.answers.drain(..) {
            lives[vcpu.0 as usize].admitted |= verdict.is_ok();
        }
        for core in (0..machine.plan.cores() as u16).map(CoreId) {
            let run_queue = machine.plan.run_queue(core);
            for grant in run_queue.foreground.iter().chain(&run_queue.background) {
                assert!(lives[grant.vcpu.0 as usize].since <= now, "{}", grant.vcpu);
            }
        }
        conserved(entry, params, &machine, &lives, seed);
    }
}

fn life(vcpu: Vcpu, since: u64, admitted: bool) -> Life {
    Life { vcpu, since, admitted, changed: false, next_release: since }
}

/// One VCPU does what it may do next.
fn live(machine: &mut Machine, life: &mut Life, rng: &mut Rng, now: u64) {
    let id = life.vcpu.id.0;
    let period = life.vcpu.reservation.period.ticks();
    let jobs = life.vcpu.arrival != maracas_core::Arrival::None;
    if !machine.plan.run_queue(CoreId(0)).background_allowed || !resident(machine, life) {
        return;
    }
    if jobs && now >= life.next_release {
        // Now and then a job overruns, and deadlines slide.
        let work = 1 + rng.below(life.vcpu.reservation.budget.ticks() + 1);
        machine.release(id, work, now + life.vcpu.reservation.deadline.ticks());
        life.next_release = now + period + rng.below(2) * rng.below(5);
    } else if !jobs && rng.one_in(5) {
        machine.wake(id);
    } else if !jobs && rng.one_in(9) {
        machine.sleep(id);
    } else if rng.one_in(150) {
        life.vcpu.reservation.budget = Duration::from_ticks(1 + rng.below(period / 2));
        life.vcpu.reservation.deadline = life.vcpu.reservation.period;
        life.changed = true;
        machine.tell(CoreId(0), Event::Changed(life.vcpu.clone()));
    } else if rng.one_in(300) {
        life.admitted = false;
        machine.remove(id);
    }
}

/// Whether the VCPU is admitted and the machine knows it.
fn resident(machine: &Machine, life: &Life) -> bool {
    life.admitted && (life.vcpu.id.0 as usize) < machine.models.len()
}

/// Foreground service never exceeds what was promised; an overrun is one tick past a limit at a
/// time, and paid back.
fn conserved(entry: &Entry, params: &[(&str, &str)], machine: &Machine, lives: &[Life], seed: u64) {
    let precise = params.contains(&("enforcement", "precise"));
    // Releases come late here: what is given ahead begins a period after the one before, and a job
    // that overruns uses it.
    let ahead = u64::from(params.contains(&("ahead", "true")));
    for life in lives.iter().filter(|life| !life.changed) {
        let model = &machine.models[life.vcpu.id.0 as usize];
        let (c, t) = (life.vcpu.reservation.budget.ticks(), life.vcpu.reservation.period.ticks());
        let windows = (machine.now - life.since).div_ceil(t);
        let most = match (entry.name, life.vcpu.role) {
            ("maracas", Role::Main) => c * windows,
            // On a slow home it is owed 10/6 of what it means on a fast core.
            _ if entry.needs.classes > 0 && c > 0 => (c * 10).div_ceil(6) * windows,
            _ if precise => c * (u64::from(model.released) + ahead),
            _ => continue,
        };
        // Geometric: ten ticks past a limit in a row come once in 6^10.
        let slack = if machine.manners.overrun > 0 { 10 } else { 0 };
        let meter = model.meters[0];
        assert!(meter <= most + slack, "{} seed {seed}: {meter} > {most}", life.vcpu.id);
    }
}

#[test]
fn any_legal_order_and_lateness() {
    for entry in ENTRIES {
        for seed in 0..120 {
            try_hard(entry, &[], seed);
        }
    }
    for (name, params) in VARIANTS {
        let entry = find(name).unwrap();
        for seed in 0..120 {
            try_hard(entry, params, seed);
        }
    }
}
