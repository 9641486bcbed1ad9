//! What a run shows, set against what memory-aware scheduling promises.

use super::reported::{Reported, Sampled};
use crate::bench::verdict::Verdict;
use maracas_core::{CoreId, Duration, Instant, Rate, Role};
use maracas_session::case::Case;
use maracas_trace::Report;
use maracas_trace::table::time;

/// How fast surplus time ends, in the median.
pub(super) const STOPS_WITHIN: Duration = Duration::from_micros(100);
/// By what fraction a mean budget may be off (that of a verdict, docs/output.md).
pub(super) const BUDGET_ERROR: f64 = 0.005;

/// What of Algorithm 1 decides how many cores are throttled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Law {
    cores: u64,
    /// MAX_MEM_LAT.
    max_latency: u64,
    /// MEM_PERIOD.
    period: Duration,
    /// IDLE_MEM.
    idle_mem: Rate,
    min_requests: u64,
    hold: u64,
}

impl Law {
    /// As the case's parameters say; `None` where its policy is another.
    pub(super) fn of(case: &Case) -> Option<Self> {
        let whole = |name| Some(case.params.whole(case.spec(name)?));
        Some(Self {
            cores: case.start.cores.len() as u64,
            max_latency: whole("max_latency")?,
            period: case.params.time(case.spec("mem_period")?)?,
            idle_mem: case.params.fraction(case.spec("idle_mem")?),
            min_requests: whole("min_requests")?,
            hold: whole("hold")?,
        })
    }

    /// How many cores are to be throttled after each sample, worked out anew from the samples.
    pub(super) fn throttled(&self, samples: &[Sampled]) -> Vec<u64> {
        let (mut throttled, mut high, mut calm) = (0, 0, 0);
        let mut last = Instant::ZERO;
        let mut all = Vec::new();
        for Sampled { at, sample, .. } in samples {
            let elapsed = at.saturating_since(last).max(Duration::from_ticks(1));
            last = *at;
            let scaled = |count: u64| {
                let product = u128::from(count) * u128::from(self.period.ticks());
                u64::try_from(product / u128::from(elapsed.ticks())).unwrap_or(u64::MAX)
            };
            let traffic: u64 = sample.by_core.iter().map(|count| scaled(*count)).sum();
            let contended = scaled(sample.requests) >= self.min_requests
                && sample.latency_reaches(self.max_latency);
            if throttled > 0 {
                high = traffic.max(high);
            }
            let calms = !contended && throttled > 0 && self.is_less_traffic(traffic, high);
            calm = if calms { calm + 1 } else { 0 };
            if contended && throttled < self.cores {
                high = if throttled == 0 { traffic } else { high };
                throttled += 1;
            } else if calm > self.hold {
                (throttled, calm) = (throttled - 1, 0);
            }
            all.push(throttled);
        }
        all
    }

    /// IS_LESS_TRAFFIC, lines 20 to 26.
    fn is_less_traffic(&self, traffic: u64, high: u64) -> bool {
        u128::from(traffic) * u128::from(self.idle_mem.den())
            <= u128::from(high) * u128::from(self.idle_mem.num())
    }
}

/// How fast a core's surplus time ended.
#[derive(Clone, Debug)]
pub(super) struct Stops {
    pub(super) core: CoreId,
    /// How often its background was closed.
    pub(super) closings: usize,
    /// For how long in all.
    pub(super) closed: Duration,
    /// Of the closings at which a VCPU used surplus time: how long still, in order of length.
    pub(super) took: Vec<Duration>,
}

impl Stops {
    /// Of each core.
    pub(super) fn of(reported: &Reported, cores: usize) -> Vec<Self> {
        let core = |core| {
            let own = || reported.closings.iter().filter(move |closing| closing.core == core);
            let took = own().filter_map(|it| Some(it.last?.saturating_since(it.from)));
            let mut took: Vec<_> = took.collect();
            took.sort_unstable();
            let closed = own().map(|it| it.to.saturating_since(it.from));
            let closed = closed.fold(Duration::ZERO, |sum, it| sum + it);
            Self { core, closings: own().count(), closed, took }
        };
        (0..cores as u16).map(|number| core(CoreId(number))).collect()
    }
}

