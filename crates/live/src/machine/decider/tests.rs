use super::*;
use crate::clock::Clock;
use crate::executor;
use crate::executor::vcpu::Made;
use crate::host::HardwareCore;
use crate::host::cgroup::{Group, Hierarchies, Tree};
use crate::host::costs::WakeCost;
use crate::journal::Ring;
use crate::machine::{Means, Palette, Progress, Source};
use maracas_core::contract::{Grant, Limit};
use maracas_core::journal::Header;
use maracas_core::params::Params;
use maracas_core::{Duration, Rate};
use std::sync::atomic::{AtomicU16, Ordering};

/// Puts the one VCPU first on the core that it is told.
struct OnCore(Arc<AtomicU16>);

impl Policy for OnCore {
    fn on_event(&mut self, _: Instant, _: &Event) {}
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let wanted = CoreId(self.0.load(Ordering::SeqCst));
        for core in (0..plan.cores() as u16).map(CoreId) {
            let run_queue = plan.run_queue_mut(core);
            run_queue.foreground.clear();
            if core == wanted {
                run_queue.foreground.push(Grant {
                    vcpu: VcpuId(0),
                    until: Limit::NEVER,
                    memory: u64::MAX,
                });
            }
        }
        // Asked at every look.
        plan.wake = now + Duration::from_nanos(1);
    }
}

/// Counts releases.
#[derive(Default)]
struct Observed(AtomicU16);

impl JobGate for Observed {
    fn release(&self, _: &Job) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What the test sees of the decider: where the VCPU handle is, whether anything is put off, and
/// how many releases were told.
fn seen(decider: &Decider, observed: &Observed) -> (Option<CoreId>, [bool; 2], bool, u16) {
    let on = |core: &Mutex<Core>| lock(core).vcpu_handle(VcpuId(0)).is_some();
    let vcpu_handles = [on(&decider.cores[0]), on(&decider.cores[1])];
    let put_off = decider.behind && decider.late_cause.is_some();
    (decider.known[&VcpuId(0)].slot, vcpu_handles, put_off, observed.0.load(Ordering::SeqCst))
}

/// VCPU 0, of which nothing is counted.
fn vcpu_handle(
    group: Arc<Group>,
    confined: HardwareCore,
    means: Means,
    clock: Clock,
) -> VcpuHandle {
    let (id, name, root) = (VcpuId(0), "one".into(), None);
    let progress = Progress::new(Source::Own, None);
    Made { id, name, group, confined, root, means, progress, clock }.vcpu_handle()
}

#[test]
fn what_runs_on_another_core_is_moved_by_the_agent_there_and_hears_of_its_release_then() {
    let _turn = crate::host::tests::turn();
    let tree = Hierarchies::read().and_then(|hierarchies| Tree::create(&hierarchies));
    let tree = match tree {
        Ok(tree) => tree,
        Err(error) => return crate::host::tests::refused(&error, "control groups"),
    };
    // No thread is raised, frozen or counted: only who sits where is looked at.
    let means = Means { fifo: false, freezer: false, events: false, instructions: false };
    let hardware = [HardwareCore(0), HardwareCore(1)];
    let group = Arc::new(tree.vcpu(VcpuId(0)).expect("a group"));
    let clock = Clock::start();
    let open = |id: u16| {
        executor::open(CoreId(id), hardware[usize::from(id)], clock.clone(), means, WakeCost::LEAST)
    };
    let cores = [0, 1].map(|id| Mutex::new(open(id).expect("descriptors")));
    let source = Source::Own;
    let (palette, hosts) = (Palette::default(), hardware.to_vec());
    let mailbox = Mailbox::new(tree, hosts, means, source, palette, clock, 1).expect("an eventfd");
    let (c, t) = (Duration::from_millis(5), Duration::from_secs(60));
    let mut system = System::new(2, vec![Vcpu::new(0, c, t).periodic()]);
    system.capacity = Rate::ONE;
    let header = Header {
        policy: "fixed".into(),
        params: Params::new(),
        system: system.clone(),
        names: vec!["one".into()],
        machine: "live".into(),
        version: "test".into(),
        seed: 0,
    };
    let (ring, place, observed) =
        (Ring::new(), Arc::new(AtomicU16::new(0)), Arc::<Observed>::default());
    let policy = Box::new(OnCore(Arc::clone(&place)));
    let scribe = Scribe::new(&header, &ring);
    let mut decider = Decider::new(policy, &system, &header.names, scribe, &cores, &mailbox);
    let mut vcpu_handle =
        vcpu_handle(Arc::clone(&group), hardware[0], means, mailbox.clock.clone());
    vcpu_handle.suppose_runnable();
    mailbox.post(Request::Gate(Arc::clone(&observed) as Arc<dyn JobGate>));
    mailbox.post(Request::Attach(Box::new(vcpu_handle)));
    let first = (decider.round(CoreId(0), None), seen(&decider, &observed));

    // A job that nobody has heard of, and a plan that wants it done on the other core.
    let job = JobId { vcpu: VcpuId(0), index: 0 };
    decider.unobserved.push(Job { id: job, release: Instant::ZERO, deadline: Instant::NEVER });
    decider.cause = Some(Instant::ZERO);
    place.store(1, Ordering::SeqCst);
    lock(&cores[0]).suppose_running(VcpuId(0));
    let asked = (decider.round(CoreId(1), None), seen(&decider, &observed));
    // The same round on the core where it runs.
    let moved = (decider.round(CoreId(0), None), seen(&decider, &observed));
    drop(decider);
    drop(cores);
    Arc::into_inner(group).expect("nobody else has it").remove().expect("removed");
    mailbox.remove_tree().expect("the tree is removed");

    let [zero, one] = [CoreId(0), CoreId(1)];
    assert_eq!(first, (CoreSet::EMPTY, (Some(zero), [true, false], false, first.1.3)));
    let there: CoreSet = [zero].into_iter().collect();
    let stays = (there, (Some(zero), [true, false], true, first.1.3));
    assert_eq!(asked, stays, "it stays and is told nothing");
    assert_eq!(moved, (CoreSet::EMPTY, (Some(one), [false, true], false, first.1.3 + 1)));
}
