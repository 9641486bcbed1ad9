//! Lists for spreadsheets and scripts: one line per job, per piece, per sample of memory, or per
//! window of time on uneven cores.
//!
//! Times are nanoseconds. The jobs' first nine columns are those of LITMUS^RT's `st-job-stats`:
//! task, job, period, response, miss flag, lateness, tardiness, forced completion (always 0: a late
//! job runs on) and actual execution time (ACET). A job that was unfinished at the end has its
//! response and lateness counted up to the end, and `completed` is empty.

use crate::follow::{Follower, JobTrack, Listener, Piece};
use crate::report::{class_name, latency};
use crate::{Metrics, TraceError};
use maracas_core::contract::{Event, Mode, Sample};
use maracas_core::journal::{Header, Note, Reader, Record};
use maracas_core::{Instant, Vcpu, VcpuId};
use std::io::{self, Write};

/// Writes one line per job, in the order in which their ends become known. Jobs unfinished at the
/// end come last.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn jobs(journal: &[u8], mut out: impl Write) -> Result<(), TraceError> {
    let head = "task,job,period_ns,response_ns,miss,lateness_ns,tardiness_ns,forced,acet_ns,\
                release_ns,deadline_ns,completed_ns,pieces,cores";
    writeln!(out, "{head}")?;
    finish(Follower::journal(journal, |header| Jobs { list: List::new(header, out) })?.0.list)
}

/// Writes one line per piece of a job, cut where its mode or core changes.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn pieces(journal: &[u8], mut out: impl Write) -> Result<(), TraceError> {
    writeln!(out, "task,job,core,mode,from_ns,to_ns,service_ns")?;
    finish(Follower::journal(journal, |header| Pieces { list: List::new(header, out) })?.0.list)
}

/// Writes one line per sample of the memory controller: what it counted since the one before.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn samples(journal: &[u8], mut out: impl Write) -> Result<(), TraceError> {
    let (header, reader) = Reader::open(journal)?;
    write!(out, "time_ns,requests,occupancy,latency_cycles")?;
    for core in header.system.core_ids() {
        write!(out, ",requests_{core}")?;
    }
    writeln!(out)?;
    let ticks_per_ns = header.system.ticks_per_ns.max(1);
    for record in reader {
        if let Record::Event { at, event: Event::Sampled(sample) } = record? {
            let Sample { requests, occupancy, by_core } = sample;
            let latency =
                latency(occupancy, requests).map_or_else(String::new, |it| it.to_string());
            write!(out, "{},{requests},{occupancy},{latency}", at.ticks() / ticks_per_ns)?;
            by_core.iter().try_for_each(|requests| write!(out, ",{requests}"))?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Writes one line per VCPU and window of 2 s in which it wanted to run, on cores of uneven speed:
/// what it got on each class of them. Only the head where all cores are equally fast.
///
/// # Errors
/// Where the journal cannot be read or `out` cannot be written.
pub fn speeds(journal: &[u8], mut out: impl Write) -> Result<(), TraceError> {
    write!(out, "from_ns,to_ns,task,wanted_ns")?;
    let (header, reader) = Reader::open(journal)?;
    let classes = header.system.classes.len();
    if !header.system.is_even() {
        for class in (0..classes).map(|class| class_name(class, classes)) {
            write!(out, ",{class}_ns,{class}_instructions")?;
        }
    }
    writeln!(out)?;
    let mut list = List::new(&header, out);
    header.system.vcpus.iter().zip(&header.names).for_each(|(it, name)| list.named(it.id, name));
    for record in reader {
        if let Record::Note { note: Note::Name { vcpu, name }, .. } = record? {
            list.named(vcpu, &name);
        }
    }
    for window in Metrics::windows(journal)? {
        let of = |at: Instant| list.ns(at.ticks()).to_string();
        let mut cells = vec![of(window.from), of(window.to), list.name(window.vcpu)];
        cells.push(list.ns(window.wanted).to_string());
        for run in &window.runs {
            cells.extend([list.ns(run.ticks).to_string(), run.instructions.to_string()]);
        }
        list.line(&cells);
    }
    finish(list)
}

fn finish(list: List<impl Write>) -> Result<(), TraceError> {
    let mut out = list.out;
    list.result.and_then(|()| out.flush())?;
    Ok(())
}

/// What both lists need.
struct List<W> {
    out: W,
    result: io::Result<()>,
    ticks_per_ns: u64,
    names: Vec<String>,
    vcpus: Vec<Facts>,
}

/// What is known of one VCPU.
#[derive(Clone, Default)]
struct Facts {
    period: u64,
    /// Core and end of the last piece.
    last: Option<(u16, Instant)>,
    /// Of the running job: its pieces, touching ones on one core counted once, and its cores.
    pieces: u64,
    cores: Vec<u16>,
}

impl<W: Write> List<W> {
    fn new(header: &Header, out: W) -> Self {
        let ticks_per_ns = header.system.ticks_per_ns.max(1);
        Self { out, result: Ok(()), ticks_per_ns, names: Vec::new(), vcpus: Vec::new() }
    }
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        let index = vcpu.0 as usize;
        for id in self.names.len()..=index {
            self.names.push(VcpuId(id as u32).to_string());
        }
        self.names[index] = quoted(name);
    }
    fn name(&self, vcpu: VcpuId) -> String {
        self.names.get(vcpu.0 as usize).cloned().unwrap_or_else(|| vcpu.to_string())
    }
    fn facts(&mut self, vcpu: VcpuId) -> &mut Facts {
        let index = vcpu.0 as usize;
        if self.vcpus.len() <= index {
            self.vcpus.resize_with(index + 1, Facts::default);
        }
        &mut self.vcpus[index]
    }
    const fn ns(&self, ticks: u64) -> u64 {
        ticks / self.ticks_per_ns
    }
    fn line(&mut self, cells: &[String]) {
        if self.result.is_ok() {
            self.result = writeln!(self.out, "{}", cells.join(","));
        }
    }
}

/// Quotes a name where CSV (RFC 4180) demands it.
fn quoted(name: &str) -> String {
    if name.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.into()
    }
}

