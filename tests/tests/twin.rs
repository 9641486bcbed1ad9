//! The machine law in C (`bpf/law.h`) and in Rust (`core::dispatch`) choose and count alike.
//!
//! Random run queues, wakes, blocks, reads and time steps go through both: through Rust here, where
//! every choice is [`dispatch::next`]'s, and through a program that the system's C compiler makes
//! of `bpf/twin.c`. After every step all choices, ends and meters must be the same.

#[path = "../shared/bounds.rs"]
mod bounds;
#[path = "../shared/law.rs"]
mod law;

use maracas_core::contract::{End, Grant, Limit, MemoryLimit, Mode, RunQueue};
use maracas_core::dispatch::{self, Readings, Running};
use maracas_core::{Duration, Instant, VcpuId};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::process::Command;

/// Steps of all cases together.
const STEPS: usize = 100_000;
/// More cores than VCPUs of a core's run queue would leave nothing to contend for.
const CORES: usize = 3;
const VCPUS: usize = 12;

/// Random numbers: xorshift64 (G. Marsaglia, "Xorshift RNGs", 2003).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// Below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// Once in `n`.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, Default)]
struct Vcpu {
    meters: [u64; 2],
    reads: u64,
    threads: u32,
    holder: Option<usize>,
    /// How often it woke.
    wakes: u64,
}

#[derive(Default)]
struct Core {
    run_queue: RunQueue,
    /// How often each VCPU had woken by what the run queue's sender knew.
    known: Vec<u64>,
    reads: u64,
    /// Reads of overflows, until time is charged; and the allowance that was told as spent.
    pending: u64,
    told: Option<MemoryLimit>,
    now: Option<Running>,
}

/// What one core sees of the VCPUs. `least` is what remains of a grant that is as good as spent.
struct Seen<'a> {
    vcpus: &'a [Vcpu],
    known: &'a [u64],
    core: usize,
    least: u64,
}

impl Readings for Seen<'_> {
    fn runnable(&self, vcpu: VcpuId) -> bool {
        let vcpu = &self.vcpus[vcpu.0 as usize];
        vcpu.threads > 0 && vcpu.holder.is_none_or(|holder| holder == self.core)
    }
    fn meter(&self, vcpu: VcpuId, mode: Mode) -> Duration {
        Duration::from_ticks(self.vcpus[vcpu.0 as usize].meters[mode as usize] + self.least)
    }
    fn memory(&self, vcpu: VcpuId) -> u64 {
        self.vcpus[vcpu.0 as usize].reads
    }
    fn has_woken(&self, vcpu: VcpuId) -> bool {
        self.vcpus[vcpu.0 as usize].wakes != self.known[vcpu.0 as usize]
    }
}

/// The machine in Rust, and the script of what happened to it.
struct Machine {
    cores: Vec<Core>,
    vcpus: Vec<Vcpu>,
    now: u64,
    least: u64,
    script: String,
    expected: String,
    /// How often an idle core took up a VCPU, how often a core had to choose again at an instant,
    /// and ends by their numbers in C.
    starts: usize,
    dues: usize,
    ends: [usize; 5],
    /// Allowances that were told as spent, and overflows by which a core is to choose again.
    told: usize,
    kicks: usize,
}

impl Machine {
    fn new(least: u64) -> Self {
        Self {
            cores: (0..CORES).map(|_| Core { known: vec![0; VCPUS], ..Core::default() }).collect(),
            vcpus: vec![Vcpu::default(); VCPUS],
            now: 0,
            least,
            script: format!("c {CORES} {VCPUS} {least}\n"),
            expected: String::new(),
            starts: 0,
            dues: 0,
            ends: [0; 5],
            told: 0,
            kicks: 0,
        }
    }

    /// Up to when an instant has come: what is due within `least` is as good as due.
    const fn come(&self) -> Instant {
        Instant::from_ticks(self.now + self.least)
    }

