//! The machine by hand-worked schedules, under policies that do nothing but hold a run queue.

mod memory;
mod metering;
mod service_requests;
mod swarm;
mod uneven;

use crate::memory::{Contention, MemoryTotals, Progress, Resident};
use crate::{Options, Outcome, Overheads, at_start, run, run_with};
use maracas_core::contract::{Event, Grant, Limit, Observer, RunQueue};
use maracas_core::memory::CachePart;
use maracas_core::{
    CoreId, Cost, Duration, Instant, Plan, Policy, Program, System, Vcpu, VcpuId, Workload,
};
use std::fmt::Write as _;

const fn ticks(n: u64) -> Duration {
    Duration::from_ticks(n)
}
const fn at(n: u64) -> Instant {
    Instant::from_ticks(n)
}
fn grant(vcpu: u32, until: u64) -> Grant {
    Grant::new(VcpuId(vcpu), Limit(ticks(until)))
}
fn always(vcpu: u32) -> Grant {
    Grant::new(VcpuId(vcpu), Limit::NEVER)
}
fn task(id: u32, budget: u64, period: u64) -> Vcpu {
    Vcpu::new(id, ticks(budget), ticks(period)).periodic()
}
fn server(id: u32) -> Vcpu {
    Vcpu::new(id, ticks(1), ticks(10))
}
fn job(vcpu: u32, cost: u64) -> Program {
    Program::new(VcpuId(vcpu), Workload::Periodic { cost: Cost::Fixed(ticks(cost)) })
}
fn busy(vcpu: u32) -> Program {
    Program::new(VcpuId(vcpu), Workload::Busy)
}
fn run_sleep(vcpu: u32, run: u64, sleep: u64) -> Program {
    let (run, sleep) = (Cost::Fixed(ticks(run)), Cost::Fixed(ticks(sleep)));
    Program::new(VcpuId(vcpu), Workload::RunSleep { run, sleep })
}

/// Takes the next plan of a list at each given instant, and holds it. Admits all arrivals but
/// those whose budget is zero.
struct Script {
    steps: Vec<(u64, Vec<(u16, RunQueue)>)>,
    asked: Vec<Vcpu>,
    metered: bool,
}

impl Script {
    fn new(steps: Vec<(u64, Vec<(u16, RunQueue)>)>) -> Self {
        Self { steps, asked: Vec::new(), metered: false }
    }
    fn run_queue(foreground: &[Grant], background: &[Grant]) -> RunQueue {
        let (foreground, background) = (foreground.to_vec(), background.to_vec().into());
        RunQueue { foreground, background, ..RunQueue::default() }
    }
    /// One core, one line, for ever.
    fn fixed(foreground: &[Grant], background: &[Grant]) -> Self {
        Self::new(vec![(0, vec![(0, Self::run_queue(foreground, background))])])
    }
}

impl Policy for Script {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::Arrived(vcpu) = event {
            self.asked.push(vcpu.clone());
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        while self.steps.first().is_some_and(|step| step.0 <= now.ticks()) {
            for (core, run_queue) in self.steps.remove(0).1 {
                *plan.run_queue_mut(CoreId(core)) = run_queue;
            }
        }
        for vcpu in self.asked.drain(..) {
            let refusal = maracas_core::admission::NotAdmitted {
                reason: "nothing asked for".into(),
                closest: None,
            };
            let zero = vcpu.reservation.budget.is_zero();
            plan.answer(vcpu.id, if zero { Err(refusal) } else { Ok(CoreId(0)) });
        }
        plan.wake = self.steps.first().map_or(Instant::NEVER, |step| at(step.0));
        plan.wake_metered = self.metered;
    }
}

/// Writes down what the policy was given, one word an event.
#[derive(Default)]
struct Log(String);

