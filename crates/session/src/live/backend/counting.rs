//! Whether the scheduler in the kernel can know of memory what a case needs, and how it counts.

use crate::case::{Case, MemoryNeeds};
use maracas_live::Setup;
use maracas_live::sense::{Counting, Senses};

/// How reads are to be counted for this case; `None` where they need not be.
///
/// # Errors
/// What of memory the case needs and cannot be known there, and the way out.
pub(super) fn of(case: &Case, setup: &Setup, senses: &Senses) -> Result<Option<Counting>, String> {
    let (needs, name) = (case.senses(), case.entry.name);
    if let Some(why) = blind(&needs, senses) {
        return Err(format!("{name} {why}"));
    }
    let is_counted = needs.meters || needs.limited.is_some() || needs.weighs;
    let Some(event) = senses.overflows.filter(|_| is_counted) else { return Ok(None) };
    let verdict = (case.entry.admit)(&case.system, &case.params);
    Counting::choose(event, &setup.cores, verdict.regulation.as_deref(), needs.weighs).map(Some)
}

/// What a case needs of memory that cannot be known.
fn blind(needs: &MemoryNeeds, senses: &Senses) -> Option<String> {
    let is_held = needs.meters || needs.limited.is_some();
    // Where agents do not count what VCPUs read either, all count as alike with both.
    let is_weighed = needs.weighs && senses.vcpus.reads.is_some();
    if (is_held || is_weighed) && senses.overflows.is_none() {
        return Some(
            "is to know of reads of memory, and no event counts them here that interrupts each \
             core by its overflow and is the same on all (a recording does not); agents ask \
             meters, and sense = \"faults\" tries it with page faults in their place"
                .into(),
        );
    }
    let knows = senses.sensor.as_ref().is_some_and(|sensor| sensor.sensor_kind().has_latency());
    (needs.samples && needs.latency && !knows).then(|| {
        "throttles by latency, which no sensor knows here, so that no core would ever be \
         throttled; take throttle = \"rate\", sense = \"chase\" or sense = \"replay:FILE\""
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Instant;
    use maracas_live::sense::{Reading, Sensor, SensorKind, VcpuEvents, faults};

    struct Blind(SensorKind);

    impl Sensor for Blind {
        fn sensor_kind(&self) -> SensorKind {
            self.0
        }
        fn describe(&self) -> String {
            String::new()
        }
        fn cycles_per_us(&self) -> u64 {
            1
        }
        fn read(&mut self, _: Instant, _: &mut Reading) -> std::io::Result<()> {
            Ok(())
        }
        fn remark(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn what_needs_reads_is_refused_without_an_event_that_overflows() {
        let (nothing, plain) = (Senses::default(), MemoryNeeds::default());
        let reads = VcpuEvents { reads: Some(faults::EVENT), ..VcpuEvents::default() };
        let asked = Senses { vcpus: reads, ..Senses::default() };
        let counted = Senses { overflows: Some(faults::EVENT), vcpus: reads, ..Senses::default() };
        let held = MemoryNeeds { meters: true, ..plain.clone() };
        let limited = MemoryNeeds { limited: Some("hog".into()), ..plain.clone() };
        let weighs = MemoryNeeds { weighs: true, ..plain.clone() };
        for needs in [&held, &limited, &weighs] {
            let why = blind(needs, &asked).expect("it is refused");
            assert!(why.contains("overflow") && why.contains("agents") && why.contains("faults"));
            assert_eq!(blind(needs, &counted), None);
        }
        assert!(blind(&held, &nothing).is_some() && blind(&limited, &nothing).is_some());
        assert_eq!((blind(&weighs, &nothing), blind(&plain, &nothing)), (None, None));
    }

    #[test]
    fn throttling_by_latency_is_refused_where_no_sensor_knows_it() {
        let rate = MemoryNeeds { samples: true, ..MemoryNeeds::default() };
        let latency = MemoryNeeds { latency: true, ..rate.clone() };
        let by = |kind| {
            let sensor: Box<dyn Sensor> = Box::new(Blind(kind));
            Senses { sensor: Some(sensor), ..Senses::default() }
        };
        let why = blind(&latency, &by(SensorKind::Rate)).expect("it is refused");
        assert!(why.contains("throttle = \"rate\"") && why.contains("chase"), "{why}");
        assert!(blind(&latency, &Senses::default()).is_some());
        assert_eq!(blind(&latency, &by(SensorKind::Uncore)), None);
        assert_eq!(blind(&rate, &by(SensorKind::Faults)), None);
    }
}
