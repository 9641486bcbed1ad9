//! Bandwidth lowered in hardware: throttling a core without stopping what runs on it.

use super::info::{Bandwidth, Unit, cache_id};
use super::schemata::{self, Entry};
use super::{Error, Resctrl};
use crate::host::HardwareCore;
use crate::sense::Cores;
use maracas_core::CoreId;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The resource's name in `schemata`.
const RESOURCE: &str = "MB";
/// How often the writes are timed at the start.
const TRIALS: usize = 9;

/// How much bandwidth a core may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// Of what it could use (Intel, Arm): rounded up to what the hardware has.
    Percent(u32),
    /// Megabytes (10^6) a second (AMD; elsewhere where it is mounted with `mba_MBps`): rounded
    /// down to what the hardware has.
    Megabytes(u64),
    /// The least that the hardware can give.
    Lowest,
    /// What a class has whose bandwidth was not lowered.
    Full,
}

/// The bandwidth of each core of a run.
///
/// On Intel the percentage is a delay of the core's requests, of both hardware threads together,
/// and what it comes to depends on the program; it delays hits in the last-level cache too. On AMD
/// it is a limit of the class in one cache's domain. Both reach foreground and background alike:
/// a core is throttled with this only while it has background to throttle.
#[derive(Debug)]
pub struct Mba {
    resctrl: Resctrl,
    bandwidth: Bandwidth,
    cores: Vec<Place>,
    write: Duration,
}

/// One core's class and the lines that throttle and release it, ready to be written.
#[derive(Debug)]
struct Place {
    class: PathBuf,
    domain: u32,
    full: u64,
}

impl Mba {
    /// Makes the cores' classes and tries each: lowest and full bandwidth are written and read
    /// back, which times the writes.
    ///
    /// # Errors
    /// Too few classes; the kernel's refusal; a core that is in no domain of the resource.
    pub fn new(resctrl: &Resctrl, cores: &Cores) -> Result<Self, Error> {
        let bandwidth = resctrl.info().bandwidth.clone();
        let bandwidth = bandwidth.ok_or(Error::Lacks("bandwidth allocation (MBA)"))?;
        let mut ordered = cores.to_vec();
        ordered.sort_unstable();
        let place = |(_, core): &(CoreId, HardwareCore)| Place::of(resctrl, *core);
        let cores: Result<Vec<Place>, Error> = ordered.iter().map(place).collect();
        let (resctrl, write) = (resctrl.clone(), Duration::ZERO);
        let mut mba = Self { resctrl, bandwidth, cores: cores?, write };
        mba.write = mba.try_all()?;
        Ok(mba)
    }

    /// What the hardware can do.
    pub fn bandwidth(&self) -> &Bandwidth {
        &self.bandwidth
    }

    /// How long a write took, the median of some; the hardware obeys within microseconds of it,
    /// the kernel's own controller ([`Unit::Megabyte`]) within some seconds.
    pub fn write_latency(&self) -> Duration {
        self.write
    }

    /// Sets a core's bandwidth: one write of some microseconds. A core that is not of the run is
    /// left alone.
    ///
    /// # Errors
    /// A level in a unit that this hardware does not have; the kernel's refusal.
    pub fn set(&self, core: CoreId, level: Level) -> Result<(), Error> {
        let Some(place) = self.cores.get(usize::from(core.0)) else { return Ok(()) };
        let value = self.value(place, level)?;
        self.write(place, value)
    }

    fn write(&self, place: &Place, value: u64) -> Result<(), Error> {
        let (shared, entry) = (&*self.resctrl.0, place.entry(value));
        schemata::write(&*shared.hardware, &shared.info.root, &place.class, &[entry])
    }

    /// What is written for a level.
    fn value(&self, place: &Place, level: Level) -> Result<u64, Error> {
        let Bandwidth { min, step, unit, .. } = self.bandwidth;
        let (min, step) = (u64::from(min), u64::from(step));
        // Nothing at all would stop a core for good (AMD's least is given as 0).
        let lowest = min.max(1).div_ceil(step) * step;
        let unfit = |level: &str, way: &str| {
            let way = format!("bandwidth of {level} is not what this processor takes; {way}");
            Err(Error::Level(way))
        };
        match (level, unit) {
            (Level::Full, _) => Ok(place.full),
            (Level::Lowest, _) => Ok(lowest.min(place.full)),
            (Level::Percent(percent), Unit::Percent) => {
                let wanted = u64::from(percent).div_ceil(step) * step;
                Ok(wanted.clamp(lowest, place.full))
            }
            (Level::Megabytes(rate), Unit::EighthOfGigabyte) => {
                Ok((rate / 125).clamp(lowest, place.full))
            }
            (Level::Megabytes(rate), Unit::Megabyte) => Ok(rate.clamp(lowest, place.full)),
            (Level::Percent(percent), Unit::EighthOfGigabyte | Unit::Megabyte) => {
                unfit(&format!("{percent} %"), "give MB/s")
            }
            (Level::Megabytes(rate), Unit::Percent) => {
                let way = "give a percentage, or mount resctrl with mba_MBps";
                unfit(&format!("{rate} MB/s"), way)
            }
        }
    }

    /// Writes the lowest and the full bandwidth of every core and reads them back; the median of
    /// the times that writes took on the first.
    fn try_all(&self) -> Result<Duration, Error> {
        let shared = &*self.resctrl.0;
        // Hardware rounds to its own steps, Arm's finer or coarser than those that are shown.
        let step = u64::from(self.bandwidth.step);
        for place in &self.cores {
            for level in [Level::Lowest, Level::Full] {
                let entry = place.entry(self.value(place, level)?);
                let (hardware, root) = (&*shared.hardware, &shared.info.root);
                schemata::write_checked(hardware, root, &place.class, &[entry], step)?;
            }
        }
        let Some(place) = self.cores.first() else { return Ok(Duration::ZERO) };
        let mut times = Vec::with_capacity(2 * TRIALS);
        for trial in 0..2 * TRIALS {
            let level = if trial % 2 == 0 { Level::Lowest } else { Level::Full };
            let value = self.value(place, level)?;
            let begun = Instant::now();
            self.write(place, value)?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[TRIALS])
    }
}

impl Place {
    fn of(resctrl: &Resctrl, core: HardwareCore) -> Result<Self, Error> {
        let (hardware, resource) = (&*resctrl.0.hardware, RESOURCE);
        // The domains of MB are those of the L3 (resctrl.rst, "Memory bandwidth Allocation").
        let domain = cache_id(hardware, core, 3).ok_or(Error::NoDomain { core, resource })?;
        let class = resctrl.class(core)?;
        let full = schemata::value(&schemata::read(hardware, &class)?, resource, domain);
        let full = full.ok_or(Error::NoDomain { core, resource })?;
        Ok(Self { class, domain, full })
    }

    fn entry(&self, value: u64) -> Entry {
        Entry::new(RESOURCE, self.domain, value)
    }
}
