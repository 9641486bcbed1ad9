//! Finer ticks for task sets whose budgets are no whole nanoseconds under a policy.

use super::Case;
use maracas_core::{Arrival, Cost, Duration, Instant, Program, System, Workload};
use maracas_scenario::taskset::TaskSet;

/// The latest tick that a scaled simulation may reach: policies add a few windows to an instant,
/// and sums of two such still fit 64 bits.
const LATEST: u64 = 1 << 62;

/// How much time of a scaled simulation must fit in any case: more than is simulated where no
/// horizon is given.
const AT_LEAST: Duration = Duration::from_secs(60);

impl Case {
    /// Where the policy refuses the set, or keeps it only up to a tolerance, because budgets are
    /// rounded to nanoseconds: takes finer ticks, if the policy then keeps it exactly.
    pub(super) fn take_finer_ticks(&mut self, set: &TaskSet) {
        if self.verdict.accepted() && self.verdict.tolerance.is_zero() || self.service_vcpus > 0 {
            return;
        }
        // Sections are in nanoseconds.
        if self.system.resources.is_some() {
            return;
        }
        let Some(scale) = set.exact_scale().filter(|scale| *scale > 1) else { return };
        let longest = |system: &System| {
            let ends = system.vcpus.iter().map(|vcpu| {
                let offset = match vcpu.arrival {
                    Arrival::Periodic { offset } => offset,
                    Arrival::Sporadic | Arrival::None => Duration::ZERO,
                };
                offset + vcpu.reservation.period * 2
            });
            ends.max().unwrap_or_default()
        };
        let needed = (AT_LEAST + longest(&self.system)).ticks().checked_mul(scale);
        if needed.is_none_or(|ticks| ticks > LATEST) {
            return;
        }
        let finer = |system: &System| scaled(system, scale);
        let start = finer(&self.start);
        let verdict = (self.entry.admit)(&start, &self.params);
        if verdict.accepted() && verdict.tolerance.is_zero() {
            self.system = finer(&self.system);
            self.start = start;
            self.verdict = verdict;
            self.programs.iter_mut().for_each(|program| scale_costs(program, scale));
            self.notes.push(format!(
                "time has {scale} ticks a nanosecond, so that every budget of {} is a whole number",
                self.entry.name
            ));
        }
    }

    /// A length of time in this case's ticks; `None` where it is too long for them.
    pub fn in_ticks(&self, time: Duration) -> Option<Duration> {
        let scale = self.system.ticks_per_ns;
        let ticks = time.ticks().checked_mul(scale);
        ticks.filter(|ticks| scale == 1 || *ticks <= LATEST).map(Duration::from_ticks)
    }
    /// The longest time that this case's ticks can count, in whole seconds.
    pub fn longest(&self) -> Duration {
        Duration::from_secs(LATEST / self.system.ticks_per_ns / 1_000_000_000)
    }
    /// A length of time in ticks as users know it.
    pub fn in_nanos(&self, ticks: Duration) -> Duration {
        Duration::from_ticks(ticks.ticks() / self.system.ticks_per_ns)
    }
}

fn scaled(system: &System, scale: u64) -> System {
    let mut system = system.clone();
    system.ticks_per_ns *= scale;
    for vcpu in &mut system.vcpus {
        let r = &mut vcpu.reservation;
        for time in [&mut r.budget, &mut r.period, &mut r.deadline] {
            *time = *time * scale;
        }
        if let Arrival::Periodic { offset } = &mut vcpu.arrival {
            *offset = *offset * scale;
        }
    }
    system
}

/// Jobs of task sets, which are there all the time, always need the same.
fn scale_costs(program: &mut Program, scale: u64) {
    assert_eq!((program.arrive, program.depart), (Instant::ZERO, Instant::NEVER));
    if let Workload::Periodic { cost: Cost::Fixed(cost) } = &mut program.workload {
        *cost = *cost * scale;
    }
}
