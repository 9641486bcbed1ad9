//! The words in which a running system is asked and changed, over its control socket.
//!
//! A frame is the length of its body as four little-endian bytes, then the body in the encoding of
//! the journal. The first frame either way is a hello with the version; a side that does not know
//! the other's version says so and closes. A request gets one reply, in order, with one exception:
//! after [`Request::Jobs`] was answered by [`Reply::Done`] the connection carries nothing but
//! [`Reply::Job`] one way and [`Request::JobDone`] the other, neither of them answered.

use crate::admission::{Measure, NotAdmitted};
use crate::contract::Mode;
use crate::wire::Wire;
use crate::{CoreId, Duration, Instant, Job, JobId, Reservation, Role, Vcpu, VcpuId};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

mod encoding;
mod gauges;
pub mod tallies;

pub use gauges::{CoreGauges, Gauges, Histogram, MemoryGauges, StatisticGauge, VcpuGauges};

/// Version of the words. A change that an older side would misread raises it.
pub const VERSION: u32 = 2;

/// Environment variable with the path of the control socket, set for started programs.
pub const SOCKET_VARIABLE: &str = "MARACAS_SOCKET";

/// Environment variable with the number of the VCPU on which a program was started.
pub const VCPU_VARIABLE: &str = "MARACAS_VCPU";

/// Environment variable with the path of the file in which a started program may count its own
/// progress, for hosts that cannot count instructions: 8 bytes, an integer of the host's byte order
/// that only grows; the program maps the file shared and adds to it. One for each VCPU.
pub const PROGRESS_VARIABLE: &str = "MARACAS_PROGRESS";

/// Environment variable with the path of the file by which the runtime asks a started program,
/// where it uses the client library or has it preloaded, to keep its memory in page frames of
/// certain colours: [`color_page`]. One for each VCPU.
pub const COLORS_VARIABLE: &str = "MARACAS_COLORS";

/// The file that [`COLORS_VARIABLE`] names: 64-bit words of the host's byte order. The runtime's
/// own words come first, then slots, one for each process.
///
/// Every word has one writer, and all are read and written by calls (`pread`, `pwrite`), never
/// through a mapping: any process of the VCPU may cut the file short, and a mapping of what is cut
/// off is the death of whatever reads it. Mapped it may be to wait on [`ORDER`](color_page::ORDER)
/// as a futex, which reads in the kernel and answers `EFAULT` then.
///
/// A process claims the first slot whose bytes it can lock (`F_OFD_SETLK`, exclusively) and keeps
/// the lock as long as it lives, so that whatever died is attached no more, however it died. An
/// order is complete when every attached process has finished it. A process that attaches later
/// carries the last order out at once.
pub mod color_page {
    /// Number of the last order, from 1 on; the runtime writes it last. Processes wait for it as a
    /// futex on its lower half.
    pub const ORDER: usize = 0;
    /// The wanted colours, one bit a colour; 0 = any.
    pub const MASK: usize = 1;
    /// How many colours there are, 64 at most; a frame's colour is its number modulo this.
    pub const COLORS: usize = 2;
    /// Where the slots begin, in words.
    pub const SLOTS: usize = 8;
    /// Words of a slot.
    pub const SLOT: usize = 8;
    /// How many slots there are: what is left of a page of 4 KiB. Further processes of a VCPU stay
    /// in the frames that they have.
    pub const PROCESSES: usize = 63;
    /// In a slot: the process, for people. Written first.
    pub const PROCESS: usize = 0;
    /// In a slot: the last order that it carried out, or gave up; written after the rest.
    pub const FINISHED: usize = 1;
    /// In a slot: pages that this order put into other frames.
    pub const PAGES: usize = 2;
    /// In a slot: the processor time that this took, in nanoseconds.
    pub const NANOS: usize = 3;
    /// In a slot: pages that stayed in frames of other colours.
    pub const LEFT: usize = 4;
    /// In a slot: why, where it could not be done: the system's error number; 0 = none.
    pub const ERROR: usize = 5;
    /// How many words there are.
    pub const WORDS: usize = SLOTS + PROCESSES * SLOT;

