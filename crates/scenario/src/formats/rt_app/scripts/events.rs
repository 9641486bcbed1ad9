//! The events of rt-app as steps.

use super::Reader;
use crate::error::{Error, did_you_mean, quoted};
use crate::formats::json::Member;
use crate::formats::rt_app::{micros, unknown};
use maracas_core::Duration;
use maracas_core::script::{Barrier, Step, Timer};

/// Bytes a nanosecond that a core writes or reads: 10 GB/s, about one core's share of a channel of
/// DDR4-2400 (JEDEC JESD79-4: 19.2 GB/s).
const MEMORY: u64 = 10;
/// Bytes a nanosecond that a core writes to a device: 1 GB/s.
const DEVICE: u64 = 1;
/// One step of a chase through memory: its latency, about 100 ns.
const CHASE: Duration = Duration::from_nanos(100);

impl Reader<'_, '_> {
    /// What an event of a thread of a task does; nothing where it is left aside.
    pub(super) fn steps(
        &mut self,
        place: usize,
        thread: u32,
        member: Member<'_>,
    ) -> Result<Vec<Step>, Error> {
        let task = self.tasks[place].name();
        // As rt-app compares: by how keys begin, in this order.
        let is = |word: &str| member.key.starts_with(word);
        let step = if is("run") {
            Step::Run(micros(member, "run")?.time)
        } else if is("sleep") {
            Step::Sleep(micros(member, "sleep")?.time)
        } else if is("memrun") {
            Step::Run(self.memory_run(task, member)?)
        } else if is("mem") || is("iorun") {
            let speed = if is("mem") { MEMORY } else { DEVICE };
            let what = format!("`{}` takes a nanosecond for {speed} bytes", word(member));
            self.asides.of(&what, task);
            Step::Run(Duration::from_nanos(bytes(member)?.div_ceil(speed)))
        } else if is("lock") || is("unlock") {
            let lock = place_of(&mut self.scripts.locks, member.value.text(member.key)?);
            if is("lock") { Step::Lock(lock) } else { Step::Unlock(lock) }
        } else if is("signal") || is("broad") || is("resume") {
            let of = place_of(&mut self.scripts.conditions, member.value.text(member.key)?);
            if is("signal") { Step::Signal(of) } else { Step::Broadcast(of) }
        } else if is("wait") || is("sync") {
            let (condition, lock) = self.condition(member)?;
            let wait = Step::Wait { condition, lock: Some(lock) };
            if is("sync") {
                return Ok(vec![Step::Signal(condition), wait]);
            }
            wait
        } else if is("barrier") {
            Step::Barrier(self.barrier(member)?)
        } else if is("timer") {
            self.timer(thread, member)?
        } else if is("suspend") {
            let named = member.value.text(member.key).unwrap_or_default();
            let other = named != task && self.resumed.contains(named);
            if other {
                let what = "`suspend` waits for a `resume` of the name that stands there, as in \
                            rt-app until May 2025; since then rt-app waits for one of its own name";
                self.asides.of(what, task);
            }
            let name = if other { named } else { task };
            let condition = place_of(&mut self.scripts.conditions, name);
            Step::Wait { condition, lock: None }
        } else if is("yield") {
            self.asides.of("`yield` is left aside", task);
            return Ok(Vec::new());
        } else if is("fork") {
            Step::Fork(vec![self.target(member)? as u32])
        } else {
            let of = place_of(&mut self.scripts.semaphores, member.value.text(member.key)?);
            if is("sem_post") { Step::Post(of) } else { Step::Take(of) }
        };
        Ok(vec![step])
    }

    /// The place of the task that a fork names.
    pub(super) fn target(&self, member: Member<'_>) -> Result<usize, Error> {
        let name = member.value.text(member.key)?;
        self.places.get(name).copied().ok_or_else(|| {
            let names: Vec<&str> = self.tasks.iter().map(|task| task.name()).collect();
            let hint = did_you_mean(name, names, "tasks");
            member.value.error(format!("there is no task {} to fork; {hint}", quoted(name)))
        })
    }

