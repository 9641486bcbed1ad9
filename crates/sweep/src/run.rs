//! All items of a study, on several threads, each noted as soon as it is finished.

use crate::Error;
use crate::admission;
use crate::ledger::{Finished, Ledger};
use crate::results::Results;
use crate::study::{Study, load_ppb};
use crate::trial;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    let mut admitted = Vec::with_capacity(study.contenders.len());
    for contender in &study.contenders {
        let run = || {
            let by = admission::admitted(&set, cores, contender);
            (by, trial::run(&set, cores, &contender.subject, &charge))
        };
        // What one broken policy does must not take the others' results away.
        let (by, tally) = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
            let (point, label, why) = (study.point(item), &contender.label, said(&*panic));
            let set = study.file(item).map_or(format!("seed {}", charge.seed), str::to_owned);
            Error(format!("{label} broke down at {point}, {set}: {why}"))
        })?;
        admitted.push(by);
        tallies.push(tally);
    }
    let (tasks, load_ppb) = (set.tasks.len() as u64, load_ppb(&set));
    Ok(Finished { item, tasks, load_ppb, admitted, tallies })
}

fn said(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Runs what `results` lack on up to `jobs` threads. `progress` is called with how many items are
/// finished, from the start on. What comes out depends on the study alone.
///
/// One of the items that are there is run again ([`check_program`]).
///
/// # Errors
/// The first item that fails; where a file cannot be written; where `results` are of a program
/// that counts otherwise.
pub fn all(
    study: &Study,
    ledger: Ledger,
    results: Results,
    jobs: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Results, Error> {
    check_program(study, &results)?;
    let missing = results.items() - results.done();
    let state = Mutex::new(State { ledger, results, next: 0, error: None });
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    progress(lock().results.done());
    let work = || {
        // The lock is not held while a set is run.
        let next = || lock().next();
        while let Some(number) = next() {
            let finished = item(study, number);
            let mut state = lock();
            if state.error.is_some() {
                return;
            }
            let noted = finished.and_then(|finished| state.note(&finished));
            state.error = noted.err();
            progress(state.results.done());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, missing.max(1)) {
            scope.spawn(work);
        }
    });
    let State { results, error, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    error.map_or_else(|| Ok(results), Err)
}

/// Runs one of the items that are there again.
///
/// # Errors
/// Where it comes out otherwise: the program has changed since, and results would be mixed.
pub fn check_program(study: &Study, results: &Results) -> Result<(), Error> {
    let Some(known) = results.last() else { return Ok(()) };
    if results.get(known)? == Some(item(study, known)?) {
        return Ok(());
    }
    let (set, point) = (study.set_number(known), study.point(known));
    Err(Error(format!(
        "set {set} at {point} comes out otherwise than before: this is another program; name \
         another folder"
    )))
}

struct State {
    ledger: Ledger,
    results: Results,
    /// No item below this one is still to be begun.
    next: usize,
    error: Option<Error>,
}

impl State {
    /// The next item to run.
    fn next(&mut self) -> Option<usize> {
        let item = self.results.missing(self.next).next()?;
        self.next = item + 1;
        Some(item)
    }
    fn note(&mut self, finished: &Finished) -> Result<(), Error> {
        self.ledger.note(&finished.line())?;
        self.results.put(finished)
    }
}
