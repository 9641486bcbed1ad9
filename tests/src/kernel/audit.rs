//! What must hold of a machine whose law the kernel carries out, whatever happens to it.

use super::seam::Decider;
use super::world::World;
use crate::Auditor;
use crate::lateness::Lateness;
use maracas_core::contract::{End, Observer, Segment};
use maracas_core::{Arrival, CoreId, Duration, Event, Instant, Job, Plan, System, VcpuId};
use std::collections::BTreeMap;

/// How much was reported to the policy and decided.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) events: u64,
    pub(super) decisions: u64,
    /// Refusals.
    pub(super) failed: u64,
    /// Jobs that were released, and those that were completed.
    pub(super) jobs: [u64; 2],
}

/// What was reported to the policy and what it decided.
#[derive(Default)]
pub(super) struct Told {
    /// Jobs that programs are to be told of.
    pub(super) released: Vec<Job>,
    /// Service of each VCPU by mode.
    pub(super) service: BTreeMap<VcpuId, [u64; 2]>,
    /// Reads by core and of each VCPU.
    reads: (BTreeMap<CoreId, u64>, BTreeMap<VcpuId, u64>),
    pub(super) counts: Counts,
    /// Of all of it.
    pub(super) digest: u64,
    /// Up to when each VCPU's segment under way was reported, and since when it runs.
    reported: BTreeMap<VcpuId, [Instant; 2]>,
    /// What the simulator's runs are held to, too.
    pub(super) auditor: Option<Auditor>,
    pub(super) lateness: Lateness,
    /// VCPUs with jobs, whose demand is told by those alone.
    with_jobs: Vec<VcpuId>,
    /// Events since the last decision: those of different cores come one core after the other.
    since: Vec<(Instant, Event)>,
    wrong: Option<String>,
}

impl Told {
    /// Held to what the auditor says, too.
    pub(super) fn new(auditor: Option<Auditor>, system: &System) -> Self {
        let jobs = system.vcpus.iter().filter(|vcpu| vcpu.arrival != Arrival::None);
        let with_jobs = jobs.map(|vcpu| vcpu.id).collect();
        Self { auditor, with_jobs, ..Self::default() }
    }
    pub(super) fn wrong(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }
    /// The first thing that was wrong.
    pub(super) fn verdict(&mut self) -> Result<(), String> {
        self.wrong.take().map_or(Ok(()), Err)
    }
    const fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Takes in a segment; what of it was not reported before, as one of its own.
    fn ran(&mut self, at: Instant, segment: &Segment) -> Segment {
        let Segment { vcpu, mode, from, to, usage, end, .. } = *segment;
        let had = &mut self.service.entry(vcpu).or_default()[mode as usize];
        *had += usage.service.ticks();
        *self.reads.0.entry(segment.core).or_default() += usage.reads;
        *self.reads.1.entry(vcpu).or_default() += usage.reads;
        if from > to || to != at {
            self.wrong(format!("{segment:?} is reported at {at}"));
        }
        let before = self.reported.get(&vcpu).filter(|[began, _]| *began == from);
        let from = before.map_or(from, |[_, upto]| *upto);
        if end == End::Metered {
            self.reported.insert(vcpu, [segment.from, to]);
        } else {
            self.reported.remove(&vcpu);
        }
        Segment { from, ..*segment }
    }

    /// Holds what happened since the last decision to what the simulator's runs are held to.
    fn flush(&mut self) {
        let mut since = std::mem::take(&mut self.since);
        since.sort_by_key(|(at, _)| *at);
        for (at, event) in since {
            let is_empty = matches!(&event, Event::Ran(it) if it.from == it.to);
            let is_by_job =
                matches!(&event, Event::Woke { vcpu, .. } if self.with_jobs.contains(vcpu));
            if is_empty || is_by_job {
                continue;
            }
            self.lateness.event(at, &event);
            self.auditor.iter_mut().for_each(|auditor| auditor.event(at, &event));
        }
    }

    /// It was told that a core's allowance is spent; `allowance` is the one that was.
    pub(super) fn spent(&mut self, core: CoreId, allowance: Option<u64>) {
        let read = self.reads.0.get(&core).copied().unwrap_or_default();
        if allowance.is_none_or(|allowance| read < allowance) {
            self.wrong(format!("{core} read {read} as reported and spent {allowance:?}"));
        }
    }

    pub(super) fn end(&mut self) {
        self.flush();
    }
}

impl Observer for Told {
    fn event(&mut self, at: Instant, event: &Event) {
        self.counts.events += 1;
        self.mix(at.ticks());
        let mut event = event.clone();
        if let Event::Ran(segment) = &mut event {
            self.mix(u64::from(segment.vcpu.0) << 8 | segment.mode as u64);
            self.mix(segment.usage.service.ticks());
            *segment = self.ran(at, segment);
        }
        self.counts.failed += u64::from(matches!(event, Event::Failed { .. }));
        self.counts.jobs[0] += u64::from(matches!(event, Event::Released(_)));
        self.counts.jobs[1] += u64::from(matches!(event, Event::Completed(_)));
        self.since.push((at, event));
    }
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.counts.decisions += 1;
        self.mix(now.ticks() ^ plan.dirty().iter().count() as u64);
        self.flush();
        self.auditor.iter_mut().for_each(|auditor| auditor.planned(now, plan));
    }
}

