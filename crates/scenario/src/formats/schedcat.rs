//! XML of SchedCAT (`model/serialize.py`): a `<taskset>` of `<task>`s, or a `<testpoint>` with one
//! such set. Times have no unit there; SchedCAT's overheads are microseconds, so are these.

use super::csv::in_micros;
use super::decimal::MICROSECONDS;
use super::requirements::Found;
use super::task::{Asides, Draft, MOST_TASKS};
use super::xml::{self, Element};
use super::{Written, named};
use crate::error::{Error, Source, counted, quoted};
use crate::taskset::{TaskSet, is_sporadic, offset};
use std::fmt::Write;

const TASK: [&str; 7] = ["id", "period", "wcet", "deadline", "partition", "response_time", "wss"];
/// What SchedCAT computes from the tasks and writes beside them.
const DERIVED: [&str; 6] =
    ["utilization", "utilization_q", "density_q", "density", "count", "hyperperiod"];

/// What is said of every set: SchedCAT knows no other tasks.
const SPORADIC: &str = "tasks of SchedCAT are sporadic, their jobs at least a period apart \
                        (`maracas convert --jobs periodic` makes them periodic)";

/// What is said of sets whose tasks share resources.
const SPREAD: &str = "critical sections are spread evenly over a job, as SchedCAT says only how \
                      many there are; readers exclude each other as writers do";

pub(super) fn read(source: &Source<'_>) -> Result<TaskSet, Error> {
    let document = xml::parse(source)?;
    let root = Element::root(source, &document);
    let mut asides = Asides::default();
    let taskset = match root.name() {
        "taskset" => root,
        "testpoint" => only_set(root, &mut asides)?,
        other => {
            return Err(root.error(format!(
                "the root is <{other}>; a set of SchedCAT begins with <taskset>, one of SimSo \
                 with <simulation>"
            )));
        }
    };
    taskset.check_attributes(&[], &[])?;
    let (mut tasks, mut names, mut cut) = (Vec::new(), Vec::new(), 0);
    let mut found = Found::new();
    for element in taskset.elements(&["properties", "task"])? {
        if element.name() == "properties" {
            element.check_attributes(&DERIVED, &[])?;
            continue;
        }
        if tasks.len() >= MOST_TASKS {
            return Err(element.error(format!("more than {MOST_TASKS} tasks; split the file")));
        }
        let name = element.attribute("id").map_or(String::new(), |id| named_by(id.text));
        let draft = draft(element, &name, &mut asides, &mut cut)?;
        let task = draft.task(source, tasks.len() as u32)?;
        found.take(element, &task)?;
        tasks.push(task);
        names.push((element.attribute("id").map_or(element.at(), |id| id.at), name));
    }
    if tasks.is_empty() {
        let message = "there is no <task>; add <task period=\"10000\" wcet=\"2000\"/>";
        return Err(taskset.error(message));
    }
    if cut > 0 {
        asides.add(format!("{cut} times are finer than a nanosecond and were rounded down"));
    }
    asides.add(SPORADIC);
    let resources = found.resources();
    if resources.is_some() {
        asides.add(SPREAD);
    }
    let origin = xml::head_comments(&document);
    let set = TaskSet { tasks, origin, notes: asides.notes(), resources, ..TaskSet::default() };
    named(source, set, names)
}

/// A whole number gives a name like those of tasks without one.
fn named_by(id: &str) -> String {
    let id = id.trim();
    if id.bytes().all(|digit| digit.is_ascii_digit()) { format!("task{id}") } else { id.into() }
}

/// The only set of a test point.
fn only_set<'a, 'd>(root: Element<'a, 'd>, asides: &mut Asides) -> Result<Element<'a, 'd>, Error> {
    let elements = root.elements(&["config", "taskset"])?;
    let (sets, config): (Vec<_>, Vec<_>) =
        elements.into_iter().partition(|element| element.name() == "taskset");
    if !config.is_empty() {
        asides.add("the <config> of the test point is left aside");
    }
    match sets.as_slice() {
        [set] => Ok(*set),
        [] => Err(root.error("this <testpoint> holds no <taskset>; add one")),
        [_, second, ..] => {
            let count = sets.len();
            let message = format!("this <testpoint> holds {count} sets; keep one in a file");
            Err(second.error(message))
        }
    }
}

fn draft(
    element: Element<'_, '_>,
    name: &str,
    asides: &mut Asides,
    cut: &mut u32,
) -> Result<Draft, Error> {
    element.check_attributes(&TASK, &[])?;
    let name = if name.is_empty() { "a task without id" } else { name };
    for aside in ["partition", "wss", "response_time"] {
        if element.attribute(aside).is_some() {
            asides.of(&format!("`{aside}` is left aside"), name);
        }
    }
    let (cost, cost_cut) = element.needed_time("wcet", MICROSECONDS)?;
    let (period, period_cut) = element.needed_time("period", MICROSECONDS)?;
    let deadline = element.time("deadline", MICROSECONDS)?;
    let deadline_cut = deadline.as_ref().is_some_and(|(_, cut)| *cut);
    *cut += u32::from(cost_cut) + u32::from(period_cut) + u32::from(deadline_cut);
    let deadline = deadline.map(|(given, _)| given);
    Ok(Draft { cost, period, deadline, offset: None, sporadic: true })
}

pub(super) fn write(set: &TaskSet) -> Written {
    let mut text = format!("{}<taskset>\n", xml::comments(&set.origin));
    let (names, mut fractions, mut losses) = (set.names(), 0, Vec::new());
    let numbers: Option<Vec<u64>> = names.iter().map(|name| number(name)).collect();
    for (place, task) in set.tasks.iter().enumerate() {
        let r = task.reservation;
        let id = numbers.as_ref().map_or(place as u64 + 1, |numbers| numbers[place]);
        let (period, cost) = (in_micros(r.period), in_micros(r.budget));
        let deadline = if r.deadline == r.period {
            String::new()
        } else {
            format!(" deadline=\"{}\"", in_micros(r.deadline))
        };
        let whole = [r.budget, r.period, r.deadline].map(|time| time.ticks() % 1_000 == 0);
        fractions += usize::from(whole != [true; 3]);
        let _ =
            writeln!(text, "  <task id=\"{id}\" period=\"{period}\" wcet=\"{cost}\"{deadline}/>");
    }
    text += "</taskset>\n";
    let periodic = set.tasks.iter().filter(|task| !is_sporadic(task));
    let (periodic, late) =
        (periodic.clone().count(), periodic.filter(|task| !offset(task).is_zero()).count());
    if periodic > 0 {
        losses.push(format!(
            "{} made sporadic, as all tasks of SchedCAT are",
            counted(periodic, "periodic task")
        ));
    }
    if late > 0 {
        let offsets = counted(late, "offset");
        losses.push(format!("{offsets} lost: SchedCAT has none"));
    }
    if numbers.is_none() {
        let first = quoted(&names[0]);
        losses.push(format!("names such as {first} are lost: tasks of SchedCAT have numbers"));
    }
    if fractions > 0 {
        losses.push(format!(
            "{} with fractions of a microsecond, which SchedCAT's compiled tests cut off",
            counted(fractions, "task")
        ));
    }
    Written { text, losses, ..Written::default() }
}

/// The number in `task12`.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("task")?;
    let number: u64 = digits.parse().ok()?;
    (digits == number.to_string()).then_some(number)
}
