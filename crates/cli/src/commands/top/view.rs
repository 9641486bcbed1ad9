//! The view: what is drawn of the state, and nothing that changes it.
//!
//! From 80 columns and 24 rows on everything has its place; on less, lines and columns are cut.

use super::app::App;
use super::canvas::{Area, Canvas, Colour, Style};
use super::history::{Series, throttled};
use super::rates::CoreRates;
use super::text;

/// Lines of the head, and of the sparklines with their titles.
const HEAD: usize = 4;
const SPARKS: usize = 4;

/// Cells in which a core's time is drawn, and latency against its threshold.
const BAR: usize = 20;
const GAUGE: usize = 28;

/// Columns of the tables of cores and VCPUs, without the one that takes what is left.
const CORE_COLUMNS: [usize; 8] = [4, BAR, 6, 6, 6, 6, 7, 9];
const VCPU_COLUMNS: [usize; 9] = [4, 13, 6, 6, 8, 5, 6, 6, 7];

/// The glyphs of a core's time, which say without colours what the colours say.
const FOREGROUND: char = '█';
const BACKGROUND: char = '▒';
const THROTTLED: char = '×';
const IDLE: char = '·';

/// A cell of a table: its text and how it looks.
type Cell = (String, Style);

/// Draws everything.
pub(super) fn draw(canvas: &mut Canvas, app: &App) {
    let area = canvas.area();
    let cores = cores_shown(app, area.height) + 1;
    // On a terminal that is too small the end is cut off.
    let sparks = area.height.saturating_sub(SPARKS + 1).max(HEAD + cores + 2);
    let part = |y: usize, end: usize| Area { y, height: end.saturating_sub(y), ..area };
    draw_head(canvas, part(0, HEAD), app);
    draw_cores(canvas, part(HEAD, HEAD + cores), app);
    draw_vcpus(canvas, part(HEAD + cores, sparks), app);
    draw_sparks(canvas, part(sparks, sparks + SPARKS), app);
    draw_keys(canvas, part(sparks + SPARKS, sparks + SPARKS + 1), app);
    if app.help {
        draw_help(canvas, area, app);
    }
}

/// How many cores have a line: all, as long as as many lines are left for VCPUs.
fn cores_shown(app: &App, height: usize) -> usize {
    let rest = height.saturating_sub(HEAD + SPARKS + 3);
    app.gauges.cores.len().min((rest / 2).max(1))
}

/// `colour` where colours are shown, else what distinguishes it from its surroundings without them.
fn style(app: &App, colour: Colour) -> Style {
    match (app.colours, colour) {
        (true, colour) => Style { colour, ..Style::default() },
        (false, Colour::Red) => Style::default().reversed(),
        (false, _) => Style::default(),
    }
}

fn plain() -> Style {
    Style::default()
}

fn draw_head(canvas: &mut Canvas, area: Area, app: &App) {
    let gauges = &app.gauges;
    let heading = text::heading(&app.title, gauges);
    let says = if app.paused { "paused" } else { app.ended.as_deref().unwrap_or_default() };
    let rest = canvas.put(area.row(0), &heading, plain().bold());
    canvas.put(rest.after(2), says, style(app, Colour::Yellow).bold());
    canvas.put(area.row(1), &gauges.host, plain());
    let is_trouble = gauges.failures > 0 || gauges.lost_records > 0 || gauges.misses > 0;
    let look = style(app, if is_trouble { Colour::Yellow } else { Colour::Plain });
    canvas.put(area.row(2), &text::sums(gauges, &app.rates), look);
    draw_memory(canvas, area.row(3), app);
}

/// Latency against its threshold, if the policy has one, and what else is known of memory.
fn draw_memory(canvas: &mut Canvas, area: Area, app: &App) {
    let traffic = text::traffic(&app.gauges, &app.rates);
    let threshold = app.gauges.memory.and_then(|memory| memory.max_latency);
    let (Some(latency), Some(most)) = (app.rates.latency, threshold) else {
        let traffic = traffic.unwrap_or_else(|| "not sampled".into());
        canvas.put(area, &format!("memory {traffic}"), plain());
        return;
    };
    let ratio = latency / most.max(1) as f64;
    let (colour, words) = match ratio {
        ratio if ratio >= 1.0 => (Colour::Red, "above its threshold"),
        ratio if ratio >= 0.8 => (Colour::Yellow, "memory latency"),
        _ => (Colour::Green, "memory latency"),
    };
    let label = format!("{:^GAUGE$}", format!("{latency:.0} of {most} cycles"));
    let colour_of = Style { colour: style(app, colour).colour, ..Style::default() };
    let full = (ratio.clamp(0.0, 1.0) * GAUGE as f64).round() as usize;
    let mut rest = area;
    for (place, glyph) in label.chars().take(GAUGE).enumerate() {
        let look = if place < full { colour_of.bold().reversed() } else { colour_of.bold() };
        rest = canvas.put(rest, &glyph.to_string(), look);
    }
    let rest = canvas.put(rest.after(1), words, style(app, colour));
    canvas.put(rest, &traffic.map_or_else(String::new, |traffic| format!(", {traffic}")), plain());
}