struct Jobs<W> {
    list: List<W>,
}

impl<W: Write> Listener for Jobs<W> {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.list.named(vcpu, name);
    }
    fn introduced(&mut self, vcpu: &Vcpu) {
        self.list.facts(vcpu.id).period = vcpu.reservation.period.ticks();
    }
    fn piece(&mut self, piece: &Piece) {
        let facts = self.list.facts(piece.job.vcpu);
        let goes_on = facts.pieces > 0 && facts.last == Some((piece.core.0, piece.from));
        facts.pieces += u64::from(!goes_on);
        facts.last = Some((piece.core.0, piece.to));
        if facts.cores.last() != Some(&piece.core.0) {
            facts.cores.push(piece.core.0);
        }
    }
    fn job(&mut self, track: &JobTrack, end: Option<Instant>) {
        let list = &mut self.list;
        let job = &track.job;
        let over = track.completed.or(end).unwrap_or(job.release);
        let response = over.saturating_since(job.release).ticks();
        let late = over.saturating_since(job.deadline).ticks();
        let early = job.deadline.saturating_since(over).ticks();
        let facts = list.facts(job.id.vcpu);
        let (period, pieces) = (facts.period, std::mem::take(&mut facts.pieces));
        let cores: Vec<String> = facts.cores.drain(..).map(|core| core.to_string()).collect();
        let lateness = match early {
            0 => list.ns(late).to_string(),
            early => format!("-{}", list.ns(early)),
        };
        let cells = [
            list.name(job.id.vcpu),
            job.id.index.to_string(),
            list.ns(period).to_string(),
            list.ns(response).to_string(),
            u8::from(track.missed(over)).to_string(),
            lateness,
            list.ns(late).to_string(),
            "0".into(),
            list.ns(track.service).to_string(),
            list.ns(job.release.ticks()).to_string(),
            list.ns(job.deadline.ticks()).to_string(),
            track.completed.map_or_else(String::new, |at| list.ns(at.ticks()).to_string()),
            pieces.to_string(),
            cores.join(" "),
        ];
        list.line(&cells);
    }
}

struct Pieces<W> {
    list: List<W>,
}

impl<W: Write> Listener for Pieces<W> {
    fn named(&mut self, vcpu: VcpuId, name: &str) {
        self.list.named(vcpu, name);
    }
    fn piece(&mut self, piece: &Piece) {
        let list = &mut self.list;
        let mode = match piece.mode {
            Mode::Foreground => "foreground",
            Mode::Background => "background",
        };
        let cells = [
            list.name(piece.job.vcpu),
            piece.job.index.to_string(),
            piece.core.0.to_string(),
            mode.into(),
            list.ns(piece.from.ticks()).to_string(),
            list.ns(piece.to.ticks()).to_string(),
            list.ns(piece.service).to_string(),
        ];
        list.line(&cells);
    }
}

#[cfg(test)]
mod tests;
