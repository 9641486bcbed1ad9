//! What tests of fairness on uneven cores share: programs on cores of some classes, an observer
//! that measures them, and the rules' shares worked out another way.

use maracas_core::contract::{Entry, Observer, Segment, Statistic};
use maracas_core::params::{Params, Value};
use maracas_core::{
    Duration, Event, Instant, Pace, PacePhase, Plan, Program, System, Vcpu, VcpuId, Workload,
};
use maracas_sim::memory::UnevenCores;
use maracas_sim::{Options, run_with};
use std::num::NonZero;
use std::ops::Range;

/// algorithms.md E.3: shares are updated this often.
pub const UPDATE: Duration = Duration::from_secs(2);

/// algorithms.md E.3: shares are carried out in rounds of this length.
pub const ROUND: Duration = Duration::from_millis(30);

/// The policies for cores of uneven speed.
pub const NAMES: [&str; 4] = ["max-fair", "max-perf", "min-fair", "similar-min-fair"];

/// One of [`NAMES`].
///
/// # Panics
/// Where there is no policy of this name.
#[must_use]
pub fn entry(name: &str) -> &'static Entry {
    maracas_policies::find(name).expect("the four policies are registered")
}

/// This target, for a policy that has one.
#[must_use]
pub fn with_target(entry: &Entry, target: &str) -> Params {
    let mut params = Params::new();
    if entry.params.iter().any(|spec| spec.name == "target") {
        params.set("target", Value::Text(target.into()));
    }
    params
}

/// So many seconds.
#[must_use]
pub fn seconds(duration: Duration) -> f64 {
    duration.ticks() as f64 / 1e9
}

/// Cores of two or more classes with a program on each VCPU.
#[derive(Clone, Debug)]
pub struct Uneven {
    /// Cores and VCPUs.
    pub system: System,
    /// By VCPU, the pace of its program.
    pub paces: Vec<Pace>,
    /// The threads that sleep at times; all others are always busy.
    pub sleepers: Vec<(VcpuId, Workload)>,
}

impl Uneven {
    /// Runs the policy of `entry` on it, and returns what that counted of its own doings.
    ///
    /// # Panics
    /// Where the policy refuses the system or a parameter.
    pub fn run(
        &self,
        entry: &Entry,
        params: &Params,
        until: Duration,
        observer: &mut impl Observer,
    ) -> Vec<Statistic> {
        assert_eq!(params.check(entry.params), Ok(()));
        let mut policy = (entry.build)(&self.system, params).unwrap_or_else(|verdict| {
            panic!("{} refuses {:?}: {verdict:?}", entry.name, self.system)
        });
        let workload = |vcpu: &Vcpu| {
            let sleeps = self.sleepers.iter().find(|(id, _)| *id == vcpu.id);
            sleeps.map_or(Workload::Busy, |(_, workload)| *workload)
        };
        let program = |vcpu: &Vcpu| Program::new(vcpu.id, workload(vcpu));
        let programs: Vec<_> = self.system.vcpus.iter().map(program).collect();
        let paces: Vec<_> = self.paces.iter().cloned().map(Some).collect();
        let options = Options { audit: true, ..Options::new(Instant::ZERO + until) };
        let model = UnevenCores::new(&self.system, &paces);
        run_with(&self.system, &programs, &mut *policy, &options, observer, model);
        policy.statistics()
    }
    /// The VCPUs that are always busy.
    pub fn busy(&self) -> impl Iterator<Item = &Vcpu> {
        let sleeps = |vcpu: &Vcpu| self.sleepers.iter().any(|(id, _)| *id == vcpu.id);
        self.system.vcpus.iter().filter(move |vcpu| !sleeps(vcpu))
    }
    /// How many cores there are of a class.
    #[must_use]
    pub fn cores(&self, class: u8) -> usize {
        self.system.cores.iter().filter(|core| core.class == class).count()
    }
    /// The speed of a phase, in instructions per second, where every thread has the same share of
    /// every class.
    #[must_use]
    pub fn fair_ips(&self, phase: &PacePhase) -> f64 {
        let classes = (0_u8..).zip(&phase.ips);
        let all = classes.map(|(class, ips)| self.cores(class) as f64 * *ips as f64);
        all.sum::<f64>() / self.paces.len() as f64
    }
}

