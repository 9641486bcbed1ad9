//! What a thread of rt-app does from one timer to the next.

use super::{Asides, Error, Given, Member, Thread, micros, unknown};
use maracas_core::Duration;

/// Events by the words that their keys begin with, longer words first: `run2` is a `run`.
/// rt-app compares in this manner too.
const EVENTS: [(&str, Event); 19] = [
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
    ("sem", Event::Other),
    ("barrier", Event::Other),
    ("suspend", Event::Other),
    ("resume", Event::Other),
    ("fork", Event::Other),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
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

fn event(key: &str) -> Option<Event> {
    let is = |(word, _): &&(&str, Event)| key.starts_with(word);
    EVENTS.iter().find(is).map(|(_, event)| *event).filter(|_| key != "membind_nodes")
}

/// The cycle of a thread: of itself, or of its phases, which must all have one period.
pub(super) fn cycle(thread: &Thread<'_>, asides: &mut Asides) -> Result<Cycle, Error> {
    let Some(phases) = thread.get("phases") else {
        return events(thread, &thread.members, asides);
    };
    if let Some(event) = thread.members.iter().find(|member| is_event(member.key)) {
        let message = format!("`{}` stands beside `phases`; move it into one", event.key);
        return Err(thread.source.error(event.key_at, message));
    }
    let phases = phases.value.members("phases")?;
    if phases.is_empty() {
        return Err(thread.error("its `phases` are empty; add one with \"run\" and \"timer\""));
    }
    let mut whole: Option<Cycle> = None;
    for phase in phases {
        let members = phase.value.members(phase.key)?;
        check(thread, &members, asides)?;
        let one = events(thread, &members, asides)?;
        whole = Some(match whole {
            None => one,
            Some(so_far) => merged(thread, phase, so_far, one, asides)?,
        });
    }
    Ok(whole.unwrap_or_default())
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
    let periods = (&a.timer, &b.timer);
    let differ = match periods {
        (Some(a), Some(b)) => a.period.time != b.period.time,
        (Some(_), None) | (None, Some(_)) => true,
        (None, None) => false,
    };
    if differ {
        let shown = |timer: &Option<Timer>| {
            timer.as_ref().map_or("none".to_owned(), |timer| timer.period.text.clone())
        };
        let message = format!(
            "its phases have timers of different periods ({} and {}), and a task has one; make \
             them equal, or two tasks of it",
            shown(periods.0),
            shown(periods.1)
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
            Event::Work => {
                let work = micros(*member, "run")?;
                cycle.cost = Some(match cycle.cost {
                    None => work,
                    Some(sum) => {
                        let time = sum.time + work.time;
                        Given { time, text: (time.ticks() / 1_000).to_string(), ..sum }
                    }
                });
            }
            Event::Timer => cycle.timer = Some(timer(*member, name, asides)?),
            Event::Yield => asides.of("`yield` is left aside", name),
            Event::Sleep => {
                return error(
                    "lets the period grow with every delay, which a task set cannot say; write a \
                     timer in its place",
                );
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
            "mode" => {
                relative = match entry.value.text("mode")? {
                    "absolute" => false,
                    "relative" => true,
                    other => {
                        let words = ["relative", "absolute"];
                        let hint = crate::error::did_you_mean(other, words, "modes");
                        let other = crate::error::quoted(other);
                        return Err(entry.value.error(format!("unknown mode {other}; {hint}")));
                    }
                };
            }
            _ => return Err(unknown(entry, &["ref", "period", "mode"], member.value.source)),
        }
    }
    if relative {
        asides.of("a timer in relative mode begins anew after a late job; here none does", name);
    }
    let missing = || member.value.error("this timer has no `period`; add \"period\": 10000");
    Ok(Timer { period: period.ok_or_else(missing)?, unique })
}
