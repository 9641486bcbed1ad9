//! The calling thread's own VCPU.

use crate::{Connection, Error, Jobs};
use maracas_core::contract::Mode;
use maracas_core::control::{Members, NewVcpu, VCPU_VARIABLE};
use maracas_core::{Arrival, Duration, Job, Vcpu, VcpuId};
use std::cell::RefCell;
use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;

/// What the calling thread has.
#[derive(Debug, Default)]
struct Own {
    /// The process that it is of. A forked child finds a copy of its parent's.
    process: u32,
    /// The VCPU that this thread created.
    vcpu: Option<Created>,
    /// The stream of its jobs, or of the VCPU on which the run started this program.
    jobs: Option<Jobs>,
}

/// A VCPU, and the socket of its run: in another run its number is another VCPU's.
#[derive(Debug)]
struct Created {
    /// Its number in that run.
    vcpu: VcpuId,
    /// The socket by which it was created.
    socket: PathBuf,
}

/// Of calls that need a VCPU of the thread's own.
const NO_VCPU: Error = Error::OutOfTurn("this thread created no VCPU");

thread_local! {
    static OWN: RefCell<Own> = RefCell::default();
}

/// Calls with what the thread has.
///
/// # Errors
/// As `call`; [`NO_VCPU`] where the thread is ending and its variables are gone, so that a
/// destructor of the C library's thread-specific data calls.
fn with_own<T>(call: impl FnOnce(&mut Own) -> Result<T, Error>) -> Result<T, Error> {
    let called = OWN.try_with(|own| {
        let own = &mut *own.borrow_mut();
        let process = std::process::id();
        if own.process != process {
            // The parent's VCPU and jobs stay the parent's; what is closed is a copy of its stream.
            *own = Own { process, ..Own::default() };
        }
        call(own)
    });
    called.unwrap_or(Err(NO_VCPU))
}

impl Own {
    /// Creates a VCPU for the calling thread over `connection`.
    ///
    /// # Errors
    /// As [`create_vcpu`]. Then the thread has none.
    fn create(
        &mut self,
        mut connection: Connection,
        name: &str,
        vcpu: Vcpu,
    ) -> Result<VcpuId, Error> {
        // SAFETY: cannot fail.
        let tid = unsafe { libc::gettid() }.unsigned_abs();
        let (arrival, members) = (vcpu.arrival, Members::Thread(tid));
        let new = NewVcpu { name: name.into(), vcpu, members };
        let (vcpu, _) = connection.create(&new)?;
        self.jobs = None;
        let socket = connection.path().to_path_buf();
        let created = self.vcpu.insert(Created { vcpu, socket });
        match arrival {
            Arrival::None => {}
            Arrival::Periodic { .. } | Arrival::Sporadic => match connection.jobs(vcpu) {
                Ok(jobs) => self.jobs = Some(jobs),
                Err(error) => {
                    // A task that gets no jobs is none; the error says more than a second one.
                    let _ = created.destroy();
                    self.vcpu = None;
                    return Err(error);
                }
            },
        }
        Ok(vcpu)
    }

    /// Ends the VCPU, which the thread keeps where that fails, unless it is gone.
    ///
    /// # Errors
    /// As [`vcpu_destroy`].
    fn destroy(&mut self) -> Result<(), Error> {
        let created = self.vcpu.as_ref().ok_or(NO_VCPU)?;
        let result = created.destroy();
        if result.as_ref().map_or_else(|error| created.is_gone(error), |()| true) {
            (self.vcpu, self.jobs) = (None, None);
        }
        result
    }
}

impl Created {
    /// Ends it.
    ///
    /// # Errors
    /// Where the run has ended, or the VCPU is gone.
    fn destroy(&self) -> Result<(), Error> {
        Connection::open_at(&self.socket)?.destroy(self.vcpu)
    }

    /// Whether the run has ended, or knows the VCPU no more, after its end failed by `error`.
    fn is_gone(&self, error: &Error) -> bool {
        match error {
            Error::Socket(_, error) => {
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
            }
            Error::Refused(_) | Error::Said(_) => {
                let all = Connection::open_at(&self.socket).and_then(|mut run| run.list());
                all.is_ok_and(|all| all.iter().all(|one| one.vcpu != self.vcpu))
            }
            Error::NoRun
            | Error::NoSuchRun(_)
            | Error::SeveralRuns(_)
            | Error::Frame(_)
            | Error::OutOfTurn(_) => false,
        }
    }
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
    with_own(|own| {
        if own.vcpu.is_some() {
            return Err(Error::OutOfTurn("this thread has a VCPU; destroy it first"));
        }
        own.create(Connection::open()?, name, vcpu)
    })
}

/// Ends the VCPU that the calling thread created; the thread goes on as an ordinary one.
///
/// # Errors
/// Where it created none in this process, or the run has ended (which ended the VCPU too). Where
/// the runtime does not answer, the thread has its VCPU still.
pub fn vcpu_destroy() -> Result<(), Error> {
    with_own(Own::destroy)
}

/// Waits for the next job of the calling thread's task: of [`task_create`], else of the VCPU on
/// which the run started this program (`MARACAS_VCPU`). A job begun before is reported done first.
///
/// # Errors
/// Where there is no such VCPU, or the run has ended.
pub fn job_wait() -> Result<Job, Error> {
    with_own(|own| {
        if own.jobs.is_none() {
            own.jobs = Some(Connection::open()?.jobs(given(own.vcpu.as_ref())?)?);
        }
        own.jobs.as_mut().ok_or(Error::OutOfTurn("this thread has no jobs"))?.wait()
    })
}

/// The VCPU whose jobs are meant where this thread created no task.
fn given(created: Option<&Created>) -> Result<VcpuId, Error> {
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
    with_own(|own| own.jobs.as_mut().ok_or(Error::OutOfTurn("no job was begun"))?.done())
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
mod tests;
