//! Tries everything that a host may offer.

use super::{InterruptThreads, SchedExt};
use crate::host::classes::Detected;
use crate::host::costs::{self, Costs, StealWatch};
use crate::host::hardware::{Hardware, ThisHardware};
use crate::host::perf::trial;
use crate::host::probe::{Capabilities, Rights, group_counters, page_frame, socket};
use crate::host::resctrl::{Info, Mba, Resctrl, Ways};
use crate::host::{HardwareCore, naming};
use crate::sense::meter::{self, Reaction, reaction};
use crate::sense::preference::{self, CoreEvent, Preference, Tried};
use crate::sense::{Cores, VcpuEvents};
use maracas_core::CoreId;
use maracas_core::memory::CachePart;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How often meters without an alarm are asked in the measurement of their reaction: as in a run.
const ASKING: Duration = Duration::from_micros(250);

/// All that was found out about a host.
#[derive(Clone, PartialEq, Debug)]
pub struct Findings {
    /// What budgets stand on.
    pub reservations: Capabilities,
    /// What the steps of a decision cost.
    pub costs: Result<Costs, String>,
    /// The share of its time that the core lost that lost the most while all this was tried, in
    /// parts per billion; `None` = the kernel does not say.
    pub stolen_ppb: Option<u64>,
    /// What the kernel shows of itself.
    pub kernel: Kernel,
    /// The classes of the cores.
    pub classes: Detected,
    /// Instructions counted of a known loop, the fewest of all cores.
    pub instructions: Result<u64, String>,
    /// The sensors, best first.
    pub sensors: Vec<Tried>,
    /// The meters of the cores, or why there are none.
    pub meter: Result<Metered, preference::State>,
    /// Memory counted by VCPU: the proof.
    pub vcpus: Result<String, String>,
    /// Resource control.
    pub shares: Shares,
    /// The frame of a page of ours.
    pub frames: Result<u64, String>,
    /// What this process may do.
    pub rights: Rights,
    /// The directory of control sockets.
    pub socket: Result<String, String>,
    /// What the client library knows.
    pub client: Client,
}

/// What the kernel shows of itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Kernel {
    /// How interrupts' work is done.
    pub interrupts: InterruptThreads,
    /// Whether it takes schedulers that are BPF programs.
    pub sched_ext: SchedExt,
}

/// Meters that count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metered {
    /// How many cores have one.
    pub cores: usize,
    /// Whether each signals by itself when a limit is reached.
    pub alarms: bool,
    /// Whether all count by the same event.
    pub is_common: bool,
    /// How soon a mark was noticed.
    pub reaction: Result<Reaction, String>,
}

/// Resource control (resctrl) as it was found and tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shares {
    /// What there is; `None` = it could be mounted and is not.
    pub info: Result<Option<Info>, String>,
    /// The ways that a core was given on trial; `None` = not tried.
    pub ways: Result<Option<u64>, String>,
    /// How long a write of bandwidth took; `None` = not tried.
    pub bandwidth: Result<Option<Duration>, String>,
}

/// What the client library says to its callers; this crate does not know it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Client {
    /// The library to be preloaded, where it was found.
    pub library: Option<PathBuf>,
    /// The page colours of the caches, by level.
    pub caches: Vec<CacheColors>,
}

/// The colours of one cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheColors {
    /// Such as `L2 1024 KiB, 16 ways`.
    pub cache: String,
    /// Classes of pages that never share a set; `None` = not known.
    pub colors: Option<u32>,
    /// What is to be said of that.
    pub remark: String,
}

impl Findings {
    /// Tries everything on these cores of this host, the most of it on the last of them: some
    /// seconds, in which they are loaded. `progress` is called with what comes next. Nothing is
    /// left.
    ///
    /// # Errors
    /// When not even the platform can be read, or there is no core.
    pub fn gather(
        cores: &[HardwareCore],
        client: Client,
        progress: &mut dyn FnMut(&str),
    ) -> io::Result<Self> {
        let steal = StealWatch::start(cores).ok();
        progress("reservations");
        let reservations = Capabilities::probe(cores)?;
        let numbered = (0..).map(CoreId).zip(cores.iter().copied());
        let numbered: Vec<(CoreId, HardwareCore)> = numbered.collect();
        let hardware: Arc<dyn Hardware> = Arc::new(ThisHardware);
        progress("timers");
        let costs = costs::measure(cores).map_err(|error| error.to_string());
        progress("sensors, under known loads");
        let preference = Preference::probe(&hardware, &numbered);
        progress("meters");
        let meter = Metered::probe(&*hardware, &numbered, preference.reads());
        progress("counters");
        let words = |error: io::Error| error.to_string();
        let instructions = count_on_all(cores).map_err(words);
        let last = cores.last().copied().unwrap_or(HardwareCore(0));
        let events = VcpuEvents {
            reads: preference.reads().common(),
            references: preference.references().common(),
        };
        let vcpus = group_counters(&*hardware, last, &events).map_err(words);
        progress("resource control");
        let shares = Shares::probe(&hardware, last);
        Ok(Self {
            classes: Detected::of_host(cores),
            stolen_ppb: steal.and_then(|steal| steal.share_ppb().ok().flatten()),
            kernel: Kernel { interrupts: InterruptThreads::read(), sched_ext: SchedExt::read() },
            reservations,
            costs,
            instructions,
            sensors: preference.sensors().to_vec(),
            meter,
            vcpus,
            shares,
            frames: page_frame().map_err(words),
            rights: Rights::read(),
            socket: socket().map_err(words),
            client,
        })
    }
}

