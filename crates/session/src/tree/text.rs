//! The tree as text.

use super::fraction::{Fraction, LONGEST};
use super::{Drawing, idle_of, listed};
use maracas_console::output::{Paint, paint};
use maracas_policies::tree::{Kind, Node};

/// Columns of the tree where it is narrow; with the numbers, a line has at most 80 then.
const NARROW: usize = 36;

/// One line, with its numbers.
struct Line {
    text: String,
    level: Option<u32>,
    rate: Fraction,
    note: String,
}

/// The whole page.
pub(super) fn page(drawing: &Drawing<'_>) -> String {
    let parts: Vec<(String, Vec<Line>)> = drawing
        .used()
        .map(|subsystem| {
            let what = match (subsystem.root.level, &subsystem.root.kind) {
                (0, _) => "partitioned, EDF".to_string(),
                (1, Kind::Server) => "reduced once".into(),
                (levels, Kind::Server) => format!("reduced {levels} times"),
                (1, _) => "a hierarchy of 1 level".into(),
                (levels, _) => format!("a hierarchy of {levels} levels"),
            };
            let mut lines = Vec::new();
            Writer { drawing, lines: &mut lines }.node(&subsystem.root, "", "", None);
            let cores = paint(Paint::Strong, &listed(&subsystem.cores));
            (format!("{cores}: {what}"), lines)
        })
        .collect();
    let widths = parts.iter().flat_map(|(_, lines)| lines).map(|line| line.text.chars().count());
    let width = widths.max().unwrap_or(0).max(NARROW);
    let mut page = format!("{}\n", drawing.heading());
    page += &format!("{:width$} level  rate\n", "");
    for (heading, lines) in parts {
        page += &format!("{heading}\n");
        for line in lines {
            page += &line.padded(width);
        }
    }
    let empty = drawing.empty_cores();
    if !empty.is_empty() {
        page += &format!("{}: empty\n", paint(Paint::Strong, &listed(&empty)));
    }
    page + &drawing.summary() + "\n"
}

struct Writer<'a> {
    drawing: &'a Drawing<'a>,
    lines: &'a mut Vec<Line>,
}

impl Writer<'_> {
    /// Writes `node` behind `lead` and what is under it behind `indent`. A dual or master and what
    /// it stands for share an indent, so that a level costs one step only.
    fn node(&mut self, node: &Node, lead: &str, indent: &str, excess: Option<Fraction>) {
        let rate = Fraction::from(node.rate);
        let (text, level, note) = match node.kind {
            Kind::Task(vcpu) => {
                let (name, r) = (self.drawing.name(vcpu), self.drawing.reservation(vcpu));
                (format!("{name}  {r}"), None, String::new())
            }
            Kind::Server => {
                let idle = idle_of(node).filter(|idle| !idle.is_zero());
                let note = idle.map_or_else(String::new, |idle| format!("idle {}", idle.short()));
                let unit = if lead.is_empty() { "unit server" } else { "server" };
                (unit.into(), Some(node.level), note)
            }
            Kind::Set(core) => {
                let note =
                    excess.map_or_else(String::new, |excess| format!("x = {}", excess.short()));
                (format!("set of {core}"), Some(node.level), note)
            }
            Kind::Dual => ("dual of".into(), Some(node.level), String::new()),
            Kind::Master => ("master of".into(), Some(node.level), String::new()),
        };
        self.lines.push(Line { text: format!("{lead}{text}"), level, rate, note });
        if let (Kind::Dual | Kind::Master, [child]) = (node.kind, node.children.as_slice()) {
            let excess = (node.kind == Kind::Master).then_some(rate);
            return self.node(child, indent, indent, excess);
        }
        let last = node.children.len().saturating_sub(1);
        for (place, child) in node.children.iter().enumerate() {
            let (branch, below) = if place == last { ("└ ", "  ") } else { ("├ ", "│ ") };
            self.node(child, &format!("{indent}{branch}"), &format!("{indent}{below}"), None);
        }
    }
}

impl Line {
    fn padded(&self, width: usize) -> String {
        let level = self.level.map_or_else(String::new, |level| level.to_string());
        let exact = self.rate.exact().unwrap_or_default();
        let line = format!(
            "{:width$} {level:>5}  {exact:<LONGEST$} {}  {}",
            self.text,
            self.rate.decimal(),
            self.note
        );
        format!("{}\n", line.trim_end())
    }
}
