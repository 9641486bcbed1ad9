//! Figures as SVG: grouped bars and lines, which is what the papers draw.
//!
//! The same figure gives the same bytes: no clock, no font of the machine, no random ids.

mod axis;
mod draw;
mod sheet;

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
        /// Whether the left axis measures a share of one: it then goes from 0 to 1.
        share: bool,
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
    /// How it is drawn where that is not by its place among the lines.
    pub look: Option<Look>,
}

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// Which of the colours.
    pub color: usize,
    /// Which of the kinds of strokes; 0 is a whole one.
    pub dash: usize,
}

impl Line {
    /// A line by the left axis.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, right: false, spread: Vec::new(), look: None }
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
    /// The same in this colour and stroke.
    #[must_use]
    pub const fn with_look(mut self, color: usize, dash: usize) -> Self {
        self.look = Some(Look { color, dash });
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
        match &self.drawing {
            Drawing::Bars { axis, groups, series } => draw::bars(&self.title, axis, groups, series),
            Drawing::Lines { along, logarithmic, share, left, right, lines } => {
                let (logarithmic, share) = (*logarithmic, *share);
                let axes = draw::Axes { along, logarithmic, left, share, right };
                draw::lines(&self.title, &axes, lines)
            }
        }
    }
}

/// `value` with so many decimals, and no minus before what is shown as zero.
pub fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if zero { text.trim_start_matches('-').into() } else { text }
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
                share: false,
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
        // Four bars and two of the legend, and the white ground.
        assert_eq!(svg.matches("<rect").count(), 7, "{svg}");
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
                share: false,
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
    fn a_share_goes_from_zero_to_one_and_lines_on_each_other_differ() {
        let points = vec![(0.5, 1.0), (1.0, 1.0)];
        let svg = Figure {
            name: String::new(),
            title: String::new(),
            drawing: Drawing::Lines {
                along: "utilization".into(),
                logarithmic: false,
                share: true,
                left: "share of sets".into(),
                right: None,
                lines: vec![Line::new("a", points.clone()), Line::new("b", points)],
            },
        }
        .svg();
        // The highest number and the lines stand at the upper edge of the frame.
        assert!(svg.contains("y=\"42.0\" dy=\"0.35em\" text-anchor=\"end\" font-size=\"12\">1.0<"));
        assert_eq!(svg.matches(",42.0 733.0,42.0\"").count(), 2, "{svg}");
        // The second is dashed, each in the figure and in the legend, and their marks differ.
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polygon").count()), (3, 3));
    }

    #[test]
    fn files_are_named_after_the_experiment() {
        assert_eq!(bar_chart().file("x-fig1"), "x-fig1.svg");
        assert_eq!(line_chart(false).file("x-fig1"), "x-fig1-curve.svg");
    }
}
