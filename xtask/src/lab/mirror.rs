//! Where this machine gets Debian's packages: the lab takes its own from the same place.
//!
//! Formats: sources.list(5), one-line style and deb822 style.

use std::fs;
use std::path::Path;

/// The keys of Debian's archive, of package `debian-archive-keyring`.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror of Debian's main archive that this machine's apt uses.
///
/// # Errors
/// Where apt has no source of Debian's main archive.
pub(super) fn of_this_machine() -> Result<String, String> {
    let mut texts = Vec::new();
    let apt = Path::new("/etc/apt");
    let mut paths = vec![apt.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.sort();
    for path in paths {
        let deb822 = path.extension().is_some_and(|extension| extension == "sources");
        let list = path.extension().is_some_and(|extension| extension == "list");
        if let (true, Ok(text)) = (deb822 || list, fs::read_to_string(&path)) {
            texts.push((deb822, text));
        }
    }
    let found = texts.iter().find_map(
        |(deb822, text)| {
            if *deb822 { in_stanzas(text) } else { in_lines(text) }
        },
    );
    found.ok_or_else(|| "apt has no source with a Debian suite in /etc/apt".into())
}

/// Suites of Debian's main archive; security has a mirror of its own, without kernels of the
/// other suites. Other archives have suites of the same names, but no component `main`.
fn is_main_archive(uri: &str, suites: &[&str], components: &[&str]) -> bool {
    const RELEASES: [&str; 7] =
        ["bullseye", "bookworm", "trixie", "forky", "stable", "testing", "unstable"];
    let uri = uri.trim_end_matches('/');
    (uri.starts_with("http://") || uri.starts_with("https://"))
        && !uri.ends_with("debian-security")
        && components.contains(&"main")
        && suites.iter().any(|suite| RELEASES.contains(suite))
}

/// The first mirror in a file of the one-line style: `deb [options] URI suite component ...`.
fn in_lines(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.split('#').next()?.trim().strip_prefix("deb ")?.trim();
        let line = match line.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.1,
            None => line,
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let [uri, suite, components @ ..] = words.as_slice() else { return None };
        is_main_archive(uri, &[suite], components).then(|| uri.trim_end_matches('/').to_owned())
    })
}

/// The first mirror in a file of deb822 style: stanzas of `Key: value`; indented lines continue.
fn in_stanzas(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).find_map(|stanza| {
        if field(stanza, "enabled").contains(&"no") || !field(stanza, "types").contains(&"deb") {
            return None;
        }
        let (suites, components) = (field(stanza, "suites"), field(stanza, "components"));
        let mut uris = field(stanza, "uris").into_iter();
        let uri = uris.find(|uri| is_main_archive(uri, &suites, &components))?;
        Some(uri.trim_end_matches('/').to_owned())
    })
}

/// The words of a field, also those on lines that continue it. Keys are of any case.
fn field<'a>(stanza: &[&'a str], key: &str) -> Vec<&'a str> {
    let mut words = Vec::new();
    let mut inside = false;
    for line in stanza {
        if line.starts_with([' ', '\t']) {
            if inside {
                words.extend(line.split_whitespace());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            inside = name.trim().eq_ignore_ascii_case(key);
            if inside {
                words.extend(value.split_whitespace());
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{in_lines, in_stanzas};

    #[test]
    fn stanzas_are_read_with_comments_and_continued_lines() {
        let text = "Types: deb deb-src\n# a note\nURIs:\n http://mirror.test/debian/\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\n\
                    Types: deb\nURIs: http://other.test/debian\nSuites: bookworm\nComponents: main\n";
        assert_eq!(in_stanzas(text).as_deref(), Some("http://mirror.test/debian"));
    }

    #[test]
    fn security_disabled_foreign_and_source_stanzas_are_passed_over() {
        let text = "Types: deb\nURIs: http://m.test/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
                    Types: deb-src\nURIs: http://src.test/debian\nSuites: bookworm\nComponents: main\n\n\
                    Types: deb\nEnabled: no\nURIs: http://off.test/debian\nSuites: bookworm\nComponents: main\n\n\
                    Types: deb\nURIs: https://vendor.test/debian\nSuites: bookworm\nComponents: stable\n\n\
                    types: deb\nuris: https://m.test/debian\nsuites: trixie\ncomponents: main contrib\n";
        assert_eq!(in_stanzas(text).as_deref(), Some("https://m.test/debian"));
    }

    #[test]
    fn lines_are_read_with_options_and_comments() {
        let text = "# deb http://off.test/debian bookworm main\n\
                    deb http://m.test/debian-security bookworm-security main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian/ bookworm main\n";
        assert_eq!(in_lines(text).as_deref(), Some("http://mirror.test/debian"));
        assert_eq!(in_lines("deb http://u.test/ubuntu noble main\n"), None);
    }
}
