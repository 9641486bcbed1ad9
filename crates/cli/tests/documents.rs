//! The commands that the documents show are commands that exist, and those that need no rights
//! are run.

mod common;

use common::{Scratch, maracas, repository, text};

/// Every `maracas ...` that stands between back quotes, or on a line of its own in a code block,
/// with where it stands.
fn commands() -> Vec<(String, Vec<String>)> {
    let documents = [
        "README.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "docs/scenario.md",
        "docs/guarantees.md",
        "docs/output.md",
    ];
    let mut found = Vec::new();
    for document in documents {
        let content = std::fs::read_to_string(repository().join(document)).unwrap();
        let quoted = content.split('`').skip(1).step_by(2);
        let lines = content.lines().map(str::trim);
        for snippet in quoted.chain(lines) {
            let snippet = snippet
                .strip_prefix("cargo run --release -- ")
                .map(str::to_string)
                .or_else(|| snippet.strip_prefix("maracas ").map(str::to_string));
            let Some(snippet) = snippet.filter(|s| !s.contains('\n')) else { continue };
            let command = snippet.split(" | ").next().unwrap_or_default();
            let words: Vec<String> = command
                .split_whitespace()
                .take_while(|word| *word != "|")
                .map(String::from)
                .collect();
            if !words.is_empty() {
                found.push((document.to_string(), words));
            }
        }
    }
    found
}

/// A document's stand-ins, as real files.
fn filled(word: &str) -> String {
    let root = repository();
    match word {
        "FILE" | "examples/quickstart.toml" => root.join("examples/quickstart.toml"),
        "examples/periodic.toml" => root.join("examples/periodic.toml"),
        "FILE.csv" => return "tasks.csv".into(),
        "NAME" | "$policy" => return "p-edf".into(),
        "M" => return "2".into(),
        other => return other.into(),
    }
    .display()
    .to_string()
}

#[test]
fn every_command_in_the_documents_exists() {
    let scratch = Scratch::new();
    scratch.write("tasks.csv", "cost_us,period_us\n1000,10000\n2000,20000\n");
    let found = commands();
    assert!(found.len() >= 10, "only {} commands found: {found:?}", found.len());
    for (document, words) in found {
        let pure = matches!(words[0].as_str(), "check" | "sim" | "policies");
        // `maracas check --machine live` in a sentence leaves out the file.
        let named = words.get(1).is_some_and(|word| !word.starts_with("--"));
        let complete = named || words[0] == "policies";
        let arguments: Vec<String> = if pure && complete && !words.contains(&"--policy".into())
            || words.contains(&"--taskset".into())
            || pure && words.iter().any(|word| word.ends_with(".toml"))
        {
            words.iter().map(|word| filled(word)).collect()
        } else {
            let named = words.iter().take_while(|w| w.chars().all(|c| c.is_ascii_lowercase()));
            named.cloned().chain(["--help".to_string()]).collect()
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = maracas(scratch.path(), &arguments);
        assert!(
            output.status.success(),
            "{document} shows `maracas {}`; run as {arguments:?}: {}",
            words.join(" "),
            text(&output.stderr)
        );
    }
}
