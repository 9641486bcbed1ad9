//! Room `live`: see ARCHITECTURE.md.