/// A percentile of lengths in order, by nearest rank; `None` where there are none.
pub(super) fn percentile(lengths: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (lengths.len() * percent).div_ceil(100);
    lengths.get(rank.saturating_sub(1)).copied()
}

/// By what fraction the mean budget of a VCPU is off.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Budget {
    pub(super) name: String,
    pub(super) budget_ns: u64,
    pub(super) period_ns: u64,
    pub(super) periods: u64,
    pub(super) off: f64,
}

/// Of each VCPU that always had something to run.
pub(super) fn budgets(case: &Case, report: &Report) -> Vec<Budget> {
    let own = |id: u32| {
        let vcpu = case.system.vcpus.iter().find(|vcpu| vcpu.id.0 == id);
        vcpu.is_some_and(|vcpu| matches!(vcpu.role, Role::Main | Role::Io))
    };
    let judged = report.tasks.iter().filter(|task| own(task.id));
    let budget = judged.filter_map(|task| {
        let mean = task.delivered.mean_ns?;
        Some(Budget {
            name: task.name.clone(),
            budget_ns: task.budget_ns,
            period_ns: task.period_ns,
            periods: task.delivered.periods,
            off: mean / task.budget_ns as f64 - 1.0,
        })
    });
    budget.collect()
}

/// Everything that is asked of a run.
pub(super) fn verdicts(
    reported: &Reported,
    law: &Law,
    stops: &[Stops],
    budgets: &[Budget],
) -> Vec<Verdict> {
    let replays = Verdict {
        name: "replay",
        holds: reported.exact,
        text: "a fresh policy decides the same from the journal".into(),
    };
    vec![throttles(reported), stop(stops), kept(budgets), releases(reported, law), replays]
}

/// Steps of k: how often up, how often down.
pub(super) fn steps(samples: &[Sampled]) -> (usize, usize) {
    let (mut before, mut up, mut down) = (0, 0, 0);
    for Sampled { throttled, .. } in samples {
        up += usize::from(*throttled > before);
        down += usize::from(*throttled < before);
        before = *throttled;
    }
    (up, down)
}

fn throttles(reported: &Reported) -> Verdict {
    let (up, down) = steps(&reported.samples);
    Verdict {
        name: "throttles",
        holds: up > 0 && down > 0,
        text: format!(
            "the episode drives throttling of real programs: {} samples, one core more {up} \
             times, one less {down} times",
            reported.samples.len()
        ),
    }
}

fn stop(stops: &[Stops]) -> Verdict {
    let mut all: Vec<_> = stops.iter().flat_map(|core| core.took.iter().copied()).collect();
    all.sort_unstable();
    let said = |percent| percentile(&all, percent).map_or("-".into(), |it| time(it.ticks() as f64));
    Verdict {
        name: "stops",
        holds: percentile(&all, 50).is_some_and(|median| median < STOPS_WITHIN),
        text: format!(
            "surplus time ends within {STOPS_WITHIN} of the decision in the median: p50 {}, p99 \
             {}, of {}",
            said(50),
            said(99),
            all.len()
        ),
    }
}

fn kept(budgets: &[Budget]) -> Verdict {
    let worst = budgets.iter().max_by(|a, b| a.off.abs().total_cmp(&b.off.abs()));
    let said = worst.map_or("none was judged".into(), |worst| {
        format!("worst: {}, {:+.3} %", worst.name, worst.off * 100.0)
    });
    Verdict {
        name: "budgets",
        holds: worst.is_some_and(|worst| worst.off.abs() <= BUDGET_ERROR),
        text: format!("every mean budget is within {} % of C; {said}", BUDGET_ERROR * 100.0),
    }
}

