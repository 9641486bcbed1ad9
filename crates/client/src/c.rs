//! The C interface; `include/maracas.h` documents it.

use crate::color::{self, Buffer, ColorSet};
use crate::{Duration, Mode, Reservation, own, progress};
use maracas_core::{Arrival, CoreId, Criticality, Role, Vcpu};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt::Display;
use std::num::NonZero;
use std::ptr;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the error's sentence for `maracas_last_error`.
fn reported<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result
        .map_err(|error| {
            let text = error.to_string().replace('\0', " ");
            let text = CString::new(text).unwrap_or_default();
            // Gone where the thread is ending and a destructor of its data calls.
            let _ = LAST.try_with(|last| last.replace(text));
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
    reported(own::vcpu_create(budget, period, colors)).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_task_create(budget_ns: u64, period_ns: u64, colors: u32) -> bool {
    let (budget, period) = (Duration::from_nanos(budget_ns), Duration::from_nanos(period_ns));
    reported(own::task_create(budget, period, colors)).is_some()
}

/// What C programs say of a VCPU; `struct maracas_vcpu` in the header, field by field.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct MaracasVcpu {
    budget_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    offset_ns: u64,
    bandwidth: u64,
    name: *const c_char,
    core: i32,
    core_class: i32,
    colors: u32,
    weight: u32,
    speedup_milli: u32,
    jobs: i32,
    is_io: bool,
    is_low: bool,
}

impl MaracasVcpu {
    fn vcpu(&self) -> Result<Vcpu, String> {
        let ns = Duration::from_nanos;
        let arrival = match self.jobs {
            0 => Arrival::None,
            1 => Arrival::Periodic { offset: ns(self.offset_ns) },
            2 => Arrival::Sporadic,
            other => return Err(format!("jobs is {other}; one of MARACAS_*_JOBS may be")),
        };
        let (budget, period, deadline) =
            (ns(self.budget_ns), ns(self.period_ns), ns(self.deadline_ns));
        Ok(Vcpu {
            reservation: Reservation { budget, period, deadline },
            arrival,
            role: if self.is_io { Role::Io } else { Role::Main },
            pinned: given("core", self.core)?.map(CoreId),
            class: given("core_class", self.core_class)?,
            colors: self.colors,
            weight: self.weight,
            bandwidth: NonZero::new(self.bandwidth),
            criticality: if self.is_low { Criticality::Low } else { Criticality::High },
            speedup_milli: NonZero::new(self.speedup_milli),
            ..Vcpu::new(0, budget, period)
        })
    }
}

/// A number from 0 on, where one was given: -1 says that none was.
fn given<T: TryFrom<i32>>(name: &str, number: i32) -> Result<Option<T>, String> {
    let none = number == -1;
    let found = T::try_from(number).ok().filter(|_| !none);
    if none || found.is_some() { Ok(found) } else { Err(format!("{name} cannot be {number}")) }
}

/// # Safety
/// `vcpu` is null or points to a VCPU whose name is null or a string that ends with a null.
#[unsafe(no_mangle)]
unsafe extern "C" fn maracas_create_vcpu(vcpu: *const MaracasVcpu) -> bool {
    // SAFETY: null, or the caller vouches for it.
    let Some(asked) = reported(unsafe { vcpu.as_ref() }.ok_or("the VCPU is null")) else {
        return false;
    };
    let name = if asked.name.is_null() {
        String::new()
    } else {
        // SAFETY: not null, and then the caller vouches for it.
        unsafe { CStr::from_ptr(asked.name) }.to_string_lossy().into_owned()
    };
    let Some(vcpu) = reported(asked.vcpu()) else { return false };
    reported(own::create_vcpu(&name, vcpu)).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_vcpu_destroy() -> bool {
    reported(own::vcpu_destroy()).is_some()
}

/// # Safety
/// `job` is null or points to writable memory for one job.
#[unsafe(no_mangle)]
unsafe extern "C" fn maracas_job_wait(job: *mut MaracasJob) -> bool {
    let Some(given) = reported(own::job_wait()) else { return false };
    if !job.is_null() {
        let (release_ns, deadline_ns) = (given.release.ticks(), given.deadline.ticks());
        // SAFETY: not null, and then the caller vouches for it.
        unsafe { job.write(MaracasJob { index: given.id.index, release_ns, deadline_ns }) };
    }
    true
}

#[unsafe(no_mangle)]
extern "C" fn maracas_job_done() -> bool {
    reported(own::job_done()).is_some()
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
    let Some(mut made) = reported(made) else { return false };
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
    reported(ColorSet::new(mask, colors).and_then(|set| color::recolor(range, set))).is_some()
}

#[unsafe(no_mangle)]
extern "C" fn maracas_wrong_pages(
    memory: *const c_void,
    bytes: usize,
    mask: u64,
    colors: u32,
) -> i64 {
    let range = memory as usize..(memory as usize).saturating_add(bytes);
    let report = reported(ColorSet::new(mask, colors).and_then(|set| color::verify(range, set)));
    report.map_or(-1, |report| report.wrong as i64)
}

#[unsafe(no_mangle)]
extern "C" fn maracas_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
