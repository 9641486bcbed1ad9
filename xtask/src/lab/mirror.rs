//! Where this machine gets Debian's packages: the lab takes its own from the same place.
//!
//! Formats: sources.list(5), one-line style and deb822 style.

use std::fs;
use std::path::Path;

/// The keys of Debian's archive, of package `debian-archive-keyring`.
pub(super) const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirrors that this machine's apt uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mirrors {
    /// Of Debian's main archive.
    pub(super) main: String,
    /// Of its security archive, where the newest kernels of a stable release are first.
    pub(super) security: Option<String>,
}

/// The mirrors of Debian's archive that this machine's apt uses.
///
/// # Errors
/// Where apt has no source of Debian's main archive.
pub(super) fn of_this_machine() -> Result<Mirrors, String> {
    let mut sources = Vec::new();
    let apt = Path::new("/etc/apt");
    let mut paths = vec![apt.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        paths.extend(entries.flatten().map(|entry| entry.path()));
    }
    paths.sort();
    for path in paths {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).unwrap_or_default();
        match &*extension {
            "sources" => sources.extend(in_stanzas(&text)),
            "list" => sources.extend(in_lines(&text)),
            _ => {}
        }
    }
    chosen(&sources).ok_or_else(|| "apt has no source with a Debian suite in /etc/apt".into())
}

/// A source of binary packages.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
    components: Vec<String>,
}

/// The first mirrors among sources. Archives of others have suites of the same names, but no
/// component `main`.
fn chosen(sources: &[Source]) -> Option<Mirrors> {
    const RELEASES: [&str; 7] =
        ["bullseye", "bookworm", "trixie", "forky", "stable", "testing", "unstable"];
    let first = |is_suite: fn(&str) -> bool| {
        let source = sources.iter().find(|source| {
            (source.uri.starts_with("http://") || source.uri.starts_with("https://"))
                && source.components.iter().any(|component| component == "main")
                && source.suites.iter().any(|suite| is_suite(suite))
        })?;
        Some(source.uri.trim_end_matches('/').to_owned())
    };
    let main = first(|suite| RELEASES.contains(&suite))?;
    let security = first(|suite| {
        suite.strip_suffix("-security").is_some_and(|release| RELEASES.contains(&release))
    });
    Some(Mirrors { main, security })
}

/// The sources in a file of the one-line style: `deb [options] URI suite component ...`.
fn in_lines(text: &str) -> Vec<Source> {
    let source = |line: &str| {
        let line = line.split('#').next()?.trim().strip_prefix("deb ")?.trim();
        let line = match line.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?.1,
            None => line,
        };
        let mut words = line.split_whitespace().map(String::from);
        let (uri, suite) = (words.next()?, words.next()?);
        Some(Source { uri, suites: vec![suite], components: words.collect() })
    };
    text.lines().filter_map(source).collect()
}

/// The sources in a file of deb822 style: stanzas of `Key: value`; indented lines continue.
fn in_stanzas(text: &str) -> Vec<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let stanzas = lines.split(|line| line.trim().is_empty());
    let used = stanzas.filter(|stanza| {
        field(stanza, "types").contains(&"deb") && !field(stanza, "enabled").contains(&"no")
    });
    let sources = used.flat_map(|stanza| {
        let words = |key| field(stanza, key).into_iter().map(String::from).collect::<Vec<_>>();
        let source = move |uri| {
            let (suites, components) = (words("suites"), words("components"));
            Source { uri, suites, components }
        };
        field(stanza, "uris").into_iter().map(String::from).map(source)
    });
    sources.collect()
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
    use super::{chosen, in_lines, in_stanzas};

    #[test]
    fn stanzas_are_read_with_comments_and_continued_lines() {
        let text = "Types: deb deb-src\n# a note\nURIs:\n http://mirror.test/debian/\n\
                    Suites: bookworm bookworm-updates\nComponents: main\n\n\
                    Types: deb\nURIs: http://other.test/debian\nSuites: bookworm\nComponents: main";
        let mirrors = chosen(&in_stanzas(text)).unwrap();
        assert_eq!(mirrors.main, "http://mirror.test/debian");
        assert_eq!(mirrors.security, None);
    }

    #[test]
    fn disabled_foreign_and_source_stanzas_are_passed_over() {
        let stanza = |types: &str, uri: &str, suite: &str, component: &str| {
            format!("Types: {types}\nURIs: {uri}\nSuites: {suite}\nComponents: {component}\n\n")
        };
        let text = [
            stanza("deb", "http://m.test/debian-security", "bookworm-security", "main"),
            stanza("deb-src", "http://src.test/debian", "bookworm", "main"),
            stanza("deb\nEnabled: no", "http://off.test/debian", "bookworm", "main"),
            stanza("deb", "https://vendor.test/debian", "bookworm", "stable"),
            stanza("deb", "https://vendor.test/node", "nodistro", "main"),
            stanza("deb", "cdrom:/", "bookworm", "main"),
            "types: deb\nuris: https://m.test/debian\nsuites: trixie\ncomponents: main x".into(),
        ];
        let mirrors = chosen(&in_stanzas(&text.concat())).unwrap();
        assert_eq!(mirrors.main, "https://m.test/debian");
        assert_eq!(mirrors.security.unwrap(), "http://m.test/debian-security");
    }

    #[test]
    fn lines_are_read_with_options_and_comments() {
        let text = "# deb http://off.test/debian bookworm main\n\
                    deb http://m.test/debian-security/ bookworm-security main\n\
                    deb [arch=amd64 signed-by=/k.gpg] http://mirror.test/debian/ bookworm main\n";
        let mirrors = chosen(&in_lines(text)).unwrap();
        assert_eq!(mirrors.main, "http://mirror.test/debian");
        assert_eq!(mirrors.security.unwrap(), "http://m.test/debian-security");
        assert_eq!(chosen(&in_lines("deb http://u.test/ubuntu noble main\n")), None);
    }
}
