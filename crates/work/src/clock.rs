//! The one clock of built-in work and benches.

/// The kernel's monotonic time in nanoseconds, which perf records carry too.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
