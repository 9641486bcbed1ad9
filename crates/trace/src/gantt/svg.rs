//! The chart as a picture.

use super::{Bar, Chart, Kind, Rows, State};
use maracas_core::{Instant, VcpuId};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Sizes in pixels.
const LABEL: f64 = 130.0;
const PLOT: f64 = 860.0;
const ROW: f64 = 44.0;
const BAR: f64 = 20.0;
const TOP: f64 = 18.0;
const RIGHT: f64 = 20.0;
/// Characters of a name that fit beside the plot.
const NAME_MOST: usize = 18;

/// Fills of VCPUs where rows are cores: the eight colours of Okabe and Ito (2008) but black, which
/// readers with any colour vision can distinguish.
const FILLS: [&str; 7] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"];

/// Ink for light pages, and for dark ones where the reader asks for that. No CSS variables: the
/// converters that papers go through do not know them.
const STYLE: &str = "text{font:12px sans-serif;fill:#333}.small{font-size:10px}\
.axis,.arrow{stroke:#333}.grid,.ready{stroke:#bbb}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.axis,.arrow{stroke:#ddd}\
.grid,.ready{stroke:#666}}\
.grid{stroke-width:.5}.ready{stroke-width:2}\
.throttled{stroke:#d55e00;stroke-width:2;stroke-dasharray:3 3}\
.arrow{fill:none;stroke-width:1.2}.miss{stroke:#e00000;stroke-width:2.4}";

/// Where things lie.
struct Frame<'a> {
    chart: &'a Chart,
    rows: usize,
}

impl Frame<'_> {
    fn x(&self, at: Instant) -> f64 {
        let length = (self.chart.to - self.chart.from).ticks().max(1);
        LABEL + PLOT * (at - self.chart.from).ticks() as f64 / length as f64
    }
    /// The lower edge of a row's bars.
    fn base(row: usize) -> f64 {
        TOP + ROW * (row + 1) as f64 - 6.0
    }
    fn bottom(&self) -> f64 {
        Self::base(self.rows.saturating_sub(1)) + 6.0
    }
}

pub(super) fn write(chart: &Chart, rows: Rows, out: &mut impl Write) -> io::Result<()> {
    let vcpus: Vec<VcpuId> = chart.vcpus().collect();
    let labels: Vec<String> = match rows {
        Rows::Vcpus => {
            vcpus.iter().map(|vcpu| chart.name(*vcpu).chars().take(NAME_MOST).collect()).collect()
        }
        Rows::Cores => chart.cores.clone(),
    };
    let frame = Frame { chart, rows: labels.len() };
    let (width, height) = (LABEL + PLOT + RIGHT, frame.bottom() + 52.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\"><title>Schedule</title>\n\
         <style>{STYLE}</style>\n{}",
        hatches()
    );
    axis(&frame, &mut svg);
    for (row, label) in labels.iter().enumerate() {
        let y = Frame::base(row);
        let _ = writeln!(svg, "<text x=\"4\" y=\"{:.1}\">{}</text>", y - 5.0, escaped(label));
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LABEL}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>",
            LABEL + PLOT
        );
    }
    bars(&frame, rows, &vcpus, &mut svg);
    if rows == Rows::Vcpus {
        arrows(&frame, &vcpus, &mut svg);
    }
    legend(&frame, rows, &vcpus, &mut svg);
    svg.push_str("</svg>\n");
    out.write_all(svg.as_bytes())
}

/// A hatched fill per colour, for the background.
fn hatches() -> String {
    let hatch = |(place, fill): (usize, &&str)| {
        format!(
            "<pattern id=\"h{place}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"{fill}\" \
             fill-opacity=\".15\"/><rect width=\"2.5\" height=\"6\" fill=\"{fill}\"/></pattern>\n"
        )
    };
    let all: String = FILLS.iter().enumerate().map(hatch).collect();
    format!("<defs>\n{all}</defs>\n")
}

fn axis(frame: &Frame, svg: &mut String) {
    let bottom = frame.bottom();
    for at in frame.chart.ticks(10) {
        let x = frame.x(at);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
             <text class=\"small\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            bottom + 13.0,
            frame.chart.shown(at.ticks())
        );
    }
}

