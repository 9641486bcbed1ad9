//! Clients that start programs on the simulated host, and that ask for VCPUs, change and end them:
//! what supervisor and socket do on a real one. Any of them may give up, and programs may die.

use super::around::{Around, Request, SimAnswer, SimReply, question};
use super::host::SimVcpu;
use super::world::{NEVER, Program};
use crate::Dice;
use maracas_core::{CoreId, Reservation, Vcpu, VcpuId};
use maracas_live_core::{Ended, Refusal, VcpuHandle, VcpuStatus};
use std::rc::Rc;

/// How long starting a program takes at most, in nanoseconds.
const START: u64 = 2_000_000;
/// How long clients wait for an answer that give up.
const PATIENCE: u64 = 500_000;

/// What is done at some time.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// A VCPU is asked for, with a program in it.
    Create(Vcpu, Program),
    /// (C, T, D) are changed.
    Set(VcpuId, Reservation),
    /// It is ended.
    Destroy(VcpuId),
    /// All are asked for.
    List,
    /// One more thread of a foreign process joins it.
    Adopt(VcpuId, Program),
    /// Its programs are killed; only the supervisor learns of it.
    Kill(VcpuId),
    /// A program of a VCPU that is there is to be started.
    Start(VcpuId, Program),
    /// It has been, while nothing was frozen.
    Started { id: VcpuId, program: Program, number: u64, core: CoreId },
    /// A thread has been bound.
    Adopted { id: VcpuId, program: Program, number: u64 },
}

/// When.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) at: u64,
    pub(super) ask: Ask,
}

/// What is waited for.
enum Awaited {
    Verdict(Option<(VcpuId, Program)>, SimAnswer<Result<CoreId, Refusal>>),
    /// A program is started, or binds a thread.
    Hold {
        id: VcpuId,
        program: Program,
        number: u64,
        binds: bool,
        answer: SimAnswer<CoreId>,
    },
    Ended(SimAnswer<Ended<Around>>),
    List(SimAnswer<Vec<VcpuStatus>>),
}

/// All of them.
pub(super) struct Clients {
    due: Vec<Due>,
    /// What each waits for, and when it gives up.
    awaited: Vec<(Awaited, u64)>,
    dice: Dice,
    /// One in so many gives up soon; 0 = none.
    give_up_one_in: u64,
    number: u64,
}

impl Clients {
    pub(super) fn new(due: Vec<Due>, dice: Dice, give_up_one_in: u64) -> Self {
        Self { due, awaited: Vec::new(), dice, give_up_one_in, number: 0 }
    }

    /// When any of them does something next.
    pub(super) fn next_due(&self) -> u64 {
        let given_up = self.awaited.iter().map(|(_, until)| *until);
        self.due.iter().map(|due| due.at).chain(given_up).min().unwrap_or(NEVER)
    }

    /// What is due happens. Whether the mailbox rang.
    pub(super) fn act(&mut self, host: &mut Around, now: u64) -> bool {
        let before = host.posted.len();
        while let Some(at) = self.due.iter().position(|due| due.at <= now) {
            let Due { ask, .. } = self.due.remove(at);
            self.ask(host, ask, now);
        }
        let gave_up = |awaited: &Awaited| match awaited {
            Awaited::Verdict(_, answer) => answer.withdraw(),
            Awaited::Hold { answer, .. } => answer.withdraw(),
            Awaited::Ended(answer) => answer.withdraw(),
            Awaited::List(answer) => answer.withdraw(),
        };
        self.awaited.retain(|(awaited, until)| *until > now || !gave_up(awaited));
        host.posted.len() > before
    }

