//! Words that the project no longer uses (ARCHITECTURE.md, "Words"): one meaning a word, one word a
//! meaning.

use super::{files, none, short, sources};
use crate::root;
use std::fs;

/// Retired words, split by `|` so that this file may name them, and what is said instead. They are
/// parts of identifiers, whatever their case, and words of comments and documents.
const RETIRED: &[(&str, &str)] = &[
    ("sti|nt", "segment"),
    ("err|and", "service request"),
    ("carr|ier", "service VCPU"),
    ("coun|cil", "agents"),
    ("bra|in", "decider"),
    ("hu|sh", "acknowledge"),
    ("hea|rts", "heartbeats"),
    ("kee|per", "supervisor"),
    ("bra|ke", "freeze thread"),
    ("val|ve", "bandwidth limiter"),
    ("trip|wire", "wake detector"),
    ("ru|ng", "sensor, or level of support"),
    ("lad|der", "preference"),
    ("line_m|ut", "run_queue_mut"),
    ("mark_rea|ched", "LimitReached"),
    ("unse|at", "free_slot, or detach"),
    ("nob|ody", "no thread, no VCPU, nothing"),
    ("anyb|ody", "any thread, any VCPU"),
    ("someb|ody", "a thread, another program"),
    ("everyb|ody", "all"),
    ("whoe|ver", "the thread that, what"),
    ("wh|om", "which"),
    ("sh|all", "is to, must"),
    ("h|e", "it"),
    ("h|is", "its"),
    ("h|im", "it"),
    ("de|af", "muted"),
    ("hea|r", "receive, learn, be reported"),
    ("hea|rd", "received, learnt, reported"),
];

/// The words of a text, with what joins their parts on both sides: `ServiceRequest` is
/// `_service_request_`.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|it| !it.is_empty()).map(
        |word| {
            let mut snake = String::from("_");
            let mut before = '_';
            for c in word.chars() {
                if c.is_ascii_uppercase() && before.is_ascii_lowercase() {
                    snake.push('_');
                }
                snake.push(c.to_ascii_lowercase());
                before = c;
            }
            snake.push('_');
            snake
        },
    )
}

/// A retired word and its plural as parts of what [`words`] returns.
fn parts(retired: &str) -> [String; 2] {
    [format!("_{retired}_"), format!("_{retired}s_")]
}

/// Whether `word`, of [`words`], has one of `parts`.
fn has(word: &str, parts: &[String; 2]) -> bool {
    parts.iter().any(|part| word.contains(part))
}

#[test]
fn retired_words_stay_away() {
    let retired: Vec<_> =
        RETIRED.iter().map(|(word, now)| (parts(&word.replace('|', "")), now)).collect();
    // The user of that name, in quotes.
    let user = ["\"", "`"].map(|quote| format!("{quote}nob{}", "ody"));
    let mut texts = sources();
    let mut documents = Vec::new();
    files(&crate::root().join("docs"), "md", &mut documents);
    documents.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|it| root().join(it)));
    texts.extend(documents.into_iter().map(|it| (it.clone(), fs::read_to_string(it).unwrap())));
    let mut problems = Vec::new();
    for (path, text) in texts {
        for (i, line) in text.lines().enumerate() {
            let line = line.replace(&user[0], "").replace(&user[1], "");
            for word in words(&line) {
                let found = retired.iter().find(|(parts, _)| has(&word, parts));
                if let Some((parts, now)) = found {
                    let (at, retired) = (short(&path), parts[0].trim_matches('_'));
                    problems.push(format!("{at}:{}: `{retired}` is now {now}", i + 1));
                }
            }
        }
    }
    none(&problems);
}

#[test]
fn retired_words_are_found() {
    let found = |text: &str, retired: &str| words(text).any(|word| has(&word, &parts(retired)));
    assert!(found("fn EndOfFoo()", "foo") && found("no_foos", "foo") && found("A foo.", "foo"));
    assert!(!found("food, a footing", "foo"));
}
