//! Sentences that hold or not, as benches end with them.

use maracas_console::output::{Paint, paint};
use serde_json::{Value, json};

/// A sentence that holds or not.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Verdict {
    /// A word for programs.
    pub(super) name: &'static str,
    pub(super) holds: bool,
    /// What was asked, and the number that decided.
    pub(super) text: String,
}

/// A line for each.
pub(super) fn text(verdicts: &[Verdict]) -> String {
    let line = |Verdict { holds, text, .. }: &Verdict| {
        let word = if *holds { paint(Paint::Good, "yes") } else { paint(Paint::Bad, "NO ") };
        format!("{word}  {text}\n")
    };
    verdicts.iter().map(line).collect()
}

/// The same for programs.
pub(super) fn to_json(verdicts: &[Verdict]) -> Value {
    verdicts.iter().map(one).collect()
}

fn one(Verdict { name, holds, text }: &Verdict) -> Value {
    json!({ "name": name, "holds": holds, "text": text })
}

/// Whether all of them hold.
pub(super) fn hold(verdicts: &[Verdict]) -> bool {
    verdicts.iter().all(|verdict| verdict.holds)
}
