//! What the view shows and how it answers to keys.

use super::history::History;
use super::keys::Key;
use super::rates::Rates;
use maracas_core::VcpuId;
use maracas_core::control::{Gauges, VcpuGauges};
use std::cmp::Reverse;

/// How VCPUs are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    /// By core, then by period as rate-monotonic priorities are.
    Core,
    /// The VCPU that used most time comes first.
    Load,
    /// The VCPU that got least of what was promised comes first: misses and short periods.
    Trouble,
    /// By name.
    Name,
}

impl Sort {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Core => "core, period",
            Self::Load => "load",
            Self::Trouble => "trouble",
            Self::Name => "name",
        }
    }
    const fn next(self) -> Self {
        match self {
            Self::Core => Self::Load,
            Self::Load => Self::Trouble,
            Self::Trouble => Self::Name,
            Self::Name => Self::Core,
        }
    }
}

/// What a key does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Quit,
    Help,
    Sort,
    Pause,
    /// Scrolls the VCPUs.
    Vcpus(isize),
    /// Scrolls the cores.
    Cores(isize),
    /// To the first of both.
    Top,
}

/// The keys.
const KEYS: [(Key, Act); 16] = [
    (Key::Char('q'), Act::Quit),
    (Key::Escape, Act::Quit),
    (Key::Interrupt, Act::Quit),
    (Key::Char('?'), Act::Help),
    (Key::Char('h'), Act::Help),
    (Key::Char('s'), Act::Sort),
    (Key::Char('p'), Act::Pause),
    (Key::Char(' '), Act::Pause),
    (Key::Up, Act::Vcpus(-1)),
    (Key::Down, Act::Vcpus(1)),
    (Key::PageUp, Act::Vcpus(-10)),
    (Key::PageDown, Act::Vcpus(10)),
    (Key::Left, Act::Cores(-1)),
    (Key::Right, Act::Cores(1)),
    (Key::Home, Act::Top),
    (Key::Char('g'), Act::Top),
];

/// `from` and `by` more, from 0 to less than `count`.
fn step(from: usize, by: isize, count: usize) -> usize {
    from.saturating_add_signed(by).min(count.saturating_sub(1))
}

/// What is to be done after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    Go,
    Quit,
    /// The watching must stop, or go on.
    Pause(bool),
}

/// The state of the view.
#[derive(Debug)]
pub(super) struct App {
    pub(super) title: String,
    pub(super) colours: bool,
    pub(super) gauges: Gauges,
    pub(super) rates: Rates,
    pub(super) history: History,
    pub(super) sort: Sort,
    /// How many VCPUs and cores are above what is shown.
    pub(super) vcpus_above: usize,
    pub(super) cores_above: usize,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Why nothing more comes.
    pub(super) ended: Option<String>,
    looked: bool,
}

impl App {
    pub(super) fn new(title: String, colours: bool) -> Self {
        Self {
            title,
            colours,
            gauges: Gauges::default(),
            rates: Rates::default(),
            history: History::default(),
            sort: Sort::Core,
            vcpus_above: 0,
            cores_above: 0,
            paused: false,
            help: false,
            ended: None,
            looked: false,
        }
    }

    /// Takes in a new look.
    pub(super) fn update(&mut self, now: Gauges) {
        let before = self.looked.then_some(&self.gauges);
        self.rates = Rates::between(before, &now);
        self.history.remember(before, &now, &self.rates);
        (self.gauges, self.looked) = (now, true);
    }

    /// Answers to a key.
    pub(super) fn key(&mut self, key: Key) -> Next {
        let act = KEYS.iter().find(|(own, _)| *own == key).map(|(_, act)| *act);
        // Help is put away by any key.
        if std::mem::take(&mut self.help) && act != Some(Act::Quit) {
            return Next::Go;
        }
        let Some(act) = act else { return Next::Go };
        match act {
            Act::Quit => return Next::Quit,
            Act::Help => self.help = true,
            Act::Sort => self.sort = self.sort.next(),
            Act::Pause => {
                self.paused = !self.paused;
                return Next::Pause(self.paused);
            }
            Act::Vcpus(by) => {
                self.vcpus_above = step(self.vcpus_above, by, self.gauges.vcpus.len())
            }
            Act::Cores(by) => {
                self.cores_above = step(self.cores_above, by, self.gauges.cores.len())
            }
            Act::Top => (self.vcpus_above, self.cores_above) = (0, 0),
        }
        Next::Go
    }

    /// The VCPUs' places in the gauges, in the order that is asked for.
    pub(super) fn order(&self) -> Vec<usize> {
        let (vcpus, rates) = (&self.gauges.vcpus, &self.rates.vcpus);
        let mut order: Vec<usize> = (0..vcpus.len()).collect();
        let home = |vcpu: &VcpuGauges| -> (Option<u16>, u64, VcpuId) {
            let core = vcpu.last.map(|(core, _)| core.0);
            // A VCPU without a reservation has no priority either.
            let none = vcpu.reservation.is_none();
            let period = if none { u64::MAX } else { vcpu.reservation.period.ticks() };
            (core, period, vcpu.vcpu)
        };
        match self.sort {
            Sort::Core => order.sort_by_key(|place| home(&vcpus[*place])),
            Sort::Name => order.sort_by(|a, b| vcpus[*a].name.cmp(&vcpus[*b].name)),
            Sort::Trouble => order.sort_by_key(|place| {
                let vcpu = &vcpus[*place];
                (Reverse(vcpu.misses + vcpu.short_periods + vcpu.over_periods), home(vcpu))
            }),
            Sort::Load => order.sort_by(|a, b| {
                let load = |place: usize| rates[place].foreground + rates[place].background;
                load(*b).total_cmp(&load(*a))
            }),
        }
        order
    }
}

#[cfg(test)]
mod tests;