    /// How the name of the socket ends that stands beside the file, after the file's own name.
    /// Whatever connects is sent two descriptors with one byte, and no more: the connecting
    /// process' own `/proc/PID/pagemap`, which shows frames to whatever has it opened with
    /// `CAP_SYS_ADMIN`, and `/dev/userfaultfd`. So programs need no rights for it. What the host
    /// does not give is left out; the byte says what is there, by these bits.
    pub const DESCRIPTORS: &str = ".door";
    /// The pagemap is the first descriptor.
    pub const DESCRIPTORS_PAGEMAP: u8 = 1;
    /// The device is the next one.
    pub const DESCRIPTORS_USERFAULTFD: u8 = 2;
}

/// Where a runtime with root's rights puts its socket; one without puts it into `maracas` below
/// `$XDG_RUNTIME_DIR`, and clients look in both. The file is named `<pid>-<start>.sock` after the
/// runtime's process and its start instant (`/proc/<pid>/stat`, field 22): numbers are reused. The
/// inode of its pid namespace stands after that, `<pid>-<start>-<inode>.sock`, where it is not
/// [`INITIAL_PID_NAMESPACE`].
pub const DIRECTORY: &str = "/run/maracas";

/// The inode of the pid namespace in which the kernel starts (`/proc/<pid>/ns/pid`;
/// `PROC_PID_INIT_INO` of include/linux/proc_ns.h).
pub const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// How the file name of a socket ends.
pub const SUFFIX: &str = ".sock";

/// The longest body of a request in bytes: a client cannot make the runtime hold more than this.
pub const MAX_BODY: usize = 256 * 1024;

/// The longest body of a reply in bytes: the gauges of 100,000 VCPUs with names of 200 bytes fit,
/// at 600 bytes each. A client that asks its runtime for them must hold them.
pub const MAX_REPLY: usize = 64 * 1024 * 1024;

/// The longest name of a VCPU in bytes; it must fit a directory name beside our own prefix.
pub const MAX_NAME: usize = 200;

/// The shortest period, in nanoseconds, that the socket takes: below it the machine's own work per
/// period (10 to 20 us) would be all there is.
const MIN_PERIOD: Duration = Duration::from_micros(100);

/// The longest period that the socket takes: an hour; above it sums of instants could overflow.
const MAX_PERIOD: Duration = Duration::from_secs(3600);

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Opens the connection.
    Hello {
        /// The client's [`VERSION`].
        version: u32,
    },
    /// Creates a VCPU. Answered by [`Reply::Created`] or [`Reply::Refused`].
    Create(NewVcpu),
    /// Replaces the reservation of a VCPU. Answered like [`Request::Create`].
    Set {
        /// Which.
        vcpu: VcpuId,
        /// Its new (C, T, D).
        reservation: Reservation,
    },
    /// Removes a VCPU; its threads go on as ordinary ones.
    Destroy {
        /// Which.
        vcpu: VcpuId,
    },
    /// Asks for [`Reply::Vcpus`].
    List,
    /// Turns this connection into the one that gets the job releases of a VCPU.
    Jobs {
        /// Whose.
        vcpu: VcpuId,
    },
    /// A job has received all its service.
    JobDone {
        /// Which.
        job: JobId,
        /// When, counted from the run's origin: a message may arrive later than it was sent.
        at: Instant,
    },
    /// Asks for [`Reply::Gauges`].
    Gauges,
}

/// A VCPU that a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewVcpu {
    /// Its name in lists and tables; empty lets the runtime choose one.
    pub name: String,
    /// All that a scenario can say of one. Its id counts for nothing: the runtime gives it one.
    pub vcpu: Vcpu,
    /// What must run on it.
    pub members: Members,
}

/// Which threads run on a VCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Members {
    /// One thread, by its number in the runtime's namespace.
    Thread(u32),
    /// All threads that a process has now; their later children included.
    Process(u32),
}

