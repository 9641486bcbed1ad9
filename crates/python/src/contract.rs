//! Events and systems as Python sees them: named tuples of `maracas.contract`, times in ticks.

use maracas_core::contract::{End, Event, Mode, Segment};
use maracas_core::{Arrival, Duration, Role, System, Vcpu};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyModule, PyTuple};

/// A class of Python's half of the contract.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE
        .get_or_try_init(py, || PyModule::import(py, "maracas.contract").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// The system, as `admit` and `build` see it.
pub(crate) fn system<'py>(py: Python<'py>, system: &System) -> PyResult<Bound<'py, PyAny>> {
    let vcpus = system.vcpus.iter().map(|it| vcpu(py, it)).collect::<PyResult<Vec<_>>>()?;
    let speed = |core: &maracas_core::Core| system.classes[usize::from(core.class)].speed_milli;
    let speeds = PyTuple::new(py, system.cores.iter().map(speed))?;
    let capacity = (system.capacity.num(), system.capacity.den());
    let (cores, scale) = (system.cores.len(), system.ticks_per_ns);
    let vcpus = PyTuple::new(py, vcpus)?;
    class(py, "System")?.call1((cores, vcpus, capacity, speeds, scale))
}

fn vcpu<'py>(py: Python<'py>, vcpu: &Vcpu) -> PyResult<Bound<'py, PyAny>> {
    let ticks = Duration::ticks;
    let (arrival, offset) = match vcpu.arrival {
        Arrival::Periodic { offset } => ("periodic", ticks(offset)),
        Arrival::Sporadic => ("sporadic", 0),
        Arrival::None => ("none", 0),
    };
    let role = match vcpu.role {
        Role::Main => "main",
        Role::Io => "io",
        Role::Monitor => "monitor",
        Role::Migration => "migration",
    };
    let r = vcpu.reservation;
    class(py, "Vcpu")?.call1((
        vcpu.id.0,
        ticks(r.budget),
        ticks(r.period),
        ticks(r.deadline),
        arrival,
        offset,
        role,
        vcpu.pinned.map(|core| core.0),
        vcpu.weight,
        vcpu.bandwidth.map(std::num::NonZeroU64::get),
    ))
}

fn ran<'py>(py: Python<'py>, segment: &Segment) -> PyResult<Bound<'py, PyAny>> {
    let mode = match segment.mode {
        Mode::Foreground => "foreground",
        Mode::Background => "background",
    };
    let end = match segment.end {
        End::Blocked => "blocked",
        End::Preempted => "preempted",
        End::LimitReached => "limit",
        End::MemorySpent => "memory",
        End::Moved => "moved",
        End::Metered => "metered",
        End::Exited => "exited",
    };
    let (from, to, usage) = (segment.from.ticks(), segment.to.ticks(), &segment.usage);
    class(py, "Ran")?.call1((
        segment.vcpu.0,
        segment.core.0,
        mode,
        from,
        to,
        usage.service.ticks(),
        end,
        usage.references,
        usage.reads,
        usage.writes,
        usage.instructions,
    ))
}

/// An event; `None` for what answers service requests, which a policy in Python makes none of.
pub(crate) fn event<'py>(py: Python<'py>, event: &Event) -> PyResult<Option<Bound<'py, PyAny>>> {
    let event = match event {
        Event::Ran(segment) => ran(py, segment)?,
        Event::Released(job) => {
            let (release, deadline) = (job.release.ticks(), job.deadline.ticks());
            class(py, "Released")?.call1((job.id.vcpu.0, job.id.index, release, deadline))?
        }
        Event::Completed(job) => class(py, "Completed")?.call1((job.vcpu.0, job.index))?,
        Event::Woke { vcpu, on_behalf, exact } => {
            class(py, "Woke")?.call1((vcpu.0, on_behalf.map(|vcpu| vcpu.0), *exact))?
        }
        Event::AllowanceSpent { core } => class(py, "AllowanceSpent")?.call1((core.0,))?,
        Event::Arrived(it) => class(py, "Arrived")?.call1((vcpu(py, it)?,))?,
        Event::Left(vcpu) => class(py, "Left")?.call1((vcpu.0,))?,
        Event::Changed(it) => class(py, "Changed")?.call1((vcpu(py, it)?,))?,
        Event::Sampled(_)
        | Event::Utilized { .. }
        | Event::ServiceDone(_)
        | Event::Failed { .. } => return Ok(None),
    };
    Ok(Some(event))
}
