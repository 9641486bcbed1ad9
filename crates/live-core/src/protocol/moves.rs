//! What can happen next in a state.

use super::{
    Close, Member, Operation, Protocol, Relief, Repair, Repairer, Runtime, Scope, State, Step,
    Thread, Vcpu,
};
use std::fmt;

/// What happens; numbers are those of VCPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    RuntimeDies,
    RuntimeCloses,
    RuntimeEnds,
    Closes(Close),
    Begins(usize, Operation),
    Does(usize, Operation, Step),
    NotEmpty(usize),
    Freeze(usize, bool),
    Forks(usize),
    ThreadEnds(usize),
    GuardianSees,
    Relieves(usize),
    RelievesAll,
    GuardianDies,
    GuardianRestarts,
    CleanBegins,
    CleanDies,
    Repairs(Who, Repair, usize),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RuntimeDies => f.write_str("the runtime dies"),
            Self::RuntimeCloses => f.write_str("the runtime begins to end"),
            Self::RuntimeEnds => f.write_str("the runtime ends"),
            Self::Closes(close) => write!(f, "the runtime, ending: {close:?}"),
            Self::Begins(vcpu, operation) => write!(f, "vcpu{vcpu}: {operation:?} begins"),
            Self::Does(vcpu, operation, step) => write!(f, "vcpu{vcpu}: {operation:?}: {step:?}"),
            Self::NotEmpty(vcpu) => write!(f, "vcpu{vcpu}: its group is not empty; again"),
            Self::Freeze(vcpu, true) => {
                write!(f, "vcpu{vcpu}: the freeze thread freezes it")
            }
            Self::Freeze(vcpu, false) => write!(f, "vcpu{vcpu}: the freeze thread thaws it"),
            Self::Forks(vcpu) => write!(f, "vcpu{vcpu}: its thread forks"),
            Self::ThreadEnds(vcpu) => write!(f, "vcpu{vcpu}: its thread ends"),
            Self::GuardianSees => f.write_str("the guardian sees the runtime dead"),
            Self::Relieves(vcpu) => write!(f, "the guardian finds vcpu{vcpu}'s agent stuck"),
            Self::RelievesAll => f.write_str("the guardian finds the runtime doomed"),
            Self::GuardianDies => f.write_str("the guardian dies"),
            Self::GuardianRestarts => f.write_str("the runtime starts another guardian"),
            Self::CleanBegins => f.write_str("clean begins"),
            Self::CleanDies => f.write_str("clean dies"),
            Self::Repairs(who, station, vcpu) => write!(f, "{who:?}: {station:?}: vcpu{vcpu}"),
        }
    }
}

/// Everything that can happen next.
pub(super) struct Moves {
    /// What happens, and the state after it.
    pub(super) list: Vec<(Label, State)>,
    /// Whether something must happen: someone is at work, or bound to begin.
    pub(super) must: bool,
}

impl Moves {
    pub(super) fn of(protocol: &Protocol, scope: &Scope, state: &State) -> Self {
        let mut moves = Self { list: Vec::with_capacity(24), must: false };
        if state.runtime != Runtime::Dead {
            moves.must = true;
            moves.runtime(protocol, scope, state);
        }
        moves.programs(protocol, state);
        moves.guardian(protocol, scope, state);
        moves.clean(protocol, scope, state);
        moves
    }

    fn add(&mut self, label: Label, state: &State, change: impl FnOnce(&mut State)) {
        let mut after = *state;
        change(&mut after);
        self.list.push((label, after));
    }

    fn runtime(&mut self, protocol: &Protocol, scope: &Scope, state: &State) {
        self.add(Label::RuntimeDies, state, State::die);
        let busy = state.vcpus.iter().filter(|vcpu| vcpu.doing.is_some()).count();
        for (index, vcpu) in state.vcpus.iter().enumerate() {
            let ending = vcpu.stopped || matches!(vcpu.doing, Some((Operation::Stop, _)));
            if vcpu.group && !ending {
                self.add(Label::Freeze(index, !vcpu.frozen), state, |after| {
                    after.vcpus[index].frozen = !vcpu.frozen;
                });
            }
            if let Some((operation, at)) = vcpu.doing {
                self.step(protocol, state, index, operation, at);
            } else if busy < scope.cores {
                for operation in choices(state, vcpu) {
                    let label = Label::Begins(index, operation);
                    self.add(label, state, |after| {
                        after.vcpus[index].doing = Some((operation, 0));
                    });
                }
            }
        }
        match state.runtime {
            Runtime::Alive => {
                self.add(Label::RuntimeCloses, state, |after| {
                    after.runtime = Runtime::Closing(0);
                });
                if state.guardian == Repairer::Dead {
                    self.add(Label::GuardianRestarts, state, |after| {
                        after.guardian = Repairer::Idle;
                    });
                }
            }
            Runtime::Closing(at) => self.close(protocol, state, at),
            Runtime::Dead => {}
        }
    }

