//! On which machine and when something was measured.

use maracas_console::failure::Failure;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a recording says of its machine; nothing that names the owner or the place.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) kernel: String,
    pub(super) date: String,
    /// The load average over a minute at the start.
    pub(super) load: String,
}

impl Host {
    /// This machine now.
    pub(super) fn here() -> Self {
        let uname = rustix::system::uname();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            cpu: cpu_model(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!(
                "{} {}",
                uname.sysname().to_string_lossy(),
                uname.release().to_string_lossy()
            ),
            date: today(),
            load: load.split(' ').next().unwrap_or("unknown").to_string(),
        }
    }
    /// In one line.
    pub(super) fn line(&self) -> String {
        let Self { cpu, cores, kernel, date, load } = self;
        let version = env!("CARGO_PKG_VERSION");
        format!("{cpu}, {cores} cores, {kernel}, {date}, load {load}, maracas {version}")
    }
}

fn cpu_model() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |line: &str| Some(line.split_once(':')?.1.trim().to_string());
    let model = info.lines().find(|line| line.starts_with("model name")).and_then(value);
    model.unwrap_or_else(|| std::env::consts::ARCH.to_string())
}

/// The date in UTC as year-month-day.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (year, month, day) = civil(since.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The date so many days after 1970-01-01 in the Gregorian calendar.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

/// Binds this thread to one core, so that its caches stay its own.
///
/// # Errors
/// Where the system refuses.
pub(super) fn stay_on(core: usize) -> Result<(), Failure> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| Failure::about("the measuring thread cannot be bound to a core", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(31 + 28), (1970, 3, 1));
        // 2000 was a leap year, 2100 will be none.
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(11_017), (2000, 3, 1));
        assert_eq!(civil(20_575), (2026, 5, 2));
        assert_eq!(civil(47_540), (2100, 2, 28));
        assert_eq!(civil(47_541), (2100, 3, 1));
    }
}
