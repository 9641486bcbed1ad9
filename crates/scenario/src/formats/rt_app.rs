//! JSON of rt-app (`doc/tutorial.txt`, `src/rt-app_parse_config.c`): threads that run and wait for
//! a timer, or have a reservation of SCHED_DEADLINE. Times are whole microseconds.

mod phases;
mod scripts;
mod suspends;
mod write;

pub use scripts::Scripted;
pub(super) use scripts::read as read_scripts;
pub(super) use suspends::Mended;
pub(super) use write::write;

use super::json::{self, Member, Node};
use super::named;
use super::task::{Asides, Draft, Given, MOST_TASKS};
use crate::cursor::LONGEST;
use crate::error::{Error, Source, did_you_mean, quoted};
use crate::taskset::TaskSet;
use maracas_core::Duration;
use phases::Cycle;

/// The key under which we write [`TaskSet::origin`]; rt-app ignores it.
const ORIGIN: &str = "_origin";
const DEADLINE: &str = "SCHED_DEADLINE";
const POLICIES: [&str; 5] = ["SCHED_OTHER", "SCHED_IDLE", "SCHED_RR", "SCHED_FIFO", DEADLINE];
const GLOBAL: [&str; 16] = [
    "duration",
    "calibration",
    "default_policy",
    "pi_enabled",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
    "frag",
    "fragment",
    "spacing",
];
/// Properties of threads beside their events.
const THREAD: [&str; 18] = [
    "instance",
    "delay",
    "loop",
    "phases",
    "policy",
    "priority",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "dl-reclaim",
    "period",
    "deadline",
    "cpus",
    "nodes_membind",
    "membind_nodes",
    "util_min",
    "util_max",
    "taskgroup",
];
/// Those of them that concern Linux alone.
const ASIDE: [&str; 8] = [
    "priority",
    "dl-reclaim",
    "cpus",
    "nodes_membind",
    "membind_nodes",
    "util_min",
    "util_max",
    "taskgroup",
];

pub(super) fn read(source: &Source<'_>) -> Result<TaskSet, Error> {
    let value = json::parse(source)?;
    let root = Node::new(source, &value);
    let mut asides = Asides::default();
    let File { threads, policy, origin } = File::of(root, &mut asides)?;
    let (mut tasks, mut names) = (Vec::new(), Vec::new());
    for member in threads {
        let members =
            phases::members(member.value, member.key, member.key, phases::is_event, &mut asides)?;
        let thread = Thread { source, member, members };
        let (draft, instances) = thread.read(policy, &mut asides)?;
        if tasks.len() as u64 + instances > MOST_TASKS as u64 {
            let message = format!("with `instance` there are more than {MOST_TASKS} threads");
            return Err(source.error(member.key_at, format!("{message}; lower it")));
        }
        for instance in 0..instances {
            tasks.push(draft.task(source, tasks.len() as u32)?);
            let one = if instances == 1 { String::new() } else { format!("-{instance}") };
            names.push((member.key_at, format!("{}{one}", member.key)));
        }
    }
    if tasks.is_empty() {
        return Err(root.error("every task has `instance` 0; raise one"));
    }
    named(source, TaskSet { tasks, origin, notes: asides.notes(), ..TaskSet::default() }, names)
}

/// A file by its parts.
struct File<'a> {
    /// The objects under `tasks`; never none.
    threads: Vec<Member<'a>>,
    /// The policy of threads that name none.
    policy: &'a str,
    origin: Vec<String>,
}

impl<'a> File<'a> {
    fn of(root: Node<'a>, asides: &mut Asides) -> Result<Self, Error> {
        let (mut threads, mut policy, mut origin) = (None, "SCHED_OTHER", Vec::new());
        for member in root.members("{}")? {
            match member.key {
                "tasks" => threads = Some(member.value.members("tasks")?),
                "global" => policy = global(member.value, asides)?,
                "resources" => asides.add("`resources` are left aside: events name what they use"),
                ORIGIN => {
                    for line in member.value.elements(ORIGIN)? {
                        origin.push(line.text(ORIGIN)?.replace(char::is_control, " "));
                    }
                }
                _ => return Err(unknown(member, &["tasks", "global", "resources"], root.source)),
            }
        }
        let threads = threads.filter(|threads| !threads.is_empty()).ok_or_else(|| {
            root.error("there are no `tasks`; add \"tasks\": {\"a\": {\"run\": 2000, ...}}")
        })?;
        Ok(Self { threads, policy, origin })
    }
}