    fn close(&mut self, protocol: &Protocol, state: &State, at: u8) {
        let Some(close) = protocol.close.get(usize::from(at)) else {
            return self.add(Label::RuntimeEnds, state, State::die);
        };
        let stopped = |vcpu: &Vcpu| vcpu.doing.is_none() && (vcpu.stopped || !vcpu.enrolled);
        if *close == Close::StopAll && !state.vcpus.iter().all(stopped) {
            return;
        }
        self.add(Label::Closes(*close), state, |after| {
            after.runtime = Runtime::Closing(at + 1);
            match close {
                Close::StopAll => {}
                Close::Forget => after.registered = false,
                Close::Goodbye if after.guardian == Repairer::Idle => {
                    after.guardian = Repairer::Left;
                }
                Close::Goodbye => {}
            }
        });
    }

    fn step(
        &mut self,
        protocol: &Protocol,
        state: &State,
        index: usize,
        operation: Operation,
        at: u8,
    ) {
        let steps = protocol.steps(operation, state.vcpus[index].member);
        let step = steps[usize::from(at)];
        if step == Step::RemoveGroup && state.vcpus[index].populated() {
            // A client forked between the move and now: what is in the group is moved again.
            return self.add(Label::NotEmpty(index), state, |after| {
                after.vcpus[index].doing = Some((operation, 0));
            });
        }
        self.add(Label::Does(index, operation, step), state, |after| {
            let vcpu = &mut after.vcpus[index];
            vcpu.act(step);
            let last = usize::from(at) + 1 == steps.len();
            vcpu.doing = (!last).then_some((operation, at + 1));
            vcpu.enrolled |= last && operation == Operation::Enrol;
            vcpu.stopped |= last && operation == Operation::Stop;
        });
    }

    /// Programs fork and end as they like, unless they are frozen.
    fn programs(&mut self, protocol: &Protocol, state: &State) {
        for (index, vcpu) in state.vcpus.iter().enumerate() {
            let [thread, child] = vcpu.threads;
            if !thread.inside() || vcpu.frozen {
                continue;
            }
            if child == Thread::Unborn {
                self.add(Label::Forks(index), state, |after| {
                    let raised = thread.raised() && !protocol.reset_on_fork;
                    after.vcpus[index].threads[1] = Thread::Inside { raised };
                });
            }
            self.add(Label::ThreadEnds(index), state, |after| {
                after.vcpus[index].threads[0] = Thread::Gone;
            });
        }
    }

    fn guardian(&mut self, protocol: &Protocol, scope: &Scope, state: &State) {
        match state.guardian {
            Repairer::Idle if state.runtime == Runtime::Dead => {
                self.must = true;
                self.add(Label::GuardianSees, state, |after| {
                    after.guardian = Repairer::begun();
                });
            }
            Repairer::Idle if scope.hangs => {
                for (index, vcpu) in state.vcpus.iter().enumerate() {
                    // What has no group is not found.
                    if vcpu.group {
                        self.add(Label::Relieves(index), state, |after| {
                            after.guardian = Repairer::relieves(Relief::Core, index as u8);
                        });
                    }
                }
                self.add(Label::RelievesAll, state, |after| {
                    after.guardian = Repairer::relieves(Relief::All, 0);
                });
            }
            Repairer::At { .. } => {
                self.must = true;
                let (label, after) = advance(protocol, state, Who::Guardian);
                self.list.push((label, after));
            }
            Repairer::Idle | Repairer::Dead | Repairer::Left => {}
        }
        let can_die = matches!(state.guardian, Repairer::Idle | Repairer::At { .. });
        if can_die && state.guardians > 0 {
            self.add(Label::GuardianDies, state, |after| {
                after.guardian = Repairer::Dead;
                after.guardians -= 1;
            });
        }
    }

    fn clean(&mut self, protocol: &Protocol, scope: &Scope, state: &State) {
        match state.clean {
            Repairer::Idle => {
                if state.runtime != Runtime::Dead || !state.registered {
                    return;
                }
                // `clean` is called when runtime and guardian both died; it may be before.
                let due = state.guardian == Repairer::Dead;
                self.must |= due;
                if !due && !scope.rivals {
                    return;
                }
                self.add(Label::CleanBegins, state, |after| {
                    after.clean = Repairer::begun();
                });
            }
            Repairer::At { .. } => {
                self.must = true;
                let (label, after) = advance(protocol, state, Who::Clean);
                self.list.push((label, after));
                if state.cleans > 0 {
                    self.add(Label::CleanDies, state, |after| {
                        after.clean = Repairer::Idle;
                        after.cleans -= 1;
                    });
                }
            }
            Repairer::Dead | Repairer::Left => {}
        }
    }
}

/// What the runtime may begin with a VCPU that it is not busy with.
fn choices(state: &State, vcpu: &Vcpu) -> Vec<Operation> {
    let closing = state.runtime != Runtime::Alive;
    if !vcpu.enrolled {
        return if closing { Vec::new() } else { vec![Operation::Enrol] };
    }
    let mut choices = Vec::new();
    if vcpu.stopped {
        return choices;
    }
    choices.push(Operation::Stop);
    if !closing {
        if vcpu.threads[0].raised() {
            choices.extend([Operation::Demote, Operation::Park, Operation::Migrate]);
        } else {
            choices.push(Operation::Promote);
        }
    }
    choices
}

