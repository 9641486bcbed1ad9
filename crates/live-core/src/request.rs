//! What a running system is asked, and why it refuses.

use crate::{Handle, Reply};
use crate::{Host, Level, ReplyOf, VcpuHandle, VcpuHandleOf};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::Mode;
use maracas_core::{CoreId, Duration, Instant, JobId, Reservation, Vcpu, VcpuId};
use std::{fmt, io};

/// Why a request was not carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The policy's admission test said no; the numbers are inside.
    NotAdmitted(NotAdmitted),
    /// There is no such VCPU (any more).
    Unknown(VcpuId),
    /// The host refused: one sentence that names what and why.
    Host(String),
    /// The system is ending.
    Ending,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAdmitted(why) => write!(f, "not admitted: {why}"),
            Self::Unknown(vcpu) => write!(f, "there is no {vcpu}; ask for the list"),
            Self::Host(why) => f.write_str(why),
            Self::Ending => f.write_str("the system is ending"),
        }
    }
}
impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Host(error.to_string())
    }
}

/// What a VCPU is doing, at the instant of the question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VcpuStatus {
    /// Which.
    pub id: VcpuId,
    /// Its name: the user's, or `vcpuN`.
    pub name: String,
    /// (C, T, D).
    pub reservation: Reservation,
    /// The core on which it waits or runs.
    pub core: CoreId,
    /// The mode in which it may run now; `None` while it is held back.
    pub mode: Option<Mode>,
    /// Foreground service so far.
    pub foreground: Duration,
    /// Background service so far.
    pub background: Duration,
    /// How many threads the machine knows in it.
    pub threads: usize,
}

impl VcpuStatus {
    /// Fills in what only the VCPU handle knows.
    pub(crate) fn describe<H: Handle>(&mut self, vcpu_handle: &VcpuHandle<H>) {
        self.mode = match vcpu_handle.level {
            Level::Foreground(_) => Some(Mode::Foreground),
            Level::Background => Some(Mode::Background),
            Level::Watched | Level::Frozen => None,
        };
        self.foreground = vcpu_handle.meter(Mode::Foreground);
        self.background = vcpu_handle.meter(Mode::Background);
        self.threads = vcpu_handle.threads().len();
    }
}

/// One request; the answer goes back through its reply.
pub enum Request<H: Host> {
    /// The policy is to be asked about a VCPU that arrives: the core where it begins.
    Create {
        /// Its name.
        name: String,
        /// It.
        vcpu: Vcpu,
        /// Its core, or why not.
        reply: ReplyOf<H, Result<CoreId, Refusal>>,
    },
    /// (C, T, D) of a VCPU are to be replaced.
    Set {
        /// Which.
        id: VcpuId,
        /// By these.
        reservation: Reservation,
        /// Its core, or why not.
        reply: ReplyOf<H, Result<CoreId, Refusal>>,
    },
    /// A VCPU that was admitted gets its VCPU handle.
    Attach(Box<VcpuHandleOf<H>>),
    /// Its threads changed in ways that no record tells: look again, and count this as a wake.
    Rescan(VcpuId),
    /// A program is about to be started in it: nothing may be frozen until `Unhold` with the same
    /// number, or until it has lasted for too long. Answers on which core the VCPU is.
    Hold {
        /// Which VCPU.
        id: VcpuId,
        /// Any number that is used once.
        number: u64,
        /// On which core the VCPU is.
        reply: ReplyOf<H, CoreId>,
    },
    /// Ends the hold of that number.
    Unhold(u64),
    /// Ends a VCPU; its VCPU handle comes back, at rest, to be disposed of.
    Destroy {
        /// Which.
        id: VcpuId,
        /// What is left of it.
        reply: ReplyOf<H, Ended<H>>,
    },
    /// All VCPUs, by number.
    List {
        /// They.
        reply: ReplyOf<H, Vec<VcpuStatus>>,
    },
    /// A program says that a job is done.
    Completed {
        /// Which.
        job: JobId,
        /// Since when.
        at: Instant,
    },
}

/// The VCPU handle of a VCPU that ended, if it had one.
pub type Ended<H> = Result<Option<Box<VcpuHandleOf<H>>>, Refusal>;

impl<H: Host> Request<H> {
    /// Whether who asked has given up: it is to be left undone.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Create { reply, .. } | Self::Set { reply, .. } => reply.is_withdrawn(),
            Self::Hold { reply, .. } => reply.is_withdrawn(),
            Self::Destroy { reply, .. } => reply.is_withdrawn(),
            Self::List { reply } => reply.is_withdrawn(),
            Self::Attach(_) | Self::Rescan(_) | Self::Unhold(_) | Self::Completed { .. } => false,
        }
    }
}
