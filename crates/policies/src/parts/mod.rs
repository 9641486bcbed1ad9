//! What several policies share: queues, servers, bin packing, schedulability tests.

pub(crate) mod activity;
pub(crate) mod ahead;
pub(crate) mod bounds;
pub(crate) mod by_core;
pub(crate) mod exact;
pub(crate) mod fluid;
pub(crate) mod global;
pub(crate) mod holds;
pub(crate) mod jobs;
pub(crate) mod local;
pub(crate) mod locks;
pub(crate) mod occupancy;
pub(crate) mod pack;
pub(crate) mod partition;
pub(crate) mod partitioned;
pub(crate) mod pibs;
pub(crate) mod priority;
pub(crate) mod qpa;
pub(crate) mod queue;
pub(crate) mod rta;
pub(crate) mod semi;
pub(crate) mod split;
pub(crate) mod sporadic;
pub(crate) mod sums;
pub(crate) mod table;
pub(crate) mod test;
