//! The style rules of the project, as tests: lengths, headings, floors, and documents that name
//! what exists.

mod documents;
mod structs;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files under 600 lines, functions that fit a screen (CONTRIBUTING.md, "How we write").
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// The rooms that import nothing but other rooms.
const ALONE: &[&str] = &["core", "policies", "live-core"];
/// Which room may import which (ARCHITECTURE.md, "Rooms"). Rooms of one floor never meet.
const FLOORS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("policies", &["maracas-core"]),
    ("sim", &["maracas-core"]),
    ("live-core", &["maracas-core"]),
    ("kernel", &[]),
    ("live", &["maracas-core", "maracas-kernel", "maracas-live-core"]),
    ("client", &["maracas-core"]),
    ("trace", &["maracas-core"]),
    ("scenario", &["maracas-core"]),
    (
        "sweep",
        &["maracas-core", "maracas-policies", "maracas-scenario", "maracas-sim", "maracas-trace"],
    ),
    (
        "reproduce",
        &[
            "maracas-core",
            "maracas-policies",
            "maracas-scenario",
            "maracas-sim",
            "maracas-sweep",
            "maracas-trace",
        ],
    ),
    ("stopwatch", &["maracas-core", "maracas-sweep"]),
    ("console", &["maracas-core", "maracas-scenario", "maracas-trace"]),
    ("work", &["maracas-client", "maracas-console", "maracas-core"]),
    (
        "session",
        &[
            "maracas-client",
            "maracas-console",
            "maracas-core",
            "maracas-live",
            "maracas-policies",
            "maracas-scenario",
            "maracas-sim",
            "maracas-trace",
        ],
    ),
    (
        "studies",
        &[
            "maracas-client",
            "maracas-console",
            "maracas-core",
            "maracas-live",
            "maracas-policies",
            "maracas-scenario",
            "maracas-session",
            "maracas-sim",
            "maracas-stopwatch",
            "maracas-sweep",
            "maracas-trace",
            "maracas-work",
        ],
    ),
];

/// The headings that open a policy file, in order.
const HEADINGS: &[&str] =
    &["# Paper", "# Model", "# How it works", "# Invariants", "# Where we differ"];

fn files(under: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(under).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for room in ["crates", "tests", "xtask"] {
        files(&crate::root().join(room), "rs", &mut found);
    }
    assert!(found.len() > 20, "tidy looks in the wrong place: {} files", found.len());
    found.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap())).collect()
}

fn short(path: &Path) -> String {
    path.strip_prefix(crate::root()).unwrap().display().to_string()
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn files_lines_and_functions_are_short() {
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            problems.push(format!("{}: {lines} lines, {FILE_LINES_MAX} may be", short(&path)));
        }
        for (i, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !line.contains("http") {
                problems.push(format!("{}:{}: {columns} columns", short(&path), i + 1));
            }
        }
        for (at, length) in long_functions(&text) {
            problems.push(format!("{}:{at}: a function of {length} lines", short(&path)));
        }
    }
    none(&problems);
}

/// Where a formatted file has functions that are too long: rustfmt closes a function by a brace
/// at the column where `fn`'s line began.
fn long_functions(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (i, line) in text.lines().enumerate() {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let code = line.trim_start();
        let is_fn = ["fn ", "pub fn ", "pub(", "const fn ", "pub const fn ", "unsafe fn "]
            .iter()
            .any(|start| code.starts_with(start))
            && code.contains("fn ");
        match &open {
            None if is_fn && !code.ends_with(';') && !code.ends_with('}') => {
                open = Some((i, indent));
            }
            Some((start, begun)) if *begun == indent && code.starts_with('}') => {
                if i - start + 1 > FUNCTION_LINES_MAX {
                    found.push((start + 1, i - start + 1));
                }
                open = None;
            }
            _ => {}
        }
    }
    found
}

