//! What is read off the journal of a run: when cores lost their surplus time and how long they
//! still used it, and what the policy made of every sample.

use crate::bench::play::replayed;
use maracas_console::failure::Failure;
use maracas_core::contract::{Event, Mode, Sample, Segment};
use maracas_core::journal::Record;
use maracas_core::{CoreId, Instant, Plan, Policy};
use std::collections::BTreeMap;

/// The figure in which the policy says how many cores it throttles (k of Algorithm 1).
const THROTTLED: &str = "throttled cores";

/// The time from a decision that closed a core's background to the one that opened it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Closing {
    pub(super) core: CoreId,
    pub(super) from: Instant,
    pub(super) to: Instant,
    /// When the core last used surplus time within it; `None` = it never did.
    pub(super) last: Option<Instant>,
}

/// A sample with what the policy made of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sampled {
    pub(super) at: Instant,
    pub(super) sample: Sample,
    /// How many cores are throttled from then on.
    pub(super) throttled: u64,
}

/// A run by its journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Reported {
    pub(super) closings: Vec<Closing>,
    pub(super) samples: Vec<Sampled>,
    /// Whether a fresh policy decided the same, every time.
    pub(super) exact: bool,
}

impl Reported {
    /// Gives the journal to a fresh policy: policies are pure, so what it says is what the run's
    /// said.
    ///
    /// # Errors
    /// Where the journal is damaged.
    pub(super) fn read(journal: &[u8]) -> Result<Self, Failure> {
        let mut memory_gates = MemoryGates::default();
        let (mut background, mut end) = (Vec::new(), Instant::ZERO);
        let mut reported = Self::default();
        let (_, exact) = replayed(journal, |record, replay| match record {
            Record::Event { event: Event::Ran(segment), .. }
                if segment.mode == Mode::Background =>
            {
                background.push(segment);
            }
            Record::Event { at, event: Event::Sampled(sample) } => {
                let throttled = throttled(replay.policy());
                reported.samples.push(Sampled { at, sample, throttled });
            }
            Record::Planned(theirs) => memory_gates.decided(replay.plan(), theirs.now),
            Record::Event { .. } | Record::Gap(_) | Record::Note { .. } => {}
            Record::End(at) => end = at,
        })?;
        reported.exact = exact;
        reported.closings = memory_gates.finish(end, &background);
        Ok(reported)
    }
}

fn throttled(policy: &dyn Policy) -> u64 {
    let statistics = policy.statistics();
    statistics
        .iter()
        .find(|statistic| statistic.name == THROTTLED)
        .map_or(0, |statistic| statistic.value)
}

/// The background memory gates of the cores while the journal goes on.
#[derive(Default)]
struct MemoryGates {
    /// Since when the closed ones are.
    closed: BTreeMap<CoreId, Instant>,
    closings: Vec<Closing>,
}

impl MemoryGates {
    fn decided(&mut self, plan: &Plan, now: Instant) {
        for core in plan.dirty().iter() {
            if !plan.run_queue(core).background_allowed {
                self.closed.entry(core).or_insert(now);
            } else if let Some(from) = self.closed.remove(&core) {
                self.closings.push(Closing { core, from, to: now, last: None });
            }
        }
    }

    /// Sets what ran in the background against the closings.
    fn finish(mut self, end: Instant, background: &[Segment]) -> Vec<Closing> {
        let still = self.closed.iter();
        let still = still.map(|(&core, &from)| Closing { core, from, to: end, last: None });
        self.closings.extend(still);
        self.closings.sort_by_key(|closing| (closing.core, closing.from));
        let mut segments: Vec<_> = background.iter().filter(|it| it.to > it.from).collect();
        segments.sort_by_key(|segment| (segment.core, segment.from));
        for closing in &mut self.closings {
            // In order of their ends too: a core runs one at a time. A VCPU that ends with the
            // decision obeys at once.
            let first = segments.partition_point(|segment| {
                (segment.core, segment.to) < (closing.core, closing.from)
            });
            let within = segments[first..]
                .iter()
                .take_while(|segment| segment.core == closing.core && segment.from < closing.to);
            closing.last = within.last().map(|segment| segment.to.min(closing.to));
        }
        self.closings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::{End, Usage};
    use maracas_core::{Duration, VcpuId};

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn segment(core: u16, from: u64, to: u64) -> Segment {
        Segment {
            vcpu: VcpuId(core.into()),
            core: CoreId(core),
            mode: Mode::Background,
            from: at(from),
            to: at(to),
            usage: Usage::default(),
            end: End::Preempted,
        }
    }

    #[test]
    fn a_closing_lasts_until_the_door_opens_and_knows_what_was_late() {
        let mut memory_gates = MemoryGates::default();
        let mut plan = Plan::new(2);
        let mut decide = |us, core, allowed| {
            // What a decision does first.
            plan = Plan::new(2);
            plan.run_queue_mut(CoreId(core)).background_allowed = allowed;
            memory_gates.decided(&plan, at(us));
        };
        decide(100, 0, false);
        decide(150, 1, false);
        decide(200, 0, false);
        decide(300, 0, true);
        decide(400, 0, false);
        decide(450, 0, true);
        decide(500, 0, false);
        decide(520, 0, true);
        let segments = [
            // It goes on at a metered wake, and stops 30 us late.
            segment(0, 50, 100),
            segment(0, 100, 130),
            segment(0, 300, 390),
            segment(0, 460, 500),
            segment(1, 150, 150),
            segment(1, 700, 900),
        ];
        let reported = memory_gates.finish(at(800), &segments);
        let closing = |core, from, to, last: Option<u64>| Closing {
            core: CoreId(core),
            from: at(from),
            to: at(to),
            last: last.map(at),
        };
        let expected = [
            closing(0, 100, 300, Some(130)),
            closing(0, 400, 450, None),
            closing(0, 500, 520, Some(500)),
            closing(1, 150, 800, Some(800)),
        ];
        assert_eq!(reported, expected);
    }
}
