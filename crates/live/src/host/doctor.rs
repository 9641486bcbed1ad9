//! doctor, being written.
