//! The commands that the documents show are commands that exist, with the options they show, and
//! those that need no rights are run.

mod common;

use common::{Scratch, maracas, repository, text};
use std::collections::BTreeMap;

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
        "docs/tasksets.md",
        "docs/formats.md",
        "docs/sweep.md",
        "docs/overheads.md",
        "docs/uneven.md",
        "docs/top.md",
        "docs/report.md",
        "docs/live-memory.md",
        "docs/sensing.md",
        "docs/doctor.md",
        "docs/colors.md",
        "docs/balance.md",
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

/// A document's stand-ins, as real files of the scratch directory or the repository. `before` is
/// the word before, which says what kind of file it is.
fn filled(command: &str, before: &str, word: &str) -> String {
    let example = |name: &str| repository().join("examples").join(name).display().to_string();
    match (command, before, word) {
        ("convert", _, "FILE") | (_, "--taskset", "FILE" | "FILE.csv") => "tasks.csv".into(),
        (_, "--cpmd", "TABLE.csv") => "delays.csv".into(),
        (_, _, "FILE") => example("quickstart.toml"),
        (_, _, "\"$file\"") => example("periodic.toml"),
        (_, _, "NAME" | "$policy") => "p-edf".into(),
        (_, _, "M") => "2".into(),
        (_, "--seed", "SEED") => "7".into(),
        // Sweeps are cut down, in the scratch directory.
        (_, _, other) => match other.strip_prefix("examples/") {
            Some(name) if !name.starts_with("sweeps/") => example(name),
            Some(_) | None => other.into(),
        },
    }
}

/// The files behind the stand-ins. The sweep is cut down to a moment.
fn write_stand_ins(scratch: &Scratch) {
    scratch.write("tasks.csv", "cost_us,period_us\n1000,10000\n2000,20000\n");
    scratch.write("TABLE.csv", "TASK-COUNT,RELEASE,SCHEDULE,CXS\n10,1.2,2.5,1.1\n40,2.1,4,1.4\n");
    scratch.write("delays.csv", "WSS,MEM,L3\n1024,100,50\n4096,400,400\n");
    let sweep = "examples/sweeps/optimal.toml";
    let whole = std::fs::read_to_string(repository().join(sweep)).unwrap();
    let (few, short) = ("sets = 2 ", "duration = \"100ms\"");
    let cut = whole.replace("sets = 50", few).replace("duration = \"2s\"", short);
    assert!(cut.contains(few) && cut.contains(short), "{sweep} is another one: {whole}");
    std::fs::create_dir_all(scratch.path().join("examples/sweeps")).unwrap();
    scratch.write(sweep, cut);
}

/// Whether a command needs no rights, and what is shown of it is all that it needs: sentences
/// leave things out, as `maracas check --machine live` leaves out the file.
fn can_run(words: &[String]) -> bool {
    let shown = |word: &str| words.iter().any(|shown| shown == word);
    let named = words.get(1).is_some_and(|word| !word.starts_with("--"));
    match words[0].as_str() {
        "policies" => true,
        "gantt" => words.get(1).is_some_and(|word| word.ends_with(".journal")),
        "report" => shown("examples/periodic.toml"),
        "check" | "sim" | "tree" => named || shown("--taskset") && shown("--policy"),
        "generate" => shown("--cores"),
        "convert" => shown("--to"),
        "sweep" => shown("--out"),
        _ => false,
    }
}

#[test]
fn every_command_in_the_documents_exists() {
    let found = commands();
    assert!(found.len() >= 10, "only {} commands found: {found:?}", found.len());
    // Each document has a directory of its own: what one command there writes another reads.
    let mut scratches = BTreeMap::new();
    for (document, words) in found {
        let scratch = scratches.entry(document.clone()).or_insert_with(|| {
            let scratch = Scratch::new();
            write_stand_ins(&scratch);
            scratch
        });
        let runs = can_run(&words);
        let arguments: Vec<String> = if runs {
            let before = [""].into_iter().chain(words.iter().map(String::as_str));
            words.iter().zip(before).map(|(word, last)| filled(&words[0], last, word)).collect()
        } else {
            let named = words.iter().take_while(|w| w.chars().all(|c| c.is_ascii_lowercase()));
            named.cloned().chain(["--help".to_string()]).collect()
        };
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = maracas(scratch.path(), &arguments);
        let shown = format!("{document} shows `maracas {}`; run as {arguments:?}", words.join(" "));
        assert!(output.status.success(), "{shown}: {}", text(&output.stderr));
        let help = text(&output.stdout);
        let unknown = words.iter().find(|word| word.starts_with("--") && !help.contains(*word));
        assert!(runs || unknown.is_none(), "{shown}, which has no {unknown:?}");
    }
}
