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

/// Puts `module` into the list that follows the anchor line, where its policy's name belongs.
fn insert_word(text: &str, module: &str) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    let anchor = lines.iter().position(|line| line.trim_start().starts_with(ANCHOR));
    let anchor = anchor.ok_or_else(|| format!("crates/policies/src/lib.rs: no `{ANCHOR}` line"))?;
    let end = lines[anchor + 1..].iter().position(|line| line.trim() == "}");
    let end = anchor + 1 + end.ok_or("crates/policies/src/lib.rs: the register does not end")?;
    let after = |line: &String| name_of(line) > name_of(module);
    let place = (anchor + 1..end).find(|i| after(&lines[*i])).unwrap_or(end);
    let indent: String = lines[anchor].chars().take_while(|c| *c == ' ').collect();
    lines.insert(place, format!("{indent}{module}"));
    Ok(lines.join("\n") + "\n")
}

/// The name by which users know the policy of a register's word, `folder::policy` or `policy`.
fn name_of(word: &str) -> String {
    word.trim().rsplit("::").next().unwrap_or_default().replace('_', "-")
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

    /// The real register keeps its order with a name of any first letter, also where the present
    /// words stand in folders: the binary search of names relies on it.
    #[test]
    fn names_of_every_letter_go_in_order() {
        let register = crate::root().join("crates/policies/src/lib.rs");
        let text = fs::read_to_string(register).unwrap();
        for name in names() {
            let edited = insert_word(&text, &name.replace('-', "_")).unwrap();
            let words = edited.split(ANCHOR).nth(1).unwrap().lines().skip(1);
            let words: Vec<String> = words.take_while(|line| *line != "}").map(name_of).collect();
            assert!(words.contains(&name), "{words:?}");
            assert!(words.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {words:?}");
        }
    }

    /// Names of every first letter, before and after what is there.
    fn names() -> impl Iterator<Item = String> {
        let ends = ["", "-1", "turns", "-turns", "zz"];
        ('a'..='z').flat_map(move |first| ends.map(|end| format!("{first}{end}")))
    }

    /// CONTRIBUTING.md, step 1, in a copy of the two crates that it touches: whatever the first
    /// letter, what is written compiles and is found under its name.
    #[test]
    fn policies_of_every_letter_are_built_and_found() {
        let root = crate::root().join("target/new-policy");
        copy_crates(&root);
        let names: Vec<String> = ('a'..='z').map(|first| format!("{first}-turns")).collect();
        for name in &names {
            create(&root, name).unwrap();
        }
        let main = format!(
            "fn main() {{\n    let all = maracas_policies::ENTRIES;\n    \
             assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));\n    \
             for name in {names:?} {{\n        \
             assert!(maracas_policies::find(name).is_some(), \"{{name}}\");\n    }}\n}}\n"
        );
        fs::create_dir_all(root.join("names/src")).unwrap();
        fs::write(root.join("names/src/main.rs"), main).unwrap();
        fs::write(
            root.join("names/Cargo.toml"),
            "[package]\nname = \"names\"\nedition = \"2024\"\n\n\
             [dependencies]\nmaracas-policies.workspace = true\n",
        )
        .unwrap();
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let done = std::process::Command::new(cargo)
            .args(["run", "--quiet", "--offline", "--package", "names"])
            // It is compiled to be found, and runs for no time.
            .args(["--config", "profile.dev.package.maracas-policies.opt-level=0"])
            .current_dir(&root)
            .env("CARGO_TARGET_DIR", root.join("target"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// `crates/core` and `crates/policies` as they are, in a workspace of their own.
    fn copy_crates(root: &Path) {
        let manifest = fs::read_to_string(crate::root().join("Cargo.toml")).unwrap();
        let ours = "members = [\"crates/*\", \"tests\", \"xtask\"]\n\
                    default-members = [\"crates/cli\"]";
        assert!(manifest.contains(ours), "the workspace has other members");
        let members = "members = [\"crates/core\", \"crates/policies\", \"names\"]";
        let _ = fs::remove_dir_all(root.join("crates"));
        fs::create_dir_all(root).unwrap();
        fs::write(root.join("Cargo.toml"), manifest.replace(ours, members)).unwrap();
        for name in ["crates/core", "crates/policies"] {
            copy(&crate::root().join(name), &root.join(name));
        }
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            let target = to.join(entry.file_name());
            if entry.path().is_dir() {
                copy(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }

    #[test]
    fn bad_and_taken_names_are_refused() {
        let root = crate::root();
        assert!(create(&root, "Fancy").unwrap_err().contains("lower-case"));
        assert!(create(&root, "self").unwrap_err().contains("word of the language"));
        assert!(create(&root, "p-edf").unwrap_err().contains("exists"));
    }
}
