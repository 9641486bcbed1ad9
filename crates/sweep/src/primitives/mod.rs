//! What each scheduling primitive of a policy costs: the policy's own code, run again over event
//! streams that the simulator recorded.
//!
//! Here are the recorded streams ([`stream`]), running them again step by step ([`mod@replay`]),
//! what the measured times come to ([`cost`]), and what locks around the policy would add
//! ([`hierarchy`], [`locks`]). There is no clock here: the measuring caller brings one.
//!
//! # Paper
//! D. Compagnin, E. Mezzetti, T. Vardanega. "Experimental evaluation of optimal schedulers based on
//! partitioned proportionate fairness." ECRTS 2015, slides 11, 12 and 14; the method is that of
//! "Putting RUN into Practice", ECRTS 2014. Their primitives are traced in a kernel; ours are calls
//! of the policy. What is the same and what is not stands in `docs/overheads.md`.

pub mod cost;
pub mod hierarchy;
pub mod locks;
pub mod replay;
pub mod stream;

#[cfg(test)]
mod tests;

pub use cost::{Primitive, Samples, Summary};
pub use locks::{Lock, Request, Waits};
pub use replay::{Stopwatch, replay, steady};
pub use stream::{Cause, Step, Stream, record};