impl Observer for Log {
    fn event(&mut self, at: Instant, event: &Event) {
        let at = at.ticks();
        match event {
            Event::Ran(s) => {
                let mode =
                    if s.mode == maracas_core::contract::Mode::Foreground { "" } else { "b" };
                let (from, to) = (s.from.ticks(), s.to.ticks());
                write!(self.0, "{at}:v{}{mode}@{}[{from},{to}){:?} ", s.vcpu.0, s.core.0, s.end)
            }
            Event::Released(job) => write!(self.0, "{at}:+v{}.{} ", job.id.vcpu.0, job.id.index),
            Event::Completed(id) => write!(self.0, "{at}:-v{}.{} ", id.vcpu.0, id.index),
            Event::Woke { vcpu, exact, .. } => {
                write!(self.0, "{at}:wake{}v{} ", if *exact { "" } else { "?" }, vcpu.0)
            }
            Event::Arrived(vcpu) => write!(self.0, "{at}:arrived v{} ", vcpu.id.0),
            Event::Left(vcpu) => write!(self.0, "{at}:left v{} ", vcpu.0),
            Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => write!(self.0, "{at}:{event:?} "),
        }
        .expect("a string takes everything");
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn simulate(
    cores: usize,
    vcpus: Vec<Vcpu>,
    programs: &[Program],
    script: &mut Script,
    options: Options,
) -> (Outcome, String) {
    let mut log = Log::default();
    let options = Options { audit: true, ..options };
    let system = System::new(cores, vcpus);
    let outcome = run(&system, programs, script, &options, &mut log);
    (outcome, log.0.trim_end().to_string())
}

#[test]
fn the_next_of_the_line_runs_when_the_first_blocks() {
    let (outcome, log) = simulate(
        1,
        vec![task(0, 1, 4), task(1, 3, 10)],
        &[job(0, 1), job(1, 3)],
        &mut Script::fixed(&[always(0), always(1)], &[]),
        Options::new(at(10)),
    );
    assert_eq!(
        log,
        "0:+v0.0 0:+v1.0 1:-v0.0 1:v0@0[0,1)Blocked 4:-v1.0 4:v1@0[1,4)Blocked 4:+v0.1 \
         5:-v0.1 5:v0@0[4,5)Blocked 8:+v0.2 9:-v0.2 9:v0@0[8,9)Blocked"
    );
    assert_eq!((outcome.released, outcome.completed, outcome.missed), (4, 4, 0));
    assert_eq!(outcome.idle, [ticks(4)]);
    assert_eq!(outcome.context_switches, 4);
}

#[test]
fn a_mark_is_reached_at_its_exact_instant_and_background_follows() {
    let (_, log) = simulate(
        1,
        vec![server(0), server(1)],
        &[busy(0), busy(1)],
        &mut Script::fixed(&[grant(0, 3), grant(1, 5)], &[grant(0, 2), grant(1, 1)]),
        Options::new(at(20)),
    );
    assert_eq!(
        log,
        "0:wakev0 0:wakev1 3:v0@0[0,3)LimitReached 8:v1@0[3,8)LimitReached \
         10:v0b@0[8,10)LimitReached 11:v1b@0[10,11)LimitReached"
    );
}

#[test]
fn a_local_wake_preempts_before_any_decision() {
    let (_, log) = simulate(
        1,
        vec![server(0), server(1)],
        &[run_sleep(0, 2, 3), busy(1)],
        &mut Script::fixed(&[always(0)], &[always(1)]),
        Options::new(at(8)),
    );
    assert_eq!(
        log,
        "0:wakev0 0:wakev1 2:v0@0[0,2)Blocked 5:wakev0 5:v1b@0[2,5)Preempted \
         7:v0@0[5,7)Blocked 8:v1b@0[7,8)Metered"
    );
}

#[test]
fn at_one_instant_the_completion_wins_over_the_mark() {
    let script = || Script::fixed(&[grant(0, 2)], &[always(0)]);
    let vcpus = || vec![task(0, 2, 5)];
    let (_, log) = simulate(1, vcpus(), &[job(0, 2)], &mut script(), Options::new(at(5)));
    assert_eq!(log, "0:+v0.0 2:-v0.0 2:v0@0[0,2)Blocked");
    // A segment goes on over the completion of a job whose successor waits.
    let late = Script::new(vec![(6, vec![(0, Script::run_queue(&[grant(0, 4)], &[]))])]);
    let (outcome, log) = simulate(1, vcpus(), &[job(0, 2)], &mut { late }, Options::new(at(10)));
    assert_eq!(log, "0:+v0.0 5:+v0.1 8:-v0.0 10:-v0.1 10:v0@0[6,10)Blocked");
    assert_eq!((outcome.completed, outcome.missed), (2, 1));
}

#[test]
fn hidden_wakes_are_reported_at_switch_in() {
    let (_, log) = simulate(
        1,
        vec![server(0), server(1)],
        &[run_sleep(0, 2, 1), run_sleep(1, 4, 9)],
        &mut Script::fixed(&[always(0), always(1)], &[]),
        Options { hidden_wakes: true, ..Options::new(at(7)) },
    );
    assert_eq!(
        log,
        "0:wake?v0 2:v0@0[0,2)Blocked 2:wake?v1 3:v1@0[2,3)Preempted 3:wake?v0 \
         5:v0@0[3,5)Blocked 6:v1@0[5,6)Preempted 6:wake?v0 7:v0@0[6,7)Metered"
    );
}

#[test]
fn late_decisions_carry_true_instants_and_the_law_goes_on() {
    let run_queues = |n: u64| vec![(0, Script::run_queue(&[grant(0, n)], &[always(1)]))];
    let mut latest = 0;
    for seed in 0..40 {
        let mut script = Script::new(vec![(0, run_queues(2)), (20, run_queues(4))]);
        let (_, log) = simulate(
            1,
            vec![server(0), server(1)],
            &[busy(0), busy(1)],
            &mut script,
            Options { late: ticks(5), seed, ..Options::new(at(40)) },
        );
        let segments: Vec<_> = log.split(' ').filter(|word| word.contains('[')).collect();
        // The new limit was wanted at 20 and came late, by at most 5; it was reached 2 later.
        let preempted = segments[1].split_once(':').map(|(at, _)| at.parse::<u64>());
        let Some(Ok(enacted)) = preempted else { panic!("{log}") };
        assert!((20..=25).contains(&enacted), "{log}");
        assert!(segments[0].ends_with("LimitReached"), "{log}");
        assert!(segments[1].ends_with(&format!(",{enacted})Preempted")), "{log}");
        assert_eq!(segments[2], format!("{0}:v0@0[{enacted},{0})LimitReached", enacted + 2));
        latest = latest.max(enacted);
    }
    assert_eq!(latest, 25);
}

#[test]
fn a_vcpu_moves_by_a_stop_before_a_start() {
    let first =
        vec![(0, Script::run_queue(&[always(0)], &[])), (1, Script::run_queue(&[always(1)], &[]))];
    let swapped =
        vec![(0, Script::run_queue(&[always(1)], &[])), (1, Script::run_queue(&[always(0)], &[]))];
    let overheads = Overheads { migration: ticks(2), ..Overheads::default() };
    let (outcome, log) = simulate(
        2,
        vec![task(0, 6, 20), task(1, 6, 20)],
        &[job(0, 6), job(1, 6)],
        &mut Script::new(vec![(0, first), (4, swapped)]),
        Options { overheads, ..Options::new(at(20)) },
    );
    assert_eq!(
        log,
        "0:+v0.0 0:+v1.0 4:v0@0[0,4)Moved 4:v1@1[0,4)Moved 8:-v1.0 8:v1@0[4,8)Blocked \
         8:-v0.0 8:v0@1[4,8)Blocked"
    );
    assert_eq!(outcome.context_switches, 4);
}

#[test]
fn overheads_stall_the_job_while_the_meter_runs() {
    let overheads = Overheads {
        context_switch: ticks(1),
        release: ticks(2),
        decision: ticks(3),
        ..Overheads::default()
    };
    // Released at 0 on the idle core (2), decided at 0 (3), switched in (1): work from 6 to 10;
    // the limit counts from 0.
    let (_, log) = simulate(
        1,
        vec![task(0, 4, 50)],
        &[job(0, 4)],
        &mut Script::fixed(&[always(0)], &[]),
        Options { overheads, ..Options::new(at(50)) },
    );
    assert_eq!(log, "0:+v0.0 10:-v0.0 10:v0@0[0,10)Blocked");
}

#[test]
fn metered_wakes_report_running_segments() {
    let run_queue = || vec![(0, Script::run_queue(&[always(0)], &[]))];
    let mut script = Script::new(vec![(0, run_queue()), (3, Vec::new()), (5, run_queue())]);
    script.metered = true;
    let (_, log) = simulate(1, vec![server(0)], &[busy(0)], &mut script, Options::new(at(6)));
    assert_eq!(log, "0:wakev0 3:v0@0[0,3)Metered 5:v0@0[3,5)Metered 6:v0@0[5,6)Metered");
}

#[test]
fn arrivals_ask_and_the_last_program_takes_its_vcpu_along() {
    let mut late = busy(1);
    (late.arrive, late.depart) = (at(3), at(8));
    let mut refused = busy(2);
    refused.arrive = at(4);
    let nothing = Vcpu::new(2, Duration::ZERO, ticks(10));
    let system = System::new(1, vec![task(0, 1, 5), server(1), nothing]);
    let programs = [job(0, 1), late, refused];
    let ids: Vec<_> = at_start(&system, &programs).vcpus.iter().map(|vcpu| vcpu.id.0).collect();
    assert_eq!(ids, [0]);
    let (outcome, log) = simulate(
        1,
        system.vcpus,
        &programs,
        &mut Script::fixed(&[always(0), always(1), always(2)], &[]),
        Options::new(at(10)),
    );
    assert_eq!(
        log,
        "0:+v0.0 1:-v0.0 1:v0@0[0,1)Blocked 3:arrived v1 3:wakev1 4:arrived v2 5:+v0.1 \
         5:v1@0[3,5)Preempted 6:-v0.1 6:v0@0[5,6)Blocked 8:v1@0[6,8)Exited 8:left v1"
    );
    let answers: Vec<_> = outcome.admissions.iter().map(|(v, a)| (v.0, a.is_ok())).collect();
    assert_eq!(answers, [(1, true), (2, false)]);
}

#[test]
fn an_anytime_program_improves_until_the_next_release() {
    let anytime = Workload::Anytime { mandatory: Cost::Fixed(ticks(2)), optional: ticks(4) };
    let (outcome, log) = simulate(
        1,
        vec![task(0, 2, 5), task(1, 1, 10)],
        &[Program::new(VcpuId(0), anytime), job(1, 1)],
        &mut Script::fixed(&[always(1), always(0)], &[]),
        Options::new(at(15)),
    );
    // Job 1's optional part has its 4 ticks cut short by the release at 10, and so has job 0's.
    assert_eq!(
        log,
        "0:+v0.0 0:+v1.0 1:-v1.0 1:v1@0[0,1)Blocked 3:-v0.0 5:+v0.1 7:-v0.1 10:+v0.2 10:+v1.1 \
         10:v0@0[1,10)Preempted 11:-v1.1 11:v1@0[10,11)Blocked 13:-v0.2 15:v0@0[11,15)Metered"
    );
    assert_eq!(outcome.missed, 0);
    let (_, log) = simulate(
        1,
        vec![task(0, 2, 9)],
        &[Program::new(VcpuId(0), anytime)],
        &mut Script::fixed(&[always(0)], &[]),
        Options::new(at(9)),
    );
    assert_eq!(log, "0:+v0.0 2:-v0.0 6:v0@0[0,6)Blocked");
}

#[test]
fn outside_events_queue_up() {
    let (every, cost) = (Cost::Fixed(ticks(2)), Cost::Fixed(ticks(3)));
    let driven = Workload::EventDriven { every, cost, on_behalf: Some(VcpuId(1)) };
    let (_, log) = simulate(
        1,
        vec![server(0), server(1)],
        &[Program::new(VcpuId(0), driven)],
        &mut Script::fixed(&[always(0)], &[]),
        Options::new(at(10)),
    );
    assert_eq!(log, "0:ignored".replace("0:ignored", "2:wakev0 10:v0@0[2,10)Metered"));
}

#[test]
fn programs_of_one_vcpu_run_until_they_block() {
    let (outcome, log) = simulate(
        1,
        vec![task(0, 5, 10)],
        &[job(0, 2), job(0, 3)],
        &mut Script::fixed(&[always(0)], &[]),
        Options::new(at(20)),
    );
    // A job is complete when both have done their piece.
    assert_eq!(log, "0:+v0.0 5:-v0.0 5:v0@0[0,5)Blocked 10:+v0.1 15:-v0.1 15:v0@0[10,15)Blocked");
    assert_eq!(outcome.completed, 2);
}

/// Service between completions, by VCPU, where every job completes before the next release.
#[derive(Default)]
struct JobCosts(Vec<Vec<Duration>>, Vec<Duration>);

impl Observer for JobCosts {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            let vcpu = segment.vcpu.0 as usize;
            self.1[vcpu] += segment.usage.service;
            if segment.end == maracas_core::contract::End::Blocked {
                self.0[vcpu].push(std::mem::take(&mut self.1[vcpu]));
            }
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

#[test]
fn a_job_costs_the_same_under_every_policy() {
    let costs = [Cost::Uniform(ticks(10), ticks(300)), Cost::Exponential(ticks(20))];
    let programs =
        [0, 1].map(|id| Program::new(VcpuId(id), Workload::Periodic { cost: costs[id as usize] }));
    let system = System::new(1, vec![task(0, 300, 1_000), task(1, 200, 1_500)]);
    let of = |order: [u32; 2]| {
        let mut script = Script::fixed(&order.map(always), &[]);
        let mut costs = JobCosts(vec![Vec::new(); 2], vec![ticks(0); 2]);
        let options = Options { seed: 11, ..Options::new(at(600_000)) };
        let outcome = run(&system, &programs, &mut script, &options, &mut costs);
        assert_eq!((outcome.missed, outcome.completed), (0, 1_000));
        costs.0
    };
    assert_eq!(of([0, 1]), of([1, 0]));
}

/// Every VCPU runs at half speed while two run.
struct Halves(usize);

impl Contention for Halves {
    const CONTENDS: bool = true;
    const COUPLED: bool = true;
    const SAMPLES: bool = false;
    fn resolve(&mut self, _: Instant, running: &[Option<Resident>]) {
        self.0 = running.iter().flatten().count().max(1);
    }
    fn next_change(&self) -> Instant {
        Instant::NEVER
    }
    fn advance(&mut self, _: CoreId, time: Duration) -> Progress {
        Progress { work: ticks(time.ticks() / self.0 as u64), ..Progress::default() }
    }
    fn time_for(&self, _: CoreId, work: Duration) -> Duration {
        work * self.0 as u64
    }
    fn time_to_meter(&self, _: CoreId, _: u64) -> Duration {
        Duration::MAX
    }
    fn totals(&mut self, _: Instant) -> Option<&MemoryTotals> {
        None
    }
    fn pages_to_copy(&self, _: u32, _: Option<CachePart>) -> u64 {
        0
    }
    fn recolor(&mut self, _: Instant, _: u32, _: Option<CachePart>) {}
    fn leave(&mut self, _: u32) {}
}

#[test]
fn speeds_are_resolved_when_the_running_set_changes() {
    let run_queue = |vcpu| Script::run_queue(&[always(vcpu)], &[]);
    let mut script = Script::new(vec![(0, vec![(0, run_queue(0)), (1, run_queue(1))])]);
    let mut log = Log::default();
    let system = System::new(2, vec![task(0, 4, 50), task(1, 6, 50)]);
    let options = Options::new(at(50));
    run_with(&system, &[job(0, 4), job(1, 6)], &mut script, &options, &mut log, Halves(1));
    // Both at half speed until v0's 4 are done at 8; v1 has 2 left and does them by 10.
    assert_eq!(
        log.0.trim_end(),
        "0:+v0.0 0:+v1.0 8:-v0.0 8:v0@0[0,8)Blocked 10:-v1.0 10:v1@1[0,10)Blocked"
    );
}

/// Puts a VCPU on two run queues.
struct Broken;

impl Policy for Broken {
    fn on_event(&mut self, _: Instant, _: &Event) {}
    fn plan(&mut self, _: Instant, plan: &mut Plan) {
        if plan.run_queue(CoreId(0)).foreground.is_empty() {
            plan.run_queue_mut(CoreId(0)).foreground.push(always(0));
            plan.run_queue_mut(CoreId(1)).background.push(always(0));
        }
    }
}

#[test]
fn a_vcpu_on_two_run_queues_is_found_even_without_the_full_audit() {
    let broken = std::panic::catch_unwind(|| {
        let system = System::new(2, vec![server(0)]);
        run(&system, &[busy(0)], &mut Broken, &Options::new(at(5)), &mut ())
    });
    let why = broken.expect_err("the contract was broken");
    let why = why.downcast_ref::<String>().map_or("", String::as_str);
    assert!(why.contains("vcpu0 stands on core0 and on core1"), "{why}");
}
