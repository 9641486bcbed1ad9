//! Time that the hypervisor took from the measured core, found out without disturbing it.
//!
//! The core is never idle: the target or the noise spins on it. Either of them looks at the clock
//! every microsecond and writes down when it stood still for longer than any interrupt takes. Where
//! the kernel's switch records say that it was on the core all the while, nothing else of this host
//! ran there: the core itself stood still. (The kernel's own account, `steal` in /proc/stat, has a
//! grain of 10 ms.)

use super::windows::Run;
use maracas_console::failure::Failure;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a spinning program writes down when it stood still; removed when dropped.
pub(super) struct GapFile(PathBuf);

impl GapFile {
    /// Makes it.
    ///
    /// # Errors
    /// Where there is no room for it.
    pub(super) fn create() -> Result<Self, Failure> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("maracas-gaps-{process}-{number}"));
        let fail = |error| Failure::about(path.display(), error);
        File::create_new(&path).map_err(fail)?;
        // The program may run as another user than this one.
        fs::set_permissions(&path, Permissions::from_mode(0o666)).map_err(fail)?;
        Ok(Self(path))
    }
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
    /// What of it was stolen, given when the program was on the core.
    pub(super) fn stolen(&self, on_core: &[Run]) -> Vec<Gap> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().filter_map(Gap::read).filter(|gap| gap.is_within(on_core)).collect()
    }
}

impl Drop for GapFile {
    fn drop(&mut self) {
        // Nothing more can be done where even removing fails; the name says what it is.
        let _ = fs::remove_file(&self.0);
    }
}

/// The core stood still from one instant to another, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Gap {
    fn read(line: &str) -> Option<Self> {
        let (from, to) = line.split_once(' ')?;
        let gap = Self { from: from.parse().ok()?, to: to.parse().ok()? };
        (gap.from < gap.to).then_some(gap)
    }
    fn is_within(&self, runs: &[Run]) -> bool {
        // Runs come in their order.
        let place = runs.partition_point(|run| run.to < self.to);
        runs.get(place).is_some_and(|run| run.from <= self.from)
    }
    /// The same by a clock that is behind by `offset`, or ahead.
    pub(super) fn by_clock(self, offset: i64) -> Self {
        let shifted = |at: u64| at.saturating_add_signed(-offset);
        Self { from: shifted(self.from), to: shifted(self.to) }
    }
}

/// How much of `[from, to)` was stolen.
pub(super) fn within(gaps: &[Gap], from: u64, to: u64) -> u64 {
    gaps.iter().map(|gap| gap.to.min(to).saturating_sub(gap.from.max(from))).sum()
}

/// Which periods stolen time explains, by the rule of the report (docs/output.md): it took at least
/// as much of the period and the one before as the error is, but for the tolerance; or the period
/// pays back what stolen periods just before it were given too much or too little. `stolen` says of
/// a period how much was taken from it and the one before.
pub(super) fn explained(
    errors: &[i64],
    tolerance: u64,
    stolen: impl Fn(usize) -> u64,
) -> Vec<bool> {
    let mut owed = 0_i64;
    let one = |(place, &error): (usize, &i64)| {
        let size = error.unsigned_abs();
        let pays = owed.signum() == -error.signum() && size <= owed.unsigned_abs() + tolerance;
        let taken = stolen(place);
        let is_stolen = size > tolerance && (pays || taken > 0 && taken + tolerance >= size);
        owed = if is_stolen { owed + error } else { 0 };
        is_stolen
    };
    errors.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stood_still_on_the_core_was_stolen() {
        let file = GapFile::create().unwrap();
        fs::write(file.path(), "10 20\n25 45\n90 95\nx\n60 7").unwrap();
        let runs = [Run::whole(5, 22), Run::whole(40, 70)];
        // From 25 to 45 others ran; at 90 nothing of this host is known to have been there.
        assert_eq!(file.stolen(&runs), [Gap { from: 10, to: 20 }]);
        let path = file.path().to_path_buf();
        drop(file);
        assert!(!path.exists());
        let gap = Gap { from: 10, to: 20 };
        assert_eq!((gap.by_clock(4).from, gap.by_clock(-4).to), (6, 24));
        assert_eq!([(0, 12), (12, 15), (18, 90)].map(|(a, b)| within(&[gap], a, b)), [2, 3, 2]);
    }

    #[test]
    fn periods_are_explained_as_in_the_report() {
        let errors = [0, 50, -20, -20, -10, -20, 3, 50];
        let stolen = |place| if place == 1 { 48 } else { 0 };
        let expected = [false, true, true, true, true, false, false, false];
        assert_eq!(explained(&errors, 2, stolen), expected);
        // A little less than the error does not explain it, nor what follows.
        assert_eq!(explained(&errors, 2, |place| stolen(place) / 2), [false; 8]);
    }
}
