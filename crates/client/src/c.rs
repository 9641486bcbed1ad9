//! The C interface; `include/maracas.h` documents it.

use crate::color::{self, Buffer, ColorSet};
use crate::{Duration, Mode, own, progress};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::fmt::Display;
use std::ptr;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the error's sentence for `maracas_last_error`.
fn told<T, E: Display>(result: Result<T, E>) -> Option<T> {
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

/// What C programs get of a buffer.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MaracasBuffer {
    memory: *mut c_void,
    /// Ours: the buffer itself.
    own: *mut Buffer,
}

/// # Safety
/// `buffer` is null or points to writable memory for one buffer.
#[unsafe(no_mangle)]
unsafe extern "C" fn maracas_buffer_create(
    buffer: *mut MaracasBuffer,
    bytes: usize,
    mask: u64,
    colors: u32,
) -> bool {
    let made = ColorSet::new(mask, colors).and_then(|set| Buffer::of_colors(bytes, set));
    let Some(mut made) = told(made) else { return false };
    if !buffer.is_null() {
        let memory = made.as_mut_ptr().cast();
        let own = Box::into_raw(Box::new(made));
        // SAFETY: not null, and then the caller vouches for it.
        unsafe { buffer.write(MaracasBuffer { memory, own }) };
    }
    true
}

/// # Safety
/// `buffer` is null or points to a buffer that `maracas_buffer_create` made.
#[unsafe(no_mangle)]
unsafe extern "C" fn maracas_buffer_destroy(buffer: *mut MaracasBuffer) {
    // SAFETY: null, or the caller vouches for it; a buffer is forgotten when it is destroyed.
    if let Some(buffer) = unsafe { buffer.as_mut() } {
        let own = std::mem::replace(&mut buffer.own, ptr::null_mut());
        buffer.memory = ptr::null_mut();
        if !own.is_null() {
            // SAFETY: made by `Box::into_raw`, once.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn maracas_recolor(memory: *const c_void, bytes: usize, mask: u64, colors: u32) -> bool {
    let range = memory as usize..(memory as usize).saturating_add(bytes);
    told(ColorSet::new(mask, colors).and_then(|set| color::recolor(range, set))).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_wrong_pages(
    memory: *const c_void,
    bytes: usize,
    mask: u64,
    colors: u32,
) -> i64 {
    let range = memory as usize..(memory as usize).saturating_add(bytes);
    let report = told(ColorSet::new(mask, colors).and_then(|set| color::verify(range, set)));
    report.map_or(-1, |report| report.wrong as i64)
}

#[unsafe(no_mangle)]
extern "C" fn maracas_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
