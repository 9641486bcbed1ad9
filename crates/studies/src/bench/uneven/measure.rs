//! What is read off the journal of a run: how far each program got, and what the policy took its
//! speedups to be.

use crate::bench::play::replayed;
use maracas_console::failure::Failure;
use maracas_core::contract::{Event, Segment};
use maracas_core::journal::Record;
use maracas_core::{CoreId, VcpuId};

/// The figure in which the policies for uneven cores say what they take the speedup of a VCPU to
/// be, in thousandths, where it knows.
const STATISTIC: &str = "speedup milli";

/// From when to when, in nanoseconds of the run's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Window {
    pub(super) const fn seconds(self) -> f64 {
        (self.to - self.from) as f64 / 1e9
    }
    const fn contains(self, at: u64) -> bool {
        self.from <= at && at < self.to
    }
}

/// What a VCPU did within a window.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Work {
    /// Units of progress.
    pub(super) units: f64,
    /// Time on cores as its meter charges it, in seconds.
    pub(super) service_s: f64,
}

impl Work {
    /// Units in a second of core time; not finite where it had none.
    pub(super) fn per_core_second(self) -> f64 {
        self.units / self.service_s
    }
    fn add(&mut self, segment: &Segment, window: Window) {
        let (from, to) = (segment.from.ticks(), segment.to.ticks());
        let within = to.min(window.to).saturating_sub(from.max(window.from));
        if within == 0 {
            return;
        }
        // A segment over the edge is as even as we know.
        let part = within as f64 / (to - from) as f64;
        self.units += segment.usage.instructions as f64 * part;
        self.service_s += segment.usage.service.ticks() as f64 / 1e9 * part;
    }
}

/// What the policy took a speedup to be, from an instant on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub(super) at: u64,
    pub(super) vcpu: VcpuId,
    pub(super) speedup: f64,
}

/// A run by its journal.
#[derive(Debug)]
pub(super) struct Reported {
    segments: Vec<Segment>,
    estimates: Vec<Estimate>,
    /// Whether a fresh policy decided the same, every time.
    pub(super) exact: bool,
}

impl Reported {
    /// By an empty journal.
    pub(super) const fn nothing() -> Self {
        Self { segments: Vec::new(), estimates: Vec::new(), exact: true }
    }

    /// Gives the journal to a fresh policy and asks it for its figures after each decision:
    /// policies are pure, so these are those of the run.
    ///
    /// # Errors
    /// Where the journal is damaged.
    pub(super) fn read(journal: &[u8]) -> Result<Self, Failure> {
        let mut reported = Self::nothing();
        let (_, exact) = replayed(journal, |record, replay| match record {
            Record::Event { event: Event::Ran(segment), .. } => reported.segments.push(segment),
            Record::Planned(theirs) => reported.ask(replay.policy(), theirs.now.ticks()),
            Record::Event { .. } | Record::Gap(_) | Record::Note { .. } | Record::End(_) => {}
        })?;
        Ok(Self { exact, ..reported })
    }

    /// Notes the speedups that changed.
    fn ask(&mut self, policy: &dyn maracas_core::Policy, at: u64) {
        for statistic in policy.statistics() {
            let Some(vcpu) = statistic.vcpu.filter(|_| statistic.name == STATISTIC) else {
                continue;
            };
            let speedup = statistic.value as f64 / 1e3;
            let last = self.estimates.iter().rev().find(|estimate| estimate.vcpu == vcpu);
            if last.is_none_or(|last| last.speedup != speedup) {
                self.estimates.push(Estimate { at, vcpu, speedup });
            }
        }
    }

    /// What the policy took speedups to be, change by change.
    pub(super) fn estimates(&self) -> &[Estimate] {
        &self.estimates
    }

    /// What a VCPU did within a window, on `core` alone where one is named.
    pub(super) fn work(&self, vcpu: VcpuId, core: Option<CoreId>, window: Window) -> Work {
        let mut work = Work::default();
        let of = |segment: &&Segment| {
            segment.vcpu == vcpu && core.is_none_or(|core| segment.core == core)
        };
        self.segments.iter().filter(of).for_each(|segment| work.add(segment, window));
        work
    }

