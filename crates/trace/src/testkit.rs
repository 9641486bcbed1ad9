//! Hand-made runs for tests.

use crate::report::{DeviceReport, MemoryReport};
use crate::{Metrics, Report, memory_note, statistic_note};
use maracas_core::contract::{
    End, Event, Grant, Limit, Mode, Observer, Plan, Segment, Statistic, Usage,
};
use maracas_core::journal::{Header, Note, Record, Recorder};
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, Instant, Job, JobId, System, Vcpu, VcpuId};

pub(crate) use End::{Blocked, Exited, LimitReached, MemorySpent, Metered, Moved, Preempted};
pub(crate) use Mode::{Background, Foreground};

/// What a machine might have reported, in order.
pub(crate) struct Story {
    pub(crate) header: Header,
    steps: Vec<Step>,
    plan: Plan,
    /// What the controller and the policy counted, reported at the end.
    pub(crate) memory: Option<MemoryReport>,
    pub(crate) statistics: Vec<Statistic>,
}

enum Step {
    Event(Instant, Event),
    Planned(Instant, Box<Plan>),
    Note(VcpuId, String),
    Reported(Instant, &'static str, String),
}

pub(crate) const fn t(ticks: u64) -> Instant {
    Instant::from_ticks(ticks)
}

/// VCPU `id` with C every T and no jobs.
pub(crate) fn vcpu(id: u32, budget: u64, period: u64) -> Vcpu {
    Vcpu::new(id, Duration::from_ticks(budget), Duration::from_ticks(period))
}

impl Story {
    pub(crate) fn new(cores: usize, vcpus: Vec<Vcpu>) -> Self {
        let mut params = Params::new();
        params.set("background", Value::Text("fair".into()));
        let header = Header {
            policy: "maracas".into(),
            params,
            names: ["spin", "sort", "hog"].iter().take(vcpus.len()).map(|n| (*n).into()).collect(),
            system: System::new(cores, vcpus),
            machine: "sim".into(),
            version: "0.1.0".into(),
            seed: 7,
        };
        Self {
            header,
            steps: Vec::new(),
            plan: Plan::new(cores),
            memory: None,
            statistics: Vec::new(),
        }
    }
    pub(crate) fn event(&mut self, at: u64, event: Event) -> &mut Self {
        self.steps.push(Step::Event(t(at), event));
        self
    }
    pub(crate) fn ran(
        &mut self,
        (vcpu, core, mode): (u32, u16, Mode),
        (from, to): (u64, u64),
        end: End,
    ) -> &mut Self {
        let usage = Usage { service: Duration::from_ticks(to - from), ..Usage::default() };
        self.ran_with((vcpu, core, mode), (from, to), usage, end)
    }
    pub(crate) fn ran_with(
        &mut self,
        (vcpu, core, mode): (u32, u16, Mode),
        (from, to): (u64, u64),
        usage: Usage,
        end: End,
    ) -> &mut Self {
        let (vcpu, core, from) = (VcpuId(vcpu), CoreId(core), t(from));
        let segment = Segment { vcpu, core, mode, from, to: t(to), usage, end };
        self.event(to, Event::Ran(segment))
    }
    pub(crate) fn woke(&mut self, vcpu: u32, at: u64) -> &mut Self {
        self.event(at, Event::Woke { vcpu: VcpuId(vcpu), on_behalf: None, exact: true })
    }
    /// Job `index` of `vcpu`, released at `at` and due at `deadline`.
    pub(crate) fn released(&mut self, vcpu: u32, index: u32, at: u64, deadline: u64) -> &mut Self {
        let id = JobId { vcpu: VcpuId(vcpu), index };
        self.event(at, Event::Released(Job { id, release: t(at), deadline: t(deadline) }))
    }
    pub(crate) fn completed(&mut self, vcpu: u32, index: u32, at: u64) -> &mut Self {
        self.event(at, Event::Completed(JobId { vcpu: VcpuId(vcpu), index }))
    }
    /// A decision that changes the plan so.
    pub(crate) fn planned(&mut self, now: u64, change: impl FnOnce(&mut Plan)) -> &mut Self {
        let mut plan = Plan::new(self.plan.cores());
        for core in self.header.system.core_ids() {
            *plan.run_queue_mut(core) = self.plan.run_queue(core).clone();
        }
        // A clean copy: the dirty marks of the last decision are cleared as `decide` does it.
        plan = undirtied(&plan);
        change(&mut plan);
        self.plan = plan.clone();
        self.steps.push(Step::Planned(t(now), Box::new(plan)));
        self
    }
    pub(crate) fn named(&mut self, vcpu: u32, name: &str) -> &mut Self {
        self.steps.push(Step::Note(VcpuId(vcpu), name.into()));
        self
    }

