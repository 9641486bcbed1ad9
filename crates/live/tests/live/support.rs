//! What the live tests share: a policy of a few run queues, programs that spin, and the delivery
//! per period read from the journal.

#[path = "../../../../tests/shared/bounds.rs"]
pub(crate) mod bounds;
#[path = "../../../../tests/shared/host.rs"]
pub(crate) mod host;
#[path = "../../../../tests/shared/witness.rs"]
pub(crate) mod witness;

pub(crate) use crate::laws::replays;
use bounds::{Turn, needs, refused, rite};
use host::{Steal, median_error, widened};
use maracas_core::contract::{Entry, Grant, Limit, Mode};
use maracas_core::journal::{Header, Note, Reader, Record};
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Rate, System, Vcpu, VcpuId};
use maracas_live::host::launch::{Command, Output};
use maracas_live::host::platform::Platform;
use maracas_live::host::probe::Capabilities;
use maracas_live::host::{HardwareCore, sched};
use maracas_live::sense::Senses;
use maracas_live::{Error, Launch, Machine, Means, Outcome, Setup};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, io, process, thread, time};

/// A program that never sleeps.
pub(crate) const SPIN: &str = "while :; do :; done";

/// Time slice of the background in the tests' policy.
const SLICE: Duration = Duration::from_millis(2);

/// C every T for each VCPU in fixed order of priority, refilled at multiples of T; background time
/// goes to the one that had least of it, 2 ms at a time.
pub(crate) struct Static {
    system: System,
    background: Vec<Duration>,
    foreground: Vec<Duration>,
    /// The period in which each VCPU is, and its limit there.
    limits: Vec<(u64, Duration)>,
    head: Vec<Option<(VcpuId, Duration)>>,
}

impl Static {
    pub(crate) fn new(system: &System) -> Self {
        let system = system.clone();
        let background = vec![Duration::ZERO; system.vcpus.len()];
        let (foreground, limits) =
            (background.clone(), vec![(0, Duration::ZERO); background.len()]);
        let head = vec![None; system.cores.len()];
        Self { system, background, foreground, limits, head }
    }
    fn home(vcpu: &Vcpu) -> CoreId {
        vcpu.pinned.unwrap_or_default()
    }
}

impl Policy for Static {
    fn on_event(&mut self, _at: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            let meters = match segment.mode {
                Mode::Foreground => &mut self.foreground,
                Mode::Background => &mut self.background,
            };
            meters[segment.vcpu.0 as usize] += segment.usage.service;
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        plan.wake = Instant::NEVER;
        for core in self.system.core_ids() {
            let run_queue = plan.run_queue_mut(core);
            run_queue.foreground.clear();
            run_queue.background.clear();
        }
        for vcpu in &self.system.vcpus {
            let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
            let past = now.ticks() / period.ticks() + 1;
            let next = Instant::ZERO + period * past;
            plan.wake = plan.wake.min(next);
            let core = Self::home(vcpu);
            plan.set_home(vcpu.id, Some(core));
            // An overrun is paid back in the next period, what was not used is lost.
            let (had, limit) =
                (self.foreground[vcpu.id.0 as usize], &mut self.limits[vcpu.id.0 as usize]);
            if limit.0 != past {
                let base = if had > limit.1 { limit.1 } else { had };
                *limit = (past, base + budget);
            }
            let grant = Grant::new(vcpu.id, Limit(limit.1));
            plan.run_queue_mut(core).foreground.push(grant);
        }
        for core in self.system.core_ids() {
            let had = |vcpu: VcpuId| self.background[vcpu.0 as usize];
            let here = self.system.vcpus.iter().filter(|vcpu| Self::home(vcpu) == core);
            let mut order: Vec<VcpuId> = here.map(|vcpu| vcpu.id).collect();
            order.sort_by_key(|vcpu| (had(*vcpu), *vcpu));
            let head = &mut self.head[core.0 as usize];
            let kept = head.filter(|(vcpu, until)| had(*vcpu) < *until);
            *head = kept.or_else(|| order.first().map(|vcpu| (*vcpu, had(*vcpu) + SLICE)));
            if let Some((first, until)) = *head {
                order.retain(|vcpu| *vcpu != first);
                let background = &mut plan.run_queue_mut(core).background;
                background.push(Grant::new(first, Limit(until)));
                background.extend(order.iter().map(|v| Grant::new(*v, Limit::NEVER)));
            }
        }
    }
}

