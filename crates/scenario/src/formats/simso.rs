//! XML of SimSo (`configuration/parser.py`): a `<simulation>` with scheduler, caches, processors
//! and tasks. Times of tasks are milliseconds, cut to cycles of 1/`cycles_per_ms`.

mod write;

pub(super) use write::write;

use super::decimal::MILLISECONDS;
use super::named;
use super::task::{Asides, Draft, MOST_TASKS};
use super::xml::{self, Attribute, Element};
use crate::error::{Error, Source, counted, did_you_mean, quoted};
use crate::taskset::TaskSet;

const SIMULATION: [&str; 7] = [
    "duration",
    "cycles_per_ms",
    "etm",
    "use_wcet",
    "penalty_preemption",
    "penalty_migration",
    "memory_access_time",
];
const TASK: [&str; 18] = [
    "name",
    "id",
    "task_type",
    "period",
    "activationDate",
    "WCET",
    "deadline",
    "abort_on_miss",
    "list_activation_dates",
    "followed_by",
    "ACET",
    "et_stddev",
    "instructions",
    "mix",
    "base_cpi",
    "stack",
    "preemption_cost",
    "periodic",
];
const TYPES: [&str; 3] = ["Periodic", "Sporadic", "APeriodic"];
/// What other models of execution time take, with the values that say nothing.
const MODELS: [(&str, &[&str]); 4] = [
    ("ACET", &["0", "0.0"]),
    ("et_stddev", &["0", "0.0"]),
    ("instructions", &["0"]),
    ("preemption_cost", &["0"]),
];

pub(super) fn read(source: &Source<'_>) -> Result<TaskSet, Error> {
    let document = xml::parse(source)?;
    let root = Element::root(source, &document);
    if root.name() != "simulation" {
        return Err(root.error(format!(
            "the root is <{}>; a file of SimSo begins with <simulation>, a set of SchedCAT with \
             <taskset>",
            root.name()
        )));
    }
    root.check_attributes(&SIMULATION, &[])?;
    let parts = root.elements(&["sched", "caches", "processors", "tasks"])?;
    let mut asides = Asides::default();
    of_the_run(root, &parts, &mut asides)?;
    let mut lists = parts.iter().filter(|part| part.name() == "tasks");
    let Some(list) = lists.next() else {
        return Err(root.error("this <simulation> has no <tasks>; add them"));
    };
    if let Some(second) = lists.next() {
        return Err(second.error("<tasks> stands twice; put all tasks into one"));
    }
    let mut set = tasks(source, *list, asides)?;
    set.0.origin = xml::head_comments(&document);
    named(source, set.0, set.1)
}

/// What the file says of the run, which the command line says here.
fn of_the_run(
    root: Element<'_, '_>,
    parts: &[Element<'_, '_>],
    asides: &mut Asides,
) -> Result<(), Error> {
    let mut found = Vec::new();
    if let Some(duration) = root.attribute("duration") {
        found.push(format!("duration {} (--until)", quoted(duration.text)));
    }
    for part in parts {
        match part.name() {
            "sched" => {
                let scheduler = part.attribute("class").or_else(|| part.attribute("className"));
                let name = scheduler.map_or("none", |scheduler| scheduler.text);
                found.push(format!("scheduler {} (--policy)", quoted(name)));
            }
            "processors" => {
                let inside = part.elements(&["processor", "field"])?;
                let count = inside.iter().filter(|it| it.name() == "processor").count();
                found.push(format!("{} (--cores)", counted(count, "processor")));
                let speeds = inside.iter().filter_map(|it| it.unusual("speed", &["1", "1.0"]));
                found.extend(speeds.take(1).map(|speed| format!("speeds such as {speed}")));
                let costs = ["cs_overhead", "cl_overhead"];
                let costs = |it: &Element<'_, '_>| {
                    costs.iter().any(|name| it.unusual(name, &["0", "0.0"]).is_some())
                };
                if inside.iter().any(costs) {
                    found.push("overheads (--overheads)".into());
                }
            }
            "caches" if !part.elements(&["cache", "field"])?.is_empty() => {
                found.push("caches".into());
            }
            _ => {}
        }
    }
    let etm = root.unusual("etm", &["wcet"]);
    let etm = etm.or_else(|| root.unusual("use_wcet", &["true", "yes"]).map(|_| "cache"));
    if let Some(etm) = etm {
        found.push(format!("execution times by {} (every job takes its WCET)", quoted(etm)));
    }
    if let Some(cycles) = root.unusual("cycles_per_ms", &["1000000"]) {
        let shown = quoted(cycles);
        found.push(format!("cycles_per_ms {shown} (times are cut to nanoseconds here)"));
    }
    if !found.is_empty() {
        asides.add(format!("left aside, of SimSo's run: {}", found.join(", ")));
    }
    Ok(())
}

/// Tasks that are checked, and the names that they ask for, each with its place.
type Tasks = (TaskSet, Vec<(usize, String)>);

