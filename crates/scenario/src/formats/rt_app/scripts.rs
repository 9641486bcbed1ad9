//! Threads of rt-app as they are, step by step: what a task set cannot say.

mod events;
mod period;

use super::phases::{self, Repeated};
use super::{DEADLINE, File, Thread};
use crate::cursor::LONGEST;
use crate::error::{Error, Source};
use crate::formats::task::{Asides, MOST_TASKS, clean_name};
use maracas_core::script::{Phase, Script, Scripts, Step};
use maracas_core::{Instant, Reservation};
use period::Period;
use std::collections::{BTreeMap, BTreeSet};

/// Of a task that is forked at most so many threads run at one time: each needs a VCPU that is
/// there from the start.
const FORKED: u32 = 8;

/// What a file says whose threads do more than a task set can say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Scripted {
    /// The threads.
    pub scripts: Scripts,
    /// Their names, one each and no two alike.
    pub names: Vec<String>,
    /// What each is to have: what the file asks for, or what follows where it has one period;
    /// `None` = nothing of the kind.
    pub reservations: Vec<Option<Reservation>>,
    /// Whether the file itself asks for it.
    pub asked: Vec<bool>,
    /// What was left aside or assumed, as sentences for the user.
    pub notes: Vec<String>,
}

/// Reads a file whose threads do more than a task set can say; `None` where they do not.
pub(in crate::formats) fn read(source: &Source<'_>) -> Result<Option<Scripted>, Error> {
    let value = super::json::parse(source)?;
    let mut asides = Asides::default();
    let file = File::of(super::Node::new(source, &value), &mut asides)?;
    let mut tasks = Vec::new();
    for member in &file.threads {
        let key = member.key;
        let members = phases::members(member.value, key, key, phases::is_event, &mut asides)?;
        let thread = Thread { source, member: *member, members };
        let instances = thread.head(&mut Asides::default())?;
        let phases = phases::repeated(&thread, &mut asides)?;
        tasks.push(Task { thread, instances, phases, policy: file.policy });
    }
    let is_set = |task: &Task<'_>| period::is_a_task(&task.phases, task.policy()? == DEADLINE);
    for task in &tasks {
        if !is_set(task)? {
            return Reader::new(source, &tasks, asides).read().map(Some);
        }
    }
    Ok(None)
}

/// One object under `tasks`.
struct Task<'a> {
    thread: Thread<'a>,
    instances: u64,
    phases: Vec<Repeated<'a>>,
    policy: &'a str,
}

impl<'a> Task<'a> {
    fn name(&self) -> &'a str {
        self.thread.member.key
    }
    fn policy(&self) -> Result<&'a str, Error> {
        Ok(self.thread.get("policy").map(super::policy_of).transpose()?.unwrap_or(self.policy))
    }
}

/// All tasks on their way to scripts.
struct Reader<'r, 'a> {
    source: &'a Source<'a>,
    tasks: &'r [Task<'a>],
    asides: Asides,
    scripts: Scripts,
    /// Tasks by their names.
    places: BTreeMap<&'a str, usize>,
    /// The names that any thread resumes.
    resumed: BTreeSet<&'a str>,
    /// Timers by their names and whose they are.
    timers: BTreeMap<(String, Option<u32>), u32>,
    /// The threads that are added now are those that others fork.
    forking: bool,
    /// The task of each thread.
    task_of: Vec<usize>,
    names: Vec<String>,
    reservations: Vec<Option<Reservation>>,
    asked: Vec<bool>,
}

