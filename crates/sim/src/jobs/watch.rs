//! Whether jobs that may be late are: a look into the simulator, which shows one run of many.

use super::{Answer, Judged};
use crate::{Options, Subject, simulate};
use maracas_core::contract::{Event, Observer};
use maracas_core::{Duration, Instant, Job, Plan, Policy, System, Vcpu, VcpuId};

/// So many of the longest period are simulated, or until so many jobs have come, whichever is less:
/// a tenth of a second's work.
const PERIODS: u64 = 100;
const JOBS: u64 = 20_000;

/// What was seen of a VCPU's jobs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Jobs that were complete or overdue by the end.
    pub jobs: u64,
    /// Those of them that were not complete at their deadlines.
    pub late: u64,
    /// How long was simulated.
    pub lasted: Duration,
}

/// Simulates `subject` and notes what it shows of those of whose jobs it is not certain that they
/// are in time. Does nothing where there are none.
pub fn watch(
    judged: &mut [Judged],
    subject: &Subject<'_>,
    policy: &mut dyn Policy,
    options: &Options,
) {
    if judged.iter().all(|one| one.answer == Answer::InTime) {
        return;
    }
    let until = options.until.min(Instant::ZERO + span(subject.system));
    let mut jobs = Jobs::default();
    simulate(subject, policy, &Options { until, ..*options }, &mut jobs);
    jobs.overdue(until);
    for one in judged.iter_mut().filter(|one| one.answer != Answer::InTime) {
        let mut seen = jobs.of(one.vcpu);
        seen.lasted = until.saturating_since(Instant::ZERO);
        one.seen = Some(seen);
        if seen.late > 0 {
            one.answer = Answer::Late;
        }
    }
}

/// For how long to simulate.
fn span(system: &System) -> Duration {
    let periods = system.vcpus.iter().map(|vcpu| vcpu.reservation.period);
    let longest = periods.max().unwrap_or_default();
    let of = |vcpu: &Vcpu| longest.ticks().checked_div(vcpu.reservation.period.ticks());
    let jobs = system.vcpus.iter().filter_map(of).fold(0, u64::saturating_add);
    let times = (JOBS / jobs.max(1)).clamp(3, PERIODS);
    Duration::from_ticks(longest.ticks().saturating_mul(times))
}

/// Follows every job to its end.
#[derive(Default)]
struct Jobs {
    pending: Vec<Job>,
    seen: Vec<(VcpuId, Seen)>,
}

impl Jobs {
    fn of(&self, vcpu: VcpuId) -> Seen {
        self.seen.iter().find(|(id, _)| *id == vcpu).map(|(_, seen)| *seen).unwrap_or_default()
    }
    fn count(&mut self, vcpu: VcpuId, late: bool) {
        let place = self.seen.iter().position(|(id, _)| *id == vcpu).unwrap_or_else(|| {
            self.seen.push((vcpu, Seen::default()));
            self.seen.len() - 1
        });
        let seen = &mut self.seen[place].1;
        seen.jobs += 1;
        seen.late += u64::from(late);
    }
    /// Counts those that are due by `now` and not complete.
    fn overdue(&mut self, now: Instant) {
        for job in std::mem::take(&mut self.pending).iter().filter(|job| job.deadline <= now) {
            self.count(job.id.vcpu, true);
        }
    }
}

impl Observer for Jobs {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => self.pending.push(*job),
            Event::Completed(id) => {
                if let Some(place) = self.pending.iter().position(|job| job.id == *id) {
                    let job = self.pending.swap_remove(place);
                    self.count(id.vcpu, at > job.deadline);
                }
            }
            // A VCPU that leaves leaves its jobs undone.
            Event::Left(vcpu) => self.pending.retain(|job| job.id.vcpu != *vcpu),
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
    fn reads_plans(&self) -> bool {
        false
    }
}
