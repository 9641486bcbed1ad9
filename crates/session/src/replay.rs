//! The events of a journal given to a fresh policy, with every decision compared.

use crate::case;
use maracas_console::failure::Failure;
use maracas_core::contract::Event;
use maracas_core::journal::{Cut, Decision, Differs, Header, JournalError, Note};
use maracas_core::journal::{Reader, Record, Replay};
use maracas_core::{Instant, Policy};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Where a replay stopped.
struct Stop {
    record: u64,
    at: Instant,
    /// The last event that was given before.
    event: Option<(u64, Instant, Event)>,
    what: String,
}

/// What a replay came to.
pub struct Replayed {
    header: Header,
    records: u64,
    events: u64,
    decisions: u64,
    end: Instant,
    stop: Option<Stop>,
    /// Where a journal without an end was cut, if nothing differed before.
    cut: Option<Cut>,
}

/// Gives the events of the journal in `bytes` to a fresh policy and compares every decision, up to
/// the first that differs. `file` is its name in errors.
///
/// # Errors
/// Where the journal cannot be read, or its policy is unknown or refuses its system.
pub fn replay(file: &str, bytes: &[u8]) -> Result<Replayed, Failure> {
    let about = |why: &dyn std::fmt::Display| Failure::about(file, why);
    let (header, reader) = Reader::open(bytes).map_err(|error| about(&error))?;
    let entry = case::policy(&header.policy)?;
    let mut policy = (entry.build)(&header.system, &header.params)
        .map_err(|_| about(&format!("{} refuses the journal's system now", header.policy)))?;
    // An altered event may break what the policy relies on. Its assertion is then the difference,
    // reported as one line and not as a crash.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = follow(policy.as_mut(), header, reader);
    std::panic::set_hook(hook);
    done.map_err(|error| about(&error))
}

impl Replayed {
    /// Whether every decision was the journal's, up to its end: of a journal that was cut
    /// ([`Note::Cut`]) that is not known.
    pub const fn is_exact(&self) -> bool {
        self.stop.is_none() && self.cut.is_none()
    }
    /// What users should know: that another version wrote the journal.
    pub fn note(&self) -> Option<String> {
        let (theirs, ours) = (&self.header.version, env!("CARGO_PKG_VERSION"));
        let line = || format!("this journal was written by maracas {theirs}, this is {ours}");
        (theirs != ours).then(line)
    }
    /// As a line for people.
    pub fn text(&self) -> String {
        let Self { header, events, decisions, end, stop, cut, .. } = self;
        let (policy, end) = (&header.policy, in_nanos(header, *end));
        let done = format!("{decisions} decisions of {policy} on {events} events");
        match stop {
            None if cut.is_some() => {
                format!("exact up to the cut at {end}: {done}; the journal has no end")
            }
            None => format!("exact: {done} until {end}"),
            Some(stop) => {
                let event = stop.event.as_ref().map_or("no event before it".to_string(), |event| {
                    let (number, at, event) = event;
                    let at = in_nanos(header, *at);
                    format!("the event before it is record {number} at {at}: {event:?}")
                });
                let (record, at, what) = (stop.record, in_nanos(header, stop.at), &stop.what);
                format!("differs at record {record}, at {at}: {what}; {event}")
            }
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let (header, done) = (&self.header, self);
        let stop = done.stop.as_ref().map(|stop| {
            serde_json::json!({
                "record": stop.record,
                "at_ns": in_nanos(header, stop.at).ticks(),
                "what": stop.what,
                "event_record": stop.event.as_ref().map(|(number, ..)| number),
                "event_at_ns": stop.event.as_ref().map(|(_, at, _)| in_nanos(header, *at).ticks()),
                "event": stop.event.as_ref().map(|(.., event)| format!("{event:?}")),
            })
        });
        let cut = done.cut.map(|cut| {
            serde_json::json!({
                "byte": cut.offset,
                "left_out_bytes": cut.left_out,
                "at_ns": in_nanos(header, cut.at).ticks(),
            })
        });
        serde_json::json!({
            "exact": done.is_exact(),
            "policy": header.policy,
            "machine": header.machine,
            "records": done.records,
            "events": done.events,
            "decisions": done.decisions,
            "end_ns": in_nanos(header, done.end).ticks(),
            "difference": stop,
            "cut": cut,
        })
    }
}

/// Follows the journal until its end or the first difference.
fn follow(
    policy: &mut dyn Policy,
    header: Header,
    reader: Reader<'_>,
) -> Result<Replayed, JournalError> {
    let mut replay = Replay::new(policy, header.system.cores.len());
    let end = Instant::ZERO;
    let (records, events, decisions) = (0, 0, 0);
    let mut done = Replayed { header, records, events, decisions, end, stop: None, cut: None };
    let mut last: Option<(u64, Instant, Event)> = None;
    for record in reader {
        let record = record?;
        if let Record::Note { at, note: Note::Cut { offset, left_out } } = record {
            // It and the end behind it are in no file.
            let (offset, left_out) = (offset as usize, left_out as usize);
            (done.end, done.cut) = (at, Some(Cut { offset, left_out, at }));
            break;
        }
        done.records += 1;
        let step = guarded(|| replay.step(&record));
        let what = step.map_or_else(Some, |same| same.err().map(|why| said(&record, &why)));
        match record {
            Record::Event { at, event } => {
                done.events += 1;
                done.end = at;
                last = Some((done.records, at, event));
            }
            Record::Planned(theirs) => {
                done.decisions += 1;
                done.end = theirs.now;
            }
            Record::Gap(_) => {}
            Record::Note { at, .. } | Record::End(at) => done.end = at,
        }
        if let Some(what) = what {
            done.stop = Some(Stop { record: done.records, at: done.end, event: last, what });
            break;
        }
    }
    Ok(done)
}

/// Runs a piece of the policy; its panic becomes a sentence.
fn guarded<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        format!("the policy cannot go on: {text}")
    })
}

