//! The pieces of jobs that share resources.

use super::{Demand, Demands};
use maracas_core::Duration;

impl Demands {
    /// Sets the service until the end of the current piece of a VCPU with a pending job.
    pub(crate) fn set_left(&mut self, vcpu: u32, left: Duration) {
        self.of_mut(vcpu).left = left;
    }
}

impl Demand {
    /// The number of its first job that is not complete.
    pub(crate) const fn job_at_work(&self) -> u32 {
        self.completed
    }
}
