//! From switch records to segments.
//!
//! # What a segment is
//! A segment of a VCPU begins when one of its threads is switched in, and ends
//! * when its last runnable thread blocks, at the instant of the record ([`End::Blocked`]);
//! * when a thread of another VCPU of ours is switched in: it ended at its own last switch-out
//!   ([`End::Preempted`]);
//! * when the machine changes its mode or freezes it, at that instant ([`End::LimitReached`] or
//!   [`End::Preempted`]), moves it to another core ([`End::Moved`]), or reads the meters at a
//!   metered wake ([`End::Metered`]).
//!
//! What the agents and other processes of the host take in between does not end a segment: it is no
//! service either. So `to - from` may exceed the service.
//!
//! # What it consumed
//! The meter is the counter of the group's time alone. Records have no counts, so all segments of a
//! VCPU but the last before a reading get the time between their records, and the last gets the
//! rest. The sum of what is reported therefore always equals the meter.
//!
//! Progress is read when segments are reported: the last of those that are reported together gets
//! it all, and what was gained on a core is reported for that core. The same holds for memory, but
//! all of it is reported before a VCPU handle leaves and before an allowance is reported spent, if
//! need be in a segment of no length: what the policy gets for a core sums up to the core's meter
//! ([`super::memory`]).
//!
//! On a core that stands for a slower one ([`crate::Stretch`]) service is the slower
//! core's time, and may exceed `to - from`, which stays what the clock said.

use super::Core;
use crate::{Executor, Handle, Level, Record};
use maracas_core::contract::{End, Mode, Segment, Usage};
use maracas_core::{Duration, Event, Instant, VcpuId};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Service without a record that is not worth a segment of its own: a few switches' worth.
const SWITCHES_NS: u64 = 20_000;

/// The machine changed how a VCPU handle is held; takes its place among the records by its time.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) at: Instant,
    pub(crate) vcpu: VcpuId,
    /// The mode that ends, and its meter then.
    pub(crate) mode: Mode,
    pub(crate) meter_ns: u64,
    pub(crate) end: End,
    /// The mode that begins.
    pub(crate) next: Mode,
    /// Whether it is frozen from now on.
    pub(crate) frozen: bool,
}

/// A segment that has begun.
#[derive(Debug)]
struct Open {
    vcpu: VcpuId,
    mode: Mode,
    from: Instant,
    /// Since when a thread of it is on the core now.
    in_at: Option<Instant>,
    last_out: Instant,
    /// As the kernel counts it, so far.
    ran: Duration,
}

