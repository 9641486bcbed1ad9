//! Runs of the live machine in this process, for benches that read what they ask off the journal.

use maracas_console::failure::Failure;
use maracas_console::output;
use maracas_core::System;
use maracas_core::journal::{Reader, Record, Replay};
use maracas_live::sense::Senses;
use maracas_live::{Means, Setup};
use maracas_session::case::{self, Case};
use maracas_session::live::senses::played;
use maracas_session::live::{self, Require};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `case` as `setup` says, with what `adjust` leaves of the host's means. The journal.
///
/// # Errors
/// Where the policy refuses, or the host cannot run it; where `stop` was raised, when everything is
/// taken down.
pub(super) fn play(
    case: &Case,
    setup: Setup,
    senses: Senses,
    adjust: impl FnOnce(&mut Means),
    stop: &AtomicBool,
) -> Result<Vec<u8>, Failure> {
    let policy = (case.entry.build)(&case.start, &case.params);
    let policy = policy.map_err(|verdict| {
        let why = verdict.why();
        Failure::new(format!("{} refuses the bench's programs: {why}", case.entry.name))
    })?;
    let guarded = live::guard()?.sensing(senses);
    let mut means = live::prepare(case, &setup, Require::Any, false)?;
    adjust(&mut means);
    let mut journal = Vec::new();
    let sink = |piece: &[u8]| journal.extend_from_slice(piece);
    live::carry_out(case, setup, means, policy, guarded, stop, sink)?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new("interrupted; everything was taken down again"));
    }
    Ok(journal)
}

/// A recording as senses, given as text: they are read from files, and this one lives as long as
/// that takes.
///
/// # Errors
/// Where it is no recording of these cores, or there is no room for it.
pub(super) fn recorded(text: &str, setup: &Setup) -> Result<Senses, Failure> {
    let name = format!("maracas-recording-{}.csv", std::process::id());
    let path = std::env::temp_dir().join(name);
    output::write_file(&path, text)?;
    let senses = played(&path, setup);
    let _ = std::fs::remove_file(&path);
    senses.map_err(Failure::new)
}

/// Whether a fresh policy decides the same from a journal, every time.
///
/// # Errors
/// Where the journal is damaged.
pub(super) fn replays(journal: &[u8]) -> Result<bool, Failure> {
    replayed(journal, |_, _| {}).map(|(_, exact)| exact)
}

/// Gives a journal to a fresh policy: policies are pure, so what it says is what the run's said.
/// `look` is shown each record when the policy has got it. The system of the run, and whether the
/// policy decided the same, every time.
///
/// # Errors
/// Where the journal is damaged.
pub(super) fn replayed(
    journal: &[u8],
    mut look: impl FnMut(Record, &Replay<'_>),
) -> Result<(System, bool), Failure> {
    let (header, reader) = Reader::open(journal).map_err(Failure::new)?;
    let built = (case::policy(&header.policy)?.build)(&header.system, &header.params);
    let mut policy = built.map_err(|_| Failure::new("the policy refuses its own journal"))?;
    let mut replay = Replay::new(policy.as_mut(), header.system.cores.len());
    let mut exact = true;
    for record in reader {
        let record = record.map_err(Failure::new)?;
        exact &= replay.step(&record).is_ok();
        look(record, &replay);
    }
    Ok((header.system, exact))
}
