//! Follows a run and reports to a listener what happened as whole things: runs, waits, jobs,
//! budgets. The trace, the chart and the lists are listeners.

use crate::memory_gate::MemoryGate;
use crate::pieces::{Part, Splitter, consumed_by};
use maracas_core::contract::{
    End, Event, Limit, Mode, Observer, Plan, RunQueue, Sample, Segment, Usage,
};
use maracas_core::dispatch::Readings;
use maracas_core::journal::{Header, JournalError, Note, Reader, Record};
use maracas_core::{CoreId, Duration, Instant, Job, JobId, Vcpu, VcpuId};
use std::collections::VecDeque;

/// One run on one core in one mode. Segments that touch are one span where the machine only read
/// its meters between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) vcpu: VcpuId,
    pub(crate) core: CoreId,
    pub(crate) mode: Mode,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) usage: Usage,
    pub(crate) end: End,
}

/// A VCPU had something to run and did not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    pub(crate) vcpu: VcpuId,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    /// The core that kept it out: it would have had to run in the background and the memory gate
    /// was closed, the allowance was spent, or its own memory meter stood at its limit.
    pub(crate) throttled: Option<CoreId>,
}

/// Part of a job on one core in one mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) job: JobId,
    pub(crate) core: CoreId,
    pub(crate) mode: Mode,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
    pub(crate) service: u64,
}

/// A job from release to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JobTrack {
    pub(crate) job: Job,
    /// When the job before it was over, where that is later than its release.
    pub(crate) begin: Instant,
    /// `None` where the run ended before the job did.
    pub(crate) completed: Option<Instant>,
    /// Service received, in ticks.
    pub(crate) service: u64,
    /// The journal was cut before it told of its end.
    pub(crate) is_cut: bool,
}

impl JobTrack {
    /// Whether it was unfinished at its deadline, as far as a run that ended at `end` can show. One
    /// that was cut may have ended in time by a record that is not there.
    pub(crate) fn missed(&self, end: Instant) -> bool {
        match self.completed {
            Some(at) => at > self.job.deadline,
            None => !self.is_cut && self.job.deadline <= end,
        }
    }
}

/// What the follower reports; everything may be ignored.
pub(crate) trait Listener {
    /// A VCPU is there, or has a name now.
    fn named(&mut self, _vcpu: VcpuId, _name: &str) {}
    fn introduced(&mut self, _vcpu: &Vcpu) {}
    /// A VCPU had nothing to run and has now.
    fn woke(&mut self, _vcpu: VcpuId, _at: Instant) {}
    fn span(&mut self, _span: &Span) {}
    fn wait(&mut self, _wait: &Wait) {}
    /// It had nothing to run, after it once had.
    fn idle(&mut self, _vcpu: VcpuId, _from: Instant, _to: Instant) {}
    fn piece(&mut self, _piece: &Piece) {}
    /// Called once the job is over, or the run.
    fn job(&mut self, _job: &JobTrack, _end: Option<Instant>) {}
    /// How much of the foreground budget that the plan grants is left.
    fn budget(&mut self, _vcpu: VcpuId, _at: Instant, _left: Duration) {}
    fn sampled(&mut self, _at: Instant, _sample: &Sample) {}
}

/// Follows one run.
#[derive(Clone, Debug)]
pub(crate) struct Follower<L> {
    pub(crate) listener: L,
    vcpus: Vec<Track>,
    run_queues: Vec<MemoryGate>,
    /// What was asked of the policy and not answered, in order.
    asked: Vec<Vcpu>,
    /// The journal has no end ([`Note::Cut`]).
    is_cut: bool,
}

#[derive(Clone, Default, Debug)]
struct Track {
    /// Since when it waits; `None` while it is blocked, or runs on after a meter reading.
    waiting: Option<Instant>,
    /// Since when it has nothing to run; `None` before it first had, too.
    idle: Option<Instant>,
    /// A span that may go on.
    held: Option<Span>,
    /// The core whose memory gate keeps it out.
    kept_out: Option<CoreId>,
    /// Changes of `kept_out` since the last segment.
    kept_out_changes: VecDeque<(Instant, Option<CoreId>)>,
    splitter: Splitter,
    jobs: VecDeque<JobTrack>,
    job_over: Instant,
    budget: Budget,
    /// Its background meter.
    background: Duration,
    /// Its memory meter.
    metered: u64,
}

/// One VCPU's meters. Only of one that has something to run is it asked what keeps it out.
struct Meters<'a>(&'a Track);

impl Readings for Meters<'_> {
    fn runnable(&self, _: VcpuId) -> bool {
        true
    }
    fn meter(&self, _: VcpuId, mode: Mode) -> Duration {
        match mode {
            Mode::Foreground => Duration::from_ticks(self.0.budget.meter),
            Mode::Background => self.0.background,
        }
    }
    fn memory(&self, _: VcpuId) -> u64 {
        self.0.metered
    }
}