/// Hashes the numbers of threads, which no attacker chooses: the standard library's hash takes ten
/// times as long, twice a switch. By Fibonacci's constant, 2^64 over the golden ratio (Knuth, The
/// Art of Computer Programming 3, 6.4).
#[derive(Default, Debug)]
pub(crate) struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_i32(i32::from(*byte)));
    }
    fn write_i32(&mut self, number: i32) {
        let word = self.0.rotate_left(8) ^ u64::from(number.cast_unsigned());
        self.0 = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// What the records of a core have shown so far.
#[derive(Debug)]
pub(crate) struct Tracker {
    pub(crate) changes: VecDeque<Change>,
    /// Whose thread is whose.
    pub(crate) owners: HashMap<i32, VcpuId, BuildHasherDefault<TidHasher>>,
    open: Option<Open>,
    peeked: Option<Record>,
    /// The latest record that was taken.
    last: Instant,
}

impl Tracker {
    pub(crate) fn new() -> Self {
        Self {
            changes: VecDeque::with_capacity(256),
            owners: HashMap::with_capacity_and_hasher(1024, BuildHasherDefault::default()),
            open: None,
            peeked: None,
            last: Instant::ZERO,
        }
    }
    /// Whose segment is open, its mode, and whether it is on the core at this moment, as far as the
    /// records have been read.
    pub(crate) fn running(&self) -> Option<(VcpuId, Mode, bool)> {
        self.open.as_ref().map(|open| (open.vcpu, open.mode, open.in_at.is_some()))
    }
}

impl<E: Executor> Core<E> {
    /// Whether a thread of this VCPU is on the core, as far as the records have been read.
    pub fn is_running(&self, vcpu: VcpuId) -> bool {
        self.tracker.running().is_some_and(|(on, _, now)| on == vcpu && now)
    }

    /// As if a record had said so: for tests.
    pub fn suppose_running(&mut self, vcpu: VcpuId) {
        let (at, ran) = (self.exec.now(), Duration::ZERO);
        let mode = Mode::Foreground;
        self.tracker.open = Some(Open { vcpu, mode, from: at, in_at: Some(at), last_out: at, ran });
    }

    /// Reads all records and turns them into events in the outbox.
    pub fn drain(&mut self) {
        if !self.means.events {
            self.report_counts(true);
            return;
        }
        let before = self.outbox.len();
        // A bound, so that a storm of switches cannot keep the agent here: the rest comes later.
        for _ in 0..16_384 {
            let record = self.tracker.peeked.take().or_else(|| self.exec.next_record());
            let at = record.map_or(Instant::NEVER, |record| record.at());
            if self.tracker.changes.front().is_some_and(|change| change.at <= at) {
                self.tracker.peeked = record;
                self.take_change();
            } else if let Some(record) = record {
                self.take_record(record, at);
            } else {
                break;
            }
        }
        if self.outbox.len() > before {
            self.reconcile();
        }
        self.report_trapped();
        self.report_counts(self.outbox.len() > before);
    }

    /// The instant of the next record that is not taken yet.
    fn peek(&mut self) -> Option<Instant> {
        if self.tracker.peeked.is_none() {
            self.tracker.peeked = self.exec.next_record();
        }
        self.tracker.peeked.map(|record| record.at())
    }

    /// Whether nothing was switched in or out here after `woke`.
    pub(super) fn stood_still(&mut self, woke: Instant) -> bool {
        self.tracker.last <= woke && self.peek().is_none()
    }

    /// A service VCPU takes the core from the one that is on it: the segment of that one ends.
    pub fn interrupt(&mut self) {
        self.drain();
        self.close(None, End::Preempted);
        self.reconcile();
        self.report_counts(true);
    }

    /// Reports the running segment without ending it, for a metered wake.
    pub fn meter_running(&mut self) {
        if !self.means.events {
            self.settle_all();
            self.report_clocks(self.exec.now());
        }
        self.drain();
        let Some(vcpu) = self.tracker.open.as_ref().map(|open| open.vcpu) else { return };
        let Some(vcpu_handle) = self.vcpu_handle(vcpu) else { return };
        let result = vcpu_handle.settle();
        let (mode, frozen) = (vcpu_handle.read_mode, vcpu_handle.trapped);
        let meter_ns = vcpu_handle.meter(mode).ticks();
        self.report(result, maracas_core::contract::Refused::Sample);
        let at = self.exec.now();
        let change = Change { at, vcpu, mode, meter_ns, end: End::Metered, next: mode, frozen };
        self.tracker.changes.push_back(change);
    }

    /// The run ends: reports all that no record showed, for no later reading will.
    pub(crate) fn report_unreported(&mut self) {
        self.drain();
        let (core, to) = (self.id, self.exec.now());
        for vcpu_handle in &mut self.vcpu_handles {
            // A frozen VCPU may have run on until it was.
            let result = vcpu_handle.settle();
            self.trouble = self.trouble.take().or(result.err());
            for mode in [Mode::Foreground, Mode::Background] {
                let rest_ns = vcpu_handle.unreported_ns(mode);
                if rest_ns < SWITCHES_NS {
                    continue;
                }
                vcpu_handle.reported_ns[mode as usize] += rest_ns;
                let service = Duration::from_nanos(rest_ns);
                let usage = Usage { service, ..Usage::default() };
                let (vcpu, from, end) =
                    (vcpu_handle.id, vcpu_handle.began(to, rest_ns), End::Metered);
                let segment = Segment { vcpu, core, mode, from, to, usage, end };
                self.outbox.push((to, Event::Ran(segment)));
            }
        }
    }

    fn take_record(&mut self, record: Record, at: Instant) {
        self.tracker.last = self.tracker.last.max(at);
        match record {
            Record::In { tid, .. } => self.switched_in(tid, at),
            Record::Out { tid, preempted, .. } => self.switched_out(tid, at, preempted),
            Record::Fork { parent, child, .. } => {
                if let Some(vcpu) = self.tracker.owners.get(&parent).copied() {
                    // A thread that was born before the last listing and is not in it has ended.
                    if let Some(vcpu_handle) = self.vcpu_handle(vcpu)
                        && vcpu_handle.listed.0 <= at
                    {
                        vcpu_handle.born(child);
                        self.tracker.owners.insert(child, vcpu);
                    }
                    self.stirred = true;
                }
            }
            Record::Exit { tid, .. } => {
                self.switched_out(tid, at, false);
                let Some(vcpu) = self.tracker.owners.get(&tid).copied() else { return };
                // Listed after that end, the number lives: a thread took it by `exec`.
                let lives = self.vcpu_handle(vcpu).is_some_and(|vcpu_handle| {
                    let lives = vcpu_handle.listed.1 > at && vcpu_handle.place(tid).is_ok();
                    if !lives {
                        vcpu_handle.died(tid);
                    }
                    lives
                });
                if !lives {
                    self.tracker.owners.remove(&tid);
                }
            }
            Record::Lost { .. } => self.start_over(at),
        }
    }

    fn switched_in(&mut self, tid: i32, at: Instant) {
        let Some(vcpu) = self.tracker.owners.get(&tid).copied() else { return };
        let Some(vcpu_handle) = self.vcpu_handle(vcpu) else { return };
        if vcpu_handle.trapped {
            return;
        }
        let (woke, mode) = (!vcpu_handle.is_runnable(), vcpu_handle.read_mode);
        vcpu_handle.suppose(tid, true);
        self.dispatches.switched_in(vcpu, at);
        match &mut self.tracker.open {
            Some(open) if open.vcpu == vcpu => open.in_at = Some(at),
            Some(_) | None => {
                self.close(None, End::Preempted);
                let open = Open {
                    vcpu,
                    mode,
                    from: at,
                    in_at: Some(at),
                    last_out: at,
                    ran: Duration::ZERO,
                };
                self.tracker.open = Some(open);
            }
        }
        if woke {
            self.stirred = true;
            self.outbox.push((at, Event::Woke { vcpu, on_behalf: None, exact: false }));
        }
    }

    fn switched_out(&mut self, tid: i32, at: Instant, preempted: bool) {
        let Some(vcpu) = self.tracker.owners.get(&tid).copied() else { return };
        if self.throttling.is_measured() {
            self.throttling.switched_out(at, self.exec.stamped());
        }
        if let Some(open) = self.tracker.open.as_mut().filter(|open| open.vcpu == vcpu)
            && let Some(in_at) = open.in_at.take()
        {
            open.ran += at.saturating_since(in_at);
            open.last_out = at;
        }
        let Some(vcpu_handle) = self.vcpu_handle(vcpu).filter(|vcpu_handle| !vcpu_handle.trapped)
        else {
            return;
        };
        if !preempted && vcpu_handle.suppose(tid, false) {
            let blocked = !vcpu_handle.is_runnable();
            self.stirred |= blocked;
            if blocked && self.tracker.open.as_ref().is_some_and(|o| o.vcpu == vcpu) {
                self.close(None, End::Blocked);
            }
        }
    }

    fn take_change(&mut self) {
        let Some(change) = self.tracker.changes.pop_front() else { return };
        let (vcpu, at) = (change.vcpu, change.at);
        let Some(index) = self.index(vcpu) else { return };
        self.vcpu_handles[index].trapped = change.frozen;
        self.vcpu_handles[index].read_mode = change.next;
        let on_core = self.tracker.open.as_ref().filter(|open| open.vcpu == vcpu);
        match on_core.map(|open| open.in_at) {
            Some(in_at) => {
                let last_out = self.tracker.open.as_ref().map_or(at, |open| open.last_out);
                self.last_ran(at, if in_at.is_some() { at } else { last_out });
                self.close(Some((at, change.meter_ns)), change.end);
                // On the core all along, or only read: it goes on at once, unless it goes away.
                let goes_on = in_at.is_some() || change.end == End::Metered;
                if goes_on && !change.frozen && change.end != End::Moved {
                    let mode = change.next;
                    let in_at = in_at.map(|_| at);
                    let open =
                        Open { vcpu, mode, from: at, in_at, last_out: at, ran: Duration::ZERO };
                    self.tracker.open = Some(open);
                }
            }
            None => {
                self.settle_last(index, change.mode, change.meter_ns);
                self.report_rest(index, &change);
            }
        }
    }
}

impl<E: Executor> Core<E> {
    /// Ends the open segment: at the given instant with the given meter reading, or at its last
    /// switch-out with the time between its records.
    fn close(&mut self, read: Option<(Instant, u64)>, end: End) {
        let Some(open) = self.tracker.open.take() else { return };
        let core = self.id;
        let length = self.outbox.len();
        let Some(vcpu_handle) = self.vcpu_handle(open.vcpu) else { return };
        let (to, service_ns) = match read {
            // Within the meter: the two clocks differ by a microsecond at each switch.
            Some((at, meter_ns)) => {
                (at, meter_ns.saturating_sub(vcpu_handle.reported_ns[open.mode as usize]))
            }
            None => (open.last_out, vcpu_handle.stretched(open.ran.ticks())),
        };
        vcpu_handle.reported_ns[open.mode as usize] += service_ns;
        (vcpu_handle.last_closed, vcpu_handle.last_reported) = (Some(length), Some(length));
        let usage = Usage { service: Duration::from_nanos(service_ns), ..Usage::default() };
        let (vcpu, mode, from) = (open.vcpu, open.mode, open.from);
        let segment = Segment { vcpu, core, mode, from, to, usage, end };
        #[cfg(feature = "faults")]
        if self.fault == Some(crate::Fault::CountedTwice) && end == End::LimitReached {
            self.outbox.push((to, Event::Ran(segment)));
        }
        self.outbox.push((to, Event::Ran(segment)));
    }

    /// Gives the last segment that a VCPU handle closed the rest of the meter beyond what was
    /// reported.
    fn settle_last(&mut self, index: usize, mode: Mode, meter_ns: u64) {
        let vcpu_handle = &mut self.vcpu_handles[index];
        let Some(last) = vcpu_handle.last_closed.take() else { return };
        let Some((_, Event::Ran(segment))) = self.outbox.get_mut(last) else { return };
        let reported_ns = &mut vcpu_handle.reported_ns[mode as usize];
        if segment.vcpu != vcpu_handle.id || segment.mode != mode {
            return;
        }
        let service_ns = segment.usage.service.ticks();
        // Negative where the records showed a little more than the meter: taken back as far as
        // there.
        let (more, less) =
            (meter_ns.saturating_sub(*reported_ns), reported_ns.saturating_sub(meter_ns));
        let exact_ns = (service_ns + more).saturating_sub(less);
        *reported_ns = *reported_ns - service_ns + exact_ns;
        segment.usage.service = Duration::from_nanos(exact_ns);
    }

    /// Reports what no record showed, as one segment before the change: records may be lost, and a
    /// policy that never learns of service would wait for ever for the limit to be reached.
    fn report_rest(&mut self, index: usize, change: &Change) {
        let core = self.id;
        let vcpu_handle = &mut self.vcpu_handles[index];
        let reported_ns = &mut vcpu_handle.reported_ns[change.mode as usize];
        let rest_ns = change.meter_ns.saturating_sub(*reported_ns);
        // What switching in and out costs is reported with the next segment here.
        let reported_later =
            !matches!(change.end, End::LimitReached | End::MemorySpent | End::Moved);
        // A VCPU at its memory limit is so by the end of a segment, of whatever length.
        let nothing = rest_ns == 0 && change.end != End::MemorySpent;
        if rest_ns < SWITCHES_NS && reported_later || nothing {
            return;
        }
        *reported_ns += rest_ns;
        vcpu_handle.last_reported = Some(self.outbox.len());
        let usage = Usage { service: Duration::from_nanos(rest_ns), ..Usage::default() };
        let from = vcpu_handle.began(change.at, rest_ns);
        let (vcpu, mode, to, end) = (change.vcpu, change.mode, change.at, change.end);
        self.outbox.push((to, Event::Ran(Segment { vcpu, core, mode, from, to, usage, end })));
    }

    /// Reports what VCPU handles took between their stop and the freeze, where that came late: what
    /// is trapped has no records, and one that overran its next limit is not raised either, so
    /// nothing else would ever report it.
    fn report_trapped(&mut self) {
        if !self.tracker.changes.is_empty() {
            return;
        }
        let core = self.id;
        for vcpu_handle in self.vcpu_handles.iter_mut().filter(|vcpu_handle| vcpu_handle.trapped) {
            let mode = vcpu_handle.read_mode;
            let rest_ns = vcpu_handle.unreported_ns(mode);
            if rest_ns >= SWITCHES_NS {
                let at = self.exec.now();
                vcpu_handle.reported_ns[mode as usize] += rest_ns;
                vcpu_handle.last_reported = Some(self.outbox.len());
                let service = Duration::from_nanos(rest_ns);
                let usage = Usage { service, ..Usage::default() };
                let from = vcpu_handle.began(at, rest_ns);
                let (vcpu, end) = (vcpu_handle.id, End::Preempted);
                let segment = Segment { vcpu, core, mode, from, to: at, usage, end };
                self.outbox.push((at, Event::Ran(segment)));
            }
        }
    }

    /// Gives the last segment that was reported of each VCPU handle what its programs have gained
    /// since, and what they did to memory; only where `any` may have been reported since this was
    /// done last.
    fn report_counts(&mut self, any: bool) {
        if any {
            self.report_memory();
        }
        self.report_spent();
        self.note_throttling();
        if !any {
            return;
        }
        for vcpu_handle in &mut self.vcpu_handles {
            let Some(last) = vcpu_handle.last_reported.take() else { continue };
            if let Some((_, Event::Ran(segment))) = self.outbox.get_mut(last) {
                segment.usage.instructions += vcpu_handle.handle.progress();
            }
        }
    }

    /// Makes the reported segments of all VCPU handles that are off the core equal to their meters.
    fn reconcile(&mut self) {
        for index in 0..self.vcpu_handles.len() {
            let vcpu_handle = &mut self.vcpu_handles[index];
            if vcpu_handle.last_closed.is_none() {
                continue;
            }
            let on_core =
                self.tracker.open.as_ref().is_some_and(|open| open.vcpu == vcpu_handle.id);
            if on_core {
                vcpu_handle.last_closed = None;
                continue;
            }
            let (mode, id) = (vcpu_handle.mode(), vcpu_handle.id);
            let result = self.settle(index);
            let meter_ns = self.vcpu_handles[index].meter(mode).ticks();
            self.settle_last(index, mode, meter_ns);
            self.report(result, maracas_core::contract::Refused::Stop(id));
        }
    }

    /// After lost records: asks the kernel what threads there are and believes that all may run.
    fn start_over(&mut self, at: Instant) {
        if let Some(open) = &mut self.tracker.open {
            open.last_out = at;
        }
        self.close(None, End::Preempted);
        for index in 0..self.vcpu_handles.len() {
            self.rescan(index);
            self.vcpu_handles[index].suppose_runnable();
        }
        self.stirred = true;
    }

    /// Learns the threads of a VCPU handle anew. A new one there has no real-time priority unless
    /// the VCPU handle has: its class is not known.
    pub fn rescan(&mut self, index: usize) {
        let vcpu_handle = &mut self.vcpu_handles[index];
        let (id, mut result) = (vcpu_handle.id, vcpu_handle.rescan());
        if !matches!(vcpu_handle.level, Level::Foreground(_)) {
            result = result.and(vcpu_handle.demote());
        }
        self.own_threads(index);
        self.report(result, maracas_core::contract::Refused::Start(id));
    }

    /// After the kernel was asked for the threads of a VCPU handle: whose records are whose.
    pub(crate) fn own_threads(&mut self, index: usize) {
        let vcpu_handle = &mut self.vcpu_handles[index];
        if std::mem::take(&mut vcpu_handle.relisted) {
            let owners = &mut self.tracker.owners;
            owners.retain(|tid, owner| *owner != vcpu_handle.id || vcpu_handle.place(*tid).is_ok());
            owners.extend(vcpu_handle.threads().iter().map(|thread| (thread.tid, vcpu_handle.id)));
        }
    }
}
