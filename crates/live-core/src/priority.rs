//! The order of threads on a managed core: real-time priorities of `SCHED_FIFO`, 1 to 99
//! (sched(7)). All that the live machine ever sets is named here.

use std::ops::Range;

/// Of VCPUs in the foreground, by their places in the run queue. Below stand priorities that other
/// real-time programs of the host may use.
pub const FOREGROUND: Range<u8> = 10..81;
/// Of the threads of a VCPU while its group is confined to another core on PREEMPT_RT.
pub const LEAVING: u8 = 85;
/// Of the threads that slow a core down on purpose.
pub const SLOWING: u8 = 90;
/// Of the runtime's own threads: the supervisor, and the server of the control socket while it
/// reads the ends of jobs.
pub const RUNTIME: u8 = 97;
/// Of the agents, one a core, and of whatever measures what an agent will meet.
pub const AGENT: u8 = 98;
/// Of the guardian, which acts where an agent is stuck.
pub const GUARDIAN: u8 = 99;

// A thread that may have to stop another one has the higher priority.
const _: () = assert!(
    0 < FOREGROUND.start
        && FOREGROUND.start < FOREGROUND.end
        && FOREGROUND.end <= LEAVING
        && LEAVING < SLOWING
        && SLOWING < RUNTIME
        && RUNTIME < AGENT
        && AGENT < GUARDIAN
        && GUARDIAN <= 99
);
