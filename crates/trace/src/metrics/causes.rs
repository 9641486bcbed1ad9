//! What kept a live machine from enforcing in time, as its notes say.

use crate::report::{CausesReport, EnforcedReport, LateReport, ReliefReport, WakeCostReport};
use maracas_core::journal::Note;
use maracas_core::{CoreId, CoreSet, Instant};
use std::collections::{BTreeMap, VecDeque};

/// How many latenesses of a core are remembered for periods that are still to be judged: an alarm
/// that is late is so by a millisecond at least, so these are more than a minute.
const REMEMBERED: usize = 1 << 16;

/// What the notes said so far.
#[derive(Clone, Default, Debug)]
pub(super) struct Causes {
    cores: BTreeMap<u16, CausesReport>,
    wake_cost: Option<WakeCostReport>,
    thefts: Thefts,
}

/// When time was stolen, by core.
#[derive(Clone, Default, Debug)]
pub(super) struct Thefts(BTreeMap<u16, VecDeque<Theft>>);

/// Lateness with a stolen part; in ticks.
#[derive(Clone, Copy, Debug)]
struct Theft {
    from: Instant,
    to: Instant,
    stolen: u64,
}

impl Thefts {
    /// How much was reported stolen, in ticks, of lateness that overlaps `[from, to)`, on the one
    /// of `cores` where it was most; on any core where `cores` is empty, as of a VCPU that never
    /// ran.
    pub(super) fn between(&self, cores: CoreSet, from: Instant, to: Instant) -> u64 {
        let anywhere = cores.is_empty();
        let asked = |core: &u16| anywhere || cores.contains(CoreId(*core));
        let of = |thefts: &VecDeque<Theft>| {
            // They come in the order of their ends.
            let first = thefts.partition_point(|theft| theft.to <= from);
            let overlapping = thefts.range(first..).filter(|theft| theft.from < to);
            overlapping.map(|theft| theft.stolen).sum()
        };
        let reported = self.0.iter().filter(|(core, _)| asked(core));
        reported.map(|(_, thefts)| of(thefts)).max().unwrap_or(0)
    }

    fn remember(&mut self, core: u16, theft: Theft) {
        let thefts = self.0.entry(core).or_default();
        if thefts.len() == REMEMBERED {
            thefts.pop_front();
        }
        let place = thefts.partition_point(|other| other.to <= theft.to);
        thefts.insert(place, theft);
    }
}

impl Causes {
    /// Takes in one note, of `at`; those that say nothing of this are left aside. Nanoseconds have
    /// so many ticks.
    pub(super) fn read(&mut self, at: Instant, note: &Note, ticks_per_ns: u64) {
        if let &Note::WakeCost { p50_ns, p99_ns } = note {
            let cost = self.wake_cost.get_or_insert(WakeCostReport { p50_ns, p99_ns });
            cost.p50_ns = cost.p50_ns.max(p50_ns);
            cost.p99_ns = cost.p99_ns.max(p99_ns);
        } else if let &Note::Late { core, late_ns, stolen_ns, .. } = note {
            let stolen_ns = stolen_ns.min(late_ns);
            self.core(core).late.add(late_ns, stolen_ns);
            let late = late_ns.saturating_mul(ticks_per_ns);
            let from = Instant::from_ticks(at.ticks().saturating_sub(late));
            let stolen = stolen_ns.saturating_mul(ticks_per_ns);
            if stolen > 0 {
                self.thefts.remember(core.0, Theft { from, to: at, stolen });
            }
        } else if let Note::Enforced { core, count, longest_ns, lateness } = note {
            let (count, longest_ns, buckets) = (*count, *longest_ns, lateness.counts().to_vec());
            self.core(*core).enforced = Some(EnforcedReport { count, longest_ns, buckets });
        } else if let &Note::Steal { core, stolen_ns } = note {
            self.core(core).steal_ns = stolen_ns;
        } else if let &Note::Relief { core, by, stuck_ns } = note {
            let (at_ns, by) = (at.ticks() / ticks_per_ns, by.word().to_string());
            self.core(core).reliefs.push(ReliefReport { at_ns, by, stuck_ns });
        } else if let &Note::KeptOff { core, took_ns } = note {
            let causes = self.core(core);
            causes.rt_throttled_ns += took_ns;
            causes.rt_throttled += 1;
        }
    }

