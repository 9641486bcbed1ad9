//! Which VCPU is admitted where, at the start and at run time (`requests`): the verdict of most
//! policies. RUN and QPS add what they refuse themselves; round-robin promises nothing.

mod requests;

use super::bounds::{self, heaviest_first};
use super::exact::Exact;
use super::holds::Holds;
use super::jobs::ByVcpu;
use super::sums::{Sum, Sums};
use super::{global, priority, qpa, rta};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use maracas_core::admission::{CoreVerdict, NotAdmitted, TestResult, Verdict};
use maracas_core::{Class, Core, CoreId, Duration, Instant, Plan, Rate, System, Vcpu, VcpuId};
use requests::Request;
pub(crate) use requests::{Granted, Use};

pub(crate) use super::test::Test;

/// Which tests' numbers are reported beside the deciding one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    /// EDF, core by core.
    Edf,
    /// EDF over all cores as one.
    GlobalEdf,
    /// Fixed priorities over all cores as one.
    GlobalFixed,
    /// Rate- or deadline-monotonic priorities, core by core.
    FixedPriority,
}

impl Family {
    /// Whether cores count as one: all of them, or those of a cluster.
    const fn is_global(self) -> bool {
        matches!(self, Self::GlobalEdf | Self::GlobalFixed)
    }
}

/// Picks the core of a VCPU that demands none; `None` where it fits nowhere.
pub(crate) type FindHost = fn(&Table, &Vcpu) -> Option<CoreId>;

/// What a policy demands of a VCPU's core besides the tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Whether the core meets it beside those that are bound there.
    pub(crate) met: fn(&Table, CoreId, &Vcpu) -> bool,
    /// Why no core does, with the numbers and the way out.
    pub(crate) refusal: fn(&Table, &Vcpu) -> String,
}

/// The admitted VCPUs of each core, and the replies that the next plan owes.
#[derive(Debug)]
pub(crate) struct Table {
    family: Family,
    test: Test,
    find_host: FindHost,
    demand: Option<Demand>,
    capacity: Rate,
    cores: Vec<Core>,
    /// So many cores, counted from core0, have a list: one where a core decides by itself, all
    /// where the policy is global, or those of a cluster. The last list may have fewer.
    each: usize,
    /// The classes of cores where budgets are meant on a class; empty where that is not asked.
    classes: Vec<Class>,
    /// By list, each in priority order. A list is named by a [`CoreId`] in here, which is its core
    /// where each core has one.
    bound: Vec<Vec<Vcpu>>,
    /// In which list each VCPU stands, and by which priority.
    places: ByVcpu<(usize, (Duration, VcpuId))>,
    sums: Sums,
    verdicts: Vec<(VcpuId, Result<CoreId, NotAdmitted>)>,
    homes: Vec<(VcpuId, Option<CoreId>)>,
    /// What VCPUs that left or changed still hold.
    holds: Holds,
    /// The VCPUs that wait until something of that is free.
    requests: Vec<Request>,
    /// Answers that are not to be given before an instant.
    postponed: Vec<(Instant, VcpuId, Result<CoreId, NotAdmitted>)>,
    /// By list, when its core rested last, as far as that was reported.
    rested: Vec<Option<Instant>>,
    /// Whether an admitted VCPU left.
    has_shrunk: bool,
}

impl Table {
    pub(crate) fn new(system: &System, family: Family, test: Test, find_host: FindHost) -> Self {
        let each = if family.is_global() { system.cores.len() } else { 1 };
        Self::of_clusters(system, family, test, find_host, each)
    }
    /// A table of clusters of `each` cores, at least one, counted from core0.
    pub(crate) fn of_clusters(
        system: &System,
        family: Family,
        test: Test,
        find_host: FindHost,
        each: usize,
    ) -> Self {
        let lists = system.cores.len().div_ceil(each);
        Self {
            family,
            test,
            find_host,
            demand: None,
            capacity: system.capacity,
            cores: system.cores.clone(),
            each,
            classes: Vec::new(),
            bound: (0..lists).map(|_| Vec::new()).collect(),
            places: ByVcpu::default(),
            sums: Sums::new(test, lists, each, system.capacity),
            verdicts: Vec::new(),
            homes: Vec::new(),
            holds: Holds::default(),
            requests: Vec::new(),
            postponed: Vec::new(),
            rested: alloc::vec![None; lists],
            has_shrunk: false,
        }
    }