    fn next(&self, core: usize) -> Option<Running> {
        let Core { run_queue, known, reads, .. } = &self.cores[core];
        let seen = Seen { vcpus: &self.vcpus, known, core, least: self.least };
        dispatch::next(run_queue, self.come(), *reads, &seen)
    }

    /// When a grant begins to count that stands before what the core runs, by the law's order.
    fn due(&self, core: usize) -> Option<u64> {
        let Core { run_queue, known, reads, now, .. } = &self.cores[core];
        if run_queue.allowance.is_reached(*reads) {
            return None;
        }
        let by_mode = |grants: &[Grant], mode: Mode| {
            let place = |grant: &Grant| {
                now.is_some_and(|it| {
                    (it.vcpu, it.mode, it.until, it.memory)
                        == (grant.vcpu, mode, grant.until, grant.memory)
                })
            };
            let has_come = |grant: &Grant| grant.from <= self.come();
            let seen = Seen { vcpus: &self.vcpus, known, core, least: self.least };
            let counts = |grant: &Grant| dispatch::counts(grant, self.come(), &seen);
            let before = grants.iter().take_while(|grant| !(counts(grant) && place(grant)));
            before.filter(|grant| !has_come(grant)).map(|grant| grant.from.ticks()).min()
        };
        let first = by_mode(&run_queue.foreground, Mode::Foreground);
        let is_over = now.is_some_and(|it| it.mode == Mode::Foreground);
        if is_over || !run_queue.background_allowed {
            return first;
        }
        let background: Vec<_> = run_queue.background.iter().copied().collect();
        first.into_iter().chain(by_mode(&background, Mode::Background)).min()
    }

    /// The time until what a core runs has spent its grant.
    fn left(&self, core: usize) -> Option<u64> {
        let now = self.cores[core].now?;
        let meter = self.vcpus[now.vcpu.0 as usize].meters[now.mode as usize];
        (now.until != Limit::NEVER).then(|| now.until.0.ticks().saturating_sub(meter))
    }

    /// Why what `core` runs ends now.
    fn reason(&self, now: Running) -> End {
        let vcpu = &self.vcpus[now.vcpu.0 as usize];
        let meter = Duration::from_ticks(vcpu.meters[now.mode as usize] + self.least);
        match () {
            () if vcpu.threads == 0 => End::Blocked,
            () if now.until != Limit::NEVER && meter >= now.until.0 => End::LimitReached,
            () if now.memory.is_reached(vcpu.reads) => End::MemorySpent,
            () => End::Preempted,
        }
    }

    /// Stops what a core runs where the law has something else there.
    fn stop(&mut self, core: usize) -> Option<End> {
        let now = self.cores[core].now?;
        let next = self.next(core);
        if next.is_some_and(|next| (next.vcpu, next.mode) == (now.vcpu, now.mode)) {
            return None;
        }
        let end = self.reason(now);
        self.vcpus[now.vcpu.0 as usize].holder = None;
        self.cores[core].now = None;
        Some(end)
    }

    /// All are charged, then all stops, then all starts.
    fn settle(&mut self) {
        (0..CORES).for_each(|core| self.charge_reads(core));
        let mut ends: Vec<_> = (0..CORES).map(|core| self.stop(core)).collect();
        for (core, end) in ends.iter_mut().enumerate() {
            *end = self.stop(core).or(*end);
            let next = self.next(core);
            self.starts += usize::from(next.is_some() && self.cores[core].now.is_none());
            self.cores[core].now = next;
            if let Some(next) = next {
                self.vcpus[next.vcpu.0 as usize].holder = Some(core);
            }
        }
        let says = ends.into_iter().enumerate().map(|(core, end)| {
            let end = number(end);
            self.ends[end] += 1;
            let is_told = self.tells_spent(core);
            self.told += usize::from(is_told);
            [end, usize::from(is_told)]
        });
        let says = says.collect::<Vec<_>>();
        self.say(&says);
    }

    /// Whether it is told that a core's allowance is spent, once for each.
    fn tells_spent(&mut self, core: usize) -> bool {
        let Core { run_queue, reads, told, .. } = &mut self.cores[core];
        let limit = run_queue.allowance;
        let spent = limit.is_reached(*reads).then_some(limit);
        std::mem::replace(told, spent) != spent && spent.is_some()
    }

