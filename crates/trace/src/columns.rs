//! Cells in columns: how tables for people are aligned.

use std::fmt::Write as _;

/// A table whose columns are as wide as their widest cell. The first column stands to the left, the
/// others to the right, unless [`Columns::left`] says otherwise.
#[derive(Clone, Debug)]
pub struct Columns {
    left: Vec<bool>,
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
enum Line {
    Cells(Vec<String>),
    /// A first cell, and a text in place of the others.
    Remark(String, String),
}

impl Columns {
    /// A table with these heads.
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let head: Vec<String> = head.into_iter().map(Into::into).collect();
        let left = (0..head.len()).map(|column| column == 0).collect();
        Self { left, lines: vec![Line::Cells(head)] }
    }

    /// These columns, counted from 0, stand to the left too.
    #[must_use]
    pub fn left(mut self, columns: &[usize]) -> Self {
        columns.iter().for_each(|column| self.left[*column] = true);
        self
    }

    /// Adds a line of cells; where there are fewer than heads, the last columns stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.lines.push(Line::Cells(cells.into_iter().collect()));
    }

    /// Adds a line with a first cell, and a text in place of the others.
    pub fn remark(&mut self, first: impl Into<String>, text: impl Into<String>) {
        self.lines.push(Line::Remark(first.into(), text.into()));
    }

    /// The lines, two blanks between columns, none at an end of line, each behind `indent` blanks.
    pub fn text(&self, indent: usize) -> String {
        let mut widths = vec![0; self.left.len()];
        for line in &self.lines {
            let cells = match line {
                Line::Cells(cells) => &cells[..],
                Line::Remark(first, _) => std::slice::from_ref(first),
            };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.chars().count().max(*width);
            }
        }
        let line = |line: &Line| {
            let mut text = " ".repeat(indent);
            match line {
                Line::Cells(cells) => {
                    for (column, cell) in cells.iter().enumerate().take(widths.len()) {
                        let (gap, width) = (2 * usize::from(column > 0), widths[column]);
                        let _ = match self.left[column] {
                            true => write!(text, "{:gap$}{cell:<width$}", ""),
                            false => write!(text, "{:gap$}{cell:>width$}", ""),
                        };
                    }
                }
                Line::Remark(first, remark) => {
                    let width = widths[0];
                    let _ = write!(text, "{first:<width$}  {remark}");
                }
            }
            text.truncate(text.trim_end().len());
            text + "\n"
        };
        self.lines.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Columns::new(["name", "n", "how"]).left(&[2]);
        table.row(["a".into(), "1".into(), "well".into()]);
        table.row(["µs and more".into(), "1000".into(), String::new()]);
        table.remark("b", "not measured: it has ended long ago");
        let text = "  name            n  how\n  a               1  well\n  µs and more  1000\n  \
                    b            not measured: it has ended long ago\n";
        assert_eq!(table.text(2), text);
    }
}
