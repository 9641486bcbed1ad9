//! All items of a study, on several threads, each noted as soon as it is finished.

use crate::Error;
use crate::admission;
use crate::ledger::{Finished, Ledger};
use crate::queue::{Queue, Work};
use crate::results::Results;
use crate::study::{Study, load_ppb};
use crate::trial::{self, Tally};
use maracas_scenario::taskset::TaskSet;
use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};

/// One item: its set under every contender.
///
/// # Errors
/// Where the set cannot be drawn, or a policy breaks the contract; says which, and how to draw it
/// again.
pub fn item(study: &Study, item: usize) -> Result<Finished, Error> {
    let set = study.set(item)?;
    let pieces = (0..study.contenders.len()).map(|contender| piece(study, item, &set, contender));
    Ok(finished(item, &set, pieces.collect::<Result<_, _>>()?))
}

/// An item's set. Others may wait for it, so it comes or fails, whatever happens.
fn drawn(study: &Study, item: usize) -> Result<Cow<'_, TaskSet>, Error> {
    let broke_down = |panic: Box<dyn Any + Send>| {
        let (point, seed, why) = (study.point(item), study.seed(item), said(&*panic));
        Error(format!("drawing broke down at {point}, seed {seed}: {why}"))
    };
    catch_unwind(AssertUnwindSafe(|| study.set(item))).map_err(broke_down)?
}

/// An item's set under one contender: which of its tests admit it, and what it came to.
fn piece(
    study: &Study,
    item: usize,
    set: &TaskSet,
    contender: usize,
) -> Result<(u64, Tally), Error> {
    let (cores, charge) = (study.point(item).cores, study.charge(item));
    let contender = &study.contenders[contender];
    let run = || {
        let by = admission::admitted(set, cores, contender);
        (by, trial::run(set, cores, &contender.subject, &charge))
    };
    // What one broken policy does must not take the others' results away.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let (point, label, why) = (study.point(item), &contender.label, said(&*panic));
        let set = study.file(item).map_or(format!("seed {}", charge.seed), str::to_owned);
        Error(format!("{label} broke down at {point}, {set}: {why}"))
    })
}

fn finished(item: usize, set: &TaskSet, pieces: Vec<(u64, Tally)>) -> Finished {
    let (admitted, tallies) = pieces.into_iter().unzip();
    Finished { item, tasks: set.tasks.len() as u64, load_ppb: load_ppb(set), admitted, tallies }
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
    let queue = Queue::new(study.contenders.len());
    let state = Mutex::new(State { ledger, results, next: 0, error: None, queue });
    let changed = Condvar::new();
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    progress(lock().results.done());
    // The lock is not held while a set is drawn or run.
    let work = || {
        let mut own = None;
        let mut state = lock();
        while state.error.is_none() {
            match state.take(own) {
                Work::None => return,
                Work::Wait => {
                    state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Work::Draw(item) => {
                    drop(state);
                    let set = drawn(study, item);
                    own = Some(item);
                    state = lock();
                    state.drawn(item, set);
                }
                Work::Run(item, set, contender) => {
                    drop(state);
                    let came = piece(study, item, &set, contender);
                    state = lock();
                    state.came(item, contender, came, progress);
                }
            }
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        let pieces = missing.saturating_mul(study.contenders.len());
        for _ in 0..jobs.clamp(1, pieces.max(1)) {
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

struct State<'a> {
    ledger: Ledger,
    results: Results,
    /// No item below this one is still to be begun.
    next: usize,
    error: Option<Error>,
    queue: Queue<Cow<'a, TaskSet>, (u64, Tally)>,
}

impl<'a> State<'a> {
    /// What a worker does next that drew the set of `own` last.
    fn take(&mut self, own: Option<usize>) -> Work<Cow<'a, TaskSet>> {
        let Self { results, next, queue, .. } = self;
        queue.take(own, || {
            let item = results.missing(*next).next()?;
            *next = item + 1;
            Some(item)
        })
    }
    fn drawn(&mut self, item: usize, set: Result<Cow<'a, TaskSet>, Error>) {
        let set = set.map_err(|error| self.fail(error)).ok();
        self.queue.drawn(item, set);
    }
    fn came(
        &mut self,
        item: usize,
        contender: usize,
        came: Result<(u64, Tally), Error>,
        progress: &(dyn Fn(usize) + Sync),
    ) {
        let came = match came {
            Ok(came) => came,
            Err(error) => return self.fail(error),
        };
        if let Some(whole) = self.queue.came(item, contender, came) {
            self.note(&finished(whole.item, &whole.set, whole.came));
            progress(self.results.done());
        }
    }
    fn note(&mut self, finished: &Finished) {
        // Once one has failed, nothing more is noted.
        if self.error.is_none() {
            let noted = self.ledger.note(&finished.line());
            self.error = noted.and_then(|()| self.results.put(finished)).err();
        }
    }
    /// The first that fails is reported.
    fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}
