//! The hosts that the lab makes, and what is expected of each.

/// Exit code of `maracas run` where a promise was not kept (docs/output.md).
pub(super) const BROKEN: i32 = 4;

/// What a guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// `maracas doctor`, then the quickstart this many times.
    Quickstart(u32),
    /// All live test binaries.
    Tests,
    /// The scheduler that is a BPF program: the quickstart by agents and by it, budgets by its
    /// loader, and the loader killed.
    SchedExt,
    /// Runs by the scheduler that is a BPF program, and what befalls them.
    KernelLive,
    /// An hour by it, beside programs of no VCPU.
    Hour,
}

/// How a guest mounts its control groups.
pub(super) const V2: &str = "v2";

/// A kind of host.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    /// Its name, for `--only`.
    pub(super) name: &'static str,
    /// One line of what it is.
    pub(super) about: &'static str,
    /// The kernels that it is for, unless `--only` names it and others are named.
    pub(super) kernels: &'static [&'static str],
    /// An instruction takes 2^shift ns.
    pub(super) shift: u32,
    /// Cores of the guest.
    pub(super) cores: u32,
    /// Control groups: `v2`, `v1`, `v1-no-freezer` or `hybrid`.
    pub(super) groups: &'static str,
    /// Capabilities that nothing in the guest has, for `setpriv --bounding-set`.
    pub(super) without: &'static str,
    /// Whether core 1 is taken off line and brought back while programs run.
    pub(super) hotplug: bool,
    /// What it does.
    pub(super) work: Work,
    /// How far the mean of each VCPU may be off C, in percent.
    pub(super) mean: Option<f64>,
    /// What agents may take of a core, in percent; the median of all runs of the guest.
    pub(super) agents: Option<f64>,
}

/// Debian's kernels that the lab knows by itself.
pub(super) const KERNELS: &[&str] = &["6.1-cloud", "6.1-rt", "7.3"];
const OLD: &[&str] = &["6.1-cloud"];
/// Those that have sched_ext. What the lab compiles boots only where it is named.
const SCHED_EXT: &[&str] = &["6.12", "7.3"];

/// Means may be off by 0.1 % where an instruction takes 2 ns.
const MEAN: Option<f64> = Some(0.1);
/// And by 0.5 % on a host that is four times slower.
const MEAN_SLOW: Option<f64> = Some(0.5);
/// And by 1 % where clocks are read in place of counters (docs/guarantees.md).
const MEAN_CLOCKS: Option<f64> = Some(1.0);

const PLAIN: Scenario = Scenario {
    name: "plain",
    about: "the quickstart on two cores, cgroup v2 only",
    kernels: KERNELS,
    shift: 1,
    cores: 2,
    groups: V2,
    without: "",
    hotplug: false,
    work: Work::Quickstart(1),
    mean: MEAN,
    agents: None,
};