/// After a decision was carried out: the kernel follows what was decided, and each VCPU is woken
/// where it stands.
pub(super) fn enacted(decider: &mut Decider, world: &World) -> Result<(), String> {
    if world.is_unsent {
        return Ok(());
    }
    let plan = decider.plan();
    for core in plan.core_ids() {
        let (decided, sent) = (plan.run_queue(core), world.sent(usize::from(core.0)));
        if decided != sent {
            return Err(format!(
                "at {}: {core} is to follow {decided:?} and has {sent:?}",
                world.now
            ));
        }
        if let Some(vcpu) = world.misnumbered(usize::from(core.0)) {
            return Err(format!(
                "at {}: what {core} has of {vcpu} is not of the number that it has",
                world.now
            ));
        }
        if let Some(vcpu) = world.has_lapsed(usize::from(core.0)) {
            return Err(format!(
                "at {}: what {core} has of {vcpu} lapsed by a wake that the decider knows of",
                world.now
            ));
        }
    }
    if world.refused > 0 {
        return Ok(());
    }
    if let Some(place) = world.left_out() {
        return Err(format!(
            "at {}: thread {place} belongs to no VCPU, its parent does",
            world.now
        ));
    }
    for (core, state) in decider.host.cores.iter_mut().enumerate() {
        use maracas_live_core::ManagedCore;
        for vcpu_handle in state.vcpu_handles() {
            let home = world.homes.get(&vcpu_handle.id);
            if home != Some(&CoreId(core as u16)) {
                return Err(format!(
                    "at {}: {} sits on core{core} and is woken on {home:?}",
                    world.now, vcpu_handle.id
                ));
            }
        }
    }
    Ok(())
}

/// Every refusal was reported to the policy.
pub(super) fn answered(decider: &mut Decider, world: &World) -> Result<(), String> {
    use maracas_live_core::ManagedCore;
    let waits = |core: &mut maracas_live_core::KernelCore<super::seam::TwinKernel>| {
        let failed = |(_, event): &&(Instant, Event)| matches!(event, Event::Failed { .. });
        core.outbox().iter().filter(failed).count() as u64
    };
    let waits: u64 = decider.host.cores.iter_mut().map(waits).sum();
    let (reported, refused) = (decider.host.told.counts.failed + waits, world.refused);
    // A VCPU has several threads, of which the policy learns once.
    if refused > 0 && reported == 0 {
        return Err(format!("{refused} things were refused and none was reported"));
    }
    Ok(())
}

/// What ended has no threads in the kernel.
pub(super) fn gone(vcpu: VcpuId, world: &World) -> Result<(), String> {
    match world.threads.iter().position(|it| it.joined == Some(vcpu)) {
        Some(place) if world.refused == 0 => {
            Err(format!("{vcpu} has ended, and thread {place} belongs to it still"))
        }
        _ => Ok(()),
    }
}

/// At the end all that the meters read was reported, once.
pub(super) fn conserved(told: &Told, world: &World) -> Result<(), String> {
    world.counted.verdict()?;
    let [cores, vcpus] = &world.counted.meters;
    let cores = (0..).map(CoreId).zip(cores).map(|(id, read)| (told.reads.0.get(&id), *read));
    let vcpus = (0..).map(VcpuId).zip(vcpus).map(|(id, read)| (told.reads.1.get(&id), *read));
    for (reported, read) in cores.chain(vcpus) {
        let reported = reported.copied().unwrap_or_default();
        if reported != read && world.lost == 0 {
            return Err(format!("{read} reads by a meter, {reported} were reported"));
        }
    }
    if world.lost == 0 && world.counted.spent.iter().any(|spent| !spent.is_empty()) {
        return Err(format!("allowances were spent and not told: {:?}", world.counted.spent));
    }
    for (vcpu, meters) in (0..).map(VcpuId).zip(&world.had) {
        let reported = told.service.get(&vcpu).copied().unwrap_or_default();
        for (reported, had) in reported.iter().zip(meters) {
            // What is as good as spent counts as had.
            let is_lost = world.lost > 0 && reported < had;
            if !(*had..=had + world.faults.least).contains(reported) && !is_lost {
                return Err(format!("{vcpu} had {had} ns, {reported} ns were reported"));
            }
        }
    }
    Ok(())
}

/// What the simulator would say of such a run, as far as its auditor asks.
pub(super) fn outcome(told: &Told, world: &World) -> maracas_sim::Outcome {
    maracas_sim::Outcome {
        released: told.counts.jobs[0],
        completed: told.counts.jobs[1],
        events: told.counts.events,
        decisions: told.counts.decisions,
        end: super::world::instant(world.now),
        idle: world.cpus.iter().map(|cpu| Duration::from_ticks(cpu.idle)).collect(),
        ..maracas_sim::Outcome::default()
    }
}
