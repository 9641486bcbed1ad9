//! What the live tests share: a policy of a few lines, programs that spin, and the delivery per
//! period read from the journal.

pub(crate) use crate::laws::replays;
use maracas_core::contract::{Entry, Grant, Mark, Mode};
use maracas_core::journal::{Header, Reader, Record};
use maracas_core::params::{Params, Value};
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Rate, System, Vcpu, VcpuId};
use maracas_live::host::HardwareCore;
use maracas_live::host::launch::{Command, Output};
use maracas_live::sense::Senses;
use maracas_live::{Error, Launch, Machine, Means, Outcome, Setup};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A program that never sleeps.
pub(crate) const SPIN: &str = "while :; do :; done";

/// Time slice of the background in the tests' policy.
const SLICE: Duration = Duration::from_millis(2);

/// C every T for each VCPU in fixed order of priority, refilled at multiples of T; background time
/// goes to whoever had least of it, 2 ms at a time.
pub(crate) struct Static {
    system: System,
    background: Vec<Duration>,
    foreground: Vec<Duration>,
    /// The period in which each VCPU is, and its mark there.
    marks: Vec<(u64, Duration)>,
    head: Vec<Option<(VcpuId, Duration)>>,
}

impl Static {
    pub(crate) fn new(system: &System) -> Self {
        let system = system.clone();
        let background = vec![Duration::ZERO; system.vcpus.len()];
        let (foreground, marks) = (background.clone(), vec![(0, Duration::ZERO); background.len()]);
        let head = vec![None; system.cores.len()];
        Self { system, background, foreground, marks, head }
    }
    fn home(vcpu: &Vcpu) -> CoreId {
        vcpu.pinned.unwrap_or_default()
    }
}

impl Policy for Static {
    fn on_event(&mut self, _at: Instant, event: &Event) {
        if let Event::Ran(stint) = event {
            let meters = match stint.mode {
                Mode::Foreground => &mut self.foreground,
                Mode::Background => &mut self.background,
            };
            meters[stint.vcpu.0 as usize] += stint.usage.service;
        }
    }

    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        plan.wake = Instant::NEVER;
        for core in self.system.core_ids() {
            let line = plan.line_mut(core);
            line.foreground.clear();
            line.background.clear();
        }
        for vcpu in &self.system.vcpus {
            let (budget, period) = (vcpu.reservation.budget, vcpu.reservation.period);
            let past = now.ticks() / period.ticks() + 1;
            let next = Instant::ZERO + period * past;
            plan.wake = plan.wake.min(next);
            let core = Self::home(vcpu);
            plan.set_home(vcpu.id, Some(core));
            // An overrun is paid back in the next period, what was not used is lost.
            let (had, mark) =
                (self.foreground[vcpu.id.0 as usize], &mut self.marks[vcpu.id.0 as usize]);
            if mark.0 != past {
                let base = if had > mark.1 { mark.1 } else { had };
                *mark = (past, base + budget);
            }
            let grant = Grant::new(vcpu.id, Mark(mark.1));
            plan.line_mut(core).foreground.push(grant);
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
                let background = &mut plan.line_mut(core).background;
                background.push(Grant::new(first, Mark(until)));
                background.extend(order.iter().map(|v| Grant::new(*v, Mark::NEVER)));
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

/// Waits until no other test of this process runs.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind that this lock guards.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs; gives the records and the outcome, or says why this host cannot.
pub(crate) fn run(setup: Setup, policy: Box<dyn Policy>) -> Result<(Vec<Record>, Outcome), Error> {
    run_with(setup, Means::FULL, policy)
}

/// Like [`run`] on a host that lets us do less.
pub(crate) fn run_with(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
) -> Result<(Vec<Record>, Outcome), Error> {
    run_sensing(setup, means, policy, Senses::default())
}

/// Like [`run_with`], with these senses.
pub(crate) fn run_sensing(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
    senses: Senses,
) -> Result<(Vec<Record>, Outcome), Error> {
    let _turn = turn();
    let mut bytes = Vec::new();
    let machine = machine(setup, means, policy)?.sensing(senses);
    let outcome = machine.run(|piece| bytes.extend_from_slice(piece))?;
    let (_, reader) = Reader::open(&bytes).expect("the journal opens");
    let records: Result<Vec<_>, _> = reader.collect();
    Ok((records.expect("the journal reads to its end"), outcome))
}

/// A machine; waits for a minute for the cores where another run of this host has them.
pub(crate) fn machine(
    setup: Setup,
    means: Means,
    policy: Box<dyn Policy>,
) -> Result<Machine, Error> {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    for core in &setup.cores {
        let path = maracas_live::control::directory().join(format!("core-{core}"));
        let taken = || std::fs::File::open(&path).is_ok_and(|file| file.try_lock_shared().is_err());
        while taken() && std::time::Instant::now() < patience {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    let header = header(&setup);
    Machine::with_means(setup, means, policy, header)
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
    /// Adds the carriers that it needs.
    pub(crate) fn with_carriers(&self, mut system: System) -> System {
        let first = VcpuId(system.vcpus.len() as u32);
        system.vcpus.extend((self.entry.carriers)(&system, &self.params, first));
        system
    }
    pub(crate) fn build(&self, system: &System) -> Box<dyn Policy> {
        (self.entry.build)(system, &self.params).unwrap_or_else(|why| panic!("refused: {why:?}"))
    }
}

/// Foreground service in microseconds of `vcpu` in each of its periods, without the first two in
/// which it ran (its program was starting) and the last.
pub(crate) fn per_period(records: &[Record], system: &System, vcpu: u32) -> Vec<f64> {
    let reservation = system.vcpus[vcpu as usize].reservation;
    let mut delivered: Vec<u64> = Vec::new();
    for record in records {
        if let Record::Event { event: Event::Ran(stint), .. } = record
            && stint.vcpu == VcpuId(vcpu)
            && stint.mode == Mode::Foreground
        {
            let period = (stint.from.ticks() / reservation.period.ticks()) as usize;
            delivered.resize(delivered.len().max(period + 1), 0);
            delivered[period] += stint.usage.service.ticks();
        }
    }
    delivered.pop();
    let whole = delivered.iter().skip_while(|ns| **ns == 0).skip(2);
    whole.map(|ns| *ns as f64 / 1e3).collect()
}

/// Total background service of `vcpu`, in seconds.
pub(crate) fn background(records: &[Record], vcpu: u32) -> f64 {
    let service = |record: &Record| match record {
        Record::Event { event: Event::Ran(stint), .. }
            if stint.vcpu == VcpuId(vcpu) && stint.mode == Mode::Background =>
        {
            stint.usage.service.ticks()
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
