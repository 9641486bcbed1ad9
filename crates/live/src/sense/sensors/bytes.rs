//! Bytes by last-level cache as a sensor (resctrl bandwidth monitoring).

use crate::host::hardware::Hardware;
use crate::host::resctrl::Mbm;
use crate::sense::{Cores, Reading, Sensor, SensorKind};
use maracas_core::Instant;
use maracas_core::memory::LINE_BYTES;
use std::io;
use std::sync::Arc;

/// Requests are the lines that crossed between the last-level caches and memory; latency is not
/// known.
pub struct Bytes {
    monitors: Mbm,
    cores: usize,
}

impl Bytes {
    /// Opens the kernel's monitors, which count from here on.
    ///
    /// # Errors
    /// Where the host has none, or they cannot be used: a sentence.
    pub fn open(hardware: &Arc<dyn Hardware>, cores: &Cores) -> io::Result<Self> {
        let monitors = Mbm::open(Arc::clone(hardware), cores)?;
        Ok(Self { monitors, cores: cores.len() })
    }
    /// What it reads, as users know it.
    pub fn events(&self) -> Vec<String> {
        let file = if self.monitors.counts_all() { "mbm_total_bytes" } else { "mbm_local_bytes" };
        vec![format!("mon_data/mon_L3_*/{file}")]
    }
}

impl Sensor for Bytes {
    fn sensor_kind(&self) -> SensorKind {
        SensorKind::Mbm
    }
    fn describe(&self) -> String {
        format!("{}: {}", SensorKind::Mbm, self.events().join(" "))
    }
    fn cycles_per_us(&self) -> u64 {
        // Nanoseconds: there is no occupancy to be counted in anything else.
        1000
    }
    fn read(&mut self, _now: Instant, into: &mut Reading) -> io::Result<()> {
        let bytes = self.monitors.read()?;
        into.requests = bytes.by_domain.values().sum::<u64>() / LINE_BYTES;
        into.occupancy = 0;
        into.by_core.clear();
        into.by_core.extend(bytes.by_core.iter().map(|bytes| bytes / LINE_BYTES));
        into.by_core.resize(self.cores, 0);
        Ok(())
    }
    fn remark(&self) -> Option<String> {
        self.monitors.remark()
    }
}
