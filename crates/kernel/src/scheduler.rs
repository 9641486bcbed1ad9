//! The scheduler, loaded and attached by libbpf.

use crate::layout::{CORE, CORES, NONE, QUEUE, VCPU, VCPUS};
use crate::memory::Memory;
use crate::memory_events;
use crate::{Core, Event, Queue, Reads, Vcpu};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput, ProgramMut,
    RingBuffer, RingBufferBuilder,
};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether schedulers can be loaded.
pub const IS_BUILT: bool = true;

/// The object that is checked in.
const OBJECT: &[u8] = include_bytes!("../../../bpf/maracas.bpf.o");
/// Run queues of a core (`LAW_QUEUES`), and the first that is to be written.
const QUEUES: usize = 3;
const FIRST_SPARE: usize = 2;
/// The program that an event's overflow runs.
const OVERFLOW: &str = "overflow";
/// Bytes before the reasons in `struct ending`, and the longest of each.
const LOST: usize = 8;
const REASON: usize = 64;

/// Events that were read from the ring and not taken yet.
type Read = Arc<Mutex<VecDeque<Event>>>;

/// The scheduler, as long as it is attached: from then on all threads of the host run under it.
/// When this is dropped, or its process ends however it does, the kernel goes back to its own.
pub struct Scheduler {
    object: Object,
    /// Keep reads of memory counted.
    counting: Vec<Link>,
    /// Keeps it attached.
    _link: Link,
    ring: RingBuffer<'static>,
    events: MapHandle,
    read: Read,
    maps: Maps,
    /// Which run queue of each core is to be written next.
    spare: Vec<usize>,
    took: [Duration; 2],
}

/// What both sides have in memory.
struct Maps {
    queues: Memory,
    cores: Memory,
    vcpus: Memory,
    homes: Memory,
}

