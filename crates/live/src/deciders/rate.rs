//! How many decisions a second agents take on a host that carries nothing out, with one decider for
//! all cores and with one a group of cores: `cargo test --release -p maracas-live rate --
//! --nocapture`.

use super::Deciders;
use maracas_core::contract::Observer;
use maracas_core::params::Params;
use maracas_core::{
    CoreId, Duration, Event, Instant, Job, JobId, Plan, Policy, System, Vcpu, VcpuId,
};
use maracas_live_core::{
    Core, Decider, Executor, Handle, Host, Means, Record, Reply, Request, VcpuHandle, WakeCost,
};
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread, time};

/// Cores of partitioned policies, and VCPUs on each of them.
const CORES: u32 = 2;
const EACH: u32 = 8;
/// What VCPUs of QPS have of their cores, in hundredths: two hierarchies of two cores.
const HIERARCHIES: [u64; 6] = [70, 70, 68, 68, 62, 62];
/// How long is measured.
const LENGTH: time::Duration = time::Duration::from_millis(300);

/// Carries nothing out.
struct Nothing(time::Instant);

impl Executor for Nothing {
    type Handle = Self;
    type Site = ();

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_nanos(self.0.elapsed().as_nanos() as u64)
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
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        tids.push(1);
        Ok((self.now(), self.now()))
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

/// The host of a decider.
struct Still {
    cores: Arc<[Mutex<Core<Nothing>>]>,
    begun: time::Instant,
    requests: Vec<Request<Self>>,
    decisions: Arc<AtomicU64>,
}

/// An answer that is not waited for.
struct Unheard;

impl<T> Reply<T> for Unheard {
    fn is_withdrawn(&self) -> bool {
        false
    }
    fn give(self, _: T) -> Result<(), T> {
        Ok(())
    }
}

impl Host for Still {
    type Handle = Nothing;
    type Core = Core<Nothing>;
    type Reply<T> = Unheard;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = Core<Nothing>> {
        self.cores[usize::from(core.0)].lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn now(&self) -> Instant {
        Nothing(self.begun).now()
    }
    fn take_requests(&mut self, into: &mut Vec<Request<Self>>) {
        into.append(&mut self.requests);
    }
    fn release(&mut self, _: &Job) {}
    fn leave(&mut self, _: VcpuId, _: Option<Box<VcpuHandle<Nothing>>>) {}
}

impl Observer for Still {
    fn event(&mut self, _: Instant, _: &Event) {}
    fn planned(&mut self, _: Instant, _: &Plan) {
        self.decisions.fetch_add(1, Ordering::Relaxed);
    }
}

/// One agent: jobs of its group end and begin, by turns of its VCPUs, until time is up.
fn agent(
    deciders: &Deciders<Decider<Still>>,
    cores: &[Mutex<Core<Nothing>>],
    (core, vcpus): &(CoreId, Vec<VcpuId>),
    begun: time::Instant,
) {
    let end = time::Instant::now() + LENGTH;
    let mut turn = 0;
    while time::Instant::now() < end {
        let now = Nothing(begun).now();
        let (vcpu, index) = (vcpus[turn % vcpus.len()], (turn / vcpus.len()) as u32);
        let deadline = now + Duration::from_micros(turn as u64 * 7 % 11 + 1);
        let id = JobId { vcpu, index };
        if let Ok(mut own) = cores[usize::from(core.0)].lock() {
            if let Some(index) = index.checked_sub(1) {
                own.outbox.push((now, Event::Completed(JobId { vcpu, index })));
            }
            own.outbox.push((now, Event::Released(Job { id, release: now, deadline })));
        }
        turn += 1;
        deciders.tell(*core);
        while deciders.round(*core, None).is_some() {}
    }
}

/// What is decided for.
fn system(name: &str) -> System {
    let (t, hundredth) = (Duration::from_millis(100), Duration::from_millis(1));
    if name == "qps" {
        let vcpu = |(id, share)| Vcpu::new(id, hundredth * share, t);
        return System::new(4, (0..).zip(HIERARCHIES).map(vcpu).collect());
    }
    let vcpu = |id| {
        let pinned = Some(CoreId((id / EACH) as u16));
        Vcpu { pinned, ..Vcpu::new(id, hundredth, t) }
    };
    System::new(CORES as usize, (0..CORES * EACH).map(vcpu).collect())
}

/// Of each group of cores that has VCPUs the first core, and these.
fn groups(policy: &mut dyn Policy, system: &System) -> Vec<(CoreId, Vec<VcpuId>)> {
    let apart = policy.apart().expect("its cores decide alone");
    let firsts = system.core_ids().filter(|core| apart.group(*core).first() == Some(*core));
    let of = |first| {
        let is_there = |vcpu: &&Vcpu| {
            let core = apart.begins_on(vcpu.id).or(vcpu.pinned);
            core.is_some_and(|core| apart.group(first).contains(core))
        };
        (first, system.vcpus.iter().filter(is_there).map(|vcpu| vcpu.id).collect())
    };
    firsts.map(of).collect()
}

/// Decisions a second by so many agents, one a group.
fn rate(name: &str, agents: usize, apart: bool) -> f64 {
    // Known to the decider without jobs: here they come and go by the outbox alone.
    let known = system(name);
    let jobs = known.vcpus.iter().cloned().map(Vcpu::periodic).collect();
    let with_jobs = System { vcpus: jobs, ..known.clone() };
    let entry = maracas_policies::find(name).expect("a policy of ours");
    let mut policy: Box<dyn Policy> =
        (entry.build)(&with_jobs, &Params::new()).unwrap_or_else(|why| panic!("{why:?}"));
    let groups = groups(policy.as_mut(), &with_jobs);
    let begun = time::Instant::now();
    let means = Means { fifo: true, freezer: false, events: true };
    let core = |id| Mutex::new(Core::new(id, Nothing(begun), means, WakeCost::LEAST));
    let cores: Arc<[_]> = known.core_ids().map(core).collect();
    let decisions = Arc::new(AtomicU64::new(0));
    let host = |requests| Still {
        cores: Arc::clone(&cores),
        begun,
        requests,
        decisions: Arc::clone(&decisions),
    };
    let handle =
        |vcpu: &Vcpu| Request::Attach(Box::new(VcpuHandle::new(vcpu.id, Nothing(begun), false)));
    let host_of_all = host(known.vcpus.iter().map(handle).collect());
    let mut all = Decider::new(policy, &known, &[], host_of_all);
    let own = if apart { all.of_groups(|_, _| host(Vec::new())) } else { Vec::new() };
    let own = own.into_iter().filter_map(|own| Some((*own.group()?, own))).collect();
    let deciders = Deciders::new(all, own);
    deciders.tell_all();
    deciders.round(CoreId(0), None);
    decisions.store(0, Ordering::Relaxed);
    thread::scope(|scope| {
        for group in &groups[..agents] {
            let (deciders, cores) = (&deciders, &cores);
            scope.spawn(move || agent(deciders, cores, group, begun));
        }
    });
    decisions.load(Ordering::Relaxed) as f64 / LENGTH.as_secs_f64()
}

#[test]
fn the_rate_of_decisions_on_a_host_that_carries_nothing_out() {
    for name in ["p-edf", "p-rm", "maracas", "qps"] {
        for (agents, apart) in [(1, false), (1, true), (2, false), (2, true)] {
            let whose = if apart { "of each group" } else { "of all cores" };
            let thousands = rate(name, agents, apart) / 1e3;
            eprintln!(
                "{name}: {agents} agents, deciders {whose}: {thousands:.0} thousand a second"
            );
            assert!(thousands > 0.0);
        }
    }
}
