//! What a running system shows of itself, by the same counts as its report.
//!
//! Taking gauges costs what there are cores and VCPUs; nothing is sorted and no distribution is
//! copied, so that it may be done often. What the report does not need is followed here, in journal
//! records only: a simulation that is observed directly pays nothing for it.

use super::judge::Judge;
use super::{Metrics, place};
use crate::report::StatisticReport;
use maracas_core::contract::{Event, Mode, Sample, Segment};
use maracas_core::control::{
    CoreGauges, Gauges, Histogram, MemoryGauges, StatisticGauge, VcpuGauges,
};
use maracas_core::journal::{Note, Record};
use maracas_core::{CoreId, Duration, Instant, Reservation, VcpuId};

/// What holds now, beside the sums of the report.
#[derive(Clone, Default, Debug)]
pub(super) struct Present {
    at: Instant,
    over: bool,
    host: String,
    sensor: String,
    failures: u64,
    dispatch: Histogram,
    /// Where and how each VCPU ran last, by its number.
    last: Vec<Option<(CoreId, Mode)>>,
    /// Requests by core of all samples.
    by_core: Vec<u64>,
    /// The last one's.
    last_by_core: Vec<u64>,
    memory: Option<MemoryGauges>,
    sampled_at: Instant,
}

impl Present {
    /// Takes in one journal record.
    pub(super) fn record(&mut self, record: &Record) {
        match record {
            Record::Event { at, event } => {
                self.at = self.at.max(*at);
                self.event(*at, event);
            }
            Record::Planned(decision) => self.at = self.at.max(decision.now),
            Record::Gap(_) => {}
            Record::Note { at, note } => {
                self.at = self.at.max(*at);
                self.note(note);
            }
            Record::End(at) => (self.at, self.over) = (self.at.max(*at), true),
        }
    }

    fn event(&mut self, at: Instant, event: &Event) {
        match event {
            Event::Ran(segment) => self.ran(segment),
            Event::Sampled(sample) => self.sampled(at, sample),
            Event::Failed { .. } => self.failures += 1,
            Event::Released(_)
            | Event::Completed(_)
            | Event::Woke { .. }
            | Event::AllowanceSpent { .. }
            | Event::Arrived(_)
            | Event::Left(_)
            | Event::Changed(_)
            | Event::Utilized { .. }
            | Event::ServiceDone(_) => {}
        }
    }

    fn ran(&mut self, segment: &Segment) {
        let index = segment.vcpu.0 as usize;
        if self.last.len() <= index {
            self.last.resize(index + 1, None);
        }
        self.last[index] = Some((segment.core, segment.mode));
    }

    fn sampled(&mut self, at: Instant, sample: &Sample) {
        let memory = self.memory.get_or_insert_default();
        memory.samples += 1;
        memory.requests += sample.requests;
        memory.occupancy += sample.occupancy;
        (memory.last_requests, memory.last_occupancy) = (sample.requests, sample.occupancy);
        memory.last_span = at.saturating_since(self.sampled_at);
        self.sampled_at = at;
        if self.by_core.len() < sample.by_core.len() {
            self.by_core.resize(sample.by_core.len(), 0);
        }
        self.by_core.iter_mut().zip(&sample.by_core).for_each(|(sum, more)| *sum += more);
        self.last_by_core.clone_from(&sample.by_core);
    }

    fn note(&mut self, note: &Note) {
        if let Note::Dispatch { latency_ns, .. } = note {
            self.dispatch.add(Duration::from_nanos(*latency_ns));
        } else if let Note::Host(text) = note {
            self.host.clone_from(text);
        } else if let Note::Sensor(text) = note {
            self.sensor.clone_from(text);
        }
    }
}

