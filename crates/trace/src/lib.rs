//! Room `trace`: see ARCHITECTURE.md.
