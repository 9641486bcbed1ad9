//! What must hold of a live machine, whatever happens to it. All of it is seen from outside: by
//! what the simulated kernel knows, and what was reported to the policy.

use super::LiveCase;
use super::around::{Decider, MODES};
use super::host::{LiveFaults, Shared, SimCore};
use super::world::{Group, World};
use maracas_core::contract::Mode;
use maracas_core::{CoreId, Duration, Event, Instant, VcpuId};
use maracas_live_core::{Core, Level, SilentJob, VcpuHandle};
use std::collections::BTreeMap;

/// Service that is not worth telling of, by mode: a few switches' worth, in nanoseconds.
const UNTOLD: u64 = 20_000;
/// How long an agent sleeps at most, in nanoseconds.
const PULSE: u64 = 30_000_000;

pub(super) struct Audit {
    faults: LiveFaults,
    refused: u64,
    failed: u64,
    left: bool,
    /// The limits that stood when agents fell asleep: one that is lowered since, perhaps below what
    /// was had already, holds from the next look on.
    limits: BTreeMap<VcpuId, Duration>,
}

/// The limit of a VCPU handle on its core's run queue, if it has one and is held at a real-time
/// level.
fn limit<H: maracas_live_core::Handle>(
    run_queue: &maracas_core::contract::RunQueue,
    vcpu_handle: &VcpuHandle<H>,
) -> Option<Duration> {
    let own = run_queue.foreground.iter().find(|grant| grant.vcpu == vcpu_handle.id)?;
    matches!(vcpu_handle.level, Level::Foreground(_)).then_some(own.until.0)
}

impl Audit {
    pub(super) const fn new(case: &LiveCase) -> Self {
        let limits = BTreeMap::new();
        Self { faults: case.faults, refused: 0, failed: 0, left: false, limits }
    }

    /// An agent wakes, so late: no VCPU had more than its limit but by that lateness, by what no
    /// record shows, and by what the agent's own calls take.
    pub(super) fn wakes(
        &self,
        core: &mut Core<SimCore>,
        world: &mut World,
        late: u64,
    ) -> Result<(), String> {
        if self.faults.refuse_one_in != 0 {
            return Ok(());
        }
        world.bring_all();
        let cost = core.waking.cost();
        let own = core.waking.unseen().max(core.waking.grain()) + cost.p99 * 2;
        // What it runs until it is frozen is charged to the mode that ended.
        let slack = own.ticks() + late + self.faults.freeze + 400 * self.faults.call;
        let slack = world.stretched(usize::from(core.id.0), slack);
        for vcpu_handle in &core.vcpu_handles {
            let Some(limit) = limit(&core.run_queue, vcpu_handle) else { continue };
            let meter =
                vcpu_handle.meter(Mode::Foreground).ticks() + vcpu_handle.handle.unread(world);
            let stood = self.limits.get(&vcpu_handle.id).copied().unwrap_or_default();
            let over = meter.saturating_sub(limit.max(stood).ticks());
            if over > slack {
                return Err(format!(
                    "{} on {} is {over} ns beyond its limit of {limit}, though its agent was \
                     {late} ns late and {own} is all that nothing reports",
                    vcpu_handle.id, core.id
                ));
            }
        }
        Ok(())
    }

    /// An agent has enforced: no VCPU has a real-time level without standing on the run queue.
    pub(super) fn enforced(&self, core: &Core<SimCore>, shared: &Shared) -> Result<(), String> {
        if self.faults.refuse_one_in != 0 || shared.dead.get() {
            return Ok(());
        }
        for vcpu_handle in &core.vcpu_handles {
            if matches!(vcpu_handle.level, Level::Foreground(_))
                && limit(&core.run_queue, vcpu_handle).is_none()
            {
                return Err(format!(
                    "{} is raised on {} and not in its run queue",
                    vcpu_handle.id, core.id
                ));
            }
        }
        Ok(())
    }

