//! A trace as LITMUS^RT records it (`sched_trace`), for `st-dump`, `st-job-stats` and other readers
//! of its `.st` files.
//!
//! Records are those of `include/litmus/sched_trace.h` of LITMUS^RT: 24 bytes, little endian, of
//! which 8 are a header (type, core, pid, job). A completion has the execution time beside its flag
//! as in `feather-trace-tools`. Times are nanoseconds since the start of the run. A VCPU's pid is
//! its id + 1, as pid 0 belongs to the system; job N has the number N + 1, and 0 is time outside
//! jobs. The records are in the order of time, all cores in one file.

use crate::TraceError;
use crate::steps::{NO_JOB, Step, Steps, Task, What};
use maracas_core::journal::{Header, Reader};
use std::io::{self, Write};

/// `st_event_record_type_t`.
mod kind {
    pub(super) const NAME: u8 = 1;
    pub(super) const PARAM: u8 = 2;
    pub(super) const RELEASE: u8 = 3;
    pub(super) const SWITCH_TO: u8 = 5;
    pub(super) const SWITCH_AWAY: u8 = 6;
    pub(super) const COMPLETION: u8 = 7;
    pub(super) const BLOCK: u8 = 8;
    pub(super) const RESUME: u8 = 9;
    pub(super) const SYS_RELEASE: u8 = 11;
}

/// Cores that a record's 8 bits can name.
const MOST_CORES: usize = 1 << 8;
/// Tasks that a record's 16 bits can name, pid 0 left out.
const MOST_TASKS: usize = (1 << 16) - 1;
/// Bytes of a name, with the zero that ends it (`ST_NAME_LEN`).
const NAME_LENGTH: usize = 16;

/// What a record says of its job, after its header.
type Payload = [u8; 16];

/// Says whether the format can name the cores and VCPUs of a system.
///
/// # Errors
/// Where it cannot, in a sentence.
pub fn check(header: &Header) -> Result<(), TraceError> {
    named(header.system.cores.len(), header.system.vcpus.len())
}

fn named(cores: usize, tasks: usize) -> Result<(), TraceError> {
    let refuse = |count: usize, what: &str, most: usize| {
        Err(TraceError::Format(format!(
            "sched_trace can name {most} {what} and there are {count}; write BTF (.btf) or \
             Perfetto's format"
        )))
    };
    if cores > MOST_CORES {
        return refuse(cores, "cores", MOST_CORES);
    }
    if tasks > MOST_TASKS {
        return refuse(tasks, "VCPUs", MOST_TASKS);
    }
    Ok(())
}

/// Writes the trace of a whole journal. Returns what of it the format cannot say, a sentence each.
///
/// # Errors
/// Where the journal cannot be read, has more cores (256) or VCPUs (65535) than the format can
/// name, or `out` cannot be written.
pub fn from_journal(journal: &[u8], out: impl Write) -> Result<Vec<String>, TraceError> {
    let (header, _) = Reader::open(journal)?;
    let run = Steps::of(journal)?;
    named(header.system.cores.len(), run.tasks.len())?;
    let mut records = Records { out, cut: Cut::default() };
    for (pid, task) in (1..=u16::MAX).zip(&run.tasks) {
        records.task(&run, pid, task)?;
    }
    records.write((kind::SYS_RELEASE, 0, 0, 0), two(0, 0))?;
    for step in &run.steps {
        records.step(&run, step)?;
    }
    records.out.flush()?;
    Ok(records.cut.remarks(&run))
}

/// What did not fit, by pid.
#[derive(Default)]
struct Cut {
    names: Vec<u16>,
    times: Vec<u16>,
}