#[test]
fn long_functions_are_found() {
    let body = "    x();\n".repeat(70);
    assert_eq!(long_functions(&format!("fn f() {{\n{body}}}\n")), [(1, 72)]);
    assert_eq!(long_functions("fn f() {\n    x();\n}\n"), []);
}

#[test]
fn nothing_unfinished_stands_in_the_code() {
    let banned = ["#[ig|nore", "#[should|_panic", "to|do!(", "unimpl|emented!(", "FIX|ME", "XX|X"];
    let banned: Vec<String> = banned.iter().map(|word| word.replace('|', "")).collect();
    let mut problems = Vec::new();
    for (path, text) in sources() {
        for word in banned.iter().filter(|word| text.contains(word.as_str())) {
            problems.push(format!("{}: contains `{word}`", short(&path)));
        }
    }
    none(&problems);
}

#[test]
fn arrows_point_one_way() {
    let mut problems = Vec::new();
    for (room, allowed) in FLOORS {
        let manifest = crate::root().join("crates").join(room).join("Cargo.toml");
        let text = fs::read_to_string(manifest).unwrap();
        let normal = text.split("[dependencies]").nth(1).unwrap_or("");
        let normal = normal.split("\n[").next().unwrap_or("");
        for line in normal.lines().filter(|line| line.starts_with("maracas")) {
            let name = line.split(['.', ' ', '=']).next().unwrap();
            if !allowed.contains(&name) {
                problems.push(format!("crates/{room} may not import {name}"));
            }
        }
    }
    for room in ALONE {
        let manifest = crate::root().join("crates").join(room).join("Cargo.toml");
        let text = fs::read_to_string(manifest).unwrap();
        let normal = text.split("[dependencies]").nth(1).unwrap_or("");
        let normal = normal.split("\n[").next().unwrap_or("").lines();
        let others = normal.filter(|line| {
            !line.is_empty() && !line.starts_with('#') && !line.starts_with("maracas")
        });
        problems.extend(others.map(|line| format!("crates/{room} may not import `{line}`")));
    }
    none(&problems);
}

/// The state of a live core reaches the host through its executor alone, in all that is not a test.
#[test]
fn the_state_of_a_live_core_calls_no_kernel() {
    let banned = ["fs", "thread", "time", "sync", "os", "process", "net", "env", "arch"];
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let file = short(&path);
        if !file.starts_with("crates/live-core/src") {
            continue;
        }
        for (i, line) in text.lines().map(str::trim_start).enumerate() {
            let reaches = banned.iter().any(|module| line.contains(&format!("std::{module}")));
            let is_unsafe = line.contains(&["unsafe", " {"].concat());
            if !line.starts_with("//") && (reaches || is_unsafe) {
                problems.push(format!("{file}:{}: {line}", i + 1));
            }
        }
    }
    none(&problems);
}

#[test]
fn policy_files_open_with_the_headings() {
    let policies = crate::root().join("crates/policies/src");
    let register = fs::read_to_string(policies.join("lib.rs")).unwrap();
    let words = register.split("// new-policy:").nth(1).expect("the register has its anchor");
    let words: Vec<&str> =
        words.lines().skip(1).map(str::trim).take_while(|line| *line != "}").collect();
    assert!(words.len() >= 4, "{words:?}");
    let mut problems = Vec::new();
    for word in words {
        // `folder::policy` where several share a folder.
        let place = policies.join(word.replace("::", "/"));
        let file = place.with_extension("rs");
        let file = if file.exists() { file } else { place.join("mod.rs") };
        let text = fs::read_to_string(&file).unwrap();
        let head: Vec<&str> = text.lines().take_while(|line| line.starts_with("//!")).collect();
        let head = head.join("\n");
        let mut from = 0;
        for heading in HEADINGS {
            match head[from..].find(heading) {
                Some(at) => from += at,
                None => problems.push(format!("{}: no `{heading}` in order", short(&file))),
            }
        }
    }
    none(&problems);
}

