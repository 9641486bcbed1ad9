//! The generated parts of a document: between two marks everything is ours, the rest is the
//! writer's.
//!
//! ```text
//! <!-- reproduce: maracas-fig4 -->
//! ... generated ...
//! <!-- end: maracas-fig4 -->
//! ```

use crate::{Experiment, Findings};

/// Where the figures stand, seen from the document.
pub const FIGURES: &str = "figures";

/// What is not as `findings` says, in words: the part of `experiment` in `document`, or one of its
/// figures, which `figure` reads by their names. Nothing where all is.
pub fn stale(
    document: &str,
    experiment: &Experiment,
    findings: &Findings,
    figure: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut stale = Vec::new();
    match part(document, experiment.name) {
        None => stale.push(format!("{} is missing", experiment.name)),
        Some(text) => {
            let fresh = findings.markdown(experiment, Some(FIGURES));
            let differs = |(old, new): (&str, &str)| (old != new).then(|| old.to_string());
            let first = text.lines().zip(fresh.lines()).find_map(differs);
            if text != fresh {
                let line = first.unwrap_or_else(|| "its length".into());
                stale.push(format!("{} differs, first at: {line}", experiment.name));
            }
        }
    }
    for drawn in &findings.figures {
        let name = drawn.file(experiment.name);
        match figure(&name) {
            None => stale.push(format!("{FIGURES}/{name} is missing")),
            Some(old) if old != drawn.svg() => stale.push(format!("{FIGURES}/{name} differs")),
            Some(_) => {}
        }
    }
    stale
}

/// The mark that opens the part of `name`.
fn open(name: &str) -> String {
    format!("<!-- reproduce: {name} -->\n")
}

/// The mark that closes it.
fn close(name: &str) -> String {
    format!("<!-- end: {name} -->\n")
}

/// The generated part of `name` in `document`, if it is there.
pub fn part<'a>(document: &'a str, name: &str) -> Option<&'a str> {
    let (open, close) = (open(name), close(name));
    let start = document.find(&open)? + open.len();
    let length = document[start..].find(&close)?;
    Some(&document[start..start + length])
}

/// `document` with `text` as the part of `name`; a part that is not there yet comes at the end.
#[must_use]
pub fn with_part(document: &str, name: &str, text: &str) -> String {
    if let Some(old) = part(document, name) {
        let start = old.as_ptr() as usize - document.as_ptr() as usize;
        return format!("{}{text}{}", &document[..start], &document[start + old.len()..]);
    }
    let gap = if document.is_empty() || document.ends_with("\n\n") { "" } else { "\n" };
    format!("{document}{gap}{}{text}{}", open(name), close(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Drawing, Figure};

    #[test]
    fn what_is_stale_is_named() {
        let experiment = crate::find("maracas-fig4").unwrap();
        let findings = Findings { notes: vec!["Fresh.".into()], ..Findings::default() };
        let stale = |document: &str| super::stale(document, experiment, &findings, &|_| None);
        assert_eq!(stale(""), ["maracas-fig4 is missing"]);
        let text = findings.markdown(experiment, Some(FIGURES));
        assert!(stale(&with_part("", "maracas-fig4", &text)).is_empty());
        let old = text.replace("Fresh.", "Old.");
        let reported = stale(&with_part("", "maracas-fig4", &old));
        assert!(
            reported[0].starts_with("maracas-fig4 differs, first at: ")
                && reported[0].contains("Old.")
        );
    }

    #[test]
    fn a_figure_that_is_gone_is_not_one_that_differs() {
        let experiment = crate::find("maracas-fig4").unwrap();
        let drawing = Drawing::Bars { axis: "s".into(), groups: Vec::new(), series: Vec::new() };
        let drawn = Figure { name: String::new(), title: "It".into(), drawing };
        let findings = Findings { figures: vec![drawn.clone()], ..Findings::default() };
        let text = with_part("", "maracas-fig4", &findings.markdown(experiment, Some(FIGURES)));
        let stale = |figure: Option<String>| {
            super::stale(&text, experiment, &findings, &|_| figure.clone()).join(", ")
        };
        assert_eq!(stale(None), "figures/maracas-fig4.svg is missing");
        assert_eq!(stale(Some("old".into())), "figures/maracas-fig4.svg differs");
        assert_eq!(stale(Some(drawn.svg())), "");
    }

    #[test]
    fn parts_come_at_the_end_and_are_replaced_in_place() {
        let first = with_part("# By hand\n", "a", "one\n");
        assert_eq!(first, "# By hand\n\n<!-- reproduce: a -->\none\n<!-- end: a -->\n");
        let both = with_part(&first, "b", "two\n");
        let changed = with_part(&both, "a", "three\nfour\n");
        assert_eq!(
            (part(&changed, "a"), part(&changed, "b")),
            (Some("three\nfour\n"), Some("two\n"))
        );
        assert!(changed.starts_with("# By hand\n\n<!--"));
        assert_eq!(with_part(&changed, "a", "one\n"), both);
        assert_eq!(part(&changed, "c"), None);
    }
}
