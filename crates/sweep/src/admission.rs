//! Which task sets the schedulability tests of a policy admit.
//!
//! A policy that knows several tests has a parameter for them, [`ADMISSION`]. A sweep asks every
//! one of them, whichever the runs are admitted by: what a test admits is known to miss nothing,
//! what it refuses may miss nothing all the same.

use crate::study::Contender;
use crate::trial::Subject;
use maracas_core::contract::Entry;
use maracas_core::params::{Kind, Params, Value};
use maracas_scenario::taskset::TaskSet;

/// The parameter by which policies let users choose a test.
pub const ADMISSION: &str = "admission";
/// The word of that parameter that promises nothing: no test.
const NO_TEST: &str = "none";

/// The tests that a policy knows, in its own order; none where there is no choice: its admission is
/// then its only test.
pub fn tests(subject: &Subject) -> impl Iterator<Item = &'static str> {
    words_of(subject.entry).iter().copied().filter(|word| *word != NO_TEST)
}

/// What the parameter of a policy takes; nothing where there is no choice.
fn words_of(entry: &Entry) -> &'static [&'static str] {
    let choice = entry.params.iter().find(|spec| spec.name == ADMISSION);
    match choice.map(|spec| &spec.kind) {
        Some(Kind::Choice(words)) => words,
        _ => &[],
    }
}

/// With these parameters a policy takes what its load allows: without a test where it can do
/// without, else with its defaults.
#[must_use]
pub fn untested(entry: &Entry) -> Params {
    let mut params = Params::new();
    if words_of(entry).contains(&NO_TEST) {
        params.set(ADMISSION, Value::Text(NO_TEST.into()));
    }
    params
}

/// The same policy with another test.
#[must_use]
pub fn tested_by(subject: &Subject, test: &str) -> Subject {
    let mut params = subject.params.clone();
    params.set(ADMISSION, Value::Text(test.into()));
    Subject { entry: subject.entry, params }
}

/// Whether the policy admits the set on so many cores.
///
/// # Panics
/// Where `cores` is 0 or above [`maracas_core::MAX_CORES`].
pub fn admits(set: &TaskSet, cores: usize, subject: &Subject) -> bool {
    let Subject { entry, params } = subject;
    let mut system = set.system(cores);
    entry.add_service_vcpus(&mut system, params);
    entry.accepts(&system, params)
}

/// Which of a contender's tests admit the set: bit k for the k-th.
///
/// # Panics
/// As [`admits`].
pub fn admitted(set: &TaskSet, cores: usize, contender: &Contender) -> u64 {
    let by = |test: &str| u64::from(admits(set, cores, &tested_by(&contender.subject, test)));
    let tests = contender.tests.iter().enumerate();
    tests.fold(0, |mask, (bit, test)| mask | by(test) << bit)
}

/// The tests of such a mask, in words.
pub(crate) fn words(contender: &Contender, admitted: u64) -> Option<String> {
    let all = &contender.tests;
    let passed = all.iter().enumerate().filter(|(bit, _)| admitted >> bit & 1 == 1);
    let passed: Vec<_> = passed.map(|(_, test)| *test).collect();
    let text = if passed.is_empty() { NO_TEST.into() } else { passed.join(" ") };
    (!all.is_empty()).then_some(text)
}
