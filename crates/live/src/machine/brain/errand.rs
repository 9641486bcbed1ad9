//! Errands: what the policy sends carriers for. A carrier has no threads here: the agent does its
//! work, and tells it as a stint of the carrier, on whose budget it is so.
//!
//! An errand begins when a plan shows it and none is under way: its carrier wakes. It is done when
//! the carrier stands on the line of an open core with some of its grant left, by the agent of that
//! core, from whose time its reservation is taken; or, where it moves somebody who sits elsewhere,
//! by the agent there, while which is awake nobody runs there. What came of it is told before the
//! end of the stint in which it was done, as in simulation:
//! `Woke`, [`Ran` of who was interrupted], `Sampled`, `ErrandDone` or `Failed`, `Ran` (blocked).
//!
//! A move with page colours begins with the recolouring, which the program itself does, on its own
//! VCPU, where that stands: on the core that it leaves. Until it is told done, it has no line on
//! the other core and could not do it there.

use super::Brain;
use crate::agent::lock;
use crate::clock::Clock;
use crate::machine::Setup;
use crate::sense::{Reading, Sensor};
use maracas_core::contract::{End, Errand, Grant, Mode, Refused, Sample, Stint, Usage};
use maracas_core::journal::{Note, Recolored, Record};
use maracas_core::{CoreId, CoreSet, Duration, Event, Instant, Role, VcpuId};
use std::collections::BTreeMap;

/// How many answers to errands are told in one round, where the policy answers each by the next;
/// more wait for the next round.
pub(super) const ANSWERS: usize = 8;
/// How often it is looked whether a recolouring is finished.
const LOOK: Duration = Duration::from_millis(1);
/// How long a recolouring may take: 512 pages take milliseconds, but on the program's own budget.
const PATIENCE: Duration = Duration::from_secs(1);

/// An errand that has begun.
#[derive(Clone, Copy, Debug)]
struct Away {
    carrier: VcpuId,
    errand: Errand,
    /// Since when the program recolours its pages.
    recolors: Option<Instant>,
}

/// What errands are done with, and how far they are.
#[derive(Default)]
pub(super) struct Errands {
    sensor: Option<Box<dyn Sensor>>,
    /// The clock in which occupancy is told; 0 = the sensor's own.
    cycles_per_us: u64,
    away: Option<Away>,
    /// The carriers' foreground meters.
    meters: BTreeMap<VcpuId, Duration>,
    /// What was told of the sensor's counts.
    told: Reading,
    reading: Reading,
}

impl Errands {
    /// Done with this sensor, as the setup steers memory.
    pub(super) fn new(sensor: Option<Box<dyn Sensor>>, setup: &Setup) -> Self {
        let cycles_per_us = setup.steering.cycles_per_us;
        let (away, meters) = (None, BTreeMap::new());
        let (told, reading) = (Reading::default(), Reading::default());
        let mut errands = Self { sensor, cycles_per_us, away, meters, told, reading };
        // What was counted while it was tried is nobody's. Should it be refused, so will samples.
        let _ = errands.sample(Instant::ZERO, setup.system.cores.len());
        errands
    }
    /// What the carrier's errands took.
    pub(super) fn meter(&self, carrier: VcpuId) -> Duration {
        self.meters.get(&carrier).copied().unwrap_or_default()
    }
    /// When the errand under way must be looked at without any event.
    pub(super) fn next_due(&self, clock: &Clock) -> Instant {
        let recolors = self.away.is_some_and(|away| away.recolors.is_some());
        if recolors { clock.now().saturating_add(LOOK) } else { Instant::NEVER }
    }
    /// What is to be said of the sensor's counting.
    pub(super) fn remark(&self) -> Option<String> {
        self.sensor.as_ref()?.remark()
    }

