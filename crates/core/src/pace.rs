//! How fast programs progress on cores of uneven speed: descriptions only.
//!
//! Scenario files are read into these types and the simulator acts them out; policies see none of
//! them: a policy knows speed by the instructions that segments report ([`crate::contract::Usage`])
//! and by what users say of a VCPU ([`crate::Vcpu::speedup_milli`]).

use crate::Duration;
use alloc::vec::Vec;

/// How fast a program progresses on each class of cores: its phases, each for as much work as
/// given, and again from the first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pace {
    /// Never empty. One phase with [`Duration::MAX`] is a program that never changes.
    pub phases: Vec<PacePhase>,
}

/// One phase of a program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PacePhase {
    /// How much work it takes, as time on a core of class 0, the fastest.
    pub work: Duration,
    /// Instructions (or the program's own units of progress) per second on a core of each class,
    /// by class; none is 0 and none greater than the first.
    pub ips: Vec<u64>,
}

impl Pace {
    /// A program that never changes its ways.
    pub fn steady(ips: Vec<u64>) -> Self {
        Self { phases: alloc::vec![PacePhase { work: Duration::MAX, ips }] }
    }
}