fn draw_cores(canvas: &mut Canvas, area: Area, app: &App) {
    let shown = area.height.saturating_sub(1);
    let head = ["core", "", "  fg %", "  bg %", " thr %", "idle %", "  req/s", "state", "load"];
    let widths: Vec<usize> = CORE_COLUMNS.into_iter().chain([area.width]).collect();
    draw_table_head(canvas, area.row(0), app, &head, &widths);
    let skipped = app.cores_above.min(app.gauges.cores.len().saturating_sub(shown));
    let load = area.width.saturating_sub(CORE_COLUMNS.iter().map(|width| width + 1).sum());
    let cores = app.gauges.cores.iter().zip(&app.rates.cores).enumerate();
    for (row, (place, (core, rates))) in cores.skip(skipped).take(shown).enumerate() {
        let state = text::state(core.is_throttled, core.is_closed);
        let is_open = !core.is_throttled && !core.is_closed;
        let colour = if is_open { Colour::Plain } else { Colour::Red };
        let history = app.history.cores.get(place).map_or_else(String::new, |it| tiny(it, load));
        let percent = |share: f64| (format!("{:6.1}", share * 100.0), plain());
        let requests = rates.requests.map_or_else(|| "-".into(), text::count);
        let cells = [
            (format!("{:>4}", core.core.0), plain()),
            (String::new(), plain()),
            percent(rates.foreground),
            percent(rates.background),
            percent(rates.throttled),
            percent(rates.idle),
            (format!("{requests:>7}"), plain()),
            (state.into(), style(app, colour)),
            (history, style(app, Colour::Cyan)),
        ];
        let line = area.row(row + 1);
        draw_row(canvas, line, &cells, &widths);
        draw_bar(canvas, line.after(CORE_COLUMNS[0] + 1), app, rates);
    }
}

/// A core's time as a bar.
fn draw_bar(canvas: &mut Canvas, mut area: Area, app: &App, rates: &CoreRates) {
    let mut left = BAR;
    let parts = [
        (rates.foreground, FOREGROUND, Colour::Green),
        (rates.background, BACKGROUND, Colour::Blue),
        (rates.throttled, THROTTLED, Colour::Red),
        (1.0, IDLE, Colour::Grey),
    ];
    for (share, glyph, colour) in parts {
        let count = ((share * BAR as f64).round() as usize).min(left);
        left -= count;
        area = canvas.put(area, &glyph.to_string().repeat(count), style(app, colour));
    }
}

/// Eighths of a cell, from the foot.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A series of per mille in one line.
fn tiny(series: &Series, width: usize) -> String {
    let level = |value: u64| LEVELS[(value.min(1000) * 7).div_ceil(1000) as usize];
    series.last(width).into_iter().map(level).collect()
}

fn draw_vcpus(canvas: &mut Canvas, area: Area, app: &App) {
    let shown = area.height.saturating_sub(1);
    let rest = area.width.saturating_sub(VCPU_COLUMNS.iter().map(|width| width + 1).sum());
    let widths: Vec<usize> = [rest].into_iter().chain(VCPU_COLUMNS).collect();
    let names =
        ["core", "C/T", "fg %", "bg %", "used", "off", "misses", "migr", "reads/s"].into_iter();
    let right = |(name, width): (&str, usize)| format!("{name:>width$}");
    let head: Vec<String> = names.zip(VCPU_COLUMNS).map(right).collect();
    let head: Vec<&str> = ["vcpu"].into_iter().chain(head.iter().map(String::as_str)).collect();
    draw_table_head(canvas, area.row(0), app, &head, &widths);
    let order = app.order();
    let skipped = app.vcpus_above.min(order.len().saturating_sub(shown));
    for (row, place) in order.iter().skip(skipped).take(shown).enumerate() {
        let (vcpu, rates) = (&app.gauges.vcpus[*place], &app.rates.vcpus[*place]);
        let core = vcpu.last.map_or_else(|| "-".into(), |(core, _)| core.0.to_string());
        let percent = |share: f64| (format!("{:.1}", share * 100.0), plain());
        let warned = |is_bad: bool| style(app, if is_bad { Colour::Red } else { Colour::Plain });
        let mut cells = [
            (vcpu.name.clone(), plain()),
            (core, plain()),
            (text::promise(vcpu), plain()),
            percent(rates.foreground),
            percent(rates.background),
            (text::used(vcpu), plain()),
            (text::off(vcpu).to_string(), warned(text::off(vcpu) > 0)),
            (text::misses(vcpu), warned(vcpu.misses > 0)),
            (vcpu.migrations.to_string(), plain()),
            (rates.reads.map_or_else(|| "-".into(), text::count), plain()),
        ];
        for ((text, _), width) in cells.iter_mut().zip(&widths).skip(1) {
            *text = format!("{text:>width$}");
        }
        draw_row(canvas, area.row(row + 1), &cells, &widths);
    }
}

