//! The view: what is drawn of the state, and nothing that changes it.
//!
//! From 80 columns and 24 rows on everything has its place; on less, lines and columns are cut.

use super::app::App;
use super::history::{Series, throttled};
use super::rates::CoreRates;
use super::text;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Gauge, Paragraph, Row, Sparkline, Table};

/// Lines of the head, and of the sparklines with their titles.
const HEAD: u16 = 4;
const SPARKS: u16 = 4;

/// Cells in which a core's time is drawn.
const BAR: usize = 20;

/// The glyphs of a core's time, which say without colours what the colours say.
const FOREGROUND: &str = "█";
const BACKGROUND: &str = "▒";
const THROTTLED: &str = "×";
const IDLE: &str = "·";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let cores = cores_shown(app, area.height);
    let [head, core_area, vcpus, sparks, keys] = Layout::vertical([
        Constraint::Length(HEAD),
        Constraint::Length(cores as u16 + 1),
        Constraint::Min(2),
        Constraint::Length(SPARKS),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, app);
    draw_cores(frame, core_area, app);
    draw_vcpus(frame, vcpus, app);
    draw_sparks(frame, sparks, app);
    draw_keys(frame, keys, app);
    if app.help {
        draw_help(frame, area, app);
    }
}

/// How many cores have a line: all, as long as as many lines are left for VCPUs.
fn cores_shown(app: &App, height: u16) -> usize {
    let rest = height.saturating_sub(HEAD + SPARKS + 3);
    app.gauges.cores.len().min(usize::from(rest / 2).max(1))
}

/// `style` where colours are shown, else what tells it from its surroundings without them.
fn style(app: &App, colour: Color) -> Style {
    match (app.colours, colour) {
        (true, colour) => Style::new().fg(colour),
        (false, Color::Red) => Style::new().add_modifier(Modifier::REVERSED),
        (false, _) => Style::new(),
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let rows: [Rect; HEAD as usize] =
        Layout::vertical([Constraint::Length(1); HEAD as usize]).areas(area);
    let gauges = &app.gauges;
    let heading = text::heading(&app.title, gauges);
    let says = if app.paused { "paused" } else { app.ended.as_deref().unwrap_or_default() };
    let state = Span::styled(says, style(app, Color::Yellow)).add_modifier(Modifier::BOLD);
    frame.render_widget(Line::from(vec![heading.bold(), "  ".into(), state]), rows[0]);
    frame.render_widget(Paragraph::new(gauges.host.as_str()), rows[1]);
    let sums = text::sums(gauges, &app.rates);
    let is_trouble = gauges.failures > 0 || gauges.lost_records > 0 || gauges.misses > 0;
    let sums = if is_trouble { Line::styled(sums, style(app, Color::Yellow)) } else { sums.into() };
    frame.render_widget(sums, rows[2]);
    draw_memory(frame, rows[3], app);
}

/// Latency against its threshold, if the policy has one, and what else is known of memory.
fn draw_memory(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let traffic = text::traffic(&app.gauges, &app.rates);
    let threshold = app.gauges.memory.and_then(|memory| memory.max_latency);
    let (Some(latency), Some(most)) = (app.rates.latency, threshold) else {
        let traffic = traffic.unwrap_or_else(|| "not sampled".into());
        frame.render_widget(Line::from(format!("memory {traffic}")), area);
        return;
    };
    let [bar, rest] = Layout::horizontal([Constraint::Length(28), Constraint::Min(0)]).areas(area);
    let ratio = latency / most.max(1) as f64;
    let (colour, words) = match ratio {
        ratio if ratio >= 1.0 => (Color::Red, "above its threshold"),
        ratio if ratio >= 0.8 => (Color::Yellow, "memory latency"),
        _ => (Color::Green, "memory latency"),
    };
    let gauge = Gauge::default()
        .ratio(ratio.clamp(0.0, 1.0))
        .label(format!("{latency:.0} of {most} cycles"))
        .gauge_style(style(app, colour))
        .style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(gauge, bar);
    let words = Span::styled(words, style(app, colour));
    let traffic = traffic.map_or_else(String::new, |traffic| format!(", {traffic}"));
    frame.render_widget(Line::from(vec![" ".into(), words, traffic.into()]), rest);
}

fn draw_cores(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let shown = usize::from(area.height.saturating_sub(1));
    let cores = app.gauges.cores.iter().zip(&app.rates.cores).enumerate();
    let skipped = app.cores_above.min(app.gauges.cores.len().saturating_sub(shown));
    let fixed = [4, BAR as u16, 6, 6, 6, 6, 7, 9];
    let spark = usize::from(area.width).saturating_sub(fixed.iter().map(|w| *w as usize + 1).sum());
    let rows = cores.skip(skipped).take(shown).map(|(place, (core, rates))| {
        let percent = |share: f64| Cell::from(format!("{:6.1}", share * 100.0));
        let state = text::state(core.is_throttled, core.is_closed);
        let is_open = !core.is_throttled && !core.is_closed;
        let colour = if is_open { Color::Reset } else { Color::Red };
        let history = app.history.cores.get(place).map_or_else(String::new, |s| tiny(s, spark));
        Row::new([
            Cell::from(format!("{:>4}", core.core.0)),
            Cell::from(bar(app, rates)),
            percent(rates.foreground),
            percent(rates.background),
            percent(rates.throttled),
            percent(rates.idle),
            Cell::from(format!("{:>7}", rates.requests.map_or_else(|| "-".into(), text::count))),
            Cell::from(Span::styled(state, style(app, colour))),
            Cell::from(Span::styled(history, style(app, Color::Cyan))),
        ])
    });
    let head = ["core", "", "  fg %", "  bg %", " thr %", "idle %", "  req/s", "state", "load"];
    let widths = fixed.map(Constraint::Length).into_iter().chain([Constraint::Min(0)]);
    frame.render_widget(table(app, head, rows, widths), area);
}

/// A core's time as a bar.
fn bar(app: &App, rates: &CoreRates) -> Line<'static> {
    let cells = |share: f64| (share * BAR as f64).round() as usize;
    let mut left = BAR;
    let mut part = |share: f64, glyph: &str, colour: Color| {
        let count = cells(share).min(left);
        left -= count;
        Span::styled(glyph.repeat(count), style(app, colour))
    };
    let mut spans = vec![
        part(rates.foreground, FOREGROUND, Color::Green),
        part(rates.background, BACKGROUND, Color::Blue),
        part(rates.throttled, THROTTLED, Color::Red),
    ];
    spans.push(Span::styled(IDLE.repeat(left), style(app, Color::DarkGray)));
    Line::from(spans)
}

