//! Room `client`: see ARCHITECTURE.md.
