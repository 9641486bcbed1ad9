//! What the memory controller counted, as the monitor sampled it.

use crate::report::ControllerReport;
use maracas_core::contract::Sample;

/// Sums over all samples.
#[derive(Clone, Default, Debug)]
pub(super) struct Totals {
    samples: u64,
    requests: u64,
    occupancy: u64,
    by_cores: u64,
    /// The sample of the highest latency: occupancy and requests.
    highest: (u64, u64),
}

impl Totals {
    pub(super) fn sampled(&mut self, sample: &Sample) {
        self.samples += 1;
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
    pub(super) fn report(&self) -> Option<ControllerReport> {
        let latency = |occupancy: u64, requests: u64| {
            (requests > 0).then(|| occupancy as f64 / requests as f64)
        };
        (self.samples > 0).then(|| ControllerReport {
            samples: self.samples,
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
        assert_eq!(totals.report(), None);
        for (occupancy, requests) in [(10, 3), (0, 0), (90, 10)] {
            totals.sampled(&Sample { requests, occupancy, by_core: vec![requests] });
        }
        let report = totals.report().unwrap();
        assert_eq!((report.samples, report.requests, report.occupancy), (3, 13, 100));
        assert_eq!(report.latency_mean_cycles, Some(100.0 / 13.0));
        assert_eq!(report.latency_max_cycles, Some(9.0));
    }
}