    fn core(&mut self, core: CoreId) -> &mut CausesReport {
        self.cores.entry(core.0).or_default()
    }

    pub(super) const fn thefts(&self) -> &Thefts {
        &self.thefts
    }
    pub(super) const fn wake_cost(&self) -> Option<WakeCostReport> {
        self.wake_cost
    }
    /// What is known of `core`; `None` where nothing was reported of it.
    pub(super) fn of(&self, core: u16) -> Option<&CausesReport> {
        self.cores.get(&core)
    }
}

impl LateReport {
    fn add(&mut self, late_ns: u64, stolen_ns: u64) {
        self.count += 1;
        self.stolen_ns += stolen_ns;
        self.longest_ns = self.longest_ns.max(late_ns);
        // Without what was stolen: the agents' own.
        self.longest_own_ns = self.longest_own_ns.max(late_ns - stolen_ns);
    }
}

#[cfg(test)]
mod tests {
    use crate::testkit::{Story, vcpu};

    #[test]
    fn what_the_machine_reports_of_its_cores_is_in_the_report() {
        let mut story = Story::new(2, vec![vcpu(0, 4, 10)]);
        story.reported(0, "wake-cost", "16000 40000");
        story.reported(5_000, "late", "1 3000 2000").reported(9_000, "late", "1 4000 0");
        story.reported(9_000, "relief", "1 neighbour 30").reported(
            9_500,
            "relief",
            "1 guardian 250",
        );
        story.reported(9_600, "rt-throttle", "0 50").reported(9_700, "rt-throttle", "0 45");
        story.reported(9_900, "enforced", "1 7 9000 4 2 0 1").reported(9_900, "steal", "1 2000");
        let report = story.live(10_000);
        let [zero, one] = &report.cores[..] else { panic!("{report:?}") };
        let (zero, one) = (zero.causes.as_ref().unwrap(), one.causes.as_ref().unwrap());
        assert_eq!((zero.rt_throttled, zero.rt_throttled_ns, zero.late.count), (2, 95, 0));
        let late = (one.late.count, one.late.longest_ns, one.late.longest_own_ns);
        assert_eq!((late, one.late.stolen_ns, one.steal_ns), ((2, 4000, 4000), 2000, 2000));
        let reported: Vec<_> =
            one.reliefs.iter().map(|it| (it.at_ns, it.by.as_str(), it.stuck_ns)).collect();
        assert_eq!(reported, [(9_000, "neighbour", 30), (9_500, "guardian", 250)]);
        let alarms = one.enforced.as_ref().unwrap();
        assert_eq!((alarms.count, alarms.longest_ns), (7, 9000));
        assert_eq!([50, 80, 99].map(|p| alarms.below_ns(p)), [1_000, 2_000, 8_000]);
        assert_eq!(report.promise.wake_cost.unwrap().p50_ns, 16_000);
    }

    #[test]
    fn other_forms_and_journals_without_notes_say_nothing() {
        let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
        let before = story.live(100);
        assert_eq!((&before.cores[0].causes, before.promise.wake_cost), (&None, None));
        for (key, text) in [
            ("late", ""),
            ("late", "0"),
            ("late", "0 5"),
            ("late", "0 x 5"),
            ("late", "99999 5 5"),
            ("late", "200 5 5"),
            ("enforced", "0 1 2 x"),
            ("relief", "0 guardian"),
            ("steal", "0 -1"),
            ("rt-throttle", "0"),
            ("wake-cost", "1"),
        ] {
            story.reported(5, key, text);
        }
        let report = story.live(100);
        let causes = report.cores[0].causes.clone().unwrap_or_default();
        assert_eq!((causes, report.promise), (Default::default(), before.promise));
    }
}