    /// What the sensor counted since this was asked last.
    fn sample(&mut self, now: Instant, cores: usize) -> std::io::Result<Option<Sample>> {
        let Some(sensor) = &mut self.sensor else { return Ok(None) };
        sensor.read(now, &mut self.reading)?;
        // Converted before the difference is taken, so that what is rounded off is not lost.
        let own = sensor.cycles_per_us();
        self.reading.occupancy = converted(self.reading.occupancy, own, self.cycles_per_us);
        self.reading.by_core.resize(cores, 0);
        let before = self.told.by_core.iter().chain(std::iter::repeat(&0));
        let by_core = self.reading.by_core.iter().zip(before);
        let sample = Sample {
            requests: self.reading.requests.saturating_sub(self.told.requests),
            occupancy: self.reading.occupancy.saturating_sub(self.told.occupancy),
            by_core: by_core.map(|(now, told)| now.saturating_sub(*told)).collect(),
        };
        std::mem::swap(&mut self.told, &mut self.reading);
        Ok(Some(sample))
    }
}

/// Cycles of a clock of `from` per microsecond as cycles of one of `to`, rounded down; 0 = the same
/// clock.
fn converted(cycles: u64, from: u64, to: u64) -> u64 {
    if from == 0 || to == 0 || from == to {
        return cycles;
    }
    let cycles = u128::from(cycles) * u128::from(to) / u128::from(from);
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

const fn refused(errand: Errand) -> Refused {
    match errand {
        Errand::Sample => Refused::Sample,
        Errand::Move { vcpu, .. } => Refused::Move(vcpu),
    }
}

impl Brain<'_> {
    /// Carries the errand in the plan a step further, on the agent of `own`. Whether the policy was
    /// told of that; whoever else is to go on is `called`.
    pub(super) fn run_errand(&mut self, own: CoreId, called: &mut CoreSet) -> bool {
        let Some(away) = self.errands.away else { return self.begin_errand() };
        let Some(core) = self.stands(away.carrier) else { return false };
        let seat = match away.errand {
            Errand::Move { vcpu, .. } => self.known.get(&vcpu).and_then(|known| known.seat),
            Errand::Sample => None,
        };
        let place = seat.unwrap_or(core);
        if place != own {
            called.insert(place);
            return false;
        }
        match away.errand {
            Errand::Sample => self.take_sample(away, core),
            // Programs are being started: see `moves`.
            Errand::Move { .. } if self.held > 0 => return false,
            Errand::Move { vcpu, colors, .. }
                if colors != 0 && self.recolors(away, vcpu, colors) =>
            {
                return false;
            }
            Errand::Move { vcpu, to, .. } => self.make_move(away, core, vcpu, to, own),
        }
        true
    }

    /// The carrier reads the counters.
    fn take_sample(&mut self, away: Away, core: CoreId) {
        self.interrupt(core);
        let from = self.mailbox.clock.now();
        let sample = self.errands.sample(from, self.cores.len());
        let span = (from, self.mailbox.clock.now());
        match sample.ok().flatten() {
            Some(sample) => {
                let answers = [Event::Sampled(sample), Event::ErrandDone(away.errand)];
                self.finish_errand(away, core, span, &answers);
            }
            None => {
                let failed = Event::Failed { core, what: Refused::Sample };
                self.finish_errand(away, core, span, &[failed]);
            }
        }
    }

    /// The carrier moves a VCPU.
    fn make_move(&mut self, away: Away, core: CoreId, vcpu: VcpuId, to: CoreId, own: CoreId) {
        if core == own {
            self.interrupt(core);
        }
        let from = self.mailbox.clock.now();
        let known = self.known.get(&vcpu).map(|known| known.seat);
        let seat = known.flatten().filter(|seat| *seat != to);
        let moved = seat.is_none_or(|seat| self.transfer(vcpu, seat, to));
        let span = (from, self.mailbox.clock.now());
        if let Some(seat) = seat {
            // Should the policy have it where it was after all, it is brought back.
            self.behind = true;
            [seat, to]
                .iter()
                .for_each(|core| lock(&self.cores[usize::from(core.0)]).stirred = true);
            // What the body took before it left and, where it could not go, that.
            self.listen();
        }
        let done = [Event::ErrandDone(away.errand)];
        let gone = [Event::Failed { core, what: Refused::Move(vcpu) }];
        let answer = match (known, moved) {
            (None, _) => &gone[..],
            (Some(_), true) => &done,
            (Some(_), false) => &[],
        };
        self.finish_errand(away, core, span, answer);
    }

    /// Begins the errand in the plan, if there is one and it can be done.
    fn begin_errand(&mut self) -> bool {
        let Some((carrier, errand)) = self.plan.errand else { return false };
        let now = self.mailbox.clock.now();
        let role = |vcpu| self.known.get(&vcpu).map(|known| known.vcpu.role);
        let carries = |role| matches!(role, Role::Monitor | Role::Migration);
        let can = match errand {
            Errand::Sample => self.errands.sensor.is_some(),
            Errand::Move { vcpu, to, .. } => {
                usize::from(to.0) < self.cores.len()
                    && role(vcpu).is_some_and(|role| !carries(role))
            }
        };
        if !can || !role(carrier).is_some_and(carries) {
            let core = self.stands(carrier).unwrap_or_default();
            self.tell(now, &Event::Failed { core, what: refused(errand) });
            return true;
        }
        self.errands.away = Some(Away { carrier, errand, recolors: None });
        self.tell(now, &Event::Woke { vcpu: carrier, on_behalf: None, exact: true });
        true
    }

    /// The core where the carrier may work now: on whose line it stands with some of its grant
    /// left, unless that core is closed.
    fn stands(&self, carrier: VcpuId) -> Option<CoreId> {
        let meter = self.errands.meter(carrier);
        let grants = |grant: &&Grant| grant.vcpu == carrier && meter < grant.until.0;
        let on_line = |core: &CoreId| self.plan.line(*core).foreground.iter().any(|it| grants(&it));
        let mut cores = (0..self.plan.cores() as u16).map(CoreId);
        let core = cores.find(on_line)?;
        (!lock(&self.cores[usize::from(core.0)]).is_closed()).then_some(core)
    }

    /// The carrier takes the core from whoever ran there: tells of that.
    fn interrupt(&mut self, core: CoreId) {
        let mut core = lock(&self.cores[usize::from(core.0)]);
        core.interrupt();
        std::mem::swap(&mut core.outbox, &mut self.events);
        drop(core);
        self.feed();
    }

    /// Tells what came of an errand that took the carrier so long, and that it has done it.
    fn finish_errand(
        &mut self,
        away: Away,
        core: CoreId,
        (from, to): (Instant, Instant),
        answers: &[Event],
    ) {
        self.errands.away = None;
        answers.iter().for_each(|answer| self.tell(to, answer));
        // An errand takes time, whatever the clock's grain.
        let service = to.saturating_since(from).max(Duration::from_nanos(1));
        let (vcpu, mode, end) = (away.carrier, Mode::Foreground, End::Blocked);
        *self.errands.meters.entry(vcpu).or_default() += service;
        let usage = Usage { service, ..Usage::default() };
        self.tell(to, &Event::Ran(Stint { vcpu, core, mode, from, to, usage, end }));
    }

    /// Whether the programs of `vcpu` still recolour their pages for this errand; asks them to.
    fn recolors(&mut self, away: Away, vcpu: VcpuId, colors: u64) -> bool {
        let (now, count) = (self.mailbox.clock.now(), self.mailbox.palette.count());
        let seat = self.known.get(&vcpu).and_then(|known| known.seat);
        let Some(seat) = seat.filter(|_| count > 0) else { return false };
        let page =
            lock(&self.cores[usize::from(seat.0)]).body(vcpu).map(|it| it.handle.colors.clone());
        let Some(page) = page.flatten() else { return false };
        // Taken while a program is being started, which is soon done.
        let Ok(mut page) = page.try_lock() else { return true };
        let what = match away.recolors {
            // Nobody would do it.
            None if page.attached() == 0 => return false,
            None => match page.order(colors, count) {
                Ok(()) => {
                    self.errands.away = Some(Away { recolors: Some(now), ..away });
                    return true;
                }
                Err(error) => Err(format!("refused: {error}")),
            },
            Some(since) => match page.finished() {
                Some(done) => {
                    let (pages, took_ns, left) = (done.pages, done.nanos, done.left);
                    let error = (done.error != 0).then_some(done.error.unsigned_abs());
                    Ok(Recolored { pages, took_ns, left, error })
                }
                None if now.saturating_since(since) < PATIENCE => return true,
                None => Err("unfinished".to_string()),
            },
        };
        let note = Note::Recolored { vcpu, what };
        self.scribe.recorder.record(&Record::Note { at: now, note });
        false
    }
}

#[cfg(test)]
mod tests;
