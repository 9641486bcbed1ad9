//! What a run delivered, counted as it happens.
//!
//! # How things are counted
//! * Touching segments on one core are one *piece*; segments of no length are none. A job's pieces
//!   less one are its **preemptions**; of these, **migrations** are consecutive pieces of one job
//!   on different cores. A **task migration** is a job that starts on another core than the one
//!   on which the job before it ended. A change between foreground and background on one core
//!   without a gap is no preemption. What a VCPU with jobs does between them (the optional part
//!   of anytime work) is part of no job.
//! * A VCPU without jobs is **preempted** when another takes its core or its memory gate closes, or
//!   when it stops at a limit, and it does not go on at once on the same core; it **migrates** when
//!   its next piece is on another core, for whatever reason.
//! * A job due at or before the end and unfinished at its deadline is a **miss**.
//! * **Delivered**: foreground service in each of the VCPU's own periods `[s + kT, s + (k+1)T)`,
//!   where `s` is its last wake, for a VCPU with jobs its first release (again after its
//!   reservation was changed). A part of the budget that was used before that wake has periods of
//!   its own, a T after it could be used (module `parts`). Only whole periods count; those that a
//!   wake cut short make up whole ones without full demand. Periods in which it was blocked at any
//!   instant, or, of a VCPU whose demand comes as jobs, in which all that were released were done,
//!   are counted apart as without full demand, and are not in the errors
//!   `delivered - C`: nothing can deliver what is not asked for. A segment's service is
//!   spread evenly over it. Where C is meant as time on a class of cores, so is delivered: service
//!   on a slower class counts by the ratio of the declared speeds.
//! * Live, agents end before the meters are read for the last time, and until then nothing keeps
//!   any promise. Periods that ended after the last decision before the end count for nothing,
//!   unless that is more than a second before it: then agents were stuck.
//! * Of a **journal that was cut** ([`Note::Cut`]) nothing tells what was under way there. So a
//!   VCPU is judged up to where all is told of it alone (`Task::told`): no period that ends later
//!   is counted, and no job that is due then or later is a miss. Live, the last second before the
//!   cut counts for nothing, as lateness, thefts and ends of jobs may be reported late. What is
//!   known at a run's end alone, as how much was stolen of a core, breaks no promise; and how
//!   VCPUs progressed on uneven cores is left out.
//! * The **verdict** on a VCPU follows from these periods by the rule of the module `judge`.
//! * A core is **throttled** while nothing ran on it, a VCPU that stands on its run queue could
//!   have run, and the only hindrance was the closed background memory gate, the spent allowance,
//!   or that the VCPU's memory meter stood at its limit.
//! * A VCPU with a bandwidth of its own is **held** from the end of a segment at which its memory
//!   meter stood at its limit until a run queue lets it read on, whether others ran on the core
//!   meanwhile or not.
//! * On cores of uneven speed: how VCPUs progressed, as the module `fairness` says.
//!
//! The machine must report running segments when the run ends ([`End::Metered`]): what is not
//! reported is not counted. Service that is reported late, after the period it belongs to was
//! closed by a later event of the same VCPU, counts in the period then open.
//!
//! [`End::Metered`]: maracas_core::contract::End::Metered

mod causes;
mod controller;
mod cores;
mod dispatch;
mod fairness;
mod gauges;
mod judge;
mod observe;
mod parts;
mod sensing;
mod summary;
mod task;
#[cfg(test)]
mod tests;
mod windows;

use self::causes::Causes;
use self::controller::Totals;
use self::cores::CoreTime;
use self::dispatch::Dispatches;
use self::fairness::Fairness;
pub(crate) use self::fairness::Window;
use self::gauges::Present;
use self::judge::Judge;
pub(crate) use self::judge::{Found, Period};
use self::sensing::Sensing;
use self::task::{Finish, Task};
use crate::Report;
use crate::memory_gate::MemoryGate;
use crate::report::{CutReport, MemoryReport, Run, StatisticReport};
use maracas_core::contract::{MemoryLimit, Mode, Observer, Plan, RunQueue, Statistic};
use maracas_core::control::StatisticGauge;
use maracas_core::journal::{Header, JournalError, Note, Reader, Record};
use maracas_core::{Class, CoreId, CoreSet, Duration, Instant, Vcpu, VcpuId};

