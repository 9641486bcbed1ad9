//! What several test files share: random systems, an auditor, wrappers around policies, and the
//! swarm. It may import every room; nothing
//! imports it but `python`, which holds policies written there to the same tests.

mod audit;
mod case;
mod check;
pub mod contract;
mod follow;
mod generate;
mod guard_audit;
#[cfg(feature = "swarm")]
pub mod kernel;
pub mod lateness;
#[cfg(feature = "swarm")]
mod live;
mod maracas_audit;
mod memory_audit;
pub mod orders;
mod params;
pub mod rated;
#[cfg(feature = "swarm")]
mod shrink;
#[cfg(feature = "swarm")]
mod swarm;
mod tree_audit;
pub mod uneven;
mod wrappers;

pub use audit::Auditor;
pub use case::{Case, Faults};
pub use check::{Checked, check, check_counting, quietly};
pub use generate::{
    Churn, Dice, Exact, Mix, RandomSystem, churn, exact, generate, generate_slow, memory_for,
    off_the_grid, uneven_for,
};
pub use guard_audit::GuardAudit;
#[cfg(feature = "swarm")]
pub use kernel::{KernelCase, KernelFaults, KernelPlayed, Mistake};
pub use lateness::{Late, Lateness};
#[cfg(feature = "swarm")]
pub use live::{LiveCall, LiveCase, LiveFaults, Meters, Played};
pub use maracas_audit::MaracasAudit;
pub use memory_audit::MemoryAudit;
#[cfg(feature = "swarm")]
pub use swarm::{Failure, Kind, Summary, Swarm, is_optimal, keeps_churn};
pub use tree_audit::TreeAudit;
pub use wrappers::{DepthOne, Nagging};

use maracas_core::contract::{Entry, Observer, Policy, Segment};
use maracas_core::params::Params;
use maracas_core::{Event, Instant, Plan};

/// [`build_with`] default parameters.
///
/// # Panics
/// Where `admit` and `build` disagree.
#[must_use]
pub fn build(entry: &Entry, random: &RandomSystem) -> Option<Box<dyn Policy>> {
    build_with(entry, random, &Params::new())
}

/// Builds the policy of `entry` for what is there at the start; `None` where it refuses.
///
/// # Panics
/// Where `admit` and `build` disagree.
#[must_use]
pub fn build_with(
    entry: &Entry,
    random: &RandomSystem,
    params: &Params,
) -> Option<Box<dyn Policy>> {
    let start = maracas_sim::at_start(&random.system, &random.programs);
    let accepted = (entry.admit)(&start, params).accepted();
    let built = (entry.build)(&start, params);
    assert_eq!(accepted, built.is_ok(), "{}: admit and build disagree", entry.name);
    built.ok()
}

/// All segments of a run, with touching pieces of one VCPU on one core in one mode merged: what a
/// schedule is, whatever the number of decisions that led to it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Schedule {
    /// By core, in order of time.
    pub cores: Vec<Vec<Segment>>,
}

impl Observer for Schedule {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(segment) = event else { return };
        let core = segment.core.0 as usize;
        if self.cores.len() <= core {
            self.cores.resize(core + 1, Vec::new());
        }
        if let Some(last) = self.cores[core].last_mut()
            && (last.vcpu, last.mode, last.to) == (segment.vcpu, segment.mode, segment.from)
        {
            last.to = segment.to;
            last.usage.add(&segment.usage);
            return;
        }
        // Why a piece ended depends on the decisions; where and when it lay does not.
        self.cores[core].push(Segment { end: maracas_core::contract::End::Metered, ..*segment });
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}
