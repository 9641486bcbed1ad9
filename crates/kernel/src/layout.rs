//! What the scheduler in the kernel and user space say to each other: `bpf/law.h`, `bpf/shared.h`
//! and the head of `bpf/state.h` in Rust: words of the maps in shared memory, bytes of events.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most VCPUs at once (`LAW_VCPUS`): slots. The number of a VCPU is its slot and, above that,
/// how many had the slot before.
pub const VCPUS: u32 = 1024;
/// The most cores of a host (`CORES_MAX`).
pub const CORES: u32 = 64;
/// The most entries of a run queue in budget (`LAW_FOREGROUND_MAX`).
pub const FOREGROUND: usize = 64;
/// The most entries of a run queue that may use surplus time (`LAW_BACKGROUND_MAX`).
pub const BACKGROUND: usize = 256;
/// Words, of eight bytes each, of `struct law_grant`, and of what stands before them in `struct
/// law_queue`.
const GRANT: usize = 4;
const HEAD: usize = 3;
/// Words of `struct law_queue`.
pub const QUEUE: usize = HEAD + GRANT * (FOREGROUND + BACKGROUND);
/// Words of `struct law_vcpu`, and where behind its three meters stand how many of its threads are
/// runnable and which core holds it, how often it woke and how many had its slot before, and which
/// core passed over it.
pub(crate) const VCPU: usize = 6;
const VCPU_THREADS_HOLDER: usize = 3;
const VCPU_WAKES_LEFT: usize = 4;
const VCPU_PASSED: usize = 5;
/// Words of `struct core`, and where what is read of it stands: its meter of reads, up to when it
/// is charged, where the grant ends of what it holds, the VCPU and the mode of that, the margin,
/// since when it holds it, the time of what belongs to no VCPU, and the reads that are not charged.
pub(crate) const CORE: usize = 32;
const CORE_READS: usize = 0;
const CORE_CHARGED: usize = 1;
const CORE_UNTIL: usize = 2;
const CORE_VCPU_MODE: usize = 5;
const CORE_MARGIN: usize = 11;
const CORE_FROM: usize = 12;
const CORE_OTHERS_RAN: usize = 18;
const CORE_PENDING: usize = 22;
/// Bytes of `struct event`.
const EVENT: usize = 64;
/// No VCPU (`LAW_NONE`).
pub(crate) const NONE: u32 = u32::MAX;

/// Leave to run (`struct law_grant`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Which VCPU.
    pub vcpu: u32,
    /// The reading of its meter at which it ends, in nanoseconds; `u64::MAX` = it does not.
    pub until: u64,
    /// The reading of its memory meter at which it ends; `u64::MAX` = it does not.
    pub memory: u64,
    /// The instant from which it counts, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// How often the VCPU had woken by what the sender knows, where it lapses at the next wake.
    pub lapses_after: Option<u16>,
    /// No thread need be woken at its end.
    pub silent: bool,
}

impl Grant {
    /// Up to the meter's reading `until`, from now on, however much memory it uses.
    pub const fn new(vcpu: u32, until: u64) -> Self {
        Self { vcpu, until, memory: u64::MAX, from: 0, lapses_after: None, silent: false }
    }
    /// The same, not before `from`.
    #[must_use]
    pub const fn ahead(self, from: u64) -> Self {
        Self { from, ..self }
    }
    /// What stands behind the number of the VCPU: how often it had woken, and two marks.
    fn marks(&self) -> u32 {
        let [low, high] = self.lapses_after.unwrap_or_default().to_ne_bytes();
        let marks = [self.lapses_after.is_some(), self.silent].map(u8::from);
        u32::from_ne_bytes([low, high, marks[0], marks[1]])
    }
}

/// A run queue (`struct law_queue`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    allowance: u64,
    is_background_allowed: bool,
    /// Entries in budget, and those that may use surplus time.
    foreground: Vec<Grant>,
    background: Vec<Grant>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(u64::MAX, true)
    }
}

