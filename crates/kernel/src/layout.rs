//! What the scheduler in the kernel and user space say to each other: `bpf/law.h`, `bpf/shared.h`
//! and the head of `bpf/state.h` in Rust, as bytes.

/// The most VCPUs of a run (`LAW_VCPUS`).
pub const VCPUS: u32 = 1024;
/// The most cores of a host (`CORES_MAX`).
pub const CORES: u32 = 64;
/// The most entries of a run queue in budget (`LAW_FOREGROUND_MAX`).
pub const FOREGROUND: usize = 64;
/// The most entries of a run queue that may use surplus time (`LAW_BACKGROUND_MAX`).
pub const BACKGROUND: usize = 256;
/// Bytes of `struct law_grant`, and of what stands before them in `struct law_queue`.
const GRANT: usize = 32;
const HEAD: usize = 24;
/// Bytes of `struct law_vcpu`.
const VCPU: usize = 32;
/// Bytes of `struct core`, and where what is read of it stands: up to when it is charged, the VCPU
/// and the mode that it holds, where the grant ends, the margin, since when it holds it, and the
/// time of what belongs to no VCPU.
const CORE: usize = 192;
const CORE_CHARGED: usize = 8;
const CORE_UNTIL: usize = 16;
const CORE_VCPU: usize = 40;
const CORE_MODE: usize = 44;
const CORE_MARGIN: usize = 80;
const CORE_FROM: usize = 88;
const CORE_OTHERS_RAN: usize = 136;
/// Bytes of `struct event`.
const EVENT: usize = 56;
/// No VCPU (`LAW_NONE`).
const NONE: u32 = u32::MAX;

/// Leave to run (`struct law_grant`).
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    /// Which VCPU.
    pub vcpu: u32,
    /// The reading of its meter at which it ends, in nanoseconds; `u64::MAX` = it does not.
    pub until: u64,
    /// The reading of its memory meter at which it ends; `u64::MAX` = it does not.
    pub memory: u64,
    /// The instant from which it counts, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from: u64,
}

impl Grant {
    /// Up to the meter's reading `until`, from now on, however much memory it uses.
    pub const fn new(vcpu: u32, until: u64) -> Self {
        Self { vcpu, until, memory: u64::MAX, from: 0 }
    }
    /// The same, not before `from`.
    #[must_use]
    pub const fn ahead(self, from: u64) -> Self {
        Self { from, ..self }
    }
}

/// A run queue (`struct law_queue`).
#[derive(Clone, Debug)]
pub struct Queue {
    bytes: Vec<u8>,
    entries: [usize; 2],
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(u64::MAX, true)
    }
}

impl Queue {
    /// An empty one of a core that closes where its memory meter reads `allowance`, with leave to
    /// use surplus time or not.
    pub fn new(allowance: u64, is_background_allowed: bool) -> Self {
        let mut bytes = vec![0; HEAD + GRANT * (FOREGROUND + BACKGROUND)];
        bytes[..8].copy_from_slice(&allowance.to_ne_bytes());
        bytes[8..12].copy_from_slice(&u32::from(is_background_allowed).to_ne_bytes());
        Self { bytes, entries: [0; 2] }
    }
    /// Adds an entry in budget. False where there is no room.
    #[must_use]
    pub fn push_foreground(&mut self, grant: Grant) -> bool {
        self.push(0, HEAD, FOREGROUND, grant)
    }
    /// Adds an entry that may use surplus time. False where there is no room.
    #[must_use]
    pub fn push_background(&mut self, grant: Grant) -> bool {
        self.push(1, HEAD + GRANT * FOREGROUND, BACKGROUND, grant)
    }
    fn push(&mut self, mode: usize, begin: usize, most: usize, grant: Grant) -> bool {
        if self.entries[mode] == most {
            return false;
        }
        let Grant { vcpu, until, memory, from } = grant;
        let at = begin + GRANT * self.entries[mode];
        for (place, number) in [until, memory, from].into_iter().enumerate() {
            let at = at + 8 * place;
            self.bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        self.bytes[at + 24..at + 28].copy_from_slice(&vcpu.to_ne_bytes());
        self.entries[mode] += 1;
        let count = 12 + 4 * mode;
        let entries = self.entries[mode] as u32;
        self.bytes[count..count + 4].copy_from_slice(&entries.to_ne_bytes());
        true
    }
    /// As the kernel reads it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A VCPU (`struct law_vcpu`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vcpu {
    /// What it had on its budget and of surplus time, in nanoseconds.
    pub meters: [u64; 2],
}

impl Vcpu {
    /// The one of this number, out of all that stand one after the other.
    pub fn read(bytes: &[u8], vcpu: u32) -> Option<Self> {
        let bytes = bytes.chunks_exact(VCPU).nth(vcpu as usize)?;
        Some(Self { meters: [long(bytes, 0), long(bytes, 8)] })
    }
}

/// A core (`struct core`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// By how much its timer is set early, in nanoseconds.
    pub margin: u64,
    /// What threads that belong to no VCPU had there, in nanoseconds.
    pub others: u64,
    /// What it holds, if it does.
    pub holds: Option<Holds>,
}