    /// What was pending is read by what the core runs.
    fn charge_reads(&mut self, core: usize) {
        let Core { now, reads, pending, .. } = &mut self.cores[core];
        let more = std::mem::take(pending);
        if let Some(running) = now {
            *reads += more;
            self.vcpus[running.vcpu.0 as usize].reads += more;
        }
    }

    /// An event of the core overflows; whether the core is to choose again.
    fn overflow(&mut self, core: usize, more: u64) -> bool {
        let _ = writeln!(self.script, "o {core} {more}");
        let Core { now, reads, pending, run_queue, .. } = &mut self.cores[core];
        let Some(running) = now else { return false };
        *pending += more;
        run_queue.allowance.is_reached(*reads + *pending)
            || running.memory.is_reached(self.vcpus[running.vcpu.0 as usize].reads + *pending)
    }

    /// Notes down what C must say: of each core why something ended there, and the last number.
    fn say(&mut self, says: &[[usize; 2]]) {
        let at = self.now;
        for (core, [end, last]) in says.iter().enumerate() {
            let spent_at = self.left(core).map_or(u64::MAX, |left| at.saturating_add(left));
            let due = self.due(core).unwrap_or(u64::MAX);
            let Core { now, reads, .. } = &self.cores[core];
            let vcpu = now.map_or(-1, |now| i64::from(now.vcpu.0));
            let mode = now.map_or(0, |now| now.mode as usize);
            let _ = write!(self.expected, "{vcpu} {mode} {end} {spent_at} {due} {reads} {last} ");
        }
        for Vcpu { meters: [foreground, background], reads, .. } in &self.vcpus {
            let _ = write!(self.expected, "{foreground} {background} {reads} ");
        }
        self.expected.push('\n');
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        for running in self.cores.iter().filter_map(|core| core.now) {
            self.vcpus[running.vcpu.0 as usize].meters[running.mode as usize] += time;
        }
        let _ = writeln!(self.script, "t {time}");
    }

    fn read(&mut self, core: usize, reads: u64) {
        let Core { now, reads: meter, .. } = &mut self.cores[core];
        *meter += reads;
        if let Some(running) = now {
            self.vcpus[running.vcpu.0 as usize].reads += reads;
        }
        let _ = writeln!(self.script, "r {core} {reads}");
    }

    /// Another run queue for a core. Now and then a VCPU stands on two cores, as while a plan is
    /// carried out core by core.
    fn plan(&mut self, core: usize, rng: &mut Rng) {
        let mut run_queue = RunQueue { background_allowed: !rng.once_in(4), ..RunQueue::default() };
        if rng.once_in(4) {
            run_queue.allowance = MemoryLimit(self.cores[core].reads + rng.below(500));
        }
        let mut grants = [Vec::new(), Vec::new()];
        let foreign = rng.once_in(10);
        for vcpu in 0..VCPUS {
            if rng.once_in(3) || !(foreign || vcpu % CORES == core || self.is_free(vcpu, core)) {
                continue;
            }
            let (in_foreground, in_background) = (rng.once_in(2), !rng.once_in(3));
            for (is_there, mode) in
                [(in_foreground, Mode::Foreground), (in_background, Mode::Background)]
            {
                // At times what it is to have next stands there too.
                let entries = if is_there { 1 + usize::from(rng.once_in(3)) } else { 0 };
                for _ in 0..entries {
                    let grant = self.grant(vcpu, mode, rng);
                    let from = if rng.once_in(3) { self.now + rng.below(4_000) } else { 0 };
                    let into: &mut Vec<_> = &mut grants[mode as usize];
                    let place = rng.below(into.len() as u64 + 1) as usize;
                    let grant = grant.ahead(Instant::from_ticks(from));
                    let lapses = rng.once_in(3);
                    into.insert(place, if lapses { grant.until_wake() } else { grant });
                }
            }
        }
        // What was sent may not know of the last wake.
        let knows = !rng.once_in(4);
        let known = self.vcpus.iter().map(|it| it.wakes.saturating_sub(u64::from(!knows)));
        self.cores[core].known = known.collect();
        self.write_plan(core, &run_queue, &grants);
        let [foreground, background] = grants;
        (run_queue.foreground, run_queue.background) = (foreground, background.into());
        self.cores[core].run_queue = run_queue;
    }