/// A machine of `cores` cores with these VCPUs: (C, T) in microseconds and the core.
pub(crate) fn system(cores: usize, vcpus: &[(u64, u64, u16)]) -> System {
    let vcpu = |(id, (budget, period, core)): (usize, &(u64, u64, u16))| {
        let (budget, period) = (Duration::from_micros(*budget), Duration::from_micros(*period));
        Vcpu { pinned: Some(CoreId(*core)), ..Vcpu::new(id as u32, budget, period) }
    };
    let mut system = System::new(cores, vcpus.iter().enumerate().map(vcpu).collect());
    system.capacity = Rate::new(9, 10);
    system
}

/// A shell command on a VCPU, from the start to the end.
pub(crate) fn shell(vcpu: u32, script: &str) -> Launch {
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    Launch {
        name: format!("program{vcpu}"),
        vcpu: VcpuId(vcpu),
        command: Command { argv, output: Output::Null, ..Command::default() },
        start: Instant::ZERO,
        stop: Instant::NEVER,
    }
}

/// The programs of a run of `system` for `seconds`, on the hardware cores 0, 1, ...
pub(crate) fn setup(system: &System, programs: Vec<Launch>, seconds: u64) -> Setup {
    Setup {
        system: system.clone(),
        cores: (0..system.cores.len() as u32).map(HardwareCore).collect(),
        names: system.vcpus.iter().map(|vcpu| format!("v{}", vcpu.id.0)).collect(),
        later: Vec::new(),
        programs,
        duration: Some(Duration::from_secs(seconds)),
        serve: false,
        duty: Vec::new(),
        steering: maracas_live::Steering::default(),
        counting: None,
    }
}

/// The header of a test's journal.
pub(crate) fn header(setup: &Setup) -> Header {
    Header {
        policy: "static".into(),
        params: Params::new(),
        system: setup.system.clone(),
        names: setup.names.clone(),
        machine: "live".into(),
        version: "test".into(),
        seed: 0,
    }
}

/// A run, and what the host took from it.
pub(crate) struct Ran {
    pub(crate) records: Vec<Record>,
    pub(crate) outcome: Outcome,
    system: System,
    /// The part of the run that the hypervisor stole from each core.
    stolen: Vec<f64>,
}

impl Ran {
    /// Demands that nothing was refused, and gives the records.
    pub(crate) fn untroubled(&self) -> &[Record] {
        assert_eq!(self.outcome.trouble, [""; 0]);
        &self.records
    }
    /// The part of the run in which the hypervisor left us this core.
    pub(crate) fn left(&self, core: usize) -> f64 {
        1.0 - self.stolen.get(core).copied().unwrap_or(0.0)
    }
    /// Demands that a VCPU that always had something to run got its budget: the mean of its periods
    /// within this part of C and what was stolen, and the median period near C. Single late periods
    /// are the host's, and are printed.
    pub(crate) fn got_its_budget(&self, vcpu: u32, within: f64) {
        let of = &self.system.vcpus[vcpu as usize];
        let budget_us = of.reservation.budget.ticks() as f64 / 1e3;
        let (periods, stolen) = own_periods(&self.records, &self.system, vcpu);
        let (mean, p50, p99) = summary(&periods, budget_us);
        let share = background(&self.records, vcpu);
        for record in &self.records {
            if let Record::Note { at, note } = record
                && ["late", "enforced", "relief", "rt-throttle"].contains(&note.key())
            {
                eprintln!("{at}: {note:?}");
            }
        }
        let promised = self.outcome.duration.ticks() / of.reservation.period.ticks();
        assert!(periods.len() as u64 * 2 > promised, "{} of {promised} periods", periods.len());
        let missing: Vec<usize> =
            (0..periods.len()).filter(|at| periods[*at] < budget_us / 2.0).collect();
        eprintln!(
            "vcpu{vcpu}: mean {mean:.1} us of {budget_us}, |off| p50 {p50:.1} p99 {p99:.1} us, \
             {} periods and {stolen} stolen, less than half in {missing:?}, bg {share:.3} s",
            periods.len()
        );
        let all: Vec<usize> = (0..self.system.cores.len()).collect();
        let core = of.pinned.map(|core| vec![usize::from(core.0)]);
        let within = widened(within, &self.stolen, &core.unwrap_or(all));
        assert!((mean / budget_us - 1.0).abs() < within, "mean {mean} us of {budget_us} us");
        let most = median_error(budget_us * 1e3) / 1e3;
        assert!(p50 < most, "median error {p50} us, {most} us may be");
    }
}

