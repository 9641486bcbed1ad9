//! `cargo xtask lines`: how much there is of code, comments and tests in each room.

use std::fs;
use std::path::Path;

/// Lines that are not blank.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Lines {
    /// Of what is shipped.
    pub(crate) code: usize,
    /// Beside it.
    pub(crate) comments: usize,
    /// Of tests and benchmarks, their comments too.
    pub(crate) tests: usize,
}

impl Lines {
    /// Of one file. `path` is that inside its room.
    fn of(path: &str, text: &str) -> Self {
        let mut lines = Self::default();
        let mut is_test = !path.starts_with("src/")
            || path.split('/').any(|part| part == "tests" || part == "tests.rs");
        let all: Vec<&str> = text.lines().map(str::trim).collect();
        for (place, line) in all.iter().enumerate() {
            // A module of tests ends its file.
            is_test |= *line == "#[cfg(test)]"
                && all.get(place + 1).is_some_and(|next| next.starts_with("mod tests {"));
            match *line {
                "" => {}
                _ if is_test => lines.tests += 1,
                line if line.starts_with("//") => lines.comments += 1,
                _ => lines.code += 1,
            }
        }
        lines
    }
    fn add(&mut self, other: Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.tests += other.tests;
    }
}

/// Of all files of Rust in a room.
pub(crate) fn of_room(room: &Path) -> Result<Lines, String> {
    let mut lines = Lines::default();
    let mut folders = vec![room.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let fail = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(fail)?;
                let inside = path.strip_prefix(room).unwrap_or(&path);
                lines.add(Lines::of(&inside.to_string_lossy(), &text));
            }
        }
    }
    Ok(lines)
}

/// Prints a table of all rooms.
pub(crate) fn print(root: &Path) -> Result<(), String> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|e| format!("{}: {e}", crates.display()))?;
    let mut rooms: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    rooms.sort();
    rooms.extend([root.join("tests"), root.join("xtask")]);
    let row = |name: &str, lines: Lines| {
        let Lines { code, comments, tests } = lines;
        println!("{name:<12}{code:>8}{comments:>10}{tests:>8}");
    };
    println!("{:<12}{:>8}{:>10}{:>8}", "room", "code", "comments", "tests");
    let mut sum = Lines::default();
    for room in rooms {
        let lines = of_room(&room)?;
        row(&room.file_name().unwrap_or_default().to_string_lossy(), lines);
        sum.add(lines);
    }
    row("all", sum);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_tests_are_reported_apart() {
        let text = "//! A file.\n\nfn f() {\n    // Why.\n    g(); // how\n}\n\n#[cfg(test)]\n\
                    mod tests {\n    // A case.\n    fn t() {}\n}\n";
        let lines = |code, comments, tests| Lines { code, comments, tests };
        assert_eq!(Lines::of("src/a.rs", text), lines(3, 2, 5));
        assert_eq!(Lines::of("src/a/tests.rs", text), lines(0, 0, 10));
        assert_eq!(Lines::of("tests/a.rs", "fn f() {}\n"), lines(0, 0, 1));
        let split = "fn f() {}\n#[cfg(test)]\nmod tests;\nfn g() {}\n";
        assert_eq!(Lines::of("src/b.rs", split), lines(4, 0, 0));
    }
}
