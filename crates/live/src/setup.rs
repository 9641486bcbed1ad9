//! What is to be run, on which cores, and with what the host allows.

use crate::host::HardwareCore;
use crate::host::launch::Command;
use crate::host::probe::{Capabilities, Capability, EVENTS};
use crate::sense::Counting;
use maracas_core::{Duration, Instant, Rate, System, Vcpu, VcpuId};

/// One command that is to run on a VCPU.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Its name, for the outcome.
    pub name: String,
    /// The VCPU that pays for it; several programs may share one.
    pub vcpu: VcpuId,
    /// What to start.
    pub command: Command,
    /// When it is started.
    pub start: Instant,
    /// When it is asked to end; [`Instant::NEVER`] = at the run's end.
    pub stop: Instant,
}

/// What is to be run, and on which cores.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Platform and first VCPUs, as the policy was built for them.
    pub system: System,
    /// The kernel's number of each core, by its `CoreId`.
    pub cores: Vec<HardwareCore>,
    /// Names of the first VCPUs, by their place in `system.vcpus`.
    pub names: Vec<String>,
    /// VCPUs that come later, with their names: the policy is asked about each when its first
    /// program is to start, and what it refuses is not started.
    pub later: Vec<(String, Vcpu)>,
    /// What runs on them.
    pub programs: Vec<Launch>,
    /// When the run ends; `None` = when the last program has ended or
    /// [`crate::Handle::stop`] is called.
    pub duration: Option<Duration>,
    /// Stays for VCPUs that others create when its own programs, if any, have ended.
    pub serve: bool,
    /// The share of its time in which each core runs programs, by its `CoreId`: below one, it is
    /// slowed down by a duty cycle to stand for a slower core: all of its programs' time, budgets
    /// among it, is then the slower core's. Empty = no core is; reservations may take
    /// what `maracas_session::capacity_when_emulated` says.
    pub duty: Vec<Rate>,
    /// By what memory is steered.
    pub steering: Steering,
    /// How the scheduler in the kernel counts reads of memory; `None` = not at all. Agents count
    /// by [`Senses`](crate::sense::Senses).
    pub counting: Option<Counting>,
}

/// By what the machine steers shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Steering {
    /// How a core loses its surplus time.
    pub throttle: Throttle,
    /// How the last-level cache is split by [`maracas_core::Core::colors`].
    pub cache: CacheParts,
    /// Cycles per microsecond in which a policy's samples count occupancy, whatever clock the
    /// sensor has; `None` = the sensor's own.
    pub cycles_per_us: Option<u64>,
}

/// How a core loses its surplus time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Throttle {
    /// Its background is frozen (control groups).
    #[default]
    Freezer,
    /// Its background goes on, with its bandwidth lowered as far as the hardware can (resctrl MBA).
    Mba,
}

/// How the last-level cache is split.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum CacheParts {
    /// Not at all.
    #[default]
    Whole,
    /// By ways (resctrl, CAT): bit n of a core's colours is way n.
    Ways,
    /// By page colours, for programs that use the client library or have it preloaded: bit n of a
    /// core's colours is colour n of so many.
    Colors(u32),
}

impl Setup {
    /// All VCPUs of the setup with their names: the first ones, then the later ones.
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = (&Vcpu, Option<&str>)> {
        let names = self.names.iter().map(|name| Some(name.as_str()));
        let first = self.system.vcpus.iter().zip(names.chain(std::iter::repeat(None)));
        first.chain(self.later.iter().map(|(name, vcpu)| (vcpu, Some(name.as_str()))))
    }
}

/// What the host lets the machine do. Each thing that is missing has its next best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Means {
    /// Foreground by `SCHED_FIFO`. Without it all is `SCHED_OTHER`, and the machine stops and
    /// continues programs so that only the one runs that the law names: errors of milliseconds.
    pub fifo: bool,
    /// Groups can be frozen. Without it the background is left to the kernel's fair class or, where
    /// there is no FIFO either, programs are stopped by signals.
    pub freezer: bool,
    /// Counters of VCPUs' time and switch records. Without them the threads' clocks are read at
    /// the earliest exhaustion and every millisecond, and blocks and wakes are guessed from their
    /// standing still.
    pub events: bool,
    /// Instructions may be counted as the programs' progress, on uneven cores; whether every core
    /// does count them is tried. Without, programs may count their own
    /// ([`PROGRESS_VARIABLE`](maracas_core::control::PROGRESS_VARIABLE)), which says more of those
    /// that spin while they wait.
    pub instructions: bool,
    /// The law is carried out by a scheduler in the kernel, which meters too, in place of agents
    /// and of events.
    pub kernel: bool,
}

impl Means {
    /// All of it, by agents.
    pub const FULL: Self =
        Self { fifo: true, freezer: true, events: true, instructions: true, kernel: false };

    /// The same by the scheduler in the kernel.
    #[must_use]
    pub const fn in_kernel(self) -> Self {
        Self { events: false, instructions: false, kernel: true, ..self }
    }

    /// Whether what VCPUs ran is read from clocks of their threads.
    pub(crate) const fn reads_clocks(self) -> bool {
        !self.events && !self.kernel
    }

    /// What of it the state of a core depends on.
    pub(crate) const fn of_a_core(self) -> maracas_live_core::Means {
        let Self { fifo, freezer, events, .. } = self;
        maracas_live_core::Means { fifo, freezer, events }
    }
    /// What the probe found.
    pub fn of(found: &Capabilities) -> Self {
        Self {
            fifo: found.has(Capability::Fifo),
            freezer: found.has(Capability::Freezer),
            events: EVENTS.into_iter().all(|event| found.has(event)),
            instructions: true,
            kernel: false,
        }
    }
}
