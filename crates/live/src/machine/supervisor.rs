//! Programs: starts them, notices their ends, ends them. Done by the thread that called `run`,
//! whose priority is between the programs' and the agents'.

use super::error::Error;
use super::handle::{Mailbox, Request};
use super::steer;
use crate::colors::Colors;
use crate::executor::vcpu::Made;
use crate::executor::{Site, VcpuHandle};
use crate::guardian::{Cause, Ending, Guardian};
use crate::host::cgroup::Group;
use crate::host::launch::{self, Child, Exit};
use crate::host::wait::{Poll, Token, wait};
use crate::host::{HardwareCore, sched, sys};
use crate::progress::{self, Page, Progress};
use crate::sense::VcpuEvents;
use crate::setup::{Launch, Setup};
use maracas_core::admission::NotAdmitted;
use maracas_core::{CoreId, Duration, Instant, Role, System, VcpuId};
use maracas_live_core::Refusal;
use maracas_live_core::priority;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time;

/// How long a program has from SIGTERM to SIGKILL.
const GRACE: time::Duration = time::Duration::from_millis(200);
/// How long a killed program may take to be gone. What is longer in the kernel than this waits for
/// something that is broken, and the run's end must not.
const KILLED: time::Duration = time::Duration::from_secs(2);
/// How often a VCPU whose programs have ended is looked at for children that live on, and one of
/// a foreign process for threads that live on.
const PATROL: Duration = Duration::from_millis(100);

/// On so many cores at most counters are opened where a VCPU may be moved to: each takes up to four
/// descriptors for every VCPU, and 30 to 90 us at the start of its program.
const MOST_READY: usize = 16;

/// Threads that close counters at the end of a run, at most.
const CLOSERS: usize = 16;
/// Their stack, in bytes. All of it is taken at once, as the memory of a run is locked.
const STACK: usize = 128 << 10;

/// One program and where it is in its life.
struct Program<'a> {
    launch: &'a Launch,
    life: Life,
}

enum Life {
    Waiting,
    Running(Child),
    Ended(Option<Exit>),
}

/// The group of a VCPU whose programs we start.
struct Home {
    group: Arc<Group>,
    /// Where its programs may count their progress, if they are to.
    page: Option<PathBuf>,
    /// Names to its programs the colours of their pages, if those have any.
    colors: Option<Colors>,
    /// It has left: nothing more is started in it.
    left: bool,
}