impl Cut {
    /// A time in 32 bits.
    fn short(&mut self, pid: u16, ns: u64) -> [u8; 4] {
        if ns > u64::from(u32::MAX) && self.times.last() != Some(&pid) {
            self.times.push(pid);
        }
        u32::try_from(ns).unwrap_or(u32::MAX).to_le_bytes()
    }
    fn remarks(mut self, run: &Steps) -> Vec<String> {
        let listed = |pids: &[u16]| {
            let names: Vec<&str> =
                pids.iter().map(|pid| run.tasks[usize::from(*pid) - 1].name.as_str()).collect();
            names.join(", ")
        };
        self.times.sort_unstable();
        self.times.dedup();
        let mut remarks = Vec::new();
        if !self.names.is_empty() {
            let most = NAME_LENGTH - 1;
            let names = listed(&self.names);
            remarks.push(format!("sched_trace has {most} bytes for a name; cut: {names}"));
        }
        if !self.times.is_empty() {
            let names = listed(&self.times);
            remarks.push(format!(
                "sched_trace has 32 bits for C, T, the first release and the time that a job has \
                 run; longer than 4.29 s, and written as that: {names}"
            ));
        }
        remarks
    }
}

struct Records<W> {
    out: W,
    cut: Cut,
}

impl<W: Write> Records<W> {
    /// Writes one record: type, core, pid and job, and what belongs to the type.
    fn write(&mut self, header: (u8, u8, u16, u32), payload: Payload) -> io::Result<()> {
        let (kind, core, pid, job) = header;
        self.out.write_all(&[kind, core])?;
        self.out.write_all(&pid.to_le_bytes())?;
        self.out.write_all(&job.to_le_bytes())?;
        self.out.write_all(&payload)
    }

    /// Name and parameters.
    fn task(&mut self, run: &Steps, pid: u16, task: &Task) -> io::Result<()> {
        let core = task.first_core.0 as u8;
        let (mut name, mut length) = ([0; NAME_LENGTH], task.name.len().min(NAME_LENGTH - 1));
        while !task.name.is_char_boundary(length) {
            length -= 1;
        }
        name[..length].copy_from_slice(&task.name.as_bytes()[..length]);
        if length < task.name.len() {
            self.cut.names.push(pid);
        }
        self.write((kind::NAME, core, pid, 0), name)?;
        let promised = !task.reservation.is_none();
        let (budget, period) = (task.reservation.budget, task.reservation.period);
        let mut param = [0; 16];
        let times = [budget.ticks(), period.ticks(), task.first_release.ticks()];
        let times = times.map(|ticks| if promised { run.ns(ticks) } else { 0 });
        for (place, ns) in times.into_iter().enumerate() {
            param[place * 4..place * 4 + 4].copy_from_slice(&self.cut.short(pid, ns));
        }
        param[12] = core;
        self.write((kind::PARAM, core, pid, 0), param)
    }

    fn step(&mut self, run: &Steps, step: &Step) -> io::Result<()> {
        let (pid, job, core) = (step.vcpu.0 as u16 + 1, step.job, step.core.0 as u8);
        let at = run.ns(step.at.ticks());
        let header = |kind| (kind, core, pid, job);
        match step.what {
            What::Activated { deadline } if job != NO_JOB => {
                self.write(header(kind::RELEASE), two(at, run.ns(deadline.ticks())))
            }
            What::Activated { .. } => Ok(()),
            What::Woke => self.write(header(kind::RESUME), two(at, 0)),
            What::On { service, .. } => {
                let mut payload = two(at, 0);
                let so_far = self.cut.short(pid, run.ns(service));
                payload[8..12].copy_from_slice(&so_far);
                self.write(header(kind::SWITCH_TO), payload)
            }
            What::Off { blocked, service } => {
                if blocked {
                    self.write(header(kind::BLOCK), two(at, 0))?;
                }
                self.write(header(kind::SWITCH_AWAY), two(at, run.ns(service)))
            }
            What::Over { service } => {
                self.completed(header(kind::COMPLETION), at, run.ns(service))?;
                self.write(header(kind::SWITCH_AWAY), two(at, run.ns(service)))
            }
            What::OverOff { service, .. } => {
                self.completed(header(kind::COMPLETION), at, run.ns(service))
            }
        }
    }

    /// The end of a job; the lowest bit says that it was cut off, which none is.
    fn completed(&mut self, header: (u8, u8, u16, u32), at: u64, ns: u64) -> io::Result<()> {
        if header.3 == NO_JOB { Ok(()) } else { self.write(header, two(at, ns << 1)) }
    }
}

fn two(a: u64, b: u64) -> Payload {
    let mut payload = [0; 16];
    payload[..8].copy_from_slice(&a.to_le_bytes());
    payload[8..].copy_from_slice(&b.to_le_bytes());
    payload
}
