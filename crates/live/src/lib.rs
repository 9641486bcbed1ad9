//! The live machine: carries out a policy's plans on real threads of a stock Linux host.
//!
//! Here are the per-core agents, the meters of VCPUs, the freezer, the guardian and what they need
//! of the host. There is no scheduling choice here: every one of them is made by the policy behind
//! [`maracas_core::Policy`], and no policy is known by name. Of our crates this one imports
//! `maracas-core` and `maracas-live-core`.
//!
//! Start with [`machine`], then `agent`.
#![cfg(target_os = "linux")]

mod agent;
pub mod clean;
mod clock;
pub mod colors;
pub mod control;
mod executor;
pub mod guardian;
pub mod host;
pub mod journal;
pub mod machine;
mod perf;
pub mod profile;
pub mod sense;

pub use machine::{Error, Handle, Launch, Machine, Means, Outcome, Setup, Steering};
