//! The signals that ask a program to end.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGTERM, SIGINT and SIGHUP raise, the last unless it is ignored (nohup(1)).
///
/// # Errors
/// Where the kernel takes no handler.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let hang_up = (!ignores_hang_ups()).then_some(SIGHUP);
    for signal in [SIGTERM, SIGINT].into_iter().chain(hang_up) {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::about("a signal handler cannot be set", error))?;
    }
    Ok(stop)
}

/// Whether SIGHUP does nothing, by the line `SigIgn` of `/proc/self/status` (proc_pid_status(5)).
fn ignores_hang_ups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (SIGHUP - 1) != 0)
}
