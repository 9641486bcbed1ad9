//! Random cores of two classes, with programs of uneven pace.

use super::{Dice, RandomSystem};
use maracas_core::{Arrival, Core, Duration, Pace, PacePhase, Program, Role, VcpuId};
use std::num::NonZero;

/// Makes the cores of `random` of a fast and a slow class, at least one of each, and draws how fast
/// its programs progress on them. Some VCPUs lose their reservation, some have their budget meant
/// on a class, and of some the speedup is said beforehand.
#[must_use]
pub fn uneven_for(random: &mut RandomSystem, seed: u64) -> Vec<Option<Pace>> {
    let mut dice = Dice::new(seed ^ 0x2c1a);
    let cores = random.system.cores.len().max(2);
    random.system.cores.resize(cores, Core::default());
    let fast = dice.between(1, cores as u64 - 1) as usize;
    let slow_milli = dice.pick(&[1000, 875, 800, 500, 500, 333, 250, 125]);
    random.system = random.system.clone().uneven(&[(fast, 1000), (cores - fast, slow_milli)]);
    let longest = random.system.vcpus.iter().map(|vcpu| vcpu.reservation.period).max();
    let longest = longest.unwrap_or(Duration::from_ticks(1));
    let paces: Vec<_> =
        random.programs.iter().map(|_| pace(&mut dice, slow_milli, longest)).collect();
    for vcpu in &mut random.system.vcpus {
        if vcpu.arrival == Arrival::None && vcpu.role == Role::Main && dice.one_in(2) {
            vcpu.reservation.budget = Duration::ZERO;
        }
        vcpu.class = dice.pick(&[None, Some(0), Some(1), Some(1)]);
        if dice.one_in(3) {
            vcpu.speedup_milli = NonZero::new(speedup_milli(&random.programs, &paces, vcpu.id));
        }
    }
    paces
}

/// How much faster the first phase of the VCPU's first program is on the fast class, rounded to
/// the nearest; 0 where it has no pace.
fn speedup_milli(programs: &[Program], paces: &[Option<Pace>], vcpu: VcpuId) -> u32 {
    let own = programs.iter().position(|program| program.vcpu == vcpu);
    let pace = own.and_then(|place| paces[place].as_ref());
    pace.map_or(0, |pace| {
        let ips = &pace.phases[0].ips;
        ((ips[0] * 1000 + ips[1] / 2) / ips[1]) as u32
    })
}

/// No program loses more on a slow core than the classes differ.
fn pace(dice: &mut Dice, slow_milli: u32, longest: Duration) -> Option<Pace> {
    if dice.one_in(5) {
        return None;
    }
    let phases = dice.pick(&[1, 1, 2, 3]);
    let mut phase = |_| {
        let work = Duration::from_ticks(dice.between(1, 2 * longest.ticks()));
        let fast = dice.between(1, 4_000) * 1_000_000;
        let least = (fast * u64::from(slow_milli)).div_ceil(1000);
        let slow = if dice.one_in(3) { fast } else { dice.between(least, fast) };
        PacePhase { work: if phases == 1 { Duration::MAX } else { work }, ips: vec![fast, slow] }
    };
    Some(Pace { phases: (0..phases).map(&mut phase).collect() })
}
