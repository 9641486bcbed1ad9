//! Whether a thread has one period, and which.

use crate::error::Error;
use crate::formats::rt_app::micros;
use crate::formats::rt_app::phases::{Event, Repeated, event};
use maracas_core::script::{LEAST, Script, Scripts, Step};
use maracas_core::{Duration, Reservation};

/// Whether a task set can say what these phases do: in each some work, then sleep or a timer, at
/// one period; with a reservation of its own (`reserved`) also work alone.
pub(super) fn is_a_task(phases: &[Repeated<'_>], reserved: bool) -> Result<bool, Error> {
    let mut periods = Vec::new();
    for phase in phases {
        let (mut work, mut sleep, mut timer) = (None, None, None);
        for member in &phase.members {
            let Some(event) = event(member.key) else { continue };
            match event {
                _ if timer.is_some() => return Ok(false),
                Event::Yield => {}
                Event::Work if sleep.is_some() => return Ok(false),
                Event::Work => {
                    let before = work.unwrap_or(Duration::ZERO);
                    work = Some(before + micros(*member, "run")?.time);
                }
                Event::Sleep if work.is_none() => return Ok(false),
                Event::Sleep => {
                    let before = sleep.unwrap_or(Duration::ZERO);
                    sleep = Some(before + micros(*member, "sleep")?.time);
                }
                Event::Timer => {
                    let entries = member.value.members(member.key)?;
                    let period = entries.into_iter().find(|entry| entry.key == "period");
                    timer =
                        Some(period.map(|it| micros(it, "period")).transpose()?.map(|it| it.time));
                }
                Event::Other => return Ok(false),
            }
        }
        let Some(work) = work else { return Ok(false) };
        periods.push(match (timer, sleep) {
            (Some(period), _) => (true, period),
            (None, Some(sleep)) => (false, Some(work + sleep)),
            (None, None) if reserved => (false, None),
            (None, None) => return Ok(false),
        });
    }
    Ok(periods.windows(2).all(|two| two[0] == two[1]))
}

/// One period, and what its thread does at most in each.
pub(super) struct Period {
    cost: Duration,
    period: Duration,
}

impl Period {
    pub(super) const fn reservation(&self) -> Reservation {
        Reservation::implicit(self.cost, self.period)
    }

    /// The period of a thread that waits for one timer of its own alone, or that sleeps equally
    /// long after equal work; `None` of any other.
    pub(super) fn of(scripts: &Scripts, thread: usize) -> Option<Self> {
        let waits = waits(&scripts.threads[thread])?;
        // The first wait may end what began in the middle.
        let steady = if waits.len() > 1 { &waits[1..] } else { &waits[..] };
        let first = steady.first()?;
        let it = match first.on {
            On::Timer(timer, period) => {
                let is_it =
                    |step: &Step| matches!(step, Step::Timer { timer: at, .. } if *at == timer);
                let users = scripts.threads.iter().filter(|script| script.steps().any(is_it));
                let alike = waits.iter().all(|wait| wait.on == first.on) && users.count() == 1;
                let cost = waits.iter().map(|wait| wait.cost()).max()?;
                alike.then_some(Self { cost, period })?
            }
            On::Sleep(sleep) => {
                let alike = steady.iter().all(|wait| wait == first);
                let cost = first.cost();
                (alike && !first.work.is_zero()).then_some(Self { cost, period: cost + sleep })?
            }
        };
        (!it.cost.is_zero() && it.cost <= it.period).then_some(it)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Timer(u32, Duration),
    Sleep(Duration),
}

/// A wait, and what was done before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wait {
    on: On,
    work: Duration,
    /// How often it acted without working before, at most.
    acts: u64,
}

impl Wait {
    fn cost(&self) -> Duration {
        self.work + LEAST * self.acts
    }
}

/// The waits of a thread in order, loops passed through twice; `None` where it waits for others.
fn waits(script: &Script) -> Option<Vec<Wait>> {
    let (mut waits, mut work, mut acts, mut begins) = (Vec::new(), Duration::ZERO, 0, true);
    for phase in script.phases.iter().chain(&script.phases) {
        for step in (0..phase.loops.unwrap_or(2).min(2)).flat_map(|_| &phase.steps) {
            let on = match step {
                Step::Run(time) => {
                    work += *time;
                    begins &= time.is_zero();
                    continue;
                }
                Step::Sleep(time) if time.is_zero() => continue,
                Step::Sleep(time) => On::Sleep(*time),
                Step::Timer { timer, period } => On::Timer(*timer, *period),
                Step::Wait { .. } | Step::Take(_) | Step::Barrier(_) => return None,
                // After a lock that it waited for a thread begins as after a wake.
                Step::Lock(_) => {
                    acts += 1 + u64::from(begins);
                    begins = false;
                    continue;
                }
                Step::Unlock(_)
                | Step::Signal(_)
                | Step::Broadcast(_)
                | Step::Post(_)
                | Step::Fork(_) => {
                    acts += u64::from(begins);
                    begins = false;
                    continue;
                }
            };
            acts += u64::from(begins);
            waits.push(Wait { on, work, acts });
            (work, acts, begins) = (Duration::ZERO, 0, true);
        }
        if phase.loops.is_none() {
            break;
        }
    }
    Some(waits)
}
