//! What there is to schedule, and on what: VCPUs, jobs, cores.

use crate::memory::CachePart;
use crate::resources::Resources;
use crate::{Duration, Instant, Rate};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::num::{NonZeroU32, NonZeroU64};

/// The most cores one system may have; a [`CoreSet`](crate::CoreSet) has a bit for each. 1024 is
/// four times what a server with two processors has (2 x 128 cores, AMD EPYC 9754, 2023).
pub const MAX_CORES: usize = 1024;

/// A core of the machine, counted from 0 among the cores that the system manages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CoreId(pub u16);

/// A VCPU. Never reused within a journal; also the index of its meters and of its home.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VcpuId(pub u32);

/// The `index`-th job of a VCPU, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId {
    /// Whose job.
    pub vcpu: VcpuId,
    /// Its number, from 0.
    pub index: u32,
}

/// One job of a VCPU whose demand comes as jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Which job.
    pub id: JobId,
    /// When it was released (nominal, never a late clock reading).
    pub release: Instant,
    /// Absolute deadline.
    pub deadline: Instant,
}

/// What a VCPU is promised: `budget` C in every `period` T, by the relative `deadline` D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// C: time on a core per period.
    pub budget: Duration,
    /// T.
    pub period: Duration,
    /// D, at most T; T where the user said nothing (implicit deadline).
    pub deadline: Duration,
}

impl Reservation {
    /// Of what is promised nothing. Nothing depends on the length of its period.
    pub const NONE: Self = Self::implicit(Duration::ZERO, Duration::from_millis(100));
    /// Whether anything is promised.
    pub const fn is_none(&self) -> bool {
        self.budget.is_zero()
    }
    /// C every T with the implicit deadline D = T.
    pub const fn implicit(budget: Duration, period: Duration) -> Self {
        Self { budget, period, deadline: period }
    }
    /// C / T.
    pub const fn utilization(&self) -> Rate {
        Rate::of(self.budget, self.period)
    }
}

/// How a VCPU's demand arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// A job every T, the first at `offset`.
    Periodic {
        /// Release of job 0.
        offset: Duration,
    },
    /// Jobs at least T apart.
    Sporadic,
    /// No jobs: threads that run, block and wake as they like. Job policies refuse such a VCPU.
    None,
}

/// What a VCPU is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Runs programs, as a sporadic server.
    Main,
    /// Event-driven work on behalf of main VCPUs, as a PIBS server: it inherits the period of
    /// the VCPU that it serves (Danish, Li, West, RTAS 2011).
    Io,
    /// Carries the memory monitor's service requests (MARACAS, section IV).
    Monitor,
    /// Carries migrations (MARACAS, section V).
    Migration,
}

/// What may be done to a VCPU for the sake of others (MARACAS, section V.B).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Criticality {
    /// Nothing that is not planned for: its pages keep their colours while it stays on its core.
    #[default]
    High,
    /// Its pages may be recoloured at run time, whatever that does to its timing.
    Low,
}

/// The one schedulable thing: one or more threads with one meter, on at most one core at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vcpu {
    /// Its name in events, plans and meters.
    pub id: VcpuId,
    /// (C, T, D).
    pub reservation: Reservation,
    /// How demand arrives.
    pub arrival: Arrival,
    /// What it is for.
    pub role: Role,
    /// The core that the user demands, if any.
    pub pinned: Option<CoreId>,
    /// Its core must have at least so many page colours (MARACAS, section V.B).
    pub colors: u32,
    /// Share among equals where a policy weighs VCPUs; 1 where the user said nothing.
    pub weight: u32,
    /// Memory bandwidth of its own in bytes per second, where a policy regulates it.
    pub bandwidth: Option<NonZeroU64>,
    /// What may be done to it for the sake of others.
    pub criticality: Criticality,
    /// The class of cores on which its budget C is meant, on machines with uneven cores: on
    /// another class it is owed the time that does the same work. `None` = C is time on whichever
    /// core.
    pub class: Option<u8>,
    /// How much faster its programs run on the fastest class than on the slowest, in thousandths,
    /// where the user knows it beforehand.
    pub speedup_milli: Option<NonZeroU32>,
}

impl Vcpu {
    /// The greatest [`Vcpu::weight`].
    pub const MAX_WEIGHT: u32 = 10_000;
    /// The greatest [`Vcpu::speedup_milli`]: a thousand times as fast.
    pub const MAX_SPEEDUP_MILLI: u32 = 1_000_000;

