//! Random systems under a policy that sets everything at random: nothing may break, and every
//! count must belong to a VCPU.

use super::memory::{Reported, cache, memory, simulate_with, strides, walk};
use super::*;
use crate::rng::{Purpose, Stream};
use maracas_core::Role;
use maracas_core::contract::{MemoryLimit, ServiceRequest};
use std::num::NonZeroU32;

const MS: u64 = 1_000_000;

/// Draws a new run queue for every core, and a service request now and then.
struct Reckless {
    dice: Stream,
    vcpus: u32,
    service_vcpu: u32,
    reads: Vec<u64>,
    seen: Vec<u64>,
}

impl Reckless {
    fn roll(&mut self, end: u64) -> u64 {
        self.dice.uniform(ticks(0), ticks(end - 1)).ticks()
    }
    fn grant(&mut self, vcpu: u32) -> Grant {
        let memory = self.seen[vcpu as usize] + self.roll(4_000);
        let limited = self.roll(2) == 0;
        let memory = if limited { MemoryLimit(memory) } else { MemoryLimit::NEVER };
        Grant { memory, ..always(vcpu) }
    }
}

impl Policy for Reckless {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.reads[segment.core.0 as usize] += segment.usage.reads;
            self.seen[segment.vcpu.0 as usize] += segment.usage.reads;
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        if now < plan.wake && plan.wake != Instant::NEVER {
            plan.service_request = None;
            return;
        }
        let mut order: Vec<u32> =
            (0..self.vcpus).filter(|vcpu| *vcpu != self.service_vcpu).collect();
        for place in (1..order.len()).rev() {
            order.swap(place, self.roll(place as u64 + 1) as usize);
        }
        for core in 0..plan.cores() {
            let own: Vec<_> = order.iter().skip(core).step_by(plan.cores()).copied().collect();
            let mut foreground: Vec<_> = own.iter().take(2).map(|id| self.grant(*id)).collect();
            if core == 0 {
                foreground.insert(0, always(self.service_vcpu));
            }
            let background = own.iter().skip(1).map(|id| self.grant(*id)).collect();
            let allowance = self.reads[core] + self.roll(20_000);
            let allowance =
                if self.roll(2) == 0 { MemoryLimit(allowance) } else { MemoryLimit::NEVER };
            let background_allowed = self.roll(4) > 0;
            *plan.run_queue_mut(CoreId(core as u16)) =
                RunQueue { foreground, background, background_allowed, allowance };
        }
        let service_request = match self.roll(4) {
            0 => Some(ServiceRequest::Sample),
            1 => {
                let (vcpu, bits) = (VcpuId(self.roll(6) as u32), self.roll(1 << 20));
                let colors = CachePart::new(bits);
                Some(ServiceRequest::Move { vcpu, to: CoreId(0), colors })
            }
            _ => None,
        };
        plan.service_request =
            service_request.map(|service_request| (VcpuId(self.service_vcpu), service_request));
        plan.wake = now + ticks(1 + self.roll(MS));
        plan.wake_metered = self.roll(2) == 0;
    }
}

fn case(seed: u64) -> (Outcome, Reported) {
    let mut dice = Stream::new(seed, Purpose::Gap, 1, 1);
    let service_vcpu = Vcpu { role: Role::Monitor, ..server(5) };
    let mut vcpus: Vec<_> = (0..5).map(server).collect();
    vcpus[0] = task(0, MS, 3 * MS);
    let mut system = System::new(3, vcpus.into_iter().chain([service_vcpu]).collect());
    if seed.is_multiple_of(4) {
        system = system.uneven(&[(1, 1_000), (2, 450)]);
    }
    let mut leaving = busy(2);
    leaving.depart = at(20 * MS + seed);
    let programs = [job(0, MS), busy(1), leaving, run_sleep(3, MS / 5, MS / 9), busy(4), busy(1)];
    let uses = [walk(300), strides(), walk(2_000), strides(), walk(64)];
    let mut memory = memory(uses.into_iter().map(Some).chain([None]).collect());
    memory.cache = Some(maracas_core::memory::Cache {
        cores_per_cache: NonZeroU32::new(dice.uniform(ticks(0), ticks(2)).ticks() as u32),
        ..cache()
    });
    let tick = ticks(777);
    let options = Options {
        seed,
        late: if seed.is_multiple_of(2) { ticks(0) } else { ticks(9_000) },
        hidden_wakes: seed.is_multiple_of(3),
        overheads: Overheads {
            context_switch: tick,
            migration: tick,
            release: tick,
            sample: tick,
            ..Overheads::FREE
        },
        ..Options::new(at(40 * MS))
    };
    let policy = &mut Reckless {
        dice: Stream::new(seed, Purpose::Gap, 7, 7),
        vcpus: 6,
        service_vcpu: 5,
        reads: vec![0; 3],
        seen: vec![0; 6],
    };
    simulate_with(&system, &programs, &memory, policy, options)
}

#[test]
fn whatever_is_planned_counts_add_up_and_two_runs_are_the_same() {
    let (mut spent, mut sampled) = (0, 0);
    for seed in 0..24 {
        let (outcome, reported) = case(seed);
        let totals = outcome.memory.clone().expect("there is a memory model");
        for core in 0..3u16 {
            let usage = reported.sum(|segment| segment.core == CoreId(core));
            assert_eq!(usage.reads + usage.writes, totals.by_core[core as usize], "seed {seed}");
        }
        let all = reported.sum(|_| true);
        assert_eq!((all.reads, all.writes), (totals.reads, totals.writes), "seed {seed}");
        assert!(all.reads > 10_000, "seed {seed}: {all:?}");
        let (again, same) = case(seed);
        assert!(outcome == again && reported.log.0 == same.log.0, "seed {seed}");
        spent += reported.log.0.matches("AllowanceSpent").count();
        sampled += reported.log.0.matches("Sampled").count();
    }
    assert!(spent > 100 && sampled > 100, "{spent} {sampled}");
}