    /// The same table with a demand on every core that takes a VCPU.
    pub(crate) const fn demanding(mut self, demand: Demand) -> Self {
        self.demand = Some(demand);
        self
    }

    /// The same table where a budget is time on the class on which the VCPU means it: on slower
    /// cores it counts, and is given, as the time that does the same work.
    pub(crate) fn by_class(mut self, system: &System) -> Self {
        self.classes.clone_from(&system.classes);
        self
    }

    /// Admits the VCPUs of `system`: those that demand a core first, then the others, heaviest
    /// first where `by_weight`, else in order of appearance.
    pub(crate) fn fill(&mut self, system: &System, by_weight: bool) -> Verdict {
        if let Some(all) = self.fitting(system) {
            for vcpu in &system.vcpus {
                self.note_home(vcpu.id, Some(CoreId(0)));
            }
            all.into_iter().for_each(|vcpu| self.put(0, vcpu));
            let cores = alloc::vec![self.judged(0, &self.bound[0])];
            return Verdict { cores, ..Verdict::default() };
        }
        let (mut pinned, mut free): (Vec<_>, Vec<_>) =
            system.vcpus.iter().cloned().partition(|vcpu| vcpu.pinned.is_some());
        if by_weight {
            heaviest_first(&mut pinned);
            heaviest_first(&mut free);
        }
        let mut refused = Vec::new();
        for vcpu in pinned.into_iter().chain(free) {
            match self.admit(&vcpu) {
                Ok(core) => self.note_home(vcpu.id, Some(core)),
                Err(why) => refused.push((vcpu.id, why)),
            }
        }
        let cores = (0..self.bound.len()).map(|list| self.judged(list, &self.bound[list]));
        Verdict { cores: cores.collect(), refused, ..Verdict::default() }
    }

    /// Whether an empty table of one list for all cores takes all of `system`, by one test of them
    /// together; `false` where it may yet take them one by one.
    pub(crate) fn takes_all(&self, system: &System) -> bool {
        self.fitting(system).is_some()
    }
    /// All VCPUs of `system` in priority order, where they fit so.
    fn fitting(&self, system: &System) -> Option<Vec<Vcpu>> {
        let mut ids: Vec<VcpuId> = system.vcpus.iter().map(|vcpu| vcpu.id).collect();
        ids.sort_unstable();
        let are_twice = ids.windows(2).any(|pair| pair[0] == pair[1]);
        let is_new = self.is_one() && self.bound[0].is_empty() && self.holds.is_empty();
        if are_twice || !is_new || system.vcpus.iter().any(|vcpu| self.malformed(vcpu).is_some()) {
            return None;
        }
        let mut all: Vec<Vcpu> =
            system.vcpus.iter().map(|vcpu| self.owed(CoreId(0), vcpu)).collect();
        all.sort_by_key(priority::of);
        self.accepted(0, &all).then_some(all)
    }