/// Starts and ends the programs of a run.
pub(super) struct Supervisor<'a> {
    setup: &'a Setup,
    mailbox: &'a Mailbox,
    programs: Vec<Program<'a>>,
    homes: BTreeMap<VcpuId, Home>,
    /// VCPUs that were refused when they arrived.
    pub(super) refused: Vec<(VcpuId, NotAdmitted)>,
    guardian: Option<&'a mut Guardian>,
    /// What is counted of VCPUs.
    counts: VcpuEvents,
    poll: Poll,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        setup: &'a Setup,
        mailbox: &'a Mailbox,
        guardian: Option<&'a mut Guardian>,
        counts: VcpuEvents,
    ) -> Result<Self, Error> {
        let host = |error| Error::Host("create an epoll", error);
        let poll = Poll::new().map_err(host)?;
        poll.add(mailbox.supervisor.fd(), Token::Wakeup).map_err(host)?;
        if let Some(guardian) = &guardian {
            listen_to(&poll, guardian).map_err(host)?;
        }
        let program = |launch| Program { launch, life: Life::Waiting };
        let programs = setup.programs.iter().map(program).collect();
        let (homes, refused) = (BTreeMap::new(), Vec::new());
        Ok(Self { setup, mailbox, programs, homes, refused, guardian, counts, poll })
    }

    /// Keeps the programs until the run is over.
    pub(super) fn keep(&mut self) -> Result<(), Error> {
        // Counted from when the first programs begin: making them ready is no part of it.
        let mut end = Instant::NEVER;
        let mut ready = Vec::with_capacity(64);
        // Refused only where nothing else is at real-time priority either.
        let _ = sched::set_fifo(0, priority::RUNTIME, true);
        loop {
            let now = self.mailbox.clock.now();
            self.start_due(now)?;
            if let Some(length) = self.setup.duration.filter(|_| end == Instant::NEVER) {
                end = self.mailbox.clock.now().saturating_add(length);
                if let Some(guardian) = &self.guardian {
                    guardian.heartbeats().ends_at(self.mailbox.clock.monotonic_ns(end));
                }
            }
            self.stop_due(now);
            self.collect();
            let over = self.setup.duration.is_none()
                && !self.setup.serve
                && self.programs.iter().all(|program| matches!(program.life, Life::Ended(_)));
            if over || now >= end || self.mailbox.is_stopping() || self.called().is_some() {
                return Ok(());
            }
            let next = self.next_due(now).min(end);
            let now = self.mailbox.clock.now();
            let rest = (next != Instant::NEVER).then(|| next.saturating_since(now));
            let host = |error| Error::Host("wait for programs", error);
            wait(self.poll.fd(), rest, &mut ready).map_err(host)?;
            self.mailbox.supervisor.acknowledge();
            if ready.contains(&Token::Guardian) && self.called().is_none() {
                self.replace_guardian()?;
            }
        }
    }

    /// Why the guardian, or an agent, wants the run to end, if it does.
    fn called(&self) -> Option<Ending> {
        self.guardian.as_ref().and_then(|guardian| guardian.ending())
    }

    /// Why the run ended before its time, in a sentence, if it did.
    pub(super) fn ended_for(&self) -> Option<String> {
        self.called().map(|why| match why.cause {
            Cause::Away => format!("{why}; that ended the run"),
            Cause::Late | Cause::Stopped | Cause::OffLine | Cause::Overdue => {
                format!("{why}; the guardian ended the run")
            }
        })
    }

    /// Without a guardian nothing may stay at real-time priority: where no other comes to stand,
    /// the run ends in order.
    fn replace_guardian(&mut self) -> Result<(), Error> {
        let Some(guardian) = &mut self.guardian else { return Ok(()) };
        let host = |error| Error::Host("keep a guardian", error);
        guardian.revive().map_err(host)?;
        listen_to(&self.poll, guardian).map_err(host)
    }

    /// Starts what is due: first all are made ready, which takes milliseconds each, then all begin.
    /// What is to start together does so, and no beginning is disturbed. The agents are told of
    /// all at once, so that their periods begin at one instant: budgets of one period then come
    /// back together, by one wake of the agent.
    fn start_due(&mut self, now: Instant) -> Result<(), Error> {
        let (mut ready, mut requests) = (Vec::new(), Vec::new());
        for index in 0..self.programs.len() {
            let program = &self.programs[index];
            if matches!(program.life, Life::Waiting) && program.launch.start <= now {
                let launch = program.launch;
                let made = self.make_ready(launch, index as u32);
                let made = made.map_err(|error| Error::Start(launch.name.clone(), error))?;
                self.programs[index].life = match made {
                    Some((child, request)) => {
                        ready.push(index);
                        requests.push(request);
                        Life::Running(child)
                    }
                    None => Life::Ended(None),
                };
            }
        }
        if !requests.is_empty() {
            self.mailbox.post_all(requests);
        }
        for index in ready {
            let Program { launch, life } = &mut self.programs[index];
            if let Life::Running(child) = life {
                child.release().map_err(|error| Error::Start(launch.name.clone(), error))?;
            }
        }
        Ok(())
    }

    /// Whether the VCPU is there; the policy is asked about one that arrives now.
    fn is_admitted(&mut self, id: VcpuId) -> io::Result<bool> {
        if let Some(home) = self.homes.get(&id) {
            return Ok(!home.left);
        }
        if self.refused.iter().any(|(refused, _)| *refused == id) {
            return Ok(false);
        }
        let mut later = self.setup.later.iter();
        let Some((name, vcpu)) = later.find(|(_, vcpu)| vcpu.id == id) else { return Ok(true) };
        match self.mailbox.arrive(name, vcpu) {
            Ok(_) => Ok(true),
            Err(Refusal::NotAdmitted(why)) => {
                self.refused.push((id, why));
                Ok(false)
            }
            Err(refusal) => Err(io::Error::other(refusal)),
        }
    }

    /// A program that waits before its first instruction, and how the agents learn of it; `None`
    /// where its VCPU is gone or was refused.
    fn make_ready(&mut self, launch: &Launch, index: u32) -> io::Result<Option<(Child, Request)>> {
        let id = launch.vcpu;
        if !self.is_admitted(id)? {
            return Ok(None);
        }
        let (first, mut page) = (!self.homes.contains_key(&id), None);
        let mut command = launch.command.clone();
        if first {
            let group = Arc::new(self.mailbox.in_tree(|tree| tree.vcpu(id))?);
            page = self.mailbox.page(id, command.user)?;
            let path = page.as_ref().map(|page| page.path().to_path_buf());
            let colors = self.mailbox.color_page(id, command.user)?;
            self.homes.insert(id, Home { group, page: path, colors, left: false });
        }
        let home = &self.homes[&id];
        // Gone it is with a VCPU that has just been destroyed; its programs need not count.
        if let Some(path) = home.page.as_deref()
            && Page::open_to(path, command.user).is_ok()
        {
            command.env.extend([progress::variable(path)]);
        }
        if let Some(page) = &home.colors {
            command.env.extend([steer::admit(page, command.user)?]);
        }
        let colors = home.colors.clone();
        let group = Arc::clone(&home.group);
        let spawned = self.mailbox.held(id, |place| {
            let core = self.setup.cores[usize::from(place.0)];
            launch::spawn(&command, &group, core).map(|child| (child, core, place))
        });
        let (child, core, place) = spawned.map_err(io::Error::other)??;
        self.poll.add(child.pidfd.as_raw_fd(), Token::Ended(index))?;
        let request = if first {
            let (name, means) = (self.name(id), self.mailbox.means);
            let progress = Progress::new(self.mailbox.source, page);
            let (root, core) = (Some(child.pid), core);
            let mut vcpu_handle = Made {
                id,
                name,
                group,
                confined: core,
                root,
                means,
                progress,
                clock: self.mailbox.clock.clone(),
            }
            .vcpu_handle();
            vcpu_handle.handle.colors = colors;
            vcpu_handle.handle.prepare(self.counted_on(place));
            Request::Attach(Box::new(vcpu_handle))
        } else {
            Request::Rescan(id)
        };
        Ok(Some((child, request)))
    }

    /// Where counters of a VCPU that begins on `place` are opened before it comes there.
    fn counted_on(&self, place: CoreId) -> impl Iterator<Item = (CoreId, Site)> {
        let site = |hardware: &HardwareCore| Site { hardware: *hardware, counts: self.counts };
        let system = &self.setup.system;
        let cores = system.core_ids().zip(self.setup.cores.iter().map(site));
        let is_ready = ready_on(system, place);
        cores.filter(move |(core, _)| is_ready(*core))
    }

    fn name(&self, id: VcpuId) -> String {
        let named = self.setup.vcpus().find(|(vcpu, _)| vcpu.id == id).and_then(|(_, name)| name);
        named.map_or_else(|| id.to_string(), str::to_string)
    }

    /// Asks programs whose time is over to end; what does not react ends with the run.
    fn stop_due(&self, now: Instant) {
        for program in &self.programs {
            if let Life::Running(child) = &program.life
                && program.launch.stop <= now
            {
                signal(child, libc::SIGTERM);
            }
        }
    }

    fn next_due(&self, now: Instant) -> Instant {
        let mut next = Instant::NEVER;
        for program in &self.programs {
            next = next.min(match program.life {
                Life::Waiting => program.launch.start,
                // Sent once a patrol, until it reacts.
                Life::Running(_) if program.launch.stop <= now => now.saturating_add(PATROL),
                Life::Running(_) => program.launch.stop,
                Life::Ended(_) => Instant::NEVER,
            });
        }
        let lingering = self.homes.keys().any(|id| self.is_over(*id)) || self.mailbox.has_guests();
        if lingering { next.min(now.saturating_add(PATROL)) } else { next }
    }

    /// Notes which programs have ended, and lets VCPUs leave of which nothing is left.
    fn collect(&mut self) {
        self.mailbox.end_deserted();
        self.mailbox.clear_away();
        for id in self.mailbox.ended() {
            if let Some(home) = self.homes.get_mut(&id) {
                home.left = true;
                // What was destroyed while it ran ends at once; the run's end looks again.
                let _ = home.group.kill();
            }
        }
        for program in &mut self.programs {
            let Life::Running(child) = &program.life else { continue };
            match child.try_wait() {
                Ok(None) => {}
                Ok(exit) => program.life = Life::Ended(exit),
                // Collected by another thread: ended, and how is unknown.
                Err(_) => program.life = Life::Ended(None),
            }
        }
        let over: Vec<_> = self.homes.keys().copied().filter(|id| self.is_over(*id)).collect();
        for id in over {
            let Some(home) = self.homes.get_mut(&id) else { continue };
            if !home.group.is_populated().unwrap_or(false) {
                home.left = true;
                self.mailbox.discard(id);
            }
        }
    }

    /// Whether all programs of a VCPU have ended that has not left yet.
    fn is_over(&self, id: VcpuId) -> bool {
        let mut programs = self.programs.iter().filter(|program| program.launch.vcpu == id);
        !self.homes[&id].left && programs.all(|program| matches!(program.life, Life::Ended(_)))
    }

    /// Ends everything; the agents are gone and all threads released, by these VCPU handles.
    /// Returns how each program ended.
    pub(super) fn end(
        mut self,
        released: Vec<VcpuHandle>,
        trouble: &mut Vec<String>,
    ) -> Vec<(String, Option<Exit>)> {
        let _ = sched::set_other(0);
        let running = |program: &Program<'_>| matches!(program.life, Life::Running(_));
        for program in &self.programs {
            if let Life::Running(child) = &program.life {
                signal(child, libc::SIGTERM);
            }
        }
        let deadline = time::Instant::now() + GRACE;
        while self.programs.iter().any(running) && time::Instant::now() < deadline {
            std::thread::sleep(time::Duration::from_millis(2));
            for program in &mut self.programs {
                if let Life::Running(child) = &program.life
                    && !matches!(child.try_wait(), Ok(None))
                {
                    program.life = Life::Ended(None);
                }
            }
        }
        for home in self.homes.values() {
            trouble.extend(home.group.kill().err().map(|error| error.to_string()));
        }
        for program in &self.programs {
            if let Life::Running(child) = &program.life {
                // Where there is no group that could be killed.
                signal(child, libc::SIGKILL);
            }
        }
        let deadline = time::Instant::now() + KILLED;
        for program in &mut self.programs {
            if let Life::Running(child) = &program.life {
                let rest = deadline.saturating_duration_since(time::Instant::now());
                if !child.ends_within(rest) {
                    let name = &program.launch.name;
                    let what = "still in the kernel two seconds after it was killed";
                    trouble.push(format!("program \"{name}\" (process {}): {what}", child.pid));
                }
                let _ = child.try_wait();
                program.life = Life::Ended(None);
            }
        }
        // They hold the groups.
        close(released);
        trouble.extend(self.mailbox.dismiss_all().err().map(|why| why.to_string()));
        for (_, home) in std::mem::take(&mut self.homes) {
            let removed = Arc::into_inner(home.group).map(Group::remove);
            trouble.extend(removed.and_then(Result::err).map(|error| error.to_string()));
        }
        let exit = |program: Program<'_>| match program.life {
            Life::Ended(exit) => (program.launch.name.clone(), exit),
            Life::Waiting | Life::Running(_) => (program.launch.name.clone(), None),
        };
        self.programs.into_iter().map(exit).collect()
    }
}

