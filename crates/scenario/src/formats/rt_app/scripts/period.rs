//! Whether a thread has one period, and which.

use crate::error::Error;
use crate::formats::rt_app::micros;
use crate::formats::rt_app::phases::{Event, Repeated, event};
use maracas_core::script::{MIN_STEP, Script, Scripts, Step};
use maracas_core::{Duration, Reservation};
use std::collections::BTreeSet;

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
                    work = before.checked_add(micros(*member, "run")?.time);
                    if work.is_none() {
                        return Ok(false);
                    }
                }
                Event::Sleep if work.is_none() => return Ok(false),
                Event::Sleep => {
                    let before = sleep.unwrap_or(Duration::ZERO);
                    sleep = before.checked_add(micros(*member, "sleep")?.time);
                    if sleep.is_none() {
                        return Ok(false);
                    }
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
            (None, Some(sleep)) => (false, work.checked_add(sleep)),
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
    /// long after equal work; `None` of any other. `users` says of each timer how many threads use
    /// it.
    pub(super) fn of(script: &Script, users: &[u32]) -> Option<Self> {
        let waits = waits(script)?;
        // The first wait may end what began in the middle.
        let steady = if waits.len() > 1 { &waits[1..] } else { &waits[..] };
        let first = steady.first()?;
        let it = match first.on {
            On::Timer(timer, period) => {
                let alike = waits.iter().all(|wait| wait.on == first.on);
                let costs: Option<Vec<Duration>> = waits.iter().map(Wait::cost).collect();
                let cost = costs?.into_iter().max()?;
                (alike && users[timer as usize] == 1).then_some(Self { cost, period })?
            }
            On::Sleep(sleep) => {
                let alike = steady.iter().all(|wait| wait == first);
                let cost = first.cost()?;
                let period = cost.checked_add(sleep)?;
                (alike && !first.work.is_zero()).then_some(Self { cost, period })?
            }
        };
        (!it.cost.is_zero() && it.cost <= it.period).then_some(it)
    }
}

/// How many threads use each timer.
pub(super) fn users(scripts: &Scripts) -> Vec<u32> {
    let mut users = vec![0; scripts.timers.len()];
    for script in &scripts.threads {
        let timer = |step: &Step| {
            if let Step::Timer { timer, .. } = step { Some(*timer) } else { None }
        };
        for timer in script.steps().filter_map(timer).collect::<BTreeSet<u32>>() {
            users[timer as usize] += 1;
        }
    }
    users
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
    /// How often it took a moment for steps that take no time, at most.
    acts: u64,
}

impl Wait {
    /// What it took in all; `None` where that fits no number.
    fn cost(&self) -> Option<Duration> {
        let acts = Duration::from_ticks(MIN_STEP.ticks().checked_mul(self.acts)?);
        self.work.checked_add(acts)
    }
}

/// A thread on its way through its phases.
struct Walk {
    waits: Vec<Wait>,
    /// Since the last wait.
    work: Duration,
    acts: u64,
    /// It has done nothing since.
    begins: bool,
}

/// The waits of a thread in order, its phases passed through twice, and each that waits as well;
/// `None` where it waits for others, or works longer than fits a number.
fn waits(script: &Script) -> Option<Vec<Wait>> {
    let mut walk = Walk { waits: Vec::new(), work: Duration::ZERO, acts: 0, begins: true };
    for phase in script.phases.iter().chain(&script.phases) {
        let loops = phase.loops.map_or(u64::MAX, u64::from);
        let before = walk.waits.len();
        walk.pass(&phase.steps)?;
        let waited = walk.waits.len() > before;
        if loops > 1 && (waited || phase.loops.is_some()) {
            let (work, acts) = (walk.work, walk.acts);
            walk.pass(&phase.steps)?;
            if !waited {
                // All further passes are as the second.
                let (work, acts) = (walk.work - work, walk.acts - acts);
                let more = Duration::from_ticks(work.ticks().checked_mul(loops - 2)?);
                walk.work = walk.work.checked_add(more)?;
                walk.acts = walk.acts.checked_add(acts.checked_mul(loops - 2)?)?;
                // Without work each comes back to what it has done.
                walk.acts += if work.is_zero() { loops - 1 } else { 0 };
            }
        }
        if phase.loops.is_none() {
            break;
        }
    }
    Some(walk.waits)
}

impl Walk {
    /// Passes through a phase once; `None` where it waits for others.
    fn pass(&mut self, steps: &[Step]) -> Option<()> {
        for step in steps {
            let works = matches!(step, Step::Run(time) if !time.is_zero());
            // After a wake anything but work takes a moment first.
            self.acts += u64::from(std::mem::take(&mut self.begins) && !works);
            let on = match step {
                Step::Run(time) => {
                    self.work = self.work.checked_add(*time)?;
                    continue;
                }
                Step::Sleep(time) if time.is_zero() => continue,
                Step::Sleep(time) => On::Sleep(*time),
                Step::Timer { timer, period } => On::Timer(*timer, *period),
                Step::Wait { .. } | Step::Take(_) | Step::Barrier(_) => return None,
                // After a lock that it waited for a thread begins as after a wake.
                Step::Lock(_) => {
                    self.acts += 1;
                    continue;
                }
                Step::Unlock(_)
                | Step::Signal(_)
                | Step::Broadcast(_)
                | Step::Post(_)
                | Step::Fork(_) => continue,
            };
            self.waits.push(Wait { on, work: self.work, acts: self.acts });
            (self.work, self.acts, self.begins) = (Duration::ZERO, 0, true);
        }
        Some(())
    }
}