fn bars(frame: &Frame, rows: Rows, vcpus: &[VcpuId], svg: &mut String) {
    // Waits first: a run of another VCPU on the same row covers them.
    let mut bars: Vec<&Bar> = frame.chart.bars.iter().collect();
    bars.sort_by_key(|bar| bar.state);
    for bar in bars {
        let Ok(place) = vcpus.binary_search(&bar.vcpu) else { continue };
        let row = match (rows, bar.core) {
            (Rows::Vcpus, _) => place,
            (Rows::Cores, Some(core)) => usize::from(core.0),
            (Rows::Cores, None) => continue,
        };
        let (x, end, base) = (frame.x(bar.from), frame.x(bar.to), Frame::base(row));
        let fill = place % FILLS.len();
        let paint = match bar.state {
            State::Foreground => FILLS[fill].to_string(),
            State::Background => format!("url(#h{fill})"),
            State::Ready | State::Throttled => {
                let class = if bar.state == State::Ready { "ready" } else { "throttled" };
                let y = base - 3.0;
                let _ = writeln!(
                    svg,
                    "<line class=\"{class}\" x1=\"{x:.2}\" x2=\"{end:.2}\" y1=\"{y}\" y2=\"{y}\"/>"
                );
                continue;
            }
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{BAR}\" fill=\"{paint}\" \
             stroke=\"{}\" stroke-width=\".6\"><title>{} {} to {}</title></rect>",
            base - BAR,
            (end - x).max(0.3),
            FILLS[fill],
            escaped(frame.chart.name(bar.vcpu)),
            frame.chart.shown(bar.from.ticks()),
            frame.chart.shown(bar.to.ticks())
        );
    }
}

fn arrows(frame: &Frame, vcpus: &[VcpuId], svg: &mut String) {
    for arrow in &frame.chart.arrows {
        let Ok(row) = vcpus.binary_search(&arrow.vcpu) else { continue };
        let (x, base) = (frame.x(arrow.at), Frame::base(row));
        let (top, tip) = (base - BAR - 12.0, base - BAR);
        // A release points up from the base line, a deadline down to it; side by side where a
        // deadline is the next release.
        let (x, class, head) = match arrow.kind {
            Kind::Release => (x + 1.5, "arrow", format!("l-3 5 m3 -5 l3 5 M{{x}} {top:.1}")),
            Kind::Deadline => (x - 1.5, "arrow", format!("M{{x}} {tip:.1} l-3 -5 m3 5 l3 -5")),
            Kind::Miss => (x - 1.5, "arrow miss", format!("M{{x}} {tip:.1} l-3 -5 m3 5 l3 -5")),
        };
        let head = head.replace("{x}", &format!("{x:.2}"));
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"M{x:.2} {base:.1} V{top:.1} {head}\"/>");
    }
}

fn legend(frame: &Frame, rows: Rows, vcpus: &[VcpuId], svg: &mut String) {
    let y = frame.bottom() + 36.0;
    let mut x = LABEL;
    let mut item = |mark: String, name: &str| {
        let _ = writeln!(
            svg,
            "<g transform=\"translate({x:.0} {y})\">{mark}<text x=\"20\" y=\"0\">{}</text></g>",
            escaped(name)
        );
        // An average character of this font is about seven pixels wide.
        x += 40.0 + 7.0 * name.chars().count() as f64;
    };
    let square = |fill: &str| {
        let stroke = if fill.starts_with('#') { fill } else { FILLS[0] };
        format!("<rect y=\"-10\" width=\"14\" height=\"11\" fill=\"{fill}\" stroke=\"{stroke}\"/>")
    };
    let path = |class: &str, d: &str| format!("<path class=\"{class}\" d=\"{d}\"/>");
    match rows {
        Rows::Vcpus => {
            item(square(FILLS[0]), "foreground");
            item(square("url(#h0)"), "background");
            item(path("throttled", "M0 -4 h15"), "throttled");
            item(path("ready", "M0 -4 h15"), "ready");
            item(path("arrow", "M6 2 V-11 l-3 5 m3 -5 l3 5"), "release");
            item(path("arrow", "M6 -11 V2 l-3 -5 m3 5 l3 -5"), "deadline");
            item(path("arrow miss", "M6 -11 V2 l-3 -5 m3 5 l3 -5"), "missed");
        }
        Rows::Cores => {
            let drawn: Vec<_> = frame.chart.on_cores().collect();
            let drawn = |(_, vcpu): &(usize, &VcpuId)| drawn.contains(vcpu);
            for (place, vcpu) in vcpus.iter().enumerate().filter(drawn) {
                item(square(FILLS[place % FILLS.len()]), frame.chart.name(*vcpu));
            }
            item(square("url(#h0)"), "hatched: background");
            item(path("throttled", "M0 -4 h15"), "throttled");
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