/// A series of per mille in one line.
fn tiny(series: &Series, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let level = |value: u64| LEVELS[(value.min(1000) * 7).div_ceil(1000) as usize];
    series.last(width).into_iter().map(level).collect()
}

fn draw_vcpus(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let shown = usize::from(area.height.saturating_sub(1));
    let order = app.order();
    let skipped = app.vcpus_above.min(order.len().saturating_sub(shown));
    let fixed = [4_u16, 13, 6, 6, 8, 5, 6, 6, 7];
    let rest = usize::from(area.width).saturating_sub(fixed.iter().map(|w| *w as usize + 1).sum());
    let rows = order.iter().skip(skipped).take(shown).map(|place| {
        let (vcpu, rates) = (&app.gauges.vcpus[*place], &app.rates.vcpus[*place]);
        let right = |text: String, width: usize| Cell::from(format!("{text:>width$}"));
        let percent = |share: f64| right(format!("{:.1}", share * 100.0), 6);
        let core = vcpu.last.map_or_else(|| "-".into(), |(core, _)| core.0.to_string());
        let warned = |text: String, width: usize, is_bad: bool| {
            let colour = if is_bad { Color::Red } else { Color::Reset };
            Cell::from(Span::styled(format!("{text:>width$}"), style(app, colour)))
        };
        Row::new([
            Cell::from(vcpu.name.chars().take(rest).collect::<String>()),
            right(core, 4),
            right(text::promise(vcpu), 13),
            percent(rates.foreground),
            percent(rates.background),
            right(text::used(vcpu), 8),
            warned(text::off(vcpu).to_string(), 5, text::off(vcpu) > 0),
            warned(text::misses(vcpu), 6, vcpu.misses > 0),
            right(vcpu.migrations.to_string(), 6),
            right(rates.reads.map_or_else(|| "-".into(), text::count), 7),
        ])
    });
    let head = [
        "vcpu",
        "core",
        "          C/T",
        "  fg %",
        "  bg %",
        "    used",
        "  off",
        "misses",
        "  migr",
        "reads/s",
    ];
    let widths = [Constraint::Min(0)].into_iter().chain(fixed.map(Constraint::Length));
    frame.render_widget(table(app, head, rows, widths), area);
}

