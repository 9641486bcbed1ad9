//! An observer that holds a run of the simulator to what every policy and machine must keep.

use maracas_core::contract::{
    Claims, End, Grant, Mode, Observer, Refused, RunQueue, Segment, ServiceRequest,
};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Reservation, Role, System, VcpuId};
use maracas_sim::Outcome;
use std::collections::VecDeque;

/// What is known of one VCPU.
#[derive(Clone, Default, Debug)]
struct Known {
    reservation: Option<Reservation>,
    /// Whether it is a sporadic server; I/O VCPUs have another bound (algorithms.md F.6).
    sporadic: bool,
    /// Whether it carries service requests and nothing else.
    carries: bool,
    there: bool,
    since: Instant,
    free_from: Instant,
    core: Option<CoreId>,
    /// The core that it left last on a service request, and when.
    before: Option<(CoreId, Instant)>,
    /// When it came to its core on a service request, and what it had used in the foreground.
    came: Option<(Instant, Duration)>,
    meters: [Duration; 2],
    /// The furthest limit ever granted, by mode.
    granted: [Duration; 2],
    released: u32,
    completed: u32,
    /// No job is released before.
    next_release: Instant,
    /// Reservations asked for and not answered.
    wants: VecDeque<Reservation>,
    awake: bool,
}

impl Known {
    const fn runnable(&self) -> bool {
        self.there && (self.awake || self.completed < self.released)
    }
}

/// Checks every event and plan of a run, and the claims of the policy's entry; keeps the first
/// thing that is wrong.
#[derive(Clone, Debug)]
pub struct Auditor {
    claims: Claims,
    late: Duration,
    cores: Vec<Instant>,
    known: Vec<Known>,
    wake: Instant,
    /// Every core's run queue as it was last.
    run_queues: Vec<RunQueue>,
    wrong: Option<String>,
    /// When which VCPU became (true) or ceased to be (false) runnable.
    changes: Vec<(Instant, VcpuId, bool)>,
    segments: Vec<Segment>,
    /// VCPUs whose foreground service must keep to a sporadic server's bound.
    servers: bool,
    /// The service request under way, and since when; and the last one, and until when.
    service_request: Option<(VcpuId, ServiceRequest, Instant)>,
    carried: Option<(VcpuId, Instant, Instant)>,
    /// A move that was done since the last decision, and when.
    moved: Option<(VcpuId, CoreId, Instant)>,
}

impl Auditor {
    /// Machines and journals look at dirty cores only, so no other run queue may differ.
    fn clean_lines_are_unchanged(&mut self, now: Instant, plan: &Plan) {
        self.run_queues.resize(plan.cores(), RunQueue::default());
        for id in 0..plan.cores() {
            let core = CoreId(id as u16);
            if plan.dirty().contains(core) {
                self.run_queues[id].clone_from(plan.run_queue(core));
            } else {
                let same = self.run_queues[id] == *plan.run_queue(core);
                self.must(same, || format!("at {now}: {core} changed without being dirty"));
            }
        }
    }

    /// An auditor of a run on `system`, whose decisions come late by at most `late`.
    #[must_use]
    pub fn new(system: &System, start: &System, claims: Claims, late: Duration) -> Self {
        let count = system.vcpus.iter().map(|vcpu| vcpu.id.0 as usize + 1).max().unwrap_or(0);
        let mut known = vec![Known::default(); count];
        for vcpu in &system.vcpus {
            let known = &mut known[vcpu.id.0 as usize];
            known.reservation = Some(vcpu.reservation);
            known.sporadic = vcpu.role != Role::Io;
            known.carries = matches!(vcpu.role, Role::Monitor | Role::Migration);
        }
        for vcpu in &start.vcpus {
            known[vcpu.id.0 as usize].there = true;
        }
        Self {
            claims,
            late,
            cores: vec![Instant::ZERO; system.cores.len()],
            known,
            wake: Instant::ZERO,
            run_queues: Vec::new(),
            wrong: None,
            changes: Vec::new(),
            segments: Vec::new(),
            servers: false,
            service_request: None,
            carried: None,
            moved: None,
        }
    }
    /// Holds every VCPU's foreground service to at most C by ceil(t/T) since it was admitted: a
    /// sporadic server that starts idle (algorithms.md F.4).
    #[must_use]
    pub const fn servers(mut self) -> Self {
        self.servers = true;
        self
    }

