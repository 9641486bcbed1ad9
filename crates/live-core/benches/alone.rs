//! How many decisions a second one and two agents make, with one decider for all cores behind one
//! lock and with one for each core.
//!
//! The host carries nothing out and costs nothing: what is measured is what lies between an
//! agent's wake and its sleep, down to the bytes of the journal. Two cores have eight VCPUs each,
//! with jobs of periods between 1 and 2 ms; an agent sets the clock to when its core is due and
//! decides. Printed are medians of nine runs, which take turns.

#![allow(clippy::print_stdout)] // The medians are read on stdout.

use maracas_core::contract::{Entry, Observer};
use maracas_core::journal::{PlanHash, Recorder};
use maracas_core::params::Params;
use maracas_core::{CoreId, Duration, Event, Instant, Job, Plan, System, Vcpu, VcpuId};
use maracas_live_core::{
    Core, Decider, Executor, Handle, Host, Means, Record, Reply, Request, VcpuHandle, VcpuHandleOf,
    WakeCost,
};
use std::io;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{thread, time};

const CORES: u16 = 2;
const VCPUS: u32 = 16;
const RUNS: usize = 9;
/// How long each run takes: tens of thousands of decisions.
const LASTS: time::Duration = time::Duration::from_millis(200);

/// An executor, and a VCPU of it, for which nothing is to be done.
struct Nothing;

impl Executor for Nothing {
    type Handle = Self;
    type Site = ();

    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn site(&self) {}
    fn next_record(&mut self) -> Option<Record> {
        None
    }
    fn wake_agent(&self) {}
    fn listen(&mut self, _: VcpuId, _: &mut Self, _: bool) -> io::Result<()> {
        Ok(())
    }
    fn freeze(&mut self, _: &Self, _: bool) {}
}

impl Handle for Nothing {
    type Site = ();

