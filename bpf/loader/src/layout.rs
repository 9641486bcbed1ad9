//! What the scheduler in the kernel and its loader say to each other: `bpf/law.h` and
//! `bpf/shared.h` in Rust, as bytes.

/// Most VCPUs of a run (`LAW_VCPUS`).
pub const VCPUS: usize = 1024;
/// Most entries of a run queue (`LAW_FOREGROUND_MAX`, `LAW_BACKGROUND_MAX`).
const FOREGROUND: usize = 64;
const BACKGROUND: usize = 256;
/// Bytes of `struct law_grant`, and of what stands before them in `struct law_queue`.
const GRANT: usize = 32;
const HEAD: usize = 24;
/// Bytes of `struct law_vcpu`.
const VCPU: usize = 32;
/// Bytes of `struct core`, and where its margin and the time of what belongs to no VCPU stand.
const CORE: usize = 192;
const CORE_MARGIN: usize = 80;
const CORE_OTHERS_RAN: usize = 136;
/// Run queues of a core (`LAW_QUEUES`), and the first that is to be written.
pub const QUEUES: u32 = 3;
pub const FIRST_SPARE: u32 = 2;
/// `LAW_LIMIT_REACHED`.
const LIMIT_REACHED: u32 = 3;

/// Leave to run (`struct law_grant`), however much memory it uses.
#[derive(Clone, Copy)]
pub struct Grant {
    vcpu: u32,
    until: u64,
    from: u64,
}

impl Grant {
    /// Up to the meter's reading `until`.
    pub const fn new(vcpu: u32, until: u64) -> Self {
        Self { vcpu, until, from: 0 }
    }
    /// The same, not before `from`, in nanoseconds of CLOCK_MONOTONIC.
    pub const fn ahead(self, from: u64) -> Self {
        Self { from, ..self }
    }
}

/// A run queue (`struct law_queue`).
pub struct Queue {
    bytes: Vec<u8>,
    entries: [u32; 2],
}

impl Queue {
    /// An empty one, without an allowance of memory.
    pub fn new() -> Self {
        let mut bytes = vec![0; HEAD + GRANT * (FOREGROUND + BACKGROUND)];
        bytes[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        bytes[8..12].copy_from_slice(&1u32.to_ne_bytes());
        Self { bytes, entries: [0; 2] }
    }
    /// Adds an entry in budget.
    pub fn push_foreground(&mut self, grant: Grant) {
        assert!((self.entries[0] as usize) < FOREGROUND, "{FOREGROUND} entries in budget, at most");
        self.push(0, HEAD, grant);
    }
    /// Adds an entry that may use surplus time.
    pub fn push_background(&mut self, grant: Grant) {
        assert!((self.entries[1] as usize) < BACKGROUND, "{BACKGROUND} entries beside, at most");
        self.push(1, HEAD + GRANT * FOREGROUND, grant);
    }
    fn push(&mut self, mode: usize, begin: usize, grant: Grant) {
        let at = begin + GRANT * self.entries[mode] as usize;
        self.bytes[at..at + 8].copy_from_slice(&grant.until.to_ne_bytes());
        self.bytes[at + 8..at + 16].copy_from_slice(&u64::MAX.to_ne_bytes());
        self.bytes[at + 16..at + 24].copy_from_slice(&grant.from.to_ne_bytes());
        self.bytes[at + 24..at + 28].copy_from_slice(&grant.vcpu.to_ne_bytes());
        self.entries[mode] += 1;
        let count = 12 + 4 * mode;
        self.bytes[count..count + 4].copy_from_slice(&self.entries[mode].to_ne_bytes());
    }
    /// As the kernel reads it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// All VCPUs (`struct law_vcpu`, one after the other).
pub struct Vcpus(pub Vec<u8>);

impl Vcpus {
    /// What the VCPU had on its budget, in nanoseconds.
    pub fn foreground(&self, vcpu: u32) -> u64 {
        number(&self.0, VCPU * vcpu as usize)
    }
    /// What it had of surplus time.
    pub fn background(&self, vcpu: u32) -> u64 {
        number(&self.0, VCPU * vcpu as usize + 8)
    }
}

/// All cores (`struct core`, one after the other).
pub struct Cores(pub Vec<u8>);

impl Cores {
    /// By how much the core's timer is set early, in nanoseconds.
    pub fn margin(&self, core: u32) -> u64 {
        number(&self.0, CORE * core as usize + CORE_MARGIN)
    }
    /// What threads that belong to no VCPU had there, in nanoseconds.
    pub fn others(&self, core: u32) -> u64 {
        number(&self.0, CORE * core as usize + CORE_OTHERS_RAN)
    }
}

/// What happened (`struct event`).
pub struct Event {
    /// When it began, in nanoseconds of CLOCK_MONOTONIC.
    pub from: u64,
    meter: u64,
    until: u64,
    kind: u32,
    vcpu: u32,
    mode: u32,
    end: u32,
}

impl Event {
    /// The event in these bytes; `None` where there are too few.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        (bytes.len() >= 56).then(|| Self {
            from: number(bytes, 0),
            meter: number(bytes, 16),
            until: number(bytes, 24),
            kind: word(32),
            vcpu: word(40),
            mode: word(44),
            end: word(48),
        })
    }
    /// Whether the VCPU ran on its budget.
    pub fn is_foreground_of(&self, vcpu: u32) -> bool {
        (self.kind, self.mode, self.vcpu) == (0, 0, vcpu)
    }
    /// Whether its budget ended it.
    pub fn is_limit(&self) -> bool {
        self.end == LIMIT_REACHED
    }
    /// How far past its limit its meter was, in nanoseconds; less than 0 = before it.
    pub fn overrun(&self) -> i64 {
        self.meter as i64 - self.until as i64
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of our own, which the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
