//! What machine this is: its usable cores, its kernel, and the words for reports (no host name).

use super::{HardwareCore, sched};
use std::sync::OnceLock;
use std::{fmt, fs, io};

/// The machine as far as it concerns scheduling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The cores on which this process may run and that are online.
    pub cores: Vec<HardwareCore>,
    /// How many cores are online in all.
    pub online: usize,
    /// Kernel release, such as `6.18.44`.
    pub kernel: String,
    /// The processor's own name, where it says one.
    pub model: Option<String>,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Scheduler ticks per second, from the resolution of the coarse clock.
    pub tick_hz: Option<u32>,
    /// What the kernel says of its preemption model.
    pub preemption: Preemption,
}

/// The preemption model, as far as the running kernel shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// PREEMPT_RT.
    Realtime,
    /// Full preemption, built in or chosen at boot.
    Full,
    /// Lazy preemption.
    Lazy,
    /// Voluntary preemption.
    Voluntary,
    /// None: a long system call of another task delays the agent.
    None,
    /// Chosen at boot, and not shown to us.
    Hidden,
}

impl Platform {
    /// Reads the platform of this process.
    ///
    /// # Errors
    /// When the kernel's version or the affinity cannot be read.
    pub fn detect() -> io::Result<Platform> {
        let online = read("/sys/devices/system/cpu/online").and_then(|list| parse_cores(&list));
        let mut cores = sched::affinity_of(0)?;
        if let Some(online) = &online {
            cores.retain(|core| online.contains(core));
        }
        Ok(Platform {
            online: online.map_or(cores.len(), |online| online.len()),
            cores,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            model: read("/proc/cpuinfo").as_deref().and_then(parse_model),
            memory_bytes: read("/proc/meminfo").as_deref().and_then(parse_memory).unwrap_or(0),
            tick_hz: tick_hz(),
            preemption: Preemption::detect(),
        })
    }

    /// Kernel version as (major, minor), for features that cannot be tried.
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut parts = self.kernel.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

/// Whether the kernel is built with PREEMPT_RT, by its version: only kernels with the patches that
/// are not in the kernel's own source have `/sys/kernel/realtime`. It is read once.
pub fn is_preempt_rt() -> bool {
    static IS_RT: OnceLock<bool> = OnceLock::new();
    *IS_RT.get_or_init(|| Preemption::detect() == Preemption::Realtime)
}

/// What a host takes from real-time threads beyond the twentieth of its kernel's default
/// (sched(7)), and with them from budgets: how long they may run in how much, in microseconds.
/// From Linux 6.12 on fair threads have a server for that, which the numbers say nothing of.
pub fn throttling_us(platform: &Platform) -> Option<(i64, i64)> {
    let number = |name| read(&format!("/proc/sys/kernel/sched_rt_{name}_us"))?.trim().parse().ok();
    let (runtime, period) = (number("runtime")?, number("period")?);
    let has_server = platform.kernel_version().is_none_or(|version| version >= (6, 12));
    (!has_server && is_throttled(runtime, period)).then_some((runtime, period))
}

/// Whether real-time threads get less than 95 %; -1 is no limit.
fn is_throttled(runtime_us: i64, period_us: i64) -> bool {
    runtime_us >= 0 && runtime_us.saturating_mul(20) < period_us.saturating_mul(19)
}

/// The highest number that a core of this host may ever have; `None` where the kernel does not say.
pub fn last_core() -> Option<HardwareCore> {
    let possible = read("/sys/devices/system/cpu/possible")?;
    parse_cores(&possible)?.into_iter().max_by_key(|core| core.0)
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("unnamed processor");
        let (usable, online) = (self.cores.len(), self.online);
        write!(f, "{usable} of {online} cores, {model}, {} MB", self.memory_bytes / 1_000_000)?;
        write!(f, ", Linux {}, preemption {}", self.kernel, self.preemption)?;
        self.tick_hz.map_or(Ok(()), |hz| write!(f, ", {hz} Hz"))
    }
}

impl fmt::Display for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Preemption::Realtime => "realtime",
            Preemption::Full => "full",
            Preemption::Lazy => "lazy",
            Preemption::Voluntary => "voluntary",
            Preemption::None => "none",
            Preemption::Hidden => "chosen at boot (not visible)",
        })
    }
}

impl Preemption {
    fn detect() -> Preemption {
        let version = read("/proc/version").unwrap_or_default();
        let chosen = read("/sys/kernel/debug/sched/preempt");
        let boot = read("/proc/cmdline").unwrap_or_default();
        Preemption::parse(&version, chosen.as_deref(), &boot)
    }