/// Runs; `None` after a skip where the host cannot.
pub(crate) fn run(setup: Setup, policy: Box<dyn Policy>) -> Option<Ran> {
    run_with(setup, Means::FULL, policy)
}

/// Like [`run`] on a host that lets us do less.
pub(crate) fn run_with(setup: Setup, means: Means, policy: Box<dyn Policy>) -> Option<Ran> {
    run_sensing(setup, means, policy, Senses::default())
}

/// Like [`run_with`], with these senses. That it cannot begin or ends early is a failure.
pub(crate) fn run_sensing(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    senses: Senses,
) -> Option<Ran> {
    let ran = try_run(setup, means, policy, senses)?;
    Some(ran.unwrap_or_else(|error| panic!("the run failed: {error}")))
}

/// Like [`run_sensing`], for runs that must fail.
pub(crate) fn try_run(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    senses: Senses,
) -> Option<Result<Ran, Error>> {
    let _turn = turn(setup.duration.expect("tests end"));
    able(means, setup.cores.len()).then(|| perform(setup, means, policy, senses))
}

/// Like [`run`], with `beside` on another thread meanwhile, which ends when it is asked to.
pub(crate) fn run_beside<T: Send>(
    setup: Setup,
    policy: Box<dyn Policy>,
    beside: impl FnOnce(&AtomicBool) -> T + Send,
) -> Option<(Ran, T)> {
    let _turn = turn(setup.duration.expect("tests end"));
    if !able(Means::FULL, setup.cores.len()) {
        return None;
    }
    let over = AtomicBool::new(false);
    let (ran, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| beside(&over));
        let ran = perform(setup, Means::FULL, policy, Senses::default());
        over.store(true, Ordering::Release);
        (ran, beside.join().expect("it ends in order"))
    });
    Some((ran.unwrap_or_else(|error| panic!("the run failed: {error}")), beside))
}

/// A run of the test that has the turn.
fn perform(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    senses: Senses,
) -> Result<Ran, Error> {
    // Measured while nothing of ours runs.
    host::wake();
    let system = setup.system.clone();
    let (mut bytes, before) = (Vec::new(), Steal::now());
    let machine = machine(setup, means, policy)?.sensing(senses);
    let handle = machine.handle();
    let _rite = rite(move |last| if last { clean_later() } else { handle.stop() });
    let outcome = machine.run(|piece| bytes.extend_from_slice(piece))?;
    let stolen = before.parts();
    let (_, reader) = Reader::open(&bytes).expect("the journal opens");
    let records: Result<Vec<_>, _> = reader.collect();
    let records = records.expect("the journal reads to its end");
    Ok(Ran { records, outcome, system, stolen })
}

/// Waits until no other live test runs on this host. `asked` is how long the test's runs are to
/// take in all: after ten times that and 20 s it fails.
pub(crate) fn turn(asked: Duration) -> Turn {
    Turn::wait(time::Duration::from_nanos(asked.ticks()))
}

