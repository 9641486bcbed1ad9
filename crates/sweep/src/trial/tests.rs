use super::*;
use maracas_core::journal::Header;
use maracas_core::{Arrival, Job, Vcpu, VcpuId};
use maracas_trace::Metrics;

const MS: u64 = 1_000_000;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): enough for sets to test with.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// Tasks with harmonic and other periods whose utilisations sum to at most `cores`.
fn set(seed: u64, cores: u64, sporadic: bool) -> TaskSet {
    let mut draws = Draws(seed);
    let mut left = cores * 1_000;
    let mut tasks: Vec<Vcpu> = Vec::new();
    while left > 0 {
        let share = (1 + draws.below(900)).min(left);
        left -= share;
        let period = [4, 5, 8, 10, 16, 20, 32, 40][draws.below(8) as usize] * MS;
        let budget = Duration::from_nanos(period / 1_000 * share);
        let mut task = Vcpu::new(tasks.len() as u32, budget, Duration::from_nanos(period));
        let offset = Duration::from_nanos(draws.below(3) * MS);
        task.arrival = if sporadic { Arrival::Sporadic } else { Arrival::Periodic { offset } };
        tasks.push(task);
    }
    TaskSet { tasks, ..TaskSet::default() }
}

fn subject(name: &str) -> Subject {
    let entry = maracas_policies::find(name).expect("the policy is registered");
    Subject { entry, params: Params::new() }
}

fn charge(until_ms: u64, overheads: Overheads) -> Charge {
    let until = Instant::from_ticks(until_ms * MS);
    Charge { until, seed: 5, overheads, bound: Duration::ZERO }
}

/// The same figures by the full metrics, with the sum of tardiness counted beside them.
fn by_metrics(set: &TaskSet, cores: usize, subject: &Subject, charge: &Charge) -> Tally {
    let system = set.system(cores);
    let Ok(mut policy) = (subject.entry.build)(&system, &subject.params) else {
        return Tally::default();
    };
    let header = Header {
        policy: subject.entry.name.into(),
        params: subject.params.clone(),
        names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
        system: system.clone(),
        machine: "sim".into(),
        version: String::new(),
        seed: charge.seed,
    };
    let mut both = (Metrics::new(&header), Late::default());
    let options =
        Options { seed: charge.seed, overheads: charge.overheads, ..Options::new(charge.until) };
    let programs = programs(set, charge.bound);
    let outcome = maracas_sim::run(&system, &programs, policy.as_mut(), &options, &mut both);
    let (report, late) = (both.0.report(outcome.end), both.1);
    let jobs =
        |of: fn(&maracas_trace::report::TaskReport) -> u64| report.tasks.iter().map(of).sum();
    Tally {
        accepted: true,
        released: report.total.jobs,
        completed: outcome.completed,
        missed: report.total.misses,
        tardiness_max_ns: report.tasks.iter().map(|it| it.tardiness_max_ns).max().unwrap_or(0),
        tardiness_sum_ns: late.sum(outcome.end),
        preemptions: report.total.preemptions,
        migrations: report.total.migrations,
        task_migrations: jobs(|task| task.task_migrations),
        decisions: outcome.decisions,
        depth: policy.statistics().iter().find(|it| it.name == LEVELS).map_or(0, |it| it.value),
        charged_ns: charge.overheads.context_switch.ticks() * outcome.context_switches
            + charge.overheads.migration.ticks() * late.moves
            + charge.overheads.decision.ticks() * outcome.decisions
            + charge.overheads.release.ticks() * outcome.released,
    }
}

/// All jobs with their ends, and the segments that begin elsewhere than the task's last one ended.
#[derive(Default)]
struct Late {
    jobs: Vec<(Job, Option<Instant>)>,
    last: Vec<Option<u16>>,
    moves: u64,
}

impl Late {
    fn sum(&self, end: Instant) -> u64 {
        let by = |(job, done): &(Job, Option<Instant>)| {
            done.unwrap_or(end).saturating_since(job.deadline)
        };
        self.jobs.iter().map(|job| by(job).ticks()).sum()
    }
}