    /// From the version line, the debug file (the chosen model stands in parentheses), and the
    /// boot line.
    fn parse(version: &str, chosen: Option<&str>, boot: &str) -> Preemption {
        let bracketed = chosen.and_then(|text| text.split_once('(')?.1.split(')').next());
        let at_boot = boot.split_whitespace().find_map(|word| word.strip_prefix("preempt="));
        let word = |flag: &str| version.split_whitespace().any(|word| word == flag);
        if word("PREEMPT_RT") {
            return Preemption::Realtime;
        }
        match bracketed.or(at_boot) {
            Some("full") => Preemption::Full,
            Some("lazy") => Preemption::Lazy,
            Some("voluntary") => Preemption::Voluntary,
            Some("none") => Preemption::None,
            Some(_) => Preemption::Hidden,
            None if word("PREEMPT_DYNAMIC") => Preemption::Hidden,
            None if word("PREEMPT_LAZY") => Preemption::Lazy,
            None if word("PREEMPT") => Preemption::Full,
            // The line does not distinguish voluntary from none; the worse is assumed.
            None => Preemption::None,
        }
    }
}

/// Reads a list such as `0-3,8`.
pub(crate) fn parse_cores(list: &str) -> Option<Vec<HardwareCore>> {
    let mut cores = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cores.extend((first..=last).map(HardwareCore));
    }
    Some(cores)
}

/// x86 says `model name`; Arm boards have only `Hardware` or `Model`, or nothing.
fn parse_model(cpuinfo: &str) -> Option<String> {
    let named = |wanted: &str| {
        let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let (_, name) = fields.find(|(key, _)| key.trim() == wanted)?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    };
    ["model name", "Hardware", "Model"].into_iter().find_map(named)
}

fn parse_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The coarse clock advances once a tick, so its resolution is the tick.
fn tick_hz() -> Option<u32> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of our own.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    let ns = u32::try_from(resolution.tv_nsec).ok().filter(|ns| result == 0 && *ns > 1)?;
    Some((1_000_000_000 + ns / 2) / ns)
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_less_than_the_kernels_default() {
        let throttled = [(950_000, 1_000_000), (800_000, 1_000_000), (-1, 1_000_000), (0, 100)];
        assert_eq!(throttled.map(|(a, b)| is_throttled(a, b)), [false, true, false, true]);
    }

    #[test]
    fn core_lists_read_as_the_kernel_writes_them() {
        let numbers = |list: &str| {
            parse_cores(list).map(|cores| cores.iter().map(|core| core.0).collect::<Vec<_>>())
        };
        assert_eq!(numbers("0-1\n"), Some(vec![0, 1]));
        assert_eq!(numbers("0,2-4,8"), Some(vec![0, 2, 3, 4, 8]));
        assert_eq!(numbers("\n"), Some(vec![]));
        assert_eq!(numbers("all"), None);
    }

    #[test]
    fn preemption_is_what_the_kernel_shows_and_no_more() {
        let dynamic = "Linux version 6.18 (x) #1 SMP PREEMPT_DYNAMIC";
        assert_eq!(Preemption::parse(dynamic, None, "quiet"), Preemption::Hidden);
        assert_eq!(Preemption::parse(dynamic, None, "preempt=full"), Preemption::Full);
        let chosen = Some("none (voluntary) full lazy");
        assert_eq!(Preemption::parse(dynamic, chosen, ""), Preemption::Voluntary);
        assert_eq!(Preemption::parse("#1 SMP PREEMPT_RT", None, ""), Preemption::Realtime);
        assert_eq!(Preemption::parse("#1 SMP", None, ""), Preemption::None);
    }

    #[test]
    fn model_and_memory_are_found() {
        let info = "processor\t: 0\nmodel name\t: A Fine Core @ 3 GHz\nmodel\t: 7\n";
        assert_eq!(parse_model(info), Some("A Fine Core @ 3 GHz".to_owned()));
        assert_eq!(parse_model("processor : 0\n"), None);
        assert_eq!(parse_memory("MemTotal:  2048 kB\nMemFree: 1 kB\n"), Some(2_097_152));
    }

    #[test]
    fn this_machine_has_a_core_and_a_kernel() {
        let platform = Platform::detect().expect("the platform of the test machine");
        assert!(!platform.cores.is_empty() && platform.cores.len() <= platform.online);
        assert!(platform.kernel_version().is_some_and(|(major, _)| major >= 3));
        assert!(platform.tick_hz.is_none_or(|hz| (10..=10_000).contains(&hz)));
    }
}
