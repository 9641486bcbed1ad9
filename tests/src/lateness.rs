//! An observer that finds how much of every job's work was undone at its deadline.

use maracas_core::contract::Observer;
use maracas_core::{Duration, Event, Instant, JobId, Plan, VcpuId};
use std::collections::VecDeque;

/// One VCPU's jobs and service.
#[derive(Clone, Default, Debug)]
struct Known {
    /// Released and not completed: which job, and when it is due.
    pending: VecDeque<(u32, Instant)>,
    /// When it ran, in order.
    ran: Vec<(Instant, Instant)>,
    /// Jobs that ended late: which, when due, and when complete.
    late: Vec<(u32, Instant, Instant)>,
}

/// A job of which too much was undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Late {
    /// Which.
    pub job: JobId,
    /// When it was due.
    pub deadline: Instant,
    /// How much of its VCPU's work by then was undone, as far as it was done later.
    pub undone: Duration,
}

/// What every job left undone at its deadline. Jobs of a VCPU are done one after the other, so that
/// is what the VCPU ran between the deadline and the completion.
#[derive(Clone, Default, Debug)]
pub struct Lateness(Vec<Known>);

impl Lateness {
    /// The late job with the most undone work, in a run that ended at `end`.
    #[must_use]
    pub fn worst(&self, end: Instant) -> Option<Late> {
        let of = |(id, known): (u32, &Known)| {
            let pending = known.pending.iter().filter(|(_, deadline)| *deadline <= end);
            let pending = pending.map(|(index, deadline)| (*index, *deadline, end));
            let late = known.late.iter().copied().chain(pending);
            let late = late.map(|(index, deadline, until)| Late {
                job: JobId { vcpu: VcpuId(id), index },
                deadline,
                undone: known.between(deadline, until),
            });
            late.collect::<Vec<_>>()
        };
        let jobs = (0..).zip(&self.0).flat_map(of);
        // Of several the first one: it is where things began to go wrong.
        jobs.min_by_key(|late| (std::cmp::Reverse(late.undone), late.deadline))
    }
    fn of(&mut self, vcpu: VcpuId) -> &mut Known {
        let index = vcpu.0 as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, Known::default());
        }
        &mut self.0[index]
    }
}

impl Known {
    fn between(&self, from: Instant, to: Instant) -> Duration {
        let first = self.ran.partition_point(|(_, end)| *end <= from);
        let within = self.ran[first..].iter().take_while(|(begin, _)| *begin < to);
        within.map(|(begin, end)| (*end).min(to).saturating_since((*begin).max(from))).sum()
    }
}

impl Observer for Lateness {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.of(segment.vcpu).ran.push((segment.from, segment.to)),
            Event::Released(job) => {
                self.of(job.id.vcpu).pending.push_back((job.id.index, job.deadline));
            }
            Event::Completed(id) => {
                let known = self.of(id.vcpu);
                if let Some((index, deadline)) = known.pending.pop_front()
                    && at > deadline
                {
                    known.late.push((index, deadline, at));
                }
            }
            Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}