    /// The VCPUs bound to `core`, in priority order.
    pub(crate) fn on(&self, core: CoreId) -> &[Vcpu] {
        &self.bound[core.0 as usize]
    }
    /// What `core` is.
    pub(crate) fn core(&self, core: CoreId) -> &Core {
        &self.cores[core.0 as usize]
    }
    /// The cores that this list is of.
    pub(crate) fn cores_of(&self, list: CoreId) -> impl Iterator<Item = CoreId> + use<> {
        let (first, width) = (self.first_core(list).0, self.width(list.0 as usize));
        (first..first + width as u16).map(CoreId)
    }
    /// How many cores that list is of.
    fn width(&self, list: usize) -> usize {
        self.each.min(self.cores.len() - list * self.each)
    }
    /// The first core of that list.
    fn first_core(&self, list: CoreId) -> CoreId {
        CoreId(list.0 * self.each as u16)
    }
    /// All lists; where each core has one, all cores.
    pub(crate) fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.bound.len() as u16).map(CoreId)
    }
    /// Whether `core` meets the policy's demand, and the deciding test and the capacity accept
    /// `vcpu` besides those there and what is held there.
    pub(crate) fn fits(&self, core: CoreId, vcpu: &Vcpu) -> bool {
        self.meets(core, vcpu) && self.accepts(core.0 as usize, &self.owed(core, vcpu))
    }
    /// The same if nothing were held.
    pub(crate) fn fits_when_free(&self, core: CoreId, vcpu: &Vcpu) -> bool {
        let mut vcpus = self.on(core).to_vec();
        vcpus.push(self.owed(core, vcpu));
        vcpus.sort_by_key(priority::of);
        self.meets(core, vcpu) && self.accepted(core.0 as usize, &vcpus)
    }
    /// Whether the deciding test and the capacity accept those on `core`.
    #[cfg(test)]
    pub(crate) fn is_admissible(&self, core: CoreId) -> bool {
        self.accepted(core.0 as usize, self.on(core))
    }
    fn meets(&self, core: CoreId, vcpu: &Vcpu) -> bool {
        self.demand.is_none_or(|demand| (demand.met)(self, core, vcpu))
    }
    fn accepts(&self, list: usize, vcpu: &Vcpu) -> bool {
        // The sums know nothing of what is held, nor of a last list of fewer cores.
        let held = self.holds.on(CoreId(list as u16)).next().is_some();
        let unlike = held || self.width(list) < self.each;
        let known = if unlike { None } else { self.sums.accept(list, vcpu) };
        known.unwrap_or_else(|| self.accepted(list, &self.with(list, vcpu)))
    }
    /// What VCPUs that left or changed still hold.
    pub(crate) const fn holds(&self) -> &Holds {
        &self.holds
    }
    /// The same, to be changed.
    pub(crate) const fn holds_mut(&mut self) -> &mut Holds {
        &mut self.holds
    }
    /// The admitted VCPU of this id.
    pub(crate) fn get(&self, vcpu: VcpuId) -> Option<&Vcpu> {
        self.find(vcpu).map(|(list, place)| &self.bound[list][place])
    }
    /// Sum of the utilizations on `core`.
    pub(crate) fn load(&self, core: CoreId) -> Exact {
        self.sums.load(core.0 as usize, self.on(core))
    }
    /// Whether the sum of the utilizations is less on one core than on another.
    pub(crate) fn is_lighter(&self, one: CoreId, other: CoreId) -> bool {
        let (a, b) = (self.sums.all(one.0 as usize), self.sums.all(other.0 as usize));
        if a.most() < b.least() || b.most() < a.least() {
            return a.most() < b.least();
        }
        self.load(one) < self.load(other)
    }
    /// The sum of the utilizations of those on `core` that run programs, nearly.
    pub(crate) fn programs(&self, core: CoreId) -> Sum {
        self.sums.programs(core.0 as usize)
    }
    /// The same exactly.
    pub(crate) fn asked_by_programs(&self, core: CoreId) -> Exact {
        self.sums.programs_load(core.0 as usize, self.on(core))
    }

    /// Answers a request that cannot be granted for another reason than a test's.
    pub(crate) fn refuse(&mut self, vcpu: VcpuId, reason: String) {
        self.verdicts.push((vcpu, Err(NotAdmitted { reason, closest: None })));
    }
    /// Answers a request of a VCPU that is promised nothing: it begins on `core`.
    pub(crate) fn welcome(&mut self, vcpu: VcpuId, core: CoreId) {
        self.verdicts.push((vcpu, Ok(core)));
        self.note_home(vcpu, Some(core));
    }
    /// Moves `vcpu` to `to`; false where it does not fit there, which changes nothing.
    pub(crate) fn migrate(&mut self, vcpu: VcpuId, to: CoreId) -> bool {
        let Some((list, place)) = self.find(vcpu) else { return false };
        let vcpu = self.take(list, place);
        let fits = vcpu.pinned.is_none_or(|pin| pin == to) && self.fits(to, &vcpu);
        if fits {
            self.note_home(vcpu.id, Some(to));
        }
        self.put(if fits { to.0 as usize } else { list }, vcpu);
        fits
    }
    /// Pays what is owed: answers and homes.
    #[inline]
    pub(crate) fn reply(&mut self, plan: &mut Plan) {
        if self.owes() {
            self.pay(plan);
        }
    }
    /// Whether it owes the next plan any.
    #[inline]
    pub(crate) const fn owes(&self) -> bool {
        !self.verdicts.is_empty() || !self.homes.is_empty()
    }
    #[cold]
    fn pay(&mut self, plan: &mut Plan) {
        for (vcpu, verdict) in self.verdicts.drain(..) {
            plan.answer(vcpu, verdict);
        }
        for (vcpu, home) in self.homes.drain(..) {
            plan.set_home(vcpu, home);
        }
    }

    /// Where `vcpu` is bound.
    pub(crate) fn home_of(&self, vcpu: VcpuId) -> Option<CoreId> {
        self.find(vcpu).map(|(list, _)| CoreId(list as u16))
    }
    /// Has the next plan say where `vcpu` waits.
    pub(crate) fn note_home(&mut self, vcpu: VcpuId, home: Option<CoreId>) {
        if !self.family.is_global() {
            self.homes.push((vcpu, home));
        }
    }
    fn find(&self, vcpu: VcpuId) -> Option<(usize, usize)> {
        let (list, priority) = *self.places.get(vcpu)?;
        Some((list, self.place(list, priority)))
    }
    /// Where on `list` a VCPU of that priority stands, or would.
    fn place(&self, list: usize, priority: (Duration, VcpuId)) -> usize {
        self.bound[list].partition_point(|other| priority::of(other) < priority)
    }
    fn put(&mut self, list: usize, vcpu: Vcpu) {
        let priority = priority::of(&vcpu);
        let place = self.place(list, priority);
        self.places.insert(vcpu.id, (list, priority));
        self.sums.add(list, &vcpu);
        self.bound[list].insert(place, vcpu);
    }
    fn take(&mut self, list: usize, place: usize) -> Vcpu {
        let vcpu = self.bound[list].remove(place);
        self.places.remove(vcpu.id);
        self.sums.remove(list, &vcpu, &self.bound[list]);
        vcpu
    }
    fn with(&self, list: usize, vcpu: &Vcpu) -> Vec<Vcpu> {
        let mut with = self.bound[list].clone();
        for hold in self.holds.on(CoreId(list as u16)).filter(|hold| hold.vcpu.id != vcpu.id) {
            // Of one that is still there the greater counts.
            with.retain(|other| other.id != hold.vcpu.id);
            let place =
                with.partition_point(|other| priority::of(other) < priority::of(&hold.vcpu));
            with.insert(place, hold.vcpu.clone());
        }
        let place = with.partition_point(|other| priority::of(other) < priority::of(vcpu));
        with.insert(place, vcpu.clone());
        with
    }

    fn admit(&mut self, vcpu: &Vcpu) -> Result<CoreId, NotAdmitted> {
        let refuse = |reason| Err(NotAdmitted { reason, closest: None });
        if let Some(reason) = self.malformed(vcpu) {
            return refuse(reason);
        }
        if self.find(vcpu.id).is_some() {
            return refuse(format!("{} is admitted already; use a new id", vcpu.id));
        }
        let Some(core) = self.host(vcpu) else {
            let lightest = || self.cores().min_by_key(|core| self.load(*core)).unwrap_or_default();
            let closest = vcpu.pinned.unwrap_or_else(lightest);
            return Err(self.not_admitted(vcpu, closest.0 as usize));
        };
        self.put(core.0 as usize, self.owed(core, vcpu));
        Ok(core)
    }
    /// Whether all cores count as one.
    fn is_one(&self) -> bool {
        self.family.is_global() && self.bound.len() == 1
    }
    /// Where `vcpu` is to go, if it fits anywhere.
    fn host(&self, vcpu: &Vcpu) -> Option<CoreId> {
        match vcpu.pinned {
            Some(core) => self.fits(core, vcpu).then_some(core),
            None if self.is_one() => self.fits(CoreId(0), vcpu).then_some(CoreId(0)),
            None => (self.find_host)(self, vcpu),
        }
    }
    /// `vcpu` with what it is owed on `core`: C meant on a faster class is ceil(C * speed there /
    /// speed here), for no program loses more than the classes' ratio; on a faster class than it
    /// is meant on it is C, for a program may gain nothing.
    fn owed(&self, core: CoreId, vcpu: &Vcpu) -> Vcpu {
        let mut vcpu = vcpu.clone();
        let here = self.cores[core.0 as usize].class;
        let speed = |class: u8| self.classes.get(usize::from(class)).map(|it| it.speed_milli);
        if let Some(meant) = vcpu.class
            && let (Some(there), Some(slower)) = (speed(meant), speed(here))
        {
            let work = u128::from(vcpu.reservation.budget.ticks()) * u128::from(there);
            let time = work.div_ceil(u128::from(slower.max(1)));
            let time = Duration::from_ticks(u64::try_from(time).unwrap_or(u64::MAX));
            vcpu.reservation.budget = vcpu.reservation.budget.max(time);
            vcpu.class = Some(here);
        }
        vcpu
    }
    /// Why no core could ever take `vcpu`, if so.
    pub(crate) fn malformed(&self, vcpu: &Vcpu) -> Option<String> {
        let (id, r) = (vcpu.id, &vcpu.reservation);
        if r.budget.is_zero() || r.budget > r.deadline || r.deadline > r.period {
            let (c, d, t) = (r.budget, r.deadline, r.period);
            return Some(format!(
                "{id} has C = {c}, D = {d}, T = {t}, but 0 < C <= D <= T must be"
            ));
        }
        let classes = self.classes.len();
        if let Some(class) = vcpu.class.filter(|class| usize::from(*class) >= classes.max(1))
            && classes > 0
        {
            return Some(format!(
                "{id} means its budget on class {class}, but the classes are 0 to {}",
                classes - 1
            ));
        }
        let core = vcpu.pinned?;
        if self.family.is_global() {
            return Some(format!(
                "{id} demands {core}, but a global policy lets jobs move; drop the demand or use \
                 a partitioned policy"
            ));
        }
        self.no_such_core(vcpu)
    }
    /// Why the core that `vcpu` demands cannot be had, if there is none such.
    pub(crate) fn no_such_core(&self, vcpu: &Vcpu) -> Option<String> {
        let (id, core, width) = (vcpu.id, vcpu.pinned?, self.cores.len());
        (core.0 as usize >= width)
            .then(|| format!("{id} demands {core}, but the cores are core0 to core{}", width - 1))
    }
    fn not_admitted(&self, vcpu: &Vcpu, list: usize) -> NotAdmitted {
        let (id, r) = (vcpu.id, &vcpu.reservation);
        let place = match (vcpu.pinned, self.family) {
            (..) if self.is_one() => "beside the others".into(),
            (_, family) if family.is_global() => format!("on any cluster of {} cores", self.each),
            (Some(core), _) => format!("on {core}, which it demands"),
            (None, _) => String::from("on any core"),
        };
        let mut cores = self.cores().filter(|core| vcpu.pinned.is_none_or(|pin| pin == *core));
        if let Some(demand) = self.demand
            && cores.all(|core| !self.meets(core, vcpu))
        {
            return NotAdmitted { reason: (demand.refusal)(self, vcpu), closest: None };
        }
        let reason = format!(
            "{id} ({} every {}) does not fit {place}; lower a budget, lengthen a period or add \
             cores",
            r.budget, r.period
        );
        let owed = self.owed(CoreId(list as u16), vcpu);
        NotAdmitted { reason, closest: Some(self.judged(list, &self.with(list, &owed))) }
    }

    fn judged(&self, list: usize, vcpus: &[Vcpu]) -> CoreVerdict {
        CoreVerdict {
            core: (!self.is_one()).then(|| self.first_core(CoreId(list as u16))),
            vcpus: vcpus.iter().map(|vcpu| vcpu.id).collect(),
            tests: self.results(list, vcpus),
        }
    }
    /// Every test of the family, the deciding one first.
    fn results(&self, list: usize, vcpus: &[Vcpu]) -> Vec<TestResult> {
        let family: &[Test] = match self.family {
            Family::Edf => &[Test::Edf],
            Family::GlobalEdf => &[Test::Gfb],
            Family::GlobalFixed => &[],
            Family::FixedPriority => &[Test::LiuLayland, Test::Hyperbolic, Test::Rta],
        };
        let others = family.iter().copied().chain([Test::Capacity]);
        let order = [self.test].into_iter().chain(others.filter(|test| *test != self.test));
        let mut results: Vec<_> = order.map(|test| self.run(test, list, vcpus)).collect();
        // How late jobs may be is of interest where the cores are enough and no test says more.
        let accepted = results.iter().filter(|result| result.accepted).map(|result| result.test);
        let is_open = accepted.eq(["capacity"]) && self.capacity == Rate::ONE;
        if self.family == Family::GlobalEdf && is_open {
            results.push(global::tardiness::bounds(vcpus, self.width(list)));
        }
        results
    }
    fn accepted(&self, list: usize, vcpus: &[Vcpu]) -> bool {
        let accepts = |test| self.run(test, list, vcpus).accepted;
        accepts(Test::Capacity) && accepts(self.test)
    }
    fn run(&self, test: Test, list: usize, vcpus: &[Vcpu]) -> TestResult {
        let cores = self.width(list);
        match test {
            Test::Capacity => bounds::capacity(vcpus, self.capacity, cores),
            Test::Edf => bounds::edf(vcpus),
            Test::Qpa => qpa::test(vcpus),
            Test::Gfb => bounds::gfb(vcpus, cores),
            Test::GlobalBak => global::bak::test(vcpus, cores),
            Test::GlobalBcl => global::bcl::test(vcpus, cores),
            Test::GlobalFfDbf => global::ff_dbf::test(vcpus, cores),
            Test::GlobalRta => global::rta::test(vcpus, cores),
            Test::GlobalFixed(test, by) => test.run(vcpus, cores, by),
            Test::LiuLayland => bounds::liu_layland(vcpus),
            Test::Hyperbolic => bounds::hyperbolic(vcpus),
            Test::Rta => rta::response_times(vcpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;
    use alloc::string::ToString;
    use maracas_core::contract::decide;
    use maracas_core::params::Params;
    use maracas_core::{Duration, Event, Instant};

    fn percent(id: u32, n: u64) -> Vcpu {
        Vcpu::new(id, Duration::from_ticks(n), Duration::from_ticks(100)).periodic()
    }
    fn on(core: u16, vcpu: Vcpu) -> Vcpu {
        Vcpu { pinned: Some(CoreId(core)), ..vcpu }
    }
    fn reason(verdict: &Verdict) -> String {
        verdict.refused.iter().map(|(_, why)| why.reason.clone()).collect()
    }

    #[test]
    fn demanded_cores_come_first() {
        for name in ["maracas", "p-edf", "p-rm"] {
            let entry = find(name).unwrap();
            let vcpus = alloc::vec![percent(0, 50), percent(1, 50), on(0, percent(2, 60))];
            let verdict = (entry.admit)(&System::new(2, vcpus), &Params::new());
            assert_eq!(verdict.cores[0].vcpus, [VcpuId(2)], "{name}");
            let vcpus = alloc::vec![on(1, percent(0, 60)), on(1, percent(1, 60))];
            let verdict = (entry.admit)(&System::new(2, vcpus), &Params::new());
            assert!(reason(&verdict).contains("on core1, which it demands"), "{name}");
            let verdict =
                (entry.admit)(&System::new(2, alloc::vec![on(7, percent(0, 1))]), &Params::new());
            assert!(reason(&verdict).contains("the cores are core0 to core1"), "{name}");
        }
    }

    #[test]
    fn what_no_policy_can_promise_is_refused_with_the_reason() {
        for name in ["maracas", "p-edf", "p-rm", "g-edf"] {
            let entry = find(name).unwrap();
            let mut wrong = percent(0, 60);
            wrong.reservation.deadline = Duration::from_ticks(50);
            let verdict = (entry.admit)(&System::new(1, alloc::vec![wrong]), &Params::new());
            let reason = reason(&verdict);
            assert!(reason.contains("0 < C <= D <= T must be"), "{name}: {reason}");
        }
        let pinned = System::new(2, alloc::vec![on(1, percent(0, 10))]);
        let verdict = (find("g-edf").unwrap().admit)(&pinned, &Params::new());
        assert!(reason(&verdict).contains("global policy"));
        let mut jobless = percent(3, 10);
        jobless.arrival = maracas_core::Arrival::None;
        for name in ["g-edf", "p-edf", "p-rm"] {
            let system = System::new(1, alloc::vec![jobless.clone()]);
            let verdict = (find(name).unwrap().admit)(&system, &Params::new());
            assert!(verdict.why().contains("vcpu3 has no jobs"), "{name}");
        }
    }

    #[test]
    fn capacity_decides_whatever_the_test_says() {
        let mut system = System::new(1, alloc::vec![percent(0, 95)]);
        for name in ["maracas", "p-edf", "p-rm", "g-edf"] {
            let entry = find(name).unwrap();
            system.capacity = Rate::ONE;
            assert!((entry.admit)(&system, &Params::new()).accepted(), "{name}");
            system.capacity = Rate::new(9, 10);
            let verdict = (entry.admit)(&system, &Params::new());
            let text = verdict.refused[0].1.to_string();
            assert!(text.contains("capacity: 0.950000 of 0.900000 (refused)"), "{name}: {text}");
        }
    }

    #[test]
    fn a_change_is_tested_on_the_vcpu_s_own_core() {
        for name in ["maracas", "p-edf", "p-rm"] {
            let system = System::new(2, alloc::vec![on(0, percent(0, 40)), on(0, percent(1, 30))]);
            let policy = (find(name).unwrap().build)(&system, &Params::new());
            let mut policy = policy.unwrap_or_else(|why| panic!("{name}: {why:?}"));
            let mut plan = Plan::new(2);
            let mut ask = |vcpu: Vcpu| {
                policy.on_event(Instant::ZERO, &Event::Changed(vcpu));
                decide(&mut *policy, Instant::ZERO, &mut plan);
                plan.verdicts()[0].1.clone()
            };
            assert_eq!(ask(percent(1, 35)), Ok(CoreId(0)), "{name}");
            let refused = ask(percent(1, 90)).unwrap_err();
            let closest = refused.closest.unwrap();
            assert_eq!(closest.vcpus, [VcpuId(0), VcpuId(1)], "{name}");
            // The old 35 % stay: 45 % more would be the same sum as above.
            assert_eq!(ask(percent(0, 45)), Ok(CoreId(0)), "{name}");
            assert!(ask(percent(9, 1)).unwrap_err().reason.contains("not admitted"), "{name}");
        }
    }
}
