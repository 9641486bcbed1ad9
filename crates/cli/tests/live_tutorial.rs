//! The commands of the engineer's tutorial, in order and as the page shows them, print what it
//! says.
//!
//! A comment above a block says what it is: `<!-- file: NAME -->` a file to save, `<!-- output -->`
//! what the commands above print, of which `...` leaves lines out; in
//! `<!-- output: the first N words of each line -->` the others belong to the host.
//! `crates/python/tests/test_tutorial.py` does the same with the researcher's.
//!
//! The live steps need a host where budgets are enforced in full (`maracas doctor`).

mod common;
mod live;

use common::{Scratch, repository, text};
use live::bounds::kill_at_limit;
use live::witness::repeated;
use live::{BROKEN, Stage};
use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = "docs/tutorial-engineer.md";

/// What the page has its reader do.
enum Step {
    /// Save a file of this name.
    File(String, String),
    /// Run these commands.
    Commands(String),
    /// See that they printed this, of each line so many words.
    Output(String, Option<usize>),
}

/// The steps of the page. Every block of it is one.
fn steps() -> Vec<Step> {
    let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
    let pieces: Vec<_> = page.split("```").collect();
    let blocks = pieces.chunks_exact(2).map(|it| (it[0], it[1].split_once('\n').unwrap()));
    blocks
        .map(|(before, (language, block))| {
            let comment = before.trim_end().lines().last().unwrap_or_default();
            let comment = comment.strip_prefix("<!-- ").and_then(|it| it.strip_suffix(" -->"));
            let block = block.to_string();
            match (language, comment) {
                ("sh", None) => Step::Commands(block),
                ("text", Some(said)) => {
                    let words = said.strip_prefix("output").unwrap();
                    let number = words.split(' ').find_map(|word| word.parse().ok());
                    Step::Output(block, number)
                }
                (_, Some(said)) => Step::File(said.strip_prefix("file: ").unwrap().into(), block),
                _ => panic!("{PAGE}: a block of `{language}` and no comment above it"),
            }
        })
        .collect()
}

/// What is compared of a line: all of it, or its first words. A promise that this host did not keep
/// is the host's, and another test's.
fn compared(line: &str, words: Option<usize>) -> String {
    let Some(words) = words else { return line.into() };
    let verdict = ["kept:", "NOT KEPT:", "not judged:"].iter().any(|it| line.starts_with(it));
    if verdict { "...".into() } else { first(line, words) }
}

fn first(line: &str, words: usize) -> String {
    line.split_whitespace().take(words).collect::<Vec<_>>().join(" ")
}

/// Whether lines are those shown, where `...` stands for any number of them.
fn same(printed: &[String], shown: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((dots, rest)) if dots == "..." => {
            (0..=printed.len()).any(|from| same(&printed[from..], rest))
        }
        Some((line, rest)) => printed.first() == Some(line) && same(&printed[1..], rest),
    }
}

/// Runs a block in a shell; what it printed. A run may end with a promise that was not kept.
fn run(folder: &Path, commands: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_maracas")).parent().unwrap().to_path_buf();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([binary].into_iter().chain(env::split_paths(&path))).unwrap();
    let child = Command::new("sh")
        .args(["-e", "-c", commands])
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("MARACAS_SOCKET")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _limit = kill_at_limit(&child);
    let output = child.wait_with_output().unwrap();
    let is_live = commands.contains("maracas run");
    let code = output.status.code().filter(|code| *code == 0 || is_live && *code == BROKEN);
    assert!(code.is_some(), "{commands}{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Does what the page says, and compares.
fn follow(folder: &Path, steps: &[Step]) -> usize {
    let (mut printed, mut compared_lines) = (String::new(), 0);
    for step in steps {
        match step {
            Step::File(name, content) => std::fs::write(folder.join(name), content).unwrap(),
            Step::Commands(commands) => printed = run(folder, commands),
            Step::Output(shown, words) => {
                let lines = |text: &str| -> Vec<_> {
                    text.lines().map(|line| compared(line, *words)).collect()
                };
                let (there, wanted) = (lines(&printed), lines(shown));
                assert!(same(&there, &wanted), "{PAGE} shows\n{shown}\nand not\n{printed}");
                compared_lines += wanted.len();
            }
        }
    }
    compared_lines
}

#[test]
fn what_needs_no_rights_prints_what_the_page_says() {
    let steps = steps();
    let live = |step: &Step| matches!(step, Step::Commands(it) if it.contains("maracas run"));
    let before = steps.iter().position(live).expect("it runs something");
    let scratch = Scratch::new();
    assert!(follow(scratch.path(), &steps[..before]) >= 20);
    let picture = std::fs::read(scratch.path().join("schedule.svg")).unwrap();
    let kept = std::fs::read(repository().join("docs/figures/tutorial-engineer.svg")).unwrap();
    assert!(picture == kept, "docs/figures/tutorial-engineer.svg is another picture");
}

#[test]
fn all_of_the_page_works_on_this_host() {
    repeated(|| {
        let Some(stage) = Stage::enter(2, 20) else { return };
        assert!(follow(stage.scratch.path(), &steps()) >= 25);
        assert!(std::fs::metadata(stage.file("report.html")).unwrap().len() > 10_000);
    });
}

#[test]
fn dots_leave_lines_out() {
    let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
    let shown = lines("a 1\n...\nd");
    assert!(same(&lines("a 1\nb\nc\nd"), &shown) && same(&lines("a 1\nd"), &shown));
    assert!(!same(&lines("a 1\nd\ne"), &shown) && !same(&lines("a 2\nd"), &shown));
    let table = |word| compared(&format!("{word}  2ms/10ms  1.2ms"), Some(2));
    assert_eq!((table("a"), table("NOT KEPT:")), ("a 2ms/10ms".into(), "...".into()));
}