    /// A main VCPU with implicit deadline, no jobs and no demands on cores or colours.
    pub fn new(id: u32, budget: Duration, period: Duration) -> Self {
        Self {
            id: VcpuId(id),
            reservation: Reservation::implicit(budget, period),
            arrival: Arrival::None,
            role: Role::Main,
            pinned: None,
            colors: 0,
            weight: 1,
            bandwidth: None,
            criticality: Criticality::High,
            class: None,
            speedup_milli: None,
        }
    }
    /// A main VCPU without a reservation: it is promised nothing and runs on surplus time alone.
    pub fn best_effort(id: u32) -> Self {
        let Reservation { budget, period, .. } = Reservation::NONE;
        Self::new(id, budget, period)
    }
    /// The same VCPU with synchronous periodic jobs: a task.
    #[must_use]
    pub fn periodic(mut self) -> Self {
        self.arrival = Arrival::Periodic { offset: Duration::ZERO };
        self
    }
}

/// A class of cores of equal speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Class {
    /// How fast its cores are, the fastest class being 1000. It bounds what a program may lose:
    /// any program runs here at `speed_milli` / 1000 or more of its speed on the fastest class,
    /// loses no more from one class to a later one than the ratio of their speeds, and is never
    /// faster here than on a class before this one.
    pub speed_milli: u32,
}

impl Class {
    /// The fastest there is.
    pub const FASTEST: Self = Self { speed_milli: 1000 };
}

/// One core of the platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Core {
    /// Its place in [`System::classes`]; cores of equal speed share a class.
    pub class: u8,
    /// Its part of the last-level cache; `None` = all of it.
    pub colors: Option<CachePart>,
}

/// The platform and the VCPUs that are there from the start, as a policy's `build` sees them.
#[derive(Clone, Debug)]
pub struct System {
    /// The cores, by [`CoreId`].
    pub cores: Vec<Core>,
    /// The classes of cores, the fastest first; one on a machine of equal cores.
    pub classes: Vec<Class>,
    /// VCPUs known before the start, by increasing id. Later ones come as events.
    pub vcpus: Vec<Vcpu>,
    /// Share of each core that reservations may take: 1 in simulation; 9/10 live, where the
    /// kernel's fair server takes the rest from real-time threads.
    pub capacity: Rate,
    /// Ticks in a nanosecond; 1 unless an exact study scales time.
    pub ticks_per_ns: u64,
    /// What the VCPUs share, if something. Not part of a journal: it decides what is admitted, and
    /// not what is planned.
    pub resources: Option<Box<Resources>>,
}

impl System {
    /// A simulated platform of `cores` equal cores at one tick a nanosecond.
    ///
    /// # Panics
    /// Where `cores` is 0 or above [`MAX_CORES`].
    pub fn new(cores: usize, vcpus: Vec<Vcpu>) -> Self {
        assert!((1..=MAX_CORES).contains(&cores), "{cores} cores: from 1 to {MAX_CORES} may be");
        let cores = alloc::vec![Core::default(); cores];
        let classes = alloc::vec![Class::FASTEST];
        let capacity = Rate::ONE;
        Self { cores, classes, vcpus, capacity, ticks_per_ns: 1, resources: None }
    }
    /// The same with cores of uneven speed: so many cores of each class, the fastest class first,
    /// beside the class's speed in thousandths. Core ids are given class by class.
    ///
    /// # Panics
    /// Where these are not as many cores as there are.
    #[must_use]
    pub fn uneven(mut self, classes: &[(usize, u32)]) -> Self {
        let cores: usize = classes.iter().map(|(cores, _)| cores).sum();
        assert_eq!(cores, self.cores.len(), "every core has one class");
        self.classes = classes.iter().map(|&(_, speed_milli)| Class { speed_milli }).collect();
        let by_core = (0_u8..).zip(classes).flat_map(|(c, (n, _))| core::iter::repeat_n(c, *n));
        self.cores.iter_mut().zip(by_core).for_each(|(core, class)| core.class = class);
        self
    }
    /// The VCPU of that number, if it is known before the start.
    pub fn vcpu(&self, id: VcpuId) -> Option<&Vcpu> {
        let at = self.vcpus.binary_search_by_key(&id, |vcpu| vcpu.id).ok()?;
        self.vcpus.get(at)
    }
    /// The number after those of its VCPUs.
    pub fn next_vcpu(&self) -> VcpuId {
        VcpuId(self.vcpus.iter().map(|vcpu| vcpu.id.0 + 1).max().unwrap_or(0))
    }
    /// Whether all cores are equally fast.
    pub fn is_even(&self) -> bool {
        self.cores.iter().all(|core| core.class == self.cores[0].class)
    }
    /// All core ids, in order.
    pub fn core_ids(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.cores.len() as u16).map(CoreId)
    }
}

macro_rules! shown {
    ($($type:ty => $word:literal),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, "{}"), self.0)
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}
shown!(CoreId => "core", VcpuId => "vcpu");