impl Metered {
    /// Opens a meter on every core, and measures how soon the last of them notices a mark.
    pub(super) fn probe(
        hardware: &dyn Hardware,
        cores: &Cores,
        reads: &CoreEvent,
    ) -> Result<Self, preference::State> {
        if !matches!(reads.state, preference::State::Works { .. }) {
            return Err(reads.state.clone());
        }
        let pairs = cores.iter().zip(&reads.counters);
        let pairs: Vec<_> = pairs.map(|((_, core), counter)| (*core, counter.code)).collect();
        let open = |(core, code): &(_, _)| meter::open(hardware, code, *core);
        let meters: io::Result<Vec<_>> = pairs.iter().map(open).collect();
        let meters =
            meters.map_err(|error| preference::State::Refused { why: error.to_string() })?;
        let (cores, alarms) = (meters.len(), meters.iter().all(|meter| meter.fd().is_some()));
        let is_common = reads.common().is_some();
        // The measurement needs a counter of the hardware too.
        drop(meters);
        let last = pairs.last().ok_or_else(|| io::Error::other("no core"));
        let reaction = last.and_then(|(core, code)| reaction(hardware, code, *core, ASKING));
        let reaction = reaction.map_err(|error| error.to_string());
        Ok(Self { cores, alarms, is_common, reaction })
    }
}

impl Shares {
    /// Looks and, where it is mounted, gives a core half of the ways and the least bandwidth for a
    /// moment. Mounting it is left to runs that ask for it.
    pub(super) fn probe(hardware: &Arc<dyn Hardware>, core: HardwareCore) -> Self {
        let info = Info::read(&**hardware).map_err(|error| error.to_string());
        let untried = Self { info: info.clone(), ways: Ok(None), bandwidth: Ok(None) };
        let Ok(Some(known)) = info else { return untried };
        if known.cache.is_none() && known.bandwidth.is_none() {
            return untried;
        }
        let resctrl = match Resctrl::open(Arc::clone(hardware)) {
            Ok(resctrl) => resctrl,
            Err(error) => {
                let why = error.to_string();
                return Self { ways: Err(why.clone()), bandwidth: Err(why), ..untried };
            }
        };
        let ways = known.cache.as_ref().map(|cache| {
            let bits = (cache.mask.count_ones() / 2).max(cache.min_bits).max(1);
            let ways = (u64::MAX >> (64 - bits.min(64))) << cache.mask.trailing_zeros().min(63);
            Ways::split(&resctrl, &[(core, CachePart::new(ways))]).map(|_| ways)
        });
        let bandwidth = known
            .bandwidth
            .as_ref()
            .map(|_| Mba::new(&resctrl, &[(CoreId(0), core)]).map(|mba| mba.write_latency()));
        let closed = resctrl.close().map_err(|error| format!("not removed again: {error}"));
        let words = |error: crate::host::resctrl::Error| error.to_string();
        Self {
            ways: closed.clone().and(ways.transpose().map_err(words)),
            bandwidth: closed.and(bandwidth.transpose().map_err(words)),
            ..untried
        }
    }
}

/// Counts the instructions of a loop on every core, since the kinds of a hybrid have monitors of
/// their own, and returns the fewest.
pub(super) fn count_on_all(cores: &[HardwareCore]) -> io::Result<u64> {
    let count = |core: &HardwareCore| trial(*core).map_err(naming(format!("core {core}")));
    let counts: io::Result<Vec<u64>> = cores.iter().map(count).collect();
    counts.map(|counts| counts.into_iter().min().unwrap_or(0))
}
