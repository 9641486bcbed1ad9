//! What a journal says beside the policy's events.
//!
//! In the journal a note is a key, the VCPU that it is about, and a text: a sentence, or numbers
//! with a blank between them, the first the core. Both directions stand here and nowhere else. A
//! note of another key or form, as other versions may write it, is read as [`Note::Other`].

use crate::control::StatisticGauge;
use crate::wire::{Wire, put_text};
use crate::{Buckets, CoreId, MAX_CORES, VcpuId};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Something for readers of the journal that no policy sees. Times are nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The name of a VCPU that arrives.
    Name {
        /// Of which.
        vcpu: VcpuId,
        /// What it is called.
        name: String,
    },
    /// What it ran on, in a sentence.
    Host(String),
    /// Under whose rights the programs run, in a sentence.
    Users(String),
    /// What the control groups cannot do here, in a sentence.
    Groups(String),
    /// What answers the policy's samples: its word, a colon and what it is.
    Sensor(String),
    /// What of memory or colours could not be sensed or done, in a sentence.
    Sense {
        /// The VCPU concerned; `None` = all.
        vcpu: Option<VcpuId>,
        /// The sentence.
        text: String,
    },
    /// By what progress is counted, or what is to be said of a VCPU's.
    Progress {
        /// The VCPU concerned; `None` = all.
        vcpu: Option<VcpuId>,
        /// The sentence.
        text: String,
    },
    /// A core that is slowed down on purpose, in a sentence.
    Emulated(String),
    /// What a wake of an agent costs, at the begin and when it was measured again.
    WakeCost {
        /// The median.
        p50_ns: u64,
        /// The 99th percentile.
        p99_ns: u64,
    },
    /// An alarm was enforced late.
    Late {
        /// Where.
        core: CoreId,
        /// Whose budget ended, where one did.
        vcpu: Option<VcpuId>,
        /// How late.
        late_ns: u64,
        /// How much of that the hypervisor took.
        stolen_ns: u64,
    },
    /// How late the alarms of a core were, at the end of the run.
    Enforced {
        /// Where.
        core: CoreId,
        /// How many there were.
        count: u64,
        /// How late the latest was.
        longest_ns: u64,
        /// How late they were, in microseconds: how many by less than 1, and by `[2^(i-1), 2^i)`
        /// for i from 1 on.
        lateness: Buckets<0>,
    },
    /// What the hypervisor took of a core, at the end of the run.
    Steal {
        /// Of which.
        core: CoreId,
        /// How much.
        stolen_ns: u64,
    },
    /// The VCPUs of a core whose agent was stuck were stopped for it.
    Relief {
        /// Which.
        core: CoreId,
        /// By which side.
        by: Reliever,
        /// For how long the agent had been stuck.
        stuck_ns: u64,
    },
    /// The kernel kept all real-time threads off a core: its fair server, or its throttling.
    KeptOff {
        /// Which.
        core: CoreId,
        /// For how long.
        took_ns: u64,
    },
    /// A core lost its surplus time.
    Throttled {
        /// Which.
        core: CoreId,
        /// What ran there then.
        vcpu: Option<VcpuId>,
        /// From the decision until no background thread could run an instruction there.
        took_ns: u64,
        /// From the decision until the last switch-out, where switches are seen.
        last_out_ns: Option<u64>,
    },
    /// A core closed since its memory allowance was spent.
    Closed {
        /// Which.
        core: CoreId,
        /// What ran there last.
        vcpu: Option<VcpuId>,
        /// How many reads beyond the limit its meter was when it stood still.
        beyond: u64,
        /// From the limit until then.
        took_ns: u64,
    },
    /// A VCPU was dispatched.
    Dispatch {
        /// Where.
        core: CoreId,
        /// Which.
        vcpu: Option<VcpuId>,
        /// From its cause to its first instruction.
        latency_ns: u64,
        /// The first instruction was seen; else it was measured until everything had been set.
        seen: bool,
    },
    /// What the programs of a VCPU did to have their memory in other colours, or why they did not.
    Recolored {
        /// Which.
        vcpu: VcpuId,
        /// What, or why not.
        what: Result<Recolored, String>,
    },
    /// What the agents took of all cores together, at the end of the run.
    Agents {
        /// How much.
        took_ns: u64,
    },
    /// One of the policy's own figures, at the end of the run.
    Statistic(StatisticGauge),
    /// What the simulated memory controller counted in the whole run, as the report's JSON.
    Memory(String),
    /// Periods that stolen time spoiled are judged like all others. It stands before all events.
    Strict,
    /// How the run went as a whole, which only the command that started it knows, as JSON: how long
    /// it took, how its programs ended. It stands at the end.
    Run(String),
    /// The journal had no end, and has one only in the memory of its reader ([`super::mend`]).
    Cut {
        /// The byte behind its last whole record.
        offset: u64,
        /// How many bytes behind that, of a record that is not whole, were left out.
        left_out: u64,
    },
    /// A note of another key, or of another form than we know for its key.
    Other {
        /// What kind.
        key: String,
        /// The VCPU concerned, where it is about one.
        vcpu: Option<VcpuId>,
        /// The text.
        text: String,
    },
}

