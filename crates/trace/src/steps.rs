//! A run as a list of steps in the order of time: jobs begin, run, stop, wait and end. The formats
//! that want it so are written from it ([`crate::btf`], [`crate::sched_trace`]).
//!
//! Both know a task by a number and its jobs by another, and neither knows foreground from
//! background. Our jobs count from 0; here job N has the number N + 1, and 0 stands for the time of
//! a VCPU outside its jobs, which is all of it where a VCPU has none.

use crate::TraceError;
use crate::follow::{Follower, JobTrack, Listener, Piece, Span};
use crate::pieces::consumed_by;
use maracas_core::contract::End;
use maracas_core::journal::Reader;
use maracas_core::{CoreId, Instant, Reservation, Vcpu, VcpuId};
use std::collections::BTreeMap;

/// The number of the time outside jobs.
pub(crate) const NO_JOB: u32 = 0;

/// One step of one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) at: Instant,
    pub(crate) vcpu: VcpuId,
    /// See [`NO_JOB`].
    pub(crate) job: u32,
    /// Where it happens; of what happens on none, where the job runs next or ran last.
    pub(crate) core: CoreId,
    pub(crate) what: What,
}

/// What happens. Service is what the job got so far, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    /// Released, with its deadline; outside jobs, begun.
    Activated { deadline: Instant },
    /// It was blocked and has something to run again.
    Woke,
    /// Put on the core, for the first time or again.
    On { first: bool, service: u64 },
    /// Taken from the core, or blocked.
    Off { blocked: bool, service: u64 },
    /// Over while on the core.
    Over { service: u64 },
    /// Its end is known to be an instant at which it was on no core: a program may say so late.
    OverOff { before: Before, service: u64 },
}

/// What a job did before it was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Before {
    /// It never ran.
    New,
    Ready,
    Blocked,
}

impl What {
    /// Of steps at one instant those with a lower number come first: what leaves a core makes room
    /// for what comes.
    const fn rank(&self) -> u8 {
        match self {
            Self::Off { .. } | Self::Over { .. } => 0,
            Self::Activated { .. } | Self::Woke => 1,
            Self::On { .. } => 2,
            Self::OverOff { .. } => 3,
        }
    }
}

/// A VCPU as a task of such a format.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// As it was last, where it was changed.
    pub(crate) reservation: Reservation,
    /// The core of its first run.
    pub(crate) first_core: CoreId,
    /// The release of its first job.
    pub(crate) first_release: Instant,
}

/// A whole run.
pub(crate) struct Steps {
    /// By VCPU id.
    pub(crate) tasks: Vec<Task>,
    /// In the order of time.
    pub(crate) steps: Vec<Step>,
    ticks_per_ns: u64,
}

impl Steps {
    /// Follows the journal.
    pub(crate) fn of(journal: &[u8]) -> Result<Self, TraceError> {
        let (header, _) = Reader::open(journal)?;
        let (gathered, _) = Follower::journal(journal, |_| Gather::default())?;
        let (mut tasks, mut steps) = (Vec::new(), Vec::new());
        for (vcpu, track) in (0..).map(VcpuId).zip(gathered.tracks) {
            let (name, reservation) = (track.name.clone(), track.reservation);
            let first_core = track.runs.first().map_or(CoreId(0), |run| run.core);
            let first_release = track.jobs.first().map_or(Instant::ZERO, |job| job.job.release);
            tasks.push(Task { name, reservation, first_core, first_release });
            track.steps(vcpu, &mut steps);
        }
        steps.sort_by_key(|step| (step.at, step.what.rank()));
        Ok(Self { tasks, steps, ticks_per_ns: header.system.ticks_per_ns.max(1) })
    }
    /// Ticks in nanoseconds.
    pub(crate) const fn ns(&self, ticks: u64) -> u64 {
        ticks / self.ticks_per_ns
    }
}

/// What is gathered of the VCPUs, by id.
#[derive(Default)]
struct Gather {
    tracks: Vec<Track>,
}

/// What is gathered of one VCPU.
struct Track {
    name: String,
    reservation: Reservation,
    jobs: Vec<JobTrack>,
    runs: Vec<Run>,
    /// Pieces of jobs within a span that goes on.
    pieces: Vec<Piece>,
    /// When it last woke, until it runs.
    woke: Option<Instant>,
}

/// An execution of one job on one core, whatever its mode.
#[derive(Clone, Copy)]
struct Run {
    job: u32,
    core: CoreId,
    from: Instant,
    to: Instant,
    service: u64,
    /// When the VCPU woke before it.
    woke: Option<Instant>,
    end: RunEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    Preempted,
    Blocked,
    Exited,
}

/// How far a job is.
#[derive(Clone, Copy, Default)]
struct Progress {
    began: bool,
    blocked: Option<Instant>,
    service: u64,
    over: bool,
}

impl Gather {
    fn track(&mut self, vcpu: VcpuId) -> &mut Track {
        let index = vcpu.0 as usize;
        for id in self.tracks.len()..=index {
            self.tracks.push(Track {
                name: VcpuId(id as u32).to_string(),
                reservation: Reservation::NONE,
                jobs: Vec::new(),
                runs: Vec::new(),
                pieces: Vec::new(),
                woke: None,
            });
        }
        &mut self.tracks[index]
    }
}

