//! All items of a study, on several threads, each noted as soon as it is finished.

use crate::Error;
use crate::ledger::{Finished, Ledger};
use crate::study::{Study, load_ppb};
use crate::trial;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// One item: its set under every contender.
///
/// # Errors
/// Where the set cannot be drawn, or a policy breaks the contract; says which, and how to draw it
/// again.
pub fn item(study: &Study, item: usize) -> Result<Finished, Error> {
    let (set, charge) = (study.set(item)?, study.charge(item));
    let cores = study.point(item).cores;
    let mut tallies = Vec::with_capacity(study.contenders.len());
    for contender in &study.contenders {
        let run = || trial::run(&set, cores, &contender.subject, &charge);
        // What one broken policy does must not take the others' results away.
        tallies.push(catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let (point, label, why) = (study.point(item), &contender.label, said(&*panic));
            let set = study.file(item).map_or(format!("seed {}", charge.seed), str::to_owned);
            Error(format!("{label} broke down at {point}, {set}: {why}"))
        })?);
    }
    Ok(Finished { item, tasks: set.tasks.len() as u64, load_ppb: load_ppb(&set), tallies })
}

fn said(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Runs what `found` lacks on up to `jobs` threads. `progress` is called with how many items are
/// finished, from the start on. The result depends on the study alone.
///
/// One of the items that `found` has is run again ([`check_program`]).
///
/// # Errors
/// The first item that fails; where the ledger cannot be written; where `found` is of a program
/// that counts otherwise.
pub fn all(
    study: &Study,
    ledger: Ledger,
    found: Vec<Option<Finished>>,
    jobs: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Finished>, Error> {
    check_program(study, &found)?;
    let missing: Vec<usize> = (0..found.len()).filter(|item| found[*item].is_none()).collect();
    let next = AtomicUsize::new(0);
    let state =
        Mutex::new(State { ledger, found, done: study.items() - missing.len(), error: None });
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    progress(lock().done);
    let work = || {
        while let Some(number) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let finished = item(study, *number);
            let mut state = lock();
            if state.error.is_some() {
                return;
            }
            let noted = finished.and_then(|finished| state.note(finished));
            state.error = noted.err();
            progress(state.done);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, missing.len().max(1)) {
            scope.spawn(work);
        }
    });
    let State { found, error, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    error.map_or_else(|| Ok(found.into_iter().flatten().collect()), Err)
}

/// Runs one of the items that `found` has again.
///
/// # Errors
/// Where it comes out otherwise: the program has changed since, and results would be mixed.
pub fn check_program(study: &Study, found: &[Option<Finished>]) -> Result<(), Error> {
    let Some(known) = found.iter().flatten().next_back() else { return Ok(()) };
    if item(study, known.item)? == *known {
        return Ok(());
    }
    let (set, point) = (study.set_number(known.item), study.point(known.item));
    Err(Error(format!(
        "set {set} at {point} comes out otherwise than before: this is another program; name \
         another folder"
    )))
}

struct State {
    ledger: Ledger,
    found: Vec<Option<Finished>>,
    done: usize,
    error: Option<Error>,
}

impl State {
    fn note(&mut self, finished: Finished) -> Result<(), Error> {
        self.ledger.note(&finished)?;
        let item = finished.item;
        self.found[item] = Some(finished);
        self.done += 1;
        Ok(())
    }
}