fn tasks(source: &Source<'_>, list: Element<'_, '_>, mut asides: Asides) -> Result<Tasks, Error> {
    let elements = list.elements(&["field", "task"])?;
    let fields: Vec<&str> = elements
        .iter()
        .filter(|element| element.name() == "field")
        .filter_map(|field| field.attribute("name"))
        .map(|name| name.text)
        .collect();
    let (mut tasks, mut names, mut cut) = (Vec::new(), Vec::new(), 0);
    for element in elements.into_iter().filter(|element| element.name() == "task") {
        if tasks.len() >= MOST_TASKS {
            return Err(element.error(format!("more than {MOST_TASKS} tasks; split the file")));
        }
        element.check_attributes(&TASK, &fields)?;
        element.elements(&[])?;
        let name = element.attribute("name");
        let name = name.unwrap_or(Attribute { at: element.at(), text: "" });
        let shown = if name.text.is_empty() { "a task without name" } else { name.text };
        let draft = draft(source, element, &mut cut)?;
        set_aside(element, &fields, shown, draft.sporadic, &mut asides);
        tasks.push(draft.task(source, tasks.len() as u32)?);
        names.push((name.at, name.text.to_owned()));
    }
    if tasks.is_empty() {
        let message =
            "there is no <task>; add <task name=\"T1\" period=\"10\" WCET=\"2\" deadline=\"10\"/>";
        return Err(list.error(message));
    }
    if cut > 0 {
        asides.add(format!(
            "{cut} times are finer than a nanosecond and were rounded down, as SimSo rounds them \
             to cycles"
        ));
    }
    Ok((TaskSet { tasks, notes: asides.notes(), ..TaskSet::default() }, names))
}

/// Whether the jobs are sporadic; other types are refused.
fn is_sporadic(source: &Source<'_>, element: Element<'_, '_>) -> Result<bool, Error> {
    let refused = |at: usize| {
        let message = "jobs of an aperiodic task are made by another task, which a task set cannot \
                       say; give it task_type=\"Periodic\" or \"Sporadic\"";
        Err(source.error(at, message))
    };
    match (element.attribute("task_type"), element.attribute("periodic")) {
        (Some(kind), _) => match kind.text.trim() {
            "Periodic" => Ok(false),
            "Sporadic" => Ok(true),
            "APeriodic" => refused(kind.at),
            other => {
                let hint = did_you_mean(other, TYPES, "types");
                let message = format!("unknown task_type {}; {hint}", quoted(other));
                Err(source.error(kind.at, message))
            }
        },
        (None, Some(periodic)) if periodic.text.trim() == "no" => refused(periodic.at),
        (None, _) => Ok(false),
    }
}

fn draft(source: &Source<'_>, element: Element<'_, '_>, cut: &mut u32) -> Result<Draft, Error> {
    if let Some(next) = element.attribute("followed_by") {
        let message = format!(
            "followed_by {} chains tasks, which a task set cannot say; drop it",
            quoted(next.text)
        );
        return Err(source.error(next.at, message));
    }
    let sporadic = is_sporadic(source, element)?;
    let (cost, cost_cut) = element.needed_time("WCET", MILLISECONDS)?;
    let (period, period_cut) = element.needed_time("period", MILLISECONDS)?;
    let (deadline, deadline_cut) = element.needed_time("deadline", MILLISECONDS)?;
    let offset = element.time("activationDate", MILLISECONDS)?;
    let offset_cut = offset.as_ref().is_some_and(|(_, cut)| *cut);
    let lost = [cost_cut, period_cut, deadline_cut, offset_cut];
    *cut += lost.into_iter().map(u32::from).sum::<u32>();
    let offset = offset.map(|(given, _)| given);
    if let Some(given) = offset.as_ref().filter(|given| sporadic && !given.time.is_zero()) {
        let message = format!(
            "activationDate {} cannot be kept by a sporadic task, whose jobs come when they like; \
             drop it",
            given.text
        );
        return Err(source.error(given.at, message));
    }
    Ok(Draft { cost, period, deadline: Some(deadline), offset, sporadic })
}

/// What a task says that is left aside.
fn set_aside(
    element: Element<'_, '_>,
    fields: &[&str],
    name: &str,
    sporadic: bool,
    asides: &mut Asides,
) {
    if element.unusual("abort_on_miss", &["no"]).is_some()
        || element.attribute("abort_on_miss").is_none()
    {
        asides.of("SimSo aborts a late job; here it goes on", name);
    }
    if sporadic && element.unusual("list_activation_dates", &[]).is_some() {
        asides.of("its dates are left aside: jobs come at random, a period apart at least", name);
    }
    for (key, usual) in MODELS {
        if element.unusual(key, usual).is_some() {
            asides.of(&format!("`{key}` is left aside: every job takes its WCET"), name);
        }
    }
    if element.unusual("stack", &[]).is_some() {
        asides.of("`stack` is left aside: there are no caches", name);
    }
    for field in fields {
        if element.unusual(field, &[]).is_some_and(|_| !TASK.contains(field)) {
            let field = quoted(field).replace('"', "`");
            asides.of(&format!("the field {field} is left aside"), name);
        }
    }
}
