//! Documents and comments refer to what exists: files, tests, headings, sections, papers.

use super::{files, none, short, sources};
use crate::links::{broken, documents, links};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

#[test]
fn links_lead_to_files_and_headings() {
    none(&crate::links::check(&crate::root()));
}

#[test]
fn broken_links_are_found() {
    let text = "# One\n## F.4 What, so\n[a](#f4-what-so) [b](#f5) [c](missing.md)\n";
    let document = crate::root().join("README.md");
    let found: Vec<bool> =
        links(text).iter().map(|target| broken(&document, text, target).is_some()).collect();
    assert_eq!(found, [false, true, true]);
}

/// A reader finds these from README.md in two steps: the table of topics, then the file.
#[test]
fn topics_are_two_steps_away() {
    let root = crate::root();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    assert!(links(&readme).iter().any(|target| target == "ARCHITECTURE.md#topics"));
    assert!(links(&readme).iter().any(|target| target == "ARCHITECTURE.md#questions"));
    let map = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let topics = map.split("\n## Topics\n").nth(1).expect("the table of topics");
    let rows: Vec<&str> = topics.lines().filter(|line| line.starts_with("| ")).collect();
    let wanted = [
        "RUN's tree",
        "QPS",
        "reclaim",
        "Algorithm 1",
        "max-fair",
        "sporadic replenishment",
        "admission",
        "PIBS",
        "recolouring",
        "Sync Effect",
    ];
    for topic in wanted {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {topic}")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no topic `{topic}`"));
        assert!(!links(row).is_empty(), "{row}");
    }
    let questions =
        map.split("\n## Questions\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let asked = questions.unwrap().lines().filter(|line| line.contains("? |")).count();
    assert!(asked >= 10, "only {asked} questions are answered");
    assert!(map.lines().count() <= 150, "ARCHITECTURE.md is a page to read first");
}

/// The comments of a file: what follows `//`, `///` or `//!`, or `#` in data files.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(i, line)| {
        let at = if line.trim_start().starts_with('#') { line.find('#') } else { line.find("//") };
        Some((i + 1, &line[at?..]))
    })
}

/// Sources, and data files whose comments name papers.
fn commented() -> Vec<(PathBuf, String)> {
    let mut data = Vec::new();
    files(&crate::root().join("crates/scenario/data"), "toml", &mut data);
    let data = data.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap()));
    sources().into_iter().chain(data).collect()
}

/// References such as `F.4`: a letter, a point and a number, by themselves.
fn lettered(comment: &str) -> Vec<String> {
    let words = comment.split(|c: char| !c.is_alphanumeric() && c != '.');
    let words = words.map(|word| word.trim_end_matches('.'));
    let is_reference = |word: &&str| {
        let (letter, number) = word.split_once('.').unwrap_or_default();
        letter.len() == 1
            && letter.chars().all(|c| c.is_ascii_uppercase())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    };
    words.filter(is_reference).map(str::to_owned).collect()
}

/// `algorithms.md F.4` in a comment is a heading of docs/algorithms.md, and a file that writes
/// `F.4` says once that it is one of these.
#[test]
fn lettered_sections_exist() {
    let algorithms = fs::read_to_string(crate::root().join("docs/algorithms.md")).unwrap();
    let headings: BTreeSet<&str> = algorithms
        .lines()
        .filter(|line| line.starts_with("##"))
        .filter_map(|line| line.trim_start_matches('#').split_whitespace().next())
        .collect();
    let mut problems = Vec::new();
    for (path, text) in commented() {
        if path.starts_with(crate::root().join("xtask")) {
            continue;
        }
        for (at, comment) in comments(&text) {
            let after = comment.split("algorithms.md ").skip(1).filter_map(|rest| {
                let word = rest.split(|c: char| !c.is_alphanumeric() && c != '.').next()?;
                Some(word.trim_end_matches('.').to_owned())
            });
            for section in lettered(comment).into_iter().chain(after) {
                if !headings.contains(section.as_str()) {
                    let path = short(&path);
                    problems.push(format!("{path}:{at}: no section {section} in algorithms.md"));
                } else if !text.contains("algorithms.md") {
                    problems.push(format!("{}:{at}: {section} of what?", short(&path)));
                }
            }
        }
    }
    none(&problems);
}

#[test]
fn lettered_references_are_found() {
    assert_eq!(lettered("// (B.8, 3) and D.7: not V.B, 1.5, A.b or x.F.4."), ["B.8", "D.7"]);
}

