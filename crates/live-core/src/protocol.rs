//! The protocol of runtime, guardian and `clean` as a small state machine, to be searched whole.
//!
//! What can go wrong here goes wrong between two system calls, so the model's steps are system
//! calls, in the order of [`Protocol::REAL`]. The repair itself is driven by that very order (the
//! room `live`, `crates/live/src/guardian/restore.rs`). Runtime and guardian may die before any
//! step; programs may fork, and end, before any step, and the freeze thread, a thread of its own,
//! may freeze or thaw a group before any step of anything but that VCPU's end. Another order is
//! another [`Protocol`]: the tests show that wrong ones are found.
//!
//! # What is checked
//! 1. *Quiet end*: where nothing more must happen, no thread has real-time priority, no group is
//!    frozen, no group and no registration is left, no started program lives, and every client runs
//!    on outside. `clean` must run only after a guardian died; it may run at any time.
//! 2. *Repair ends*: once the runtime is dead no sequence of steps goes round in a circle.

use std::ops::{Deref, DerefMut};

/// The most VCPUs that a search takes; three show every way in which they can be interleaved on
/// two cores with one at rest.
const VCPUS: usize = 3;

/// One act on one VCPU: a system call or, for [`Step::Shift`], a few of no consequence here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Makes the VCPU's control group.
    MakeGroup,
    /// Starts a program, born inside the group with `SCHED_OTHER`.
    Spawn,
    /// Moves a client's thread into the group (where it came from is written down before).
    MoveIn,
    /// Gives the VCPU's thread its `SCHED_FIFO` priority.
    Raise,
    /// Takes the thread back to `SCHED_OTHER`.
    Demote,
    /// Freezes the group.
    Freeze,
    /// Thaws the group.
    Thaw,
    /// Changes the thread's core.
    Shift,
    /// Kills whatever is in the group (`cgroup.kill`: forks under way included).
    Kill,
    /// Moves whatever is in the group back where it came from.
    MoveBack,
    /// Removes the group; waits while it is not empty.
    RemoveGroup,
}

/// What the runtime does to a VCPU, as a sequence of steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// The VCPU comes to be.
    Enrol,
    /// Background or waiting to foreground.
    Promote,
    /// Foreground to background.
    Demote,
    /// Foreground to waiting, frozen.
    Park,
    /// To another core.
    Migrate,
    /// The VCPU ends, or is asked to.
    Stop,
}

/// The stations of a repair, each over all groups of the run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Repair {
    /// Takes every thread back to `SCHED_OTHER`.
    Demote,
    /// Thaws every group.
    Thaw,
    /// Freezes the groups: of a core whose agent is stuck, never in a repair.
    Freeze,
    /// Kills what the run started.
    Kill,
    /// Moves clients back where they came from.
    MoveBack,
    /// Removes the empty groups; where one is not empty the repair begins anew.
    RemoveGroups,
    /// Removes what shows others the run: its tree, its socket, its state file.
    Forget,
}

/// The end of an orderly run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Close {
    /// Stops every VCPU.
    StopAll,
    /// As [`Repair::Forget`].
    Forget,
    /// Informs the guardian that all is done; it leaves.
    Goodbye,
}

/// Whose thread runs on a VCPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Member {
    /// A program that the run started; it ends with the run.
    Program,
    /// A thread that asked over the socket; it outlives the run.
    Client,
}

/// The order of all steps.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// [`Operation::Enrol`] of a program.
    pub enrol_program: &'static [Step],
    /// [`Operation::Enrol`] of a client.
    pub enrol_client: &'static [Step],
    /// [`Operation::Promote`].
    pub promote: &'static [Step],
    /// [`Operation::Park`].
    pub park: &'static [Step],
    /// [`Operation::Migrate`].
    pub migrate: &'static [Step],
    /// [`Operation::Stop`] of a program.
    pub stop_program: &'static [Step],
    /// [`Operation::Stop`] of a client.
    pub stop_client: &'static [Step],
    /// What guardian and `clean` do.
    pub repair: &'static [Repair],
    /// The end of an orderly run.
    pub close: &'static [Close],
    /// Whether children of a raised thread start as `SCHED_OTHER` (`SCHED_RESET_ON_FORK`).
    pub reset_on_fork: bool,
    /// Whether [`Repair::Demote`] reads the list of threads again until it finds none raised and
    /// none gone (which may have borne a raised child since: found by this search).
    pub demote_until_quiet: bool,
}

