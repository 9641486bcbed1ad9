//! The C interface; `include/maracas.h` documents it.

use crate::{Duration, Error, Mode, own, progress};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the error's sentence for `maracas_last_error`.
fn told<T>(result: Result<T, Error>) -> Option<T> {
    result
        .map_err(|error| {
            let text = error.to_string().replace('\0', " ");
            LAST.set(CString::new(text).unwrap_or_default());
        })
        .ok()
}

/// What C programs get of a job.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MaracasJob {
    index: u32,
    release_ns: u64,
    deadline_ns: u64,
}

#[unsafe(no_mangle)]
extern "C" fn maracas_vcpu_create(budget_ns: u64, period_ns: u64, colors: u32) -> bool {
    let (budget, period) = (Duration::from_nanos(budget_ns), Duration::from_nanos(period_ns));
    told(own::vcpu_create(budget, period, colors)).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_task_create(budget_ns: u64, period_ns: u64, colors: u32) -> bool {
    let (budget, period) = (Duration::from_nanos(budget_ns), Duration::from_nanos(period_ns));
    told(own::task_create(budget, period, colors)).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_vcpu_destroy() -> bool {
    told(own::vcpu_destroy()).is_some()
}

/// # Safety
/// `job` is null or points to writable memory for one job.
#[unsafe(no_mangle)]
unsafe extern "C" fn maracas_job_wait(job: *mut MaracasJob) -> bool {
    let Some(given) = told(own::job_wait()) else { return false };
    if !job.is_null() {
        let (release_ns, deadline_ns) = (given.release.ticks(), given.deadline.ticks());
        // SAFETY: not null, and then the caller vouches for it.
        unsafe { job.write(MaracasJob { index: given.id.index, release_ns, deadline_ns }) };
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn maracas_job_done() -> bool {
    told(own::job_done()).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_in_foreground() -> bool {
    own::mode() == Mode::Foreground
}

#[unsafe(no_mangle)]
extern "C" fn maracas_progress(units: u64) {
    progress::progress(units);
}

#[unsafe(no_mangle)]
extern "C" fn maracas_counts_progress() -> bool {
    progress::counts_progress()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
