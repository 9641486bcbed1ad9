//! Under LRU: which program used how many lines last in one go, the latest first. On top is what
//! those that run have used since they were switched in.

use super::super::sets::Sets;
use super::{HALF_A_LINE, Inflow};
use crate::memory::clamp::Clamp;
use libm::exp;

/// Layers that a stack may have before some of one program become one: enough that each holds a
/// small share of the region.
const LAYERS: usize = 24;

/// The lines of a region by when they were used last.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    layers: Vec<Layer>,
    /// How many layers on top are those of programs that run.
    top: usize,
    /// By program, its place among these layers, from 1 on; 0 = it is not there.
    on_top: Vec<u32>,
    /// Programs that run may have layers below, too.
    mixed: bool,
    /// Layers below may be empty, or too many.
    untidy: bool,
}

/// Lines of a program that it used last while it ran once.
#[derive(Clone, Copy, Debug)]
struct Layer {
    program: usize,
    lines: f64,
}

impl Stack {
    pub(super) fn new(programs: usize) -> Self {
        Self { layers: Vec::new(), top: 0, on_top: vec![0; programs], mixed: false, untidy: false }
    }

    /// This share of every layer.
    pub(super) fn scale(&mut self, share: f64) {
        self.layers.iter_mut().for_each(|layer| layer.lines *= share);
    }

    /// `program` has no lines here any more.
    pub(super) fn empty(&mut self, program: usize) {
        for layer in self.layers.iter_mut().filter(|layer| layer.program == program) {
            layer.lines = 0.0;
            self.untidy = true;
        }
    }

    /// What a program that runs used since it was switched in.
    #[inline]
    pub(super) fn on_top(&self, program: usize) -> f64 {
        let place = self.on_top[program] as usize;
        let layer = place.checked_sub(1).and_then(|place| self.layers.get(place));
        layer.map_or(0.0, |layer| layer.lines)
    }

    /// Whether those that run have lines on top alone, and nothing is to be tidied: as long as they
    /// run, that they use lines again changes nothing.
    pub(super) fn is_settled(&self) -> bool {
        !self.mixed && !self.untidy
    }

    /// `time` passes in which programs use their lines again.
    pub(super) fn used(&mut self, time: f64, inflows: &mut [Inflow]) {
        // The first of `inflows` comes to the front first.
        let last = inflows.iter().rev().map(|inflow| inflow.program);
        if !last.eq(self.layers[..self.top].iter().map(|layer| layer.program)) {
            self.lead(inflows);
            (self.mixed, self.untidy) = (true, true);
        }
        if self.mixed {
            self.lift(time, inflows);
        }
        if self.untidy {
            self.tidy();
        }
    }

    /// Brings the layers of those that run to the top.
    fn lead(&mut self, inflows: &[Inflow]) {
        let Self { layers, top, on_top, .. } = self;
        for layer in &layers[..*top] {
            on_top[layer.program] = 0;
        }
        for inflow in inflows {
            let program = inflow.program;
            let place = layers[..*top].iter().position(|layer| layer.program == program);
            if let Some(place) = place {
                layers[..=place].rotate_right(1);
            } else {
                layers.insert(0, Layer { program, lines: 0.0 });
                *top += 1;
            }
        }
        *top = inflows.len();
        for (place, layer) in (1..).zip(&layers[..*top]) {
            on_top[layer.program] = place;
        }
    }

    /// What is used again goes from below to the top.
    fn lift(&mut self, time: f64, inflows: &mut [Inflow]) {
        self.mixed = false;
        let (top, below) = self.layers.split_at_mut(self.top);
        for layer in below {
            let place = self.on_top[layer.program] as usize;
            if place == 0 {
                continue;
            }
            // The last of `inflows` is on top.
            let inflow = &mut inflows[top.len() - place];
            let unused = *inflow.unused.get_or_insert_with(|| exp(-inflow.reuse * time));
            let stays = layer.lines * unused;
            let stays = if stays < HALF_A_LINE { 0.0 } else { stays };
            top[place - 1].lines += layer.lines - stays;
            layer.lines = stays;
            let goes = stays <= 0.0;
            self.mixed |= !goes;
            self.untidy |= goes;
        }
    }

    /// Keeps the stack short: without empty layers, and with few for each program.
    fn tidy(&mut self) {
        self.untidy = false;
        let mut place = 0;
        let top = self.top;
        self.layers.retain(|layer| {
            place += 1;
            place <= top || layer.lines > 0.0
        });
        while self.layers.len() > LAYERS.max(2 * self.on_top.len()) {
            // The two of one program that hold least together become one, as old as the older.
            let below = self.top..self.layers.len();
            let next = |at: usize| {
                let same = |other: &usize| self.layers[*other].program == self.layers[at].program;
                (at + 1..self.layers.len()).find(same).map(|other| (at, other))
            };
            let lines =
                |(one, other): &(usize, usize)| self.layers[*one].lines + self.layers[*other].lines;
            let pairs = below.filter_map(next);
            let Some((one, other)) = pairs.min_by(|a, b| lines(a).total_cmp(&lines(b))) else {
                return;
            };
            self.layers[other].lines += self.layers[one].lines;
            self.layers.remove(one);
        }
    }

    /// In a crowd those that run only lose lines to each other: this share of what they have below
    /// stays there. On top is what they hold besides, by `held`.
    pub(super) fn wear(&mut self, stays: f64, held: &[f64]) {
        self.top_up(held);
        if !self.mixed {
            return;
        }
        let (top, below) = self.layers.split_at_mut(self.top);
        for layer in below {
            if let Some(place) = self.on_top[layer.program].checked_sub(1) {
                let lines = layer.lines * stays;
                top[place as usize].lines += layer.lines - lines;
                layer.lines = lines;
                self.untidy |= lines <= 0.0;
            }
        }
    }

    /// All below the top sinks by `more` trials in `count` sets; what is lost thereby is taken from
    /// `held`. The layers on top had the first of `above` lines before and have the second now. On
    /// top is what those that run hold besides.
    pub(super) fn sink(
        &mut self,
        sets: &Sets,
        count: f64,
        above: (f64, f64),
        more: f64,
        held: &mut [f64],
    ) {
        self.top_up(held);
        let (mut above, mut kept_above) = above;
        for layer in &mut self.layers[self.top..] {
            above += layer.lines;
            let kept = sets.kept(sets.trials(above / count) + more) * count;
            let lines = (kept - kept_above).clamp(0.0, layer.lines);
            kept_above = kept;
            let held = &mut held[layer.program];
            *held = (*held - (layer.lines - lines)).at_least(0.0);
            layer.lines = lines;
            self.untidy |= lines <= 0.0;
        }
    }

    /// On top is what those that run hold and have not below.
    fn top_up(&mut self, held: &[f64]) {
        let (top, below) = self.layers.split_at_mut(self.top);
        top.iter_mut().for_each(|layer| layer.lines = 0.0);
        if self.mixed {
            for layer in below {
                if let Some(place) = self.on_top[layer.program].checked_sub(1) {
                    top[place as usize].lines += layer.lines;
                }
            }
        }
        for layer in top {
            layer.lines = (held[layer.program] - layer.lines).at_least(0.0);
        }
    }
}
