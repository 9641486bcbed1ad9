//! The chart in characters: a cell shows what took most of its time.

use super::{Bar, Chart, Rows, State, TextStyle};
use maracas_core::{Instant, VcpuId};
use std::io::{self, Write};

/// Names are cut at this many characters.
const NAME_MOST: usize = 16;

/// The characters of one style.
struct Glyphs {
    states: [char; 4],
    kinds: [char; 3],
    /// A release where the job before is due, and in time.
    both: char,
    axis: char,
    tick: char,
}

const UNICODE: Glyphs = Glyphs {
    states: ['·', '×', '▒', '█'],
    kinds: ['↑', '↓', '!'],
    both: '↕',
    axis: '─',
    tick: '┴',
};
const ASCII: Glyphs = Glyphs {
    states: ['.', 'x', '-', '#'],
    kinds: ['^', 'v', '!'],
    both: '|',
    axis: '-',
    tick: '+',
};

/// Where the cells lie in time.
struct Grid {
    from: u64,
    length: u64,
    cells: usize,
}

impl Grid {
    /// The first instant of a cell.
    fn begin(&self, cell: usize) -> u64 {
        self.from + (u128::from(self.length) * cell as u128 / self.cells as u128) as u64
    }
    fn cell(&self, at: Instant) -> usize {
        let offset = u128::from(at.ticks() - self.from);
        let cell = offset * self.cells as u128 / u128::from(self.length.max(1));
        (cell as usize).min(self.cells - 1)
    }
    /// The bar's time in each cell that it touches.
    fn cover(&self, bar: &Bar) -> impl Iterator<Item = (usize, u64)> {
        let (from, to) = (bar.from.ticks(), bar.to.ticks());
        let last = self.cell(Instant::from_ticks(to - 1));
        (self.cell(bar.from)..=last).map(move |cell| {
            let (begin, end) = (self.begin(cell).max(from), self.begin(cell + 1).min(to));
            (cell, end.saturating_sub(begin))
        })
    }
}

pub(super) fn write(chart: &Chart, style: TextStyle, out: &mut impl Write) -> io::Result<()> {
    let glyphs = if style.ascii { &ASCII } else { &UNICODE };
    let labels: Vec<String> = match style.rows {
        Rows::Vcpus => chart.vcpus().map(|vcpu| cut(chart.name(vcpu))).collect(),
        Rows::Cores => chart.cores.clone(),
    };
    let label = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let grid = Grid {
        from: chart.from.ticks(),
        length: (chart.to - chart.from).ticks(),
        cells: usize::from(style.width).saturating_sub(label + 2).max(10),
    };
    match style.rows {
        Rows::Vcpus => {
            for (vcpu, name) in chart.vcpus().zip(&labels) {
                let arrows = arrow_row(chart, vcpu, &grid, glyphs);
                if !arrows.trim().is_empty() {
                    writeln!(out, "{:label$}  {}", "", arrows.trim_end())?;
                }
                let bars = vcpu_row(chart, vcpu, &grid, glyphs);
                writeln!(out, "{name:label$}  {}", bars.trim_end())?;
            }
        }
        Rows::Cores => {
            for (core, name) in (0..).zip(&labels) {
                writeln!(
                    out,
                    "{name:label$}  {}",
                    core_row(chart, core, &grid, glyphs).trim_end()
                )?;
            }
        }
    }
    for line in axis(chart, &grid, glyphs) {
        writeln!(out, "{:label$}  {line}", "")?;
    }
    legend(chart, style.rows, glyphs, out)
}

fn cut(name: &str) -> String {
    name.chars().take(NAME_MOST).collect()
}

/// Time by cell and kind of what is shown.
fn fullest<const N: usize>(times: &[[u64; N]], glyph: impl Fn(usize) -> char) -> String {
    let best = |cell: &[u64; N]| {
        let most = (0..N).max_by_key(|kind| cell[*kind]);
        most.filter(|kind| cell[*kind] > 0).map_or(' ', &glyph)
    };
    times.iter().map(best).collect()
}

