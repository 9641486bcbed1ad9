//! What a terminal shows: a grid of cells, drawn on in memory and then written at once.

use std::fmt::Write;

/// The colours of ECMA-48 terminals that are used, and what they are by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Colour {
    #[default]
    Plain,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Grey,
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Style {
    pub(super) colour: Colour,
    pub(super) bold: bool,
    pub(super) reversed: bool,
    pub(super) underlined: bool,
}

impl Style {
    pub(super) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }
    pub(super) const fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }
    /// The parameters of "select graphic rendition" (ECMA-48, section 8.3.117), from the default.
    fn code(self) -> String {
        let mut code = String::from("0");
        let flags = [(self.bold, ";1"), (self.underlined, ";4"), (self.reversed, ";7")];
        flags.iter().filter(|(is_set, _)| *is_set).for_each(|(_, flag)| code.push_str(flag));
        code.push_str(match self.colour {
            Colour::Plain => "",
            Colour::Red => ";31",
            Colour::Green => ";32",
            Colour::Yellow => ";33",
            Colour::Blue => ";34",
            Colour::Magenta => ";35",
            Colour::Cyan => ";36",
            Colour::Grey => ";90",
        });
        code
    }
}

/// A part of the grid, in cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Area {
    /// One of its rows.
    pub(super) const fn row(self, row: usize) -> Self {
        Self { y: self.y + row, height: 1, ..self }
    }
    /// What is right of its first columns.
    pub(super) const fn after(self, columns: usize) -> Self {
        let skipped = if columns < self.width { columns } else { self.width };
        Self { x: self.x + skipped, width: self.width - skipped, ..self }
    }
}

/// The grid.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    width: usize,
    cells: Vec<(char, Style)>,
}

impl Canvas {
    /// An empty one.
    pub(super) fn new((width, height): (usize, usize)) -> Self {
        Self { width, cells: vec![(' ', Style::default()); width * height] }
    }
    /// All of it.
    pub(super) fn area(&self) -> Area {
        let height = self.cells.len().checked_div(self.width).unwrap_or(0);
        Area { x: 0, y: 0, width: self.width, height }
    }
    /// Writes on the first row of `area`, as much as fits, and returns the rest of that row.
    ///
    /// Names come from users: what a terminal would take for a command is shown as `?`.
    pub(super) fn put(&mut self, area: Area, text: &str, style: Style) -> Area {
        let room = area.width.min(self.width.saturating_sub(area.x));
        let mut used = 0;
        for glyph in text.chars().take(room) {
            if let Some(cell) = self.cells.get_mut(area.y * self.width + area.x + used) {
                *cell = (if glyph.is_control() { '?' } else { glyph }, style);
            }
            used += 1;
        }
        area.after(used)
    }
    /// Fills the first row of `area`.
    pub(super) fn fill(&mut self, area: Area, glyph: char, style: Style) {
        self.put(area, &glyph.to_string().repeat(area.width), style);
    }
    /// Its rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[(char, Style)]> {
        self.cells.chunks(self.width.max(1))
    }
    /// What a terminal of this size must be sent to show it.
    pub(super) fn bytes(&self) -> String {
        let mut text = String::new();
        for (row, cells) in self.rows().enumerate() {
            let mut style = Style::default();
            write!(text, "\x1b[{};1H\x1b[0m", row + 1).expect("a string takes everything");
            for (glyph, own) in cells {
                if std::mem::replace(&mut style, *own) != *own {
                    write!(text, "\x1b[{}m", own.code()).expect("a string takes everything");
                }
                text.push(*glyph);
            }
        }
        text + "\x1b[0m"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_in_their_area_and_command_nothing() {
        let mut canvas = Canvas::new((6, 2));
        let left = Area { x: 1, y: 0, width: 3, height: 1 };
        let rest = canvas.put(left, "ab", Style::default());
        assert_eq!(rest, Area { x: 3, y: 0, width: 1, height: 1 });
        canvas.put(rest, "\x1bcd", Style::default());
        canvas.put(Area { x: 4, y: 1, width: 9, height: 1 }, "xyz", Style::default());
        canvas.put(Area { x: 0, y: 7, width: 9, height: 1 }, "below", Style::default());
        let rows = canvas.rows().map(|row| row.iter().map(|(glyph, _)| *glyph).collect());
        assert_eq!(rows.collect::<Vec<String>>(), [" ab?  ", "    xy"]);
    }

    #[test]
    fn styles_are_sent_where_they_change() {
        let mut canvas = Canvas::new((4, 1));
        let red = Style { colour: Colour::Red, ..Style::default() };
        let rest = canvas.put(canvas.area(), "a", Style::default());
        let rest = canvas.put(rest, "bc", red.bold());
        canvas.put(rest, "d", red.reversed());
        assert_eq!(canvas.bytes(), "\x1b[1;1H\x1b[0ma\x1b[0;1;31mbc\x1b[0;7;31md\x1b[0m");
    }
}