/// The foreground meter against its limit.
#[derive(Clone, Default, Debug)]
struct Budget {
    meter: u64,
    limit: Option<Limit>,
    /// New marks that fall into a segment not yet reported, or are to come.
    changes: VecDeque<(Instant, Limit)>,
}

impl<L: Listener> Follower<L> {
    pub(crate) fn new(header: &Header, mut listener: L) -> Self {
        for (vcpu, name) in header.system.vcpus.iter().zip(&header.names) {
            listener.named(vcpu.id, name);
        }
        header.system.vcpus.iter().for_each(|vcpu| listener.introduced(vcpu));
        let (vcpus, run_queues, asked) = (Vec::new(), Vec::new(), Vec::new());
        Self { listener, vcpus, run_queues, asked, is_cut: false }
    }

    /// Follows a whole journal; returns its end beside the listener.
    pub(crate) fn journal(
        bytes: &[u8],
        listener: impl FnOnce(&Header) -> L,
    ) -> Result<(L, Instant), JournalError> {
        let (header, reader) = Reader::open(bytes)?;
        let mut follower = Self::new(&header, listener(&header));
        let mut end = Instant::ZERO;
        for record in reader {
            end = follower.record(&record?).unwrap_or(end);
        }
        Ok((follower.finish(end), end))
    }

    /// Takes in one record. Returns the instant of the end, where this was the last.
    pub(crate) fn record(&mut self, record: &Record) -> Option<Instant> {
        match record {
            Record::Event { at, event } => self.event(*at, event),
            Record::Planned(decision) => {
                for (core, run_queue) in &decision.run_queues {
                    self.run_queue_changed(decision.now, *core, run_queue);
                }
                for (vcpu, verdict) in &decision.verdicts {
                    self.answered(*vcpu, verdict.is_ok());
                }
            }
            Record::Note { note: Note::Name { vcpu, name }, .. } => {
                self.listener.named(*vcpu, name);
            }
            Record::Note { note: Note::Cut { .. }, .. } => self.is_cut = true,
            Record::Note { .. } | Record::Gap(_) => {}
            Record::End(at) => return Some(*at),
        }
        None
    }

    /// The first request of a VCPU was answered.
    fn answered(&mut self, vcpu: VcpuId, admitted: bool) {
        if let Some(place) = self.asked.iter().position(|asked| asked.id == vcpu) {
            let asked = self.asked.remove(place);
            if admitted {
                self.listener.introduced(&asked);
            }
        }
    }

    /// Reports what is still under way at the end of the run.
    pub(crate) fn finish(mut self, end: Instant) -> L {
        for index in 0..self.vcpus.len() {
            let vcpu = VcpuId(index as u32);
            self.let_go(vcpu);
            // Where the journal was cut it may run, and not wait.
            if !self.is_cut {
                self.waited(vcpu, end);
            }
            self.idled(vcpu, end);
            let track = &mut self.vcpus[index];
            track.budget.report_changes(vcpu, end, &mut self.listener);
            for mut job in track.jobs.drain(..) {
                job.is_cut = self.is_cut;
                self.listener.job(&job, Some(end));
            }
        }
        self.listener
    }

