//! The scheduler in the kernel, from user space: loads the BPF program that is checked in
//! (`bpf/maracas.bpf.o`), sends it run queues, reads what it says (docs/sched-ext.md).
//!
//! It knows numbers of cores, VCPUs and nanoseconds as the kernel does, and nothing of policies or
//! runs. Built without the feature `sched-ext`, which needs libbpf, [`Scheduler::attach`] refuses.
#![deny(unsafe_code)]

mod layout;
#[cfg(feature = "sched-ext")]
#[allow(unsafe_code)]
mod memory;
#[cfg(feature = "sched-ext")]
#[allow(unsafe_code)]
mod memory_events;
mod reads;
#[cfg(feature = "sched-ext")]
mod scheduler;
#[cfg(not(feature = "sched-ext"))]
#[path = "absent.rs"]
mod scheduler;

pub use layout::{
    BACKGROUND, CORES, Core, Event, FOREGROUND, Grant, Happened, Holds, QUEUE, Queue, VCPUS, Vcpu,
};
pub use reads::Reads;
pub use scheduler::{IS_BUILT, Scheduler};