    /// Whether no other core has the VCPU on its run queue.
    fn is_free(&self, vcpu: usize, core: usize) -> bool {
        let own = |grant: &Grant| grant.vcpu.0 as usize == vcpu;
        let mut others = self.cores.iter().enumerate().filter(|(other, _)| *other != core);
        !others.any(|(_, Core { run_queue, .. })| {
            run_queue.foreground.iter().chain(&run_queue.background).any(own)
        })
    }

    /// A grant, mostly for a while to come, at times spent already, at times without an end.
    fn grant(&self, vcpu: usize, mode: Mode, rng: &mut Rng) -> Grant {
        let Vcpu { meters, reads, .. } = self.vcpus[vcpu];
        let near = |reading: u64, span: u64, rng: &mut Rng| match rng.below(8) {
            0 => reading.saturating_sub(rng.below(span)),
            _ => reading + rng.below(span),
        };
        let until = match rng.below(6) {
            0 => Limit::NEVER,
            _ => Limit(Duration::from_ticks(near(meters[mode as usize], 5_000, rng))),
        };
        let memory = match rng.below(2) {
            0 => MemoryLimit::NEVER,
            _ => MemoryLimit(near(reads, 300, rng)),
        };
        Grant { memory, ..Grant::new(VcpuId(vcpu as u32), until) }
    }

    fn write_plan(&mut self, core: usize, run_queue: &RunQueue, grants: &[Vec<Grant>; 2]) {
        let [foreground, background] = grants.each_ref().map(Vec::len);
        let allowed = u8::from(run_queue.background_allowed);
        let allowance = run_queue.allowance.0;
        let _ = write!(self.script, "q {core} {allowance} {allowed} {foreground} {background}");
        let known = &self.cores[core].known;
        for Grant { vcpu, until, memory, from, lapses, .. } in grants.iter().flatten() {
            let (until, from) = (until.0.ticks(), from.ticks());
            let wakes = if *lapses { known[vcpu.0 as usize] + 1 } else { 0 };
            let _ = write!(self.script, " {} {until} {} {from} {wakes}", vcpu.0, memory.0);
        }
        self.script.push('\n');
    }

    fn wake(&mut self, vcpu: usize) {
        self.vcpus[vcpu].wakes += u64::from(self.vcpus[vcpu].threads == 0);
        self.vcpus[vcpu].threads += 1;
        let _ = writeln!(self.script, "w {vcpu}");
    }

    /// One random thing happens.
    fn step(&mut self, rng: &mut Rng) {
        let (vcpu, core) = (rng.below(VCPUS as u64) as usize, rng.below(CORES as u64) as usize);
        match rng.below(8) {
            0 => self.plan(core, rng),
            1 => self.wake(vcpu),
            2 | 3 if self.vcpus[vcpu].threads == 0 => self.wake(vcpu),
            2 | 3 => {
                self.vcpus[vcpu].threads -= 1;
                let _ = writeln!(self.script, "b {vcpu}");
            }
            4 => self.read(core, rng.below(100)),
            _ => {
                // To the very instant at which a budget ends or is due, just before it, or to any
                // other.
                let due = (0..CORES).find_map(|core| self.due(core)).map(|due| due - self.now);
                let left = self.left(core).unwrap_or(1_000);
                match rng.below(4) {
                    0 => self.pass(left),
                    1 => self.pass(left.saturating_sub(1)),
                    2 if due.is_some() => {
                        self.dues += 1;
                        let early = rng.below(2);
                        self.pass(due.unwrap_or(0).saturating_sub(early));
                    }
                    _ => self.pass(rng.below(2_000)),
                }
            }
        }
    }
}

