//! A policy that is written in Python: its register entry, and the calls to and fro.
//!
//! An [`Entry`] holds plain functions, which know no object. So the Python class that they are to
//! call is that of the thread, for as long as [`with`] runs; its exceptions leave the machine by
//! unwinding, and `with` raises them again.

use crate::contract;
use crate::errors::{ContractError, error};
use maracas_core::admission::{NotAdmitted, Verdict};
use maracas_core::contract::{
    Claims, Entry, Event, Grant, Limit, MemoryLimit, Needs, Plan, Policy, Statistic,
    no_service_vcpus,
};
use maracas_core::params::Params;
use maracas_core::{CoreId, Instant, List, System, VcpuId};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// What Python says of a policy: `maracas.contract._entry` makes it.
pub(crate) struct PythonPolicy {
    /// What the machine knows of it.
    pub(crate) entry: &'static Entry,
    /// With `admit(system)` and `build(system)`.
    factory: Py<PyAny>,
}

thread_local! {
    static CURRENT: RefCell<Option<Py<PyAny>>> = const { RefCell::new(None) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps one copy of a text for ever: entries and statistics have names that last.
fn kept(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = kept.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    text
}

/// Keeps one entry for each set of words, needs and claims.
fn entry(py: Python<'_>, entry: Entry) -> &'static Entry {
    static KEPT: Mutex<BTreeMap<String, &'static Entry>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner);
    let word = format!("{:?}", (entry.name, entry.summary, entry.needs, entry.claims));
    kept.entry(word).or_insert_with(|| Box::leak(Box::new(entry)))
}

impl PythonPolicy {
    /// The policy of an entry object.
    pub(crate) fn of(of: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = of.py();
        let text = |name: &str| of.getattr(name)?.extract::<String>().map(|text| kept(&text));
        let (needs, claims) = (of.getattr("needs")?, of.getattr("claims")?);
        let flag = |of: &Bound<'_, PyAny>, name: &str| of.getattr(name)?.extract::<bool>();
        let new = Entry {
            name: text("name")?,
            paper: "",
            summary: text("summary")?,
            params: &[],
            needs: Needs {
                jobs: flag(&needs, "jobs")?,
                visible_wakes: flag(&needs, "visible_wakes")?,
                counters: flag(&needs, "counters")?,
                budgets: flag(&needs, "budgets")?,
                ..Needs::default()
            },
            claims: Claims {
                partitioned: flag(&claims, "partitioned")?,
                work_conserving: flag(&claims, "work_conserving")?,
                no_miss_when_admitted: flag(&claims, "no_miss_when_admitted")?,
            },
            service_vcpus: no_service_vcpus,
            admit,
            fits: None,
            build,
        };
        Ok(Self { entry: entry(py, new), factory: of.clone().unbind() })
    }
}

/// Does `work`, in which `policy` is the one that its entry builds. Without one the interpreter is
/// released meanwhile, and [`ask_python`] may end it.
///
/// # Errors
/// Those of `work`, what the policy raised, and how it broke the contract.
pub(crate) fn with<T: Send>(
    py: Python<'_>,
    policy: Option<&PythonPolicy>,
    work: impl FnOnce() -> PyResult<T> + Send,
) -> PyResult<T> {
    let Some(policy) = policy else { return detached(py, work) };
    let before = CURRENT.replace(Some(policy.factory.clone_ref(py)));
    let done = maracas_tests::quietly(|| Ok(work()));
    CURRENT.set(before);
    match (RAISED.take(), done) {
        (Some(raised), _) => Err(raised),
        (None, Ok(done)) => done,
        (None, Err(broken)) => Err(ContractError::new_err(broken)),
    }
}

fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> PyResult<T> + Send) -> PyResult<T> {
    let done = py.detach(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
    match (done, RAISED.take()) {
        (Ok(done), _) => done,
        (Err(_), Some(raised)) => Err(raised),
        (Err(panic), None) => std::panic::resume_unwind(panic),
    }
}

/// Lets Python handle signals, as it does between two of its own instructions: Ctrl-C ends what
/// [`with`] does.
pub(crate) fn ask_python() {
    called(|py| py.check_signals());
}

/// Leaves the machine with an exception.
fn unwind(py: Python<'_>, raised: PyErr) -> ! {
    let text = raised.value(py).to_string();
    RAISED.set(Some(raised));
    std::panic::resume_unwind(Box::new(text))
}

/// Calls into Python; what it raises ends the run.
fn called<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    Python::attach(|py| call(py).unwrap_or_else(|raised| unwind(py, raised)))
}

fn current(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let current = CURRENT.with_borrow(|current| current.as_ref().map(|it| it.clone_ref(py)));
    current.ok_or_else(|| error("a policy written in Python runs where it is called from"))
}

/// VCPUs that are refused, and why, by Python's `admit`.
fn admit(system: &System, _: &Params) -> Verdict {
    let refused: BTreeMap<u32, String> = called(|py| {
        let system = contract::system(py, system)?;
        let refused = current(py)?.call_method1(py, intern!(py, "admit"), (system,))?;
        refused.extract(py)
    });
    let why = |(vcpu, reason)| (VcpuId(vcpu), NotAdmitted { reason, closest: None });
    Verdict { refused: refused.into_iter().map(why).collect(), ..Verdict::default() }
}

fn build(system: &System, params: &Params) -> Result<Box<dyn Policy>, Verdict> {
    let verdict = admit(system, params);
    if !verdict.accepted() {
        return Err(verdict);
    }
    Ok(called(|py| {
        let seen = contract::system(py, system)?;
        let policy = current(py)?.call_method1(py, intern!(py, "build"), (seen,))?;
        let plan = contract::class(py, "Plan")?.call1((system.cores.len(),))?.unbind();
        Ok(Box::new(Running { policy, plan }))
    }))
}

/// An object of the Python class, and the plan that it keeps.
struct Running {
    policy: Py<PyAny>,
    plan: Py<PyAny>,
}

/// A grant as Python gives it: the VCPU, its limit and its memory limit.
type Granted = (u32, Option<u64>, Option<u64>);
/// What changed in a plan: queues, homes, answers, and when to ask again.
type Changed = (
    Vec<(u16, Vec<Granted>, Vec<Granted>, bool, Option<u64>)>,
    Vec<(u32, Option<u16>)>,
    Vec<(u32, u16, Option<String>)>,
    Option<u64>,
    bool,
);

fn grant((vcpu, until, memory): Granted) -> Grant {
    let until = until.map_or(Limit::NEVER, |at| Limit(maracas_core::Duration::from_ticks(at)));
    let memory = memory.map_or(MemoryLimit::NEVER, MemoryLimit);
    Grant { memory, ..Grant::new(VcpuId(vcpu), until) }
}

fn apply(changed: Changed, plan: &mut Plan) {
    let (queues, homes, answers, wake, metered) = changed;
    for (core, foreground, background, allowed, allowance) in queues {
        let queue = plan.run_queue_mut(CoreId(core));
        queue.foreground = foreground.into_iter().map(grant).collect();
        let mut grants = List::new();
        grants.extend(background.into_iter().map(grant));
        queue.background = grants;
        queue.background_allowed = allowed;
        queue.allowance = allowance.map_or(MemoryLimit::NEVER, MemoryLimit);
    }
    for (vcpu, home) in homes {
        plan.set_home(VcpuId(vcpu), home.map(CoreId));
    }
    for (vcpu, core, refused) in answers {
        let no = |reason| Err(NotAdmitted { reason, closest: None });
        plan.answer(VcpuId(vcpu), refused.map_or(Ok(CoreId(core)), no));
    }
    plan.wake = wake.map_or(Instant::NEVER, Instant::from_ticks);
    plan.wake_metered = metered;
}

impl Policy for Running {
    fn on_event(&mut self, at: Instant, event: &Event) {
        called(|py| {
            let Some(event) = contract::event(py, event)? else { return Ok(()) };
            self.policy.call_method1(py, intern!(py, "on_event"), (at.ticks(), event)).map(drop)
        });
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        let changed = called(|py| {
            self.policy.call_method1(py, intern!(py, "plan"), (now.ticks(), &self.plan))?;
            self.plan.call_method0(py, intern!(py, "_take"))?.extract(py)
        });
        apply(changed, plan);
    }
    fn statistics(&self) -> Vec<Statistic> {
        let counts: BTreeMap<String, u64> =
            called(|py| self.policy.call_method0(py, intern!(py, "statistics"))?.extract(py));
        let one = |(name, value): (String, u64)| {
            let name = kept(&name);
            Statistic { name, core: None, vcpu: None, value }
        };
        counts.into_iter().map(one).collect()
    }
}