/// Why the replay of `record` is not exact, in words.
fn said(record: &Record, why: &Differs) -> String {
    match (why, record) {
        (Differs::Lost(lost), _) => format!("{lost} records were lost here"),
        (Differs::Decided(ours), Record::Planned(theirs)) => difference(theirs, ours),
        (Differs::Decided(ours), _) => format!("the policy decided {ours:?} unasked"),
    }
}

/// What differs between the journal's decision and ours, the first thing only.
fn difference(theirs: &Decision, ours: &Decision) -> String {
    fn differ<T: PartialEq + Debug>(what: &str, theirs: &T, ours: &T) -> Option<String> {
        (theirs != ours).then(|| format!("{what}: journal {theirs:?}, replay {ours:?}"))
    }
    let by_core = || {
        let cores = theirs.run_queues.iter().chain(&ours.run_queues).map(|(core, _)| *core);
        let of = |decision: &Decision, core| {
            decision.run_queues.iter().find(|(at, _)| *at == core).map(|(_, line)| line.clone())
        };
        cores
            .into_iter()
            .find_map(|core| differ(&core.to_string(), &of(theirs, core), &of(ours, core)))
    };
    by_core()
        .or_else(|| differ("homes", &theirs.homes, &ours.homes))
        .or_else(|| differ("service request", &theirs.service_request, &ours.service_request))
        .or_else(|| differ("verdicts", &theirs.verdicts, &ours.verdicts))
        .or_else(|| differ("next wake", &theirs.wake, &ours.wake))
        .or_else(|| differ("hash of the whole plan", &theirs.hash, &ours.hash))
        .unwrap_or_else(|| format!("journal {theirs:?}, replay {ours:?}"))
}

/// An instant of the journal in nanoseconds.
fn in_nanos(header: &Header, at: Instant) -> Instant {
    Instant::from_ticks(at.ticks() / header.system.ticks_per_ns.max(1))
}
