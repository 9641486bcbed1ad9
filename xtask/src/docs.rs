//! `cargo xtask docs`: the documents as a site, made by MkDocs.
//!
//! The pages are those of the repository, in the places where they stand there, so that a link that
//! works in one works in the other. Where MkDocs cannot be had, the site is not built and counted
//! as a skip; the links are checked before, without it.

use crate::{links, venv};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Headings, order and look of the site.
const CONFIGURATION: &str = "docs/mkdocs.yml";
/// MkDocs and all that it needs, each of one version.
const LIBRARIES: &str = "docs/mkdocs.txt";
/// Pages beside those of `docs/`. MkDocs takes `README.md` as the first page.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// Builds the site into `target/site`.
///
/// # Errors
/// A link that leads nowhere, or what MkDocs says.
pub(crate) fn docs(root: &Path) -> Result<(), String> {
    let problems = links::check(root);
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    let libraries = read(&root.join(LIBRARIES))?;
    let libraries: Vec<_> = libraries.lines().map(String::from).collect();
    let work = root.join("target/docs");
    let python = match venv::prepare(&work.join("python"), &libraries) {
        Ok(python) => python,
        Err(missing) => return venv::skip(root, missing),
    };
    let pages = work.join("docs");
    if pages.exists() {
        fs::remove_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
    }
    gather(root, &pages)?;
    let configuration = work.join("mkdocs.yml");
    write(&configuration, read(&root.join(CONFIGURATION))?.as_bytes())?;
    let site = root.join("target/site");
    let build = ["-m", "mkdocs", "build", "--strict", "--quiet", "--config-file"];
    let mut mkdocs = Command::new(python);
    mkdocs.args(build).arg(configuration).arg("--site-dir").arg(&site);
    venv::run(mkdocs.env("NO_MKDOCS_2_WARNING", "1"))?;
    println!(
        "{} has the site; to search it too: python3 -m http.server --directory {}",
        site.join("index.html").display(),
        site.display()
    );
    Ok(())
}

/// Copies all pages, and the files of the repository that they link to. A folder has no page: a
/// link to one becomes its words.
fn gather(root: &Path, pages: &Path) -> Result<(), String> {
    let documents = links::documents(root).into_iter().map(|(path, _)| path);
    let mut all: Vec<_> = PAGES.iter().map(|name| root.join(name)).chain(documents).collect();
    all.sort();
    all.dedup();
    for document in all {
        let mut text = read(&document)?;
        let name = document.strip_prefix(root).unwrap_or(&document);
        let folder = name.parent().unwrap_or(Path::new(""));
        for target in links::links(&text) {
            let path = target.split('#').next().unwrap_or_default();
            let from = root.join(folder).join(path);
            if links::is_foreign(&target) || path.is_empty() || path.ends_with(".md") {
                continue;
            }
            if from.is_dir() {
                text = unlinked(&text, &target);
                continue;
            }
            let bytes = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
            write(&pages.join(folder).join(path), &bytes)?;
        }
        write(&pages.join(name), linked(&text, folder == Path::new("docs")).as_bytes())?;
    }
    Ok(())
}

/// The text with the words alone of links to `target`.
fn unlinked(text: &str, target: &str) -> String {
    let end = format!("]({target})");
    let mut pieces = text.split(&end);
    let mut done = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        if let Some(open) = done.rfind('[') {
            done.remove(open);
        }
        done.push_str(piece);
    }
    done
}

/// The text with a link where prose names a page, as in `docs/output.md`. `inside` says whether it
/// stands in `docs/` itself.
fn linked(text: &str, inside: bool) -> String {
    let folder = if inside { "" } else { "docs/" };
    let of_prose = |prose: &str| {
        let mut done = String::new();
        for (i, piece) in prose.split('`').enumerate() {
            let page = piece.strip_prefix("docs/").filter(|page| page.ends_with(".md"));
            match page {
                Some(page) if i % 2 == 1 && !done.ends_with('[') => {
                    done.push_str(&format!("[`{piece}`]({folder}{page})"));
                }
                _ if i % 2 == 1 => done.push_str(&format!("`{piece}`")),
                _ => done.push_str(piece),
            }
        }
        done
    };
    let blocks = text.split("```").enumerate();
    let blocks = blocks.map(|(i, it)| if i % 2 == 0 { of_prose(it) } else { it.to_string() });
    blocks.collect::<Vec<_>>().join("```")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_prose_names_are_linked() {
        let text = "see `docs/a.md`, `x` and [`docs/b.md`](b.md)\n```sh\n`docs/a.md`\n```\nend";
        let root = "see [`docs/a.md`](docs/a.md), `x` and [`docs/b.md`](b.md)\n\
                    ```sh\n`docs/a.md`\n```\nend";
        assert_eq!(linked(text, false), root);
        assert_eq!(linked("`docs/a.md`", true), "[`docs/a.md`](a.md)");
        assert_eq!(unlinked("[a](b) [`c`](d), [e](d) f", "d"), "[a](b) `c`, e f");
    }

    /// A page that the navigation lacks is not found by readers.
    #[test]
    fn the_navigation_has_every_page_once() {
        let root = crate::root();
        let configuration = read(&root.join(CONFIGURATION)).unwrap();
        let documents = links::documents(&root);
        for (document, _) in &documents {
            let name = document.strip_prefix(&root).unwrap().display().to_string();
            let entries = configuration.lines().filter(|line| line.ends_with(&format!(" {name}")));
            assert_eq!(entries.count(), 1, "{name} in {CONFIGURATION}");
        }
        let pages = configuration.matches(".md\n").count();
        assert_eq!(pages, documents.len() + 1, "{CONFIGURATION}, with CHANGELOG.md");
    }
}