impl Maps {
    fn open(object: &Object) -> io::Result<Self> {
        let open = |name: &str, words: usize| {
            let handle = MapHandle::try_from(&map(object, name)?);
            Memory::open(&handle.map_err(said("find a map"))?, words)
        };
        let (cores, vcpus) = (CORES as usize, VCPUS as usize);
        Ok(Self {
            queues: open("queues", cores * QUEUES * QUEUE)?,
            cores: open(".bss.cores", cores * CORE)?,
            vcpus: open(".bss.vcpus", vcpus * VCPU)?,
            homes: open(".bss.homes", vcpus / 2)?,
        })
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("took", &self.took).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Loads the scheduler, with so many slots for VCPUs, and attaches it. `object`
    /// in place of the one that is built in.
    ///
    /// # Errors
    /// Where the kernel refuses it, or another one is attached.
    pub fn attach(object: Option<&[u8]>, vcpus: u32) -> io::Result<Self> {
        Self::begin(object, vcpus, None)
    }

    /// The same; these cores count reads of memory by VCPUs, close where an allowance is spent, and
    /// end what has spent its own limit.
    ///
    /// # Errors
    /// As beside, or where the event cannot be counted on one of the cores.
    pub fn attach_counting(
        object: Option<&[u8]>,
        vcpus: u32,
        reads: &Reads,
        cores: &[u32],
    ) -> io::Result<Self> {
        let mut scheduler = Self::begin(object, vcpus, Some(reads))?;
        // Now its cores know that they hold nothing: what overflowed before would belong to none.
        for core in cores {
            let link = scheduler.count(reads, *core)?;
            scheduler.counting.push(link);
        }
        Ok(scheduler)
    }

    /// Counts reads on a core.
    fn count(&mut self, reads: &Reads, core: u32) -> io::Result<Link> {
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("reads of memory on core {core}: {error}"))
        };
        let event = memory_events::open(reads, core).map_err(failed)?;
        let link = program(&mut self.object, OVERFLOW)?.attach_perf_event(event.as_raw_fd());
        let link = link.map_err(said("count reads of memory"))?;
        // It is the link's by now, which closes it.
        let event = ManuallyDrop::new(event);
        memory_events::check(&event).map_err(failed)?;
        Ok(link)
    }

    fn begin(object: Option<&[u8]>, vcpus: u32, reads: Option<&Reads>) -> io::Result<Self> {
        let begun = Instant::now();
        let mut object = load(object.unwrap_or(OBJECT), vcpus, reads.map_or(0, |it| it.chunk))?;
        let loaded = begun.elapsed();
        let (read, maps) = (Read::default(), Maps::open(&object)?);
        let events = MapHandle::try_from(&map(&object, "events")?);
        let events = events.map_err(said("find its events"))?;
        let ring = ring(&events, &read)?;
        let link = object
            .maps_mut()
            .find(|map| map.name() == "maracas")
            .ok_or_else(|| io::Error::other("the object has no scheduler"))?
            .attach_struct_ops()
            .map_err(said("attach it"))?;
        let took = [loaded, begun.elapsed() - loaded];
        let spare = vec![FIRST_SPARE; CORES as usize];
        Ok(Self {
            object,
            counting: Vec::new(),
            _link: link,
            ring,
            events,
            read,
            maps,
            spare,
            took,
        })
    }

    /// Loads the scheduler and lets it go: whether this process may, and the kernel takes it.
    ///
    /// # Errors
    /// Why not.
    pub fn try_load() -> io::Result<()> {
        // A refusal is an answer here, and what libbpf prints of it would look like a failure.
        let printing = libbpf_rs::set_print(None);
        let loaded = load(OBJECT, VCPUS, 0);
        libbpf_rs::set_print(printing);
        loaded.map(drop)
    }

    /// How long it took to load and to attach.
    pub const fn took(&self) -> [Duration; 2] {
        self.took
    }

    /// How many instructions the verifier went through, program by program.
    pub fn verified(&self) -> Vec<(String, u32)> {
        let names: Vec<_> = self.object.progs().map(|program| program.name().to_owned()).collect();
        let is_own = |name: &[u8]| names.iter().any(|own| own.as_encoded_bytes() == name);
        let own = ProgInfoIter::default().filter(|program| is_own(program.name.as_bytes()));
        own.map(|it| (it.name.to_string_lossy().into_owned(), it.verified_insns)).collect()
    }

    /// The core follows this run queue from now on.
    ///
    /// # Errors
    /// As the kernel refuses.
    pub fn send(&mut self, core: u32, queue: &Queue) -> io::Result<()> {
        let spare = self.spare.get(core as usize).copied().ok_or_else(|| no_room(core))?;
        let place = core as usize * QUEUES + spare;
        queue.write(&self.maps.queues.words()[place * QUEUE..][..QUEUE]);
        self.spare[core as usize] = self.call("take", &mut core.to_ne_bytes())? as usize;
        Ok(())
    }

    /// A VCPU stands on this core from now on: its threads are woken there.
    ///
    /// # Errors
    /// Where there is no room for a core of that number.
    pub fn settle(&mut self, vcpu: u32, core: u32) -> io::Result<()> {
        if core >= CORES {
            return Err(no_room(core));
        }
        Vcpu::settle(self.maps.homes.words(), vcpu, core);
        Ok(())
    }

    /// The VCPU of this number has its slot from now on, and its meters read 0. The one before it
    /// must have left, and its slot be idle ([`Vcpu::is_idle`]).
    pub fn clear(&mut self, vcpu: u32) {
        Vcpu::clear(self.maps.vcpus.words(), vcpu);
    }

    /// A thread, and what it will fork, belongs to a VCPU from now on.
    ///
    /// # Errors
    /// As the kernel refuses: ESRCH for a thread that has ended.
    pub fn join(&mut self, thread: i32, vcpu: u32) -> io::Result<()> {
        self.call("join", &mut [thread.to_ne_bytes(), vcpu.to_ne_bytes()].concat()).map(drop)
    }

    /// A thread goes before all others whenever it wakes: for what sends run queues, where that may
    /// not be real-time.
    ///
    /// # Errors
    /// As the kernel refuses: ESRCH for a thread that has ended.
    pub fn put_first(&mut self, thread: i32) -> io::Result<()> {
        self.join(thread, NONE)
    }

    /// Lets threads of a VCPU that have waited so long without a budget run for once; for good
    /// where it `leaves`, which may be said again until its slot is idle. How many these are.
    ///
    /// # Errors
    /// As the kernel refuses.
    pub fn tend(&mut self, vcpu: u32, leaves: bool, waited: Duration) -> io::Result<u32> {
        let mut argument = [vcpu.to_ne_bytes(), u32::from(leaves).to_ne_bytes()].concat();
        argument.extend((waited.as_nanos() as u64).to_ne_bytes());
        self.call("tend", &mut argument)
    }

    /// Becomes readable when something happens that a policy may have to answer, and with what
    /// it need not answer now: to be waited for by its edges, each of which is of the former.
    pub fn fd(&self) -> RawFd {
        self.events.as_fd().as_raw_fd()
    }

    /// Takes the next event, in the order of time on each core; `None` where all are taken.
    ///
    /// # Errors
    /// Where the ring cannot be read.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let take = || self.read.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let next = take();
        if next.is_some() {
            return Ok(next);
        }
        self.ring.consume().map_err(said("read events"))?;
        Ok(take())
    }

    /// What is known of the VCPU that has the slot of this number.
    pub fn vcpu(&self, vcpu: u32) -> Vcpu {
        Vcpu::read(self.maps.vcpus.words(), vcpu)
    }

    /// What is known of a core.
    ///
    /// # Errors
    /// Where there is no room for a core of that number.
    pub fn core(&self, core: u32) -> io::Result<Core> {
        Core::read(self.maps.cores.words(), core).ok_or_else(|| no_room(core))
    }

    /// Whether it is still attached and has lost no event.
    ///
    /// # Errors
    /// What it lost, or why the kernel ended it.
    pub fn check(&self) -> io::Result<()> {
        let ending = self.whole(".bss.ending")?;
        let text = |from: usize, to: usize| {
            let text = ending[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        let lost = ending[..LOST].try_into().map_or(0, u64::from_ne_bytes);
        let (reason, message) = (text(LOST, LOST + REASON), text(LOST + REASON, ending.len()));
        if !reason.is_empty() {
            let why = format!("the kernel ended the scheduler: {reason}: {message}");
            return Err(io::Error::other(why));
        }
        if lost > 0 {
            let why = format!("the scheduler in the kernel lost {lost} events: its ring was full");
            return Err(io::Error::other(why));
        }
        Ok(())
    }

    fn map(&self, name: &str) -> io::Result<libbpf_rs::Map<'_>> {
        map(&self.object, name)
    }

    /// Reads a map that has one value.
    fn whole(&self, name: &str) -> io::Result<Vec<u8>> {
        let value = self.map(name)?.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(said("read its state"))?;
        value.ok_or_else(|| io::Error::other(format!("the map {name} is empty")))
    }

    /// Runs one of the object's programs that answer user space, with 0 or more.
    fn call(&mut self, name: &str, argument: &mut [u8]) -> io::Result<u32> {
        let program = program(&mut self.object, name)?;
        let input = ProgramInput { context_in: Some(argument), ..ProgramInput::default() };
        let answer = program.test_run(input).map_err(said("call it"))?.return_value;
        let error = answer.cast_signed();
        if error < 0 { Err(io::Error::from_raw_os_error(-error)) } else { Ok(answer) }
    }
}

