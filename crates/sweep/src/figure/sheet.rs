//! An SVG document in memory: rectangles, lines and texts at pixels from the left and from above.

use std::fmt::{Display, Write};

/// Pixels of a figure.
pub(super) const WIDTH: f64 = 760.0;
/// Pixels of a figure without its legend.
pub(super) const HEIGHT: f64 = 420.0;

/// A point: pixels from the left and from above.
pub(super) type Point = (f64, f64);

/// Which part of a text stands at its point (`text-anchor` of SVG).
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// What is drawn so far.
pub(super) struct Sheet(String);

impl Sheet {
    /// A white one with so many pixels for a legend.
    pub(super) fn new(legend: f64) -> Self {
        let height = HEIGHT + legend;
        let mut sheet = Self(String::new());
        sheet.element(format_args!(
            "svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" xmlns=\"http://www.w3.org/2000/svg\""
        ));
        sheet.rect((0.0, 0.0), (WIDTH, height), "fill=\"#FFFFFF\"");
        sheet
    }
    fn element(&mut self, inside: impl Display) {
        writeln!(self.0, "<{inside}>").expect("a string takes everything");
    }
    /// A rectangle from its upper left corner; `look` is attributes of SVG.
    pub(super) fn rect(&mut self, (x, y): Point, (width, height): Point, look: &str) {
        self.element(format_args!(
            "rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {look}/"
        ));
    }
    /// A straight line of the axes.
    pub(super) fn line(&mut self, (x1, y1): Point, (x2, y2): Point, color: &str) {
        self.element(format_args!(
            "line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"/"
        ));
    }
    /// A line through points; `look` is attributes of SVG.
    pub(super) fn path(&mut self, points: &[Point], look: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let points = points.join(" ");
        self.element(format_args!("polyline fill=\"none\" {look} points=\"{points}\"/"));
    }
    /// The mark of a place, so many pixels from its middle to its edge: a circle, a square, a
    /// triangle, a diamond, a triangle on its tip, a cross, and from the beginning again.
    pub(super) fn mark(&mut self, (x, y): Point, size: f64, place: usize, color: &str) {
        let look = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"1.6\"");
        let corners: &[(f64, f64)] = match place % 6 {
            0 => {
                self.element(format_args!(
                    "circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{size:.1}\" {look}/"
                ));
                return;
            }
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(-1.0, 0.8), (0.0, -1.0), (1.0, 0.8)],
            3 => &[(-1.1, 0.0), (0.0, -1.1), (1.1, 0.0), (0.0, 1.1)],
            4 => &[(-1.0, -0.8), (0.0, 1.0), (1.0, -0.8)],
            _ => &[(-1.0, -1.0), (1.0, 1.0), (0.0, 0.0), (-1.0, 1.0), (1.0, -1.0), (0.0, 0.0)],
        };
        let points = corners
            .iter()
            .map(|(right, down)| format!("{:.1},{:.1}", x + right * size, y + down * size));
        let points = points.collect::<Vec<_>>().join(" ");
        self.element(format_args!("polygon {look} points=\"{points}\"/"));
    }
    /// A text whose middle line stands at `y`.
    pub(super) fn text(&mut self, (x, y): Point, anchor: Anchor, size: u32, text: &str) {
        let (anchor, text) = (anchor.word(), escaped(text));
        self.element(format_args!(
            "text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.35em\" text-anchor=\"{anchor}\" \
             font-size=\"{size}\">{text}</text"
        ));
    }
    /// A text that runs upwards, around its middle.
    pub(super) fn upwards(&mut self, (x, y): Point, size: u32, text: &str) {
        let text = escaped(text);
        self.element(format_args!(
            "text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.35em\" text-anchor=\"middle\" \
             font-size=\"{size}\" transform=\"rotate(-90 {x:.1} {y:.1})\">{text}</text"
        ));
    }
    /// The document.
    pub(super) fn finish(mut self) -> String {
        self.element("/svg");
        self.0
    }
}

/// A text between elements of XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
