//! What the command line watches a simulation with: metrics always, a journal where one is
//! asked for, and how far it is.

use crate::case::Case;
use crate::results::{Drawn, Files, Unwritten};
use maracas_console::failure::Failure;
use maracas_console::output::{self, Pending};
use maracas_core::contract::{DecisionCounts, Event, JobRun, Observer, Plan, Statistic};
use maracas_core::journal::{Note, Record, Recorder};
use maracas_core::{Instant, VcpuId};
use maracas_sim::Outcome;
use maracas_sim::memory::MemoryTotals;
use maracas_trace::report::{DeviceReport, MemoryReport};
use maracas_trace::{Metrics, Report, memory_note, perfetto, statistic_note};
use std::io::Write;
use std::time;

/// Bytes of journal that are gathered before they go to the file.
const PIECE: usize = 1 << 20;

/// Events, jobs and decisions between two looks at the clock, for the progress line and the caller.
const LOOK_EVERY: u32 = 1 << 15;
/// How often a caller is asked whether it goes on: soon enough after Ctrl-C, and seldom enough that
/// even a caller who takes milliseconds for the answer costs little.
const ASK_EVERY: time::Duration = time::Duration::from_millis(100);

/// Watches a simulation.
pub struct Watch<'a> {
    case: &'a Case,
    metrics: Metrics,
    journal: Option<Recorder>,
    file: Option<Pending>,
    /// Whether the whole journal stays in memory, for what is drawn from it.
    keep: bool,
    drawn: Option<Drawn>,
    trace: Option<perfetto::Writer<Pending>>,
    unwritten: Unwritten,
    /// Events, jobs and decisions since the last look at the clock.
    calls: u32,
    progress: Option<Progress>,
    asked: Option<Asked<'a>>,
}

struct Progress {
    until: Instant,
    /// The latest that was looked at: what a late job did is told when it turns out to be late.
    now: Instant,
    bar: output::Bar,
    started: time::Instant,
}

/// The caller, and when it was asked last.
struct Asked<'a> {
    caller: &'a dyn Fn(),
    last: time::Instant,
}

impl<'a> Watch<'a> {
    /// Watches `case` and writes what `files` asks for.
    pub fn new(case: &'a Case, files: Files) -> Self {
        let header = case.header();
        Self {
            case,
            metrics: Metrics::new(&header),
            journal: (files.journal.is_some() || files.drawn.is_some())
                .then(|| Recorder::new(&header)),
            file: files.journal,
            keep: files.drawn.is_some(),
            drawn: files.drawn,
            trace: files.trace.map(|file| perfetto::Writer::new(&header, file)),
            unwritten: Unwritten::default(),
            calls: 0,
            progress: None,
            asked: None,
        }
    }
    /// Watches `case` for its report alone.
    pub fn bare(case: &'a Case) -> Self {
        Self::new(case, Files { journal: None, trace: None, drawn: None })
    }
    /// Watches `case` and keeps its journal in memory.
    pub fn keeping(case: &'a Case) -> Self {
        let mut watch = Self::bare(case);
        watch.journal = Some(Recorder::new(&case.header()));
        watch.keep = true;
        watch
    }
    /// Shows on standard error how far the simulation is.
    #[must_use]
    pub fn with_progress(mut self, until: Instant) -> Self {
        let (bar, started) = (output::Bar::new("sim"), time::Instant::now());
        self.progress = Some(Progress { until, now: Instant::ZERO, bar, started });
        self
    }
    /// Calls `caller` every 100 ms while it is simulated; to end the simulation it unwinds.
    #[must_use]
    pub fn asking(mut self, caller: &'a dyn Fn()) -> Self {
        self.asked = Some(Asked { caller, last: time::Instant::now() });
        self
    }

    /// Ends the journal, the trace and the lists and puts them in their places. Returns the report,
    /// the journal's bytes, where they were kept, and what could not be written. `statistics` are
    /// the policy's own counts.
    pub fn finish(
        mut self,
        outcome: &Outcome,
        statistics: &[Statistic],
    ) -> (Report, Vec<u8>, Unwritten) {
        if let Some(progress) = &mut self.progress {
            progress.bar.clear();
        }
        let end = outcome.end;
        let memory = outcome.memory.as_ref().map(|totals| self.counted(totals));
        memory.iter().for_each(|counted| self.metrics.memory(counted));
        self.metrics.statistics(statistics);
        let report = self.metrics.report(end);
        let mut bytes = Vec::new();
        if let Some(journal) = &mut self.journal {
            memory.iter().for_each(|counted| journal.record(&memory_note(end, counted)));
            statistics.iter().for_each(|statistic| journal.record(&statistic_note(end, statistic)));
            journal.end(end);
            bytes = std::mem::take(journal.bytes());
        }
        self.close(end, &bytes);
        (report, bytes, self.unwritten)
    }

