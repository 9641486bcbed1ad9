//! snapshot, being written.
