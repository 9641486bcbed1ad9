//! Systems in which tasks come, go and change while the cores are as full as the policy's test lets
//! them be: where one leaves, others come for the same room at that very instant or soon after.

use super::{Dice, RandomSystem};
use maracas_core::{
    Arrival, CoreId, Cost, Duration, Instant, Program, Reservation, System, Vcpu, VcpuId, Workload,
};
use maracas_sim::Change;

/// G: rates are multiples of 1/G, and steps of time G units.
const GRAINS: [u64; 6] = [4, 6, 8, 12, 20, 24];
/// Periods in steps: any, and harmonic ones, for which fixed priorities fill a core.
const STEPS: [u64; 8] = [1, 2, 3, 4, 5, 6, 8, 12];
const HARMONIC: [u64; 4] = [1, 2, 4, 8];
/// How long it goes on, in steps.
const SPAN: u64 = 160;

/// What kind of systems to draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Churn {
    /// Cores that count: each is filled by itself.
    pub partitioned: bool,
    /// Periods that divide each other.
    pub harmonic: bool,
    /// How much of the cores is asked for from the start on, in hundredths.
    pub load: u64,
    /// No task asks for more than a quarter of a core, and together they ask for no more than what
    /// global EDF provably keeps (Goossens, Funk and Baruah).
    pub light: bool,
    /// Everything happens on multiples of a step, and budgets are whole parts of it.
    pub on_grid: bool,
}

/// A system of that kind, the requests to change, and how long it goes on.
pub fn churn(dice: &mut Dice, kind: Churn) -> (RandomSystem, Vec<Change>, Instant) {
    let cores = dice.between(1, 4);
    let unit = dice.pick(&[1, 1, 3, 100]);
    let grain = dice.pick(&GRAINS);
    let sporadic = dice.one_in(3);
    let mut drawing = Drawing {
        kind,
        grain,
        unit,
        cores,
        sporadic,
        early: dice.one_in(2),
        vcpus: Vec::new(),
        programs: Vec::new(),
        changes: Vec::new(),
    };
    drawing.fill(dice);
    drawing.replace(dice);
    for _ in 0..dice.between(0, 2 * cores) {
        let (from, load) = (drawing.instant(dice), dice.between(1, drawing.most()));
        drawing.add(dice, load, from, None);
    }
    let until = drawing.at(SPAN);
    let mut system = System::new(cores as usize, drawing.vcpus);
    system.ticks_per_ns = if sporadic { grain * unit } else { 1 };
    (RandomSystem { system, programs: drawing.programs }, drawing.changes, until)
}

struct Drawing {
    kind: Churn,
    grain: u64,
    unit: u64,
    cores: u64,
    sporadic: bool,
    early: bool,
    vcpus: Vec<Vcpu>,
    programs: Vec<Program>,
    changes: Vec<Change>,
}

impl Drawing {
    const fn step(&self) -> u64 {
        self.grain * self.unit
    }
    const fn at(&self, steps: u64) -> Instant {
        Instant::from_ticks(steps * self.step())
    }
    /// The greatest load of a task.
    const fn most(&self) -> u64 {
        if self.kind.light { self.grain.div_ceil(4) } else { self.grain }
    }
    /// Some instant after the start.
    fn instant(&self, dice: &mut Dice) -> Instant {
        if self.kind.on_grid || self.sporadic || dice.one_in(3) {
            return self.at(dice.between(1, SPAN));
        }
        Instant::from_ticks(dice.between(1, SPAN * self.step()))
    }
    /// The same instant or one soon after.
    fn soon(&self, dice: &mut Dice, after: Instant) -> Instant {
        if dice.one_in(2) {
            return after;
        }
        let steps = Duration::from_ticks(self.step() * dice.between(0, 6));
        let odd = if self.kind.on_grid || self.sporadic { 0 } else { dice.between(0, self.step()) };
        after + steps + Duration::from_ticks(odd)
    }
    fn period(&self, dice: &mut Dice) -> u64 {
        let steps: &[u64] = if self.kind.harmonic { &HARMONIC } else { &STEPS };
        dice.pick(steps)
    }
    fn reservation(&self, load: u64, steps: u64) -> Reservation {
        let budget = Duration::from_ticks(load * steps * self.unit);
        Vcpu::new(0, budget, Duration::from_ticks(steps * self.step())).reservation
    }
    fn cost(&self, reservation: Reservation) -> Cost {
        let least = Duration::from_ticks(1);
        match self.early {
            true => Cost::Uniform(least, reservation.budget),
            false => Cost::Fixed(reservation.budget),
        }
    }

