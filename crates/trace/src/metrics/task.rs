//! What one VCPU was promised, asked for and got.

use super::causes::Thefts;
use super::place;
use super::windows::Windows;
use crate::pieces::{Part, Splitter};
use maracas_core::contract::{self, End, Grant, JobRun, Mode, Segment, Usage};
use maracas_core::{
    Arrival, CoreId, CoreSet, Duration, Instant, Job, JobId, Reservation, Role, Short, Vcpu, VcpuId,
};

/// One VCPU; durations in ticks.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: VcpuId,
    pub(super) name: String,
    pub(super) reservation: Reservation,
    role: Role,
    /// False for ids that no event named, and for VCPUs that were refused.
    pub(super) present: bool,
    /// What it used in the foreground and in the background.
    pub(super) used: [Usage; 2],
    pub(super) cores: CoreSet,
    pub(super) jobs: Jobs,
    pub(super) pieces: Pieces,
    pub(super) windows: Windows,
    /// A line has had a grant of foreground time for it: the policy promises it something.
    pub(super) was_promised: bool,
    /// When there were first periods that could be decided on, as a number of decisions, and which
    /// period was open then.
    ripe: Option<(u64, Instant)>,
    demand: Demand,
    /// Its demand comes as jobs: its periods begin at the first release.
    by_jobs: bool,
    /// In the order in which it asked, which is that of the verdicts.
    asked: Short<Asked>,
    /// A reservation that was granted at this instant, and the class on which it is meant, where
    /// what ran until then is not reported yet.
    granted: Option<(Instant, Option<u32>)>,
    left: Option<Instant>,
    /// Reads of memory were promised to it, and it may do no more of them.
    limited: bool,
    pub(super) held: Held,
    finished: bool,
}

/// How its memory meter at its limit held it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Held {
    /// Since when it stands there.
    since: Option<Instant>,
    /// For how long it did before.
    pub(super) total: Duration,
}

/// What it asked of the policy and was not yet answered.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// To be let in.
    Arrival,
    /// To have this reservation in place of its own, meant on a class of this speed, and whether
    /// it limits reads of memory.
    Change { reservation: Reservation, meant_milli: Option<u32>, limited: bool },
}

/// How a run is brought to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    /// When it ended, or was cut.
    pub(super) end: Instant,
    /// For how long promises held.
    pub(super) until: Instant,
    /// Where it was cut, before which instant all is reported that ran on any core; `None` = it has
    /// its end, and all is.
    pub(super) cores_told: Option<Instant>,
    /// Of no VCPU all is told beyond this.
    pub(super) told_most: Instant,
}

/// Whether it has something to run.
#[derive(Clone, Copy, Debug)]
enum Demand {
    /// It never had.
    NotYet,
    /// Since this instant it has not.
    Blocked(Instant),
    /// Since this instant, or before, it has.
    Runnable(Instant),
}

/// Jobs as they are released and completed.
#[derive(Clone, Default, Debug)]
pub(super) struct Jobs {
    pub(super) released: u64,
    pub(super) completed: u64,
    pub(super) misses: u64,
    pub(super) tardiness_max: Duration,
    pub(super) response_max: Duration,
    pub(super) response_sum: u128,
    pub(super) pending: Short<Job>,
}

/// Pieces, counted as [`super`] says.
#[derive(Clone, Default, Debug)]
pub(super) struct Pieces {
    /// Segments are reported in their order, so that a job is over with the segment that ended it.
    pub(super) in_order: bool,
    splitter: Splitter,
    last: Option<Piece>,
    pub(super) preemptions: u64,
    pub(super) migrations: u64,
    pub(super) task_migrations: u64,
}

/// The last piece.
#[derive(Clone, Copy, Debug)]
struct Piece {
    core: CoreId,
    to: Instant,
    end: End,
    /// Its job is over.
    job_over: bool,
}

impl Piece {
    /// What `segment` is up to an instant.
    const fn of(segment: &Segment, to: Instant) -> Self {
        Self { core: segment.core, to, end: segment.end, job_over: false }
    }
}

