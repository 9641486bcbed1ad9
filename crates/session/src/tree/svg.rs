//! The tree as a picture: levels are rows, the root of every subsystem on top.
//!
//! A server or set is a box that lists its tasks; a dual or master is a round, dashed one between
//! the box that it runs in and the box that it stands for.

mod layout;
#[cfg(test)]
mod tests;

use super::{Drawing, listed};
use layout::{Box, Layout};
use maracas_policies::tree::Kind;
use std::fmt::Write as _;

/// Ink for light pages and paper, and for dark screens where the reader asks for that. No CSS
/// variables: the converters that papers go through do not know them. The hues are those of Okabe
/// and Ito (2008), which readers with any colour vision can distinguish.
const STYLE: &str = "text{font:11px sans-serif;fill:#222}.strong{font-weight:bold}\
.box{fill:#eaf3fa;stroke:#0072b2}.round{fill:#fdf4e0;stroke:#b97f00;stroke-dasharray:4 2}\
.edge{fill:none;stroke:#555}.row{stroke:#ddd}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.box{fill:#10304a;stroke:#56b4e9}\
.round{fill:#41300c;stroke:#e69f00}.edge{stroke:#aaa}.row{stroke:#444}}";

/// Sizes in pixels.
const MARGIN: f64 = 10.0;
const LINE: f64 = 14.0;

/// The whole picture.
pub(super) fn picture(drawing: &Drawing<'_>) -> String {
    let layout = Layout::of(drawing);
    let mut foot = vec![drawing.summary()];
    let empty = drawing.empty_cores();
    if !empty.is_empty() {
        foot.push(format!("{}: empty", listed(&empty)));
    }
    let width = layout.width + MARGIN;
    let height = layout.height + LINE * (foot.len() as f64 + 3.0) + MARGIN;
    let heading = escaped(&drawing.heading());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\"><title>{heading}</title>\n\
         <style>{STYLE}</style>\n"
    );
    text(&mut svg, MARGIN, MARGIN + LINE, "strong", &drawing.heading());
    for (level, y) in &layout.rows {
        text(&mut svg, MARGIN, y + LINE, "", &format!("level {level}"));
        let _ = writeln!(
            svg,
            "<line class=\"row\" x1=\"{MARGIN}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            layout.width,
            y - 4.0,
            y - 4.0
        );
    }
    for edge in &layout.edges {
        let _ = writeln!(
            svg,
            "<path class=\"edge\" d=\"M{:.1} {:.1} V{:.1} H{:.1} V{:.1}\"/>",
            edge.from.0, edge.from.1, edge.turn, edge.to.0, edge.to.1
        );
    }
    layout.boxes.iter().for_each(|one| shape(&mut svg, one));
    legend(&mut svg, drawing, layout.height + LINE);
    for (place, line) in foot.iter().enumerate() {
        text(&mut svg, MARGIN, layout.height + LINE * (place as f64 + 3.5), "", line);
    }
    svg + "</svg>\n"
}

fn shape(svg: &mut String, one: &Box) {
    let Box { x, y, width, height, round, .. } = *one;
    let (class, radius) = if round { ("round", LINE) } else { ("box", 2.0) };
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"{radius}\"/>"
    );
    for (place, line) in one.lines.iter().enumerate() {
        let class = if place == 0 { "strong" } else { "" };
        text(svg, x + layout::PADDING, y + LINE * (place as f64 + 1.0), class, line);
    }
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, line: &str) {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    let _ = writeln!(svg, "<text{class} x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(line));
}

fn legend(svg: &mut String, drawing: &Drawing<'_>, y: f64) {
    let is_set = |kind: &Kind| matches!(kind, Kind::Set(_));
    let sets = drawing.used().any(|subsystem| is_set(&subsystem.root.kind));
    let (square, round) = if sets {
        (
            "a set of tasks and its core; x = what it asks for beyond that core",
            "a master: runs x of the set below on the core of the set above",
        )
    } else {
        (
            "a server: runs what is below it by EDF",
            "a dual: runs exactly when the server below does not",
        )
    };
    let rows = [("box", 2.0, square), ("round", 5.0, round)];
    for (place, (class, radius, what)) in rows.into_iter().enumerate() {
        let y = y + LINE * place as f64;
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{MARGIN}\" y=\"{:.1}\" width=\"20\" height=\"10\" \
             rx=\"{radius}\"/>",
            y - 9.0
        );
        text(svg, MARGIN + 26.0, y, "", what);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
