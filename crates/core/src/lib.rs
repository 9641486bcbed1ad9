//! What all other crates stand on: time, the task model, the contract between a policy and a
//! machine, the machine law, and the journal.
//!
//! There is no scheduling choice, no clock, no I/O, no float and no unsafe code here; this crate
//! depends on nothing. Start with [`contract`], then [`dispatch`].
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod admission;
mod buckets;
pub mod contract;
pub mod control;
mod core_set;
pub mod counters;
pub mod dispatch;
mod hash;
pub mod journal;
mod list;
pub mod memory;
mod model;
mod overheads;
mod pace;
pub mod params;
mod rate;
pub mod resources;
pub mod script;
pub mod sensor;
mod short;
mod soonest;
mod time;
mod wire;
mod workload;

pub use buckets::Buckets;
pub use contract::{Event, Plan, Policy};
pub use core_set::CoreSet;
pub use hash::{fnv1a, fnv1a_words};
pub use list::{Entries, List};
pub use model::{
    Arrival, Class, Core, CoreId, Criticality, Job, JobId, MAX_CORES, Reservation, Role, System,
    Vcpu, VcpuId,
};
pub use overheads::Overheads;
pub use pace::{Pace, PacePhase};
pub use rate::{PPB, Rate, gcd};
pub use short::Short;
pub use soonest::Soonest;
pub use time::{Duration, Instant};
pub use workload::{Cost, Program, Workload};