fn unknown(member: Member<'_>, known: &[&'static str], source: &Source<'_>) -> Error {
    let shown = quoted(member.key).replace('"', "`");
    let hint = did_you_mean(member.key, known.iter().copied(), "keys here");
    source.error(member.key_at, format!("unknown key {shown}; {hint}"))
}

/// Reads the policy of threads that name none.
fn global<'a>(node: Node<'a>, asides: &mut Asides) -> Result<&'a str, Error> {
    let (mut policy, mut left) = ("SCHED_OTHER", Vec::new());
    for member in node.members("global")? {
        match member.key {
            "default_policy" => policy = policy_of(member)?,
            "duration" => left.push(format!("duration {} s (--until)", member.value.found())),
            known if GLOBAL.contains(&known) => left.push(known.into()),
            _ => return Err(unknown(member, &GLOBAL, node.source)),
        }
    }
    if !left.is_empty() {
        asides.add(format!("left aside, of rt-app's run: {}", left.join(", ")));
    }
    Ok(policy)
}

fn policy_of(member: Member<'_>) -> Result<&str, Error> {
    let word = member.value.text(member.key)?;
    if POLICIES.contains(&word) {
        return Ok(word);
    }
    let hint = did_you_mean(word, POLICIES, "policies");
    Err(member.value.error(format!("unknown policy {}; {hint}", quoted(word))))
}

/// A whole number of microseconds.
fn micros(member: Member<'_>, label: &'static str) -> Result<Given, Error> {
    let number = member.value.whole(member.key, " of microseconds")?;
    let error = |why: &str| Err(member.value.error(format!("{label} {number} {why}")));
    let Ok(us) = u64::try_from(number) else { return error("is negative; drop the minus sign") };
    let time = us.checked_mul(1_000).map(Duration::from_ticks).filter(|time| *time <= LONGEST);
    let Some(time) = time else { return error("is longer than 100 days; shorten it") };
    Ok(Given { label, at: member.value.at(), text: number.to_string(), time })
}

/// One thread object.
struct Thread<'a> {
    source: &'a Source<'a>,
    member: Member<'a>,
    members: Vec<Member<'a>>,
}