impl Protocol {
    /// The order that the code takes.
    pub const REAL: Self = Self {
        enrol_program: &[Step::MakeGroup, Step::Spawn],
        enrol_client: &[Step::MakeGroup, Step::MoveIn],
        promote: &[Step::Raise, Step::Thaw],
        park: &[Step::Demote, Step::Freeze],
        migrate: &[Step::Demote, Step::Shift, Step::Raise],
        stop_program: &[Step::Demote, Step::Thaw, Step::Kill, Step::RemoveGroup],
        stop_client: &[Step::Demote, Step::Thaw, Step::MoveBack, Step::RemoveGroup],
        repair: &[
            Repair::Demote,
            Repair::Thaw,
            Repair::Kill,
            Repair::MoveBack,
            Repair::RemoveGroups,
            Repair::Forget,
        ],
        close: &[Close::StopAll, Close::Forget, Close::Goodbye],
        reset_on_fork: true,
        demote_until_quiet: true,
    };

    /// What the guardian does to the VCPUs of a core whose agent is stuck. That may be any of them
    /// at any time, and the agent may go on in the midst of it; where it does not, the guardian
    /// lets the runtime end or kills it, which it may do by itself at any time anyway.
    pub const RELIEF: &'static [Repair] = &[Repair::Demote, Repair::Freeze];

    /// What it does to all VCPUs of a runtime that is being killed.
    pub const LAST_RELIEF: &'static [Repair] = &[Repair::Demote, Repair::Thaw];

    const fn steps(&self, operation: Operation, member: Member) -> &'static [Step] {
        match (operation, member) {
            (Operation::Enrol, Member::Program) => self.enrol_program,
            (Operation::Enrol, Member::Client) => self.enrol_client,
            (Operation::Promote, _) => self.promote,
            (Operation::Demote, _) => &[Step::Demote],
            (Operation::Park, _) => self.park,
            (Operation::Migrate, _) => self.migrate,
            (Operation::Stop, Member::Program) => self.stop_program,
            (Operation::Stop, Member::Client) => self.stop_client,
        }
    }
}

/// Where a thread is, and whether it has real-time priority there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Thread {
    /// Not yet born.
    Unborn,
    Outside {
        raised: bool,
    },
    Inside {
        raised: bool,
    },
    /// Ended or killed.
    Gone,
}

impl Thread {
    const fn inside(self) -> bool {
        matches!(self, Self::Inside { .. })
    }
    const fn raised(self) -> bool {
        matches!(self, Self::Inside { raised: true } | Self::Outside { raised: true })
    }
    const fn set(&mut self, to: bool) {
        if let Self::Inside { raised } | Self::Outside { raised } = self {
            *raised = to;
        }
    }
}

/// One VCPU: its group, its thread, one child that the thread may fork.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Vcpu {
    member: Member,
    /// What the runtime is at, and which step is next.
    doing: Option<(Operation, u8)>,
    enrolled: bool,
    stopped: bool,
    group: bool,
    frozen: bool,
    threads: [Thread; 2],
}

/// Which side cleans up: the guardian or `clean`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Repairer {
    Idle,
    /// At a station and a VCPU there, with the list of threads that it read and has not gone
    /// through yet.
    At {
        station: u8,
        vcpu: u8,
        list: Option<[bool; 2]>,
        again: bool,
        /// Whose core it relieves, if this is no repair.
        relief: Option<Relief>,
    },
    Dead,
    Left,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Runtime {
    Alive,
    /// Next step of the orderly end.
    Closing(u8),
    Dead,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct State {
    vcpus: Vcpus,
    runtime: Runtime,
    guardian: Repairer,
    clean: Repairer,
    registered: bool,
    /// How many guardians may still die.
    guardians: u8,
    /// How many runs of `clean` may still die.
    cleans: u8,
}

/// The VCPUs of a state, in place: a search copies states by the million.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Vcpus {
    slots: [Vcpu; VCPUS],
    used: u8,
}

impl Deref for Vcpus {
    type Target = [Vcpu];
    fn deref(&self) -> &[Vcpu] {
        &self.slots[..usize::from(self.used)]
    }
}

impl DerefMut for Vcpus {
    fn deref_mut(&mut self) -> &mut [Vcpu] {
        &mut self.slots[..usize::from(self.used)]
    }
}

/// What the search found.
#[derive(Debug)]
pub struct Found {
    /// States that can be reached.
    pub states: usize,
    /// The shortest way to a state that breaks the promise, step by step, and what it breaks.
    pub counterexample: Option<(Vec<String>, String)>,
}

/// How far the search goes.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The VCPUs.
    pub members: Vec<Member>,
    /// How many operations may be under way at once: one per core.
    pub cores: usize,
    /// Whether the guardian may find agents stuck while the runtime lives.
    pub hangs: bool,
    /// Whether `clean` may be run beside a guardian that is alive.
    pub rivals: bool,
    /// How many guardians may die, one after another.
    pub guardians: u8,
    /// How many runs of `clean` may die before one comes through.
    pub cleans: u8,
}

