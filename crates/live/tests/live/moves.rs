//! Moves of VCPUs in whatever state they are, as service requests of service VCPUs.

use crate::support::witness::repeated;
use crate::support::{SPIN, replays, run, setup, shell, system};
use maracas_core::contract::{Grant, Limit, Mode, ServiceRequest};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Role, Vcpu, VcpuId};

/// How often a VCPU is moved.
const ROUND: Duration = Duration::from_millis(7);
/// The VCPUs that are moved; after them come the service VCPUs, one on each core.
const MOVED: u32 = 5;

/// Has one VCPU after the other moved to the other core. The first is always first in the
/// foreground where it is, the others share the background.
struct Shuttle {
    homes: Vec<CoreId>,
    gone: Vec<bool>,
    service_request: Option<(VcpuId, ServiceRequest)>,
    moves: u64,
}

impl Shuttle {
    fn new() -> Self {
        let moved = MOVED as usize;
        Self {
            homes: vec![CoreId(0); moved],
            gone: vec![false; moved],
            service_request: None,
            moves: 0,
        }
    }
}

impl Policy for Shuttle {
    fn on_event(&mut self, _: Instant, event: &Event) {
        match event {
            Event::ServiceDone(ServiceRequest::Move { vcpu, to, .. }) => {
                self.homes[vcpu.0 as usize] = *to;
                self.service_request = None;
            }
            Event::Failed { .. } => self.service_request = None,
            Event::Left(vcpu) => self.gone[vcpu.0 as usize] = true,
            Event::Ran(_)
            | Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Changed(_)
            | Event::ServiceDone(ServiceRequest::Sample) => {}
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let round = now.ticks() / ROUND.ticks();
        if self.service_request.is_none() && round > self.moves {
            self.moves = round;
            let vcpu = (round % u64::from(MOVED)) as usize;
            let (from, id) = (self.homes[vcpu], VcpuId(vcpu as u32));
            let to = CoreId(1 - from.0);
            let service_vcpu = VcpuId(MOVED + u32::from(from.0));
            let service_request = ServiceRequest::Move { vcpu: id, to, colors: None };
            self.service_request = (!self.gone[vcpu]).then_some((service_vcpu, service_request));
        }
        plan.service_request = self.service_request;
        for core in (0..2).map(CoreId) {
            let run_queue = plan.run_queue_mut(core);
            run_queue.foreground.clear();
            run_queue.background.clear();
            run_queue.foreground.push(Grant::new(VcpuId(MOVED + u32::from(core.0)), Limit::NEVER));
            for vcpu in (0..MOVED).filter(|vcpu| self.homes[*vcpu as usize] == core) {
                let grant = Grant::new(VcpuId(vcpu), Limit::NEVER);
                match vcpu {
                    0 => run_queue.foreground.push(grant),
                    _ => run_queue.background.push(grant),
                }
            }
        }
        plan.wake = Instant::ZERO + ROUND * (round + 1);
        plan.wake_metered = true;
    }
}

/// VCPUs that are moved, and one on each core that pays for moves.
fn shuttled() -> maracas_core::System {
    let mut system = system(2, &[]);
    let budget = Duration::from_millis(1);
    system.vcpus = (0..MOVED).map(Vcpu::best_effort).collect();
    for core in 0..2 {
        let service_vcpu = Vcpu::new(MOVED + u32::from(core), budget, budget * 10);
        let pinned = Some(CoreId(core));
        system.vcpus.push(Vcpu { role: Role::Migration, pinned, ..service_vcpu });
    }
    system
}

#[test]
fn what_is_moved_runs_on_the_other_core_from_then_on() {
    repeated(|| {
        let system = shuttled();
        let four = format!("for i in 1 2 3; do ({SPIN}) & done; {SPIN}");
        let children = "while :; do /bin/true; done";
        let programs = vec![
            // In the foreground, now and then, with a child each time.
            shell(0, "while :; do sleep 0.002; done"),
            // Four processes, one whose children come and go, one that sleeps, one that ends.
            shell(1, &four),
            shell(2, children),
            shell(3, "while :; do sleep 0.005; done"),
            shell(4, "sleep 1.2"),
        ];
        let policy = Box::new(Shuttle::new());
        let Some(ran) = run(setup(&system, programs, 4), policy) else { return };
        let records = ran.untroubled();
        assert!(replays(records, &mut Shuttle::new(), 2), "a fresh policy decides the same");
        let (mut done, mut failed, mut astray, mut paid_ns) =
            ([0; MOVED as usize], 0, 0, Vec::new());
        let mut homes = [CoreId(0); MOVED as usize];
        for record in records {
            let Record::Event { event, at } = record else { continue };
            match event {
                Event::ServiceDone(ServiceRequest::Move { vcpu, to, .. }) => {
                    done[vcpu.0 as usize] += 1;
                    homes[vcpu.0 as usize] = *to;
                }
                Event::Failed { .. } => failed += 1,
                Event::Ran(segment) if segment.vcpu.0 >= MOVED => {
                    assert_eq!((segment.mode, *at), (Mode::Foreground, segment.to));
                    paid_ns.push(segment.usage.service.ticks());
                }
                // What is reported between the move and its answer ended on the core that was left.
                Event::Ran(segment) if segment.core != homes[segment.vcpu.0 as usize] => {
                    astray += u64::from(segment.usage.service.ticks() > 1_000_000);
                }
                Event::Ran(_)
                | Event::Released(_)
                | Event::Completed(_)
                | Event::Woke { .. }
                | Event::AllowanceSpent { .. }
                | Event::Sampled(_)
                | Event::Utilized { .. }
                | Event::Arrived(_)
                | Event::Left(_)
                | Event::Changed(_)
                | Event::ServiceDone(ServiceRequest::Sample) => {}
            }
        }
        paid_ns.sort_unstable();
        let us = |rank: usize| paid_ns.get(paid_ns.len() * rank / 100).map_or(0, |ns| ns / 1000);
        eprintln!(
            "moved {done:?} times, paid p50 {} us, p90 {} us, p99 {} us; failed {failed}, astray \
         {astray}",
            us(50),
            us(90),
            us(99)
        );
        assert!(done.iter().take(4).all(|moves| *moves > 60), "{done:?}");
        assert_eq!(paid_ns.len(), done.iter().sum::<usize>() + failed, "each move is paid for");
        assert!(failed <= 1, "{failed} moves failed, though only one VCPU left");
        assert_eq!(astray, 0, "segments on a core that was left");
    });
}