impl Task {
    pub(super) fn new(id: VcpuId) -> Self {
        Self {
            id,
            name: id.to_string(),
            reservation: Reservation::implicit(Duration::ZERO, Duration::ZERO),
            role: Role::Main,
            present: false,
            used: [Usage::default(); 2],
            cores: CoreSet::EMPTY,
            jobs: Jobs::default(),
            pieces: Pieces::default(),
            windows: Windows::default(),
            was_promised: false,
            ripe: None,
            demand: Demand::NotYet,
            by_jobs: false,
            asked: Short::default(),
            granted: None,
            left: None,
            limited: false,
            held: Held::default(),
            finished: false,
        }
    }
    /// Learns what it is promised; C is time on a class of speed `meant_milli`, or on whichever.
    pub(super) fn introduce(&mut self, vcpu: &Vcpu, meant_milli: Option<u32>) {
        self.present = true;
        (self.reservation, self.role) = (vcpu.reservation, vcpu.role);
        self.limited = vcpu.bandwidth.is_some();
        self.by_jobs = vcpu.arrival != Arrival::None;
        self.windows.reserve(&vcpu.reservation, meant_milli, Instant::ZERO, self.by_jobs);
    }
    /// It asks to be admitted; until the verdict it counts as present.
    pub(super) fn asks_in(&mut self) {
        self.asked.push_back(Asked::Arrival);
    }
    /// It asks for another reservation.
    pub(super) fn asks_change(&mut self, vcpu: &Vcpu, meant_milli: Option<u32>) {
        let (reservation, limited) = (vcpu.reservation, vcpu.bandwidth.is_some());
        self.asked.push_back(Asked::Change { reservation, meant_milli, limited });
    }
    /// The policy's verdict on what it asked first.
    pub(super) fn answered(&mut self, now: Instant, admitted: bool) {
        match self.asked.pop_front() {
            // A VCPU that was turned away at the memory gate is not reported.
            Some(Asked::Arrival) => self.present = admitted,
            Some(Asked::Change { reservation, meant_milli, limited }) if admitted => {
                self.limited = limited;
                self.reserve(Instant::ZERO);
                self.granted = Some((now, meant_milli));
                let runs = matches!(self.demand, Demand::Runnable(_)) && !self.by_jobs;
                self.reservation = reservation;
                if !runs {
                    self.reserve(Instant::ZERO);
                }
            }
            Some(Asked::Change { .. }) | None => {}
        }
    }
    /// A reservation that was granted sets in, at `reported` where what ran when it was granted is
    /// reported up to there.
    fn reserve(&mut self, reported: Instant) {
        if let Some((granted, meant_milli)) = self.granted.take() {
            let at = reported.max(granted);
            self.windows.close_until(at, self.blocked_since());
            self.windows.reserve(&self.reservation, meant_milli, at, self.by_jobs);
        }
    }
    /// It is gone.
    pub(super) fn left(&mut self, at: Instant) {
        self.reserve(Instant::ZERO);
        self.let_go(at);
        self.windows.close_until(at, self.blocked_since());
        self.jobs.overdue(at);
        self.demand = Demand::Blocked(at);
        self.left = Some(at);
    }
    /// Its memory meter.
    pub(super) const fn metered(&self) -> u64 {
        self.used[0].metered() + self.used[1].metered()
    }
    /// A line has this grant for it from `now` on.
    pub(super) fn granted(&mut self, now: Instant, grant: &Grant) {
        if !grant.memory.is_reached(self.metered()) {
            self.let_go(now);
        }
    }
    /// Its memory meter is below its limit again.
    #[inline]
    fn let_go(&mut self, now: Instant) {
        if let Some(since) = self.held.since {
            self.held.since = None;
            self.held.total += now.saturating_since(since);
            self.windows.let_go(now);
        }
    }
    /// Whether its budget is a promise that is judged period by period: foreground time was granted
    /// to it, and it is a server of its own. (I/O VCPUs inherit the periods of those that they
    /// serve; those that carry service requests run when there is one.)
    pub(super) fn is_promised(&self) -> bool {
        self.was_promised && !self.reservation.is_none() && self.role == Role::Main
    }
    /// Decides which of its periods were stolen, of all of them.
    pub(super) fn settle(&mut self, thefts: &Thefts) {
        self.windows.judge.settle(Instant::NEVER, self.cores, thefts);
    }
    /// The same of those of which everything is reported by now. What an agent did late, and that
    /// it was late, is reported when it wakes, in any order, around the decision that follows: so
    /// many decisions later all of it is.
    pub(super) fn settle_ripe(&mut self, decisions: u64, thefts: &Thefts) {
        const AROUND: u64 = 16;
        let &mut (since, until) = self.ripe.get_or_insert((decisions, self.windows.now()));
        if decisions == 0 || decisions >= since + AROUND {
            self.ripe = None;
            self.windows.judge.settle(until, self.cores, thefts);
        }
    }
    /// Whether it is there: present, and not gone again.
    pub(super) const fn is_there(&self) -> bool {
        self.present && self.left.is_none()
    }
    /// Jobs unfinished at their deadline, by `at`. What is reported late must not be taken back:
    /// where more may come, a job counts only when it is a whole period overdue, or done too late.
    pub(super) fn misses_by(&self, at: Instant, is_all_reported: bool) -> u64 {
        let grace = if is_all_reported { Duration::ZERO } else { self.reservation.period };
        let is_overdue = |job: &&Job| job.deadline.saturating_add(grace) <= at;
        self.jobs.misses + self.jobs.pending.iter().filter(is_overdue).count() as u64
    }
    /// Preemptions by `at`; where more may come, those that are certain.
    pub(super) fn preemptions_by(&self, at: Instant, is_all_reported: bool) -> u64 {
        if is_all_reported && !self.finished {
            return self.pieces.preemptions_by(at, self.jobs.released > 0);
        }
        self.pieces.preemptions
    }
    pub(super) const fn is_runnable(&self) -> bool {
        matches!(self.demand, Demand::Runnable(_))
    }
    const fn blocked_since(&self) -> Option<Instant> {
        match self.demand {
            Demand::Blocked(since) => Some(since),
            Demand::NotYet | Demand::Runnable(_) => None,
        }
    }

