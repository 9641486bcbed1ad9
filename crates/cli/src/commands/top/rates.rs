//! What happened between two looks: sums become shares and rates.

use maracas_core::Duration;
use maracas_core::control::{CoreGauges, Gauges, VcpuGauges};

/// What a core did, as shares of the time between.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct CoreRates {
    pub(super) foreground: f64,
    pub(super) background: f64,
    pub(super) throttled: f64,
    pub(super) idle: f64,
    /// Requests to memory a second; `None` where they are not counted.
    pub(super) requests: Option<f64>,
}

impl CoreRates {
    /// The share of the time in which a VCPU ran.
    pub(super) fn busy(&self) -> f64 {
        self.foreground + self.background
    }
}

/// What a VCPU did, as shares of the time between.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct VcpuRates {
    pub(super) foreground: f64,
    pub(super) background: f64,
    /// Reads of memory a second; `None` where none were counted.
    pub(super) reads: Option<f64>,
}

/// What happened between two looks. All zero where no time has passed.
#[derive(Clone, PartialEq, Default, Debug)]
pub(super) struct Rates {
    /// The time between, in seconds.
    pub(super) seconds: f64,
    /// By the places of [`Gauges::cores`].
    pub(super) cores: Vec<CoreRates>,
    /// By the places of [`Gauges::vcpus`].
    pub(super) vcpus: Vec<VcpuRates>,
    pub(super) decisions: f64,
    pub(super) migrations: f64,
    /// Average latency of a memory request in the last sample, in cycles.
    pub(super) latency: Option<f64>,
    /// Requests to memory a second in the last sample.
    pub(super) requests: Option<f64>,
}

impl Rates {
    /// Between two looks at one run; from its start without the first.
    pub(super) fn between(before: Option<&Gauges>, now: &Gauges) -> Self {
        let start = Gauges::default();
        let before = before.unwrap_or(&start);
        let span = now.at.saturating_since(before.at);
        let per_second = |now: u64, before: u64| rate(now.saturating_sub(before), span);
        let memory = now.memory.filter(|memory| memory.last_requests > 0);
        let sampled = memory.map(|memory| memory.last_span);
        let core = |core: &CoreGauges| {
            let old = before.cores.iter().find(|old| old.core == core.core);
            core_rates(old, core, span, sampled)
        };
        let vcpu = |vcpu: &VcpuGauges| {
            let old = before.vcpus.iter().find(|old| old.vcpu == vcpu.vcpu);
            vcpu_rates(old, vcpu, span)
        };
        Self {
            seconds: span.ticks() as f64 / 1e9,
            cores: now.cores.iter().map(core).collect(),
            vcpus: now.vcpus.iter().map(vcpu).collect(),
            decisions: per_second(now.decisions, before.decisions),
            migrations: per_second(now.migrations, before.migrations),
            // Without occupancy it is not counted how long requests wait.
            latency: memory
                .filter(|it| it.last_occupancy > 0)
                .map(|it| it.last_occupancy as f64 / it.last_requests as f64),
            requests: memory.map(|it| rate(it.last_requests, it.last_span)),
        }
    }
}

/// So many a second; 0 in no time.
fn rate(count: u64, span: Duration) -> f64 {
    if span.is_zero() { 0.0 } else { count as f64 * 1e9 / span.ticks() as f64 }
}

/// What part of `span` was added to a sum of time. A segment is reported when it ends: an interval
/// may get more than it holds.
fn share(now: Duration, before: Option<Duration>, span: Duration) -> f64 {
    let more = now.saturating_sub(before.unwrap_or(Duration::ZERO));
    if span.is_zero() { 0.0 } else { (more.ticks() as f64 / span.ticks() as f64).min(1.0) }
}

fn core_rates(
    old: Option<&CoreGauges>,
    now: &CoreGauges,
    span: Duration,
    sampled: Option<Duration>,
) -> CoreRates {
    let part = |of: fn(&CoreGauges) -> Duration| share(of(now), old.map(of), span);
    let (foreground, background) = (part(|core| core.foreground), part(|core| core.background));
    let throttled = part(|core| core.throttled);
    // A VCPU with counters of its own is counted at every instant, samples are seldom.
    let counted = now.requests - old.map_or(0, |old| old.requests).min(now.requests);
    let requests = match sampled {
        _ if now.requests > 0 => Some(rate(counted, span)),
        Some(sampled) if now.sampled > 0 => Some(rate(now.last_sampled, sampled)),
        Some(_) | None => None,
    };
    let idle = (1.0 - foreground - background - throttled).max(0.0);
    CoreRates { foreground, background, throttled, idle, requests }
}

fn vcpu_rates(old: Option<&VcpuGauges>, now: &VcpuGauges, span: Duration) -> VcpuRates {
    let reads = now.reads - old.map_or(0, |old| old.reads).min(now.reads);
    VcpuRates {
        foreground: share(now.foreground, old.map(|old| old.foreground), span),
        background: share(now.background, old.map(|old| old.background), span),
        reads: (now.reads > 0).then(|| rate(reads, span)),
    }
}

#[cfg(test)]
pub(super) mod tests;
