//! Bars: how near is near enough, each said once and with its reason.
//!
//! Claims that hold something of ours against something of ours, or a direction alone, have their
//! tolerance in the claim; what is held against published numbers has it from here.

/// One quantity beside the published one: two independent cycle-level simulators of one memory
/// differ by up to a tenth, so a tenth is what no model can be asked to do better than.
pub(crate) const NEAR: f64 = 0.10;

/// A change that is the ratio of two such quantities, as a factor either way: both may be a tenth
/// off in opposite directions, and 1.1 / 0.9 is 1.2.
pub(crate) const FACTOR: f64 = 1.2;

/// What was fitted must come out nearer: a paper's numbers with three digits whose own regularities
/// hold to 1 % (task3's instructions by the latency in Table II of MARACAS), three times that.
pub(crate) const FITTED: f64 = 0.03;

/// What keeps this part of what it has alone is isolated: a loss of 3 % is what the slides of
/// MemGuard report as an effect, of reclaim on the foreground.
pub(crate) const ISOLATED: f64 = 0.97;

/// What changes by less does not change: twice what the DRAM law moves a pace by when a miss ratio
/// falls on the other side of one of its steps (`crates/sim/src/memory/solutions.rs`).
pub(crate) const UNCHANGED: f64 = 0.02;