    /// Jobs released before `at`.
    pub(super) fn released_by(&self, at: Instant) -> u64 {
        let not_yet = self.jobs.pending.iter().filter(|job| job.release >= at);
        self.jobs.released - not_yet.count() as u64
    }

    /// Up to when all that it did is told. Where the run was cut, it may have run since its last
    /// piece or wake, and on a core since what was reported last of that; while it is blocked it
    /// does nothing.
    fn told(&self, finish: &Finish) -> Instant {
        let Some(cores_told) = finish.cores_told else { return finish.end };
        let own = match self.demand {
            Demand::NotYet | Demand::Blocked(_) => return finish.told_most,
            Demand::Runnable(since) => self.pieces.last.map_or(since, |last| last.to.max(since)),
        };
        own.max(cores_told).min(finish.told_most)
    }

    /// Brings periods and jobs up to the end of the run (or of its own stay), or to where that is
    /// told of it, once.
    pub(super) fn finish(&mut self, finish: &Finish) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let (end, told, is_cut) = (finish.end, self.told(finish), finish.cores_told.is_some());
        if self.left.is_none() {
            // What ran until another reservation was granted may be what is not told.
            if !is_cut || self.granted.is_none_or(|(at, _)| at <= told) {
                self.reserve(Instant::ZERO);
            }
            self.let_go(end);
            self.windows.close_until(told, self.blocked_since());
            self.pieces.preemptions = self.pieces.preemptions_by(told, self.jobs.released > 0);
            self.jobs.released = self.released_by(end);
            if is_cut {
                self.jobs.forget_due_from(told);
            }
            self.jobs.overdue(told);
        }
        self.windows.finish(finish.until.min(told));
    }

    #[inline]
    pub(super) fn woke(&mut self, at: Instant) {
        match self.demand {
            Demand::Runnable(_) => return,
            Demand::NotYet => {
                self.present = true;
                if !self.by_jobs {
                    self.windows.begin(at);
                }
            }
            Demand::Blocked(since) => self.windows.woke(since, at, self.by_jobs),
        }
        self.demand = Demand::Runnable(at);
    }

    /// It ran, on a core of speed `milli`.
    #[inline]
    pub(super) fn ran(&mut self, segment: &Segment, milli: u32) {
        self.woke(segment.from);
        // What runs when it is granted is metered at once: its segment ends then.
        let ends_then = |at| segment.from < at || segment.from == at && segment.end == End::Metered;
        if self.granted.is_some_and(|(at, _)| !ends_then(at)) {
            self.reserve(Instant::ZERO);
        }
        self.let_go(segment.from);
        if segment.end == End::MemorySpent && self.limited {
            self.held.since = Some(segment.to);
            self.windows.hold(segment.to);
        }
        self.cores.insert(segment.core);
        self.used[place(segment.mode)].add(&segment.usage);
        if segment.mode == Mode::Foreground {
            self.windows.serve(segment.from, segment.to, segment.usage.service.ticks(), milli);
        }
        if self.granted.is_some() {
            self.reserve(segment.to);
        }
        self.pieces.ran(segment, self.jobs.released > 0);
        if matches!(segment.end, End::Blocked | End::Exited) {
            match self.demand {
                // The wake that ended this block was reported before the block itself.
                Demand::Runnable(woken) if woken > segment.to => {
                    self.windows.woke(segment.to, woken, self.by_jobs);
                }
                Demand::Runnable(_) | Demand::NotYet | Demand::Blocked(_) => {
                    self.demand = Demand::Blocked(segment.to);
                }
            }
        }
    }

    #[inline]
    pub(super) fn released(&mut self, job: &Job) {
        self.jobs.released += 1;
        if self.by_jobs {
            self.windows.begin(job.release);
        }
        self.pieces.splitter.released(job.id.index, job.release);
        self.jobs.pending.push_back(*job);
    }

    /// A job as a whole; as its events, at less cost. False, with nothing done, where its events
    /// must be taken: before the first job that is complete, and where C is meant on a class of
    /// cores.
    #[inline]
    pub(super) fn job(&mut self, run: &JobRun<'_>) -> bool {
        let JobRun { job, completed, pieces } = run;
        let is_alone = self.jobs.pending.is_empty() && self.pieces.splitter.is_empty();
        let was_blocked = matches!(self.demand, Demand::Blocked(_));
        let is_plain = self.by_jobs && self.pieces.in_order && !self.windows.is_meant_on_a_class();
        if !is_alone || !was_blocked || !is_plain {
            return false;
        }
        self.woke(job.release);
        self.let_go(job.release);
        let service = self.pieces.job(pieces, &mut self.cores);
        self.used[place(Mode::Foreground)].service += service;
        if self.windows.serve_job(job.release, *completed, service.ticks()) {
            self.windows.rested(*completed);
        } else {
            self.serve_pieces(pieces, *completed);
        }
        self.jobs.in_time(*completed - job.release);
        self.demand = Demand::Blocked(*completed);
        true
    }

    /// Foreground service of a job that is in several periods.
    #[cold]
    fn serve_pieces(&mut self, pieces: &[contract::Piece], completed: Instant) {
        for piece in pieces {
            if piece.to == completed {
                self.windows.rested(completed);
            }
            self.windows.serve(piece.from, piece.to, (piece.to - piece.from).ticks(), 0);
        }
    }

    #[inline]
    pub(super) fn completed(&mut self, id: JobId, at: Instant) {
        self.pieces.splitter.completed(id.index, at);
        self.jobs.completed(id, at);
        // A core may be taken away before the program comes to block.
        let pending = &self.jobs.pending;
        if self.by_jobs && (pending.is_empty() || !pending.iter().any(|job| job.release <= at)) {
            self.windows.rested(at);
        }
    }
}

