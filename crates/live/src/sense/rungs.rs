//! The rungs: one file each.
