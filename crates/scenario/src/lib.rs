//! Room `scenario`: see ARCHITECTURE.md.