    /// The verdict on the whole run.
    ///
    /// # Errors
    /// The first thing that was wrong.
    pub fn verdict(mut self, outcome: &Outcome) -> Result<(), String> {
        for (core, idle) in outcome.idle.iter().enumerate() {
            let of_core = self.segments.iter().filter(|segment| segment.core.0 as usize == core);
            let busy: Duration = of_core.map(|segment| segment.usage.service).sum();
            self.must(Instant::ZERO + *idle + busy == outcome.end, || {
                format!("core{core}: idle {idle} and busy {busy} are not {}", outcome.end)
            });
        }
        let sum = |of: fn(&Known) -> u32| self.known.iter().map(|known| u64::from(of(known))).sum();
        let (released, completed) = (sum(|known| known.released), sum(|known| known.completed));
        self.must((released, completed) == (outcome.released, outcome.completed), || {
            format!("{released} released, {completed} completed, counted otherwise: {outcome:?}")
        });
        if self.wrong.is_none() && self.claims.work_conserving {
            self.check_work_conserving();
        }
        self.wrong.map_or(Ok(()), Err)
    }

    fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.wrong.is_none() {
            self.wrong = Some(what());
        }
    }

    fn ran(&mut self, at: Instant, segment: &Segment) {
        let Segment { vcpu, core, mode, from, to, usage, end } = *segment;
        self.must(from < to && to == at, || format!("{segment:?} is reported at {at}"));
        self.must(usage.service == to - from, || format!("{segment:?} consumed another time"));
        let free = self.cores[core.0 as usize];
        self.must(free <= from, || format!("{core} was busy until {free}, yet {segment:?}"));
        self.cores[core.0 as usize] = to;
        let known = &mut self.known[vcpu.0 as usize];
        let (there, free, home) = (known.there, known.free_from, *known.core.get_or_insert(core));
        // It goes on where it was until the decision that learns of its move.
        let left = known.before.is_some_and(|(left, when)| left == core && from < when);
        let moved = home != core && !left;
        known.free_from = to;
        known.meters[mode as usize] += usage.service;
        let (meter, granted) = (known.meters[mode as usize], known.granted[mode as usize]);
        let runs_on = matches!(
            end,
            End::Preempted | End::LimitReached | End::MemorySpent | End::Moved | End::Metered
        );
        if !runs_on {
            known.awake = false;
        }
        let known = known.clone();
        self.must(there, || format!("{segment:?} of a VCPU that is not there"));
        self.must(free <= from, || format!("{vcpu} ran elsewhere until {free}, yet {segment:?}"));
        self.must(meter <= granted, || format!("{segment:?} ran to {meter}, granted {granted}"));
        if self.claims.partitioned {
            self.must(!moved, || format!("{vcpu} changed core, though partitioned: {segment:?}"));
        }
        if known.carries {
            self.carries(segment);
        }
        if self.servers && known.sporadic && mode == Mode::Foreground {
            self.check_server(&known, segment);
        }
        self.segments.push(*segment);
        self.note(at, vcpu);
    }

    fn check_server(&mut self, known: &Known, segment: &Segment) {
        let Some(Reservation { budget, period, .. }) = known.reservation else { return };
        let windows = (segment.to - known.since).ticks().div_ceil(period.ticks());
        let used = known.meters[Mode::Foreground as usize];
        self.must(used <= budget * windows, || {
            format!("{segment:?}: {used} of foreground in {windows} periods of {budget}/{period}")
        });
        // What it saved before it moved does not come back at once (algorithms.md G.3, row 13).
        let Some((came, before)) = known.came else { return };
        let windows = segment.to.saturating_since(came).ticks().div_ceil(period.ticks());
        let used = used.saturating_sub(before);
        self.must(used <= budget * windows, || {
            format!(
                "{segment:?}: {used} of foreground since it moved at {came}, of {budget}/{period}"
            )
        });
    }

    /// A service VCPU runs on its service requests only.
    fn carries(&mut self, segment: &Segment) {
        let under_way =
            self.service_request.map(|(service_vcpu, _, begun)| (service_vcpu, begun, segment.to));
        let carried =
            under_way.filter(|(service_vcpu, ..)| *service_vcpu == segment.vcpu).or(self.carried);
        let on_service_request = carried.is_some_and(|(service_vcpu, begun, done)| {
            service_vcpu == segment.vcpu && begun <= segment.from && segment.to <= done
        });
        self.must(on_service_request, || {
            format!("{segment:?} of a service VCPU that is not sent: {carried:?}")
        });
    }

    /// A service request was answered: done or, where `failed`, not.
    fn answered(&mut self, at: Instant, failed: bool, what: impl Fn(&ServiceRequest) -> bool) {
        let sent = self.service_request.take();
        let right = sent.is_some_and(|(_, service_request, _)| what(&service_request));
        self.must(right, || format!("an answer at {at} that none waits for; sent was {sent:?}"));
        let Some((service_vcpu, service_request, begun)) = sent else { return };
        self.carried = Some((service_vcpu, begun, at));
        if let (ServiceRequest::Move { vcpu, to, .. }, false) = (service_request, failed) {
            self.moved = Some((vcpu, to, at));
        }
    }

    /// Homes change by an answered move only.
    fn rehomed(&mut self, now: Instant, plan: &Plan) {
        let moved = self.moved.take();
        for &vcpu in plan.rehomed() {
            let known = &mut self.known[vcpu.0 as usize];
            let (Some(home), old) = (plan.home(vcpu), known.core) else { continue };
            known.core = Some(home);
            let Some(old) = old.filter(|old| *old != home) else { continue };
            known.before = Some((old, now));
            if let Some((_, _, at)) = moved {
                // Moved while it waits: what it uses before this decision counts as used there.
                known.came = Some((at, known.meters[Mode::Foreground as usize]));
            }
            let moved = moved.map(|(vcpu, to, _)| (vcpu, to));
            if self.claims.partitioned {
                self.must(moved == Some((vcpu, home)), || {
                    format!("{vcpu} is sent from {old} to {home} at {now}, after {moved:?}")
                });
            }
        }
    }

    /// Notes whether the VCPU is runnable from now on.
    fn note(&mut self, at: Instant, vcpu: VcpuId) {
        self.changes.push((at, vcpu, self.known[vcpu.0 as usize].runnable()));
    }

    fn job(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Released(job) => {
                let known = &mut self.known[job.id.vcpu.0 as usize];
                let (expected, next) = (known.released, known.next_release);
                known.released += 1;
                let reservation = known.reservation;
                let period = reservation.map_or(Duration::ZERO, |r| r.period);
                known.next_release = job.release + period;
                self.must(job.id.index == expected && job.release == at, || {
                    format!("{job:?} at {at}, after {expected} others")
                });
                let Some(Reservation { deadline, .. }) = reservation else { return };
                self.must(job.deadline == at + deadline, || format!("{job:?} with D {deadline}"));
                self.must(at >= next, || format!("{job:?} comes early, before {next}"));
            }
            Event::Completed(id) => {
                let known = &mut self.known[id.vcpu.0 as usize];
                let (next, released) = (known.completed, known.released);
                known.completed += 1;
                self.must(id.index == next && next < released, || {
                    format!("{id:?} completed at {at} as number {next} of {released}")
                });
            }
            Event::Ran(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::ServiceDone(_)
            | Event::Failed { .. } => {}
        }
    }

    /// No core idles while a VCPU is runnable anywhere (global), or on that core (partitioned).
    fn check_work_conserving(&mut self) {
        let mut instants: Vec<_> = self.changes.iter().map(|change| change.0).collect();
        instants.extend(self.segments.iter().flat_map(|segment| [segment.from, segment.to]));
        instants.sort_unstable();
        instants.dedup();
        let changes = std::mem::take(&mut self.changes);
        let mut segments = std::mem::take(&mut self.segments);
        segments.sort_by_key(|segment| segment.from);
        let mut runnable = vec![false; self.known.len()];
        let (mut change, mut segment) = (0, 0);
        let mut running: Vec<Option<Segment>> = vec![None; self.cores.len()];
        // After the last instant nothing is known any more.
        for &now in instants.iter().take(instants.len().saturating_sub(1)) {
            while changes.get(change).is_some_and(|c| c.0 <= now) {
                runnable[changes[change].1.0 as usize] = changes[change].2;
                change += 1;
            }
            for core in &mut running {
                core.take_if(|segment| segment.to <= now);
            }
            while segments.get(segment).is_some_and(|s| s.from <= now) {
                running[segments[segment].core.0 as usize] = Some(segments[segment]);
                segment += 1;
            }
            for (id, _) in runnable.iter().enumerate().filter(|(_, runnable)| **runnable) {
                let runs = running.iter().flatten().any(|segment| segment.vcpu.0 as usize == id);
                let idle = match (self.claims.partitioned, self.known[id].core) {
                    (true, Some(core)) => running[core.0 as usize].is_none(),
                    (true, None) => false,
                    (false, _) => running.iter().any(Option::is_none),
                };
                self.must(runs || !idle, || format!("vcpu{id} waits at {now} while a core idles"));
            }
        }
    }
}