#[test]
fn every_algorithm_in_the_code_has_its_row_in_the_papers() {
    let papers = fs::read_to_string(crate::root().join("docs/papers.md")).unwrap();
    let mut named = BTreeSet::new();
    for (path, text) in sources().iter().filter(|(p, _)| short(p).starts_with("crates/policies")) {
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            for after in line.split("Algorithm ").skip(1) {
                let number: String = after.chars().take_while(char::is_ascii_digit).collect();
                if !number.is_empty() {
                    named.insert((number, short(path)));
                }
            }
        }
    }
    let rows: Vec<&str> = papers.lines().filter(|line| line.starts_with('|')).collect();
    let missing: Vec<String> = named
        .iter()
        .filter(|(number, file)| {
            let row = format!("Algorithm {number}");
            !rows.iter().any(|line| line.contains(&row) && line.contains(file.as_str()))
        })
        .map(|(number, file)| format!("docs/papers.md has no row for Algorithm {number} in {file}"))
        .collect();
    none(&missing);
}

/// The project speaks of the project alone.
#[test]
fn no_machine_paths() {
    let root = crate::root();
    let mut found = Vec::new();
    for extension in ["md", "rs", "toml", "h"] {
        files(&root, extension, &mut found);
    }
    let banned = ["/ro|ot/", "/wo|rk/", "/ho|me/"].map(|word| word.replace('|', ""));
    let mut problems = Vec::new();
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for word in banned.iter().filter(|word| text.contains(word.as_str())) {
            problems.push(format!("{}: contains `{word}`", short(&path)));
        }
    }
    none(&problems);
}

/// The crates whose sources may contain `unsafe` code; all other libraries forbid it.
const UNSAFE: &[&str] = &["crates/cli", "crates/client", "crates/kernel", "crates/live", "tests"];
/// ARCHITECTURE.md names these in the sentence that begins so.
const UNSAFE_SENTENCE: &str = "`unsafe` code stands in ";

#[test]
fn unsafe_code_stands_where_the_architecture_says() {
    let text = fs::read_to_string(crate::root().join("ARCHITECTURE.md")).unwrap();
    let sentence = text.split(UNSAFE_SENTENCE).nth(1).expect("the sentence is there");
    let sentence = sentence.split("nowhere else").next().unwrap();
    let named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    let forms = ["{", "fn", "impl", "extern"].map(|form| format!("unsafe {form}"));
    let mut found = BTreeSet::new();
    let mut problems = Vec::new();
    for (path, text) in sources() {
        let path = short(&path);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let has = code.into_iter().any(|line| forms.iter().any(|form| line.contains(form)));
        if !has || path.starts_with("xtask") {
            continue;
        }
        let room = UNSAFE.iter().find(|room| path.starts_with(&format!("{room}/")));
        match room {
            Some(room) => drop(found.insert(*room)),
            None => problems.push(format!("{path} has unsafe code, ARCHITECTURE.md forbids it")),
        }
    }
    for room in fs::read_dir(crate::root().join("crates")).unwrap().flatten() {
        let name = format!("crates/{}", room.file_name().to_string_lossy());
        let lib = fs::read_to_string(room.path().join("src/lib.rs")).unwrap_or_default();
        if !UNSAFE.contains(&name.as_str()) && !lib.contains("#![forbid(unsafe_code)]") {
            problems.push(format!("{name}/src/lib.rs does not forbid unsafe code"));
        }
        // The rooms that may have it in tests alone.
        let main = fs::read_to_string(room.path().join("src/main.rs"));
        if main.is_ok_and(|main| !main.contains("#![forbid(unsafe_code)]")) {
            problems.push(format!("{name}/src/main.rs does not forbid unsafe code"));
        }
    }
    let mut named: Vec<&str> = named.into_iter().collect();
    named.sort_unstable();
    assert_eq!(named, found.into_iter().collect::<Vec<_>>(), "the sentence and the sources differ");
    none(&problems);
}
