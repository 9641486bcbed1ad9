//! One scenario from its file to its results, on either machine: it is read and made ready
//! (`case`), judged (`verdict`, `check`), changed so that its jobs are in time (`fit`), simulated
//! and observed (`simulation`, `observe`) or run with real programs (`live`), watched (`view`,
//! `metrics`), and reported (`results`, `threads`, `blocking`). Beside these, what else is asked of
//! a case or its journal: the tree of an optimal scheduler (`tree`), a replay (`replay`), and a
//! memory alone (`memory`).

#![forbid(unsafe_code)]

pub mod blocking;
pub mod case;
pub mod check;
pub mod cores;
pub mod fit;
pub mod live;
pub mod memory;
pub mod metrics;
pub mod observe;
pub mod replay;
pub mod results;
pub mod simulation;
pub mod source;
pub mod threads;
pub mod tree;
pub mod verdict;
mod view;
