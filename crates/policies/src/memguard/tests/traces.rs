//! The invariants of algorithms.md D.7 on random access traces, cores, budgets and
//! reservations.

use super::given;
use super::rig::{Rig, busy_vcpu};
use crate::testing::Rng;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZero;
use maracas_core::admission::{ReadLimit, Readers};
use maracas_core::contract::MemoryLimit;
use maracas_core::{CoreId, Instant, System};

/// Ticks of a period.
const PERIOD: u64 = 20;

struct Trace {
    rig: Rig,
    quotas: Vec<Option<u64>>,
    reclaim: bool,
    hard: Vec<bool>,
    spare: &'static str,
    /// What the verdict says that is never exceeded.
    most: Vec<ReadLimit>,
    /// Decisions come on time and limits are kept.
    exact: bool,
    /// Every core's meter when the period began.
    bases: Vec<u64>,
    begins: u64,
}

fn random(seed: u64, late: u64) -> Trace {
    let mut rng = Rng(seed);
    let cores = 1 + rng.below(4) as usize;
    let quotas: Vec<_> = (0..cores).map(|_| (!rng.one_in(6)).then(|| 1 + rng.below(9))).collect();
    let hard: Vec<bool> = (0..cores).map(|_| rng.one_in(3)).collect();
    let reclaim = !rng.one_in(3);
    let spare = ["off", "share", "proportional"][rng.below(3) as usize];
    // 3.2 GB/s are one request in twenty ticks.
    let bandwidth = |quota: &Option<u64>| {
        quota.map_or("none".to_string(), |quota| alloc::format!("{}MB/s", quota * 3200))
    };
    let bandwidths: Vec<String> = quotas.iter().map(bandwidth).collect();
    let kinds: Vec<&str> = hard.iter().map(|hard| if *hard { "hard" } else { "soft" }).collect();
    let params = given(&[
        ("bandwidth", &bandwidths.join(", ")),
        ("reservation", &kinds.join(",")),
        ("reclaim", if reclaim { "true" } else { "false" }),
        ("spare", spare),
        ("period", "20ns"),
        ("predictor", ["ewma", "ewma-1/4", "last"][rng.below(3) as usize]),
        ("q_min", &(1 + rng.below(4)).to_string()),
        ("quantum", "3ns"),
    ]);
    let vcpus = (0..cores as u32 * 2).map(busy_vcpu).map(|mut vcpu| {
        vcpu.bandwidth = NonZero::new(6_400_000_000).filter(|_| rng.one_in(4));
        vcpu
    });
    let system = System::new(cores, vcpus.collect());
    let mut rig = Rig::new(&system, &params);
    let most = rig.policy.settings.regulation(&system).most;
    (rig.late, rig.rng) = (late, Rng(seed ^ 0x5eed));
    let bases = alloc::vec![0; cores];
    Trace { rig, quotas, reclaim, hard, spare, most, exact: true, bases, begins: 0 }
}

impl Trace {
    fn tick(&mut self, rng: &mut Rng) {
        for vcpu in 0..self.rig.vcpus.len() {
            // Demand comes in bursts, so that predictions go wrong.
            let dense = (self.rig.now / 70 + vcpu as u64).is_multiple_of(3);
            if rng.one_in(if dense { 2 } else { 12 }) {
                let now = self.rig.now;
                self.rig.vcpus[vcpu].pending.push_back(now);
            }
            if rng.one_in(6) {
                self.rig.wake(vcpu);
            } else if rng.one_in(30) {
                self.rig.sleep(vcpu);
            }
        }
        let next = self.rig.policy.cores_next;
        let before: Vec<u64> = self.rig.cores.iter().map(|core| core.meter).collect();
        let phases = self.rig.policy.regulator.phases;
        let (was_sharing, flagged) = (self.rig.policy.regulator.sharing, self.flagged());
        self.rig.tick();
        let (now_next, idle) =
            (self.rig.policy.cores_next, !self.quotas.iter().any(Option::is_some));
        assert!(idle == (now_next == Instant::NEVER));
        if self.spare != "proportional" && !idle {
            assert!(now_next.ticks().is_multiple_of(PERIOD), "nominal periods");
        }
        self.conserved();
        if !self.exact {
            return;
        }
        let phased = self.rig.policy.regulator.phases > phases;
        if now_next != next && !phased {
            // The period ended before the accesses of this tick.
            self.ended(&before, was_sharing, flagged);
            self.bases = before;
        } else if phased {
            self.bases.clone_from(&before);
        }
        self.throttled_have_had_theirs(phased);
    }

    fn flagged(&self) -> bool {
        self.rig.policy.regulator.cores.iter().flatten().any(|core| core.underrun)
    }

    /// D.7, invariant 2: what is allotted and what is in the pool are the reservations.
    fn conserved(&self) {
        let regulator = &self.rig.policy.regulator;
        let allotted: u64 = regulator.cores.iter().flatten().map(|core| core.allotted).sum();
        let reserved: u64 = self.quotas.iter().flatten().sum();
        if self.flagged() {
            assert!(allotted + regulator.pool >= reserved);
        } else {
            assert_eq!(allotted + regulator.pool, reserved);
        }
        for (core, quota) in (0..).map(CoreId).zip(&self.quotas) {
            let allowance = self.rig.plan.run_queue(core).allowance;
            assert!(quota.is_some() || allowance == MemoryLimit::NEVER, "{core} is not regulated");
        }
    }