    fn set_level(&mut self, _: i32, _: u8) -> io::Result<()> {
        Ok(())
    }
    fn list(&mut self, _: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        Ok((Instant::ZERO, Instant::ZERO))
    }
    fn ran(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    fn go(&mut self, _: CoreId, (): ()) -> io::Result<bool> {
        Ok(false)
    }
    fn arrive(&mut self, _: CoreId) {}
    fn refusal(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget_freezer(&self) {}
    fn thaw_now(&self) -> io::Result<()> {
        Ok(())
    }
}

/// No one waits for an answer.
struct Unread;

impl<T> Reply<T> for Unread {
    fn is_withdrawn(&self) -> bool {
        false
    }
    fn give(self, _: T) -> Result<(), T> {
        Ok(())
    }
}

/// What all agents share.
struct Shared {
    cores: Vec<Mutex<Core<Nothing>>>,
    hash: Mutex<PlanHash>,
}

/// A host whose clock its agents set, in nanoseconds.
struct Bench {
    shared: Arc<Shared>,
    clock: Arc<AtomicU64>,
    recorder: Recorder,
    requests: Vec<Request<Self>>,
    decisions: u64,
}

impl Host for Bench {
    type Exec = Nothing;
    type Reply<T> = Unread;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Core<Nothing>> {
        self.shared.cores[usize::from(core.0)].lock().expect("no agent panics")
    }
    fn now(&self) -> Instant {
        Instant::from_ticks(self.clock.load(Ordering::Relaxed))
    }
    fn take_requests(&mut self, into: &mut Vec<Request<Self>>) {
        into.append(&mut self.requests);
    }
    fn release(&mut self, _: &Job) {}
    fn leave(&mut self, _: VcpuId, _: Option<Box<VcpuHandleOf<Self>>>) {}
    fn part(&self, _: CoreId) -> Option<Self> {
        let clock = Arc::new(AtomicU64::new(self.clock.load(Ordering::Relaxed)));
        let (recorder, requests) = (Recorder::piece(), Vec::new());
        Some(Self { shared: Arc::clone(&self.shared), clock, recorder, requests, decisions: 0 })
    }
}

impl Observer for Bench {
    fn event(&mut self, at: Instant, event: &Event) {
        self.recorder.event(at, event);
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        let mut hash = self.shared.hash.lock().expect("no agent panics");
        self.recorder.swap_hash(&mut hash);
        self.recorder.planned(now, plan);
        self.recorder.swap_hash(&mut hash);
        drop(hash);
        self.recorder.bytes().clear();
        self.decisions += 1;
    }
}

/// All VCPUs are there, and the first decisions are made.
fn decider(entry: &Entry) -> Decider<Bench> {
    let vcpu = |id: u32| {
        let period = Duration::from_micros(1_000 + 61 * u64::from(id));
        let pinned = Some(CoreId((id % u32::from(CORES)) as u16));
        Vcpu { pinned, ..Vcpu::new(id, Duration::from_micros(50), period).periodic() }
    };
    let system = System::new(CORES.into(), (0..VCPUS).map(vcpu).collect());
    let policy = (entry.build)(&system, &Params::new()).expect("it is admitted");
    let means = Means { fifo: true, freezer: true, events: true };
    let core = |id| Mutex::new(Core::new(CoreId(id), Nothing, means, WakeCost::LEAST));
    let (cores, hash) = ((0..CORES).map(core).collect(), Mutex::default());
    let (clock, recorder) = (Arc::default(), Recorder::piece());
    let shared = Arc::new(Shared { cores, hash });
    let host = Bench { shared, clock, recorder, requests: Vec::new(), decisions: 0 };
    let mut decider = Decider::new(policy, &system, &[], host);
    decider.round(CoreId(0), None);
    let attach = |id| Request::Attach(Box::new(VcpuHandle::new(VcpuId(id), Nothing, true)));
    decider.host.requests.extend((0..VCPUS).map(attach));
    decider.round(CoreId(0), None);
    decider
}

/// One turn of the agent of `core`.
fn turn(decider: &mut Decider<Bench>, core: CoreId) {
    let due = decider.host.core(core).wake_at;
    decider.host.clock.fetch_max(due.ticks(), Ordering::Relaxed);
    decider.round(core, Some(due));
}

/// Has so many threads do `work` on the cores, which are dealt out to them, until time is up.
fn on_threads(threads: u16, work: impl Fn(CoreId) + Sync) {
    let begun = time::Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || {
                while begun.elapsed() < LASTS {
                    for core in (thread..CORES).step_by(threads.into()) {
                        (0..16).for_each(|_| work(CoreId(core)));
                    }
                }
            });
        }
    });
}

/// Decisions a second.
fn measure(entry: &Entry, threads: u16, is_split: bool) -> u64 {
    let mut all = decider(entry);
    let before = all.host.decisions;
    let begun = time::Instant::now();
    let decisions = if is_split {
        let mut parts = Vec::new();
        assert!(all.split(|part| parts.push(Mutex::new(part))), "{} splits", entry.name);
        on_threads(threads, |core| {
            turn(&mut parts[usize::from(core.0)].lock().expect("no agent panics"), core);
        });
        let decisions =
            |part: Mutex<Decider<Bench>>| part.into_inner().expect("whole").host.decisions;
        parts.into_iter().map(decisions).sum::<u64>()
    } else {
        let all = Mutex::new(all);
        on_threads(threads, |core| turn(&mut all.lock().expect("no agent panics"), core));
        all.into_inner().expect("whole").host.decisions - before
    };
    (decisions as f64 / begun.elapsed().as_secs_f64()) as u64
}

fn main() {
    println!("| policy | deciders | one thread | two threads |\n|---|---|---|---|");
    for name in ["p-edf", "p-rm"] {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let kinds = [(1, false), (2, false), (1, true), (2, true)];
        let mut figures = kinds.map(|_| Vec::with_capacity(RUNS));
        for _ in 0..RUNS {
            for ((threads, is_split), figures) in kinds.into_iter().zip(&mut figures) {
                figures.push(measure(entry, threads, is_split));
            }
        }
        let [one, one_by_two, each, each_by_two] = figures.map(|mut figures| {
            figures.sort_unstable();
            figures[RUNS / 2]
        });
        println!("| {name} | one for all cores | {one} | {one_by_two} |");
        println!("| {name} | one a core | {each} | {each_by_two} |");
    }
}