impl Observer for Late {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Released(job) = event {
            self.jobs.push((*job, None));
        } else if let Event::Completed(id) = event {
            let job = self.jobs.iter_mut().find(|(job, _)| job.id == *id);
            job.expect("what completes was released").1 = Some(at);
        } else if let Event::Ran(segment) = event {
            let index = segment.vcpu.0 as usize;
            self.last.resize(self.last.len().max(index + 1), None);
            let before = self.last[index].replace(segment.core.0);
            self.moves += u64::from(before.is_some_and(|core| core != segment.core.0));
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Holds the light counter equal to the metrics; returns the tally.
fn held(set: &TaskSet, cores: usize, name: &str, charge: &Charge) -> Tally {
    let subject = subject(name);
    let tally = run(set, cores, &subject, charge);
    let metrics = by_metrics(set, cores, &subject, charge);
    assert_eq!(tally, metrics, "{name} on {cores} cores: {set}");
    tally
}

#[test]
fn counts_equal_those_of_the_full_metrics() {
    let mut sums = Tally::default();
    let us = Duration::from_micros;
    let costly = Overheads {
        context_switch: us(3),
        migration: us(20),
        decision: us(1),
        release: us(2),
        ..Overheads::FREE
    };
    for seed in 0..40 {
        let cores = 1 + seed as usize % 5;
        for (name, sporadic) in [
            ("p-edf", seed % 3 == 0),
            ("g-edf", seed % 2 == 0),
            ("run", false),
            ("qps", seed % 2 == 0),
        ] {
            let set = set(seed, cores as u64, sporadic);
            for overheads in [Overheads::FREE, costly] {
                let tally = held(&set, cores, name, &charge(300, overheads));
                sums.missed += tally.missed;
                sums.preemptions += tally.preemptions;
                sums.migrations += tally.migrations;
                sums.task_migrations += tally.task_migrations;
                sums.tardiness_sum_ns += tally.tardiness_sum_ns;
                sums.charged_ns += tally.charged_ns;
                sums.depth += tally.depth;
            }
        }
    }
    // The equality would say nothing of what never happens.
    let counts = [sums.missed, sums.preemptions, sums.migrations, sums.task_migrations];
    assert!(counts.iter().all(|count| *count > 1_000), "{sums:?}");
    assert!(sums.tardiness_sum_ns > 0 && sums.charged_ns > 0 && sums.depth > 0, "{sums:?}");
}

#[test]
fn a_refused_set_counts_nothing_and_is_no_success() {
    let two_thirds =
        |id| Vcpu::new(id, Duration::from_millis(2), Duration::from_millis(3)).periodic();
    let set = TaskSet { tasks: (0..3).map(two_thirds).collect(), ..TaskSet::default() };
    let charge = charge(30, Overheads::FREE);
    let refused = run(&set, 2, &subject("p-edf"), &charge);
    assert_eq!(refused, Tally::default());
    assert!(!refused.success());
    // The example of RUN's paper, which RUN schedules and G-EDF does not.
    assert!(run(&set, 2, &subject("run"), &charge).success());
    let global = run(&set, 2, &subject("g-edf"), &charge);
    assert!(global.accepted && global.missed > 0 && !global.success());
    assert_eq!(global.released, 30);
}

#[test]
fn the_bound_is_taken_from_every_job_and_a_tick_is_left() {
    let us = Duration::from_micros;
    let set = TaskSet {
        tasks: vec![
            Vcpu::new(0, us(600), us(1_000)).periodic(),
            Vcpu::new(1, us(400), us(1_000)).periodic(),
        ],
        ..TaskSet::default()
    };
    let overheads = Overheads { context_switch: us(10), release: us(10), ..Overheads::FREE };
    let without = charge(10, overheads);
    assert!(run(&set, 1, &subject("p-edf"), &without).missed > 0);
    let with = Charge { bound: us(20), ..without };
    let tally = run(&set, 1, &subject("p-edf"), &with);
    assert!(tally.success(), "{tally:?}");
    assert_eq!(tally.charged_ns, 20 * 10_000 + 20 * 10_000);
    let all = Charge { bound: us(900), ..without };
    assert_eq!(run(&set, 1, &subject("p-edf"), &all).completed, 20);
}

#[test]
fn service_vcpus_come_along_and_what_they_do_is_not_counted() {
    let entry = maracas_policies::find("maracas").expect("registered");
    let mut params = Params::new();
    params.set("throttle", maracas_core::params::Value::Text("latency".into()));
    assert_eq!(params.check(entry.params), Ok(()));
    let task = |id| Vcpu::new(id, Duration::from_millis(2), Duration::from_millis(10)).periodic();
    let set = TaskSet { tasks: vec![task(0), task(1)], ..TaskSet::default() };
    assert_eq!((entry.service_vcpus)(&set.system(2), &params, VcpuId(2)).len(), 1);
    let subject = Subject { entry, params };
    let tally = run(&set, 2, &subject, &charge(100, Overheads::FREE));
    assert!(tally.success(), "{tally:?}");
    assert_eq!((tally.released, tally.preemptions, tally.migrations), (20, 0, 0));
}