/// Which side stops the VCPUs of a core whose agent is stuck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reliever {
    /// Another core's agent.
    Neighbour,
    /// The process beside the run.
    Guardian,
}

/// What programs did to have their memory in other colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recolored {
    /// Pages that were put into other frames.
    pub pages: u64,
    /// The processor time of that.
    pub took_ns: u64,
    /// Pages that stayed in frames of other colours.
    pub left: u64,
    /// Why it ended early: the number of an error of the system; `None` = it did not.
    pub error: Option<u32>,
}

impl Reliever {
    const ALL: [Self; 2] = [Self::Neighbour, Self::Guardian];

    /// The word in journals and reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Neighbour => "neighbour",
            Self::Guardian => "guardian",
        }
    }
}

/// The words of a text, one after the other.
struct Words<'a>(core::str::Split<'a, char>);

impl Words<'_> {
    fn number(&mut self) -> Option<u64> {
        self.0.next()?.parse().ok()
    }
    fn core(&mut self) -> Option<CoreId> {
        let core = self.0.next()?.parse().ok()?;
        (usize::from(core) < MAX_CORES).then_some(CoreId(core))
    }
}

impl Note {
    /// What a note with this key and text says.
    pub fn read(key: String, vcpu: Option<VcpuId>, text: String) -> Self {
        let plain = match key.as_str() {
            "host" => Self::Host,
            "users" => Self::Users,
            "groups" => Self::Groups,
            "sensor" => Self::Sensor,
            "emulated" => Self::Emulated,
            "memory" => Self::Memory,
            "run" => Self::Run,
            "strict" if text.is_empty() => return Self::Strict,
            "sense" => return Self::Sense { vcpu, text },
            "progress" => return Self::Progress { vcpu, text },
            _ => {
                let known = match vcpu {
                    Some(vcpu) if key == "name" => return Self::Name { vcpu, name: text },
                    Some(vcpu) if key == "recolored" => Some(recolored(vcpu, &text)),
                    _ if key == "figure" => statistic(vcpu, &text),
                    _ => numbers(&key, vcpu, &text),
                };
                return known.unwrap_or(Self::Other { key, vcpu, text });
            }
        };
        plain(text)
    }

