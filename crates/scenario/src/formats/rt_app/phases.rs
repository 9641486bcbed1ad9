//! What a thread of rt-app does from one timer to the next.

use super::{Asides, Error, Given, Member, Node, Thread, micros, unknown};
use maracas_core::Duration;

/// Events by the words that their keys begin with, longer words first: `run2` is a `run`.
/// rt-app compares in this manner too.
const EVENTS: [(&str, Event); 20] = [
    ("runtime", Event::Work),
    ("run", Event::Work),
    ("timer", Event::Timer),
    ("sleep", Event::Sleep),
    ("yield", Event::Yield),
    ("memrun", Event::Other),
    ("mem", Event::Other),
    ("iorun", Event::Other),
    ("lock", Event::Other),
    ("unlock", Event::Other),
    ("wait", Event::Other),
    ("signal", Event::Other),
    ("broad", Event::Other),
    ("sync", Event::Other),
    ("sem_post", Event::Other),
    ("sem_wait", Event::Other),
    ("barrier", Event::Other),
    ("suspend", Event::Other),
    ("resume", Event::Other),
    ("fork", Event::Other),
];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Takes time on a core.
    Work,
    Timer,
    Sleep,
    Yield,
    /// Takes time that depends on other threads or on the memory.
    Other,
}

/// Properties of phases beside their events.
const PHASE: [&str; 13] = [
    "loop",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "cpus",
    "nodes_membind",
    "membind_nodes",
    "util_min",
    "util_max",
    "taskgroup",
    "dl-reclaim",
];

/// From one timer to the next.
#[derive(Default)]
pub(super) struct Cycle {
    /// All work, of the phase with most.
    pub(super) cost: Option<Given>,
    pub(super) timer: Option<Timer>,
    /// What it sleeps after its work.
    sleep: Option<Given>,
}

impl Cycle {
    /// From one job to the next, at least: by its timer, else by its work and sleep.
    pub(super) fn period(&self) -> Option<Given> {
        if let Some(timer) = &self.timer {
            return Some(timer.period.clone());
        }
        let sleep = self.sleep.as_ref()?;
        let work = self.cost.as_ref().map_or(Duration::ZERO, |cost| cost.time);
        Some(sum("run and sleep", sleep, work))
    }
}

/// `given` and `more` as one.
fn sum(label: &'static str, given: &Given, more: Duration) -> Given {
    let time = Duration::from_ticks(given.time.ticks().saturating_add(more.ticks()));
    Given { label, at: given.at, text: (time.ticks() / 1_000).to_string(), time }
}

/// What a thread waits for at the end of a cycle.
pub(super) struct Timer {
    pub(super) period: Given,
    /// Whether each instance has its own.
    pub(super) unique: bool,
}

/// Whether the key names an event. `membind_nodes` begins like one.
pub(super) fn is_event(key: &str) -> bool {
    event(key).is_some()
}

/// The members of an object of `thread`. Keys that `may_repeat`, those of events and the names of
/// phases, may stand twice, as in files that `workgen` reads before rt-app does.
pub(super) fn members<'a>(
    node: Node<'a>,
    key: &str,
    thread: &str,
    may_repeat: fn(&str) -> bool,
    asides: &mut Asides,
) -> Result<Vec<Member<'a>>, Error> {
    let (members, repeated) = node.members_but(key, may_repeat)?;
    if repeated {
        let what = "a key that stands twice is read as rt-app's `workgen` numbers it";
        asides.of(what, thread);
    }
    Ok(members)
}

pub(super) fn event(key: &str) -> Option<Event> {
    let is = |(word, _): &&(&str, Event)| key.starts_with(word);
    EVENTS.iter().find(is).map(|(_, event)| *event).filter(|_| key != "membind_nodes")
}

/// The cycle of a thread: of itself, or of its phases, which must all have one period.
pub(super) fn cycle(thread: &Thread<'_>, asides: &mut Asides) -> Result<Cycle, Error> {
    let Some(phases) = thread.get("phases") else {
        return events(thread, &thread.members, asides);
    };
    let name = thread.member.key;
    let phases = inside(thread, phases, asides)?;
    let mut whole: Option<Cycle> = None;
    for phase in phases {
        let members = members(phase.value, phase.key, name, is_event, asides)?;
        check(thread, &members, asides)?;
        let one = events(thread, &members, asides)?;
        whole = Some(match whole {
            None => one,
            Some(so_far) => merged(thread, phase, so_far, one, asides)?,
        });
    }
    Ok(whole.unwrap_or_default())
}

/// The phases of a thread; never none, and no event beside them.
fn inside<'a>(
    thread: &Thread<'a>,
    phases: Member<'a>,
    asides: &mut Asides,
) -> Result<Vec<Member<'a>>, Error> {
    if let Some(event) = thread.members.iter().find(|member| is_event(member.key)) {
        let message = format!("`{}` stands beside `phases`; move it into one", event.key);
        return Err(thread.source.error(event.key_at, message));
    }
    let phases = members(phases.value, "phases", thread.member.key, |_| true, asides)?;
    if phases.is_empty() {
        return Err(thread.error("its `phases` are empty; add one with \"run\" and \"timer\""));
    }
    Ok(phases)
}

/// A phase as it stands: its members, events and others.
pub(super) struct Repeated<'a> {
    pub(super) members: Vec<Member<'a>>,
    /// How often; `None` = for ever, as rt-app takes 0 too.
    pub(super) loops: Option<u32>,
    /// Where it stands.
    pub(super) at: usize,
}

