//! Tasks split among cores, each piece in a window of its own: which core does how much of a job
//! that no core can take whole, and in which part of the time from its release to its deadline.
//!
//! A piece is a sporadic task on its core: it is released as often as its task, has a budget and a
//! deadline, and no other piece of the job may run in its window. So what the exact test of EDF on
//! one core accepts on each core is in time, and no job is ever on two cores.

use super::bounds::{self, heaviest_first};
use super::table::{Family, Table, Test};
use super::{jobs, priority, qpa};
use alloc::format;
use alloc::vec::Vec;
use maracas_core::admission::{CoreVerdict, NotAdmitted, TestResult, Verdict};
use maracas_core::{CoreId, Duration, Rate, Reservation, System, Vcpu, VcpuId};

/// What one core does of each job of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) core: CoreId,
    /// When its window begins, counted from the job's release.
    pub(crate) from: Duration,
    /// How long that is.
    pub(crate) window: Duration,
    /// What the core does in it at most.
    pub(crate) budget: Duration,
    /// After which time the same window begins again: T, or less where a job has more than one
    /// such window, as many as there are of this length in D.
    pub(crate) every: Duration,
}

impl Piece {
    /// All of `vcpu`.
    pub(crate) const fn whole(core: CoreId, vcpu: &Vcpu) -> Self {
        let Reservation { budget, deadline: window, period: every } = vcpu.reservation;
        Self { core, from: Duration::ZERO, window, budget, every }
    }
    /// The piece as a task.
    fn of(self, vcpu: &Vcpu) -> Vcpu {
        let Self { budget, window: deadline, every: period, .. } = self;
        Vcpu { reservation: Reservation { budget, period, deadline }, ..vcpu.clone() }
    }
}

/// A piece of that budget in a window of that length, as a task.
pub(crate) fn of_length(vcpu: &Vcpu, budget: Duration, window: Duration) -> Vcpu {
    let period = vcpu.reservation.period;
    Vcpu { reservation: Reservation { budget, period, deadline: window }, ..vcpu.clone() }
}

/// How a policy splits a task that no core takes whole: the pieces, in the order of their windows,
/// on a core each; `None` where it finds none.
pub(crate) type Split = fn(&Cores, &Vcpu) -> Option<Vec<Piece>>;

/// C=D: a piece without any spare time, of the greatest budget that any core takes so, and then the
/// rest of the task, (C - c, D - c, T), to the first other core that takes it, or split again.
pub(crate) fn without_spare_time(cores: &Cores, vcpu: &Vcpu) -> Option<Vec<Piece>> {
    let (mut pieces, mut from, mut left) = (Vec::new(), Duration::ZERO, vcpu.reservation);
    let mut free: Vec<CoreId> = cores.ids().collect();
    loop {
        let Reservation { budget, deadline: window, period: every } = left;
        let rest = of_length(vcpu, budget, window);
        if let Some(core) = free.iter().copied().find(|core| cores.fits(*core, &rest)) {
            pieces.push(Piece { core, from, window, budget, every });
            return Some(pieces);
        }
        let piece = |budget| of_length(vcpu, budget, budget);
        let below = budget.saturating_sub(Duration::from_ticks(1));
        let mut best = None;
        for core in &free {
            let least = best.map_or(Duration::ZERO, |(most, _)| most);
            if let Some(most) = cores.most(*core, least, below, piece) {
                best = Some((most, *core));
            }
        }
        let (most, core) = best?;
        pieces.push(Piece { core, from, window: most, budget: most, every });
        free.retain(|other| *other != core);
        from += most;
        left = Reservation { budget: budget - most, deadline: window - most, ..left };
    }
}

/// What is on each core; pieces count as tasks.
#[derive(Clone, Debug)]
pub(crate) struct Cores {
    capacity: Rate,
    on: Vec<Vec<Vcpu>>,
}

