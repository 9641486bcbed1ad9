//! Where boxes lie. Every box has the columns above its subtree for itself, so nothing overlaps
//! and no edge crosses a box.

use super::super::fraction::Fraction;
use super::super::{Drawing, idle_of, listed};
use super::{LINE, MARGIN};
use maracas_core::CoreId;
use maracas_policies::tree::{Kind, Node, Subsystem};

/// Sizes in pixels.
pub(super) const PADDING: f64 = 6.0;
const GAP: f64 = 14.0;
/// Left of the boxes, for the names of the levels.
const GUTTER: f64 = 60.0;
/// Subsystems stand beside each other up to here, where none alone is wider.
const WIDE: f64 = 1_200.0;
/// An average character of an 11 px sans-serif font, and a wide one's reserve.
const CHARACTER: f64 = 6.4;
/// Characters of a task's name that are shown.
const NAME_MOST: usize = 18;

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Box {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) round: bool,
    pub(super) lines: Vec<String>,
}

/// A line down, across at the height `turn`, and down again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Edge {
    pub(super) from: (f64, f64),
    pub(super) turn: f64,
    pub(super) to: (f64, f64),
}

#[derive(Default, Debug)]
pub(super) struct Layout {
    pub(super) boxes: Vec<Box>,
    pub(super) edges: Vec<Edge>,
    /// Levels and where their rows begin.
    pub(super) rows: Vec<(usize, f64)>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A node that has a box, and the room that it needs.
struct Part {
    own: Box,
    level: usize,
    /// Width of the subtree.
    span: f64,
    children: Vec<Part>,
}

impl Layout {
    pub(super) fn of(drawing: &Drawing<'_>) -> Self {
        let tops: Vec<Part> = drawing.used().map(|subsystem| top(drawing, subsystem)).collect();
        let heading = MARGIN * 2.0 + CHARACTER * drawing.heading().chars().count() as f64;
        let foot = MARGIN * 2.0 + CHARACTER * drawing.summary().chars().count() as f64;
        let mut layout = Self { height: 3.0 * LINE, width: heading.max(foot), ..Self::default() };
        let mut rest = tops.into_iter().peekable();
        while let Some(first) = rest.next() {
            let mut right = GUTTER + first.span;
            let mut beside = vec![first];
            while let Some(next) = rest.next_if(|next| right + GAP + next.span <= WIDE) {
                right += GAP + next.span;
                beside.push(next);
            }
            layout.width = layout.width.max(right);
            layout.place_beside(beside);
        }
        layout
    }

    /// Places subsystems side by side below what is there, their levels on common rows.
    fn place_beside(&mut self, parts: Vec<Part>) {
        let levels = parts.iter().map(|part| part.level).max().unwrap_or(0);
        let mut heights = vec![0.0_f64; levels + 1];
        parts.iter().for_each(|part| part.tallest(&mut heights));
        let mut tops = vec![0.0; levels + 1];
        let mut y = self.height + GAP;
        for level in (0..=levels).rev() {
            tops[level] = y;
            self.rows.push((level, y));
            // Below the boxes of a level is a row of its duals or masters.
            y += heights[level] + GAP;
            y += if level > 0 { ROUND + GAP } else { 0.0 };
        }
        let mut left = GUTTER;
        for part in parts {
            let span = part.span;
            self.place(part, left, &tops, &heights);
            left += span + GAP;
        }
        self.height = y;
    }

    /// Places a box and what is under it; returns the middle of its upper edge.
    fn place(&mut self, part: Part, left: f64, tops: &[f64], heights: &[f64]) -> (f64, f64) {
        let Part { mut own, level, span, children } = part;
        let below = tops[level] + heights[level] + GAP;
        own.x = left + (span - own.width) / 2.0;
        own.y = if own.round { below } else { tops[level] };
        let (middle, bottom) = (own.x + own.width / 2.0, own.y + own.height);
        let top = (middle, own.y);
        let round = own.round;
        self.boxes.push(own);
        let needed = children.iter().map(|child| child.span + GAP).sum::<f64>() - GAP;
        let mut left = left + (span - needed) / 2.0;
        for child in children {
            let span = child.span;
            let to = self.place(child, left, tops, heights);
            let turn = if round { to.1 - GAP / 2.0 } else { below - GAP / 2.0 };
            self.edges.push(Edge { from: (middle, bottom), turn, to });
            left += span + GAP;
        }
        top
    }
}

/// Height of a dual or a master.
const ROUND: f64 = 2.0 * LINE + PADDING;

fn top(drawing: &Drawing<'_>, subsystem: &Subsystem) -> Part {
    part(drawing, &subsystem.root, None, &subsystem.cores)
}

impl Part {
    /// Raises the heights of the levels to those of the boxes in it.
    fn tallest(&self, heights: &mut [f64]) {
        if !self.own.round {
            heights[self.level] = heights[self.level].max(self.own.height);
        }
        self.children.iter().for_each(|child| child.tallest(heights));
    }
}

/// `cores` are those of a subsystem, at its root; `excess` is what the master above a set has.
fn part(drawing: &Drawing<'_>, node: &Node, excess: Option<Fraction>, cores: &[CoreId]) -> Part {
    let rate = Fraction::from(node.rate);
    let decimal = rate.decimal();
    let rate_text = match rate.exact() {
        Some(exact) if exact.contains('/') => format!("{exact} = {decimal}"),
        Some(whole) => whole,
        None => decimal,
    };
    let mut lines = match node.kind {
        Kind::Server if !cores.is_empty() => vec![listed(cores), format!("server {rate_text}")],
        Kind::Server => vec!["server".into(), rate_text],
        Kind::Set(core) => vec![core.to_string(), format!("U = {rate_text}")],
        Kind::Dual => vec!["dual".into(), rate_text],
        Kind::Master => vec!["master".into(), rate_text],
        Kind::Task(vcpu) => vec![drawing.name(vcpu)],
    };
    lines.extend(excess.map(|excess| format!("x = {}", excess.short())));
    if node.kind == Kind::Server {
        let idle = idle_of(node).filter(|idle| !idle.is_zero());
        lines.extend(idle.map(|idle| format!("idle {}", idle.short())));
    }
    let mut children = Vec::new();
    for child in &node.children {
        match child.kind {
            Kind::Task(vcpu) => {
                let name: String = drawing.name(vcpu).chars().take(NAME_MOST).collect();
                lines.push(format!("{name}  {}", drawing.reservation(vcpu)));
            }
            Kind::Server | Kind::Dual | Kind::Set(_) | Kind::Master => {
                let excess = (node.kind == Kind::Master).then_some(rate);
                let mut child = part(drawing, child, excess, &[]);
                if child.own.round {
                    // A master stands in the row below its host, however low its own set is.
                    child.level = node.level as usize;
                }
                children.push(child);
            }
        }
    }
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let own = Box {
        x: 0.0,
        y: 0.0,
        width: CHARACTER * longest as f64 + 2.0 * PADDING,
        height: LINE * lines.len() as f64 + PADDING,
        round: matches!(node.kind, Kind::Dual | Kind::Master),
        lines,
    };
    let needed = children.iter().map(|child| child.span + GAP).sum::<f64>() - GAP;
    Part { level: node.level as usize, span: own.width.max(needed), own, children }
}