    /// What the policy took the speedup of a VCPU to be throughout a window: what held at its
    /// begin, then every change. Empty where it never knew.
    pub(super) fn speedups(&self, vcpu: VcpuId, window: Window) -> Vec<f64> {
        let of = || self.estimates.iter().filter(move |estimate| estimate.vcpu == vcpu);
        let before = of().rfind(|estimate| estimate.at <= window.from);
        let within = of().filter(|e| e.at > window.from && window.contains(e.at));
        before.into_iter().chain(within).map(|estimate| estimate.speedup).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::contract::{End, Mode, Usage};
    use maracas_core::journal::Recorder;
    use maracas_core::{Duration, Instant};
    use maracas_scenario::Scenario;
    use maracas_session::case::{Case, Machine, Overrides};
    use maracas_sim::memory::UnevenCores;
    use maracas_sim::{Options, run_with};

    fn segment(vcpu: u32, core: u16, from: u64, to: u64, units: u64) -> Segment {
        let at = Instant::from_ticks;
        let service = Duration::from_nanos(to - from);
        Segment {
            vcpu: VcpuId(vcpu),
            core: CoreId(core),
            mode: Mode::Background,
            from: at(from),
            to: at(to),
            usage: Usage { service, instructions: units, ..Usage::default() },
            end: End::Preempted,
        }
    }

    #[test]
    fn work_is_cut_at_the_edges_of_a_window() {
        let segments =
            vec![segment(0, 0, 0, 100, 50), segment(0, 1, 100, 200, 20), segment(1, 0, 0, 9, 9)];
        let reported = Reported { segments, ..Reported::nothing() };
        let window = Window { from: 50, to: 150 };
        let all = reported.work(VcpuId(0), None, window);
        assert_eq!((all.units, all.service_s), (35.0, 100e-9));
        let slow = reported.work(VcpuId(0), Some(CoreId(1)), window);
        assert_eq!((slow.units, slow.per_core_second()), (10.0, 10.0 / 50e-9));
        assert!(!reported.work(VcpuId(2), None, window).per_core_second().is_finite());
    }

    #[test]
    fn what_held_at_the_begin_of_a_window_belongs_to_it() {
        let estimate = |at, speedup| Estimate { at, vcpu: VcpuId(0), speedup };
        let estimates = vec![estimate(10, 1.1), estimate(20, 1.2), estimate(30, 1.3)];
        let reported = Reported { estimates, ..Reported::nothing() };
        let held = |from, to| reported.speedups(VcpuId(0), Window { from, to });
        assert_eq!(held(15, 30), [1.1, 1.2]);
        assert_eq!(held(25, 31), [1.2, 1.3]);
        assert!(held(0, 10).is_empty());
    }

    #[test]
    fn a_journal_holds_estimates_and_speeds() {
        let class = |name, speed| {
            format!("[[platform.class]]\nname = \"{name}\"\ncores = 1\nspeed = {speed}\n")
        };
        let program = |name, slow| {
            format!(
                "[[program]]\nname = \"{name}\"\nworkload = {{ kind = \"busy\" }}\n\
                 pace = {{ fast = \"400M\", slow = \"{slow}M\" }}\n"
            )
        };
        let classes = class("fast", 1.0) + &class("slow", 0.5);
        let programs = program("a", 200) + &program("b", 300) + &program("c", 400);
        let text = format!("version = 1\n{classes}[policy]\nname = \"max-perf\"\n{programs}");
        let scenario = Scenario::parse(&text, "test").unwrap();
        let case = Case::of(scenario, Machine::Sim, &Overrides::default()).unwrap();
        let mut policy = (case.entry.build)(&case.start, &case.params).ok().unwrap();
        let mut recorder = Recorder::new(&case.header());
        let until = Instant::ZERO + Duration::from_secs(9);
        let (system, programs, options) = (&case.system, &case.programs, Options::new(until));
        let cores = UnevenCores::new(system, &case.acting.paces);
        run_with(system, programs, policy.as_mut(), &options, &mut recorder, cores);
        recorder.end(until);
        let reported = Reported::read(recorder.bytes()).unwrap();
        assert!(reported.exact);
        let window = Window { from: 5_000_000_000, to: 9_000_000_000 };
        for (vcpu, speedup) in [2.0, 4.0 / 3.0, 1.0].into_iter().enumerate() {
            let vcpu = VcpuId(vcpu as u32);
            let estimates = reported.speedups(vcpu, window);
            let near = |estimate: &f64| (estimate / speedup - 1.0).abs() < 0.01;
            assert!(!estimates.is_empty() && estimates.iter().all(near), "{estimates:?}");
            let speed = |core| reported.work(vcpu, Some(CoreId(core)), window).per_core_second();
            assert!((speed(0) / speed(1) / speedup - 1.0).abs() < 0.01, "{vcpu}");
        }
    }
}