/// `section V.B` in a comment is one of the sections that docs/papers.md lists.
#[test]
fn sections_of_papers_are_listed() {
    let papers = fs::read_to_string(crate::root().join("docs/papers.md")).unwrap();
    let roman = |word: &str| {
        let number = word.split('.').next().unwrap_or_default();
        !number.is_empty() && number.chars().all(|c| "IVX".contains(c))
    };
    let list = papers.split("Sections that comments name:").nth(1).expect("the list of sections");
    let list = list.split("\n\n").next().unwrap();
    let listed: BTreeSet<&str> = list.split_whitespace().filter(|word| roman(word)).collect();
    assert!(listed.len() > 10, "{listed:?}");
    let mut problems = Vec::new();
    for (path, text) in commented() {
        for (at, comment) in comments(&text) {
            let lower = comment.replace("Section ", "section ");
            for rest in lower.split("section ").skip(1) {
                let word = rest.split(|c: char| !c.is_alphanumeric() && c != '.').next().unwrap();
                let word = word.trim_end_matches('.');
                if roman(word) && !listed.contains(word) {
                    problems.push(format!("{}:{at}: section {word} of what?", short(&path)));
                }
            }
        }
    }
    none(&problems);
}

/// Comments that name a document name one that is there, and its heading where they quote one:
/// `docs/guarantees.md, "What is assumed"`.
#[test]
fn comments_name_documents_that_exist() {
    let root = crate::root();
    let mut problems = Vec::new();
    for (path, text) in commented() {
        if path.starts_with(root.join("xtask/src/tidy")) {
            continue;
        }
        for (at, comment) in comments(&text) {
            for (found, _) in comment.match_indices("docs/") {
                let word: String = comment[found..]
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c))
                    .collect();
                let name = word.trim_end_matches('.');
                let place = root.join(name);
                if !name.ends_with(".md") || comment[..found].ends_with(['/', 'g']) {
                    continue;
                }
                let Ok(document) = fs::read_to_string(&place) else {
                    problems.push(format!("{}:{at}: no {name}", short(&path)));
                    continue;
                };
                let rest = comment[found + name.len()..].trim_start_matches('`');
                let quoted = rest.strip_prefix(", \"").and_then(|rest| rest.split_once('"'));
                let missing = quoted.filter(|(title, _)| {
                    !document.lines().any(|line| line.starts_with('#') && line.contains(title))
                });
                if let Some((title, _)) = missing {
                    problems.push(format!("{}:{at}: {name} has no \"{title}\"", short(&path)));
                }
            }
        }
    }
    none(&problems);
}

/// Words for documents that the repository does not contain.
#[test]
fn nothing_refers_to_what_is_not_here() {
    let banned =
        ["s|pec ", "the s|pec", "live n|otes", "memory-m|odel", "of the i|ssue", "house-|2"];
    let banned = banned.map(|word| word.replace('|', ""));
    let mut problems = Vec::new();
    for (path, text) in commented() {
        for (at, comment) in comments(&text) {
            let lower = comment.to_lowercase().replace("spec cpu", "").replace("spec program", "");
            for word in banned.iter().filter(|word| lower.contains(word.as_str())) {
                problems.push(format!("{}:{at}: what is `{}`?", short(&path), word.trim()));
            }
        }
    }
    none(&problems);
}

/// Words in back quotes that look like a file of ours or, after `::`, like a test of ours.
#[test]
fn documents_name_what_exists() {
    let root = crate::root();
    let code: Vec<(PathBuf, String)> = sources();
    let mut problems = Vec::new();
    for (document, text) in documents(&crate::root()) {
        for quoted in text.split('`').skip(1).step_by(2) {
            let (path, test) =
                quoted.split_once("::").map_or((quoted, None), |(p, t)| (p, Some(t)));
            let ours = ["crates/", "tests/", "docs/", "examples/", "xtask/"];
            if !ours.iter().any(|start| path.starts_with(start)) || path.contains(['*', ' ', '<']) {
                continue;
            }
            let target = root.join(path);
            if !target.exists() {
                problems.push(format!("{} names `{path}`, which is not there", short(&document)));
            } else if let Some(test) = test {
                let name = test.rsplit("::").next().unwrap();
                let found = code.iter().any(|(file, text)| {
                    file.starts_with(&target) && text.contains(&format!("fn {name}("))
                });
                if !found {
                    problems.push(format!("{} names `{quoted}`: no such test", short(&document)));
                }
            }
        }
    }
    none(&problems);
}

/// CONTRIBUTING.md ends at round-robin: whatever code it shows stands in that file.
#[test]
fn the_guide_ends_at_round_robin() {
    let guide = fs::read_to_string(crate::root().join("CONTRIBUTING.md")).unwrap();
    let file = crate::root().join("crates/policies/src/round_robin.rs");
    let policy = fs::read_to_string(file).unwrap();
    let there: BTreeSet<&str> = policy.lines().collect();
    let blocks: Vec<&str> = guide.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 6, "only {} code blocks", blocks.len());
    let shown = blocks.iter().flat_map(|block| block.split("```").next().unwrap().lines());
    let missing = shown.filter(|line| !there.contains(line));
    none(&missing.map(|line| format!("not in round_robin.rs: {line}")).collect::<Vec<_>>());
}