/// What a thread did in one interval.
#[derive(Clone, Default, Debug)]
struct Done {
    /// Seconds in which it would have come as far with equal shares.
    fair: f64,
    /// The phases in which it was, a bit each.
    phases: u32,
}

/// What each thread did in each update interval, and how far its time on either class ever was from
/// what its shares and the time since the start come to.
#[derive(Clone, Debug)]
pub struct Watch<'a> {
    machine: &'a Uneven,
    intervals: Vec<Vec<Done>>,
    /// By thread: its phase, and the work that is left of it, in seconds on a fast core.
    at: Vec<(usize, f64)>,
    /// Shares of each class, where they are known beforehand.
    shares: Vec<Vec<f64>>,
    /// Seconds on each class so far.
    time: Vec<Vec<f64>>,
    /// The greatest distance from a share, in seconds.
    off: f64,
}

impl<'a> Watch<'a> {
    /// Watches `machine`; `shares` of each class by thread, where they are known.
    #[must_use]
    pub fn new(machine: &'a Uneven, shares: Vec<Vec<f64>>) -> Self {
        let first = |pace: &Pace| (0, seconds(pace.phases[0].work));
        let n = machine.paces.len();
        Self {
            machine,
            intervals: vec![Vec::new(); n],
            at: machine.paces.iter().map(first).collect(),
            shares,
            time: vec![vec![0.0; machine.system.classes.len()]; n],
            off: 0.0,
        }
    }
    /// Holds what the thread has had up to `now` against its shares.
    fn compare(&mut self, thread: usize, now: Instant) {
        let Some(shares) = self.shares.get(thread) else { return };
        for (time, share) in self.time[thread].iter().zip(shares) {
            self.off = self.off.max((time - share * seconds(now - Instant::ZERO)).abs());
        }
    }
    /// The thread ran within one interval.
    fn ran(&mut self, thread: usize, interval: usize, class: usize, time: f64) {
        let done = &mut self.intervals[thread];
        done.resize(done.len().max(interval + 1), Done::default());
        let done = &mut done[interval];
        let pace = &self.machine.paces[thread];
        let mut left = time;
        while left > 0.0 {
            let (phase, work) = &mut self.at[thread];
            let ips = &pace.phases[*phase].ips;
            let speed = ips[class] as f64 / ips[0] as f64;
            let time = left.min(*work / speed);
            done.phases |= 1 << *phase;
            done.fair += time * ips[class] as f64 / self.machine.fair_ips(&pace.phases[*phase]);
            (left, *work) = (left - time, *work - time * speed);
            if *work <= 1e-12 {
                *phase = (*phase + 1) % pace.phases.len();
                *work = seconds(pace.phases[*phase].work);
            }
        }
    }
    /// p of a thread in some intervals: how far it came, as the time in which it would have come as
    /// far with equal shares, by the time that passed.
    #[must_use]
    pub fn performance(&self, thread: usize, intervals: Range<usize>) -> f64 {
        let time = intervals.len() as f64 * seconds(UPDATE);
        self.intervals[thread][intervals].iter().map(|done| done.fair).sum::<f64>() / time
    }
    /// The phase in which a thread is at the end.
    #[must_use]
    pub fn phase(&self, thread: usize) -> &'a PacePhase {
        &self.machine.paces[thread].phases[self.at[thread].0]
    }
    /// The greatest distance of any thread's time on a class from its share, in seconds.
    #[must_use]
    pub const fn off(&self) -> f64 {
        self.off
    }
    /// Whether a thread was in one phase throughout some intervals.
    #[must_use]
    pub fn is_steady(&self, thread: usize, intervals: Range<usize>) -> bool {
        let phases = self.intervals[thread][intervals].iter().fold(0, |all, it| all | it.phases);
        phases.count_ones() == 1
    }
}

