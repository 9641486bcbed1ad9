//! Errors with file, line and column.

use std::fmt;
use std::io::Read;
use std::path::Path;

/// The longest file that is read. A scenario has a few kilobytes, a task set of ten thousand
/// tasks has a few hundred; the limit keeps a mistaken path (`/dev/zero`) from eating the memory.
const LONGEST_FILE_BYTES: u64 = 16 << 20;

/// A place in a file: line and column, counted from 1, the column in characters. Line 0 stands
/// for the file as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Location {
    /// The line, from 1; 0 = the whole file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// What is wrong with a file, where, and the way out. Shown as one line:
/// `quickstart.toml:12:10: budget 30ms exceeds period 20ms; lower the budget or raise the period`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file as the user named it.
    pub file: String,
    /// The line, from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// One sentence: the thing, the number, the way out.
    pub message: String,
}

impl Error {
    pub(crate) fn new(file: &str, at: Location, message: impl Into<String>) -> Self {
        // Names and values are quoted as the user wrote them; a line break or an escape sequence
        // in one of them must not break the one line or the terminal.
        let message: String = message.into();
        let message = message.replace(char::is_control, " ");
        Self { file: file.into(), line: at.line, column: at.column, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}", self.file, self.message)
        } else {
            write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
        }
    }
}

impl std::error::Error for Error {}

/// A text with its file's name: turns byte offsets into locations.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Where line breaks are, so that a file of a hundred thousand VCPUs is not counted through for
    /// each of them.
    breaks: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at).collect();
        Self { file, text, breaks }
    }
    pub(crate) fn location(&self, offset: usize) -> Location {
        let offset = self.text.floor_char_boundary(offset);
        let above = self.breaks.partition_point(|at| *at < offset);
        let line_start = above.checked_sub(1).map_or(0, |last| self.breaks[last] + 1);
        let column = self.text[line_start..offset].chars().count() + 1;
        Location { line: above + 1, column }
    }
    pub(crate) fn error(&self, offset: usize, message: impl Into<String>) -> Error {
        Error::new(self.file, self.location(offset), message)
    }
}

/// Reads a whole text file.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    let whole =
        |message: String| Error::new(&path.display().to_string(), Location::default(), message);
    let file = std::fs::File::open(path)
        .map_err(|why| whole(format!("cannot be opened: {why}; check the path")))?;
    let mut bytes = Vec::new();
    file.take(LONGEST_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| whole(format!("cannot be read: {why}; check the path")))?;
    if bytes.len() as u64 > LONGEST_FILE_BYTES {
        return Err(whole(format!(
            "is larger than {} MiB; check the path",
            LONGEST_FILE_BYTES >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|why| {
        let good = why.utf8_error().valid_up_to();
        whole(format!("is not UTF-8 text (byte {good}); save it as UTF-8"))
    })
}

/// `1 task`, `2 tasks`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// What the user wrote, cut where it is too long to repeat.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 40;
    if text.chars().count() <= LONGEST {
        return format!("\"{text}\"");
    }
    format!("\"{}...\"", text.chars().take(LONGEST).collect::<String>())
}

/// Those of `known` that are nearest to `word`, in their order, and how many edits away they are
/// (F. Damerau, 1964; V. Levenshtein, 1966); `None` where none is known.
pub fn nearest<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<(usize, Vec<&'k str>)> {
    let mut near: Option<(usize, Vec<&str>)> = None;
    for candidate in known {
        let edits = strsim::damerau_levenshtein(word, candidate);
        match &mut near {
            Some((least, all)) if edits == *least => all.push(candidate),
            Some((least, _)) if edits > *least => {}
            Some(_) | None => near = Some((edits, vec![candidate])),
        }
    }
    near
}

/// `; did you mean "x"?` where a known word is near, else nothing. Of several that are equally
/// near, all.
pub fn near_words<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    // Two edits, or a third of a long word: farther words are seldom what was meant.
    let reach = (word.len() / 3).max(2);
    let near = nearest(word, known).filter(|(edits, _)| *edits <= reach);
    near.map_or(String::new(), |(_, near)| {
        let quoted: Vec<_> = near.iter().map(|candidate| format!("\"{candidate}\"")).collect();
        format!("; did you mean {}?", quoted.join(" or "))
    })
}

/// `did you mean` for a word that is not one of `known`, or else the list of them.
pub(crate) fn did_you_mean<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
    what: &str,
) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    if known.is_empty() {
        return format!("there are no {what}");
    }
    match nearest(&word.to_lowercase(), known.iter().copied()) {
        // A third of the letters may be wrong, as in the suggestions of rustc.
        Some((edits, near)) if edits <= word.chars().count() / 3 => {
            format!("did you mean `{}`?", near[0])
        }
        _ => format!("the {what} are: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_errors_are_one_line() {
        let source = Source::new("a.toml", "x = 1\nµ = \"é\" # y");
        assert_eq!(source.location(0), Location { line: 1, column: 1 });
        let offset = source.text.find('#').unwrap();
        assert_eq!(source.location(offset), Location { line: 2, column: 9 });
        let error = source.error(offset, "two\nlines");
        assert_eq!(error.to_string(), "a.toml:2:9: two lines");
    }

    #[test]
    fn near_words_are_suggested_and_far_ones_listed() {
        let known = ["budget", "period"];
        assert_eq!(did_you_mean("budgte", known, "keys"), "did you mean `budget`?");
        assert_eq!(did_you_mean("Period", known, "keys"), "did you mean `period`?");
        assert_eq!(did_you_mean("zzz", known, "keys"), "the keys are: budget, period");
        assert_eq!(did_you_mean("zzz", [], "VCPUs"), "there are no VCPUs");
    }

    #[test]
    fn files_that_cannot_be_read_have_no_line() {
        let error = read_text(Path::new("no/such.toml")).unwrap_err().to_string();
        assert!(error.starts_with("no/such.toml: cannot be opened: "), "{error}");
        let error = read_text(Path::new("/")).unwrap_err().to_string();
        assert!(error.starts_with("/: cannot be "), "{error}");
    }
}