/// Loads an object, with room for VCPUs of numbers below `vcpus`, where events overflow after so
/// many reads of memory; 0 = nothing is counted, and no program for it is loaded.
fn load(object: &[u8], vcpus: u32, chunk: u64) -> io::Result<Object> {
    // A copy, since what is built in may stand at any address.
    let bytes = object.to_vec();
    let mut open = ObjectBuilder::default().open_memory(&bytes).map_err(said("open it"))?;
    // Cores are named by their numbers, of which a host may leave some out.
    for mut map in open.maps_mut() {
        if map.name() == ".rodata.sizes" {
            let sizes = [CORES, vcpus.min(VCPUS), std::process::id()].map(u32::to_ne_bytes);
            let sizes = sizes.concat();
            map.set_initial_value(&sizes).map_err(said("size it"))?;
        }
        if map.name() == ".rodata.reads" {
            map.set_initial_value(&chunk.to_ne_bytes()).map_err(said("size it"))?;
        }
    }
    for mut program in open.progs_mut().filter(|program| program.name() == OVERFLOW) {
        program.set_autoload(chunk > 0);
    }
    open.load().map_err(said("load it"))
}

fn program<'a>(object: &'a mut Object, name: &str) -> io::Result<ProgramMut<'a>> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| io::Error::other(format!("the object has no program {name}")))
}

fn map<'a>(object: &'a Object, name: &str) -> io::Result<libbpf_rs::Map<'a>> {
    let found = object.maps().find(|map| map.name().to_str() == Some(name));
    found.ok_or_else(|| io::Error::other(format!("the object has no map {name}")))
}

fn ring(events: &MapHandle, read: &Read) -> io::Result<RingBuffer<'static>> {
    let (mut ring, read) = (RingBufferBuilder::new(), Arc::clone(read));
    let keep = move |bytes: &[u8]| {
        let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
        read.extend(Event::read(bytes));
        0
    };
    ring.add(events, keep).map_err(said("read its events"))?;
    ring.build().map_err(said("read its events"))
}

/// What libbpf says, as an error of the system.
fn said(what: &'static str) -> impl Fn(libbpf_rs::Error) -> io::Error {
    move |error| io::Error::other(format!("the scheduler in the kernel: cannot {what}: {error:#}"))
}

fn no_room(core: u32) -> io::Error {
    io::Error::other(format!("core{core}: the scheduler in the kernel has room for {CORES}"))
}