/// The number of an end in `law.h`.
fn number(end: Option<End>) -> usize {
    match end {
        None | Some(End::Metered) => 0,
        Some(End::Blocked) => 1,
        Some(End::Preempted) => 2,
        Some(End::LimitReached) => 3,
        Some(End::MemorySpent) => 4,
        Some(End::Moved | End::Exited) => unreachable!("the law has no word for it"),
    }
}

/// Plans that come faster than a core reads them: each run queue that it reads is whole, and none
/// is older than one before.
#[test]
fn a_run_queue_is_not_written_while_a_core_reads_it() {
    let Some(program) = law::compile(&law::folder("twin-send")) else { return };
    let output = Command::new(program).args(["send", "200000"]).output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "torn 0 older 0");
}

/// A VCPU moves while it runs, and its running thread blocks on the old core: the new one is to
/// choose again where it has other threads, since nothing else would wake it.
#[test]
fn a_core_is_told_when_what_moved_to_it_was_let_go() {
    let Some(program) = law::compile(&law::folder("twin-move")) else { return };
    let said = |threads: &str| {
        let output = Command::new(&program).args(["move", threads]).output().unwrap();
        assert!(output.status.success(), "{}", output.status);
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(said("2"), "before 0 awaited 1 after 1 stays 0\n");
    assert_eq!(said("1"), "before 0 awaited 0 after 0 stays 0\n");
}

/// What a core cannot run is passed over by that core alone, for that choice; as a hint, until it
/// is taken back.
#[test]
fn what_a_core_passed_over_it_leaves_out_and_tries_anew() {
    let Some(program) = law::compile(&law::folder("twin-pass")) else { return };
    let output = Command::new(&program).arg("pass").output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    // Of each core what it chooses by the marks of this choice, and by those of any.
    let expected = "first 0 0 0 0\npassed 1 1 0 0\nnext 0 1 0 0\nback 0 0 0 0\nnone 0 0 -1 -1\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn the_law_in_c_is_the_law_in_rust() {
    let folder = law::folder("twin");
    let Some(program) = law::compile(&folder) else { return };
    let cases = [(1, 0), (2, 0), (3, 0), (4, 300)];
    for (seed, least) in cases {
        let mut machine = Machine::new(least);
        let mut rng = Rng(0x9E37_79B9_7F4A_7C15 ^ seed);
        let steps = STEPS / cases.len();
        for _ in 0..steps {
            if rng.once_in(8) {
                let core = rng.below(CORES as u64) as usize;
                let is_kicked = machine.overflow(core, rng.below(50));
                machine.kicks += usize::from(is_kicked);
                let says = |it| [0, if it == core && is_kicked { 2 } else { 0 }];
                machine.say(&(0..CORES).map(says).collect::<Vec<_>>());
                continue;
            }
            machine.step(&mut rng);
            machine.settle();
        }
        let script = folder.join("script");
        fs::write(&script, &machine.script).unwrap();
        let output = Command::new(&program).stdin(File::open(&script).unwrap()).output().unwrap();
        assert!(output.status.success(), "seed {seed}: {}", output.status);
        let said = String::from_utf8(output.stdout).unwrap();
        let mut pairs = said.lines().zip(machine.expected.lines()).enumerate();
        if let Some((step, (c, rust))) = pairs.find(|(_, (c, rust))| c != rust) {
            let line = machine.script.lines().nth(step + 1).unwrap_or_default();
            panic!("seed {seed}, step {step}: {line}\n   C {c}\nRust {rust}");
        }
        assert_eq!(said.lines().count(), steps);
        // All that may happen did, many times.
        assert!(machine.ends[1..].iter().all(|n| *n > steps / 500), "{:?}", machine.ends);
        assert!(machine.starts > steps / 20, "{}", machine.starts);
        assert!(machine.dues > steps / 100, "{}", machine.dues);
        let Machine { told, kicks, .. } = machine;
        assert!(told > steps / 500 && kicks > steps / 500, "{told} {kicks}");
    }
}