/// A table with a head.
fn table<'a, const N: usize>(
    app: &App,
    head: [&'static str; N],
    rows: impl Iterator<Item = Row<'a>>,
    widths: impl Iterator<Item = Constraint>,
) -> Table<'a> {
    let mark = if app.colours { Modifier::REVERSED } else { Modifier::UNDERLINED };
    let head = Row::new(head).style(Style::new().add_modifier(mark));
    Table::new(rows, widths).header(head).column_spacing(1)
}

fn draw_sparks(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let thirds: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).spacing(1).areas(area);
    let (gauges, history) = (&app.gauges, &app.history);
    let threshold = gauges.memory.and_then(|memory| memory.max_latency).unwrap_or(0);
    let latency = app.rates.latency.map_or_else(|| "-".into(), |it| format!("{it:.0} cycles"));
    let above = app.rates.latency.is_some_and(|it| threshold > 0 && it >= threshold as f64);
    let colour = if above { Color::Red } else { Color::Green };
    let most = history.latency.highest().max(threshold);
    spark(frame, thirds[0], app, &history.latency, (format!("latency {latency}"), colour, most));
    let (k, n) = (throttled(gauges), gauges.cores.len());
    let title = format!("throttled {k} of {n} cores");
    spark(frame, thirds[1], app, &history.throttled, (title, Color::Red, n as u64));
    let title = format!("migrations {:.1}/s", app.rates.migrations);
    let most = history.migrations.highest();
    spark(frame, thirds[2], app, &history.migrations, (title, Color::Magenta, most));
}

/// One sparkline: its title, its colour, and what fills it.
fn spark(
    frame: &mut Frame<'_>,
    area: Rect,
    app: &App,
    series: &Series,
    (title, colour, most): (String, Color, u64),
) {
    let block = Block::new().title(title.bold());
    let inner = block.inner(area);
    let mut data = series.last(usize::from(inner.width));
    // The latest stands at the right edge from the start.
    let missing = usize::from(inner.width) - data.len();
    data.splice(..0, std::iter::repeat_n(0, missing));
    let spark = Sparkline::default().data(data).max(most.max(1)).style(style(app, colour));
    frame.render_widget(spark.block(block), area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let sort = app.sort.word();
    let keys = format!("q quit  s sort: {sort}  ↑↓ VCPUs  ←→ cores  p pause  ? help");
    frame.render_widget(Line::from(keys).style(style(app, Color::DarkGray)), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, app: &App) {
    let lines = [
        "q, Esc, Ctrl-C   quit; the run goes on",
        "s                sort VCPUs: core and period, load, trouble, name",
        "↑ ↓ PgUp PgDn    scroll VCPUs",
        "← →              scroll cores;  Home, g: to the first",
        "p, space         pause",
        "",
        "█ fg   time on budget        ▒ bg   surplus time",
        "× thr  kept off by a closed door    · idle",
        "used   of C in the present period",
        "off    periods with full demand and too little or too much of C",
        "req/s, reads/s   requests to and reads of memory",
        "",
        "any key closes this",
    ];
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let popup = area.centered(Constraint::Length(width), Constraint::Length(height));
    let popup = popup.intersection(area);
    let block = Block::bordered().title(" maracas top ").border_style(style(app, Color::Cyan));
    frame.render_widget(Clear, popup);
    frame.render_widget(Paragraph::new(lines.map(Line::from).to_vec()).block(block), popup);
}

#[cfg(test)]
mod tests;