    fn track(&mut self, vcpu: VcpuId) -> &mut Track {
        let index = vcpu.0 as usize;
        if self.vcpus.len() <= index {
            self.vcpus.resize_with(index + 1, Track::default);
        }
        &mut self.vcpus[index]
    }

    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        let track = self.track(vcpu);
        if track.waiting.is_none() && track.held.is_none() {
            track.waiting = Some(at);
            self.idled(vcpu, at);
            self.listener.woke(vcpu, at);
        }
    }

    fn ran(&mut self, segment: &Segment) {
        let vcpu = segment.vcpu;
        self.woke(vcpu, segment.from);
        let held = self.track(vcpu).held;
        let goes_on = held.filter(|held| {
            (held.core, held.mode, held.to) == (segment.core, segment.mode, segment.from)
        });
        let mut span = Span {
            vcpu,
            core: segment.core,
            mode: segment.mode,
            from: segment.from,
            to: segment.to,
            usage: segment.usage,
            end: segment.end,
        };
        if let Some(held) = goes_on {
            span.from = held.from;
            span.usage = added(&held.usage, &segment.usage);
        } else {
            self.let_go(vcpu);
            self.waited(vcpu, segment.from);
        }
        self.pieces(segment);
        let Self { vcpus, listener, .. } = self;
        let track = &mut vcpus[vcpu.0 as usize];
        track.budget.charge(segment, listener);
        if segment.mode == Mode::Background {
            track.background += segment.usage.service;
        }
        track.metered += segment.usage.metered();
        track.held = Some(span);
        track.waiting = None;
        if segment.end != End::Metered {
            self.let_go(vcpu);
        }
    }

    /// Reports the held span: it is over.
    fn let_go(&mut self, vcpu: VcpuId) {
        let Some(span) = self.track(vcpu).held.take() else { return };
        if span.from < span.to {
            self.listener.span(&span);
        }
        let track = self.track(vcpu);
        match span.end {
            End::Blocked => track.idle = Some(span.to),
            End::Exited => {}
            End::Preempted | End::LimitReached | End::MemorySpent | End::Moved | End::Metered => {
                track.waiting = Some(span.to);
            }
        }
        self.review(vcpu, span.core, span.to);
    }

    /// Reports the idle time that ends now.
    fn idled(&mut self, vcpu: VcpuId, now: Instant) {
        if let Some(from) = self.track(vcpu).idle.take().filter(|from| *from < now) {
            self.listener.idle(vcpu, from, now);
        }
    }

    /// Reports the wait that ends now, cut where the memory gate closed or opened.
    fn waited(&mut self, vcpu: VcpuId, now: Instant) {
        let Self { vcpus, listener, .. } = self;
        let track = &mut vcpus[vcpu.0 as usize];
        let Some(mut from) = track.waiting.take() else { return };
        let mut tell = |from: Instant, to: Instant, throttled| {
            if from < to {
                listener.wait(&Wait { vcpu, from, to, throttled });
            }
        };
        while let Some((at, kept_out)) = track.kept_out_changes.pop_front() {
            if at > from {
                tell(from, at.min(now), track.kept_out);
                from = at.min(now);
            }
            track.kept_out = kept_out;
        }
        tell(from, now, track.kept_out);
    }

    fn pieces(&mut self, segment: &Segment) {
        let Self { vcpus, listener, .. } = self;
        let track = &mut vcpus[segment.vcpu.0 as usize];
        let service = segment.usage.service.ticks();
        let mut given = 0;
        let (jobs, job_over) = (&mut track.jobs, &mut track.job_over);
        track.splitter.split(segment.from, segment.to, |part| match part {
            Part::JobOver => {
                if let Some(job) = jobs.pop_front_if(|job| job.completed.is_some()) {
                    *job_over = job.completed.unwrap_or(*job_over);
                    listener.job(&job, None);
                }
                if let Some(next) = jobs.front_mut() {
                    next.begin = next.job.release.max(*job_over);
                }
            }
            Part::Piece(None, _, to) => given = consumed_by(service, segment.from, segment.to, to),
            Part::Piece(Some(index), from, to) => {
                let by_end = consumed_by(service, segment.from, segment.to, to);
                let (core, mode, service) = (segment.core, segment.mode, by_end - given);
                given = by_end;
                let job = JobId { vcpu: segment.vcpu, index };
                if let Some(running) = jobs.front_mut().filter(|running| running.job.id == job) {
                    running.service += service;
                    listener.piece(&Piece { job, core, mode, from, to, service });
                }
            }
        });
    }

    fn released(&mut self, job: &Job) {
        let track = self.track(job.id.vcpu);
        track.jobs.push_back(JobTrack {
            job: *job,
            begin: job.release.max(track.job_over),
            completed: None,
            service: 0,
            is_cut: false,
        });
        track.splitter.released(job.id.index, job.release);
    }

    fn completed(&mut self, id: JobId, at: Instant) {
        let track = self.track(id.vcpu);
        track.splitter.completed(id.index, at);
        if let Some(job) = track.jobs.iter_mut().find(|job| job.job.id == id) {
            job.completed = Some(at);
        }
    }

    pub(crate) fn run_queue_changed(&mut self, now: Instant, core: CoreId, run_queue: &RunQueue) {
        let index = core.0 as usize;
        if self.run_queues.len() <= index {
            self.run_queues.resize_with(index + 1, MemoryGate::default);
        }
        for grant in run_queue.foreground.iter().filter(|grant| !grant.is_ahead()) {
            self.track(grant.vcpu).budget.granted(now, grant.until);
        }
        for grant in run_queue.foreground.iter().filter(|grant| grant.is_ahead()) {
            self.track(grant.vcpu).budget.granted_ahead(now.max(grant.from), grant.until);
        }
        let memory_gate = &mut self.run_queues[index];
        let before = memory_gate.run_queue();
        let matters = MemoryGate::matters(before) || MemoryGate::matters(run_queue);
        let old = matters.then(|| before.clone());
        memory_gate.run_queue_changed(run_queue);
        if let Some(old) = old {
            self.review_all(&old, core, now);
            self.review_all(run_queue, core, now);
        }
    }

    fn review_all(&mut self, run_queue: &RunQueue, core: CoreId, now: Instant) {
        for grant in run_queue.foreground.iter().chain(&run_queue.background) {
            self.review(grant.vcpu, core, now);
        }
    }

    /// Looks again whether the memory gate of `core` keeps `vcpu` out.
    fn review(&mut self, vcpu: VcpuId, core: CoreId, now: Instant) {
        let Some(memory_gate) = self.run_queues.get(core.0 as usize) else { return };
        let Some(track) = self.vcpus.get_mut(vcpu.0 as usize) else { return };
        if track.waiting.is_none() && track.held.is_none() {
            // It is blocked: what the memory gate did in the meantime will not matter.
            track.kept_out_changes.clear();
        }
        let matters = MemoryGate::matters(memory_gate.run_queue());
        let closed = matters && memory_gate.keeps_out(vcpu, now, &Meters(track));
        let kept_out = closed.then_some(core);
        let last = track.kept_out_changes.back().map_or(track.kept_out, |(_, last)| *last);
        if last != kept_out {
            track.kept_out_changes.push_back((now, kept_out));
        }
    }

    fn allowance_spent(&mut self, core: CoreId, at: Instant) {
        let index = core.0 as usize;
        if let Some(memory_gate) = self.run_queues.get_mut(index) {
            memory_gate.spent();
            let run_queue = memory_gate.run_queue().clone();
            self.review_all(&run_queue, core, at);
        }
    }
}

