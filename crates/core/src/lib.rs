//! The floor everything stands on: time, the task model, the contract between a policy and a
//! machine, the machine law, and the journal. What none of them disputes.
//!
//! Here stands no scheduling choice, no clock, no I/O, no float and no unsafe code; this crate
//! depends on nothing. Start with [`contract`], then [`dispatch`].
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod admission;
pub mod contract;
pub mod control;
pub mod counters;
pub mod dispatch;
pub mod journal;
pub mod memory;
mod model;
mod overheads;
mod pace;
pub mod params;
mod rate;
mod time;
mod wire;
mod workload;

pub use contract::{Event, Plan, Policy};
pub use model::{
    Arrival, Class, Core, CoreId, CoreSet, Criticality, Job, JobId, MAX_CORES, Reservation, Role,
    System, Vcpu, VcpuId,
};
pub use overheads::Overheads;
pub use pace::{Pace, PacePhase};
pub use rate::{PPB, Rate, gcd};
pub use time::{Duration, Instant};
pub use workload::{Cost, Program, Workload};
