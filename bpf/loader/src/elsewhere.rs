//! A VCPU whose thread is confined to another core than the VCPU's keeps none behind it waiting.
//!
//! Two VCPUs spin on core 1, each with its budget, beside a program of no VCPU. The first stands
//! before the second, and its thread is confined to core 0 for a while, and to core 1 again.

use super::{
    BUDGET_NS, BUDGETED, CORE, PERIOD_NS, Programs, Result, Span, attach, foreground, raise,
    spinner, tell,
};
use maracas_kernel::Scheduler;

/// The core on which the first VCPU's thread can then run alone.
const ELSEWHERE: u32 = 0;
/// Periods of each part: what waits meanwhile is not tended, and the watchdog allows 20 s.
const PERIODS: u64 = 200;

/// Confines a process to these cores.
pub(super) fn confine(process: u32, cores: &[u32]) -> Result<()> {
    // SAFETY: a set of our own, all zero bits of which are a set without cores.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cores.iter().for_each(|core| libc::CPU_SET(*core as usize, &mut set));
        libc::sched_setaffinity(process as libc::pid_t, size_of_val(&set), &set)
    };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
}

pub(super) fn run(object: &str) -> Result<()> {
    let mut programs = Programs(Vec::new());
    let mut scheduler = attach(object, BUDGETED + 1)?;
    for vcpu in 0..BUDGETED {
        scheduler.settle(vcpu, CORE)?;
        programs.0.push(spinner(&["spin"])?);
        scheduler.join(programs.0[vcpu as usize].id() as i32, vcpu)?;
    }
    programs.0.push(spinner(&["spin", "confined"])?);
    raise()?;
    tell(&mut programs.0)?;
    let first = programs.0[0].id();
    for (name, core) in [("before", CORE), ("away", ELSEWHERE), ("back", CORE)] {
        confine(first, &[core])?;
        let [first, second] = delivered(&mut scheduler)?;
        println!("elsewhere {name} first {first:.5} second {second:.5}");
    }
    scheduler.check()?;
    Ok(())
}

/// What both had of their budgets.
fn delivered(scheduler: &mut Scheduler) -> Result<[f64; 2]> {
    let span = Span::new(scheduler, BUDGETED, PERIODS)?;
    span.run(scheduler)?;
    // What is left of the last period's budgets is had after it, where one was late.
    std::thread::sleep(std::time::Duration::from_nanos(PERIOD_NS));
    let had = |vcpu: u32| (foreground(scheduler, vcpu) - span.meters[vcpu as usize]) as f64;
    Ok([0, 1].map(|vcpu| had(vcpu) / (PERIODS * BUDGET_NS) as f64))
}
