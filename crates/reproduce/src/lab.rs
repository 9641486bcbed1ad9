//! Where experiments run their scenarios.

use crate::{Costs, Error, Run, pool};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A scenario to be run: the text of a file that `maracas sim` runs just as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// What it is called within its experiment; also the stem of its file.
    pub name: String,
    /// TOML, as `docs/scenario.md` says.
    pub text: String,
}

impl Setup {
    /// A scenario.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A file of what an experiment found one by one: too long for a document, but what its tables are
/// computed from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The name of the file.
    pub name: String,
    /// What stands in it.
    pub text: String,
}

/// Runs scenarios, several at once, and remembers them.
pub struct Lab<'a> {
    jobs: usize,
    seeds: Option<usize>,
    progress: &'a (dyn Fn(usize, usize) + Sync),
    begun: AtomicUsize,
    done: AtomicUsize,
    setups: Mutex<Vec<Setup>>,
    records: Mutex<Vec<Record>>,
    costs: Option<Costs>,
}

impl<'a> Lab<'a> {
    /// A lab of `jobs` threads. `seeds` takes the place of the number of seeds that an experiment
    /// would take. `progress` learns of every run that is over: how many are, of how many that are
    /// known to come. Both grow, experiment after experiment; what an experiment will still ask
    /// for after these is not known.
    pub fn new(
        jobs: usize,
        seeds: Option<usize>,
        progress: &'a (dyn Fn(usize, usize) + Sync),
    ) -> Self {
        Self {
            jobs,
            seeds,
            progress,
            begun: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            setups: Mutex::new(Vec::new()),
            records: Mutex::new(Vec::new()),
            costs: None,
        }
    }
    /// The same with costs of scheduling primitives that were just measured.
    #[must_use]
    pub fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = Some(costs);
        self
    }
    /// The costs of scheduling primitives: those given, else those recorded for the documents.
    ///
    /// # Errors
    /// Where the recorded ones cannot be read.
    pub fn costs(&self) -> Result<Costs, Error> {
        self.costs.clone().map_or_else(Costs::recorded, Ok)
    }
    /// How many seeds an experiment must take that by itself takes `usual`.
    pub fn seeds(&self, usual: usize) -> usize {
        self.asked().unwrap_or(usual).max(1)
    }
    /// How many seeds were asked for, if any were.
    pub fn asked(&self) -> Option<usize> {
        self.seeds
    }
    /// Runs all of them; the runs come in the order of the scenarios.
    ///
    /// # Errors
    /// The first that cannot be read or is refused, by its name.
    pub fn run(&self, setups: &[Setup]) -> Result<Vec<Run>, Error> {
        self.run_each(setups, |_, setup| Run::of(setup))
    }
    /// Runs each of them by `work`, which gets its place; what comes out stands in their order.
    ///
    /// # Errors
    /// The first that `work` returns.
    pub(crate) fn run_each<R: Send>(
        &self,
        setups: &[Setup],
        work: impl Fn(usize, &Setup) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        self.setups().extend_from_slice(setups);
        let numbered: Vec<_> = setups.iter().enumerate().collect();
        self.map(&numbered, |(place, setup)| work(*place, setup)).into_iter().collect()
    }
    /// Does `work` on all of `items`, several at once; what comes out stands in their order. For
    /// experiments on task sets, which are no scenarios.
    pub fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        self.begun.fetch_add(items.len(), Ordering::Relaxed);
        let done = || {
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            (self.progress)(done, self.begun.load(Ordering::Relaxed));
        };
        pool::map(items, self.jobs, &done, work)
    }
    /// Runs one.
    ///
    /// # Errors
    /// As [`Lab::run`].
    pub fn run_one(&self, setup: Setup) -> Result<Run, Error> {
        let mut runs = self.run(&[setup])?;
        runs.pop().ok_or_else(|| Error("one scenario gives one run".into()))
    }
    /// Every scenario that was run since the last call, in order.
    pub fn take_setups(&self) -> Vec<Setup> {
        std::mem::take(&mut *self.setups())
    }
    /// Keeps a record for the caller to write.
    pub(crate) fn keep(&self, record: Record) {
        locked(&self.records).push(record);
    }
    /// Every record that was kept since the last call, in order.
    pub fn take_records(&self) -> Vec<Record> {
        std::mem::take(&mut *locked(&self.records))
    }

    fn setups(&self) -> MutexGuard<'_, Vec<Setup>> {
        locked(&self.setups)
    }
}

/// A list is whole whatever happened to the thread that held it.
fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