    fn ask(&mut self, host: &mut Around, ask: Ask, now: u64) {
        match ask {
            Ask::Create(vcpu, program) => {
                let (reply, answer) = question();
                let own = Some((vcpu.id, program));
                host.posted.push(Request::Create { name: String::new(), vcpu, reply });
                self.wait(Awaited::Verdict(own, answer), now);
            }
            Ask::Set(id, reservation) => {
                let (reply, answer) = question();
                host.posted.push(Request::Set { id, reservation, reply });
                self.wait(Awaited::Verdict(None, answer), now);
            }
            Ask::Destroy(id) => {
                let (reply, answer) = question();
                host.posted.push(Request::Destroy { id, reply });
                self.wait(Awaited::Ended(answer), now);
            }
            Ask::List => {
                let (reply, answer) = question();
                host.posted.push(Request::List { reply });
                self.wait(Awaited::List(answer), now);
            }
            Ask::Start(id, program) => self.hold(host, id, program, false, now),
            Ask::Adopt(id, program) => self.hold(host, id, program, true, now),
            Ask::Kill(id) => {
                host.shared.world.borrow_mut().kill(id);
                host.posted.push(Request::Destroy { id, reply: SimReply::unawaited() });
            }
            Ask::Started { id, program, number, core } => {
                let group = host.shared.world.borrow_mut().add(id, usize::from(core.0), program);
                let handle = SimVcpu::new(Rc::clone(&host.shared), group);
                let handle = VcpuHandle::new(id, handle, true);
                host.posted.push(Request::Attach(Box::new(handle)));
                host.posted.push(Request::Unhold(number));
            }
            Ask::Adopted { id, program, number } => {
                host.shared.world.borrow_mut().join(id, program);
                host.posted.push(Request::Rescan(id));
                host.posted.push(Request::Unhold(number));
            }
        }
    }

    fn wait(&mut self, awaited: Awaited, now: u64) {
        let gives_up = self.give_up_one_in != 0 && self.dice.one_in(self.give_up_one_in);
        let until = if gives_up { now + self.dice.between(1, PATIENCE) } else { NEVER };
        self.awaited.push((awaited, until));
    }

    fn hold(&mut self, host: &mut Around, id: VcpuId, program: Program, binds: bool, now: u64) {
        self.number += 1;
        let ((reply, answer), number) = (question(), self.number);
        host.posted.push(Request::Hold { id, number, reply });
        self.wait(Awaited::Hold { id, program, number, binds, answer }, now);
    }

    /// It was decided: takes the answers. Whether the mailbox rang.
    ///
    /// # Errors
    /// Where something was not answered that is answered at once.
    pub(super) fn learn(&mut self, host: &mut Around, now: u64) -> Result<bool, String> {
        let before = host.posted.len();
        for (awaited, until) in std::mem::take(&mut self.awaited) {
            self.take(host, awaited, until, now)?;
        }
        host.left.drain(..).for_each(dispose);
        Ok(host.posted.len() > before)
    }

    fn take(
        &mut self,
        host: &mut Around,
        awaited: Awaited,
        until: u64,
        now: u64,
    ) -> Result<(), String> {
        match awaited {
            Awaited::Verdict(own, answer) => match (answer.take(), own) {
                (Some(Ok(_)), Some((id, program))) => self.hold(host, id, program, false, now),
                (Some(_), _) => {}
                // The policy may take its time.
                (None, own) => {
                    self.awaited.push((Awaited::Verdict(own, answer), until));
                }
            },
            Awaited::Hold { id, program, number, binds, answer } => {
                let core = answer.take().ok_or("a hold was not answered")?;
                let at = now + self.dice.between(1, START);
                let ask = match binds {
                    true => Ask::Adopted { id, program, number },
                    false => Ask::Started { id, program, number, core },
                };
                self.due.push(Due { at, ask });
            }
            Awaited::Ended(answer) => {
                dispose(answer.take().ok_or("an end was not answered")?.ok().flatten());
            }
            Awaited::List(answer) => {
                let list = answer.take().ok_or("a list was not answered")?;
                check_list(host, &list)?;
            }
        }
        Ok(())
    }
}

/// Lets the threads of a VCPU that has ended go, and ends them.
fn dispose(handle: Option<Box<VcpuHandle<SimVcpu>>>) {
    let Some(mut handle) = handle else { return };
    let shared = Rc::clone(&handle.handle.shared);
    // What is refused now the supervisor tries again.
    shared.unreported(|| _ = handle.release());
    shared.world.borrow_mut().end_group(handle.handle.group);
}

/// No VCPU is listed twice, and none with more than it had.
fn check_list(host: &Around, list: &[VcpuStatus]) -> Result<(), String> {
    if list.windows(2).any(|pair| pair[0].id >= pair[1].id) {
        return Err("the list is not in order".to_string());
    }
    let handles = || host.cores.iter().flat_map(|core| &core.vcpu_handles);
    for status in list {
        let Some(handle) = handles().find(|handle| handle.id == status.id) else { continue };
        // A slower core's time may be rounded up.
        let had = handle.handle.had() + host.told.decisions;
        let listed = (status.foreground + status.background).ticks();
        if listed > had {
            return Err(format!("{} is listed with {listed} ns and had {had}", status.id));
        }
    }
    Ok(())
}