/// The journal record that keeps one of the policy's own figures.
#[must_use]
pub fn statistic_note(at: Instant, statistic: &Statistic) -> Record {
    let &Statistic { name, core, vcpu, value } = statistic;
    let note = Note::Statistic(StatisticGauge { name: name.into(), core, vcpu, value });
    Record::Note { at, note }
}

/// The journal record that keeps what the memory controller counted of the whole run.
#[must_use]
pub fn memory_note(at: Instant, counted: &MemoryReport) -> Record {
    Record::Note { at, note: Note::Memory(counted.to_string()) }
}

/// Counts while a machine runs (as its [`Observer`]) or while a journal is read
/// ([`Metrics::record`]); both ways give the same report.
#[derive(Clone, Debug)]
pub struct Metrics {
    header: Header,
    tasks: Vec<Task>,
    cores: Vec<CoreTime>,
    /// Cores whose memory gate may keep a VCPU out: only these ask what waits.
    closed: CoreSet,
    decisions: u64,
    /// When the last decision was, and the last one before that.
    last_decisions: [Instant; 2],
    lost_records: u64,
    memory: Option<MemoryReport>,
    controller: Totals,
    statistics: Vec<StatisticReport>,
    dispatches: Dispatches,
    /// For gauges, from journal records alone.
    present: Present,
    sensing: Sensing,
    whole: Whole,
    causes: Causes,
    /// As which every VCPU's judge begins.
    judge: Judge,
    /// Only where cores are of uneven speed.
    fairness: Option<Box<Fairness>>,
}

/// What notes at the end say of the run as a whole.
#[derive(Clone, Default, Debug)]
struct Whole {
    agents_ns: Option<u64>,
    run: Option<Run>,
    cut: Option<CutReport>,
}

impl Report {
    /// The report of a whole journal.
    ///
    /// # Errors
    /// Where the journal is damaged, of another format version, or has no end.
    pub fn from_journal(bytes: &[u8]) -> Result<Self, JournalError> {
        Metrics::of_journal(bytes)
    }
}

impl Metrics {
    /// Begins to count a run of what `header` describes.
    pub fn new(header: &Header) -> Self {
        let mut metrics = Self {
            header: header.clone(),
            tasks: Vec::new(),
            cores: header.system.core_ids().map(|_| CoreTime::default()).collect(),
            closed: CoreSet::EMPTY,
            decisions: 0,
            last_decisions: [Instant::ZERO; 2],
            lost_records: 0,
            memory: None,
            controller: Totals::default(),
            statistics: Vec::new(),
            dispatches: Dispatches::default(),
            present: Present::default(),
            sensing: Sensing::default(),
            whole: Whole::default(),
            causes: Causes::default(),
            judge: Judge::default(),
            fairness: Fairness::of(&header.system),
        };
        for (place, vcpu) in header.system.vcpus.iter().enumerate() {
            metrics.introduce(vcpu);
            let task = metrics.task(vcpu.id);
            if let Some(name) = header.names.get(place) {
                task.name.clone_from(name);
            }
        }
        metrics
    }

