//! Room `policies`: see ARCHITECTURE.md.
