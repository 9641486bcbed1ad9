//! All counters of a run at once. What counts by itself may stand still in company: a guest was met
//! whose kernel says six counters a core and whose sixth stays at 0, with no sign of turns taken.

use super::Preference;
use crate::host::HardwareCore;
use crate::host::hardware::{Load, Scope};
use crate::sense::{Reading, Senses, VcpuEvents};
use maracas_core::Instant;
use std::io;

/// Lines of the load: 2 to 4 ms.
const LINES: u64 = 20_000;
/// The part of them that must be seen, as when each was tried by itself.
const LEAST: u64 = LINES / 3;
/// Loads of which one must be seen by all.
const TRIALS: usize = 2;

impl Preference {
    /// Leaves out of what is counted for VCPUs what would make counters of a core stand still
    /// beside the sensor and the meters, which are open, and says so.
    pub(super) fn leave_room(&self, senses: &mut Senses) {
        let Some((place, (_, core))) = self.cores.iter().enumerate().next_back() else { return };
        let VcpuEvents { reads, references } = senses.vcpus;
        let few = VcpuEvents { reads, references: None };
        let none = VcpuEvents::default();
        for vcpus in [senses.vcpus, few, none] {
            if self.count_at_once(senses, vcpus, place, *core).unwrap_or(false) {
                senses.vcpus = vcpus;
                break;
            }
            // Where nothing else is left, what was proved one by one is kept, and this said.
            if vcpus == none {
                let note = "the sensor and the meters of cores do not all count at once here: \
                            counts may stand still";
                senses.notes.push(note.into());
            }
        }
        let lost = |before: Option<_>, after: Option<_>| before.is_some() && after.is_none();
        for (what, is_lost) in [
            ("references", lost(references, senses.vcpus.references)),
            ("reads", lost(reads, senses.vcpus.reads)),
        ] {
            if is_lost {
                let why = "too many at once, with the counters of the sensor and the meters";
                senses.notes.push(format!("{what} of VCPUs are not counted: {why}"));
            }
        }
    }

    /// Whether everything sees a load on `core` while all of it is open.
    fn count_at_once(
        &self,
        senses: &mut Senses,
        vcpus: VcpuEvents,
        place: usize,
        core: HardwareCore,
    ) -> io::Result<bool> {
        let events = [vcpus.reads, vcpus.references].into_iter().flatten();
        let open = |event| self.hardware.open(&event, Scope::Core(core));
        let mut counters = events.map(open).collect::<io::Result<Vec<_>>>()?;
        for _ in 0..TRIALS {
            let mut values = |senses: &mut Senses| {
                let mut values = Vec::new();
                for counter in &mut counters {
                    values.push(counter.read()?.value);
                }
                if let Some(meter) = senses.meters.get_mut(place) {
                    values.push(meter.read(Instant::ZERO)?);
                }
                if let Some(sensor) = &mut senses.sensor {
                    let mut reading = Reading::default();
                    sensor.read(Instant::ZERO, &mut reading)?;
                    values.push(reading.requests);
                }
                Ok::<_, io::Error>(values)
            };
            let before = values(senses)?;
            self.hardware.load(core, Load::Chase { lines: LINES })?;
            let after = values(senses)?;
            if before.iter().zip(&after).all(|(before, after)| after - before >= LEAST) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