    /// A note of a live machine: then the report is in the journal alone ([`Story::live`]).
    pub(crate) fn reported(&mut self, at: u64, key: &'static str, text: &str) -> &mut Self {
        self.steps.push(Step::Reported(t(at), key, text.into()));
        self
    }
    /// The report of the journal.
    pub(crate) fn live(&self, end: u64) -> Report {
        Report::from_journal(&self.journal(end)).unwrap()
    }

    /// Reports it to an observer, as a machine does.
    pub(crate) fn observe(&self, observer: &mut impl Observer) {
        for step in &self.steps {
            match step {
                Step::Event(at, event) => observer.event(*at, event),
                Step::Planned(now, plan) => observer.planned(*now, plan),
                Step::Note(..) | Step::Reported(..) => {}
            }
        }
    }
    fn streamed(&self, end: u64) -> Report {
        let mut metrics = Metrics::new(&self.header);
        self.observe(&mut metrics);
        for step in &self.steps {
            if let Step::Note(vcpu, name) = step {
                metrics.name(*vcpu, name);
            }
        }
        self.memory.iter().for_each(|counted| metrics.memory(counted));
        metrics.statistics(&self.statistics);
        metrics.report(t(end))
    }
    pub(crate) fn journal(&self, end: u64) -> Vec<u8> {
        let mut recorder = Recorder::new(&self.header);
        for step in &self.steps {
            match step {
                Step::Event(at, event) => recorder.event(*at, event),
                Step::Planned(now, plan) => recorder.planned(*now, plan),
                Step::Note(vcpu, name) => recorder.record(&Record::Note {
                    at: Instant::ZERO,
                    note: Note::Name { vcpu: *vcpu, name: name.clone() },
                }),
                Step::Reported(at, key, text) => recorder.record(&Record::Note {
                    at: *at,
                    note: Note::read((*key).into(), None, text.clone()),
                }),
            }
        }
        self.memory.iter().for_each(|it| recorder.record(&memory_note(t(end), it)));
        self.statistics.iter().for_each(|it| recorder.record(&statistic_note(t(end), it)));
        recorder.end(t(end));
        std::mem::take(recorder.bytes())
    }
    /// The report, which must be the same streamed and from the journal.
    pub(crate) fn report(&self, end: u64) -> Report {
        let streamed = self.streamed(end);
        assert_eq!(Report::from_journal(&self.journal(end)).unwrap(), streamed);
        streamed
    }
}

/// The same run queues, none of them dirty.
fn undirtied(plan: &Plan) -> Plan {
    struct Still;
    impl maracas_core::Policy for Still {
        fn on_event(&mut self, _: Instant, _: &Event) {}
        fn plan(&mut self, _: Instant, _: &mut Plan) {}
    }
    let mut plan = plan.clone();
    maracas_core::contract::decide(&mut Still, Instant::ZERO, &mut plan);
    plan
}

/// Leave for `vcpu` to run until its meter reads `until`.
pub(crate) const fn grant(vcpu: u32, until: u64) -> Grant {
    Grant::new(VcpuId(vcpu), Limit(Duration::from_ticks(until)))
}

/// Two cores, three VCPUs: `spin` without jobs (C = 4, T = 10), `sort` with jobs (3, 10) of which
/// one moves and one is late, `hog` kept out by the closed memory gate. Ticks are microseconds
/// here, so that pictures have a scale that people know.
pub(crate) fn figure() -> Story {
    let us = 1_000;
    let vcpus =
        vec![vcpu(0, 4 * us, 10 * us), vcpu(1, 3 * us, 10 * us).periodic(), vcpu(2, us, 20 * us)];
    let mut story = Story::new(2, vcpus);
    let memory = |service: u64| Usage {
        service: Duration::from_ticks(service),
        references: 60,
        reads: 30,
        writes: 10,
        instructions: 9,
        metered: None,
    };
    story.woke(0, 0).woke(2, 0).released(1, 0, 0, 10 * us);
    story.planned(0, |plan| {
        plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 4 * us)];
        plan.run_queue_mut(CoreId(0)).background = vec![grant(0, u64::MAX)].into();
        plan.run_queue_mut(CoreId(1)).foreground = vec![grant(1, u64::MAX), grant(2, us)];
        plan.run_queue_mut(CoreId(1)).background = vec![grant(2, u64::MAX)].into();
    });
    story.ran((1, 1, Foreground), (0, 2 * us), Moved);
    story.ran((2, 1, Foreground), (2 * us, 3 * us), LimitReached);
    story.ran_with((0, 0, Foreground), (0, 4 * us), memory(4 * us), LimitReached);
    story.ran((1, 0, Foreground), (4 * us, 5 * us), Blocked).completed(1, 0, 5 * us);
    story.ran((2, 1, Background), (3 * us, 6 * us), Preempted);
    story.planned(6 * us, |plan| plan.run_queue_mut(CoreId(1)).background_allowed = false);
    story.event(
        8 * us,
        Event::Sampled(maracas_core::contract::Sample {
            requests: 40,
            occupancy: 90,
            by_core: vec![40, 0],
        }),
    );
    story.ran((0, 0, Background), (5 * us, 8 * us), Metered);
    story.planned(8 * us, |plan| {
        plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 8 * us)];
        plan.run_queue_mut(CoreId(1)).background_allowed = true;
    });
    story.ran((0, 0, Background), (8 * us, 10 * us), Metered);
    story.ran((2, 1, Background), (8 * us, 10 * us), Preempted);
    story.released(1, 1, 10 * us, 20 * us);
    story.ran((0, 0, Foreground), (10 * us, 14 * us), Blocked);
    story.ran((1, 1, Foreground), (10 * us, 21 * us), Blocked).completed(1, 1, 21 * us);
    story.ran((2, 1, Background), (21 * us, 23 * us), Metered);
    story.memory = Some(MemoryReport {
        requests: 50,
        occupancy: 120,
        reads: 38,
        writes: 12,
        requests_by_cores: 40,
        devices: vec![DeviceReport { name: "network card".into(), requests: 10 }],
        ..MemoryReport::default()
    });
    let figure = |name, core: Option<u16>, value| Statistic {
        name,
        core: core.map(CoreId),
        vcpu: None,
        value,
    };
    story.statistics = vec![
        figure("throttle steps up", None, 3),
        figure("errors to 10%", Some(0), 0),
        figure("errors to 20%", Some(0), 0),
        figure("errors to 10%", Some(1), 4),
        figure("errors to 20%", Some(1), 0),
        figure("moves", None, 0),
    ];
    story
}