impl Observer for Auditor {
    fn event(&mut self, at: Instant, event: &Event) {
        let touched = match event {
            Event::Ran(segment) => return self.ran(at, segment),
            Event::Released(job) => job.id.vcpu,
            Event::Completed(id) => id.vcpu,
            Event::Woke { vcpu, .. } => {
                self.known[vcpu.0 as usize].awake = true;
                *vcpu
            }
            Event::Left(vcpu) => {
                self.known[vcpu.0 as usize].there = false;
                *vcpu
            }
            Event::ServiceDone(done) => return self.answered(at, false, |sent| sent == done),
            Event::Failed { what, .. } => {
                return self.answered(at, true, |sent| match (what, sent) {
                    (Refused::Sample, ServiceRequest::Sample) => true,
                    (Refused::Move(moved), ServiceRequest::Move { vcpu, .. }) => moved == vcpu,
                    (Refused::Sample | Refused::Move(_), _) => false,
                    (Refused::Start(_) | Refused::Stop(_), _) => false,
                });
            }
            Event::Changed(vcpu) => {
                self.known[vcpu.id.0 as usize].wants.push_back(vcpu.reservation);
                return;
            }
            Event::Arrived(_)
            | Event::AllowanceSpent { .. }
            | Event::Sampled(_)
            | Event::Utilized { .. } => return,
        };
        self.job(at, event);
        self.note(at, touched);
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        if let Err(why) = plan.audit() {
            self.must(false, || format!("at {now}: {why}"));
        }
        let (wake, late) = (self.wake, self.late);
        self.must(now <= wake.saturating_add(late), || {
            format!("asked at {now}, more than {late} after the wake at {wake}")
        });
        self.wake = plan.wake;
        self.clean_lines_are_unchanged(now, plan);
        self.rehomed(now, plan);
        if let Some((service_vcpu, service_request, begun)) = self.service_request {
            let awake = self.known[service_vcpu.0 as usize].awake;
            self.must(awake, || {
                format!("{service_vcpu} never went on its {service_request:?} of {begun}")
            });
        }
        if let (None, Some((service_vcpu, service_request))) =
            (self.service_request, plan.service_request)
        {
            self.service_request = Some((service_vcpu, service_request, now));
        }
        for core in plan.dirty().iter() {
            let run_queue = plan.run_queue(core);
            let foreground = run_queue.foreground.iter().map(|grant| (0, grant));
            let background = run_queue.background.iter().map(|grant| (1, grant));
            for (mode, Grant { vcpu, until, .. }) in foreground.chain(background) {
                if let Some(known) = self.known.get_mut(vcpu.0 as usize) {
                    known.granted[mode] = known.granted[mode].max(until.0);
                }
            }
        }
        for (vcpu, verdict) in plan.verdicts() {
            let known = &mut self.known[vcpu.0 as usize];
            if let Some(wanted) = known.wants.pop_front() {
                if verdict.is_ok() {
                    // What it had may have been greater: the bound of a server is for one (C, T).
                    (known.reservation, known.sporadic) = (Some(wanted), false);
                }
                continue;
            }
            known.there = verdict.is_ok();
            known.since = now;
        }
    }
}
