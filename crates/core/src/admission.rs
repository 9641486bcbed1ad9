//! The one admission verdict that `check`, `sim`, `run` and a policy's `build` share.

use crate::contract::Meters;
use crate::{CoreId, CoreSet, Duration, PPB, Rate, Reservation, System, VcpuId};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// One schedulability test's outcome on one core, with its numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestResult {
    /// `"ll"`, `"hyperbolic"`, `"rta"`, `"rta-lc"`, `"edf"`, `"qpa"`, `"gfb"`, `"bak"`, `"bcl"`,
    /// `"ff-dbf"`, `"tardiness"`, `"capacity"`, `"rta-blocking"`, `"edf-blocking"`.
    pub test: &'static str,
    /// What was compared with what.
    pub measure: Measure,
    /// Whether the test accepts.
    pub accepted: bool,
}

/// The numbers of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Measure {
    /// A load or product against its bound, both in parts per billion.
    Ratio {
        /// What the VCPUs ask for, rounded up.
        value: u64,
        /// What the test allows, rounded down.
        bound: u64,
    },
    /// Response times against deadlines, by VCPU in priority order; `None` = beyond the deadline.
    Responses(Vec<(VcpuId, Option<Duration>, Duration)>),
    /// How late jobs are at most, by VCPU. That none is late it does not say.
    Tardiness(Vec<(VcpuId, Duration)>),
}

/// What the tests say of one core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreVerdict {
    /// The core, or the first one of a cluster that is judged as one; `None` where a global policy
    /// judges all cores as one.
    pub core: Option<CoreId>,
    /// VCPUs placed there, in priority order.
    pub vcpus: Vec<VcpuId>,
    /// Every test's numbers; the deciding one's first.
    pub tests: Vec<TestResult>,
}

/// Why a VCPU was not admitted, with the numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAdmitted {
    /// One sentence: the thing, the number, the way out.
    pub reason: String,
    /// The core whose numbers come closest, and its tests with this VCPU added.
    pub closest: Option<CoreVerdict>,
}

impl NotAdmitted {
    /// Why no policy may give `vcpu` what it asks for, if so: no VCPU gets more of one core than
    /// `capacity`; beyond it a live core's kernel takes the core away.
    pub fn too_heavy(vcpu: VcpuId, asked: &Reservation, capacity: Rate) -> Option<Self> {
        let Reservation { budget, period, .. } = asked;
        // A period of zero has no rate, and an objection of its own.
        if period.is_zero() {
            return None;
        }
        let rate = asked.utilization();
        (rate > capacity).then(|| Self {
            reason: alloc::format!(
                "{vcpu} ({budget} every {period}) asks for {rate} of a core, of which {capacity} \
                 may be used; lower its budget or lengthen its period"
            ),
            closest: None,
        })
    }
}

/// Why a policy cannot run a system as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Objection {
    /// The parameter whose value cannot be: bad input, wherever the value came from. `None` where
    /// the system itself cannot be.
    pub parameter: Option<&'static str>,
    /// One sentence: the thing, the number, the way out. With a parameter it goes on from that
    /// one's name.
    pub text: String,
}

impl Objection {
    /// To the value of a parameter: what is wrong with it, from the word after its name on.
    pub fn to(parameter: &'static str, text: impl Into<String>) -> Self {
        Self { parameter: Some(parameter), text: text.into() }
    }
}

/// To the system itself.
impl From<String> for Objection {
    fn from(text: String) -> Self {
        Self { parameter: None, text }
    }
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parameter) = self.parameter {
            write!(f, "{parameter} ")?;
        }
        f.write_str(&self.text)
    }
}

/// The verdict on a whole system.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verdict {
    /// What every core's tests say of the VCPUs that fit.
    pub cores: Vec<CoreVerdict>,
    /// VCPUs that fit nowhere.
    pub refused: Vec<(VcpuId, NotAdmitted)>,
    /// Why the system as a whole cannot be run by this policy (a job policy given VCPUs without
    /// jobs, say); empty where it can.
    pub objections: Vec<Objection>,
    /// How much of a job's work may be undone at its deadline though everything was admitted and
    /// every job stays within its budget, because a policy's own budgets are rounded to whole
    /// ticks; zero where they are whole. See
    /// [`Claims::no_miss_when_admitted`](crate::contract::Claims::no_miss_when_admitted).
    pub tolerance: Duration,
    /// How the cores' reads of memory are limited, where the policy limits them for ever in the
    /// same way.
    pub regulation: Option<Box<Regulation>>,
    /// How long a job of each VCPU is blocked at most by others that share resources with it or
    /// with those of its core; empty where nothing is shared, and where the policy knows no
    /// resources.
    pub blocking: Vec<(VcpuId, Duration)>,
}