    /// D.7, invariants 1 and 2, for a whole period.
    fn ended(&mut self, meters: &[u64], sharing: bool, flagged: bool) {
        self.begins += 1;
        if sharing || self.spare == "proportional" {
            return;
        }
        let used = meters.iter().zip(&self.bases).map(|(meter, base)| meter - base);
        let regulated = self.quotas.iter().zip(&self.hard).zip(used);
        let mut sum = 0;
        for ((quota, hard), used) in regulated {
            let Some(quota) = quota else { continue };
            sum += used;
            assert!(used <= *quota || self.reclaim && !hard, "{used} reads of {quota}");
        }
        assert!(flagged || sum <= self.quotas.iter().flatten().sum());
        for limit in &self.most {
            let Readers::Cores(cores) = &limit.whose else { continue };
            let those = cores.iter().map(|core| usize::from(core.0));
            let used: u64 = those.map(|core| meters[core] - self.bases[core]).sum();
            assert!(used <= limit.reads, "{used} reads of {limit:?}");
        }
    }

    /// D.7, invariants 3 to 5: a closed core has had its whole reservation in this period, and
    /// whatever runs when a spare phase begins has used it up.
    fn throttled_have_had_theirs(&self, phased: bool) {
        for (core, own) in self.rig.policy.regulator.cores.iter().enumerate() {
            let (Some(own), Some(quota)) = (own, self.quotas[core]) else { continue };
            let (meter, id) = (self.rig.cores[core].meter, CoreId(core as u16));
            let closed = self.rig.plan.run_queue(id).allowance.is_reached(meter);
            assert_eq!(closed, own.throttled && !self.rig.policy.regulator.sharing, "{id}");
            if closed && self.spare != "proportional" {
                assert!(meter - self.bases[core] >= quota, "{id} is closed too early");
            }
            if phased && self.rig.running(core) && self.spare == "share" {
                assert!(meter - own.base >= quota, "{id} had budget left in a spare phase");
            }
        }
    }
}

#[test]
fn invariants_hold_on_time() {
    let mut periods = 0;
    for seed in 0..300 {
        let (mut trace, mut rng) = (random(seed, 0), Rng(seed + 1));
        (0..600).for_each(|_| trace.tick(&mut rng));
        periods += trace.begins;
    }
    assert!(periods > 4000, "only {periods} periods were looked at");
}

#[test]
fn invariants_hold_under_lateness_and_overruns() {
    for seed in 0..200 {
        let (mut trace, mut rng) = (random(seed, seed % 50), Rng(seed + 1));
        // Whatever an access reads past a limit, it stops there: at most three reads are owed.
        (trace.rig.overrun, trace.exact) = (4, false);
        let mut vcpus = Vec::new();
        for _ in 0..600 {
            trace.tick(&mut rng);
            vcpus = trace.rig.vcpus.iter().map(|vcpu| vcpu.memory).collect();
        }
        let periods = trace.rig.now.div_ceil(PERIOD);
        for (core, quota) in trace.quotas.iter().enumerate() {
            let Some(quota) = quota else { continue };
            if trace.spare == "off" && (!trace.reclaim || trace.hard[core]) {
                let meter = trace.rig.cores[core].meter;
                assert!(meter <= quota * periods + 3, "seed {seed}: {meter} in {periods} periods");
            }
        }
        for (vcpu, memory) in vcpus.iter().enumerate() {
            let most = trace.rig.policy.vcpus.limit(maracas_core::VcpuId(vcpu as u32));
            assert!(
                most == MemoryLimit::NEVER || *memory <= 2 * periods + 3,
                "seed {seed}: {memory}"
            );
        }
    }
}

#[test]
fn a_hard_core_with_demand_gets_its_budget_in_each_period() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let quota = 1 + rng.below(9);
        let bandwidth = alloc::format!("{}MB/s, 6400MB/s, 12800MB/s", quota * 3200);
        let spare = ["off", "share"][rng.below(2) as usize];
        let mut rig = Rig::one_a_core(
            3,
            &given(&[
                ("bandwidth", &bandwidth),
                ("reservation", "hard, soft, soft"),
                ("period", "20ns"),
                ("spare", spare),
            ]),
        );
        for vcpu in 0..3 {
            rig.wake(vcpu);
        }
        rig.vcpus[0].pending.extend(core::iter::repeat_n(0, 1000));
        let mut before = 0;
        for period in 1..30 {
            for _ in 0..PERIOD {
                let now = rig.now;
                (1..3).filter(|_| rng.one_in(4)).for_each(|v| rig.vcpus[v].pending.push_back(now));
                rig.tick();
            }
            let meter = rig.cores[0].meter;
            assert!(meter - before >= quota, "seed {seed}, period {period}");
            assert!(spare == "share" || meter == quota * period);
            before = meter;
        }
    }
}