impl Cores {
    /// Those of `system`, with nothing on them.
    fn of(system: &System) -> Self {
        let on = system.cores.iter().map(|_| Vec::new()).collect();
        Self { capacity: system.capacity, on }
    }
    /// What is on `core`.
    pub(crate) fn on(&self, core: CoreId) -> &[Vcpu] {
        &self.on[core.0 as usize]
    }
    /// Puts the pieces of `vcpu` where they are to be.
    pub(crate) fn put(&mut self, vcpu: &Vcpu, pieces: &[Piece]) {
        for piece in pieces {
            self.on[piece.core.0 as usize].push(piece.of(vcpu));
        }
    }
    /// Whether anything of `vcpu` is on any of them.
    pub(crate) fn have(&self, vcpu: VcpuId) -> bool {
        self.on.iter().flatten().any(|it| it.id == vcpu)
    }
    /// Takes the pieces of `vcpu` away; where each was.
    pub(crate) fn take(&mut self, vcpu: VcpuId) -> Vec<(CoreId, Vcpu)> {
        let take = |(core, on): (usize, &mut Vec<Vcpu>)| {
            let place = on.iter().position(|it| it.id == vcpu)?;
            Some((CoreId(core as u16), on.remove(place)))
        };
        self.on.iter_mut().enumerate().filter_map(take).collect()
    }
    /// Has a task, or a piece as a task, count on `core` too.
    pub(crate) fn add(&mut self, core: CoreId, vcpu: Vcpu) {
        self.on[core.0 as usize].push(vcpu);
    }
    /// All cores.
    pub(crate) fn ids(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.on.len() as u16).map(CoreId)
    }
    /// Whether the core takes `vcpu` beside what is there.
    pub(crate) fn fits(&self, core: CoreId, vcpu: &Vcpu) -> bool {
        self.results(&self.with(core, vcpu)).iter().all(|result| result.accepted)
    }
    /// The greatest budget above `least` and up to `most` with which the core takes `piece` of it,
    /// if it takes any. What it takes of one budget it must take of all below.
    pub(crate) fn most(
        &self,
        core: CoreId,
        least: Duration,
        most: Duration,
        piece: impl Fn(Duration) -> Vcpu,
    ) -> Option<Duration> {
        let takes = |ticks| self.fits(core, &piece(Duration::from_ticks(ticks)));
        let (mut low, mut high) = (least.ticks() + 1, most.ticks());
        if low > high || !takes(low) {
            return None;
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if takes(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Some(Duration::from_ticks(low))
    }
    fn with(&self, core: CoreId, vcpu: &Vcpu) -> Vec<Vcpu> {
        let mut with = self.on[core.0 as usize].clone();
        with.push(vcpu.clone());
        with
    }
    fn results(&self, vcpus: &[Vcpu]) -> [TestResult; 2] {
        [qpa::test(vcpus), bounds::capacity(vcpus, self.capacity, 1)]
    }
    fn judged(&self, core: CoreId, mut vcpus: Vec<Vcpu>) -> CoreVerdict {
        vcpus.sort_by_key(priority::of);
        let tests = self.results(&vcpus).into();
        CoreVerdict { core: Some(core), vcpus: vcpus.iter().map(|it| it.id).collect(), tests }
    }

    /// Where `vcpu` goes: whole to the first core that takes it, else in pieces.
    pub(crate) fn pieces(&self, vcpu: &Vcpu, split: Split) -> Option<Vec<Piece>> {
        let mut cores = self.ids().filter(|core| vcpu.pinned.is_none_or(|pin| pin == *core));
        let host = cores.find(|core| self.fits(*core, vcpu));
        if host.is_some() || vcpu.pinned.is_some() {
            return host.map(|core| alloc::vec![Piece::whole(core, vcpu)]);
        }
        let pieces = split(self, vcpu)?;
        pieces.iter().all(|piece| self.fits(piece.core, &piece.of(vcpu))).then_some(pieces)
    }
    /// Why it goes nowhere.
    pub(crate) fn refusal(&self, vcpu: &Vcpu) -> NotAdmitted {
        let load = |core: &CoreId| bounds::total(&self.on[core.0 as usize], bounds::demand);
        let lightest = self.ids().min_by_key(load).unwrap_or_default();
        let closest = vcpu.pinned.unwrap_or(lightest);
        let (id, r) = (vcpu.id, &vcpu.reservation);
        let place = match vcpu.pinned {
            Some(core) => format!("on {core}, which it demands"),
            None => "on any core, whole or split".into(),
        };
        let reason = format!(
            "{id} ({} every {}) does not fit {place}; lower a budget, lengthen a period or add \
             cores",
            r.budget, r.period
        );
        NotAdmitted { reason, closest: Some(self.judged(closest, self.with(closest, vcpu))) }
    }
}

/// What came of placing a system's VCPUs.
#[derive(Debug)]
pub(crate) struct Placed {
    /// The VCPUs with their pieces, one where the task is whole.
    pub(crate) pieces: Vec<(Vcpu, Vec<Piece>)>,
    pub(crate) cores: Cores,
    /// What the tests say.
    pub(crate) verdict: Verdict,
}

/// Those that demand a core, then the others, heaviest first.
pub(crate) fn heaviest(system: &System) -> Vec<Vcpu> {
    let (mut pinned, mut free): (Vec<_>, Vec<_>) =
        system.vcpus.iter().cloned().partition(|vcpu| vcpu.pinned.is_some());
    heaviest_first(&mut pinned);
    heaviest_first(&mut free);
    pinned.append(&mut free);
    pinned
}

/// Places VCPUs of `system` in this order, each on the first core that takes it whole; what none
/// does is split.
pub(crate) fn place(system: &System, order: &[Vcpu], split: Split) -> Placed {
    let table = Table::new(system, Family::Edf, Test::Qpa, |_, _| None);
    let mut cores = Cores::of(system);
    let (mut placed, mut refused) = (Vec::new(), Vec::new());
    for vcpu in order {
        if let Some(reason) = table.malformed(vcpu) {
            refused.push((vcpu.id, NotAdmitted { reason, closest: None }));
        } else if let Some(pieces) = cores.pieces(vcpu, split) {
            cores.put(vcpu, &pieces);
            placed.push((vcpu.clone(), pieces));
        } else {
            refused.push((vcpu.id, cores.refusal(vcpu)));
        }
    }
    let judged = cores.ids().map(|core| cores.judged(core, cores.on(core).to_vec()));
    let verdict = Verdict {
        cores: judged.collect(),
        refused,
        objections: jobs::objections(system),
        ..Verdict::default()
    };
    Placed { pieces: placed, cores, verdict }
}