fn vcpu_row(chart: &Chart, vcpu: VcpuId, grid: &Grid, glyphs: &Glyphs) -> String {
    let mut times = vec![[0; 4]; grid.cells];
    for bar in chart.bars.iter().filter(|bar| bar.vcpu == vcpu) {
        grid.cover(bar).for_each(|(cell, time)| times[cell][bar.state as usize] += time);
    }
    fullest(&times, |state| glyphs.states[state])
}

/// Letters for VCPUs, upper case in the foreground.
fn letter(place: usize) -> char {
    char::from(b'a' + (place % 26) as u8)
}

/// What ran longest in each cell; a throttle shows where nothing ran.
fn core_row(chart: &Chart, core: u16, grid: &Grid, glyphs: &Glyphs) -> String {
    let mut shown = vec![(0, ' '); grid.cells];
    for (place, vcpu) in chart.on_cores().enumerate() {
        let mut times = vec![[0; 4]; grid.cells];
        let here = |bar: &&Bar| bar.vcpu == vcpu && bar.core.is_some_and(|at| at.0 == core);
        for bar in chart.bars.iter().filter(here) {
            grid.cover(bar).for_each(|(cell, time)| times[cell][bar.state as usize] += time);
        }
        let letters = [
            (State::Background, letter(place)),
            (State::Foreground, letter(place).to_ascii_uppercase()),
        ];
        for (cell, time) in times.iter().enumerate() {
            if time[State::Throttled as usize] > 0 && shown[cell].0 == 0 {
                shown[cell].1 = glyphs.states[State::Throttled as usize];
            }
            for (state, letter) in letters {
                if time[state as usize] > shown[cell].0 {
                    shown[cell] = (time[state as usize], letter);
                }
            }
        }
    }
    shown.iter().map(|(_, glyph)| *glyph).collect()
}

/// Releases, deadlines and misses above a VCPU's row; a miss wins a cell.
fn arrow_row(chart: &Chart, vcpu: VcpuId, grid: &Grid, glyphs: &Glyphs) -> String {
    let mut cells = vec![[false; 3]; grid.cells];
    for arrow in chart.arrows.iter().filter(|arrow| arrow.vcpu == vcpu) {
        cells[grid.cell(arrow.at)][arrow.kind as usize] = true;
    }
    let [release, deadline, miss] = glyphs.kinds;
    let glyph = |cell: &[bool; 3]| match cell {
        [_, _, true] => miss,
        [true, true, false] => glyphs.both,
        [true, false, false] => release,
        [false, true, false] => deadline,
        [false, false, false] => ' ',
    };
    cells.iter().map(glyph).collect()
}

/// The axis and its labels.
fn axis(chart: &Chart, grid: &Grid, glyphs: &Glyphs) -> [String; 2] {
    let mut line: Vec<char> = vec![glyphs.axis; grid.cells];
    let mut labels = String::new();
    for at in chart.ticks((grid.cells / 12) as u64) {
        let cell = grid.cell(at);
        line[cell] = glyphs.tick;
        let used = labels.chars().count();
        if cell >= used {
            labels += &" ".repeat(cell - used);
            labels += &chart.shown(at.ticks());
            labels.push(' ');
        }
    }
    [line.into_iter().collect(), labels.trim_end().into()]
}

fn legend(chart: &Chart, rows: Rows, glyphs: &Glyphs, out: &mut impl Write) -> io::Result<()> {
    match rows {
        Rows::Vcpus => {
            let [ready, throttled, background, foreground] = glyphs.states;
            let [release, deadline, miss] = glyphs.kinds;
            writeln!(
                out,
                "{foreground} foreground  {background} background  {throttled} throttled  \
                 {ready} ready  {release} release  {deadline} deadline  {miss} missed"
            )
        }
        Rows::Cores => {
            let named = chart.on_cores().enumerate().map(|(place, vcpu)| {
                let letter = letter(place);
                format!("{}{letter} {}", letter.to_ascii_uppercase(), chart.name(vcpu))
            });
            let named: Vec<String> = named.collect();
            let throttled = glyphs.states[State::Throttled as usize];
            writeln!(
                out,
                "{}  (upper case: foreground, lower case: background, {throttled} throttled)",
                named.join("  ")
            )
        }
    }
}