/// The head of a table, marked over the whole width.
fn draw_table_head(canvas: &mut Canvas, area: Area, app: &App, head: &[&str], widths: &[usize]) {
    let look = Style { reversed: app.colours, underlined: !app.colours, ..Style::default() };
    canvas.fill(area, ' ', look);
    let cells: Vec<Cell> = head.iter().map(|text| ((*text).to_string(), look)).collect();
    draw_row(canvas, area, &cells, widths);
}

/// The cells of a table's row, with a space between two.
fn draw_row(canvas: &mut Canvas, area: Area, cells: &[Cell], widths: &[usize]) {
    let mut rest = area;
    for ((text, look), width) in cells.iter().zip(widths) {
        canvas.put(Area { width: (*width).min(rest.width), ..rest }, text, *look);
        rest = rest.after(width + 1);
    }
}

fn draw_sparks(canvas: &mut Canvas, area: Area, app: &App) {
    let (gauges, history) = (&app.gauges, &app.history);
    let width = area.width.saturating_sub(2) / 3;
    let third = |place: usize| Area { width, ..area.after(place * (width + 1)) };
    let threshold = gauges.memory.and_then(|memory| memory.max_latency).unwrap_or(0);
    let latency = app.rates.latency.map_or_else(|| "-".into(), |it| format!("{it:.0} cycles"));
    let above = app.rates.latency.is_some_and(|it| threshold > 0 && it >= threshold as f64);
    let look = style(app, if above { Colour::Red } else { Colour::Green });
    let most = history.latency.highest().max(threshold);
    spark(canvas, third(0), &history.latency, (format!("latency {latency}"), look, most));
    let (k, n) = (throttled(gauges), gauges.cores.len());
    // Bars are no warning by themselves: without colours they stay plain.
    let red = Style { colour: style(app, Colour::Red).colour, ..Style::default() };
    let title = format!("throttled {k} of {n} cores");
    spark(canvas, third(1), &history.throttled, (title, red, n as u64));
    let title = format!("migrations {:.1}/s", app.rates.migrations);
    let magenta = style(app, Colour::Magenta);
    let most = history.migrations.highest();
    spark(canvas, third(2), &history.migrations, (title, magenta, most));
}

/// One sparkline: its title, how it looks, and what fills it. The latest stands at the right.
fn spark(
    canvas: &mut Canvas,
    area: Area,
    series: &Series,
    (title, look, most): (String, Style, u64),
) {
    canvas.put(area.row(0), &title, plain().bold());
    let rows = area.height.saturating_sub(1);
    let data = series.last(area.width);
    let start = area.after(area.width - data.len());
    for row in 0..rows {
        // Eighths of a cell above the foot of this row.
        let foot = 8 * (rows - 1 - row) as u64;
        let eighths =
            |value: &u64| (u128::from(*value) * 8 * rows as u128 / u128::from(most.max(1))) as u64;
        let glyph = |value: &u64| match eighths(value).saturating_sub(foot).min(8) {
            0 => ' ',
            height => LEVELS[height as usize - 1],
        };
        canvas.put(start.row(row + 1), &data.iter().map(glyph).collect::<String>(), look);
    }
}

fn draw_keys(canvas: &mut Canvas, area: Area, app: &App) {
    let sort = app.sort.word();
    let keys = format!("q quit  s sort: {sort}  ↑↓ VCPUs  ←→ cores  p pause  ? help");
    canvas.put(area, &keys, style(app, Colour::Grey));
}

fn draw_help(canvas: &mut Canvas, area: Area, app: &App) {
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
    let inner = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0) + 2;
    let (width, height) = ((inner + 2).min(area.width), (lines.len() + 2).min(area.height));
    let (x, y) = ((area.width - width) / 2, (area.height - height) / 2);
    let popup = Area { x, y, width, height };
    let border = style(app, Colour::Cyan);
    let mut line = |row: usize, (left, text, right): (&str, String, &str)| {
        if row < height {
            let rest = canvas.put(popup.row(row), left, border);
            let look = if left == "│" { plain() } else { border };
            let rest = canvas.put(rest, &text, look);
            canvas.put(rest, right, border);
        }
    };
    line(0, ("┌", format!("{:─<inner$}", " maracas top "), "┐"));
    for (row, text) in lines.iter().enumerate() {
        line(row + 1, ("│", format!("{:<inner$}", format!(" {text}")), "│"));
    }
    line(lines.len() + 1, ("└", "─".repeat(inner), "┘"));
}

#[cfg(test)]
mod tests;
