//! What several test files share: random systems, auditors.
