//! From counts to the report.

use super::Metrics;
use super::cores::CoreTime;
use super::judge::Finding;
use super::place;
use super::task::Task;
use crate::report::{
    CoreReport, Counts, Delivered, FORMAT, PromiseReport, Report, TaskReport, Total, Verdict, Word,
};
use maracas_core::contract::{Mode, Usage};
use maracas_core::params::Value;
use maracas_core::{Duration, Instant};

pub(super) fn report(metrics: &Metrics, end: Instant) -> Report {
    let header = &metrics.header;
    let ticks_per_ns = header.system.ticks_per_ns.max(1);
    let scale = Scale { ticks_per_ns, elapsed: end.ticks() };
    let cut = metrics.whole.cut;
    let fairness = metrics.fairness.as_ref().filter(|_| cut.is_none());
    let fairness = fairness.map(|fairness| fairness.finished(end));
    let finish = metrics.finish_at(end);
    let tasks: Vec<TaskReport> = metrics
        .tasks
        .iter()
        .filter(|task| task.present)
        .map(|task| {
            let mut task = task.clone();
            task.finish(&finish);
            task.settle(metrics.causes.thefts());
            let speed = fairness.as_ref().and_then(|fairness| fairness.report(task.id));
            let verdict = verdict(&task, &scale, most_stolen(metrics, &task));
            TaskReport { speed, verdict, ..task_report(&task, &metrics.cores, &scale) }
        })
        .collect();
    let cores: Vec<CoreReport> = (0..)
        .zip(&metrics.cores)
        .map(|(core, time)| CoreReport {
            causes: metrics.causes.of(core).cloned(),
            ..core_report(core, time, end, &scale)
        })
        .collect();
    let promise = PromiseReport {
        kept: cut.is_none() && tasks.iter().all(|task| !task.verdict.is_broken()),
        strict: metrics.judge.is_strict(),
        wake_cost: metrics.causes.wake_cost(),
        asked_ns: None,
        lasted_ns: None,
        ended: None,
        cut,
    };
    let speeds = tasks.iter().filter_map(|task| Some((task.id, task.speed.as_ref()?)));
    let fairness = fairness.map(|fairness| fairness.summary(speeds));
    let report = Report {
        format: FORMAT,
        version: header.version.clone(),
        machine: header.machine.clone(),
        policy: header.policy.clone(),
        params: header.params.iter().map(|(key, value)| (key.into(), shown(value))).collect(),
        seed: header.seed,
        duration_ns: scale.ns(end.ticks()),
        lost_records: metrics.lost_records,
        total: total(&tasks, metrics.decisions),
        tasks,
        cores,
        memory: metrics.memory.clone(),
        controller: metrics.controller.report(ticks_per_ns),
        statistics: metrics.statistics.clone(),
        dispatch: metrics.dispatches.report(),
        sensing: metrics.sensing.report(),
        agents_ns: metrics.whole.agents_ns,
        fairness,
        promise,
        programs: Vec::new(),
        trouble: Vec::new(),
    };
    match &metrics.whole.run {
        Some(run) => report.of_run(run.clone()),
        None => report,
    }
}

