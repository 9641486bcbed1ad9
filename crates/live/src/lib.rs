//! The live machine: carries out a policy's plans on real threads of a stock Linux host.
//!
//! Here are the per-core agents, the meters of VCPUs, the freezer, the guardian and what they need
//! of the host. There is no scheduling choice here: every one of them is made by the policy behind
//! [`maracas_core::Policy`], and no policy is known by name. Of our crates this one imports
//! `maracas-core`, `maracas-live-core` and `maracas-kernel`.
//!
//! Start with [`machine`], then `agent`.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)] // Raw system calls and memory are the affair of `host`.

mod agent;
pub mod clean;
mod clock;
pub mod colors;
pub mod control;
mod deciders;
pub mod doctor;
mod executor;
pub mod guardian;
#[allow(unsafe_code)]
pub mod host;
pub mod in_kernel;
pub mod journal;
mod kernel;
pub mod machine;
pub mod migration;

pub mod profile;
mod progress;
pub mod sense;
mod setup;

pub use machine::{Error, Handle, Launch, Machine, Means, Outcome, Setup, Steering};
