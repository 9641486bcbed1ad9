//! Page faults in place of reads of memory, for trials on hosts that count no reads: guests and
//! emulators among them. Taken only where they are named (`sense = "faults"`).
//!
//! Each fault counts as a read of one line, so that all that is held against meters of memory can
//! be tried: allowances, memory limits of VCPUs, throttling by rate. Every kernel counts them, and
//! they overflow wherever they happen (`PERF_COUNT_SW_PAGE_FAULTS`); nothing has to be proved.

use super::sensors::{Counted, EventSet, Role, Wanted};
use super::{Cores, EventCode, Senses, SensorKind, VcpuEvents, meter};
use crate::host::hardware::Hardware;
use std::io;

/// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_PAGE_FAULTS` (include/uapi/linux/perf_event.h).
pub const EVENT: EventCode = EventCode { unit: 1, config: 2, config1: 0, config2: 0 };
/// As users write it.
const NAME: &str = "software/page-faults/";
/// What users are told.
const NOTE: &str = "page faults are counted in place of reads of memory (sense = \"faults\"), each \
                    as a line of 64 bytes: for trials, no promise of bandwidth is kept by them";

/// Opens the sensor and the meters of these cores. Agents ask the meters: an alarm would not come
/// closer than [`SHORTEST_ALARM`](crate::host::hardware::SHORTEST_ALARM), which is many faults.
///
/// # Errors
/// As the kernel says: EACCES where the rights lack.
pub fn open(hardware: &dyn Hardware, cores: &Cores) -> io::Result<Senses> {
    let wanted = cores.iter().enumerate().map(|(place, (_, core))| Wanted {
        role: Role::RequestsOf(place),
        code: EVENT,
        core: *core,
        name: NAME.to_string(),
    });
    let set = EventSet {
        sensor_kind: SensorKind::Faults,
        counters: wanted.collect(),
        scale: 1,
        cycles_per_us: 1000,
        cores: cores.len(),
        meaning: "",
    };
    let meters = cores.iter().map(|(_, core)| meter::open_silent(hardware, &EVENT, *core));
    Ok(Senses {
        meters: meters.collect::<io::Result<_>>()?,
        sensor: Some(Box::new(Counted::open(hardware, &set)?)),
        vcpus: VcpuEvents { reads: Some(EVENT), references: None },
        overflows: Some(EVENT),
        notes: vec![NOTE.to_string()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HardwareCore, hardware::ThisHardware, platform::Platform};
    use crate::sense::Reading;
    use maracas_core::{CoreId, Instant};

    #[test]
    fn faults_move_sensor_and_meters_and_are_never_an_alarm() {
        let core = Platform::detect().expect("a host").cores[0];
        let cores: [(CoreId, HardwareCore); 1] = [(CoreId(0), core)];
        let mut senses = match open(&ThisHardware, &cores) {
            Err(error) => return crate::host::tests::refused(&error, "CAP_PERFMON"),
            Ok(senses) => senses,
        };
        assert_eq!((senses.overflows, senses.vcpus.reads), (Some(EVENT), Some(EVENT)));
        assert!(senses.meters.iter().all(|meter| meter.fd().is_none()));
        let mut sensor = senses.sensor.take().expect("it is there");
        assert_eq!(
            (sensor.sensor_kind().word(), sensor.describe().contains(NAME)),
            ("faults", true)
        );
        crate::host::sched::set_affinity(0, core).expect("a usable core");
        let before = senses.meters[0].read(Instant::ZERO).expect("it counts");
        // More than the allocator keeps, so that each page is a fault.
        let pages = 64;
        let mut memory = vec![0u8; 64 << 20];
        memory
            .iter_mut()
            .step_by(4096)
            .take(pages)
            .for_each(|byte| *byte = std::hint::black_box(1));
        let after = senses.meters[0].read(Instant::ZERO).expect("it counts");
        assert!(after > before, "{before} to {after}");
        let mut reading = Reading::default();
        sensor.read(Instant::ZERO, &mut reading).expect("it counts");
        assert!(reading.requests >= 1 && reading.by_core == [reading.requests], "{reading:?}");
    }
}