    /// Its key.
    pub fn key(&self) -> &str {
        match self {
            Self::Name { .. } => "name",
            Self::Host(_) => "host",
            Self::Users(_) => "users",
            Self::Groups(_) => "groups",
            Self::Sensor(_) => "sensor",
            Self::Sense { .. } => "sense",
            Self::Progress { .. } => "progress",
            Self::Emulated(_) => "emulated",
            Self::WakeCost { .. } => "wake-cost",
            Self::Late { .. } => "late",
            Self::Enforced { .. } => "enforced",
            Self::Steal { .. } => "steal",
            Self::Relief { .. } => "relief",
            Self::KeptOff { .. } => "rt-throttle",
            Self::Throttled { .. } => "throttled",
            Self::Closed { .. } => "closed",
            Self::Dispatch { .. } => "dispatch",
            Self::Recolored { .. } => "recolored",
            Self::Agents { .. } => "agents",
            Self::Statistic(_) => "figure",
            Self::Memory(_) => "memory",
            Self::Strict => "strict",
            Self::Run(_) => "run",
            Self::Cut { .. } => "cut",
            Self::Other { key, .. } => key,
        }
    }

    /// The VCPU that it is about, where it is about one.
    pub const fn vcpu(&self) -> Option<VcpuId> {
        match self {
            Self::Name { vcpu, .. } | Self::Recolored { vcpu, .. } => Some(*vcpu),
            Self::Sense { vcpu, .. }
            | Self::Progress { vcpu, .. }
            | Self::Late { vcpu, .. }
            | Self::Throttled { vcpu, .. }
            | Self::Closed { vcpu, .. }
            | Self::Dispatch { vcpu, .. }
            | Self::Statistic(StatisticGauge { vcpu, .. })
            | Self::Other { vcpu, .. } => *vcpu,
            Self::Host(_)
            | Self::Users(_)
            | Self::Groups(_)
            | Self::Sensor(_)
            | Self::Emulated(_)
            | Self::WakeCost { .. }
            | Self::Enforced { .. }
            | Self::Steal { .. }
            | Self::Relief { .. }
            | Self::KeptOff { .. }
            | Self::Agents { .. }
            | Self::Memory(_)
            | Self::Strict
            | Self::Run(_)
            | Self::Cut { .. } => None,
        }
    }

    /// Its text.
    pub fn text(&self) -> String {
        match self {
            Self::Name { name: text, .. }
            | Self::Host(text)
            | Self::Users(text)
            | Self::Groups(text)
            | Self::Sensor(text)
            | Self::Emulated(text)
            | Self::Memory(text)
            | Self::Run(text)
            | Self::Sense { text, .. }
            | Self::Progress { text, .. }
            | Self::Other { text, .. }
            | Self::Recolored { what: Err(text), .. } => text.clone(),
            Self::Recolored { what: Ok(Recolored { pages, took_ns, left, error }), .. } => {
                format!("{pages} {took_ns} {left} {}", error.unwrap_or(0))
            }
            Self::Statistic(StatisticGauge { name, core, value, .. }) => {
                let core = core.map_or("-".into(), |core| core.0.to_string());
                format!("{name} {core} {value}")
            }
            Self::WakeCost { p50_ns, p99_ns } => joined(&[*p50_ns, *p99_ns]),
            Self::Late { core, late_ns, stolen_ns, .. } => {
                joined(&[core.0.into(), *late_ns, *stolen_ns])
            }
            Self::Enforced { core, count, longest_ns, lateness } => {
                let first = [core.0.into(), *count, *longest_ns];
                let all: Vec<u64> = first.iter().chain(lateness.counts()).copied().collect();
                joined(&all)
            }
            Self::Steal { core, stolen_ns } => joined(&[core.0.into(), *stolen_ns]),
            Self::Relief { core, by, stuck_ns } => format!("{} {} {stuck_ns}", core.0, by.word()),
            Self::KeptOff { core, took_ns } => joined(&[core.0.into(), *took_ns]),
            Self::Throttled { core, took_ns, last_out_ns, .. } => {
                let all = [core.0.into(), *took_ns, last_out_ns.unwrap_or_default()];
                joined(if last_out_ns.is_some() { &all } else { &all[..2] })
            }
            Self::Closed { core, beyond, took_ns, .. } => {
                joined(&[core.0.into(), *beyond, *took_ns])
            }
            Self::Dispatch { core, latency_ns, seen, .. } => {
                let text = joined(&[core.0.into(), *latency_ns]);
                if *seen { text } else { text + " enacted" }
            }
            Self::Agents { took_ns } => took_ns.to_string(),
            Self::Cut { offset, left_out } => joined(&[*offset, *left_out]),
            Self::Strict => String::new(),
        }
    }
}