/// Searches every state that can be reached, in breadth.
pub fn search(protocol: &Protocol, scope: &Scope) -> Found {
    let start = State::start(scope);
    let mut known = Known::new();
    known.number(&start, 0);
    let mut states = vec![(start, 0usize, Label::RuntimeDies)];
    let mut arrows: Vec<(usize, usize)> = Vec::new();
    let mut next = 0;
    while next < states.len() {
        let state = states[next].0;
        let moves = Moves::of(protocol, scope, &state);
        if !moves.must
            && let Some(broken) = state.broken()
        {
            let path = path_to(&states, next);
            return Found { states: states.len(), counterexample: Some((path, broken)) };
        }
        for (label, successor) in moves.list {
            let dead = state.runtime == Runtime::Dead;
            let (number, is_new) = known.number(&successor, states.len());
            if is_new {
                states.push((successor, next, label));
            }
            if dead {
                arrows.push((next, number));
            }
        }
        next += 1;
    }
    let counterexample = circle(states.len(), &arrows)
        .map(|at| (path_to(&states, at), "repair goes on for ever".into()));
    Found { states: states.len(), counterexample }
}

fn path_to(states: &[(State, usize, Label)], mut at: usize) -> Vec<String> {
    let mut path = Vec::new();
    while at != 0 {
        path.push(states[at].2.to_string());
        at = states[at].1;
    }
    path.reverse();
    path
}

/// A state that lies on or behind a circle of `arrows` (Kahn, 1962), if there is one.
fn circle(states: usize, arrows: &[(usize, usize)]) -> Option<usize> {
    let mut incoming = vec![0usize; states];
    let mut outgoing = vec![Vec::new(); states];
    for (from, to) in arrows {
        incoming[*to] += 1;
        outgoing[*from].push(*to);
    }
    let mut free: Vec<usize> = (0..states).filter(|state| incoming[*state] == 0).collect();
    while let Some(state) = free.pop() {
        for to in &outgoing[state] {
            incoming[*to] -= 1;
            if incoming[*to] == 0 {
                free.push(*to);
            }
        }
    }
    incoming.iter().position(|count| *count > 0)
}

/// What a guardian does to a run that lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Relief {
    /// [`Protocol::RELIEF`] of the one VCPU of a stuck core.
    Core,
    /// [`Protocol::LAST_RELIEF`] of all.
    All,
}

impl Repairer {
    const fn begun() -> Self {
        Self::At { station: 0, vcpu: 0, list: None, again: false, relief: None }
    }
    const fn relieves(relief: Relief, vcpu: u8) -> Self {
        Self::At { station: 0, vcpu, list: None, again: false, relief: Some(relief) }
    }
}

impl State {
    fn start(scope: &Scope) -> Self {
        let vcpu = |member: Member| Vcpu {
            member,
            doing: None,
            enrolled: false,
            stopped: false,
            group: false,
            frozen: false,
            threads: match member {
                Member::Program => [Thread::Unborn; 2],
                Member::Client => [Thread::Outside { raised: false }, Thread::Unborn],
            },
        };
        let mut slots = [vcpu(Member::Program); VCPUS];
        for (slot, member) in slots.iter_mut().zip(&scope.members) {
            *slot = vcpu(*member);
        }
        Self {
            vcpus: Vcpus { slots, used: scope.members.len().min(VCPUS) as u8 },
            runtime: Runtime::Alive,
            guardian: Repairer::Idle,
            clean: Repairer::Idle,
            // The guardian stands first; then the run's tree is made, before any VCPU.
            registered: true,
            guardians: scope.guardians,
            cleans: scope.cleans,
        }
    }

    /// Which promise the state breaks, given that nothing more must happen.
    fn broken(&self) -> Option<String> {
        for (index, vcpu) in self.vcpus.iter().enumerate() {
            let member = vcpu.member;
            let say = |what: &str| Some(format!("{what} of vcpu{index} ({member:?})"));
            if vcpu.threads.iter().any(|thread| thread.raised()) {
                return say("a thread at real-time priority");
            }
            if vcpu.frozen {
                return say("the frozen group");
            }
            if vcpu.group {
                return say("the group");
            }
            let outside = |thread: &&Thread| matches!(thread, Thread::Outside { .. });
            if member == Member::Program && vcpu.threads.iter().any(|t| outside(&t)) {
                return say("a program outside");
            }
        }
        self.registered.then(|| "the registration of the run".to_string())
    }
}

mod known;
mod moves;
use known::Known;
use moves::{Label, Moves};