    /// Adds a task that comes at `from`; the program that ends it stands last.
    fn add(&mut self, dice: &mut Dice, load: u64, from: Instant, pinned: Option<u64>) {
        let steps = self.period(dice);
        let offset = if dice.one_in(4) { dice.between(0, steps) * self.step() } else { 0 };
        let offset = Duration::from_ticks(offset);
        let id = VcpuId(self.vcpus.len() as u32);
        let arrival = if self.sporadic { Arrival::Sporadic } else { Arrival::Periodic { offset } };
        let reservation = self.reservation(load, steps);
        let pinned = pinned.map(|core| CoreId(core as u16));
        let vcpu = Vcpu::new(id.0, reservation.budget, reservation.period);
        self.vcpus.push(Vcpu { arrival, pinned, ..vcpu });
        let cost = self.cost(reservation);
        let program = Program::new(id, Workload::Periodic { cost });
        self.programs.push(Program { arrive: from, ..program });
    }

    /// Fills all cores from the start.
    fn fill(&mut self, dice: &mut Dice) {
        let most = self.most();
        let slack = if self.kind.light { (self.cores - 1) * most } else { 0 };
        let mut lists = vec![self.cores * self.grain - slack];
        if self.kind.partitioned {
            lists = vec![self.grain; self.cores as usize];
        }
        // Some sets leave a little room, so that those that wait for it are let in by the way.
        let full = !dice.one_in(4);
        let pins = self.kind.partitioned && dice.one_in(2);
        for (core, mut left) in (0..).zip(lists) {
            left = left * self.kind.load / 100;
            left -= if full { 0 } else { dice.between(0, left / 4) };
            while left > 0 {
                let heaviest = dice.between(1, most).min(left);
                let load = dice.between(1, heaviest);
                left -= load;
                self.add(dice, load, Instant::ZERO, pins.then_some(core));
            }
        }
    }

    /// Lets tasks go, for whose room others come, which go in their turn; and lets pairs change,
    /// one to less and the other one to more.
    fn replace(&mut self, dice: &mut Dice) {
        let mut place = 0;
        while place < self.vcpus.len() && self.vcpus.len() < 60 {
            let (came, load) = (self.programs[place].arrive, self.load(place));
            let pinned = self.vcpus[place].pinned.map(|core| u64::from(core.0));
            if dice.one_in(3) {
                self.exchange(dice, place);
            }
            if !dice.one_in(4) {
                let stay = Duration::from_ticks(self.step() * dice.between(1, SPAN / 3));
                let gone = self.soon(dice, came + stay);
                self.programs[place].depart = gone;
                let mut left = load;
                while left > 0 && gone < self.at(SPAN) {
                    let part = if dice.one_in(2) { left } else { dice.between(1, left) };
                    left -= part;
                    let from = self.soon(dice, gone);
                    let pinned = pinned.filter(|_| !dice.one_in(4));
                    self.add(dice, part, from, pinned);
                }
            }
            place += 1;
        }
    }
    fn load(&self, place: usize) -> u64 {
        let r = &self.vcpus[place].reservation;
        r.budget.ticks() * self.grain / r.period.ticks()
    }
    /// A task asks for less, and another one for so much more, or for anything at all.
    fn exchange(&mut self, dice: &mut Dice, place: usize) {
        let at = self.programs[place].arrive;
        let at = at + Duration::from_ticks(self.step() * dice.between(1, SPAN / 4));
        let (load, other) = (self.load(place), dice.between(0, self.vcpus.len() as u64 - 1));
        if load > 1 {
            let less = dice.between(1, load - 1);
            let steps = self.steps(dice, place);
            self.change(place, less, steps, at);
            let (more, steps) =
                (self.load(other as usize) + load - less, self.steps(dice, other as usize));
            let when = self.soon(dice, at);
            if more <= self.most() && other as usize != place {
                self.change(other as usize, more, steps, when);
            }
        }
        if dice.one_in(3) {
            let (load, steps) = (dice.between(1, self.most()), self.steps(dice, place));
            let when = self.soon(dice, at);
            self.change(place, load, steps, when);
        }
    }
    /// The period that it has, or any.
    fn steps(&self, dice: &mut Dice, place: usize) -> u64 {
        let own = self.vcpus[place].reservation.period.ticks() / self.step();
        if dice.one_in(2) { own } else { self.period(dice) }
    }
    fn change(&mut self, place: usize, load: u64, steps: u64, at: Instant) {
        let (vcpu, reservation) = (self.vcpus[place].id, self.reservation(load, steps));
        let cost = self.cost(reservation);
        self.changes.push(Change { at, vcpu, reservation, cost });
    }
}
