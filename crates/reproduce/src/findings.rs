//! What an experiment found: tables, figures and verdicts, and how they are written down.

use crate::Experiment;
use crate::figure::Figure;
pub use crate::figure::number;
use serde::Serialize;
use std::fmt::Write;

/// A value in a table.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number and with how many decimals it is shown.
    Number(f64, usize),
    /// Nothing is known.
    Missing,
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
    /// How people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value, decimals) => number(*value, *decimals),
            Self::Missing => "-".into(),
        }
    }
    /// How programs read it: with every digit.
    fn raw(&self) -> String {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => text.clone(),
            Self::Number(value, _) => value.to_string(),
            Self::Missing => String::new(),
        }
    }
}

/// Words as a string, a number with every digit, nothing as null.
impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number(value, _) => serializer.serialize_f64(*value),
            Self::Missing => serializer.serialize_none(),
        }
    }
}

/// `fraction` as a percentage with its sign: `+3.1 %`.
pub fn percent(fraction: f64) -> String {
    let text = number(fraction * 100.0, 1);
    if text.starts_with('-') || text == "0.0" { format!("{text} %") } else { format!("+{text} %") }
}

/// A table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Table {
    /// What its file is called, after the experiment's name; empty for the only one.
    pub name: String,
    /// What it shows, in a sentence.
    pub title: String,
    /// The headings, with units.
    pub columns: Vec<String>,
    /// The rows, each as long as the headings.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    ///
    /// # Panics
    /// Where two columns have one name: readers of the CSV go by them.
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Self {
        for (place, column) in columns.iter().enumerate() {
            assert!(!columns[..place].contains(column), "{title}: {column} is there twice");
        }
        let columns = columns.iter().map(|column| (*column).to_string()).collect();
        Self { name: name.into(), title: title.into(), columns, rows: Vec::new() }
    }
    /// A table that sets ours beside the published; rows come by [`Table::compare`].
    pub fn comparison(name: &str, title: &str, what: &str) -> Self {
        Self::new(name, title, &[what, "ours", "published", "difference"])
    }
    /// Adds a row.
    ///
    /// # Panics
    /// Where it is not as long as the headings.
    pub fn row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row of {}", self.title);
        self.rows.push(cells);
    }
    /// Adds a row to a [`Table::comparison`]: `ours` beside the `published` number, if there is
    /// one, shown with `decimals`.
    pub fn compare(
        &mut self,
        what: impl Into<String>,
        ours: f64,
        published: Option<f64>,
        decimals: usize,
    ) {
        let shown = |value| Cell::Number(value, decimals);
        let difference = published.map(|it| Cell::Text(percent(crate::stats::relative(ours, it))));
        self.row(vec![
            Cell::text(what),
            shown(ours),
            published.map_or(Cell::Missing, shown),
            difference.unwrap_or(Cell::Missing),
        ]);
    }
    /// The name of its CSV file, in the tables of `experiment`.
    pub fn file(&self, experiment: &str) -> String {
        if self.name.is_empty() {
            format!("{experiment}.csv")
        } else {
            format!("{experiment}-{}.csv", self.name)
        }
    }
    /// As CSV, numbers with every digit.
    pub fn csv(&self) -> String {
        let mut text = String::new();
        let headings: Vec<_> = self.columns.iter().map(|word| Cell::text(word).raw()).collect();
        let _ = writeln!(text, "{}", headings.join(","));
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(Cell::raw).collect();
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }
    /// As a Markdown table with aligned columns.
    fn markdown(&self) -> String {
        let columns = self.columns.len();
        let shown: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
        let width = |column: usize| {
            let cells = shown.iter().map(|row| row[column].chars().count());
            cells.chain([self.columns[column].chars().count(), 3]).max().unwrap_or(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        // Numbers and gaps stand to the right, words to the left.
        let right = |column: usize| {
            column > 0
                && !self.rows.iter().any(|row| {
                    matches!(&row[column], Cell::Text(text)
                if !text.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)))
                })
        };
        let line = |cells: &[String]| {
            let padded = cells.iter().enumerate().map(|(column, text)| {
                let width = widths[column];
                if right(column) { format!("{text:>width$}") } else { format!("{text:<width$}") }
            });
            format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
        };
        let rule = (0..columns).map(|column| {
            let dashes = "-".repeat(widths[column] - usize::from(right(column)));
            if right(column) { dashes + ":" } else { dashes }
        });
        let rule: Vec<String> = rule.collect();
        let mut text = line(&self.columns) + &line(&rule);
        shown.iter().for_each(|row| text += &line(row));
        text
    }
}

/// Whether a part of the paper's pattern holds here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Verdict {
    /// What should hold, as a sentence without its full stop.
    pub claim: String,
    /// Whether it does.
    pub holds: bool,
    /// The numbers that say so.
    pub numbers: String,
    /// Where it does not hold: why not.
    pub why: Option<String>,
}