/// A segment that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holds {
    /// The VCPU.
    pub vcpu: u32,
    /// 0 = on its budget, 1 = on surplus time.
    pub mode: u32,
    /// Since when it runs, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// Up to when its meter is charged, in the same.
    pub charged: u64,
    /// The reading of the meter at which its grant ends.
    pub until: u64,
}

impl Core {
    /// The one of this number, out of all that stand one after the other.
    pub fn read(bytes: &[u8], core: u32) -> Option<Self> {
        let bytes = bytes.chunks_exact(CORE).nth(core as usize)?;
        let (vcpu, mode) = (word(bytes, CORE_VCPU), word(bytes, CORE_MODE) & 1);
        let [from, charged, until] =
            [CORE_FROM, CORE_CHARGED, CORE_UNTIL].map(|at| long(bytes, at));
        let holds = (vcpu != NONE).then_some(Holds { vcpu, mode, from, charged, until });
        let [margin, others] = [CORE_MARGIN, CORE_OTHERS_RAN].map(|at| long(bytes, at));
        Some(Self { margin, others, holds })
    }
}

/// What happened on a core (`struct event`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The kernel's number of the core.
    pub core: u32,
    /// The VCPU that it happened to.
    pub vcpu: u32,
    /// When, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// What.
    pub what: Happened,
}

/// What an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// A segment ended.
    Ran {
        /// When it began.
        from: u64,
        /// 0 = on its budget, 1 = on surplus time.
        mode: u32,
        /// What the meter of the mode read at its end, in nanoseconds.
        meter: u64,
        /// The reading at which its grant ended.
        until: u64,
        /// Why it ended (`enum law_end`).
        end: u32,
    },
    /// It became runnable.
    Woke,
}

impl Event {
    /// The event in these bytes; `None` where they are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < EVENT {
            return None;
        }
        let [from, at, meter, until] = [0, 8, 16, 24].map(|at| long(bytes, at));
        let [kind, core, vcpu, mode, end] = [32, 36, 40, 44, 48].map(|at| word(bytes, at));
        let what = match kind {
            0 => Happened::Ran { from, mode, meter, until, end },
            1 => Happened::Woke,
            _ => return None,
        };
        Some(Self { core, vcpu, at, what })
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_queue_has_its_entries_where_the_law_reads_them_and_refuses_one_too_many() {
        let mut queue = Queue::new(7, false);
        assert!(queue.push_foreground(Grant::new(3, 500).ahead(900)));
        assert!((0..BACKGROUND).all(|vcpu| queue.push_background(Grant::new(vcpu as u32, 1))));
        assert!(!queue.push_background(Grant::new(0, 1)), "no room");
        let bytes = queue.bytes();
        assert_eq!(bytes.len(), 24 + 32 * 320);
        assert_eq!(long(bytes, 0), 7);
        assert_eq!([8, 12, 16].map(|at| word(bytes, at)), [0, 1, 256]);
        let first = [long(bytes, 24), long(bytes, 32), long(bytes, 40)];
        assert_eq!((first, word(bytes, 48)), ([500, u64::MAX, 900], 3));
        let last = 24 + 32 * 319;
        assert_eq!((long(bytes, last), word(bytes, last + 24)), (1, 255));
    }

    #[test]
    fn an_event_is_read_back_and_what_is_none_is_refused() {
        let longs: [u64; 4] = [10, 20, 7, 8];
        let words: [u32; 6] = [0, 1, 5, 1, 3, 0];
        let mut bytes: Vec<u8> = longs.iter().flat_map(|it| it.to_ne_bytes()).collect();
        bytes.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        let what = Happened::Ran { from: 10, mode: 1, meter: 7, until: 8, end: 3 };
        assert_eq!(Event::read(&bytes), Some(Event { core: 1, vcpu: 5, at: 20, what }));
        assert_eq!(Event::read(&bytes[..55]), None);
        bytes[32] = 1;
        assert_eq!(Event::read(&bytes).map(|event| event.what), Some(Happened::Woke));
        bytes[32] = 2;
        assert_eq!(Event::read(&bytes), None);
    }

    #[test]
    fn a_core_says_what_it_holds() {
        let mut bytes = vec![0; 2 * CORE];
        let at = CORE;
        bytes[at + CORE_MARGIN] = 9;
        bytes[at + CORE_VCPU] = 4;
        bytes[at + CORE_FROM] = 70;
        let holds = Holds { vcpu: 4, mode: 0, from: 70, charged: 0, until: 0 };
        let core = Core { margin: 9, others: 0, holds: Some(holds) };
        assert_eq!(Core::read(&bytes, 1), Some(core));
        bytes[at + CORE_VCPU..at + CORE_VCPU + 4].fill(0xff);
        assert_eq!(Core::read(&bytes, 1).and_then(|core| core.holds), None);
        assert_eq!(Core::read(&bytes, 2), None);
    }
}