/// Whether this host can do all this, on the cores 0, 1, ...; else the test is skipped. Tried once,
/// before the first run: whatever a run is refused after that is a failure.
pub(crate) fn able(means: Means, cores: usize) -> bool {
    static ONCE: OnceLock<io::Result<Capabilities>> = OnceLock::new();
    let probed = ONCE.get_or_init(|| {
        let there = Platform::detect()?.cores;
        // A process of the probe may have no turn for a while beside builds.
        let probe = || Capabilities::probe(&there);
        (0..4).fold(probe(), |probed, _| probed.or_else(|_| probe()))
    });
    let probed = match probed {
        Ok(probed) => probed,
        Err(error) => {
            refused(error, "control groups that we may make");
            return false;
        }
    };
    let (has, there) = (Means::of(probed), &probed.platform.cores);
    let managed = (0..cores as u32).all(|core| there.contains(&HardwareCore(core)));
    needs(managed, if cores == 1 { "core 0" } else { "the cores 0 and 1" })
        && needs(has.fifo || !means.fifo, "the right to SCHED_FIFO")
        && needs(has.freezer || !means.freezer, "a freezer")
        && needs(has.events || !means.events, "counters of time and switch records")
}

/// A machine; waits for a minute for the cores where another run of this host has them.
pub(crate) fn machine(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
) -> Result<Machine, Error> {
    let patience = time::Instant::now() + time::Duration::from_secs(60);
    for core in &setup.cores {
        let path = maracas_live::control::directory().join(format!("core-{core}"));
        let taken = || std::fs::File::open(&path).is_ok_and(|file| file.try_lock_shared().is_err());
        while taken() && time::Instant::now() < patience {
            thread::sleep(time::Duration::from_millis(100));
        }
    }
    let header = header(&setup);
    Machine::with_means(setup, means, policy, header)
}

/// Under this variable this test program cleans up after the process that it names.
const CLEAN: &str = "MARACAS_TEST_CLEAN";

/// Has what this process leaves behind cleaned up, when it has ended: runs of these tests have no
/// guardian.
fn clean_later() {
    let own = env::current_exe().expect("this program has a path");
    let cleaner = process::Command::new(own)
        .args(["--exact", "support::as_cleaner"])
        .env(CLEAN, process::id().to_string())
        .spawn();
    if let Ok(cleaner) = cleaner {
        // Programs that are never ended may have all cores.
        let _ = sched::set_fifo(cleaner.id() as i32, 99, false);
    }
}

/// Not a test by itself: what [`clean_later`] starts.
#[test]
fn as_cleaner() {
    let Some(process) = env::var_os(CLEAN) else { return };
    let stands = std::path::Path::new("/proc").join(process);
    while stands.exists() {
        thread::sleep(time::Duration::from_millis(10));
    }
    maracas_live::clean::clean().expect("nothing is left");
}

/// A policy of the register with these parameters.
pub(crate) struct Chosen {
    entry: &'static Entry,
    params: Params,
}

impl Chosen {
    pub(crate) fn new(name: &str, params: &[(&str, &str)]) -> Self {
        let entry = maracas_policies::find(name).expect("the policy is registered");
        let mut chosen = Params::new();
        params.iter().for_each(|(name, text)| chosen.set(name, Value::Text((*text).into())));
        assert_eq!(chosen.check(entry.params), Ok(()));
        Self { entry, params: chosen }
    }
    /// Adds the service VCPUs that it needs.
    pub(crate) fn with_service_vcpus(&self, mut system: System) -> System {
        self.entry.add_service_vcpus(&mut system, &self.params);
        system
    }
    pub(crate) fn build(&self, system: &System) -> Box<dyn Policy> {
        (self.entry.build)(system, &self.params).unwrap_or_else(|why| panic!("refused: {why:?}"))
    }
}

