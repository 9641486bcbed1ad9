//! The calling thread's own VCPU.

use crate::{Connection, Error, Jobs};
use maracas_core::contract::Mode;
use maracas_core::control::{Members, NewVcpu, VCPU_VARIABLE};
use maracas_core::{Arrival, Duration, Job, Vcpu, VcpuId};
use std::cell::RefCell;
use std::env;

#[derive(Debug, Default)]
struct Own {
    /// The VCPU that this thread created.
    vcpu: Option<VcpuId>,
    jobs: Option<Jobs>,
}

thread_local! {
    static OWN: RefCell<Own> = RefCell::default();
}

/// Creates a VCPU with `budget` C in every `period` T and at least `colors` page colours (0 = any)
/// and binds the calling thread to it: from its return on the thread has its reservation (MARACAS,
/// section V: `vcpu_create`). It ends with the thread or by [`vcpu_destroy`].
///
/// # Errors
/// [`Error::Refused`] with the admission numbers; where no run is found; where the thread has a
/// VCPU already; for a program that the run started on a VCPU as a whole.
pub fn vcpu_create(budget: Duration, period: Duration, colors: u32) -> Result<VcpuId, Error> {
    create_vcpu("", Vcpu { colors, ..Vcpu::new(0, budget, period) })
}

/// Like [`vcpu_create`] for a task: jobs are released every T, beginning now, and [`job_wait`]
/// gives them.
///
/// # Errors
/// As [`vcpu_create`].
pub fn task_create(budget: Duration, period: Duration, colors: u32) -> Result<VcpuId, Error> {
    create_vcpu("", Vcpu { colors, ..Vcpu::new(0, budget, period).periodic() })
}

/// Like [`vcpu_create`] with all that a scenario can say of a VCPU: class, speedup, bandwidth,
/// weight and so on. The number of `vcpu` counts for nothing; with an empty name the runtime
/// chooses one. A VCPU whose demand comes as jobs is a task, as that of [`task_create`].
///
/// # Errors
/// As [`vcpu_create`].
pub fn create_vcpu(name: &str, vcpu: Vcpu) -> Result<VcpuId, Error> {
    OWN.with_borrow_mut(|own| {
        if own.vcpu.is_some() {
            return Err(Error::OutOfTurn("this thread has a VCPU; destroy it first"));
        }
        // SAFETY: cannot fail.
        let tid = unsafe { libc::gettid() }.unsigned_abs();
        let (arrival, members) = (vcpu.arrival, Members::Thread(tid));
        let new = NewVcpu { name: name.into(), vcpu, members };
        let mut connection = Connection::open()?;
        let (vcpu, _) = connection.create(&new)?;
        own.vcpu = Some(vcpu);
        own.jobs = match arrival {
            Arrival::None => None,
            Arrival::Periodic { .. } | Arrival::Sporadic => Some(connection.jobs(vcpu)?),
        };
        Ok(vcpu)
    })
}

/// Ends the VCPU that the calling thread created; the thread goes on as an ordinary one.
///
/// # Errors
/// Where it created none, or the run has ended (which ended the VCPU too).
pub fn vcpu_destroy() -> Result<(), Error> {
    OWN.with_borrow_mut(|own| {
        let vcpu = own.vcpu.take().ok_or(Error::OutOfTurn("this thread created no VCPU"))?;
        own.jobs = None;
        Connection::open()?.destroy(vcpu)
    })
}

/// Waits for the next job of the calling thread's task: of [`task_create`], else of the VCPU on
/// which the run started this program (`MARACAS_VCPU`). A job begun before is reported done first.
///
/// # Errors
/// Where there is no such VCPU, or the run has ended.
pub fn job_wait() -> Result<Job, Error> {
    OWN.with_borrow_mut(|own| {
        if own.jobs.is_none() {
            own.jobs = Some(Connection::open()?.jobs(given(own.vcpu)?)?);
        }
        own.jobs.as_mut().ok_or(Error::OutOfTurn("this thread has no jobs"))?.wait()
    })
}

/// The VCPU whose jobs are meant where this thread created no task.
fn given(created: Option<VcpuId>) -> Result<VcpuId, Error> {
    if created.is_some() {
        return Err(Error::OutOfTurn("this thread's VCPU has no jobs; create it as a task"));
    }
    let number = env::var(VCPU_VARIABLE).ok().and_then(|text| text.parse().ok());
    number.map(VcpuId).ok_or(Error::OutOfTurn("this thread has no VCPU; create a task first"))
}

/// Says that the job which [`job_wait`] gave has received all its service.
///
/// # Errors
/// Where no job was begun, or the run has ended.
pub fn job_done() -> Result<(), Error> {
    OWN.with_borrow_mut(|own| own.jobs.as_mut().ok_or(Error::OutOfTurn("no job was begun"))?.done())
}

/// Whether the calling thread runs on its budget or on surplus time. One cheap system call: the
/// live machine enacts the foreground as `SCHED_FIFO` and the background as `SCHED_OTHER`, so the
/// thread's own class is the answer. It may change right after. A thread without a VCPU is in the
/// background by this measure, and so is every thread where the scheduler is in the kernel
/// (`--backend sched-ext`) or the host has no real-time class for us: classes stay the same there.
pub fn mode() -> Mode {
    // The raw call, since some C libraries refuse sched_getscheduler altogether.
    // SAFETY: plain arguments; 0 means the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let fifo = policy & !libc::c_long::from(libc::SCHED_RESET_ON_FORK)
        == libc::c_long::from(libc::SCHED_FIFO);
    if policy >= 0 && fifo { Mode::Foreground } else { Mode::Background }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_out_of_turn_say_what_is_missing() {
        let said = |error: Error| error.to_string();
        assert!(said(vcpu_destroy().unwrap_err()).contains("created no VCPU"));
        assert!(said(job_done().unwrap_err()).contains("no job was begun"));
        assert!(said(given(None).unwrap_err()).contains("create a task"));
        assert!(said(given(Some(VcpuId(1))).unwrap_err()).contains("as a task"));
        assert_eq!(mode(), Mode::Background, "tests run as ordinary threads");
    }
}