/// The most digits that a number has.
const DIGITS: usize = u64::MAX.ilog10() as usize + 1;

/// Numbers with a blank between them. An agent notes each dispatch, and `format!` takes longer for
/// that than all else that is written of one.
fn joined(numbers: &[u64]) -> String {
    let mut text = String::with_capacity(numbers.len() * (DIGITS + 1));
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            text.push(' ');
        }
        let (mut digits, mut first, mut rest) = ([b'0'; DIGITS], DIGITS, *number);
        while rest > 0 || first == DIGITS {
            first -= 1;
            digits[first] += (rest % 10) as u8;
            rest /= 10;
        }
        text.extend(digits[first..].iter().copied().map(char::from));
    }
    text
}

/// A note that is numbers; `None` where it is of another form.
fn numbers(key: &str, vcpu: Option<VcpuId>, text: &str) -> Option<Note> {
    let words = &mut Words(text.split(' '));
    Some(match key {
        "wake-cost" => Note::WakeCost { p50_ns: words.number()?, p99_ns: words.number()? },
        "cut" => Note::Cut { offset: words.number()?, left_out: words.number()? },
        "agents" => Note::Agents { took_ns: words.number()? },
        "late" => {
            let (core, late_ns, stolen_ns) = (words.core()?, words.number()?, words.number()?);
            Note::Late { core, vcpu, late_ns, stolen_ns }
        }
        "enforced" => {
            let (core, count, longest_ns) = (words.core()?, words.number()?, words.number()?);
            let rest = words.0.by_ref().map(|word| word.parse().ok());
            let lateness = Buckets::of(rest.collect::<Option<_>>()?);
            Note::Enforced { core, count, longest_ns, lateness }
        }
        "steal" => Note::Steal { core: words.core()?, stolen_ns: words.number()? },
        "relief" => {
            let (core, by) = (words.core()?, words.0.next()?);
            let by = Reliever::ALL.into_iter().find(|one| one.word() == by)?;
            Note::Relief { core, by, stuck_ns: words.number()? }
        }
        "rt-throttle" => Note::KeptOff { core: words.core()?, took_ns: words.number()? },
        "throttled" => {
            let (core, took_ns) = (words.core()?, words.number()?);
            Note::Throttled { core, vcpu, took_ns, last_out_ns: words.number() }
        }
        "closed" => {
            let (core, beyond, took_ns) = (words.core()?, words.number()?, words.number()?);
            Note::Closed { core, vcpu, beyond, took_ns }
        }
        "dispatch" => {
            let (core, latency_ns) = (words.core()?, words.number()?);
            Note::Dispatch { core, vcpu, latency_ns, seen: words.0.next() != Some("enacted") }
        }
        _ => return None,
    })
}

fn recolored(vcpu: VcpuId, text: &str) -> Note {
    let words = &mut Words(text.split(' '));
    let mut done = || {
        let (pages, took_ns, left) = (words.number()?, words.number()?, words.number()?);
        let error = u32::try_from(words.number()?).ok().filter(|error| *error != 0);
        Some(Recolored { pages, took_ns, left, error })
    };
    Note::Recolored { vcpu, what: done().ok_or_else(|| text.into()) }
}

fn statistic(vcpu: Option<VcpuId>, text: &str) -> Option<Note> {
    // The name comes first and may hold blanks.
    let mut words = text.rsplitn(3, ' ');
    let (value, core, name) = (words.next()?, words.next()?, words.next()?);
    let core = if core == "-" { None } else { Some(CoreId(core.parse().ok()?)) };
    let (name, value) = (name.into(), value.parse().ok()?);
    Some(Note::Statistic(StatisticGauge { name, core, vcpu, value }))
}

