//! Figures as SVG: grouped bars and lines, which is what the papers draw.
//!
//! The same figure gives the same bytes: no clock, no font of the machine, no random ids.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;

/// Pixels of a figure.
const SIZE: (u32, u32) = (760, 420);

/// Colours that people with any colour vision tell apart (Okabe and Ito, "Color Universal
/// Design", 2008).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// A figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What its file is called, after the name of the whole; empty for the only one.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// What is drawn.
    pub drawing: Drawing,
}

/// What is drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum Drawing {
    /// Groups of bars side by side.
    Bars {
        /// What the bars measure, with its unit.
        axis: String,
        /// The name of each group.
        groups: Vec<String>,
        /// The bars of one colour: what they are, and a value for each group.
        series: Vec<(String, Vec<f64>)>,
    },
    /// Lines through points.
    Lines {
        /// What runs along, with its unit.
        along: String,
        /// Whether that axis is logarithmic.
        logarithmic: bool,
        /// What the left axis measures, with its unit.
        left: String,
        /// What the right axis measures, where there is one.
        right: Option<String>,
        /// The lines.
        lines: Vec<Line>,
    },
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What it is.
    pub name: String,
    /// Its points by increasing x.
    pub points: Vec<(f64, f64)>,
    /// Whether it goes by the right axis.
    pub right: bool,
    /// From where to where each point may as well lie (a confidence interval); empty where nothing
    /// is said.
    pub spread: Vec<(f64, f64)>,
}

impl Line {
    /// A line by the left axis.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, right: false, spread: Vec::new() }
    }
    /// The same by the right axis.
    #[must_use]
    pub fn on_the_right(mut self) -> Self {
        self.right = true;
        self
    }
    /// The same with a confidence interval at every point.
    #[must_use]
    pub fn with_spread(mut self, spread: Vec<(f64, f64)>) -> Self {
        self.spread = spread;
        self
    }
    /// All heights that it reaches.
    fn heights(&self) -> impl Iterator<Item = f64> {
        let ends = self.spread.iter().flat_map(|(low, high)| [*low, *high]);
        self.points.iter().map(|(_, y)| *y).chain(ends)
    }
}

impl Figure {
    /// The name of its file, in the figures of `whole`: an experiment, say.
    pub fn file(&self, whole: &str) -> String {
        if self.name.is_empty() {
            format!("{whole}.svg")
        } else {
            format!("{whole}-{}.svg", self.name)
        }
    }
    /// As SVG.
    ///
    /// # Panics
    /// Where a value is no number: whatever drew it is wrong.
    pub fn svg(&self) -> String {
        let mut text = String::new();
        let drawn = match &self.drawing {
            Drawing::Bars { axis, groups, series } => {
                bars(&mut text, &self.title, axis, groups, series)
            }
            Drawing::Lines { along, logarithmic, left, right, lines: drawn } => {
                let axes = Axes { along, left, right: right.as_deref() };
                if *logarithmic {
                    let decades = |points: &[(f64, f64)]| {
                        points.iter().map(|(x, y)| (x.log10(), *y)).collect()
                    };
                    let scaled: Vec<Line> = drawn
                        .iter()
                        .map(|line| Line { points: decades(&line.points), ..line.clone() })
                        .collect();
                    lines(&mut text, &self.title, &axes, &scaled, &|x| tick(10f64.powf(x)))
                } else {
                    lines(&mut text, &self.title, &axes, drawn, &|x| tick(x))
                }
            }
        };
        drawn.expect("an SVG in memory can be drawn");
        // The library ends its last element without a line end.
        text.trim_end().to_string() + "\n"
    }
}

/// `value` with so many decimals, and no minus before what is shown as zero.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if zero { text.trim_start_matches('-').into() } else { text }
}

/// A number at an axis, with no more digits than it needs.
fn tick(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 20.0 => 0,
        size if size >= 2.0 => 1,
        size if size >= 0.2 => 2,
        _ => 3,
    };
    let text = number(value, digits);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

type Drawn = Result<(), Box<dyn Error>>;

/// From the least to the greatest of `values`, with a margin on both sides.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        assert!(value.is_finite(), "a figure cannot show {value}");
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high {
        return 0.0..1.0;
    }
    let margin = if high > low { (high - low) * 0.04 } else { 1.0 };
    low - margin..high + margin
}

/// The same with room above for a legend of so many lines. It begins at zero where bars stand on
/// it, or where that costs less than half of the height.
fn heights(values: impl Iterator<Item = f64>, legend: usize, bars: bool) -> Range<f64> {
    let values: Vec<f64> = values.collect();
    let Range { start, end } = around(values.iter().copied());
    let grounded = bars || start < 0.5 * end;
    let floor = match values.iter().all(|value| *value >= 0.0) {
        true if grounded => 0.0,
        true | false => start,
    };
    floor..end + (end - floor) * (0.06 + 0.065 * legend as f64)
}