impl Queue {
    /// An empty one of a core that closes where its memory meter reads `allowance`, with leave to
    /// use surplus time or not.
    pub const fn new(allowance: u64, is_background_allowed: bool) -> Self {
        Self { allowance, is_background_allowed, foreground: Vec::new(), background: Vec::new() }
    }
    /// Adds an entry in budget. False where there is no room.
    #[must_use]
    pub fn push_foreground(&mut self, grant: Grant) -> bool {
        push(&mut self.foreground, FOREGROUND, grant)
    }
    /// Adds an entry that may use surplus time. False where there is no room.
    #[must_use]
    pub fn push_background(&mut self, grant: Grant) -> bool {
        push(&mut self.background, BACKGROUND, grant)
    }
    /// Writes it where the kernel reads it, as far as it is used.
    ///
    /// # Panics
    /// Where `to` has less than [`QUEUE`] words.
    pub fn write(&self, to: &[AtomicU64]) {
        let entries = [&self.foreground, &self.background].map(|it| it.len() as u32);
        let head = [
            self.allowance,
            pair(u32::from(self.is_background_allowed), entries[0]),
            pair(entries[1], 0),
        ];
        store(to, head);
        let foreground = to[HEAD..].chunks_exact(GRANT);
        let background = to[HEAD + GRANT * FOREGROUND..].chunks_exact(GRANT);
        for (grants, to) in [(&self.foreground, foreground), (&self.background, background)] {
            for (grant, to) in grants.iter().zip(to) {
                let last = pair(grant.vcpu, grant.marks());
                store(to, [grant.until, grant.memory, grant.from, last]);
            }
        }
    }
}

fn push(entries: &mut Vec<Grant>, most: usize, grant: Grant) -> bool {
    let has_room = entries.len() < most;
    if has_room {
        entries.push(grant);
    }
    has_room
}

/// Two numbers of 32 bits that stand one after the other, as a word.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The two numbers of 32 bits of a word.
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes)
}

fn store<const N: usize>(to: &[AtomicU64], words: [u64; N]) {
    to.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Release));
}

/// A VCPU (`struct law_vcpu`), or what is in its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vcpu {
    /// What it had on its budget and of surplus time, in nanoseconds.
    pub meters: [u64; 2],
    /// What it read of memory, where that is counted.
    pub reads: u64,
    /// No thread is counted there as runnable, and no core holds it.
    pub is_idle: bool,
}

/// The slot of the VCPU of this number.
const fn slot(vcpu: u32) -> usize {
    (vcpu % VCPUS) as usize
}

impl Vcpu {
    /// The slot of the one of this number, out of all that stand one after the other.
    ///
    /// # Panics
    /// Where there is no such slot.
    pub fn read(words: &[AtomicU64], vcpu: u32) -> Self {
        let words = &words[slot(vcpu) * VCPU..][..VCPU];
        let [foreground, background, reads, threads_holder] =
            [0, 1, 2, VCPU_THREADS_HOLDER].map(|word| words[word].load(Ordering::Acquire));
        Self { meters: [foreground, background], reads, is_idle: threads_holder == 0 }
    }
    /// Clears the meters of a slot, and how often what had it woke: a VCPU of this number has it
    /// from now on. Only where it is idle, and was left by those before.
    ///
    /// # Panics
    /// Where there is no such slot.
    pub fn clear(words: &[AtomicU64], vcpu: u32) {
        let words = &words[slot(vcpu) * VCPU..][..VCPU];
        store(words, [0; VCPU_THREADS_HOLDER]);
        words[VCPU_PASSED].store(0, Ordering::Release);
        words[VCPU_WAKES_LEFT].store(pair(0, vcpu / VCPUS), Ordering::Release);
    }
    /// Writes the core of a VCPU among those of all. One writer at a time.
    ///
    /// # Panics
    /// Where there is no such slot.
    pub fn settle(homes: &[AtomicU64], vcpu: u32, core: u32) {
        let (word, half) = (&homes[slot(vcpu) / 2], slot(vcpu) % 2);
        let mut cores = halves(word.load(Ordering::Relaxed));
        cores[half] = core;
        word.store(pair(cores[0], cores[1]), Ordering::Release);
    }
}

