//! Experiments on admission itself, which no paper has.

mod pessimism;

use crate::Experiment;

/// All of them.
pub(crate) const EXPERIMENTS: &[Experiment] = &[pessimism::EXPERIMENT];