fn releases(reported: &Reported, law: &Law) -> Verdict {
    let expected = law.throttled(&reported.samples);
    let other = reported.samples.iter().zip(&expected).filter(|(had, due)| had.throttled != **due);
    let (other, (_, down)) = (other.count(), steps(&reported.samples));
    Verdict {
        name: "releases",
        holds: other == 0 && down > 0,
        text: format!(
            "each of {down} releases, and every other sample, follows Algorithm 1 \
             (IS_LESS_TRAFFIC) as worked out anew from the samples; {other} of {} do not",
            expected.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::reported::Closing;
    use super::*;
    use maracas_core::contract::Sample;

    const LAW: Law = Law {
        cores: 2,
        max_latency: 100,
        period: Duration::from_millis(100),
        idle_mem: Rate::new(1, 2),
        min_requests: 0,
        hold: 0,
    };

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Samples at 100 ms each: latency, and requests of both cores.
    fn sampled(seen: &[(u64, u64, u64)]) -> Vec<Sampled> {
        let one = |(place, (latency, requests, throttled)): (usize, &(u64, u64, u64))| Sampled {
            at: ms(100 * (place as u64 + 1)),
            sample: Sample {
                requests: *requests,
                occupancy: latency * requests,
                by_core: vec![requests / 2, requests - requests / 2],
            },
            throttled: *throttled,
        };
        seen.iter().enumerate().map(one).collect()
    }

    #[test]
    fn algorithm_1_is_worked_out_from_samples_alone() {
        // Up at 100 cycles, once more, kept while traffic is above half of the most (1000).
        let seen = [
            (90, 900, 0),
            (100, 1000, 1),
            (120, 800, 2),
            (120, 800, 2),
            (90, 600, 2),
            (90, 500, 1),
            (90, 400, 0),
            (0, 0, 0),
        ];
        let samples = sampled(&seen);
        let expected: Vec<_> = seen.iter().map(|(_, _, throttled)| *throttled).collect();
        assert_eq!(LAW.throttled(&samples), expected);
        let patient = Law { hold: 1, ..LAW };
        assert_eq!(patient.throttled(&samples), [0, 1, 2, 2, 2, 2, 1, 1]);
        // A sample that comes late is scaled to a period.
        let mut late = samples;
        late[5].at = ms(650);
        late[5].sample.by_core = vec![375, 375];
        assert_eq!(LAW.throttled(&late)[5], 1);
    }

    #[test]
    fn one_release_too_early_is_found() {
        let fine = sampled(&[(100, 1000, 1), (90, 500, 0)]);
        let early = sampled(&[(100, 1000, 1), (90, 501, 0)]);
        for (samples, holds) in [(fine, true), (early, false)] {
            let reported = Reported { samples, ..Reported::default() };
            assert_eq!(releases(&reported, &LAW).holds, holds);
        }
    }

    #[test]
    fn what_stops_late_is_seen_in_the_median() {
        let closing =
            |from, last| Closing { core: CoreId(1), from: ms(from), to: ms(from + 5), last };
        let us = |from, us| Some(ms(from) + Duration::from_micros(us));
        let closings = vec![
            closing(10, us(10, 20)),
            closing(20, None),
            closing(30, us(30, 99)),
            closing(40, us(40, 900)),
        ];
        let reported = Reported { closings, ..Reported::default() };
        let stops = Stops::of(&reported, 2);
        assert_eq!((stops[0].closings, stops[1].closings), (0, 4));
        assert_eq!(stops[1].closed, Duration::from_millis(20));
        assert_eq!(percentile(&stops[1].took, 50), Some(Duration::from_micros(99)));
        assert!(stop(&stops).holds);
        assert!(!stop(&stops[..1]).holds, "nothing stopped");
    }

    #[test]
    fn the_worst_budget_decides() {
        let budget = |off| Budget {
            name: "a".into(),
            budget_ns: 2_000_000,
            period_ns: 10_000_000,
            periods: 100,
            off,
        };
        assert!(kept(&[budget(0.004), budget(-0.005)]).holds);
        assert!(!kept(&[budget(0.001), budget(-0.006)]).holds);
        assert!(!kept(&[]).holds);
    }
}
