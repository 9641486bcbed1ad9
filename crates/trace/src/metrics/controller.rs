//! What the memory controller counted, as the monitor sampled it.

use crate::report::{ControllerReport, latency};
use maracas_core::Instant;
use maracas_core::contract::Sample;

/// Sums over all samples.
#[derive(Clone, Default, Debug)]
pub(super) struct Totals {
    samples: u64,
    /// When the last one was taken.
    last: Instant,
    requests: u64,
    occupancy: u64,
    by_cores: u64,
    /// The sample of the highest latency: occupancy and requests.
    highest: (u64, u64),
}

impl Totals {
    pub(super) fn sampled(&mut self, at: Instant, sample: &Sample) {
        self.samples += 1;
        self.last = at;
        self.requests += sample.requests;
        self.occupancy += sample.occupancy;
        self.by_cores += sample.by_cores();
        let times = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let (occupancy, requests) = self.highest;
        let higher = times(sample.occupancy, requests) > times(occupancy, sample.requests);
        if sample.requests > 0 && (requests == 0 || higher) {
            self.highest = (sample.occupancy, sample.requests);
        }
    }
    /// `None` where nothing was sampled.
    pub(super) fn report(&self, ticks_per_ns: u64) -> Option<ControllerReport> {
        (self.samples > 0).then(|| ControllerReport {
            samples: self.samples,
            sampled_ns: self.last.ticks() / ticks_per_ns,
            requests: self.requests,
            occupancy: self.occupancy,
            requests_by_cores: self.by_cores,
            latency_mean_cycles: latency(self.occupancy, self.requests),
            latency_max_cycles: latency(self.highest.0, self.highest.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_occupancy_by_requests_over_all_samples() {
        let mut totals = Totals::default();
        assert_eq!(totals.report(1), None);
        for (at, occupancy, requests) in [(20, 10, 3), (40, 0, 0), (60, 90, 10)] {
            let at = Instant::from_ticks(at);
            totals.sampled(at, &Sample { requests, occupancy, by_core: vec![requests] });
        }
        let report = totals.report(10).unwrap();
        assert_eq!((report.samples, report.requests, report.occupancy), (3, 13, 100));
        assert_eq!(report.latency_mean_cycles, Some(100.0 / 13.0));
        assert_eq!((report.latency_max_cycles, report.sampled_ns), (Some(9.0), 6));
        let mut blind = Totals::default();
        let sample = Sample { requests: 5, occupancy: 0, by_core: vec![5] };
        blind.sampled(Instant::from_ticks(20), &sample);
        let report = blind.report(1).unwrap();
        assert_eq!((report.requests, report.latency_mean_cycles), (5, None));
        assert_eq!(report.latency_max_cycles, None);
    }
}