/// The phases of a thread; where it has none, it is one itself.
pub(super) fn repeated<'a>(
    thread: &Thread<'a>,
    asides: &mut Asides,
) -> Result<Vec<Repeated<'a>>, Error> {
    let read = |members: Vec<Member<'a>>, at: usize| {
        let loops = members.iter().find(|member| member.key == "loop");
        let loops = loops.map(|member| member.value.whole("loop", "")).transpose()?.unwrap_or(1);
        let loops = u32::try_from(loops).ok().filter(|loops| *loops > 0);
        Ok(Repeated { members, loops, at })
    };
    let Some(phases) = thread.get("phases") else {
        return Ok(vec![read(thread.members.clone(), thread.member.key_at)?]);
    };
    let mut found = Vec::new();
    for phase in inside(thread, phases, asides)? {
        let members = members(phase.value, phase.key, thread.member.key, is_event, asides)?;
        check(thread, &members, asides)?;
        found.push(read(members, phase.key_at)?);
    }
    Ok(found)
}

/// Refuses what a phase may not hold, and notes what of it is left aside.
fn check(thread: &Thread<'_>, members: &[Member<'_>], asides: &mut Asides) -> Result<(), Error> {
    for member in members {
        if is_event(member.key) || member.key == "loop" {
            continue;
        }
        if !PHASE.contains(&member.key) {
            let known = [PHASE.as_slice(), &["run", "runtime", "timer"]].concat();
            return Err(unknown(*member, &known, thread.source));
        }
        asides.of(&format!("`{}` of its phases is left aside", member.key), thread.member.key);
    }
    Ok(())
}

/// Two phases as one: the larger cost, at one period.
fn merged(
    thread: &Thread<'_>,
    phase: Member<'_>,
    a: Cycle,
    b: Cycle,
    asides: &mut Asides,
) -> Result<Cycle, Error> {
    let periods = [&a, &b].map(|cycle| (cycle.period(), cycle.timer.is_some()));
    let [time_a, time_b] =
        periods.each_ref().map(|(it, timed)| (it.as_ref().map(|it| it.time), timed));
    if time_a != time_b {
        let [a, b] = periods.map(|(period, timed)| match period {
            None => "none".to_owned(),
            Some(period) if timed => period.text,
            Some(period) => format!("at least {}", period.text),
        });
        let message = format!(
            "its phases have different periods ({a} and {b}), and a task has one; make them equal, \
             or two tasks of it"
        );
        return Err(thread.source.error(phase.key_at, message));
    }
    let time = |cycle: &Cycle| cycle.cost.as_ref().map_or(Duration::ZERO, |cost| cost.time);
    if time(&a) != time(&b) {
        asides.of("its phases differ; every job takes the largest", thread.member.key);
    }
    Ok(if time(&b) > time(&a) { b } else { a })
}

/// Adds up the events of one phase.
fn events(
    thread: &Thread<'_>,
    members: &[Member<'_>],
    asides: &mut Asides,
) -> Result<Cycle, Error> {
    let mut cycle = Cycle::default();
    let name = thread.member.key;
    for member in members {
        let Some(event) = event(member.key) else { continue };
        let error = |why: &str| {
            let message = format!("`{}` {why}", crate::error::quoted(member.key).trim_matches('"'));
            Err(thread.source.error(member.key_at, message))
        };
        if cycle.timer.is_some() {
            return error("stands after the timer, which must end the cycle; move it before");
        }
        match event {
            Event::Work if cycle.sleep.is_some() => {
                return error(
                    "stands after a sleep, and a task set cannot say that a job waits; move it \
                     before",
                );
            }
            Event::Work => {
                let work = micros(*member, "run")?;
                cycle.cost = Some(match cycle.cost {
                    None => work,
                    Some(before) => sum("run", &before, work.time),
                });
            }
            Event::Timer => {
                let timer = timer(*member, name, asides)?;
                if let Some(least) = cycle.period() {
                    if least.time > timer.period.time {
                        return error("is shorter than the run and sleep before it; raise it");
                    }
                    asides.of("`sleep` before a timer is left aside", name);
                }
                cycle.timer = Some(timer);
            }
            Event::Yield => asides.of("`yield` is left aside", name),
            Event::Sleep if cycle.cost.is_none() => {
                return error("stands before the work; move it behind, or write a `delay`");
            }
            Event::Sleep => {
                let sleep = micros(*member, "sleep")?;
                let before = cycle.sleep.as_ref().map_or(Duration::ZERO, |sleep| sleep.time);
                cycle.sleep = Some(sum("sleep", &sleep, before));
            }
            Event::Other => {
                return error("takes no fixed time, which a task set cannot say; drop it");
            }
        }
    }
    Ok(cycle)
}

fn timer(member: Member<'_>, name: &str, asides: &mut Asides) -> Result<Timer, Error> {
    let (mut period, mut unique, mut relative) = (None, false, true);
    for entry in member.value.members(member.key)? {
        match entry.key {
            "ref" => unique = entry.value.text("ref")?.starts_with("unique"),
            "period" => period = Some(micros(entry, "period")?),
            "mode" => relative = !is_absolute(entry)?,
            _ => return Err(unknown(entry, &["ref", "period", "mode"], member.value.source)),
        }
    }
    if relative {
        asides.of("a timer in relative mode begins anew after a late job; here none does", name);
    }
    let missing = || member.value.error("this timer has no `period`; add \"period\": 10000");
    Ok(Timer { period: period.ok_or_else(missing)?, unique })
}

/// Whether a timer is to keep to its grid.
pub(super) fn is_absolute(entry: Member<'_>) -> Result<bool, Error> {
    match entry.value.text("mode")? {
        "absolute" => Ok(true),
        "relative" => Ok(false),
        other => {
            let hint = crate::error::did_you_mean(other, ["relative", "absolute"], "modes");
            let other = crate::error::quoted(other);
            Err(entry.value.error(format!("unknown mode {other}; {hint}")))
        }
    }
}