/// What the runtime answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Answers the hello.
    Hello {
        /// The runtime's [`VERSION`].
        version: u32,
        /// The runtime's process.
        pid: u32,
        /// The policy that runs.
        policy: String,
        /// Instant zero of the run on the monotonic clock, in nanoseconds: releases and deadlines
        /// count from there.
        origin: u64,
    },
    /// The VCPU was admitted and stands.
    Created {
        /// Its number.
        vcpu: VcpuId,
        /// Its core; core 0 where the policy is global.
        core: CoreId,
    },
    /// The VCPU was not admitted; nothing was changed.
    Refused(Refusal),
    /// Done.
    Done,
    /// All VCPUs, by number.
    Vcpus(Vec<VcpuState>),
    /// A job was released.
    Job(Job),
    /// The request could not be carried out: one sentence.
    Error(String),
    /// What the run does and did.
    Gauges(Box<Gauges>),
}

/// Why a VCPU was not admitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// One line for people: the reason, and every number.
    pub text: String,
    /// The numbers of the tests on the core that comes closest.
    pub numbers: Vec<Number>,
}

/// One number of an admission test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Number {
    /// The test: `"ll"`, `"hyperbolic"`, `"rta"`, ...
    pub test: String,
    /// The VCPU whose response time this is; `None` for a load against a bound.
    pub vcpu: Option<VcpuId>,
    /// What is asked for: parts per billion of a core, or a response time in nanoseconds;
    /// `None` where that is beyond its bound.
    pub value: Option<u64>,
    /// What is allowed, in the same unit.
    pub bound: u64,
    /// Whether the test accepts.
    pub accepted: bool,
}

/// One VCPU as [`Request::List`] shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VcpuState {
    /// Its number.
    pub vcpu: VcpuId,
    /// Its name.
    pub name: String,
    /// (C, T, D).
    pub reservation: Reservation,
    /// Where it stands.
    pub core: CoreId,
    /// How many threads it has.
    pub threads: u32,
    /// In which mode it may run now; `None` while it stands on no run queue.
    pub mode: Option<Mode>,
    /// Time in the foreground so far.
    pub foreground: Duration,
    /// Time in the background so far.
    pub background: Duration,
}

impl NewVcpu {
    /// A main VCPU with implicit deadline for `members`, without jobs and demands.
    pub fn new(budget: Duration, period: Duration, members: Members) -> Self {
        Self { name: String::new(), vcpu: Vcpu::new(0, budget, period), members }
    }

    /// Checks what no admission test would: names and ranges.
    ///
    /// # Errors
    /// One sentence that names the value and the way out.
    pub fn check(&self) -> Result<(), String> {
        if self.name.len() > MAX_NAME {
            let length = self.name.len();
            return Err(alloc::format!("the name has {length} bytes; {MAX_NAME} may be"));
        }
        if let Some(bad) = self.name.chars().find(|c| c.is_control() || *c == '/') {
            return Err(alloc::format!("the name holds {bad:?}; take letters, digits, - and _"));
        }
        let Vcpu { role, weight, speedup_milli, .. } = self.vcpu;
        if !matches!(role, Role::Main | Role::Io) {
            return Err("a VCPU of this kind belongs to the policy; create a main or io one".into());
        }
        if !(1..=Vcpu::MAX_WEIGHT).contains(&weight) {
            let most = Vcpu::MAX_WEIGHT;
            return Err(alloc::format!("the weight is {weight}; it must lie between 1 and {most}"));
        }
        let speeds = 1_000..=Vcpu::MAX_SPEEDUP_MILLI;
        if let Some(speedup_milli) = speedup_milli.filter(|it| !speeds.contains(&it.get())) {
            return Err(alloc::format!(
                "the speedup is {speedup_milli}/1000; it must lie between 1 and {}",
                Vcpu::MAX_SPEEDUP_MILLI / 1_000
            ));
        }
        check_reservation(&self.vcpu.reservation)
    }
}