impl Wire for Note {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self.key(), out);
        self.vcpu().put(out);
        put_text(&self.text(), out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (key, vcpu, text) = (String::take(from)?, Wire::take(from)?, String::take(from)?);
        Some(Self::read(key, vcpu, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind of note, as journals have it.
    const WRITTEN: [(&str, Option<u32>, &str); 25] = [
        ("name", Some(3), "control"),
        ("host", None, "a board"),
        ("users", None, "all as root"),
        ("groups", None, "no cpuset"),
        ("sensor", None, "amd: data fabric"),
        ("sense", Some(1), "its pages have no colours"),
        ("progress", None, "instructions (PMU)"),
        ("emulated", None, "core0 runs programs 1/2 of the time"),
        ("wake-cost", None, "16000 40000"),
        ("late", Some(2), "1 3000 2000"),
        ("enforced", None, "1 7 9000 4 2 0 1"),
        ("steal", None, "1 2000"),
        ("relief", None, "1 neighbour 30"),
        ("rt-throttle", None, "0 50"),
        ("throttled", None, "0 1000 400"),
        ("throttled", Some(4), "0 1000"),
        ("closed", None, "0 512 7000"),
        ("dispatch", Some(0), "1 60000 enacted"),
        ("recolored", Some(0), "512 90000 3 1"),
        ("agents", None, "12345"),
        ("figure", Some(5), "speedup milli - 1750"),
        ("memory", None, "{\"requests\":1}"),
        ("strict", None, ""),
        ("run", None, "{\"lasted_ns\":1}"),
        ("cut", None, "172564 12"),
    ];

    fn read((key, vcpu, text): (&str, Option<u32>, &str)) -> Note {
        Note::read(key.into(), vcpu.map(VcpuId), text.into())
    }

    #[track_caller]
    fn same(note: &Note, (key, vcpu, text): (&str, Option<u32>, &str)) {
        let is = (note.key(), note.vcpu(), note.text());
        assert_eq!(is, (key, vcpu.map(VcpuId), text.to_string()));
    }

    #[test]
    fn every_note_is_read_as_what_it_says_and_written_as_it_was() {
        for written in WRITTEN {
            let note = read(written);
            assert!(!matches!(note, Note::Other { .. }), "{written:?}");
            same(&note, written);
            let mut bytes = Vec::new();
            note.put(&mut bytes);
            assert_eq!(Note::take(&mut bytes.as_slice()), Some(note));
        }
        let late = Note::Late { core: CoreId(1), vcpu: None, late_ns: 5, stolen_ns: 2 };
        assert_eq!(read(("late", None, "1 5 2")), late);
        let what = Ok(Recolored { pages: 1, took_ns: 2, left: 0, error: None });
        let done = Note::Recolored { vcpu: VcpuId(0), what };
        assert_eq!(read(("recolored", Some(0), "1 2 0 0")), done);
    }

    #[test]
    fn other_keys_and_forms_stay_what_they_are() {
        for written in [
            ("unheard", Some(1), "of"),
            ("name", None, "no VCPU's"),
            ("late", None, ""),
            ("late", None, "0 5"),
            ("late", None, "0 x 5"),
            ("late", None, "99999 5 5"),
            ("late", None, "2000 5 5"),
            ("enforced", None, "0 1 2 x"),
            ("relief", None, "0 guardian"),
            ("relief", None, "0 another 5"),
            ("steal", None, "0 -1"),
            ("rt-throttle", None, "0"),
            ("wake-cost", None, "1"),
            ("cut", None, "1"),
            ("dispatch", None, "x 5"),
            ("closed", None, "1 5"),
            ("figure", None, "moves 3"),
            ("strict", None, "of another form"),
        ] {
            let note = read(written);
            assert!(matches!(note, Note::Other { .. }), "{note:?}");
            same(&note, written);
        }
        let why = read(("recolored", Some(0), "refused: EPERM"));
        let what = Err("refused: EPERM".to_string());
        assert_eq!(why, Note::Recolored { vcpu: VcpuId(0), what });
    }
}
