//! The documents and the links between them, which must lead somewhere: on the pages as they stand
//! in the repository, and so on the site that `cargo xtask docs` makes of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every document of ours but the list of changes, which describes what was; sorted.
pub(crate) fn documents(root: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(root.join("docs")).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|it| it == "md"));
    found.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    found.sort();
    let text = |path: PathBuf| fs::read_to_string(&path).ok().map(|text| (path, text));
    found.into_iter().filter_map(text).collect()
}

/// Why links of the documents lead nowhere, a line each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for (document, text) in documents(root) {
        let targets = links(&text);
        let broken = targets.iter().filter_map(|target| broken(&document, &text, target));
        let name = document.strip_prefix(root).unwrap_or(&document).display();
        problems.extend(broken.map(|why| format!("{name} {why}")));
    }
    problems
}

/// The text without its code blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// How GitHub names the headings of a document: lower case, blanks as `-`, other signs left out.
fn anchors(text: &str) -> BTreeSet<String> {
    let text = prose(text);
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let name = |heading: &str| {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect::<String>()
    };
    headings.map(name).collect()
}

/// The targets of `[text](target)`.
pub(crate) fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// Whether a link leads to another site.
pub(crate) fn is_foreign(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Why `target`, linked from `document`, leads nowhere.
pub(crate) fn broken(document: &Path, text: &str, target: &str) -> Option<String> {
    if is_foreign(target) {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
    let file = if path.is_empty() { document.into() } else { document.parent()?.join(path) };
    if !file.exists() {
        return Some(format!("links to {target}, which is not there"));
    }
    let there = if path.is_empty() { text.to_owned() } else { fs::read_to_string(&file).ok()? };
    let anchor = anchor.filter(|anchor| !anchors(&there).contains(*anchor))?;
    Some(format!("links to {target}: no heading `{anchor}`"))
}