    /// Judges periods that stolen time spoiled like all others; to be called before records are
    /// taken in.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.be_strict();
        self
    }

    fn be_strict(&mut self) {
        self.judge.be_strict();
        self.tasks.iter_mut().for_each(|task| task.windows.judge.be_strict());
    }

    /// Keeps every period for [`Metrics::into_periods`]; to be called before records are taken in.
    #[must_use]
    pub(crate) fn keeping_periods(mut self) -> Self {
        self.judge.keep();
        self.tasks.iter_mut().for_each(|task| task.windows.judge.keep());
        self
    }

    /// The whole periods of every VCPU by its number, in their order.
    pub(crate) fn into_periods(self) -> Vec<Vec<Period>> {
        self.tasks.into_iter().map(|task| task.windows.judge.into_kept()).collect()
    }

    /// Names a VCPU that arrived while the machine runs.
    pub fn name(&mut self, vcpu: VcpuId, name: &str) {
        self.task(vcpu).name = name.into();
    }

    /// Takes in what the policy counted of its own doings, at the end of the run.
    pub fn statistics(&mut self, statistics: &[Statistic]) {
        self.statistics.extend(statistics.iter().map(StatisticReport::of));
    }

    /// Takes in what the memory controller counted of the whole run, at its end. The mean latency
    /// is worked out from the counts.
    pub fn memory(&mut self, counted: &MemoryReport) {
        self.memory = Some(counted.with_latency());
    }

    /// Takes in one journal record. Returns the instant of the end, where this was the last.
    pub fn record(&mut self, record: &Record) -> Option<Instant> {
        self.present.record(record);
        match record {
            Record::Event { at, event } => self.event(*at, event),
            Record::Planned(decision) => {
                self.decisions += 1;
                if decision.now > self.last_decisions[0] {
                    self.last_decisions = [decision.now, self.last_decisions[0]];
                }
                for (core, run_queue) in &decision.run_queues {
                    self.run_queue_changed(decision.now, *core, run_queue);
                }
                for (vcpu, verdict) in &decision.verdicts {
                    self.answered(*vcpu, decision.now, verdict.is_ok());
                }
            }
            Record::Gap(lost) => self.lost_records += lost,
            Record::Note { at, note } => self.reported(*at, note),
            Record::End(at) => {
                let finish = self.finish_at(*at);
                for task in &mut self.tasks {
                    task.finish(&finish);
                    task.settle(self.causes.thefts());
                }
                return Some(*at);
            }
        }
        None
    }

    /// The report of the run up to `end`. More may follow afterwards: a live view asks often.
    pub fn report(&self, end: Instant) -> Report {
        summary::report(self, end)
    }

    /// The report of a whole journal.
    ///
    /// # Errors
    /// Where the journal is damaged, of another format, or has no end.
    pub(crate) fn of_journal(bytes: &[u8]) -> Result<Report, JournalError> {
        let (header, mut reader) = Reader::open(bytes)?;
        let mut metrics = Self::new(&header);
        let end = metrics.read(&mut reader)?;
        Ok(metrics.report(end))
    }

    /// What every VCPU asked for and got on cores of uneven speed, window by window; nothing where
    /// they are equally fast.
    pub(crate) fn windows(bytes: &[u8]) -> Result<Vec<Window>, JournalError> {
        let (header, mut reader) = Reader::open(bytes)?;
        let mut metrics = Self::new(&header);
        if let Some(fairness) = &mut metrics.fairness {
            fairness.keep();
        }
        let end = metrics.read(&mut reader)?;
        Ok(metrics.fairness.map_or_else(Vec::new, |it| it.finished(end).into_kept()))
    }

    /// Takes in all records and returns the instant of the end.
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<Instant, JournalError> {
        let mut end = Instant::ZERO;
        reader.try_for_each(|record| {
            end = self.record(&record?).unwrap_or(end);
            Ok(())
        })?;
        Ok(end)
    }

    /// Takes in one note.
    fn reported(&mut self, at: Instant, note: &Note) {
        match note {
            Note::Name { vcpu, name } => self.name(*vcpu, name),
            Note::Statistic(statistic) => {
                self.statistics.push(StatisticReport::from(statistic.clone()))
            }
            Note::Memory(text) => {
                if let Some(counted) = MemoryReport::read(text) {
                    self.memory(&counted);
                }
            }
            Note::Dispatch { core, latency_ns, seen, .. } => {
                self.dispatches.add(*core, *latency_ns, *seen);
            }
            Note::Agents { took_ns } => self.whole.agents_ns = Some(*took_ns),
            Note::Run(text) => self.whole.run = Run::read(text),
            Note::Cut { offset, left_out } => {
                self.whole.cut = Some(CutReport { byte: *offset, left_out_bytes: *left_out });
            }
            Note::Strict => self.be_strict(),
            Note::Sensor(_) | Note::Sense { .. } | Note::Throttled { .. } | Note::Closed { .. } => {
                self.sensing.read(note);
            }
            Note::WakeCost { .. }
            | Note::Late { .. }
            | Note::Enforced { .. }
            | Note::Steal { .. }
            | Note::Relief { .. }
            | Note::KeptOff { .. } => {
                let ticks_per_ns = self.header.system.ticks_per_ns.max(1);
                self.causes.read(at, note, ticks_per_ns);
                let floor = self.floor();
                self.tasks.iter_mut().for_each(|task| task.windows.judge.tolerate(floor));
            }
            Note::Host(_)
            | Note::Users(_)
            | Note::Groups(_)
            | Note::Progress { .. }
            | Note::Emulated(_)
            | Note::Recolored { .. }
            | Note::Other { .. } => {}
        }
    }

    /// How a run is brought to an end that ended, or was cut, at `end`.
    fn finish_at(&self, end: Instant) -> Finish {
        let until = self.promised_until(end);
        if self.whole.cut.is_none() {
            return Finish { end, until, cores_told: None, told_most: end };
        }
        // What runs on a core now began when what was reported last of it had ended.
        let cores_told = self.cores.iter().map(|core| core.busy_until).min();
        let cores_told = Some(cores_told.unwrap_or(Instant::ZERO));
        let told_most = end.ticks().saturating_sub(self.grace().ticks());
        Finish { end, until, cores_told, told_most: Instant::from_ticks(told_most) }
    }

    /// For how long promises held of a run that ended at `end`.
    fn promised_until(&self, end: Instant) -> Instant {
        let [last, before] = self.last_decisions;
        let decided = if last < end { last } else { before };
        let is_live = !self.grace().is_zero();
        if is_live && decided.saturating_add(self.grace()) >= end { decided } else { end }
    }

    /// For how long what was reported may turn out to be after the agents' end: a second, live.
    fn grace(&self) -> Duration {
        const SECOND: Duration = Duration::from_secs(1);
        if self.header.machine != "live" {
            return Duration::ZERO;
        }
        SECOND * self.header.system.ticks_per_ns.max(1)
    }

    /// Twice what a wake costs, in ticks: errors below it are the host's grain.
    fn floor(&self) -> u64 {
        let wake_ns = self.causes.wake_cost().map_or(0, |cost| cost.p50_ns);
        wake_ns.saturating_mul(2).saturating_mul(self.header.system.ticks_per_ns.max(1))
    }

    #[inline]
    fn task(&mut self, vcpu: VcpuId) -> &mut Task {
        let index = vcpu.0 as usize;
        // Nearly always it is there, and its place is compared with how many there are but once.
        if index < self.tasks.len() {
            return &mut self.tasks[index];
        }
        self.add_tasks(index);
        &mut self.tasks[index]
    }

    #[cold]
    fn add_tasks(&mut self, index: usize) {
        while self.tasks.len() <= index {
            let mut task = Task::new(VcpuId(self.tasks.len() as u32));
            task.windows.judge = self.judge.clone();
            task.windows.judge.tolerate(self.floor());
            task.windows.count_after(self.grace());
            task.pieces.in_order = self.grace().is_zero();
            self.tasks.push(task);
        }
    }

    fn introduce(&mut self, vcpu: &Vcpu) {
        let meant_milli = self.meant_milli(vcpu);
        self.task(vcpu.id).introduce(vcpu, meant_milli);
        if let Some(fairness) = &mut self.fairness {
            fairness.introduce(vcpu);
        }
    }

    /// The speed of the class on which `vcpu` means its budget; `None` = whichever core.
    fn meant_milli(&self, vcpu: &Vcpu) -> Option<u32> {
        let class = vcpu.class.and_then(|it| self.header.system.classes.get(usize::from(it)));
        class.map(|class| class.speed_milli)
    }

    /// The speed of `core`, in thousandths of the fastest's.
    fn speed_milli(&self, core: CoreId) -> u32 {
        let system = &self.header.system;
        let core = system.cores.get(usize::from(core.0));
        let class = core.and_then(|core| system.classes.get(usize::from(core.class)));
        class.unwrap_or(&Class::FASTEST).speed_milli
    }

    #[cold]
    fn plan_answered(&mut self, now: Instant, plan: &Plan) {
        for (vcpu, verdict) in plan.verdicts() {
            self.answered(*vcpu, now, verdict.is_ok());
        }
    }

    fn answered(&mut self, vcpu: VcpuId, now: Instant, admitted: bool) {
        let task = self.task(vcpu);
        task.answered(now, admitted);
        if !task.present
            && let Some(fairness) = &mut self.fairness
        {
            fairness.left(vcpu, now);
        }
    }

    fn woke(&mut self, vcpu: VcpuId, at: Instant) {
        self.task(vcpu).woke(at);
        self.others_woke(vcpu, at);
    }

    /// What else looks at wakes.
    #[inline]
    fn others_woke(&mut self, vcpu: VcpuId, at: Instant) {
        if let Some(fairness) = &mut self.fairness {
            fairness.woke(vcpu, at);
        }
        if !self.closed.is_empty() {
            self.review_closed(at);
        }
    }

    fn left(&mut self, vcpu: VcpuId, at: Instant) {
        self.task(vcpu).left(at);
        if let Some(fairness) = &mut self.fairness {
            fairness.left(vcpu, at);
        }
        if !self.closed.is_empty() {
            self.review_closed(at);
        }
    }

    #[inline(never)]
    fn run_queues_changed(&mut self, now: Instant, plan: &Plan) {
        for core in plan.dirty().iter() {
            self.run_queue_changed(now, core, plan.run_queue(core));
        }
    }

    #[inline]
    fn run_queue_changed(&mut self, now: Instant, core: CoreId, run_queue: &RunQueue) {
        core_time(&mut self.cores, core).decisions += 1;
        let mut matters = MemoryGate::matters_for_background(run_queue);
        for grant in &run_queue.foreground {
            self.task(grant.vcpu).was_promised = true;
            matters |= grant.memory != MemoryLimit::NEVER;
        }
        if matters || self.closed.contains(core) {
            self.gate_changed(now, core, run_queue);
        }
    }

    /// The run queue of a core that memory may close changed.
    #[inline(never)]
    fn gate_changed(&mut self, now: Instant, core: CoreId, run_queue: &RunQueue) {
        if run_queue.has_memory_limits() {
            for grant in run_queue.foreground.iter().chain(&run_queue.background) {
                self.task(grant.vcpu).granted(now, grant);
            }
        }
        let time = core_time(&mut self.cores, core);
        let kept_out = time.memory_gate.kept_from_budgets().to_vec();
        time.memory_gate.run_queue_changed(run_queue);
        if !time.memory_gate.is_spent() {
            kept_out.iter().for_each(|grant| self.task(grant.vcpu).windows.let_go(now));
        }
        let time = core_time(&mut self.cores, core);
        self.closed.remove(core);
        if time.memory_gate.may_keep_out() {
            self.closed.insert(core);
        }
        time.review(now, &self.tasks);
    }

    fn arrived(&mut self, vcpu: &Vcpu) {
        self.introduce(vcpu);
        self.task(vcpu.id).asks_in();
    }

    fn asks_change(&mut self, vcpu: &Vcpu) {
        let meant_milli = self.meant_milli(vcpu);
        self.task(vcpu.id).asks_change(vcpu, meant_milli);
    }

    fn allowance_spent(&mut self, at: Instant, core: CoreId) {
        let time = core_time(&mut self.cores, core);
        time.memory_gate.spent();
        self.closed.insert(core);
        time.review(at, &self.tasks);
        for grant in time.memory_gate.kept_from_budgets().to_vec() {
            self.task(grant.vcpu).windows.hold(at);
        }
    }

    fn review_closed(&mut self, at: Instant) {
        for core in self.closed.iter() {
            self.cores[core.0 as usize].review(at, &self.tasks);
        }
    }
}

/// The time of `core`, which a foreign journal may name without having announced it.
#[inline]
fn core_time(cores: &mut Vec<CoreTime>, core: CoreId) -> &mut CoreTime {
    let index = core.0 as usize;
    if index < cores.len() {
        return &mut cores[index];
    }
    cores.resize_with(index + 1, CoreTime::default);
    &mut cores[index]
}

/// The place of a mode's figures in a pair.
const fn place(mode: Mode) -> usize {
    match mode {
        Mode::Foreground => 0,
        Mode::Background => 1,
    }
}