/// How many ticks were stolen at most of the cores on which a VCPU ran. That is told at the end of
/// a live run: where it has none, it may be any amount.
fn most_stolen(metrics: &Metrics, task: &Task) -> u64 {
    if metrics.whole.cut.is_some() && metrics.header.machine == "live" {
        return u64::MAX;
    }
    let causes = task.cores.iter().filter_map(|core| metrics.causes.of(core.0));
    let stolen_ns = causes.map(|it| it.steal_ns).fold(0, u64::saturating_add);
    stolen_ns.saturating_mul(metrics.header.system.ticks_per_ns.max(1))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Whole(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// How ticks become nanoseconds and shares of the run.
struct Scale {
    ticks_per_ns: u64,
    elapsed: u64,
}

impl Scale {
    const fn ns(&self, ticks: u64) -> u64 {
        ticks / self.ticks_per_ns
    }
    fn ns_of(&self, ticks: f64) -> f64 {
        ticks / self.ticks_per_ns as f64
    }
    fn share(&self, ticks: u64) -> f64 {
        ratio(ticks, self.elapsed)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn task_report(task: &Task, cores: &[CoreTime], scale: &Scale) -> TaskReport {
    let (jobs, pieces) = (&task.jobs, &task.pieces);
    let [foreground, background] = task.used.map(|used| used.service.ticks());
    let around: u64 = task.cores.iter().map(|core| cores[core.0 as usize].background_service).sum();
    let finished = jobs.completed.max(1) as f64;
    let reserved = |of: Duration| if task.reservation.is_none() { 0 } else { scale.ns(of.ticks()) };
    TaskReport {
        id: task.id.0,
        name: task.name.clone(),
        budget_ns: reserved(task.reservation.budget),
        period_ns: reserved(task.reservation.period),
        deadline_ns: reserved(task.reservation.deadline),
        jobs: jobs.released,
        completed: jobs.completed,
        misses: jobs.misses,
        tardiness_max_ns: scale.ns(jobs.tardiness_max.ticks()),
        response_mean_ns: scale.ns_of(jobs.response_sum as f64 / finished),
        response_max_ns: scale.ns(jobs.response_max.ticks()),
        preemptions: pieces.preemptions,
        migrations: pieces.migrations,
        task_migrations: pieces.task_migrations,
        foreground_ns: scale.ns(foreground),
        background_ns: scale.ns(background),
        share: scale.share(foreground + background),
        background_share: ratio(background, around),
        cores: task.cores.iter().map(|core| core.0).collect(),
        delivered: delivered(task, scale),
        verdict: Verdict::default(),
        held_ns: scale.ns(task.held.total.ticks()),
        foreground: counted(&task.used[place(Mode::Foreground)]),
        background: counted(&task.used[place(Mode::Background)]),
        speed: None,
    }
}

const fn counted(used: &Usage) -> Counts {
    Counts {
        instructions: used.instructions,
        references: used.references,
        misses: used.reads,
        writes: used.writes,
    }
}

fn delivered(task: &Task, scale: &Scale) -> Delivered {
    let windows = &task.windows;
    let (errors, counted) = (windows.errors.sizes(), windows.errors.count() > 0);
    let percentile = |p| counted.then(|| scale.ns(errors.percentile(p)));
    let signed = |p| {
        let (is_below, size) = windows.errors.percentile(p);
        let size = scale.ns(size) as i64;
        counted.then_some(if is_below { -size } else { size })
    };
    Delivered {
        periods: errors.count(),
        periods_without_demand: windows.without_demand,
        mean_ns: windows.mean().map(|mean| scale.ns_of(mean)),
        mean_of_all_ns: windows.mean_of_all().map(|mean| scale.ns_of(mean)),
        error_mean_ns: counted.then(|| scale.ns_of(errors.mean())),
        error_p50_ns: percentile(50),
        error_p99_ns: percentile(99),
        error_max_ns: counted.then(|| scale.ns(errors.max())),
        signed_error_p1_ns: signed(1),
        signed_error_p50_ns: signed(50),
        signed_error_p99_ns: signed(99),
    }
}

/// What became of its promise, where so many ticks were stolen of the cores that it ran on.
fn verdict(task: &Task, scale: &Scale, stolen: u64) -> Verdict {
    if !task.is_promised() {
        return Verdict::default();
    }
    let (windows, judge) = (&task.windows, &task.windows.judge);
    Verdict {
        word: match windows.finding(stolen) {
            Finding::Kept => Word::Kept,
            Finding::Broken { short: true, over: true } => Word::Both,
            Finding::Broken { over: true, .. } => Word::Over,
            Finding::Broken { .. } => Word::Short,
            Finding::NoDemand => Word::NoDemand,
            Finding::NoPeriod => Word::NoPeriod,
            Finding::Held => Word::Held,
            Finding::Stolen => Word::Stolen,
        },
        judged: judge.judged(),
        short: judge.short.periods,
        short_worst_ns: scale.ns(judge.short.worst),
        over: judge.over.periods,
        over_worst_ns: scale.ns(judge.over.worst),
        stolen: judge.stolen,
        held: judge.held,
        mean_off: judge.mean_off(),
        mean_off_of_all: windows.mean_off_of_all(),
        tolerance_ns: scale.ns(judge.tolerance(task.reservation.budget.ticks())),
    }
}

fn core_report(core: u16, time: &CoreTime, end: Instant, scale: &Scale) -> CoreReport {
    let [foreground, background] = time.busy;
    let throttled = time.throttled_until(end);
    let idle = scale.elapsed.saturating_sub(foreground + background + throttled);
    CoreReport {
        core,
        foreground_ns: scale.ns(foreground),
        background_ns: scale.ns(background),
        throttled_ns: scale.ns(throttled),
        idle_ns: scale.ns(idle),
        decisions: time.decisions,
        requests: time.requests,
        causes: None,
    }
}

fn total(tasks: &[TaskReport], decisions: u64) -> Total {
    let sum = |of: fn(&TaskReport) -> u64| tasks.iter().map(of).sum();
    Total {
        jobs: sum(|task| task.jobs),
        completed: sum(|task| task.completed),
        misses: sum(|task| task.misses),
        preemptions: sum(|task| task.preemptions),
        migrations: sum(|task| task.migrations),
        task_migrations: sum(|task| task.task_migrations),
        foreground_ns: sum(|task| task.foreground_ns),
        background_ns: sum(|task| task.background_ns),
        decisions,
    }
}
