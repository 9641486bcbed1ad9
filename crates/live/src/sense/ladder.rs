//! The ladder: every rung is tried and held against a known load; the best that passes is taken.
