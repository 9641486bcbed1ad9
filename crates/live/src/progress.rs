//! How far programs got: instructions, where the host can count them, else what the programs count
//! of themselves.
//!
//! # The programs' own counters
//! One file for each VCPU, beside the control socket, whose path its programs get
//! ([`PROGRESS_VARIABLE`]): a path outlives every `fork`, `exec` and closed descriptor. Programs
//! map it and add; the machine *reads* it, since a mapping would be its death where a program cuts
//! the file short. It belongs to the programs' user alone. What a program writes is believed, but
//! for this: the counter never falls, and never exceeds [`MOST`]. Nothing keeps a program from
//! making its file long, as nothing does with any file of its user.
//!
//! # Whose gain it is
//! A VCPU is on one core at a time, so what its counter gained since it was read last belongs to
//! the core where it sits. It is read whenever a segment of it is reported, and before it leaves.

use crate::host::launch::User;
use crate::host::perf::{Instructions, trial};
use crate::host::rights;
use crate::host::run_directory;
use crate::host::{HardwareCore, Identity};
use crate::setup::{Means, Setup};
use maracas_core::control::PROGRESS_VARIABLE;
use maracas_core::journal::{Note, Record};
use maracas_core::{Rate, VcpuId};
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// How the name of a counter's file ends, after the run and the VCPU:
/// `<pid>-<start>.vcpu3.progress`.
const SUFFIX: &str = "progress";
/// The length of the file: whatever pages the host has, one can be mapped.
const BYTES: u64 = 1 << 16;
/// A counter does not go on beyond: the sum over 255 VCPUs fits, and at ten instructions a
/// nanosecond it is reached after 83 days.
const MOST: u64 = 1 << 56;

/// What is counted as progress in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Instructions retired in user mode, by the hardware's counters.
    Instructions,
    /// Whatever the programs count.
    Own,
    /// Nothing: all cores are alike, and counting costs (10 us a dispatch with instructions, on a
    /// virtual machine).
    None,
}

impl Source {
    /// On uneven cores instructions, if they may be counted and all of the cores do.
    pub(crate) fn of(setup: &Setup, means: Means) -> Self {
        let slowed = setup.system.core_ids().any(|core| setup.share(core) < Rate::ONE);
        if setup.system.is_even() && !slowed {
            return Self::None;
        }
        let counts = |core: &HardwareCore| trial(*core).is_ok();
        let counted = means.events && means.instructions && setup.cores.iter().all(counts);
        if counted { Self::Instructions } else { Self::Own }
    }

    /// What the journal says of it.
    pub(crate) fn note(self) -> Record {
        let note = Note::Progress { vcpu: None, text: self.to_string() };
        Record::Note { at: maracas_core::Instant::ZERO, note }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instructions => "instructions (PMU)",
            Self::Own => "the programs' own counters",
            Self::None => "none",
        })
    }
}

/// The file in which the programs of a VCPU count; removed with this.
#[derive(Debug)]
pub(crate) struct Page {
    path: PathBuf,
    file: File,
}

impl Page {
    /// A counter of `vcpu` at zero, for programs of `user` (ours if `None`).
    pub(crate) fn create(vcpu: VcpuId, user: Option<User>) -> io::Result<Self> {
        Self::create_in(&run_directory::directory(), vcpu, user)
    }

    fn create_in(directory: &Path, vcpu: VcpuId, user: Option<User>) -> io::Result<Self> {
        run_directory::make_directory(directory)?;
        let path = directory.join(format!("{}.{vcpu}.{SUFFIX}", Identity::own()?));
        // The name carries our own number and start: what is there is no other run's.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path)?;
        let page = Self { path, file };
        page.file.set_len(BYTES)?;
        if let Some(user) = user {
            rights::chown(&page.file, user.uid, user.gid)?;
        }
        Ok(page)
    }