impl Verdict {
    /// `claim` holds or does not, by these numbers.
    pub fn new(claim: impl Into<String>, holds: bool, numbers: impl Into<String>) -> Self {
        Self { claim: claim.into(), holds, numbers: numbers.into(), why: None }
    }
    /// With the reason, given where the claim does not hold.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        self.why = (!self.holds).then(|| why.to_string());
        self
    }
    fn line(&self) -> String {
        let holds = if self.holds { "yes" } else { "**no**" };
        let why = self.why.as_ref().map(|why| format!(" {why}")).unwrap_or_default();
        format!("{holds}: {} ({}).{why}", self.claim, self.numbers)
    }
}

/// What an experiment found.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Findings {
    /// What has to be said before the tables, in sentences: what was assumed, what was fitted.
    pub notes: Vec<String>,
    /// At least one.
    pub tables: Vec<Table>,
    /// At least one; not in the JSON, they are files.
    #[serde(skip)]
    pub figures: Vec<Figure>,
    /// At least one.
    pub verdicts: Vec<Verdict>,
}

impl Findings {
    /// The section of `docs/results.md` about `experiment`, with its figures under `figures`, a
    /// path relative to the document; `None` leaves them out.
    pub fn markdown(&self, experiment: &Experiment, figures: Option<&str>) -> String {
        let mut text = format!("### {}: {}\n\n", experiment.name, experiment.title);
        text += &wrap(
            &format!(
                "{} Source: {}. It *{}*; free parameters: {}. Fitted elsewhere: {}. {}",
                experiment.summary,
                experiment.source,
                experiment.kind.word(),
                experiment.free,
                if experiment.fitted.is_empty() { "nothing" } else { experiment.fitted },
                self.notes.join(" ")
            ),
            "",
        );
        for table in &self.tables {
            text += &format!("\n{}\n{}", wrap(&format!("{}:", table.title), ""), table.markdown());
        }
        if let Some(folder) = figures {
            for figure in &self.figures {
                let (title, name) = (&figure.title, figure.file(experiment.name));
                text += &format!("\n![{title}]({folder}/{name})\n");
            }
        }
        text += "\n";
        for verdict in &self.verdicts {
            text += &wrap(&format!("- {}", verdict.line()), "  ");
        }
        text
    }
}

/// `text` in lines of at most 110 columns, further lines after `indent`.
fn wrap(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > 110 {
            lines += &format!("{line}\n");
            line = indent.to_string();
        }
        if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn table() -> Table {
        let mut table = Table::comparison("", "Bars against bars", "case");
        table.compare("E1", 251.04, Some(249.0), 1);
        table.compare("a, \"b\"", -0.01, None, 1);
        table
    }

    #[test]
    fn tables_show_ours_beside_the_published() {
        assert_eq!(
            table().markdown(),
            "| case   |  ours | published | difference |\n\
             | ------ | ----: | --------: | ---------: |\n\
             | E1     | 251.0 |     249.0 |     +0.8 % |\n\
             | a, \"b\" |   0.0 |         - |          - |\n"
        );
        assert_eq!(
            table().csv(),
            "case,ours,published,difference\nE1,251.04,249,+0.8 %\n\"a, \"\"b\"\"\",-0.01,,\n"
        );
    }

    #[test]
    fn sections_say_what_was_done_and_what_holds() {
        let experiment = Experiment {
            name: "paper-fig1",
            title: "Bars",
            summary: "Compares bars.",
            source: "Figure 1",
            kind: Kind::Calibrates,
            free: "one delay",
            fitted: "",
            run: |_| Ok(Findings::default()),
        };
        let findings = Findings {
            notes: vec!["Noted.".into()],
            tables: vec![table()],
            figures: Vec::new(),
            verdicts: vec![
                Verdict::new("it rises", true, "1, 2, 3").because("unused"),
                Verdict::new("it falls", false, "1, 2, 3").because("It rises."),
            ],
        };
        let text = findings.markdown(&experiment, None);
        assert!(
            text.starts_with("### paper-fig1: Bars\n\nCompares bars. Source: Figure 1. It *cal")
        );
        assert!(
            text.ends_with("- yes: it rises (1, 2, 3).\n- **no**: it falls (1, 2, 3). It rises.\n")
        );
        assert!(text.contains(
            "calibrates*; free parameters: one delay. Fitted elsewhere: nothing.\nNoted.\n"
        ));
    }

    #[test]
    fn numbers_and_lines() {
        assert_eq!((number(-0.04, 1), number(2.0, 0)), ("0.0".into(), "2".into()));
        assert_eq!(
            (percent(0.5), percent(-0.5), percent(0.0)),
            ("+50.0 %".into(), "-50.0 %".into(), "0.0 %".into())
        );
        let long = wrap(&"- word ".repeat(30), "  ");
        assert!(long.lines().all(|line| line.chars().count() <= 110));
        assert!(
            long.lines().skip(1).all(|line| line.starts_with("  - ") || line.starts_with("  word"))
        );
    }
}