impl Jobs {
    fn completed(&mut self, id: JobId, at: Instant) {
        self.completed += 1;
        let Some(job) = self.pending.take(|job| job.id == id) else { return };
        self.responded(at.saturating_since(job.release));
        if at > job.deadline {
            self.missed(at - job.deadline);
        }
    }
    /// One was released and completed by its deadline.
    #[inline]
    fn in_time(&mut self, response: Duration) {
        self.released += 1;
        self.completed += 1;
        self.responded(response);
    }
    #[inline]
    fn responded(&mut self, response: Duration) {
        self.response_sum += u128::from(response.ticks());
        self.response_max = self.response_max.max(response);
    }
    /// Forgets what is pending and due at `told` or later: at that instant itself a job may end by
    /// a record that was cut off.
    fn forget_due_from(&mut self, told: Instant) {
        while self.pending.take(|job| job.deadline >= told).is_some() {}
    }
    /// Counts what is due by `end` and unfinished, and forgets all that is pending.
    fn overdue(&mut self, end: Instant) {
        while let Some(job) = self.pending.pop_front() {
            if job.deadline <= end {
                self.missed(end - job.deadline);
            }
        }
    }
    fn missed(&mut self, by: Duration) {
        self.misses += 1;
        self.tardiness_max = self.tardiness_max.max(by);
    }
}

