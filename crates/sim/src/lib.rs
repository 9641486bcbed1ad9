//! Room `sim`: see ARCHITECTURE.md.