impl Metrics {
    /// What the journal records so far say of the running system. Costs part of a microsecond for
    /// each VCPU. The time throttled may be taken back by as much of a segment as is not reported
    /// yet; all other sums only grow.
    pub fn gauges(&self) -> Gauges {
        let present = &self.present;
        let scale = Scale(self.header.system.ticks_per_ns.max(1));
        let there = self.tasks.iter().filter(|task| task.is_there());
        let ever = self.tasks.iter().filter(|task| task.present);
        let memory = present.memory.map(|memory| {
            let last_span = scale.duration(memory.last_span);
            MemoryGauges { last_span, ..memory }
        });
        Gauges {
            at: scale.instant(present.at),
            over: present.over,
            policy: self.header.policy.clone(),
            host: present.host.clone(),
            sensor: present.sensor.clone(),
            cores: (0..self.cores.len()).map(|core| self.core_gauges(core, &scale)).collect(),
            vcpus: there.map(|task| self.vcpu_gauges(task, &scale)).collect(),
            memory,
            dispatch: present.dispatch.clone(),
            decisions: self.decisions,
            misses: ever.clone().map(|task| task.misses_by(present.at, present.over)).sum(),
            migrations: ever.map(|task| task.pieces.all_migrations()).sum(),
            failures: present.failures,
            lost_records: self.lost_records,
            statistics: self.statistics.iter().map(statistic).collect(),
        }
    }

    fn core_gauges(&self, core: usize, scale: &Scale) -> CoreGauges {
        let (time, at) = (&self.cores[core], self.present.at);
        let [foreground, background] = time.busy.map(|ticks| scale.ticks(ticks));
        let causes = self.causes.of(core as u16);
        let late = causes.map(|causes| causes.late).unwrap_or_default();
        CoreGauges {
            core: CoreId(core as u16),
            foreground,
            background,
            throttled: scale.ticks(time.throttled_until(at)),
            is_throttled: time.memory_gate.is_background_closed(),
            is_closed: time.memory_gate.is_spent(),
            requests: time.requests,
            sampled: self.present.by_core.get(core).copied().unwrap_or(0),
            last_sampled: self.present.last_by_core.get(core).copied().unwrap_or(0),
            decisions: time.decisions,
            late: late.count,
            longest_late: Duration::from_nanos(late.longest_ns),
            stolen: Duration::from_nanos(late.stolen_ns),
            reliefs: causes.map_or(0, |causes| causes.reliefs.len() as u64),
        }
    }

    fn vcpu_gauges(&self, task: &super::Task, scale: &Scale) -> VcpuGauges {
        let (at, over) = (self.present.at, self.present.over);
        let [foreground, background] = [Mode::Foreground, Mode::Background].map(place);
        let both = |of: fn(&maracas_core::contract::Usage) -> u64| {
            of(&task.used[foreground]) + of(&task.used[background])
        };
        let judge = Some(&task.windows.judge).filter(|_| task.is_promised());
        let judged = |of: fn(&Judge) -> u64| judge.map_or(0, of);
        VcpuGauges {
            vcpu: task.id,
            name: task.name.clone(),
            reservation: scale.reservation(&task.reservation),
            last: self.present.last.get(task.id.0 as usize).copied().flatten(),
            foreground: scale.duration(task.used[foreground].service),
            background: scale.duration(task.used[background].service),
            used: scale.ticks(task.windows.used_at(at)),
            short_periods: judged(|judge| judge.short.periods),
            over_periods: judged(|judge| judge.over.periods),
            stolen_periods: judged(|judge| judge.stolen),
            jobs: task.released_by(at),
            misses: task.misses_by(at, over),
            preemptions: task.preemptions_by(at, over),
            migrations: task.pieces.all_migrations(),
            instructions: both(|used| used.instructions),
            references: both(|used| used.references),
            reads: both(|used| used.reads),
            writes: both(|used| used.writes),
        }
    }
}

fn statistic(statistic: &StatisticReport) -> StatisticGauge {
    let (core, vcpu) = (statistic.core.map(CoreId), statistic.vcpu.map(VcpuId));
    StatisticGauge { name: statistic.name.clone(), core, vcpu, value: statistic.value }
}

/// So many ticks are a nanosecond.
struct Scale(u64);

impl Scale {
    const fn ticks(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks / self.0)
    }
    const fn duration(&self, duration: Duration) -> Duration {
        self.ticks(duration.ticks())
    }
    const fn instant(&self, at: Instant) -> Instant {
        Instant::from_ticks(at.ticks() / self.0)
    }
    const fn reservation(&self, reservation: &Reservation) -> Reservation {
        Reservation {
            budget: self.duration(reservation.budget),
            period: self.duration(reservation.period),
            deadline: self.duration(reservation.deadline),
        }
    }
}

#[cfg(test)]
mod tests;