/// Which side repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Who {
    Guardian,
    Clean,
}

/// One step of a repair, or of what a missed heartbeat calls for.
fn advance(protocol: &Protocol, state: &State, who: Who) -> (Label, State) {
    let mut after = *state;
    let mine = match who {
        Who::Guardian => state.guardian,
        Who::Clean => state.clean,
    };
    let Repairer::At { station, vcpu: index, list, again, relief } = mine else {
        unreachable!("only a repairer at work goes on");
    };
    let route = match relief {
        None => protocol.repair,
        Some(Relief::Core) => Protocol::RELIEF,
        Some(Relief::All) => Protocol::LAST_RELIEF,
    };
    let here = route[usize::from(station)];
    let on = usize::from(index);
    let label = Label::Repairs(who, here, on);
    let (list, again) = after.repair(here, on, list, again);
    let alone = relief == Some(Relief::Core);
    let next = |station: u8| {
        if usize::from(station) == route.len() {
            return if relief.is_some() { Repairer::Idle } else { Repairer::Left };
        }
        let vcpu = if alone { index } else { 0 };
        Repairer::At { station, vcpu, list: None, again: false, relief }
    };
    let now = if list.is_some() {
        Repairer::At { station, vcpu: index, list, again, relief }
    } else if here != Repair::Forget && !alone && on + 1 < state.vcpus.len() {
        Repairer::At { station, vcpu: index + 1, list: None, again, relief }
    } else if again && here == Repair::RemoveGroups {
        next(0)
    } else if again && protocol.demote_until_quiet {
        next(station)
    } else {
        next(station + 1)
    };
    match who {
        Who::Guardian => after.guardian = now,
        Who::Clean => after.clean = now,
    }
    (label, after)
}

impl State {
    /// The runtime is gone, and with it whatever it was about to do.
    fn die(&mut self) {
        self.runtime = Runtime::Dead;
        self.vcpus.iter_mut().for_each(|vcpu| {
            vcpu.doing = None;
            // What it knew of its VCPUs is gone too.
            (vcpu.enrolled, vcpu.stopped) = (false, false);
        });
    }

    /// Does one step of a repair on one VCPU. Returns the threads that are yet to be gone through
    /// and whether the station must be gone through again.
    fn repair(
        &mut self,
        here: Repair,
        on: usize,
        list: Option<[bool; 2]>,
        mut again: bool,
    ) -> (Option<[bool; 2]>, bool) {
        let vcpu = &mut self.vcpus[on];
        let client = vcpu.member == Member::Client;
        match here {
            Repair::Demote | Repair::MoveBack if vcpu.group => {
                if here == Repair::MoveBack && !client {
                    return (None, again);
                }
                let Some(mut rest) = list else {
                    let list = vcpu.threads.map(Thread::inside);
                    return (list.contains(&true).then_some(list), again);
                };
                let at = usize::from(!rest[0]);
                rest[at] = false;
                let thread = &mut vcpu.threads[at];
                if here == Repair::Demote {
                    // One that has left may have borne a raised child after the list was read.
                    again |= thread.raised() || !thread.inside();
                    thread.set(false);
                } else {
                    thread.leave();
                }
                return (rest.contains(&true).then_some(rest), again);
            }
            Repair::Thaw => vcpu.act(Step::Thaw),
            Repair::Freeze => vcpu.act(Step::Freeze),
            Repair::Kill if !client => vcpu.act(Step::Kill),
            Repair::RemoveGroups if vcpu.populated() => again = true,
            Repair::RemoveGroups => vcpu.act(Step::RemoveGroup),
            Repair::Forget => self.registered = false,
            Repair::Demote | Repair::MoveBack | Repair::Kill => {}
        }
        (None, again)
    }
}

impl Thread {
    const fn leave(&mut self) {
        if let Self::Inside { raised } = *self {
            *self = Self::Outside { raised };
        }
    }
}

impl Vcpu {
    fn populated(&self) -> bool {
        self.threads.iter().any(|thread| thread.inside())
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::MakeGroup => self.group = true,
            Step::Spawn => self.threads[0] = Thread::Inside { raised: false },
            Step::MoveIn => {
                if let Thread::Outside { raised } = self.threads[0] {
                    self.threads[0] = Thread::Inside { raised };
                }
            }
            Step::Raise => self.threads[0].set(true),
            Step::Demote => self.threads.iter_mut().for_each(|thread| thread.set(false)),
            Step::Freeze => self.frozen = self.group,
            Step::Thaw => self.frozen = false,
            Step::Shift => {}
            Step::Kill => {
                for thread in self.threads.iter_mut().filter(|thread| thread.inside()) {
                    *thread = Thread::Gone;
                }
            }
            Step::MoveBack => self.threads.iter_mut().for_each(Thread::leave),
            Step::RemoveGroup => (self.group, self.frozen) = (false, false),
        }
    }
}
