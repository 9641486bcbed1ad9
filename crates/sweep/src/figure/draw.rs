//! Bars and lines in a frame with axes, a title and a legend.

use super::Line;
use super::axis::{Axis, around, heights};
use super::sheet::{Anchor, HEIGHT, Point, Sheet, WIDTH};
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
const ABOVE: f64 = 34.0;
const BELOW: f64 = 50.0;

/// Sizes of letters, and what a letter is wide on average at the smaller size.
const TITLE: u32 = 15;
const LETTERS: u32 = 12;
const LETTER: f64 = 6.4;

/// Pixels of a line of the legend.
const ROW: f64 = 18.0;

/// From the lower to the upper edge of the frame.
const UPWARDS: Range<f64> = HEIGHT - BELOW..ABOVE;

/// What the axes of a figure with lines are called.
pub(super) struct Axes<'a> {
    pub(super) along: &'a str,
    pub(super) logarithmic: bool,
    pub(super) left: &'a str,
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
    let mut sheet = Sheet::new();
    let values = series.iter().flat_map(|(_, values)| values.iter().copied());
    let up = Axis::new(heights(values, series.len(), true), UPWARDS);
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
    let names: Vec<&str> = series.iter().map(|(name, _)| name.as_str()).collect();
    legend(&mut sheet, WIDTH - MARGIN, &names, |sheet, place, (x, y)| {
        sheet.rect((x, y - 5.0), (14.0, 10.0), &format!("fill=\"{}\"", color(place)));
    });
    sheet.finish()
}

/// Lines through points.
pub(super) fn lines(title: &str, axes: &Axes<'_>, lines: &[Line]) -> String {
    let mut sheet = Sheet::new();
    let end = if axes.right.is_some() { WIDTH - BESIDE } else { WIDTH - MARGIN };
    let up = |right: bool| {
        let chosen = lines.iter().filter(move |line| line.right == right);
        Axis::new(heights(chosen.flat_map(Line::heights), lines.len(), false), UPWARDS)
    };
    let (left, right) = (up(false), up(true));
    let xs = lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x));
    let along = if axes.logarithmic {
        Axis::logarithmic(around(xs.map(f64::log10)), BESIDE..end)
    } else {
        Axis::new(around(xs), BESIDE..end)
    };
    across(&mut sheet, &left, end);
    for (x, _) in along.ticks() {
        sheet.line((x, UPWARDS.end), (x, UPWARDS.start), PALE);
    }
    for (place, line) in lines.iter().enumerate() {
        let (up, color) = (if line.right { &right } else { &left }, color(place));
        for ((x, _), (low, high)) in line.points.iter().zip(&line.spread) {
            let ends = [(along.at(*x), up.at(*low)), (along.at(*x), up.at(*high))];
            sheet.path(&ends, &format!("stroke=\"{color}\" stroke-opacity=\"0.6\""));
        }
        let points: Vec<_> = line.points.iter().map(|(x, y)| (along.at(*x), up.at(*y))).collect();
        sheet.path(&points, &format!("stroke=\"{color}\" stroke-width=\"2\""));
        points.iter().for_each(|point| sheet.dot(*point, color));
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
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    legend(&mut sheet, end, &names, |sheet, place, (x, y)| {
        let look = format!("stroke=\"{}\" stroke-width=\"2\"", color(place));
        sheet.path(&[(x, y), (x + 14.0, y)], &look);
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
    sheet.text((WIDTH / 2.0, ABOVE / 2.0 + 2.0), Anchor::Middle, TITLE, title);
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

/// A box with a line for each name at the upper right, each with its `sign`.
fn legend(sheet: &mut Sheet, end: f64, names: &[&str], sign: impl Fn(&mut Sheet, usize, Point)) {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let width = longest as f64 * LETTER + 34.0;
    let (left, top) = (end - 6.0 - width, UPWARDS.end + 6.0);
    let look = "fill=\"#FFFFFF\" fill-opacity=\"0.85\" stroke=\"#B3B3B3\"";
    sheet.rect((left, top), (width, names.len() as f64 * ROW + 4.0), look);
    for (place, name) in names.iter().enumerate() {
        let y = top + 2.0 + (place as f64 + 0.5) * ROW;
        sign(sheet, place, (left + 6.0, y));
        sheet.text((left + 26.0, y), Anchor::Start, LETTERS, name);
    }
}
