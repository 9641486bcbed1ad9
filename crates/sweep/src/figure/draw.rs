//! Bars and lines in a frame with axes, a title and a legend.

use super::axis::{Axis, around, heights};
use super::sheet::{Anchor, HEIGHT, Point, Sheet, WIDTH};
use super::{Line, Look};
use std::ops::Range;

/// Colours that people with any colour vision can distinguish (Okabe and Ito, "Color Universal
/// Design", 2008).
const COLORS: [&str; 7] =
    ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#5A5A5A"];

/// Of axes and of the numbers' small lines, and of lines across the figure.
const BLACK: &str = "#000000";
const PALE: &str = "#E5E5E5";

/// Pixels between the edges of the figure and its frame; beside a vertical axis there is room for
/// its numbers and its name.
const MARGIN: f64 = 11.0;
const BESIDE: f64 = 74.0;
const ABOVE: f64 = 42.0;
const BELOW: f64 = 50.0;

/// Sizes of letters, and what a letter is wide on average at the smaller size.
const TITLE: u32 = 15;
const LETTERS: u32 = 12;
const LETTER: f64 = 6.4;

/// Pixels of a line of the legend, of a sign in it, and from one name to the next sign.
const ROW: f64 = 18.0;
const SIGN: f64 = 30.0;
const APART: f64 = 18.0;

/// Points at the ends of an axis stand so many pixels within the frame: their marks are whole.
const INSET: f64 = 16.0;

/// Strokes and gaps of lines, so that one which lies on another lets it be seen.
const DASHES: [&str; 6] = ["", "9 5", "2 4", "9 4 2 4", "16 5", "5 3"];

/// A line has not many more marks than this; where it has more points, lines mark different ones.
const MARKS: usize = 20;

/// From the lower to the upper edge of the frame.
const UPWARDS: Range<f64> = HEIGHT - BELOW..ABOVE;

/// What the axes of a figure with lines are called.
pub(super) struct Axes<'a> {
    pub(super) along: &'a str,
    pub(super) logarithmic: bool,
    pub(super) left: &'a str,
    /// Whether that is a share of one.
    pub(super) share: bool,
    pub(super) right: &'a Option<String>,
}

fn color(place: usize) -> &'static str {
    COLORS[place % COLORS.len()]
}

/// Groups of bars side by side.
pub(super) fn bars(
    title: &str,
    axis: &str,
    groups: &[String],
    series: &[(String, Vec<f64>)],
) -> String {
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    let mut sheet = Sheet::new(below(&names));
    let values = series.iter().flat_map(|(_, values)| values.iter().copied());
    let up = Axis::new(heights(values, true), UPWARDS);
    let along = Axis::new(-0.5..groups.len() as f64 - 0.5, BESIDE..WIDTH - MARGIN);
    across(&mut sheet, &up, WIDTH - MARGIN);
    let width = 0.8 / series.len().max(1) as f64;
    for (place, (_, values)) in series.iter().enumerate() {
        for (group, value) in values.iter().enumerate() {
            let left = group as f64 - 0.4 + place as f64 * width;
            let (x, end) = (along.at(left), along.at(left + width * 0.92));
            let (zero, height) = (up.at(0.0), up.at(*value));
            let look = format!("fill=\"{}\"", color(place));
            sheet.rect((x, zero.min(height)), (end - x, (zero - height).abs()), &look);
        }
    }
    for (group, name) in groups.iter().enumerate() {
        let below = (along.at(group as f64), UPWARDS.start + 14.0);
        sheet.text(below, Anchor::Middle, LETTERS, name);
    }
    frame(&mut sheet, title, WIDTH - MARGIN);
    left_axis(&mut sheet, &up, axis);
    legend(&mut sheet, &names, |sheet, place, (x, y)| {
        sheet.rect((x, y - 5.0), (SIGN - 8.0, 10.0), &format!("fill=\"{}\"", color(place)));
    });
    sheet.finish()
}

