//! All that `maracas check` says of a case: its verdict, what a user should know, and what would
//! be admitted in its place.

use crate::case::{Case, Machine, Overrides, PERIODS};
use crate::fit::{self, Fit};
use crate::live::{self, Require, senses, steering};
use crate::verdict;
use maracas_console::failure::Failure;
use maracas_core::{Duration, System, Vcpu};
use maracas_policies::interference;
use maracas_scenario::suggest::{self, Change};
use maracas_sim::jobs;
use serde_json::{Value, json};

/// As many as a user weighs against each other; they are sorted, the smallest first.
const SUGGESTIONS: usize = 4;

/// What was found beside the verdict, which the case has.
pub struct Checked {
    /// What was assumed and what this host lacks, a sentence each.
    pub notes: Vec<String>,
    /// Where the case is refused and changes were asked for: those that would be admitted.
    suggestions: Option<Vec<String>>,
    /// Where jobs may be late and changes were asked for: the scenario in which none is, or what
    /// stands in the way.
    fit: Option<Result<Fit, String>>,
}

impl Checked {
    /// Checks `case`, for this host where it is for the live machine. With `suggest` changes are
    /// looked for; `text` is what the case was read from, with these `overrides`.
    ///
    /// # Errors
    /// Whatever `maracas run` would refuse in the programs, or for want of a sensor.
    pub fn of(
        case: &Case,
        asked: &senses::Asked,
        suggest: bool,
        text: &dyn Fn() -> Result<String, String>,
        overrides: &Overrides,
    ) -> Result<Self, Failure> {
        let mut notes = case.assumptions().to_vec();
        notes.extend(of_structure(case));
        notes.extend(of_long_jobs(case));
        if case.machine == Machine::Live {
            notes.extend(on_this_host(case, asked)?);
        } else if asked.is_given() {
            notes.push("--sense changes nothing in simulation; it is for --machine live".into());
        }
        let suggestions = (suggest && !case.verdict.accepted()).then(|| suggestions(case));
        let fitted = || text().and_then(|text| fit::fit(case, &text, overrides));
        let fit = (suggest && case.jobs_may_be_late()).then(fitted);
        Ok(Self { notes, suggestions, fit })
    }

    /// The verdict with the changes, as text.
    pub fn text(&self, case: &Case) -> String {
        let mut text = verdict::text(case, &case.verdict);
        text.extend(self.suggestions.iter().map(|changes| listed(changes)));
        text.extend(self.fit.iter().map(|fit| match fit {
            Ok(fit) => told(fit),
            Err(why) => format!("nothing tried makes it fit: {why}\n"),
        }));
        text
    }

    /// The same as JSON, notes included.
    pub fn to_json(&self, case: &Case) -> Value {
        let mut shown = verdict::to_json(case, &case.verdict);
        shown["suggestions"] = self.suggestions.clone().unwrap_or_default().into();
        shown["notes"] = self.notes.clone().into();
        shown["fit"] = match &self.fit {
            Some(Ok(fit)) => json!({ "changes": fit.changes, "scenario": fit.text }),
            Some(Err(why)) => json!({ "binds": why }),
            None => Value::Null,
        };
        shown
    }
}

/// Which jobs may need more than C under a policy that does not cut them there.
fn of_long_jobs(case: &Case) -> Option<String> {
    if jobs::cuts(case.entry, &case.params) {
        return None;
    }
    let too_long = |vcpu: &&Vcpu| {
        let own = case.programs.iter().filter(|program| program.vcpu == vcpu.id);
        let needs = own.filter_map(|program| program.workload.most()).map(Duration::ticks);
        needs.fold(0, u64::saturating_add) > vcpu.reservation.budget.ticks()
    };
    let names: Vec<_> =
        case.system.vcpus.iter().filter(too_long).map(|vcpu| case.name(vcpu.id)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "jobs of {} may need more than C, and {} does not cut them there: they take the rest \
             from others, which may miss for it; raise the budget (--set enforcement=precise cuts \
             them at C and what earlier jobs left of theirs, which may still be much at once)",
            names.join(", "),
            case.entry.name
        )
    })
}

/// How often jobs are preempted at most by the structure that the policy makes of the tasks.
fn of_structure(case: &Case) -> Option<String> {
    let admitted = case.verdict.accepted();
    let periods = case.start.vcpus.iter().map(|vcpu| vcpu.reservation.period);
    let longest = periods.max().filter(|_| admitted)?.ticks();
    let length = Duration::from_ticks(longest.checked_mul(PERIODS)?);
    let name = case.entry.name;
    let bound = interference::of(name, &case.start, &case.params, length)?.ok()?;
    let each = |count: u64| count as f64 / bound.jobs.max(1) as f64;
    Some(format!(
        "{name} preempts a job {:.1} times at most on average, {:.1} of them onto another core, \
         and decides {:.1} times a job at most, while jobs need at most C and no others come; C \
         must hold what that costs (docs/overheads.md)",
        each(bound.preemptions),
        each(bound.migrations),
        each(bound.decisions)
    ))
}

fn on_this_host(case: &Case, asked: &senses::Asked) -> Result<Vec<String>, Failure> {
    let mut setup = live::setup(case, None)?;
    let mut notes = steering::notes(case)?;
    if case.start.classes.len() > 1 {
        // What `run --emulate` would refuse is refused here.
        let emulation = live::place(case, &mut setup, true)?;
        notes.extend(emulation.map(|how| {
            format!("this host has no such cores: `maracas run` needs --emulate ({how})")
        }));
    }
    let senses = asked.open(case, &setup, Require::Any)?;
    let sensor = senses.sensor.iter().filter(|_| case.senses().samples);
    notes.extend(sensor.map(|sensor| format!("memory is sampled by {}", sensor.describe())));
    notes.extend(senses.notes);
    notes.extend(case.of_agents());
    notes.extend(verdict::of_fine_reservations(case));
    Ok(notes)
}

fn suggestions(case: &Case) -> Vec<String> {
    // A section that would end after the budget is refused before any test is asked.
    let holds = |system: &System| {
        let resources = system.resources.as_ref();
        resources.is_none_or(|it| system.vcpus.iter().all(|vcpu| it.check(vcpu).is_ok()))
    };
    let admits = |system: &System| {
        let all = case.with_service_vcpus(system);
        holds(system) && case.entry.verdict(&all, &case.params).accepted()
    };
    let changes = suggest::changes(&case.without_service_vcpus(), &admits);
    let describe = |change: &Change| match (&case.scenario, change.vcpu()) {
        (Some(scenario), _) => scenario.describe(change),
        (None, Some(vcpu)) => format!("{}: {}", case.name(vcpu), change.what()),
        (None, None) => change.to_string(),
    };
    changes.iter().take(SUGGESTIONS).map(describe).collect()
}

fn listed(suggestions: &[String]) -> String {
    if suggestions.is_empty() {
        return "no single change of a budget, a period or the cores would be admitted\n".into();
    }
    let lines: String = suggestions.iter().map(|line| format!("  {line}\n")).collect();
    format!("any one of these would be admitted:\n{lines}")
}

/// The changes in comments, so that all of it is a scenario, and the scenario.
fn told(fit: &Fit) -> String {
    let changes: String = fit.changes.iter().map(|change| format!("#   {change}\n")).collect();
    format!("# in time with these changes:\n{changes}{}", fit.text)
}
