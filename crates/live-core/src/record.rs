//! What the kernel records of the threads on a core.

use maracas_core::Instant;

/// Something that the kernel recorded on a core, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A thread was put on the core.
    In {
        /// Its number.
        tid: i32,
        /// When.
        at: Instant,
    },
    /// A thread was taken off the core.
    Out {
        /// Its number.
        tid: i32,
        /// When.
        at: Instant,
        /// It could have gone on; else it blocked.
        preempted: bool,
    },
    /// A thread made another.
    Fork {
        /// The number of the thread that did.
        parent: i32,
        /// The number of the new one.
        child: i32,
        /// When.
        at: Instant,
    },
    /// A thread is ending.
    Exit {
        /// Its number.
        tid: i32,
        /// When.
        at: Instant,
    },
    /// Records were lost: what is known of threads must be asked again.
    Lost {
        /// When.
        at: Instant,
    },
}

impl Record {
    /// When it happened.
    pub const fn at(&self) -> Instant {
        match self {
            Self::In { at, .. }
            | Self::Out { at, .. }
            | Self::Fork { at, .. }
            | Self::Exit { at, .. }
            | Self::Lost { at } => *at,
        }
    }
}