impl<L: Listener> Observer for Follower<L> {
    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::Released(job) => {
                self.released(job);
                self.woke(job.id.vcpu, at.min(job.release));
            }
            Event::Completed(id) => self.completed(*id, at),
            Event::Woke { vcpu, .. } => self.woke(*vcpu, at),
            Event::AllowanceSpent { core } => self.allowance_spent(*core, at),
            Event::Sampled(sample) => self.listener.sampled(at, sample),
            Event::Arrived(vcpu) => {
                self.listener.introduced(vcpu);
                self.asked.push(vcpu.clone());
            }
            Event::Changed(vcpu) => self.asked.push(vcpu.clone()),
            Event::Left(vcpu) => {
                self.let_go(*vcpu);
                self.waited(*vcpu, at);
                self.idled(*vcpu, at);
            }
            Event::Utilized { .. } | Event::ServiceDone(_) | Event::Failed { .. } => {}
        }
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        for core in plan.dirty().iter() {
            self.run_queue_changed(now, core, plan.run_queue(core));
        }
        for (vcpu, verdict) in plan.verdicts() {
            self.answered(*vcpu, verdict.is_ok());
        }
    }
}

impl Budget {
    fn granted(&mut self, now: Instant, limit: Limit) {
        // What an earlier plan had ahead is not to come any more.
        self.changes.retain(|(at, _)| *at <= now);
        self.granted_ahead(now, limit);
    }
    fn granted_ahead(&mut self, now: Instant, limit: Limit) {
        let last = self.changes.back().map(|(_, limit)| *limit).or(self.limit);
        if last != Some(limit) {
            self.changes.push_back((now, limit));
        }
    }
    fn charge(&mut self, segment: &Segment, listener: &mut impl Listener) {
        self.report_changes(segment.vcpu, segment.from, listener);
        let (service, from, to) = (segment.usage.service.ticks(), segment.from, segment.to);
        if segment.mode == Mode::Foreground {
            let before = self.meter;
            self.tell(segment.vcpu, from, listener);
            while let Some((at, limit)) = self.changes.pop_front_if(|(at, _)| *at < to) {
                self.limit = Some(limit);
                self.meter = before + consumed_by(service, from, to, at);
                self.tell(segment.vcpu, at, listener);
            }
            self.meter = before + service;
            self.tell(segment.vcpu, to, listener);
        }
    }
    /// Reports the changes up to `until`, over which the meter stood still.
    fn report_changes(&mut self, vcpu: VcpuId, until: Instant, listener: &mut impl Listener) {
        while let Some((at, limit)) = self.changes.pop_front_if(|(at, _)| *at <= until) {
            self.limit = Some(limit);
            self.tell(vcpu, at, listener);
        }
    }
    fn tell(&self, vcpu: VcpuId, at: Instant, listener: &mut impl Listener) {
        if let Some(limit) = self.limit.filter(|limit| *limit != Limit::NEVER) {
            let meter = Duration::from_ticks(self.meter);
            listener.budget(vcpu, at, limit.0.saturating_sub(meter));
        }
    }
}

fn added(a: &Usage, b: &Usage) -> Usage {
    let mut sum = *a;
    sum.add(b);
    sum
}

#[cfg(test)]
mod tests;