    /// The agent has decided, if it did: every refusal was reported to the policy.
    pub(super) fn answered(&mut self, shared: &Shared, decider: &Decider) -> Result<(), String> {
        let waits = |core: &Core<SimCore>| {
            let failed = |(_, event): &&(maracas_core::Instant, Event)| {
                matches!(event, Event::Failed { .. })
            };
            core.outbox.iter().filter(failed).count() as u64
        };
        let host = &decider.host;
        let failed = host.told.failed + host.cores.iter().map(waits).sum::<u64>();
        let refused = shared.refused.get();
        let is_reported = refused == self.refused || failed > self.failed;
        (self.refused, self.failed) = (refused, failed);
        if is_reported || shared.dead.get() {
            return Ok(());
        }
        Err("the host refused something and it was not reported to the policy".to_string())
    }

    /// An agent has decided, and nothing is left to decide: no job of a silent program goes on of
    /// which it was reported that it has received C.
    pub(super) fn presumed(core: &Core<SimCore>) -> Result<(), String> {
        let goes_on = |it: &&VcpuHandle<_>| it.silent_job == SilentJob::Reported;
        match core.vcpu_handles.iter().find(goes_on) {
            Some(it) => {
                Err(format!("{} on {} says nothing, has had C and goes on", it.id, core.id))
            }
            None => Ok(()),
        }
    }

    /// An agent falls asleep until `due`.
    pub(super) fn sleeps(
        &mut self,
        core: CoreId,
        shared: &Shared,
        decider: &Decider,
        now: u64,
        due: u64,
    ) -> Result<(), String> {
        if shared.dead.get() {
            return Ok(());
        }
        let core = &decider.host.cores[usize::from(core.0)];
        let floor = core.waking.floor().ticks().min(PULSE);
        if due < now + floor {
            let slept = due.saturating_sub(now);
            return Err(format!(
                "the agent of {} sleeps for {slept} ns, and no sleep is to be shorter than {floor}",
                core.id
            ));
        }
        let world = shared.world.borrow();
        let has_foreground = core.vcpu_handles.iter().any(|vcpu_handle| {
            matches!(vcpu_handle.level, Level::Foreground(_)) && vcpu_handle.is_runnable()
        });
        for vcpu_handle in &core.vcpu_handles {
            if vcpu_handle.has_just_received() && due > now + floor {
                return Err(format!(
                    "{} says nothing and has had C, and the agent of {} sleeps for {} ns",
                    vcpu_handle.id,
                    core.id,
                    due - now
                ));
            }
            let limit = limit(&core.run_queue, vcpu_handle).unwrap_or_default();
            self.limits.insert(vcpu_handle.id, limit);
            // A freeze that was refused is learned of at the next look.
            if vcpu_handle.handle.is_refused() {
                continue;
            }
            let again = vcpu_handle.retry.at();
            if again != Instant::NEVER {
                tried_again(core, again, now, due)?;
                continue;
            }
            held_as_believed(core, vcpu_handle, &world)?;
            let waits = vcpu_handle.is_done || vcpu_handle.is_leaving;
            let left = vcpu_handle.level == Level::Watched && vcpu_handle.is_runnable() && !waits;
            if left && !has_foreground && decider.held() == 0 && !core.stirred {
                return Err(format!(
                    "{} may not run on {} and is not stopped, though no program is being started",
                    vcpu_handle.id, core.id
                ));
            }
        }
        Ok(())
    }

    /// At the end all that was counted was reported, once.
    pub(super) fn conserved(&self, decider: &mut Decider, shared: &Shared) -> Result<(), String> {
        if self.faults.refuse_one_in != 0 || shared.dead.get() {
            return Ok(());
        }
        let told = &decider.host.told;
        for core in &mut decider.host.cores {
            for vcpu_handle in &mut core.vcpu_handles {
                let _ = vcpu_handle.settle();
                let reported = told.service.get(&vcpu_handle.id).copied().unwrap_or_default();
                let meters = MODES.map(|mode| vcpu_handle.meter(mode).ticks());
                let off = |mode: usize| meters[mode].abs_diff(reported[mode]);
                if off(0).max(off(1)) > UNTOLD {
                    return Err(format!(
                        "{} had {meters:?} ns by mode, {reported:?} were reported to the policy",
                        vcpu_handle.id
                    ));
                }
                let had = vcpu_handle.handle.had();
                // A slower core's time is rounded each time that it goes elsewhere.
                let rounded = if self.faults.share_milli == 1000 { 0 } else { told.decisions };
                if had.abs_diff(meters[0] + meters[1]) > rounded {
                    return Err(format!(
                        "{} had {had} ns, its meters read {meters:?}",
                        vcpu_handle.id
                    ));
                }
            }
        }
        Ok(())
    }

