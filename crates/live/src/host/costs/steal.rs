//! How much of the cores' time a hypervisor took, as the kernel shows it.

use crate::host::HardwareCore;
use maracas_core::{Duration, PPB};
use std::{fs, io, time};

/// A tick of `/proc/stat` (`USER_HZ`, 100 a second on every Linux; proc_stat(5)).
const TICK: Duration = Duration::from_millis(10);

/// Time taken from a core since boot, by the text of `/proc/stat`; `None` where it does not say.
pub fn parse(stat: &str, core: HardwareCore) -> Option<Duration> {
    let name = format!("cpu{core}");
    let mut lines = stat.lines().map(str::split_whitespace);
    let mut words = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
    // After the name: user, nice, system, idle, iowait, irq, softirq, steal.
    let ticks: u64 = words.nth(7)?.parse().ok()?;
    Some(TICK * ticks)
}

/// What is taken from cores from here on.
#[derive(Debug)]
pub struct Watch {
    cores: Vec<HardwareCore>,
    before: String,
    since: time::Instant,
}

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// Where `/proc/stat` cannot be read.
    pub fn start(cores: &[HardwareCore]) -> io::Result<Self> {
        let before = fs::read_to_string("/proc/stat")?;
        Ok(Self { cores: cores.to_vec(), before, since: time::Instant::now() })
    }

    /// The share of its time that was taken from the core that lost the most, in parts per billion;
    /// `None` where the kernel does not say. It is counted in steps of 10 ms.
    ///
    /// # Errors
    /// Where `/proc/stat` cannot be read.
    pub fn share_ppb(&self) -> io::Result<Option<u64>> {
        let after = fs::read_to_string("/proc/stat")?;
        let elapsed = Duration::from_nanos(self.since.elapsed().as_nanos() as u64);
        Ok(largest(&self.cores, &self.before, &after, elapsed))
    }
}

fn largest(cores: &[HardwareCore], before: &str, after: &str, elapsed: Duration) -> Option<u64> {
    let taken = |core: &HardwareCore| {
        let (before, after) = (parse(before, *core)?, parse(after, *core)?);
        Some(after.ticks().saturating_sub(before.ticks()))
    };
    let most = cores.iter().filter_map(taken).max()?;
    let share = u128::from(most) * u128::from(PPB) / u128::from(elapsed.ticks().max(1));
    // A step may have begun before.
    Some(u64::try_from(share).unwrap_or(PPB).min(PPB))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 30 0 0\n\
                          cpu1 1 2 3 4 5 6 7 50 0 0\ncpu10 1 2 3 4 5 6 7 9 0 0\nintr 7\n";

    #[test]
    fn steal_is_the_eighth_number_of_a_core_in_steps_of_10_ms() {
        let ms = |core| parse(BEFORE, HardwareCore(core)).map(|time| time.ticks() / 1_000_000);
        assert_eq!([ms(0), ms(1), ms(10), ms(2)], [Some(300), Some(500), Some(90), None]);
        assert_eq!(parse("cpu0 1 2 3 4\n", HardwareCore(0)), None, "before Linux 2.6.11");
    }

    #[test]
    fn the_core_that_lost_most_counts() {
        let after = BEFORE.replace("7 50", "7 80").replace("7 30", "7 31");
        let (cores, second) = ([HardwareCore(0), HardwareCore(1)], Duration::from_secs(1));
        let share = |cores: &[HardwareCore]| largest(cores, BEFORE, &after, second);
        assert_eq!(share(&cores), Some(300_000_000));
        assert_eq!(share(&cores[..1]), Some(10_000_000));
        assert_eq!(share(&[HardwareCore(7)]), None);
        let short = largest(&cores, BEFORE, &after, Duration::from_millis(1));
        assert_eq!(short, Some(PPB), "no more than all");
    }

    #[test]
    fn this_host_says() {
        let cores = crate::host::platform::Platform::detect().expect("readable").cores;
        let watch = Watch::start(&cores).expect("readable");
        assert!(watch.share_ppb().expect("readable").is_none_or(|share| share <= PPB));
    }
}