    /// Puts the files in their places; `rest` is what the journal has more than its file.
    fn close(&mut self, end: Instant, rest: &[u8]) {
        if let Some(mut file) = self.file.take() {
            let written = file.write_all(rest).map_err(Failure::new);
            self.unwritten.extend(written.and_then(|()| file.commit()).err());
        }
        if let Some(trace) = self.trace.take() {
            let file = trace.finish(end).map_err(Failure::new);
            self.unwritten.extend(file.and_then(Pending::commit).err());
        }
        if let Some(drawn) = self.drawn.take() {
            self.unwritten.extend(drawn.write(rest));
        }
    }

    /// What the simulated memory controller counted, as in the report.
    fn counted(&self, totals: &MemoryTotals) -> MemoryReport {
        let devices = self.case.memory.iter().flat_map(|memory| &memory.devices);
        MemoryReport {
            requests: totals.requests,
            occupancy: totals.occupancy,
            reads: totals.reads,
            writes: totals.writes,
            requests_by_cores: totals.by_core.iter().sum(),
            devices: devices
                .zip(&totals.by_device)
                .map(|(device, requests)| DeviceReport {
                    name: device.name.clone(),
                    requests: *requests,
                })
                .collect(),
            ..MemoryReport::default()
        }
    }

    fn flush(&mut self) {
        let (Some(journal), Some(file), false) = (&mut self.journal, &mut self.file, self.keep)
        else {
            return;
        };
        if journal.bytes().len() < PIECE {
            return;
        }
        let written = file.write_all(journal.bytes());
        journal.bytes().clear();
        if let Err(error) = written {
            // It was for this file alone.
            (self.journal, self.file) = (None, None);
            self.lose(Failure::new(error));
        }
    }

    /// Gives a file up, on whose line the progress stands no longer.
    fn lose(&mut self, failure: Failure) {
        self.progress.iter_mut().for_each(|progress| progress.bar.clear());
        self.unwritten.lose(failure);
    }

    /// Writes an event to the trace and the journal.
    #[inline]
    fn write(&mut self, at: Instant, event: &Event) {
        self.trace.event(at, event);
        if let Some(journal) = &mut self.journal {
            journal.event(at, event);
        }
    }

    /// Counts an event, a job or a decision.
    #[inline]
    fn count(&mut self, now: Instant) {
        self.calls += 1;
        if self.calls == LOOK_EVERY {
            self.calls = 0;
            self.look(now);
        }
    }

    /// Looks at the clock: shows how far the simulation is, and asks the caller where it is time.
    fn look(&mut self, now: Instant) {
        if let Some(progress) = &mut self.progress {
            progress.now = progress.now.max(now);
            let done = progress.now.ticks() as f64 / progress.until.ticks().max(1) as f64;
            progress.bar.show(done, progress.started.elapsed());
        }
        if let Some(error) = self.trace.as_mut().and_then(perfetto::Writer::failure) {
            self.trace = None;
            self.lose(Failure::new(error));
        }
        if let Some(asked) = &mut self.asked
            && asked.last.elapsed() >= ASK_EVERY
        {
            (asked.caller)();
            asked.last = time::Instant::now();
        }
    }

    /// Gives readers of the journal the name of a VCPU that arrived.
    fn arrived(&mut self, at: Instant, vcpu: VcpuId) {
        let name = self.case.name(vcpu);
        self.metrics.name(vcpu, &name);
        if let Some(trace) = &mut self.trace {
            trace.name(vcpu, &name);
        }
        if let Some(journal) = &mut self.journal {
            let note = Note::Name { vcpu, name };
            journal.record(&Record::Note { at, note });
        }
    }
}

impl Observer for Watch<'_> {
    fn event(&mut self, at: Instant, event: &Event) {
        if let Event::Arrived(vcpu) = event {
            self.arrived(at, vcpu.id);
        }
        self.metrics.event(at, event);
        self.write(at, event);
        self.count(at);
    }

    fn takes_jobs(&self) -> bool {
        !self.reads_plans() && self.metrics.takes_jobs()
    }

    fn job(&mut self, run: &JobRun<'_>) {
        self.metrics.job(run);
        self.count(run.completed);
    }

    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.metrics.planned(now, plan);
        self.trace.planned(now, plan);
        if let Some(journal) = &mut self.journal {
            journal.planned(now, plan);
            self.flush();
        }
        self.count(now);
    }

    fn reads_plans(&self) -> bool {
        self.journal.is_some() || self.trace.is_some()
    }

    fn decided(&mut self, counts: &DecisionCounts) {
        self.metrics.decided(counts);
    }
}