impl<'a> Thread<'a> {
    fn get(&self, key: &str) -> Option<Member<'a>> {
        self.members.iter().find(|member| member.key == key).copied()
    }
    fn micros(&self, key: &str, label: &'static str) -> Result<Option<Given>, Error> {
        self.get(key).map(|member| micros(member, label)).transpose()
    }
    fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(self.member.key_at, message)
    }

    /// Checks its keys and notes which are left aside. Says how many threads it is.
    fn head(&self, asides: &mut Asides) -> Result<u64, Error> {
        let name = self.member.key;
        for member in &self.members {
            if !THREAD.contains(&member.key) && !phases::is_event(member.key) {
                let known = [THREAD.as_slice(), &["run", "runtime", "timer"]].concat();
                return Err(unknown(*member, &known, self.source));
            }
            if ASIDE.contains(&member.key) {
                asides.of(&format!("`{}` is left aside", member.key), name);
            }
        }
        let Some(member) = self.get("instance") else { return Ok(1) };
        let number = member.value.whole("instance", "")?;
        u64::try_from(number).map_err(|_| {
            let message = format!("instance {number} is negative; drop the minus sign");
            member.value.error(message)
        })
    }

    /// How often it passes through its phases; `None` = for ever. Without phases `loop` says how
    /// often its one phase is repeated.
    fn rounds(&self) -> Result<Option<u32>, Error> {
        match (self.get("loop"), self.get("phases")) {
            (None, _) => Ok(None),
            (Some(_), None) => Ok(Some(1)),
            (Some(member), Some(_)) => Ok(u32::try_from(member.value.whole("loop", "")?).ok()),
        }
    }

    /// The task, and how many threads are it.
    fn read(&self, default: &str, asides: &mut Asides) -> Result<(Draft, u64), Error> {
        let name = self.member.key;
        let instances = self.head(asides)?;
        if instances == 0 {
            asides.of("it has `instance` 0 and is left out", name);
        }
        self.note_loops(asides)?;
        let offset = self.micros("delay", "delay")?;
        let policy = self.get("policy").map(policy_of).transpose()?.unwrap_or(default);
        let cycle = phases::cycle(self, asides)?;
        if instances > 1 && cycle.timer.as_ref().is_some_and(|timer| !timer.unique) {
            let what = "its threads share one timer, which disturbs them in rt-app; here each \
                        has its own";
            asides.of(what, name);
        }
        let draft = if policy == DEADLINE {
            self.reservation(&cycle, offset, asides)?
        } else {
            self.unreserved(asides);
            self.timed(&cycle, offset, asides)?
        };
        Ok((draft, instances))
    }

    /// A finite loop ends; our tasks do not.
    fn note_loops(&self, asides: &mut Asides) -> Result<(), Error> {
        let Some(member) = self.get("loop") else { return Ok(()) };
        let loops = member.value.whole("loop", "")?;
        if loops >= 0 {
            asides.of(&format!("it ends after `loop` {loops}; here it goes on"), self.member.key);
        }
        Ok(())
    }

    /// What SCHED_DEADLINE takes says nothing under another policy.
    fn unreserved(&self, asides: &mut Asides) {
        for key in ["dl-runtime", "dl-period", "dl-deadline", "period", "deadline"] {
            if self.get(key).is_some() {
                let what = format!("`{key}` is left aside: its policy is not {DEADLINE}");
                asides.of(&what, self.member.key);
            }
        }
    }

    /// A task that works and waits for its timer, or sleeps.
    fn timed(
        &self,
        cycle: &Cycle,
        offset: Option<Given>,
        asides: &mut Asides,
    ) -> Result<Draft, Error> {
        let Some(period) = cycle.period() else {
            return Err(self.error(
                "without a timer its jobs have no period; end it with \"timer\": {\"ref\": \
                 \"unique\", \"period\": 10000}",
            ));
        };
        let Some(cost) = &cycle.cost else {
            return Err(self.error("it never works; add \"run\": 2000 before its timer"));
        };
        let (cost, sporadic) = (cost.clone(), cycle.timer.is_none());
        if sporadic {
            let what = "it sleeps after its work: sporadic here, its jobs at least run and sleep \
                        apart";
            asides.of(what, self.member.key);
        }
        if sporadic && offset.is_some() {
            asides.of("`delay` is left aside: its jobs come at random", self.member.key);
        }
        Ok(Draft { cost, period, deadline: None, offset, sporadic })
    }

    /// A task with a reservation; its work stays within, or the rest of it is delayed by Linux.
    fn reservation(
        &self,
        cycle: &Cycle,
        offset: Option<Given>,
        asides: &mut Asides,
    ) -> Result<Draft, Error> {
        // As rt-app: `runtime`, `period` and `deadline` are the older words for the three.
        let legacy = self.get("dl-runtime").is_none();
        let older = |key: &str, label| if legacy { self.micros(key, label) } else { Ok(None) };
        let cost = match self.micros("dl-runtime", "dl-runtime")? {
            Some(cost) => Some(cost),
            None => older("runtime", "runtime")?,
        };
        let Some(cost) = cost else {
            return Err(self.error(format!(
                "its policy is {DEADLINE} and it has no `dl-runtime`; add dl-runtime and dl-period"
            )));
        };
        let period = match self.micros("dl-period", "dl-period")? {
            Some(period) => Some(period),
            None => older("period", "period")?,
        };
        let period = period.unwrap_or_else(|| Given { label: "dl-period", ..cost.clone() });
        let deadline = match self.micros("dl-deadline", "dl-deadline")? {
            Some(deadline) => Some(deadline),
            None => older("deadline", "deadline")?,
        };
        let work = cycle.cost.as_ref().filter(|work| work.time != cost.time);
        let timer = cycle.timer.as_ref().filter(|timer| timer.period.time != period.time);
        if work.is_some() || timer.is_some() {
            let what = "its work or timer differs from its reservation, and every job takes the \
                        whole reservation here";
            asides.of(what, self.member.key);
        }
        Ok(Draft { cost, period, deadline, offset, sporadic: false })
    }
}
