//! Why resource control could not do what was asked, in one line with the way out.

use crate::host::HardwareCore;
use std::path::PathBuf;
use std::{fmt, io};

/// Why resource control could not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The host has none: why.
    Absent(String),
    /// It could be mounted, and is not.
    Unmounted,
    /// It is there, and lacks one of its parts.
    Lacks(&'static str),
    /// This process is in another program's class, which all that it starts would inherit.
    Elsewhere {
        /// Its name.
        class: String,
        /// Where the file system is mounted.
        root: PathBuf,
    },
    /// A core belongs to another program's class or monitor already.
    Taken {
        /// Which core.
        core: HardwareCore,
        /// Which group, below the mount.
        group: String,
    },
    /// No class is left (ENOSPC).
    Classes {
        /// How many the hardware has, the default one included.
        num_closids: u32,
        /// How many this run had got.
        ours: usize,
        /// How many others have.
        others: usize,
    },
    /// No monitor is left (ENOSPC).
    Monitors {
        /// How many the hardware has, one a group.
        num_rmids: u32,
    },
    /// A part of the cache that the hardware cannot give.
    Mask {
        /// For which core.
        core: HardwareCore,
        /// Which ways, one bit each.
        ways: u64,
        /// Why not, and what would do.
        why: String,
    },
    /// A bandwidth that the hardware cannot give.
    Level(String),
    /// No domain of the resource is this core's.
    NoDomain {
        /// Which core.
        core: HardwareCore,
        /// The resource, as `schemata` names it.
        resource: &'static str,
    },
    /// The kernel refused what was written.
    Refused {
        /// Where.
        file: PathBuf,
        /// What.
        text: String,
        /// The kernel's reason: `last_cmd_status`, or the error alone.
        reason: String,
        /// The error.
        source: io::Error,
    },
    /// The kernel took what was written and shows something else.
    Differs {
        /// Where.
        file: PathBuf,
        /// What was written.
        wrote: String,
        /// What it reads.
        reads: String,
    },
    /// A counter says no number.
    Uncounted {
        /// Which.
        file: PathBuf,
        /// What it says, such as `Unavailable`.
        says: String,
    },
    /// Anything else of a file.
    File(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Absent(_) | Error::Unmounted | Error::Lacks(_) => io::ErrorKind::Unsupported,
            Error::Mask { .. } | Error::Level(_) | Error::NoDomain { .. } => {
                io::ErrorKind::InvalidInput
            }
            Error::Elsewhere { .. } | Error::Taken { .. } => io::ErrorKind::ResourceBusy,
            Error::Classes { .. } | Error::Monitors { .. } => io::ErrorKind::StorageFull,
            Error::Differs { .. } | Error::Uncounted { .. } => io::ErrorKind::InvalidData,
            Error::Refused { source, .. } | Error::File(source) => source.kind(),
        };
        if let Error::File(source) = error { source } else { io::Error::new(kind, error) }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => f.write_str(why),
            Self::Unmounted => write!(
                f,
                "resctrl is not mounted; where no program sets the hardware by other means: \
                 mount -t resctrl resctrl {}",
                super::mount::PLACE
            ),
            Self::Lacks(what) => write!(f, "resctrl has no {what} on this processor"),
            Self::Elsewhere { class, root } => write!(
                f,
                "this process is in resctrl class \"{class}\", and so is all that it starts; move \
                 it first: echo $$ > {}/tasks",
                root.display()
            ),
            Self::Taken { core, group } => {
                let name = group.strip_prefix("mon_groups/").unwrap_or(group);
                let kind = if name == group { "class" } else { "monitor" };
                let (whose, way) = match super::owner(name) {
                    Some(_) => {
                        ("another run", "end that, or call `maracas clean` where it is dead")
                    }
                    None => ("another program", "take it out of there or run on other cores"),
                };
                write!(f, "core {core} is in resctrl {kind} \"{name}\" of {whose}; {way}")
            }
            Self::Classes { num_closids, ours, others } => write!(
                f,
                "no resctrl class is left: num_closids is {num_closids}, of which the default \
                 class takes 1, others {others} and this run {ours}; a class a core is needed: \
                 remove others' or give fewer cores a part of their own"
            ),
            Self::Monitors { num_rmids } => write!(
                f,
                "no resctrl monitor is left: num_rmids is {num_rmids}; remove others' groups"
            ),
            Self::Mask { core, ways, why } => write!(f, "core {core}: ways {ways:#x}: {why}"),
            Self::Level(why) => f.write_str(why),
            Self::NoDomain { core, resource } => {
                write!(f, "core {core} is in no domain of resctrl's {resource}")
            }
            Self::Refused { file, text, reason, .. } => {
                let text = text.trim_end().replace('\n', ", ");
                write!(f, "{} <- {text}: {reason}", file.display())
            }
            Self::Differs { file, wrote, reads } => {
                write!(f, "{}: wrote {wrote}, reads {reads}", file.display())
            }
            Self::Uncounted { file, says } => write!(f, "{}: says {says}", file.display()),
            Self::File(error) => write!(f, "{error}"),
        }
    }
}