/// A core (`struct core`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// By how much its timer is set early, in nanoseconds.
    pub margin: u64,
    /// What threads that belong to no VCPU had there, in nanoseconds.
    pub others: u64,
    /// What VCPUs read of memory there, where that is counted.
    pub reads: u64,
    /// What it holds read and is not charged for yet.
    pub pending: u64,
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

impl Holds {
    /// Whether it is the other and nothing was charged between.
    pub fn is_as(&self, other: &Self) -> bool {
        (self.vcpu, self.from, self.charged) == (other.vcpu, other.from, other.charged)
    }
    /// What the meter reads at `now`, which was last charged so that it reads `charged_meter`.
    pub const fn meter_at(&self, now: u64, charged_meter: u64) -> u64 {
        charged_meter + now.saturating_sub(self.charged)
    }
}

impl Core {
    /// The one of this number, out of all that stand one after the other.
    pub fn read(words: &[AtomicU64], core: u32) -> Option<Self> {
        let words = words.chunks_exact(CORE).nth(core as usize)?;
        let load = |at: usize| words[at].load(Ordering::Acquire);
        let [vcpu, mode] = halves(load(CORE_VCPU_MODE));
        let [from, charged, until] = [CORE_FROM, CORE_CHARGED, CORE_UNTIL].map(load);
        let holds = Holds { vcpu, mode: mode & 1, from, charged, until };
        let [margin, others, reads, pending] =
            [CORE_MARGIN, CORE_OTHERS_RAN, CORE_READS, CORE_PENDING].map(load);
        Some(Self { margin, others, reads, pending, holds: (vcpu != NONE).then_some(holds) })
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
        /// What its meter of reads read at its end.
        reads: u64,
        /// Why it ended (`enum law_end`).
        end: u32,
    },
    /// It became runnable.
    Woke,
    /// The core's allowance of reads was found spent: no VCPU's.
    Spent,
}

