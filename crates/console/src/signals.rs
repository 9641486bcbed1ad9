//! The signals that ask a program to end.

use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGTERM and SIGINT raise.
///
/// # Errors
/// Where the kernel takes no handler.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::about("a signal handler cannot be set", error))?;
    }
    Ok(stop)
}