/// Checks that 0 < C <= D <= T and that T is from 100 us to one hour.
///
/// # Errors
/// One sentence that names the value and the way out.
pub fn check_reservation(reservation: &Reservation) -> Result<(), String> {
    let Reservation { budget, period, deadline } = *reservation;
    let why = if !(MIN_PERIOD..=MAX_PERIOD).contains(&period) {
        alloc::format!("the period {period} must lie between {MIN_PERIOD} and {MAX_PERIOD}")
    } else if budget.is_zero() {
        "the budget is 0; it must be above 0".to_string()
    } else if deadline > period {
        alloc::format!("the deadline {deadline} exceeds the period {period}; lower it")
    } else if budget > deadline {
        alloc::format!("the budget {budget} exceeds the deadline {deadline}; lower it")
    } else {
        return Ok(());
    };
    Err(why)
}

impl From<&NotAdmitted> for Refusal {
    fn from(why: &NotAdmitted) -> Self {
        let mut numbers = Vec::new();
        for result in why.closest.iter().flat_map(|core| &core.tests) {
            let mut number = |vcpu, value, bound| {
                let (test, accepted) = (result.test.to_string(), result.accepted);
                numbers.push(Number { test, vcpu, value, bound, accepted });
            };
            match &result.measure {
                Measure::Ratio { value, bound } => number(None, Some(*value), *bound),
                Measure::Responses(list) => {
                    for (vcpu, response, deadline) in list {
                        let response = response.map(Duration::ticks);
                        number(Some(*vcpu), response, deadline.ticks());
                    }
                }
                // Nothing is refused for it.
                Measure::Tardiness(_) => {}
            }
        }
        Self { text: why.to_string(), numbers }
    }
}

/// A word that travels in a frame.
pub trait Message: Sized {
    /// The longest body, in bytes.
    const MOST: usize;
    /// Appends the message as one frame.
    ///
    /// # Errors
    /// Where the body would exceed [`Self::MOST`].
    fn write(&self, out: &mut Vec<u8>) -> Result<(), FrameError>;
    /// Reads a message from the body of a frame, all of it.
    ///
    /// # Errors
    /// Where the body is not a message.
    fn read(body: &[u8]) -> Result<Self, FrameError>;
}

macro_rules! messages {
    ($($type:ty: $most:expr),*) => {$(
        impl Message for $type {
            const MOST: usize = $most;
            fn write(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                self.put(out);
                let length = out.len() - start - 4;
                if length > Self::MOST {
                    out.truncate(start);
                    return Err(FrameError::TooLong(length));
                }
                out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
                Ok(())
            }
            fn read(mut body: &[u8]) -> Result<Self, FrameError> {
                let message = Wire::take(&mut body).ok_or(FrameError::Malformed)?;
                if body.is_empty() { Ok(message) } else { Err(FrameError::Malformed) }
            }
        }
    )*};
}
messages!(Request: MAX_BODY, Reply: MAX_REPLY);

/// Why bytes from a peer are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameError {
    /// The body has, or is said to have, this many bytes.
    TooLong(usize),
    /// The body is no message of this version.
    Malformed,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(n) => write!(
                f,
                "a message of {n} bytes; a request may have {MAX_BODY}, a reply {MAX_REPLY}"
            ),
            Self::Malformed => write!(f, "bytes that are no message of version {VERSION}"),
        }
    }
}

impl core::error::Error for FrameError {}

/// Cuts a stream of bytes into frames. Holds at most one frame and what one read brought.
#[derive(Default, Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    read: usize,
}

impl Frames {
    /// No bytes yet.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), read: 0 }
    }
    /// Takes in what a read brought.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }
    /// The next whole message, or `None` until more bytes come.
    ///
    /// # Errors
    /// Where the stream cannot be read on; the connection must be closed.
    pub fn take<M: Message>(&mut self) -> Result<Option<M>, FrameError> {
        let rest = &self.bytes[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > M::MOST {
            return Err(FrameError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = M::read(body)?;
        self.read += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests;
