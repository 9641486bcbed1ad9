//! `cargo xtask new-policy NAME`: one file and one word, and the policy is everywhere.

use std::fs;
use std::path::Path;

/// Lower-case words that no module can have (the Rust reference, "Keywords"), and crates in scope.
const KEYWORDS: &[&str] = &[
    "abstract", "alloc", "as", "async", "await", "become", "box", "break", "const", "continue",
    "core", "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen",
    "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "parts",
    "priv", "pub", "ref", "return", "self", "static", "std", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// The line in the register above which new words go.
const ANCHOR: &str = "// new-policy:";

/// Writes `crates/policies/src/NAME.rs` from the template and its word into the register.
///
/// # Errors
/// A bad or taken name, or a register without the anchor line; nothing is written then.
pub(crate) fn create(root: &Path, name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(good) {
        return Err(format!("`{name}`: a policy's name is lower-case words joined by `-`"));
    }
    let module = name.replace('-', "_");
    if KEYWORDS.contains(&module.as_str()) {
        return Err(format!("`{name}` is a word of the language; choose another"));
    }
    let source = root.join("crates/policies/src");
    let file = source.join(format!("{module}.rs"));
    for taken in [&file, &source.join(&module)] {
        if taken.exists() {
            return Err(format!("`{name}` exists: {}", taken.display()));
        }
    }
    let register = source.join("lib.rs");
    let text = fs::read_to_string(&register).map_err(|e| format!("{}: {e}", register.display()))?;
    let edited = insert_word(&text, &module)?;
    fs::write(&file, TEMPLATE.replace("@NAME@", name))
        .and_then(|()| fs::write(&register, edited))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(format!(
        "crates/policies/src/{module}.rs is written and registered as `{name}`.\n\
         Now: cargo run --release -- sim examples/periodic.toml --policy {name}\n\
         and: UPDATE_GOLDEN=1 cargo test --package maracas-tests --test golden\n\
         and: cargo test --package maracas-tests"
    ))
}

/// Puts `module` into the list that follows the anchor line, in alphabetical order.
fn insert_word(text: &str, module: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let anchor = lines.iter().position(|line| line.trim_start().starts_with(ANCHOR));
    let anchor = anchor.ok_or_else(|| format!("crates/policies/src/lib.rs: no `{ANCHOR}` line"))?;
    let end = lines[anchor + 1..].iter().position(|line| line.trim() == "}");
    let end = anchor + 1 + end.ok_or("crates/policies/src/lib.rs: the register does not end")?;
    let place = (anchor + 1..end).find(|i| lines[*i].trim() > module).unwrap_or(end);
    let indent: String = lines[anchor].chars().take_while(|c| *c == ' ').collect();
    lines.insert(place, format!("{indent}{module}"));
    Ok(lines.join("\n") + "\n")
}

const TEMPLATE: &str = include_str!("template.rs.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_in_order() {
        let text = "policies! {\n    // new-policy: one word a line.\n    g_edf\n    p_rm\n}\n";
        let edited = insert_word(text, "p_edf").unwrap();
        assert!(edited.contains("    g_edf\n    p_edf\n    p_rm\n}"), "{edited}");
        assert!(insert_word("nothing", "p_edf").is_err());
    }

    #[test]
    fn bad_and_taken_names_are_refused() {
        let root = crate::root();
        assert!(create(&root, "Fancy").unwrap_err().contains("lower-case"));
        assert!(create(&root, "self").unwrap_err().contains("word of the language"));
        assert!(create(&root, "p-edf").unwrap_err().contains("exists"));
    }
}