impl Pieces {
    #[inline]
    fn ran(&mut self, segment: &Segment, has_jobs: bool) {
        if segment.from == segment.to {
            // A segment of no length is no piece, but it may say why the last one is over.
            if let Some(last) = self.last.as_mut().filter(|last| last.to == segment.from) {
                last.end = segment.end;
            }
            return;
        }
        while self.splitter.is_over(segment.from) {
            self.job_over();
        }
        if self.splitter.covers(segment.from, segment.to) {
            // Nearly always: it is part of one job.
            self.piece(segment.from, Piece::of(segment, segment.to), has_jobs);
            if self.in_order && self.splitter.is_over(segment.to) {
                self.job_over();
            }
            return;
        }
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.split(segment.from, segment.to, |part| match part {
            Part::JobOver => self.job_over(),
            // What a VCPU with jobs does between them is no VCPU's preemption.
            Part::Piece(None, ..) if has_jobs => {}
            Part::Piece(_, from, to) => self.piece(from, Piece::of(segment, to), has_jobs),
        });
        self.splitter = splitter;
    }

    /// The job of the last piece is over.
    #[inline]
    fn job_over(&mut self) {
        if let Some(last) = &mut self.last {
            last.job_over = true;
        }
    }

    #[inline]
    fn piece(&mut self, from: Instant, piece: Piece, has_jobs: bool) {
        if let Some(last) = self.last.replace(piece) {
            self.count(&last, from, piece.core, has_jobs);
        }
    }

    /// `last` is followed by a piece from `from` on, on `core`.
    #[inline]
    fn count(&mut self, last: &Piece, from: Instant, core: CoreId, has_jobs: bool) {
        let moved = last.core != core;
        let touching = !moved && last.to == from;
        if has_jobs && last.job_over {
            self.task_migrations += u64::from(moved);
        } else if has_jobs {
            self.preemptions += u64::from(!touching);
            self.migrations += u64::from(moved);
        } else {
            self.preemptions += u64::from(!touching && was_preempted(last.end));
            self.migrations += u64::from(moved);
        }
    }

    /// All pieces of a job, of which none was counted, and how long they are; puts into `cores`
    /// where it ran.
    #[inline]
    fn job(&mut self, pieces: &[contract::Piece], cores: &mut CoreSet) -> Duration {
        let (mut length, mut last) = (Duration::ZERO, self.last);
        for &contract::Piece { from, to, core, end } in pieces {
            length += to - from;
            cores.insert(core);
            if let Some(last) = last {
                self.count(&last, from, core, true);
            }
            last = Some(Piece { core, to, end, job_over: false });
        }
        self.last = last.map(|last| Piece { job_over: true, ..last });
        length
    }

    /// Changes of core within jobs and between them.
    pub(super) const fn all_migrations(&self) -> u64 {
        self.migrations + self.task_migrations
    }

    /// Preemptions by `at`, at which a VCPU without jobs may stand preempted.
    fn preemptions_by(&self, at: Instant, has_jobs: bool) -> u64 {
        let stands = self.last.is_some_and(|last| last.to < at && was_preempted(last.end));
        self.preemptions + u64::from(!has_jobs && stands)
    }
}

/// Whether a segment that ended so, and did not go on at once, was cut short while the VCPU had
/// more to run.
const fn was_preempted(end: End) -> bool {
    match end {
        End::Preempted | End::LimitReached | End::MemorySpent => true,
        End::Blocked | End::Moved | End::Metered | End::Exited => false,
    }
}
