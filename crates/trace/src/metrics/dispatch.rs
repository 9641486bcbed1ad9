//! How long dispatches took, as the notes of a live machine say.

use crate::report::{CoreDispatchReport, DispatchReport};
use crate::samples::Samples;
use maracas_core::CoreId;
use std::collections::BTreeMap;

/// What the notes said so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Dispatches {
    all: Samples,
    cores: BTreeMap<u16, Samples>,
    enacted: u64,
}

impl Dispatches {
    /// Takes in one dispatch.
    pub(super) fn add(&mut self, core: CoreId, latency_ns: u64, seen: bool) {
        self.all.add(latency_ns);
        self.cores.entry(core.0).or_default().add(latency_ns);
        self.enacted += u64::from(!seen);
    }

    /// `None` where there were none.
    pub(super) fn report(&self) -> Option<DispatchReport> {
        let core = |(core, samples): (&u16, &Samples)| CoreDispatchReport {
            core: *core,
            count: samples.count(),
            latency_p50_ns: samples.percentile(50),
            latency_p99_ns: samples.percentile(99),
            latency_max_ns: samples.max(),
        };
        (self.all.count() > 0).then(|| DispatchReport {
            count: self.all.count(),
            enacted: self.enacted,
            latency_p50_ns: self.all.percentile(50),
            latency_p99_ns: self.all.percentile(99),
            latency_max_ns: self.all.max(),
            cores: self.cores.iter().map(core).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_become_percentiles_of_the_run_and_of_each_core() {
        let mut dispatches = Dispatches::default();
        assert_eq!(dispatches.report(), None);
        for (core, ns, seen) in
            [(1, 3000, true), (0, 1000, true), (1, 2000, true), (1, 9000, false)]
        {
            dispatches.add(CoreId(core), ns, seen);
        }
        let report = dispatches.report().unwrap();
        assert_eq!((report.count, report.enacted), (4, 1));
        let all = (report.latency_p50_ns, report.latency_p99_ns, report.latency_max_ns);
        assert_eq!(all, (2000, 9000, 9000));
        let cores: Vec<_> =
            report.cores.iter().map(|core| (core.core, core.count, core.latency_p50_ns)).collect();
        assert_eq!(cores, [(0, 1, 1000), (1, 3, 3000)]);
    }
}
