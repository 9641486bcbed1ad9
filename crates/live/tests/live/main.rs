//! Real programs under the live machine. Where the host lacks the rights, a test says so and ends.
//! One at a time: each takes core 0 and the one tree that a process may have.

mod budget;
mod colors;
mod handle;
mod laws;
mod memory;
mod moves;
mod stuck;
mod support;
mod uneven;