impl<'r, 'a> Reader<'r, 'a> {
    fn new(source: &'a Source<'a>, tasks: &'r [Task<'a>], asides: Asides) -> Self {
        let members = tasks.iter().flat_map(|task| &task.phases).flat_map(|it| &it.members);
        let resumes = members.filter(|member| member.key.starts_with("resume"));
        Self {
            source,
            tasks,
            asides,
            scripts: Scripts::default(),
            places: tasks.iter().enumerate().map(|(place, task)| (task.name(), place)).collect(),
            resumed: resumes.filter_map(|it| it.value.text(it.key).ok()).collect(),
            timers: BTreeMap::new(),
            forking: false,
            task_of: Vec::new(),
            names: Vec::new(),
            reservations: Vec::new(),
            asked: Vec::new(),
        }
    }

    fn read(mut self) -> Result<Scripted, Error> {
        let tasks = self.tasks;
        for (place, task) in tasks.iter().enumerate() {
            task.thread.head(&mut self.asides)?;
            for instance in 0..task.instances {
                let one = if task.instances == 1 { "".into() } else { format!("-{instance}") };
                self.add(place, &format!("{}{one}", task.name()))?;
            }
        }
        if self.scripts.threads.is_empty() {
            let line = "every task has `instance` 0; raise one";
            return Err(self.source.error(0, line));
        }
        self.add_forked()?;
        self.reserve()?;
        self.unwoken();
        self.unlocked();
        self.asides.add(
            "its threads execute their scripts (docs/formats.md): locks, signals and the like take \
             1us after a wake, and no time otherwise",
        );
        if !self.scripts.locks.is_empty() || !self.scripts.semaphores.is_empty() {
            self.asides.add(
                "locks and semaphores go to who came first; in Linux by priority, or to any that \
                 comes",
            );
        }
        let names = self.names.iter().map(|name| clean_name(name)).collect::<Vec<_>>();
        let mut known = BTreeSet::new();
        if let Some(twice) = names.iter().position(|name| !known.insert(name)) {
            let at = tasks[self.task_of[twice]].thread.member.key_at;
            let message = format!("two threads are called {}; rename one task", names[twice]);
            return Err(self.source.error(at, message));
        }
        let Self { scripts, reservations, asked, asides, .. } = self;
        Ok(Scripted { scripts, names, reservations, asked, notes: asides.notes() })
    }

    /// Adds one thread of a task.
    fn add(&mut self, place: usize, name: &str) -> Result<(), Error> {
        let task = &self.tasks[place];
        let id = self.scripts.threads.len() as u32;
        if id as usize >= MOST_TASKS {
            let message = format!("with `instance` there are more than {MOST_TASKS} threads");
            return Err(self.source.error(task.thread.member.key_at, message + "; lower it"));
        }
        let delay = task.thread.micros("delay", "delay")?;
        let mut read = Vec::new();
        for phase in &task.phases {
            let mut steps = Vec::new();
            for member in phase.members.iter().filter(|member| phases::is_event(member.key)) {
                steps.extend(self.steps(place, id, *member)?);
            }
            if phase.members.iter().all(|member| !phases::is_event(member.key)) {
                let line = "it does nothing; add \"run\": 2000";
                return Err(self.source.error(phase.at, line));
            }
            if steps.is_empty() {
                // What is left aside leaves a step that takes no time.
                steps.push(Step::Run(maracas_core::Duration::ZERO));
            }
            read.push(Phase { steps, loops: phase.loops });
        }
        self.scripts.threads.push(Script {
            phases: read,
            loops: task.thread.rounds()?,
            start: delay.map_or(Instant::ZERO, |delay| Instant::ZERO + delay.time),
            forked: self.forking,
        });
        self.task_of.push(place);
        self.names.push(name.into());
        Ok(())
    }

    /// Adds the threads that others fork, and tells those which.
    fn add_forked(&mut self) -> Result<(), Error> {
        let forks = (0..self.tasks.len()).map(|place| self.forks_of(place));
        let forks = forks.collect::<Result<Vec<_>, Error>>()?;
        let mut wanted = vec![0_u32; self.tasks.len()];
        for script in &self.scripts.threads {
            for phase in &script.phases {
                let times = [script.loops, phase.loops].map(|it| it.unwrap_or(FORKED));
                let times = times[0].saturating_mul(times[1]);
                for step in &phase.steps {
                    let Step::Fork(target) = step else { continue };
                    let wanted = &mut wanted[target[0] as usize];
                    *wanted = wanted.saturating_add(times).min(FORKED);
                }
            }
        }
        // What is forked may be so again and again, and forks as often.
        let mut forked: Vec<usize> = (0..wanted.len()).filter(|it| wanted[*it] > 0).collect();
        while let Some(place) = forked.pop() {
            for target in &forks[place] {
                if wanted[*target] < FORKED {
                    wanted[*target] = FORKED;
                    forked.push(*target);
                }
            }
        }
        self.forking = true;
        let mut pools = vec![Vec::new(); self.tasks.len()];
        for (place, wanted) in wanted.into_iter().enumerate() {
            for copy in 0..wanted {
                pools[place].push(self.scripts.threads.len() as u32);
                self.add(place, &format!("{}-fork{copy}", self.tasks[place].name()))?;
            }
        }
        let steps = self.scripts.threads.iter_mut().flat_map(|script| &mut script.phases);
        for step in steps.flat_map(|phase| &mut phase.steps) {
            if let Step::Fork(target) = step {
                *target = pools[target[0] as usize].clone();
            }
        }
        Ok(())
    }

    /// The tasks that threads of a task fork.
    fn forks_of(&self, place: usize) -> Result<Vec<usize>, Error> {
        let members = self.tasks[place].phases.iter().flat_map(|phase| &phase.members);
        let forks = members.filter(|member| member.key.starts_with("fork"));
        forks.map(|member| self.target(*member)).collect()
    }

    /// What each thread is to have.
    fn reserve(&mut self) -> Result<(), Error> {
        let users = period::users(&self.scripts);
        for thread in 0..self.scripts.threads.len() {
            let task = &self.tasks[self.task_of[thread]];
            let asked = task.policy()? == DEADLINE;
            let own = if asked {
                let draft = task.thread.reservation(&Default::default(), None, &mut self.asides)?;
                Some(draft.task(self.source, thread as u32)?.reservation)
            } else {
                task.thread.unreserved(&mut self.asides);
                Period::of(&self.scripts.threads[thread], &users).map(|it| it.reservation())
            };
            self.asked.push(asked);
            self.reservations.push(own.filter(|own| own.period <= LONGEST));
        }
        Ok(())
    }

    /// Notes what threads wait for and nothing wakes.
    fn unwoken(&mut self) {
        let Scripts { threads, conditions, semaphores, .. } = &self.scripts;
        let (mut woken, mut posted) = (BTreeSet::new(), BTreeSet::new());
        for step in threads.iter().flat_map(Script::steps) {
            if let Step::Signal(at) | Step::Broadcast(at) = step {
                woken.insert(*at);
            } else if let Step::Post(at) = step {
                posted.insert(*at);
            }
        }
        for (script, task) in threads.iter().zip(&self.task_of) {
            for step in script.steps() {
                let (what, wakes) = if let Step::Wait { condition: at, .. } = step {
                    (&conditions[*at as usize], woken.contains(at))
                } else if let Step::Take(at) = step {
                    (&semaphores[*at as usize], posted.contains(at))
                } else {
                    continue;
                };
                if wakes {
                    continue;
                }
                let what = format!("it waits for `{what}`, and no thread ever wakes it");
                self.asides.of(&what, self.tasks[*task].name());
            }
        }
    }

    /// Notes where a thread gives a lock back, or waits with one, that it has not taken before.
    fn unlocked(&mut self) {
        let locks = &self.scripts.locks;
        for (script, task) in self.scripts.threads.iter().zip(&self.task_of) {
            let mut held = BTreeSet::new();
            for step in script.steps() {
                let (lock, what, missing) = if let Step::Unlock(lock) = step {
                    (lock, "`unlock` without `lock` does nothing", !held.remove(lock))
                } else if let Step::Wait { lock: Some(lock), .. } = step {
                    (lock, "`wait` without `lock` takes it after the wake", held.insert(*lock))
                } else {
                    if let Step::Lock(lock) = step {
                        held.insert(*lock);
                    }
                    continue;
                };
                if missing {
                    let what = format!(
                        "{what}, here of `{}`; rt-app's is undefined",
                        locks[*lock as usize]
                    );
                    self.asides.of(&what, self.tasks[*task].name());
                }
            }
        }
    }
}
