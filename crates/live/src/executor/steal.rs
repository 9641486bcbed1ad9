//! The time that the hypervisor took from a core.

use crate::host::HardwareCore;
use maracas_core::Duration;

/// The kernel's step: one tick of its user interface (USER_HZ is 100 on every architecture that we
/// run on).
const STEP: Duration = Duration::from_millis(10);

/// The time that the hypervisor took from a core since the host started, by `/proc/stat`.
pub(crate) fn stolen(core: HardwareCore) -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    stolen_in(&text, core).map(|steps| STEP * steps)
}

/// The eighth number of the core's line.
fn stolen_in(stat: &str, core: HardwareCore) -> Option<u64> {
    let name = format!("cpu{core}");
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    lines.find_map(|mut words| (words.next() == Some(&name)).then(|| words.nth(7)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number_of_the_cores_line() {
        let stat =
            "cpu  9 9 9 9 9 9 9 99 9 9\ncpu1 1 2 3 4 5 6 7 8 9 0\ncpu10 0 0 0 0 0 0 0 5 0 0\n";
        assert_eq!(stolen_in(stat, HardwareCore(1)), Some(8));
        assert_eq!(stolen_in(stat, HardwareCore(10)), Some(5));
        assert_eq!(stolen_in(stat, HardwareCore(0)), None);
    }
}
