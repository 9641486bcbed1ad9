//! probe, being written.