    /// Lets programs of `user` count too: where it is another, every user may.
    pub(crate) fn open_to(path: &Path, user: Option<User>) -> io::Result<()> {
        let owner = fs::metadata(path)?.uid();
        let uid = user.map_or_else(|| geteuid().as_raw(), |user| user.uid);
        if uid == owner {
            return Ok(());
        }
        // It is not ours any more where it was given to a user.
        rights::raised(|| fs::set_permissions(path, Permissions::from_mode(0o666)))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it reads; zero where a program has cut it short.
    fn read(&self) -> u64 {
        let mut bytes = [0; 8];
        let whole = self.file.read_at(&mut bytes, 0).is_ok_and(|length| length == bytes.len());
        if whole { u64::from_ne_bytes(bytes) } else { 0 }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The progress of one VCPU.
#[derive(Debug)]
pub(crate) struct Progress {
    source: Source,
    page: Option<Page>,
    /// How far it has got.
    reached: u64,
}

impl Progress {
    /// By instructions, or by the counter in `page`.
    pub(crate) const fn new(source: Source, page: Option<Page>) -> Self {
        Self { source, page, reached: 0 }
    }

    /// Whether its instructions are counted.
    pub(crate) fn is_instructions(&self) -> bool {
        self.source == Source::Instructions
    }

    /// What it gained since this was asked last; `counter` is that of the core where it sits.
    pub(crate) fn gain(&mut self, counter: Option<&mut Instructions>) -> u64 {
        let reached = match (self.source, counter, &self.page) {
            // What a counter refuses to give now is reported with the next reading.
            (Source::Instructions, Some(counter), _) => {
                self.reached.saturating_add(counter.gain().unwrap_or(0))
            }
            (Source::Own, _, Some(page)) => page.read(),
            (Source::Instructions, None, _) | (Source::Own, _, None) | (Source::None, ..) => 0,
        };
        let before = self.reached;
        self.reached = reached.min(MOST).max(before);
        self.reached - before
    }

    /// What is to be said of it at its end, if anything.
    /// `refused`: the kernel gave no counter on some core; `shared`: others used one too.
    pub(crate) fn remark(&self, refused: bool, shared: bool) -> Option<String> {
        let text = match (self.source, self.reached) {
            (Source::None, _) => return None,
            (Source::Instructions, _) if refused => "not counted on every core: refused",
            (Source::Instructions | Source::Own, 0) => "counted nothing",
            (Source::Instructions | Source::Own, _) if shared => {
                "extrapolated: others used the counters at times"
            }
            (Source::Instructions | Source::Own, _) => return None,
        };
        Some(text.to_string())
    }
}

/// The variable that names the file to a program where it may count.
pub(crate) fn variable(path: &Path) -> (std::ffi::OsString, std::ffi::OsString) {
    (PROGRESS_VARIABLE.into(), path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_the_programs_is_believed_within_bounds() {
        let directory = std::env::temp_dir().join(format!("maracas-page-{}", std::process::id()));
        let page = Page::create_in(&directory, VcpuId(3), None).expect("a file");
        let path = page.path().to_path_buf();
        let theirs = OpenOptions::new().write(true).open(&path).expect("it is ours");
        let write = |count: u64| theirs.write_at(&count.to_ne_bytes(), 0).expect("it is written");
        let mut progress = Progress::new(Source::Own, Some(page));
        assert_eq!(progress.remark(false, false).as_deref(), Some("counted nothing"));
        let mut gains = Vec::new();
        for count in [0, 5, 5, 3, 9, u64::MAX, 7] {
            write(count);
            gains.push(progress.gain(None));
        }
        theirs.set_len(0).expect("a hostile program cuts it short");
        gains.push(progress.gain(None));
        assert_eq!(gains, [0, 5, 0, 0, 4, MOST - 9, 0, 0]);
        let mode = || fs::metadata(&path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(), 0o600, "no other user may write");
        Page::open_to(&path, None).expect("the same user");
        assert_eq!(mode(), 0o600);
        Page::open_to(&path, Some(User { uid: 12_345, gid: 12_345 })).expect("it is ours");
        assert_eq!(mode(), 0o666);
        assert_eq!(progress.remark(false, false), None);
        drop(progress);
        assert!(!path.exists());
        fs::remove_dir(&directory).expect("nothing is left in it");
    }

    #[test]
    fn counters_that_the_kernel_refused_or_shared_are_reported_of() {
        let reported = |source, reached, refused, shared| {
            let progress = Progress { source, page: None, reached };
            progress.remark(refused, shared).unwrap_or_default()
        };
        assert!(reported(Source::Instructions, 9, true, true).starts_with("not counted on every"));
        assert!(reported(Source::Instructions, 9, false, true).starts_with("extrapolated"));
        assert_eq!(reported(Source::None, 0, false, false), "");
    }
}