/// All scenarios, in the order of the table.
pub(super) const ALL: &[Scenario] = &[
    PLAIN,
    Scenario {
        name: "cost",
        about: "three times the quickstart: what agents take of a core",
        kernels: OLD,
        work: Work::Quickstart(3),
        // A decision costs a third of what it did: 28 to 32 % of a core.
        agents: Some(10.0),
        ..PLAIN
    },
    Scenario {
        name: "slow",
        about: "a host on which everything takes four times as long",
        kernels: OLD,
        shift: 3,
        mean: MEAN_SLOW,
        ..PLAIN
    },
    Scenario { name: "one-core", about: "one core, two programs", kernels: OLD, cores: 1, ..PLAIN },
    // Cores of a guest share one thread of the emulator and take turns: what a VCPU misses
    // meanwhile is no agent's fault.
    Scenario {
        name: "four-cores",
        about: "four cores",
        kernels: OLD,
        cores: 4,
        mean: MEAN_SLOW,
        ..PLAIN
    },
    // Events of a group of programs need cgroup v2; without them budgets are held less exactly.
    Scenario {
        name: "v1",
        about: "cgroup v1 only",
        kernels: OLD,
        groups: "v1",
        mean: MEAN_CLOCKS,
        ..PLAIN
    },
    Scenario {
        name: "no-freezer",
        about: "cgroup v1 only, no freezer",
        kernels: OLD,
        groups: "v1-no-freezer",
        mean: MEAN_CLOCKS,
        ..PLAIN
    },
    Scenario {
        name: "hybrid",
        about: "cgroup v1 with v2 beside it",
        kernels: OLD,
        groups: "hybrid",
        ..PLAIN
    },
    // CAP_SYS_ADMIN includes what CAP_PERFMON allows (capabilities(7)).
    Scenario {
        name: "no-perfmon",
        about: "without CAP_PERFMON and CAP_SYS_ADMIN",
        kernels: OLD,
        without: "-perfmon,-sys_admin",
        mean: MEAN_CLOCKS,
        ..PLAIN
    },
    Scenario {
        name: "hotplug",
        about: "core 1 is taken off line for a second while programs run",
        kernels: OLD,
        hotplug: true,
        mean: None,
        ..PLAIN
    },
    Scenario { name: "tests", about: "the live tests", work: Work::Tests, mean: None, ..PLAIN },
    Scenario {
        name: "tests-slow",
        about: "the live tests on a host on which everything takes four times as long",
        kernels: OLD,
        shift: 3,
        work: Work::Tests,
        mean: None,
        ..PLAIN
    },
    Scenario {
        name: "sched-ext",
        about: "budgets by the scheduler that is a BPF program, and its loader killed",
        kernels: SCHED_EXT,
        work: Work::SchedExt,
        ..PLAIN
    },
    Scenario {
        name: "sched-ext-live",
        about: "hostile programs, storms, kills and jobs by the scheduler that is a BPF program",
        kernels: SCHED_EXT,
        work: Work::KernelLive,
        mean: None,
        ..PLAIN
    },
    Scenario {
        name: "sched-ext-hour",
        about: "an hour of load by the scheduler that is a BPF program, on a slow host",
        kernels: SCHED_EXT,
        shift: 4,
        work: Work::Hour,
        mean: None,
        ..PLAIN
    },
];

/// What `--quick` boots: scenario and kernel.
pub(super) const QUICK: &[(&str, &str)] = &[("plain", "6.1-rt"), ("slow", "6.1-cloud")];

/// The scenario of this name.
pub(super) fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

impl Scenario {
    /// Whether it loads the scheduler that is a BPF program.
    pub(super) fn loads(&self) -> bool {
        matches!(self.work, Work::SchedExt | Work::KernelLive | Work::Hour)
    }
    /// Whether it takes so long that it runs only where `--only` names it.
    pub(super) fn is_long(&self) -> bool {
        self.work == Work::Hour
    }
    /// What `-icount` makes of the guest, in the lab's words.
    pub(super) fn mode(&self) -> String {
        format!("icount{}", self.shift)
    }
    /// A time of a guest in which an instruction takes 2 ns, in seconds, as long as it is on this
    /// one.
    pub(super) fn as_slow(&self, seconds: u32) -> u32 {
        seconds << self.shift.saturating_sub(1)
    }
    /// Processor time of this machine, in seconds, after which a guest of it is stuck. Measured: a
    /// boot takes 8, doctor 5, a quickstart 10 to 30; all tests 1100 to 1500, and on the slow host
    /// 1.6 a second of the guest's.
    pub(super) fn patience(&self) -> u64 {
        let each = match self.work {
            Work::Quickstart(runs) => 70 + 70 * u64::from(runs),
            Work::Tests => 3600,
            Work::SchedExt => 1200,
            Work::KernelLive => 1800,
            Work::Hour => 4500,
        };
        each * u64::from(self.cores.max(2)) / 2
    }
    /// Memory of the guest in MiB; the test binaries lie in it.
    pub(super) fn memory(&self) -> u32 {
        if self.work == Work::Tests { 3072 } else { 1024 }
    }
}