/// Lines through points.
pub(super) fn lines(title: &str, axes: &Axes<'_>, lines: &[Line]) -> String {
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut sheet = Sheet::new(below(&names));
    let end = if axes.right.is_some() { WIDTH - BESIDE } else { WIDTH - MARGIN };
    let up = |right: bool| {
        let chosen = lines.iter().filter(move |line| line.right == right);
        let range = if axes.share && !right {
            0.0..1.0
        } else {
            heights(chosen.flat_map(Line::heights), false)
        };
        Axis::new(range, UPWARDS)
    };
    let (left, right) = (up(false), up(true));
    let xs = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    let along = if axes.logarithmic {
        Axis::logarithmic(around(xs.map(f64::log10)), BESIDE + INSET..end - INSET)
    } else {
        Axis::new(around(xs), BESIDE + INSET..end - INSET)
    };
    across(&mut sheet, &left, end);
    for (x, _) in along.ticks() {
        sheet.line((x, UPWARDS.end), (x, UPWARDS.start), PALE);
    }
    let look = |place: usize| lines[place].look.unwrap_or(Look { color: place, dash: place });
    for (place, line) in lines.iter().enumerate() {
        let up = if line.right { &right } else { &left };
        let color = color(look(place).color);
        for ((x, _), (low, high)) in line.points.iter().zip(&line.spread) {
            let ends = [(along.at(*x), up.at(*low)), (along.at(*x), up.at(*high))];
            sheet.path(&ends, &format!("stroke=\"{color}\" stroke-opacity=\"0.6\""));
        }
        let points: Vec<_> = line.points.iter().map(|(x, y)| (along.at(*x), up.at(*y))).collect();
        sheet.path(&points, &stroke(look(place)));
        let every = (points.len() / MARKS).max(1);
        let marked = points.iter().skip(place * every / lines.len()).step_by(every);
        marked.for_each(|point| sheet.mark(*point, size(place, lines.len()), place, color));
    }
    frame(&mut sheet, title, end);
    left_axis(&mut sheet, &left, axes.left);
    for (x, text) in along.ticks() {
        sheet.line((x, UPWARDS.start), (x, UPWARDS.start + 4.0), BLACK);
        sheet.text((x, UPWARDS.start + 14.0), Anchor::Middle, LETTERS, &text);
    }
    let middle = (BESIDE + end) / 2.0;
    sheet.text((middle, HEIGHT - MARGIN - 4.0), Anchor::Middle, LETTERS, axes.along);
    if let Some(name) = axes.right {
        right_axis(&mut sheet, &right, name);
    }
    legend(&mut sheet, &names, |sheet, place, (x, y)| {
        let width = SIGN - 4.0;
        sheet.path(&[(x, y), (x + width, y)], &stroke(look(place)));
        let color = color(look(place).color);
        sheet.mark((x + width / 2.0, y), size(place, lines.len()), place, color);
    });
    sheet.finish()
}

/// Lines across the figure at the numbers of its vertical axis.
fn across(sheet: &mut Sheet, up: &Axis, end: f64) {
    for (y, _) in up.ticks() {
        sheet.line((BESIDE, y), (end, y), PALE);
    }
}

/// The title, and the axes themselves.
fn frame(sheet: &mut Sheet, title: &str, end: f64) {
    sheet.text((WIDTH / 2.0, 17.0), Anchor::Middle, TITLE, title);
    sheet.line((BESIDE, UPWARDS.end), (BESIDE, UPWARDS.start), BLACK);
    sheet.line((BESIDE, UPWARDS.start), (end, UPWARDS.start), BLACK);
}

fn left_axis(sheet: &mut Sheet, up: &Axis, name: &str) {
    for (y, text) in up.ticks() {
        sheet.line((BESIDE - 4.0, y), (BESIDE, y), BLACK);
        sheet.text((BESIDE - 7.0, y), Anchor::End, LETTERS, &text);
    }
    sheet.upwards((MARGIN + 4.0, (UPWARDS.start + UPWARDS.end) / 2.0), LETTERS, name);
}

fn right_axis(sheet: &mut Sheet, up: &Axis, name: &str) {
    let end = WIDTH - BESIDE;
    sheet.line((end, UPWARDS.end), (end, UPWARDS.start), BLACK);
    for (y, text) in up.ticks() {
        sheet.line((end, y), (end + 4.0, y), BLACK);
        sheet.text((end + 7.0, y), Anchor::Start, LETTERS, &text);
    }
    let middle = (UPWARDS.start + UPWARDS.end) / 2.0;
    sheet.upwards((WIDTH - MARGIN - 4.0, middle), LETTERS, name);
}

/// How the line of a place is drawn.
fn stroke(look: Look) -> String {
    let dash = match DASHES[look.dash % DASHES.len()] {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("stroke=\"{}\" stroke-width=\"2\"{dash}", color(look.color))
}

/// From the middle to the edge of the marks of a line: those of later lines fit into those of
/// earlier ones, so that all can be seen where lines meet.
fn size(place: usize, lines: usize) -> f64 {
    3.0 + 1.7 * (lines - 1 - place).min(3) as f64
}

/// Where each name of the legend stands: pixels from the left, and its row. Below the figure, so
/// that it hides nothing.
fn places(names: &[&str]) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (MARGIN, 0);
    let place = |name: &&str| {
        let width = SIGN + name.chars().count() as f64 * LETTER + APART;
        if x > MARGIN && x + width - APART > WIDTH - MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        x += width;
        (x - width, row)
    };
    names.iter().map(place).collect()
}

/// Pixels that the legend takes.
fn below(names: &[&str]) -> f64 {
    places(names).last().map_or(0.0, |(_, row)| (row + 1) as f64 * ROW + 6.0)
}

/// The names below the figure, each with its `sign`.
fn legend(sheet: &mut Sheet, names: &[&str], sign: impl Fn(&mut Sheet, usize, Point)) {
    for (place, (name, (x, row))) in names.iter().zip(places(names)).enumerate() {
        let y = HEIGHT + (row as f64 + 0.5) * ROW;
        sign(sheet, place, (x, y));
        sheet.text((x + SIGN, y), Anchor::Start, LETTERS, name);
    }
}
