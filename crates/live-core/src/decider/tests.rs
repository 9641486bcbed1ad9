use super::rig::{FakeHost, attach, decider};
use super::*;
use maracas_core::Job;
use maracas_core::contract::{Grant, Limit};

/// Puts the one VCPU first on a core: that of the number of the job that was done last.
#[derive(Default)]
struct OnCore(CoreId);

impl Policy for OnCore {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::Completed(job) = event {
            self.0 = CoreId(job.index as u16);
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let wanted = self.0;
        for core in plan.core_ids() {
            let run_queue = plan.run_queue_mut(core);
            run_queue.foreground.clear();
            if core == wanted {
                run_queue.foreground.push(Grant::new(VcpuId(0), Limit::NEVER));
            }
        }
        // Asked at every look.
        plan.wake = now + Duration::from_nanos(1);
    }
}

/// What the test sees of the decider: where the VCPU handle is, whether anything is put off, and
/// how many releases were reported.
fn seen(decider: &mut Decider<FakeHost>) -> (Option<CoreId>, [bool; 2], bool, usize) {
    let on = [0, 1].map(|core| decider.host.cores[core].vcpu_handle(VcpuId(0)).is_some());
    let put_off = decider.behind && decider.late_cause.is_some();
    (decider.known[&VcpuId(0)].slot, on, put_off, decider.host.released)
}

#[test]
fn what_runs_on_another_core_is_moved_by_the_agent_there_and_learns_of_its_release_then() {
    let (c, t) = (Duration::from_millis(5), Duration::from_secs(60));
    let system = System::new(2, vec![Vcpu::new(0, c, t).periodic()]);
    let mut decider = decider(OnCore::default(), &system, 2);
    decider.host.requests.push(attach(VcpuId(0)));
    let first = (decider.round(CoreId(0), None), seen(&mut decider));

    // A job of which no program has learned, and a plan that wants it done on the other core.
    let job = JobId { vcpu: VcpuId(0), index: 0 };
    let job = Job { id: job, release: Instant::ZERO, deadline: Instant::NEVER };
    decider.jobs(CoreId(0)).push(job);
    decider.cause = Some(Instant::ZERO);
    decider.tell(Instant::ZERO, &Event::Completed(JobId { vcpu: VcpuId(0), index: 1 }));
    decider.host.cores[0].suppose_running(VcpuId(0));
    let asked = (decider.round(CoreId(1), None), seen(&mut decider));
    // The same round on the core where it runs.
    let moved = (decider.round(CoreId(0), None), seen(&mut decider));

    let [zero, one] = [CoreId(0), CoreId(1)];
    assert_eq!(first, (CoreSet::EMPTY, (Some(zero), [true, false], false, first.1.3)));
    let there: CoreSet = [zero].into_iter().collect();
    let stays = (there, (Some(zero), [true, false], true, first.1.3));
    assert_eq!(asked, stays, "it stays and nothing is reported");
    assert_eq!(moved, (CoreSet::EMPTY, (Some(one), [false, true], false, first.1.3 + 1)));
}
