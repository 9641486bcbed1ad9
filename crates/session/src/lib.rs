//! One scenario from its file to its results, on either machine: it is read and made ready
//! (`case`), judged (`verdict`), changed so that its jobs are in time (`fit`), simulated and
//! observed (`observe`) or run with real programs (`live`), watched (`view`, `metrics`), and reported (`results`).

#![forbid(unsafe_code)]

pub mod case;
pub mod cores;
pub mod fit;
pub mod live;
pub mod metrics;
pub mod observe;
pub mod results;
pub mod source;
pub mod verdict;
mod view;