impl Event {
    /// The event in these bytes; `None` where they are none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < EVENT {
            return None;
        }
        let [from, at, meter, until, reads] = [0, 8, 16, 24, 32].map(|at| long(bytes, at));
        let [kind, core, vcpu, mode, end] = [40, 44, 48, 52, 56].map(|at| word(bytes, at));
        let what = match kind {
            0 => Happened::Ran { from, mode, meter, until, reads, end },
            1 => Happened::Woke,
            2 => Happened::Spent,
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

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn there_is_as_much_room_here_as_in_the_object() {
        let [law, shared] =
            [include_str!("../../../bpf/law.h"), include_str!("../../../bpf/shared.h")];
        for (text, name, here) in [
            (law, "LAW_VCPUS", VCPUS as usize),
            (law, "LAW_FOREGROUND_MAX", FOREGROUND),
            (law, "LAW_BACKGROUND_MAX", BACKGROUND),
            (shared, "CORES_MAX", CORES as usize),
        ] {
            let number = |line: &str| {
                line.strip_prefix("#define ")?.strip_prefix(name)?.trim().parse::<usize>().ok()
            };
            assert_eq!(text.lines().find_map(number), Some(here), "{name}");
        }
    }

    #[test]
    fn a_run_queue_has_its_entries_where_the_law_reads_them_and_refuses_one_too_many() {
        let mut queue = Queue::new(7, false);
        let grant = Grant { lapses_after: Some(0x102), silent: true, ..Grant::new(3, 500) };
        assert!(queue.push_foreground(grant.ahead(900)));
        assert!((0..BACKGROUND).all(|vcpu| queue.push_background(Grant::new(vcpu as u32, 1))));
        assert!(!queue.push_background(Grant::new(0, 1)), "no room");
        let written = words(QUEUE);
        queue.write(&written);
        let load = |at: usize| written[at].load(Ordering::Relaxed);
        assert_eq!((load(0), halves(load(1)), halves(load(2))), (7, [0, 1], [256, 0]));
        assert_eq!([3, 4, 5, 6].map(load), [500, u64::MAX, 900, pair(3, 0x0101_0102)]);
        assert!((7..3 + 4 * 64).all(|at| load(at) == 0), "what is not used is not written");
        let last = 3 + 4 * 319;
        assert_eq!((load(last), halves(load(last + 3)), last + 4), (1, [255, 0], QUEUE));
    }

    #[test]
    fn a_vcpu_is_settled_and_its_neighbour_stays() {
        let homes = words(2);
        for (vcpu, core) in [(2, 7), (3, 9), (2 + 4 * VCPUS, 8)] {
            Vcpu::settle(&homes, vcpu, core);
        }
        let homes: Vec<_> = homes.iter().map(|it| halves(it.load(Ordering::Relaxed))).collect();
        assert_eq!(homes, [[0, 0], [8, 9]]);
    }

    #[test]
    fn a_slot_is_cleared_for_the_next_that_has_it() {
        let words = words(2 * VCPU);
        let meters = [VCPU, VCPU + 1, VCPU + 2];
        meters.iter().for_each(|at| words[*at].store(9, Ordering::Relaxed));
        for (threads, holder) in [(1, 0), (0, 3), (0, 0)] {
            words[VCPU + VCPU_THREADS_HOLDER].store(pair(threads, holder), Ordering::Relaxed);
            let is_idle = threads + holder == 0;
            let vcpu = Vcpu { meters: [9, 9], reads: 9, is_idle };
            assert_eq!(Vcpu::read(&words, 1), vcpu);
            assert_eq!(Vcpu::read(&words, 1 + 5 * VCPUS), vcpu, "it has the same slot");
        }
        words[VCPU + VCPU_WAKES_LEFT].store(pair(77, 5), Ordering::Relaxed);
        words[VCPU + VCPU_PASSED].store(pair(129, 0), Ordering::Relaxed);
        Vcpu::clear(&words, 1 + 5 * VCPUS);
        let cleared = Vcpu { meters: [0, 0], reads: 0, is_idle: true };
        assert_eq!(Vcpu::read(&words, 1), cleared);
        assert_eq!(words[VCPU + VCPU_WAKES_LEFT].load(Ordering::Relaxed), pair(0, 5));
        assert_eq!(words[VCPU + VCPU_PASSED].load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_event_is_read_back_and_what_is_none_is_refused() {
        let longs: [u64; 5] = [10, 20, 7, 8, 9];
        let words: [u32; 6] = [0, 1, 5, 1, 3, 0];
        let mut bytes: Vec<u8> = longs.iter().flat_map(|it| it.to_ne_bytes()).collect();
        bytes.extend(words.iter().flat_map(|it| it.to_ne_bytes()));
        let what = Happened::Ran { from: 10, mode: 1, meter: 7, until: 8, reads: 9, end: 3 };
        assert_eq!(Event::read(&bytes), Some(Event { core: 1, vcpu: 5, at: 20, what }));
        assert_eq!(Event::read(&bytes[..63]), None);
        for (kind, what) in [(1, Some(Happened::Woke)), (2, Some(Happened::Spent)), (3, None)] {
            bytes[40] = kind;
            assert_eq!(Event::read(&bytes).map(|event| event.what), what);
        }
    }

    #[test]
    fn a_core_says_what_it_holds() {
        let words = words(2 * CORE);
        for (at, word) in [(CORE_MARGIN, 9), (CORE_VCPU_MODE, pair(4, 1)), (CORE_FROM, 70)] {
            words[CORE + at].store(word, Ordering::Relaxed);
        }
        let holds = Holds { vcpu: 4, mode: 1, from: 70, charged: 0, until: 0 };
        words[CORE + CORE_PENDING].store(11, Ordering::Relaxed);
        let core = Core { margin: 9, others: 0, reads: 0, pending: 11, holds: Some(holds) };
        assert_eq!(Core::read(&words, 1), Some(core));
        let charged = Holds { charged: 90, ..holds };
        assert!(!charged.is_as(&holds), "it was charged between");
        assert_eq!([80, 90, 95].map(|now| charged.meter_at(now, 20)), [20, 20, 25]);
        words[CORE + CORE_VCPU_MODE].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(Core::read(&words, 1).and_then(|core| core.holds), None);
        assert_eq!(Core::read(&words, 2), None);
    }
}