/// Drops VCPU handles, by some threads: on PREEMPT_RT the kernel waits for a grace period at each
/// counter that is closed (`irq_work_sync` in `kernel/irq_work.c`), 16 ms in the lab, and many
/// threads wait for the same one.
fn close(mut released: Vec<VcpuHandle>) {
    let each = released.len().div_ceil(CLOSERS);
    std::thread::scope(|scope| {
        while !released.is_empty() {
            let part = released.split_off(released.len().saturating_sub(each));
            let closer = std::thread::Builder::new().name("closer".into()).stack_size(STACK);
            // Where there is no thread for it, it is dropped here.
            let _ = closer.spawn_scoped(scope, move || drop(part));
        }
    });
}

/// On which cores counters of a VCPU are opened by the supervisor: on that where it begins, so that
/// its agent, which has budgets to end there as soon as programs begin, opens none; and where VCPUs
/// are moved, on each, if there are few enough.
fn ready_on(system: &System, begins: CoreId) -> impl Fn(CoreId) -> bool + use<> {
    let are_moved = system.vcpus.iter().any(|vcpu| vcpu.role == Role::Migration);
    let are_few = system.cores.len() <= MOST_READY;
    move |core| core == begins || (are_moved && are_few)
}

/// Is woken when the guardian wants the run to end, and when it has died.
fn listen_to(poll: &Poll, guardian: &Guardian) -> io::Result<()> {
    poll.add(guardian.watch().as_raw_fd(), Token::Guardian)?;
    poll.add(guardian.call().as_raw_fd(), Token::Guardian)
}

fn signal(child: &Child, signal: i32) {
    sys::signal(&child.pidfd, signal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::Vcpu;

    #[test]
    fn counters_are_open_where_it_begins_and_where_it_may_be_moved() {
        let (budget, period) = (Duration::from_millis(1), Duration::from_millis(10));
        let stays = Vcpu::new(0, budget, period);
        let carries = Vcpu { role: Role::Migration, ..Vcpu::new(1, budget, period) };
        let ready = |cores: usize, vcpus: Vec<Vcpu>| {
            let system = System::new(cores, vcpus);
            let is_ready = ready_on(&system, CoreId(1));
            system.core_ids().filter(|core| is_ready(*core)).map(|core| core.0).collect::<Vec<_>>()
        };
        assert_eq!(ready(3, vec![stays.clone()]), [1]);
        assert_eq!(ready(3, vec![stays.clone(), carries.clone()]), [0, 1, 2]);
        assert_eq!(ready(MOST_READY + 1, vec![stays, carries]), [1]);
    }
}
