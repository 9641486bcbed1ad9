//! Memory meters and the contention model: what runs goes in, speeds and counts come out.

use super::Machine;
use crate::memory::{Contention, MemoryTotals, Resident};
use crate::workload::NONE;
use maracas_core::contract::{End, Event, MemoryLimit, Meters, Usage};
use maracas_core::dispatch::Readings;
use maracas_core::{CoreId, CoreSet, Duration, Instant, VcpuId};

/// A core's memory meter and what it is held against.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryMeter {
    /// What it counted of whatever ran here.
    pub(super) reading: u64,
    /// The memory limit of the VCPU that runs.
    pub(super) until: MemoryLimit,
    /// The allowance that was last reported as spent.
    reported: Option<MemoryLimit>,
    /// What the running segment counted so far.
    counted: Usage,
}

impl MemoryMeter {
    pub(super) const NEW: Self = Self {
        reading: 0,
        until: MemoryLimit::NEVER,
        reported: None,
        counted: Usage {
            service: Duration::ZERO,
            references: 0,
            reads: 0,
            writes: 0,
            metered: None,
            instructions: 0,
        },
    };
}

/// What the memory controller had counted when it was last asked.
pub(super) struct Sampled {
    /// At the last sample.
    pub(super) totals: MemoryTotals,
    /// For how long it had been busy when that was last reported, and when; `None` = the policy
    /// does not ask.
    busy: Option<(Duration, Instant)>,
}

impl Sampled {
    pub(super) fn new(meters: Meters) -> Self {
        let busy = meters.controller.then_some((Duration::ZERO, Instant::ZERO));
        Self { totals: MemoryTotals::default(), busy }
    }
}

impl<C: Contention> Machine<'_, C> {
    /// Lets the program on `core` progress for `time`, counts what it does to memory, and returns
    /// its work.
    #[inline]
    pub(super) fn progress(&mut self, core: usize, time: Duration) -> Duration {
        if !C::CONTENDS {
            return time;
        }
        let progress = self.contention.advance(CoreId(core as u16), time);
        let meter = &mut self.meters[core];
        let metered = progress.counted.metered();
        meter.reading += metered;
        meter.counted.add(&progress.counted);
        self.demands.of_mut(self.cores[core].running).memory += metered;
        progress.work
    }

    /// Holds the VCPU that runs on `core` against this reading of its memory meter.
    #[inline]
    pub(super) fn set_memory_limit(&mut self, core: usize, until: MemoryLimit) {
        if C::CONTENDS {
            self.meters[core].until = until;
        }
    }

    /// What the segment that ends counted; the next begins at nothing.
    #[inline]
    pub(super) fn take_counts(&mut self, core: usize) -> Usage {
        if C::CONTENDS { std::mem::take(&mut self.meters[core].counted) } else { Usage::default() }
    }

    /// When a memory meter reaches what it is held against: the core's its allowance, or the
    /// running VCPU's its limit. The core must be settled.
    #[inline]
    pub(super) fn memory_due(&self, core: usize) -> Instant {
        let meter = &self.meters[core];
        let allowance = self.plan.run_queue(CoreId(core as u16)).allowance;
        if allowance == MemoryLimit::NEVER && meter.until == MemoryLimit::NEVER {
            return Instant::NEVER;
        }
        self.limit_due(core, allowance)
    }

    /// The same where one of them is held against something.
    fn limit_due(&self, core: usize, allowance: MemoryLimit) -> Instant {
        let (meter, own) = (&self.meters[core], &self.cores[core]);
        let mut left = allowance.left(meter.reading);
        if meter.until != MemoryLimit::NEVER {
            let own = meter.until.left(self.demands.memory(VcpuId(own.running)));
            left = left.into_iter().chain(own).min();
        }
        let Some(left) = left else { return Instant::NEVER };
        let time = self.contention.time_to_meter(CoreId(core as u16), left);
        self.now.max(own.stalled).saturating_add(time)
    }

    /// Whether the running VCPU must stop because a memory meter is where it may not go beyond.
    #[inline]
    pub(super) fn memory_end(&self, core: usize) -> Option<End> {
        if !C::CONTENDS {
            return None;
        }
        let meter = &self.meters[core];
        if meter.until != MemoryLimit::NEVER
            && meter.until.is_reached(self.demands.memory(VcpuId(self.cores[core].running)))
        {
            return Some(End::MemorySpent);
        }
        let allowance = self.plan.run_queue(CoreId(core as u16)).allowance;
        allowance.is_reached(meter.reading).then_some(End::Preempted)
    }

    /// Reports each of `cores` whose meter is at its allowance or beyond, once an allowance.
    pub(super) fn report_spent(&mut self, cores: &CoreSet) {
        for id in cores.iter() {
            let allowance = self.plan.run_queue(id).allowance;
            let meter = &mut self.meters[id.0 as usize];
            if !allowance.is_reached(meter.reading) {
                // Open again: should it be closed by the same allowance, that is news.
                meter.reported = None;
            } else if meter.reported != Some(allowance) {
                meter.reported = Some(allowance);
                self.tell(id.0 as usize, &Event::AllowanceSpent { core: id });
            }
        }
    }

    /// Reports how busy the memory controller was since this was last reported, where the policy
    /// asked for that.
    pub(super) fn report_busy(&mut self) {
        let Some((reported, since)) = self.sampled.busy else { return };
        self.settle_all();
        let Some(busy) = self.contention.busy(self.now) else { return };
        let of = self.now.saturating_since(since);
        if !of.is_zero() {
            self.sampled.busy = Some((busy, self.now));
            self.tell(0, &Event::Utilized { busy: busy - reported, of });
        }
    }

    /// Asks the contention model anew where other programs run than before, or it wants to be.
    pub(super) fn resolve_contention(&mut self) {
        let changed = std::mem::take(&mut self.set_changed);
        let due = self.contention.next_change() <= self.now;
        let all = C::COUPLED || due;
        let (mut same, mut stale) = (!due, CoreSet::EMPTY);
        for core in 0..self.cores.len() {
            if all {
                self.settle(core);
            }
            // Mostly it is only the model that wants to be asked: then all run what they ran.
            debug_assert!(
                changed || self.residents[core] == self.resident(core),
                "core{core} runs another program"
            );
            if changed {
                let resident = self.resident(core);
                if std::mem::replace(&mut self.residents[core], resident) != resident {
                    same = false;
                    stale.insert(CoreId(core as u16));
                }
            }
        }
        if !same {
            self.contention.resolve(self.now, &self.residents);
        }
        for core in 0..self.cores.len() {
            if all || stale.contains(CoreId(core as u16)) {
                self.retime(core);
            }
        }
    }

    /// What runs on a core.
    fn resident(&self, core: usize) -> Option<Resident> {
        let running = self.cores[core].running;
        let program = || self.demands.current(running);
        (running != NONE).then(|| Resident { vcpu: VcpuId(running), program: program() })
    }

    /// Brings every counter up to now.
    pub(super) fn settle_all(&mut self) {
        for core in 0..self.cores.len() {
            self.settle(core);
        }
    }
}