    /// A condition, and the lock beside it.
    fn condition(&mut self, member: Member<'_>) -> Result<(u32, u32), Error> {
        // The names that rt-app gives to what has none.
        let (mut condition, mut lock) = ("unknown", "unknown");
        for entry in member.value.members(member.key)? {
            match entry.key {
                "ref" => condition = entry.value.text("ref")?,
                "mutex" => lock = entry.value.text("mutex")?,
                _ => return Err(unknown(entry, &["ref", "mutex"], self.source)),
            }
        }
        let condition = place_of(&mut self.scripts.conditions, condition);
        Ok((condition, place_of(&mut self.scripts.locks, lock)))
    }

    /// A barrier. As in rt-app, it counts how often tasks name it, times their instances.
    fn barrier(&mut self, member: Member<'_>) -> Result<u32, Error> {
        let name = member.value.text(member.key)?;
        let known = self.scripts.barriers.iter().position(|barrier| barrier.name == name);
        let at = known.unwrap_or_else(|| {
            self.scripts.barriers.push(Barrier { name: name.into(), threads: 0 });
            self.scripts.barriers.len() - 1
        });
        // Read once for each instance; those of forked threads do not count.
        self.scripts.barriers[at].threads += u32::from(!self.forking);
        Ok(at as u32)
    }

    fn timer(&mut self, thread: u32, member: Member<'_>) -> Result<Step, Error> {
        let (mut name, mut period, mut absolute) = ("unknown", None, false);
        for entry in member.value.members(member.key)? {
            match entry.key {
                "ref" => name = entry.value.text("ref")?,
                "period" => period = Some(micros(entry, "period")?.time),
                "mode" => absolute = super::phases::is_absolute(entry)?,
                _ => return Err(unknown(entry, &["ref", "period", "mode"], self.source)),
            }
        }
        let missing = || member.value.error("this timer has no `period`; add \"period\": 10000");
        let period = period.ok_or_else(missing)?;
        let own = name.starts_with("unique").then_some(thread);
        let timers = &mut self.scripts.timers;
        let timer = *self.timers.entry((name.into(), own)).or_insert(timers.len() as u32);
        if timer as usize == timers.len() {
            timers.push(Timer { absolute, own });
        }
        timers[timer as usize].absolute |= absolute;
        Ok(Step::Timer { timer, period })
    }

    fn memory_run(&mut self, task: &str, member: Member<'_>) -> Result<Duration, Error> {
        const KEYS: [&str; 6] = ["type", "size", "count", "ref", "pattern", "stride"];
        let (mut chases, mut count) = (false, None);
        for entry in member.value.members(member.key)? {
            match entry.key {
                "type" => {
                    const TYPES: [&str; 3] = ["chase", "read", "write"];
                    let word = entry.value.text("type")?;
                    if !TYPES.contains(&word) {
                        let hint = did_you_mean(word, TYPES, "types");
                        let word = quoted(word);
                        return Err(entry.value.error(format!("unknown type {word}; {hint}")));
                    }
                    chases = word == "chase";
                }
                "count" => count = Some(bytes(entry)?),
                known if KEYS.contains(&known) => {}
                _ => return Err(unknown(entry, &KEYS, self.source)),
            }
        }
        let missing = || member.value.error("this has no `count`; add \"count\": 100000");
        let count = count.ok_or_else(missing)?;
        let what = format!(
            "`memrun` takes a nanosecond for {MEMORY} bytes, and {CHASE} for a step of a chase"
        );
        self.asides.of(&what, task);
        let ns = if chases { count * CHASE.ticks() } else { count.div_ceil(MEMORY) };
        Ok(Duration::from_nanos(ns))
    }
}

/// The place of `name`, which is added where it is new.
fn place_of(names: &mut Vec<String>, name: &str) -> u32 {
    let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.into());
        names.len() - 1
    });
    place as u32
}

/// A number of bytes, which rt-app keeps in 32 bits with a sign.
fn bytes(member: Member<'_>) -> Result<u64, Error> {
    let number = member.value.whole(member.key, " of bytes")?;
    let fits = u64::try_from(number).ok().filter(|bytes| *bytes <= i32::MAX as u64);
    fits.ok_or_else(|| {
        let key = word(member);
        member.value.error(format!("{key} {number} must be from 0 to {}; mend it", i32::MAX))
    })
}

fn word(member: Member<'_>) -> &str {
    member.key.trim_end_matches(|c: char| c.is_ascii_digit())
}