fn bars(
    text: &mut String,
    title: &str,
    axis: &str,
    groups: &[String],
    series: &[(String, Vec<f64>)],
) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let values = series.iter().flat_map(|(_, values)| values.iter().copied());
    let heights = heights(values, series.len(), true);
    let floor = heights.start;
    let along = -0.5..groups.len() as f64 - 0.5;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(along, heights)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .y_desc(axis)
        .y_label_formatter(&|value| tick(*value))
        .x_labels(0)
        .light_line_style(WHITE)
        .draw()?;
    let below = ("sans-serif", 12).into_text_style(&area).pos(Pos::new(HPos::Center, VPos::Top));
    chart.draw_series(groups.iter().enumerate().map(|(group, name)| {
        EmptyElement::at((group as f64, floor)) + Text::new(name.clone(), (0, 6), below.clone())
    }))?;
    let width = 0.8 / series.len().max(1) as f64;
    for (place, (name, values)) in series.iter().enumerate() {
        let color = COLORS[place % COLORS.len()];
        let left = -0.4 + place as f64 * width;
        let bar = |(group, value): (usize, &f64)| {
            let x = group as f64 + left;
            Rectangle::new([(x, 0.0), (x + width * 0.92, *value)], color.filled())
        };
        chart
            .draw_series(values.iter().enumerate().map(bar))?
            .label(name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// What the axes of a figure with lines are called.
struct Axes<'a> {
    along: &'a str,
    left: &'a str,
    right: Option<&'a str>,
}

fn lines(
    text: &mut String,
    title: &str,
    axes: &Axes<'_>,
    lines: &[Line],
    mark: &dyn Fn(f64) -> String,
) -> Drawn {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let ys = |right: bool| {
        let chosen = lines.iter().filter(move |line| line.right == right);
        let values = chosen.flat_map(Line::heights);
        heights(values, lines.len(), false)
    };
    let xs = around(lines.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 17))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .right_y_label_area_size(if axes.right.is_some() { 64 } else { 0 })
        .build_cartesian_2d(xs.clone(), ys(false))?
        .set_secondary_coord(xs, ys(true));
    chart
        .configure_mesh()
        .x_desc(axes.along)
        .y_desc(axes.left)
        .x_label_formatter(&|x| mark(*x))
        .y_label_formatter(&|y| tick(*y))
        .light_line_style(WHITE)
        .draw()?;
    if let Some(right) = axes.right {
        chart
            .configure_secondary_axes()
            .y_desc(right)
            .y_label_formatter(&|y: &f64| tick(*y))
            .draw()?;
    }
    for (place, line) in lines.iter().enumerate() {
        let color = COLORS[place % COLORS.len()];
        let path =
            LineSeries::new(line.points.iter().copied(), color.stroke_width(2)).point_size(3);
        let whisker = |((x, _), (low, high)): (&(f64, f64), &(f64, f64))| {
            PathElement::new([(*x, *low), (*x, *high)], color.mix(0.6))
        };
        let whiskers = line.points.iter().zip(&line.spread).map(whisker);
        let drawn = if line.right {
            chart.draw_secondary_series(whiskers)?;
            chart.draw_secondary_series(path)?
        } else {
            chart.draw_series(whiskers)?;
            chart.draw_series(path)?
        };
        drawn
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar_chart() -> Figure {
        Figure {
            name: String::new(),
            title: "Bars <of> two".into(),
            drawing: Drawing::Bars {
                axis: "instructions (1e8)".into(),
                groups: vec!["E1".into(), "E2".into()],
                series: vec![("rate".into(), vec![1.0, 2.0]), ("latency".into(), vec![2.0, 3.0])],
            },
        }
    }

    fn line_chart(logarithmic: bool) -> Figure {
        let rising = vec![(1.0, 5.0), (10.0, 7.0), (100.0, 9.0)];
        Figure {
            name: "curve".into(),
            title: "Lines".into(),
            drawing: Drawing::Lines {
                along: "period (ms)".into(),
                logarithmic,
                left: "latency (cycles)".into(),
                right: Some("traffic (GB)".into()),
                lines: vec![Line::new("a", rising.clone()), Line::new("b", rising).on_the_right()],
            },
        }
    }

    #[test]
    fn figures_are_the_same_bytes_each_time() {
        for figure in [bar_chart(), line_chart(false), line_chart(true)] {
            let svg = figure.svg();
            assert_eq!(svg, figure.svg());
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        }
        let svg = bar_chart().svg();
        // Four bars and two of the legend, the white ground and the legend's box.
        assert!(svg.matches("<rect").count() >= 8, "{svg}");
        assert!(svg.contains("Bars &lt;of&gt; two") && svg.contains("E2"));
        assert!(line_chart(true).svg().contains("<polyline"));
    }

    #[test]
    fn confidence_intervals_are_whiskers_within_the_frame() {
        let plain = Line::new("a", vec![(1.0, 5.0), (2.0, 6.0)]);
        let figure = |line: Line| Figure {
            name: String::new(),
            title: String::new(),
            drawing: Drawing::Lines {
                along: String::new(),
                logarithmic: false,
                left: String::new(),
                right: None,
                lines: vec![line],
            },
        };
        let lines = |figure: &Figure| figure.svg().matches("<polyline").count();
        let with = figure(plain.clone().with_spread(vec![(5.0, 5.5), (5.5, 6.0)]));
        assert_eq!(lines(&with), lines(&figure(plain.clone())) + 2);
        let heights: Vec<f64> = plain.with_spread(vec![(1.0, 9.0)]).heights().collect();
        assert_eq!(heights, [5.0, 6.0, 1.0, 9.0]);
    }

    #[test]
    fn files_are_named_after_the_experiment() {
        assert_eq!(bar_chart().file("x-fig1"), "x-fig1.svg");
        assert_eq!(line_chart(false).file("x-fig1"), "x-fig1-curve.svg");
    }

    #[test]
    fn axes_begin_where_something_can_be_seen() {
        assert_eq!(heights([1.0, 2.0].into_iter(), 1, true).start, 0.0);
        assert!(heights([90.0, 100.0].into_iter(), 1, false).start > 80.0);
        assert_eq!(heights([10.0, 100.0].into_iter(), 1, false).start, 0.0);
        assert!(heights([-5.0, 100.0].into_iter(), 1, true).start < -5.0);
        assert_eq!(around(std::iter::empty()), 0.0..1.0);
        assert_eq!([tick(0.05), tick(1500.0), tick(2.50), tick(1.0)], ["0.05", "1500", "2.5", "1"]);
    }
}
