//! The live machine: carries out a policy's plans on real threads of a stock Linux host.
//!
//! Here stand the per-core agents, the meters of VCPUs, the freezer, the guardian and what they
//! need of the host. No scheduling choice ever stands here: every one of them is made by the policy
//! behind [`maracas_core::Policy`], and no policy is known by name. This crate imports
//! `maracas-core` alone of our crates.
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