/// Limits on reads of memory: a core that has read so much of it is closed until the period ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regulation {
    /// The time after which every core may read as much again.
    pub period: Duration,
    /// What the meters count that hold cores to it, and whether budgets follow the memory
    /// controller's utilization.
    pub meters: Meters,
    /// Reads that each core may always do in a period, by core, or as many reads and write-backs
    /// where the meters count these; `None` = as many as it can.
    pub reads: Vec<Option<u64>>,
    /// What is never exceeded in a period, whatever is lent and reclaimed; empty where nothing is:
    /// where spare bandwidth is given away, budgets are of single banks, or follow the utilization.
    pub most: Vec<ReadLimit>,
}

/// Reads that some do at most in a period of a [`Regulation`]. A machine that stops a core late
/// lets more through, which is owed to the next period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadLimit {
    /// Who reads.
    pub whose: Readers,
    /// Reads in a period, all together.
    pub reads: u64,
}

/// Whose reads a [`ReadLimit`] counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readers {
    /// Whatever runs on one of these cores.
    Cores(CoreSet),
    /// A VCPU, wherever it runs.
    Vcpu(VcpuId),
}

impl Verdict {
    /// Whether everything was admitted.
    pub const fn accepted(&self) -> bool {
        self.refused.is_empty() && self.objections.is_empty()
    }
    /// Refuses VCPUs that ask for more of a core than may be given away in `system`, whatever the
    /// policy's own test says.
    #[must_use]
    pub fn within_capacity(mut self, system: &System) -> Self {
        for vcpu in &system.vcpus {
            let heavy = NotAdmitted::too_heavy(vcpu.id, &vcpu.reservation, system.capacity);
            let is_new = self.refused.iter().all(|(refused, _)| *refused != vcpu.id);
            self.refused.extend(heavy.filter(|_| is_new).map(|why| (vcpu.id, why)));
        }
        self
    }
    /// Refuses a system that shares resources under a policy that knows none: its jobs would be
    /// late by waits of which no test knows.
    #[must_use]
    pub fn knowing_resources(mut self, system: &System) -> Self {
        if system.resources.is_some() && self.accepted() && self.blocking.is_empty() {
            let why = "this policy knows no shared resources; take p-rm or p-edf, or drop `locks`";
            self.objections.push(String::from(why).into());
        }
        self
    }
    /// Why not everything was admitted, in a row; empty where everything was.
    pub fn why(&self) -> String {
        let objections = self.objections.iter().map(ToString::to_string);
        let refused = self.refused.iter().map(|(id, why)| alloc::format!("{id}: {}", why.reason));
        objections.chain(refused).collect::<Vec<_>>().join("; ")
    }
}

/// Shows parts per billion as a fraction of one with six decimals, rounded to nearest.
pub struct Ppb(pub u64);

impl fmt::Display for Ppb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millionths = (self.0 + 500) / 1_000;
        let unit = PPB / 1_000;
        write!(f, "{}.{:06}", millionths / unit, millionths % unit)
    }
}

impl fmt::Display for TestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.accepted { "ok" } else { "refused" };
        match &self.measure {
            Measure::Ratio { value, bound } => {
                write!(f, "{}: {} of {} ({sign})", self.test, Ppb(*value), Ppb(*bound))
            }
            Measure::Responses(list) => {
                write!(f, "{}:", self.test)?;
                for (place, (vcpu, response, deadline)) in list.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    match response {
                        Some(r) => write!(f, "{comma} {vcpu} {r} of {deadline}")?,
                        None => write!(f, "{comma} {vcpu} beyond {deadline}")?,
                    }
                }
                write!(f, " ({sign})")
            }
            Measure::Tardiness(list) => {
                write!(f, "{}:", self.test)?;
                for (place, (vcpu, late)) in list.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    write!(f, "{comma} {vcpu} {late}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(CoreVerdict { core, tests, .. }) = &self.closest {
            match core {
                Some(core) => write!(f, " [{core}")?,
                None => write!(f, " [all cores")?,
            }
            for test in tests {
                write!(f, "; {test}")?;
            }
            f.write_str("]")?;
        }
        Ok(())
    }
}