/// One fast and one slow core for two seconds: `spin` and `hog` without reservations, and `sort`
/// with (300 ms, 1 s), which never left the slow core. The policy's figures are by VCPU.
pub(crate) fn uneven() -> Story {
    let ms = 1_000_000;
    let vcpus = vec![Vcpu::best_effort(0), vcpu(1, 300 * ms, 1000 * ms), Vcpu::best_effort(2)];
    let mut story = Story::new(2, vcpus);
    story.header.system = story.header.system.uneven(&[(1, 1000), (1, 600)]);
    (0..3).for_each(|vcpu| _ = story.woke(vcpu, 0));
    let mut ran = |who, (from, to), instructions| {
        let service = Duration::from_ticks((to - from) * ms);
        let usage = Usage { service, instructions, ..Usage::default() };
        story.ran_with(who, (from * ms, to * ms), usage, Preempted);
    };
    ran((1, 1, Foreground), (0, 300), 300_000_000);
    ran((0, 0, Background), (0, 1000), 2_000_000_000);
    ran((2, 1, Background), (300, 1000), 700);
    ran((1, 1, Foreground), (1000, 1300), 300_000_000);
    ran((2, 0, Background), (1000, 2000), 1_500);
    ran((0, 1, Background), (1300, 2000), 875_000_000);
    let figure = |name, vcpu: Option<u32>, value| Statistic {
        name,
        core: None,
        vcpu: vcpu.map(VcpuId),
        value,
    };
    story.statistics = vec![
        figure("speedup milli", Some(0), 1600),
        figure("speedup milli", Some(1), 0),
        figure("speedup milli", Some(2), 1500),
        figure("swaps", None, 1),
    ];
    story
}