    /// Agents wake no more often than looks for what no event reports, and what happens, ask for.
    pub(super) fn bounded(
        &self,
        wakes: u64,
        until: u64,
        reliefs: u64,
        decider: &Decider,
    ) -> Result<(), String> {
        let (host, told) = (&decider.host, &decider.host.told);
        let looks = |core: &Core<SimCore>| until / core.waking.grain().ticks() + until / PULSE;
        let looks: u64 = host.cores.iter().map(looks).sum();
        let threads = host.shared.world.borrow().threads.len() as u64;
        let happened = 8 * told.decisions + 4 * told.events + 4 * threads + 4 * reliefs + 100;
        let most = (looks * 5 / 4 + happened) * if self.faults.early_one_in == 0 { 1 } else { 2 };
        if wakes > most {
            return Err(format!("agents woke {wakes} times, where {most} would do"));
        }
        Ok(())
    }

    /// Something could not be let go: that is left to the guardian.
    pub(super) const fn left_to_guardian(&mut self) {
        self.left = true;
    }
    pub(super) const fn is_left(&self) -> bool {
        self.left
    }

    /// After an end nothing is raised and nothing is frozen.
    pub(super) fn end(&self, world: &mut World) -> Result<(), String> {
        world.bring_all();
        for (place, thread) in world.threads.iter().enumerate() {
            if !thread.gone && thread.level != 0 {
                let (level, id) = (thread.level, world.groups[thread.group].id);
                return Err(format!("thread {place} of {id} is left at level {level}"));
            }
        }
        let held = |group: &&Group| group.alive && (group.frozen || group.asked.is_some());
        match world.groups.iter().find(held) {
            Some(group) => Err(format!("{} is left frozen", group.id)),
            None => Ok(()),
        }
    }
}

/// Whether what was refused is tried again, soon enough and not too soon.
fn tried_again(core: &Core<SimCore>, at: Instant, now: u64, due: u64) -> Result<(), String> {
    let (at, grain) = (at.ticks(), core.waking.grain().ticks());
    let floor = core.waking.floor().ticks();
    // What a wake costs is learned meanwhile.
    if due > at.max(now + floor).min(now + PULSE) || at > now + 4 * 256 * grain {
        return Err(format!("what was refused on {} is not tried again in time", core.id));
    }
    Ok(())
}

/// Whether what a core believes of how a VCPU handle is held is so.
fn held_as_believed(
    core: &Core<SimCore>,
    vcpu_handle: &VcpuHandle<super::host::SimVcpu>,
    world: &World,
) -> Result<(), String> {
    let level = match vcpu_handle.level {
        Level::Foreground(level) => level,
        Level::Background | Level::Watched | Level::Frozen => 0,
    };
    for thread in vcpu_handle.threads() {
        let it = &world.threads[world.place(thread.tid)];
        if !it.gone && it.level != level {
            return Err(format!(
                "thread {} of {} on {} is at level {}, its core believes {level}",
                thread.tid, vcpu_handle.id, core.id, it.level
            ));
        }
    }
    let group = &world.groups[vcpu_handle.handle.group];
    let frozen = group.asked.map_or(group.frozen, |(_, frozen)| frozen);
    if frozen != (vcpu_handle.level == Level::Frozen) {
        return Err(format!(
            "{} on {} is frozen: {frozen}, its core believes {:?}",
            vcpu_handle.id, core.id, vcpu_handle.level
        ));
    }
    Ok(())
}