impl Listener for Gather {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.track(vcpu).name = name.into();
    }
    fn introduced(&mut self, vcpu: &Vcpu) {
        self.track(vcpu.id).reservation = vcpu.reservation;
    }
    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        self.track(vcpu).woke = Some(at);
    }
    fn piece(&mut self, piece: &Piece) {
        self.track(piece.job.vcpu).pieces.push(*piece);
    }
    fn span(&mut self, span: &Span) {
        self.track(span.vcpu).span(span);
    }
    fn job(&mut self, job: &JobTrack, _: Option<Instant>) {
        self.track(job.job.id.vcpu).jobs.push(*job);
    }
}

impl Track {
    /// Takes in a span; what of it is no piece of a job is time outside jobs.
    fn span(&mut self, span: &Span) {
        let mut from = span.from;
        let outside = |from: Instant, to: Instant| (NO_JOB, from, to, (to - from).ticks());
        let mut parts = Vec::new();
        for piece in self.pieces.drain(..) {
            if from < piece.from {
                parts.push(outside(from, piece.from));
            }
            let number = piece.job.index.saturating_add(1);
            parts.push((number, piece.from, piece.to, piece.service));
            from = piece.to;
        }
        if from < span.to {
            parts.push(outside(from, span.to));
        }
        for (job, from, to, service) in parts {
            self.ran(job, span.core, (from, to), service);
        }
        if let Some(last) = self.runs.last_mut() {
            last.end = match span.end {
                End::Blocked => RunEnd::Blocked,
                End::Exited => RunEnd::Exited,
                End::Preempted
                | End::LimitReached
                | End::MemorySpent
                | End::Moved
                | End::Metered => RunEnd::Preempted,
            };
        }
    }

    fn ran(&mut self, job: u32, core: CoreId, (from, to): (Instant, Instant), service: u64) {
        let woke = self.woke.take();
        let goes_on = |last: &&mut Run| {
            (last.job, last.core, last.to) == (job, core, from) && last.end == RunEnd::Preempted
        };
        if let Some(last) = self.runs.last_mut().filter(goes_on) {
            last.to = to;
            last.service += service;
        } else {
            let end = RunEnd::Preempted;
            self.runs.push(Run { job, core, from, to, service, woke, end });
        }
    }

    /// Appends the steps of all its jobs.
    fn steps(mut self, vcpu: VcpuId, steps: &mut Vec<Step>) {
        self.jobs.sort_by_key(|job| job.job.id.index);
        let mut progress: BTreeMap<u32, Progress> = BTreeMap::new();
        let mut last_core = CoreId(0);
        for run in std::mem::take(&mut self.runs) {
            for run in self.cut(run).into_iter().flatten() {
                let job = self.job(run.job).copied();
                let state = progress.entry(run.job).or_default();
                last_core = run.core;
                state.ran(&run, job.as_ref(), |at, what| {
                    steps.push(Step { at, vcpu, job: run.job, core: run.core, what });
                });
            }
        }
        for track in &self.jobs {
            let job = track.job.id.index.saturating_add(1);
            let state = progress.get(&job).copied().unwrap_or_default();
            let mut push = |at, what| steps.push(Step { at, vcpu, job, core: last_core, what });
            if !state.began {
                push(track.job.release, What::Activated { deadline: track.job.deadline });
            }
            if let Some(at) = track.completed.filter(|_| !state.over) {
                let before = match (state.began, state.blocked) {
                    (false, _) => Before::New,
                    (true, None) => Before::Ready,
                    (true, Some(_)) => Before::Blocked,
                };
                let (at, service) = (at.max(track.job.release), track.service);
                push(at, What::OverOff { before, service });
            }
        }
    }

    fn job(&self, number: u32) -> Option<&JobTrack> {
        let index = number.checked_sub(1)?;
        let place = self.jobs.binary_search_by_key(&index, |job| job.job.id.index).ok()?;
        self.jobs.get(place)
    }

    /// Cuts a run where its job was over: an end that became known late cut nothing when the run
    /// was reported. The rest of it is time outside jobs.
    fn cut(&self, run: Run) -> [Option<Run>; 2] {
        let over = self.job(run.job).and_then(|job| job.completed).filter(|over| *over < run.to);
        let Some(over) = over else { return [Some(run), None] };
        if over <= run.from {
            return [Some(Run { job: NO_JOB, ..run }), None];
        }
        let service = consumed_by(run.service, run.from, run.to, over);
        let until = Run { to: over, service, end: RunEnd::Preempted, ..run };
        let service = run.service - service;
        [Some(until), Some(Run { job: NO_JOB, from: over, service, woke: None, ..run })]
    }
}

impl Progress {
    /// Tells the steps of one run, and of what led to it.
    fn ran(&mut self, run: &Run, job: Option<&JobTrack>, mut tell: impl FnMut(Instant, What)) {
        if self.over {
            // Its program left, and another runs there now.
            *self = Self { service: self.service, ..Self::default() };
        }
        if !self.began {
            let begun = run.woke.map_or(run.from, |woke| woke.min(run.from));
            let (at, deadline) =
                job.map_or((begun, begun), |job| (job.job.release, job.job.deadline));
            tell(at, What::Activated { deadline });
        }
        if let Some(since) = self.blocked.take() {
            tell(run.woke.unwrap_or(run.from).max(since).min(run.from), What::Woke);
        }
        tell(run.from, What::On { first: !self.began, service: self.service });
        self.began = true;
        self.service += run.service;
        let service = self.service;
        let done = job.is_some_and(|job| job.completed == Some(run.to));
        self.over = done || (job.is_none() && run.end == RunEnd::Exited);
        if self.over {
            tell(run.to, What::Over { service });
        } else {
            let blocked = run.end != RunEnd::Preempted;
            self.blocked = blocked.then_some(run.to);
            tell(run.to, What::Off { blocked, service });
        }
    }
}

#[cfg(test)]
mod tests;