impl Observer for Watch<'_> {
    fn event(&mut self, _: Instant, event: &Event) {
        let Event::Ran(Segment { vcpu, core, from, to, .. }) = event else { return };
        let class = usize::from(self.machine.system.cores[usize::from(core.0)].class);
        let thread = vcpu.0 as usize;
        self.compare(thread, *from);
        self.time[thread][class] += seconds(*to - *from);
        self.compare(thread, *to);
        let length = UPDATE.ticks();
        let (mut from, to) = (from.ticks(), to.ticks());
        while from < to {
            let interval = from / length;
            let end = to.min((interval + 1) * length);
            let time = seconds(Duration::from_ticks(end - from));
            self.ran(thread, interval as usize, class, time);
            from = end;
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

/// Shares by the formulas of algorithms.md E.2 from the speedups that are said of VCPUs, in
/// floating point and by another way than the policies'.
#[derive(Clone, Debug)]
pub struct Rules {
    fast: f64,
    n: f64,
    each: f64,
    speedups: Vec<f64>,
    target: f64,
    similarity: f64,
}

impl Rules {
    /// The rules for `machine`.
    #[must_use]
    pub fn new(machine: &Uneven, target: f64, similarity: f64) -> Self {
        let n = machine.paces.len() as f64;
        let (fast, slow) = (machine.cores(0) as f64, machine.cores(1) as f64);
        let speedup = |vcpu: &Vcpu| f64::from(vcpu.speedup_milli.map_or(0, NonZero::get)) / 1000.0;
        let speedups = machine.system.vcpus.iter().map(speedup).collect();
        Self { fast, n, each: (fast + slow) / n, speedups, target, similarity }
    }
    fn required(&self, thread: usize) -> f64 {
        let (s, even) = (self.speedups[thread], self.fast / self.n);
        let fair = even * s + (self.each - even);
        if s == 1.0 { 0.0 } else { ((self.target * fair - self.each) / (s - 1.0)).max(0.0) }
    }
    fn by_speedup(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.speedups.len()).collect();
        order.sort_by(|a, b| self.speedups[*b].total_cmp(&self.speedups[*a]));
        order
    }
    fn greedy(&self, least: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut shares: Vec<f64> = (0..self.speedups.len()).map(least).collect();
        let mut left = self.fast - shares.iter().sum::<f64>();
        for thread in self.by_speedup() {
            let more = left.min(self.each - shares[thread]);
            shares[thread] += more;
            left -= more;
        }
        shares
    }
    fn similar(&self) -> Vec<f64> {
        let mut shares = self.greedy(|thread| self.required(thread));
        let order = self.by_speedup();
        let mut rest = &order[..];
        while let Some(leader) = rest.first() {
            let near = |thread: &&usize| {
                self.speedups[*leader] - self.speedups[**thread] < self.similarity - 1e-9
            };
            let (group, others) = rest.split_at(rest.iter().take_while(near).count().max(1));
            let total: f64 = group.iter().map(|thread| shares[*thread]).sum();
            let (mut low, mut high) = (0.0, self.each);
            for _ in 0..60 {
                let level = f64::midpoint(low, high);
                let sum = group.iter().map(|thread| self.required(*thread).max(level)).sum::<f64>();
                if sum <= total { low = level } else { high = level }
            }
            group.iter().for_each(|thread| shares[*thread] = self.required(*thread).max(low));
            rest = others;
        }
        shares
    }
    /// Shares of both classes, by thread, under the policy of that name.
    ///
    /// # Panics
    /// Where `name` is none of the four.
    #[must_use]
    pub fn shares(&self, name: &str) -> Vec<Vec<f64>> {
        let fast = match name {
            "max-fair" => vec![self.fast / self.n; self.speedups.len()],
            "max-perf" => self.greedy(|_| 0.0),
            "min-fair" => self.greedy(|thread| self.required(thread)),
            "similar-min-fair" => self.similar(),
            other => panic!("{other} has no rule"),
        };
        fast.into_iter().map(|f| vec![f, self.each - f]).collect()
    }
}