/// As [`per_period`], without those that are short or over by no more than what the machine says
/// was stolen from the core in them or just before, and those after them that pay it back; and how
/// many these are.
fn own_periods(records: &[Record], system: &System, vcpu: u32) -> (Vec<f64>, usize) {
    let Vcpu { reservation, pinned, .. } = &system.vcpus[vcpu as usize];
    let (budget_us, period) = (reservation.budget.ticks() as f64 / 1e3, reservation.period.ticks());
    // How much was stolen of each period.
    let mut stolen_us: Vec<f64> = Vec::new();
    for record in records {
        let Record::Note { at, note: Note::Late { core, late_ns, stolen_ns, .. } } = record else {
            continue;
        };
        if pinned.is_some_and(|pinned| pinned != *core) {
            continue;
        }
        let (from, to) = (at.ticks().saturating_sub(*late_ns) / period, at.ticks() / period + 1);
        stolen_us.resize(stolen_us.len().max(to as usize + 1), 0.0);
        (from..=to).for_each(|place| stolen_us[place as usize] += *stolen_ns as f64 / 1e3);
    }
    let (mut owed, numbered) = numbered_periods(records, system, vcpu);
    let (all, tolerance) = (numbered.len(), budget_us / 100.0);
    // What stolen periods had too much or too little, and what the program took too much while it
    // started, is paid back in later ones.
    let is_own = |(place, us): &(usize, f64)| {
        let (error, stolen) = (us - budget_us, stolen_us.get(*place).copied().unwrap_or(0.0));
        let explained = stolen > 0.0 && error.abs() <= stolen + tolerance;
        let pays = error * owed < 0.0 && error.abs() <= f64::abs(owed) + tolerance;
        // A period of its own in between leaves the debt: it is paid back after it.
        let stolen = explained || pays;
        owed = if stolen { owed + error } else { owed };
        owed = if owed.abs() <= tolerance { 0.0 } else { owed };
        !stolen
    };
    let own: Vec<f64> = numbered.into_iter().filter(is_own).map(|(_, us)| us).collect();
    let stolen = all - own.len();
    (own, stolen)
}

/// The periods of [`numbered_periods`] without their numbers.
pub(crate) fn per_period(records: &[Record], system: &System, vcpu: u32) -> Vec<f64> {
    numbered_periods(records, system, vcpu).1.into_iter().map(|(_, us)| us).collect()
}

/// Foreground service in microseconds of `vcpu` in each of its periods, without the last, and from
/// the second one on in which it got nearly all of C: before, its program was starting, and waited
/// for files. Before them comes what it took too much until then and has not paid back yet.
fn numbered_periods(records: &[Record], system: &System, vcpu: u32) -> (f64, Vec<(usize, f64)>) {
    let reservation = system.vcpus[vcpu as usize].reservation;
    let mut delivered: Vec<u64> = Vec::new();
    for record in records {
        if let Record::Event { event: Event::Ran(segment), .. } = record
            && segment.vcpu == VcpuId(vcpu)
            && segment.mode == Mode::Foreground
        {
            let period = (segment.from.ticks() / reservation.period.ticks()) as usize;
            delivered.resize(delivered.len().max(period + 1), 0);
            delivered[period] += segment.usage.service.ticks();
        }
    }
    delivered.pop();
    let nearly_all = reservation.budget.ticks() * 9 / 10;
    let us = |ns: u64| ns as f64 / 1e3;
    let begun =
        delivered.iter().position(|ns| *ns >= nearly_all).map_or(delivered.len(), |at| at + 1);
    let pay = |owed: f64, ns: &u64| (owed + us(*ns) - us(reservation.budget.ticks())).max(0.0);
    let owed = delivered[..begun].iter().fold(0.0, pay);
    (
        owed,
        delivered.into_iter().enumerate().skip(begun).map(|(place, ns)| (place, us(ns))).collect(),
    )
}

/// Total background service of `vcpu`, in seconds.
pub(crate) fn background(records: &[Record], vcpu: u32) -> f64 {
    let service = |record: &Record| match record {
        Record::Event { event: Event::Ran(segment), .. }
            if segment.vcpu == VcpuId(vcpu) && segment.mode == Mode::Background =>
        {
            segment.usage.service.ticks()
        }
        Record::Event { .. }
        | Record::Planned(_)
        | Record::Gap(_)
        | Record::Note { .. }
        | Record::End(_) => 0,
    };
    records.iter().map(service).sum::<u64>() as f64 / 1e9
}

/// Mean, and the quantiles 50 % and 99 % of the distance from `budget_us`.
pub(crate) fn summary(delivered_us: &[f64], budget_us: f64) -> (f64, f64, f64) {
    let mean = delivered_us.iter().sum::<f64>() / delivered_us.len() as f64;
    let mut off: Vec<f64> = delivered_us.iter().map(|us| (us - budget_us).abs()).collect();
    off.sort_by(f64::total_cmp);
    (mean, off[off.len() / 2], off[off.len() * 99 / 100])
}
