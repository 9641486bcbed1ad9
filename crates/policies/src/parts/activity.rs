//! Whether a VCPU has something to run, as far as was reported, however late and in whatever order.

use core::num::NonZero;
use maracas_core::{Instant, Job, JobId, Short};

/// What is known of one VCPU's wakes, blocks and jobs.
#[derive(Clone, Default, Debug)]
pub(crate) struct Activity {
    runnable: bool,
    woken: Instant,
    /// Releases of uncompleted jobs, each with one more than its index, as `completed` counts.
    /// Never 0, so that no job takes no more room.
    pending: Short<(NonZero<u32>, Instant)>,
    /// Jobs below this index are complete. A completion may be reported before its release.
    completed: u32,
}

impl Activity {
    /// Whether it has something to run.
    pub(crate) const fn runnable(&self) -> bool {
        self.runnable
    }
    /// Whether no released job is left to be done.
    pub(crate) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }
    /// It became runnable at `at`, at the latest.
    pub(crate) fn wake(&mut self, at: Instant) {
        self.runnable = true;
        self.woken = self.woken.max(at);
    }
    /// A job was released; whether that is still to be done, so that its VCPU is runnable.
    pub(crate) fn release(&mut self, job: &Job) -> bool {
        let open = job.id.index >= self.completed;
        if open {
            let end = NonZero::<u32>::MIN.saturating_add(job.id.index);
            self.pending.push_back((end, job.release));
        }
        open
    }
    /// A job is complete, and all before it.
    pub(crate) fn complete(&mut self, id: JobId) {
        self.completed = self.completed.max(id.index + 1);
        while self.pending.front().is_some_and(|(end, _)| end.get() <= self.completed) {
            self.pending.pop_front();
        }
    }
    /// It blocked at `at`. Reported late, it may have woken since: then when.
    pub(crate) fn block(&mut self, at: Instant) -> Option<Instant> {
        if at < self.woken {
            return Some(self.woken);
        }
        self.runnable = false;
        self.pending.iter().map(|(_, release)| *release).find(|release| *release >= at)
    }
}
