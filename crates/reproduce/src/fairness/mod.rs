//! The experiments of "Fairness-oriented OS Scheduling Support for Multicore Systems" (Kim and Huh,
//! ICS 2016), one file each, and what they share.

use crate::Experiment;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[];
