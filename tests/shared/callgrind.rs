//! Instructions that valgrind's callgrind counts in a part of a test program, for the tests that
//! hold them. Included by path, as it belongs to no room.

use std::process::Command;
use std::{env, fs};

/// Tells a test program that runs under callgrind to do what is counted.
pub(crate) const COUNT: &str = "MARACAS_COUNT";

/// Whether this is the program under callgrind.
pub(crate) fn is_counted() -> bool {
    env::var_os(COUNT).is_some()
}

/// Whether the host has valgrind.
pub(crate) fn is_there() -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join("valgrind").is_file())
}

/// Runs `test` of this program under callgrind, which counts inside of `inside`, but not in calls
/// of functions whose name has `beside` in it, and takes down a figure whenever `ends` ends. What
/// the program printed, and the figures.
pub(crate) fn count(
    test: &str,
    inside: &str,
    beside: Option<&str>,
    ends: &str,
) -> (String, Vec<u64>) {
    let folder = env::temp_dir().join(format!("maracas-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for callgrind");
    let run = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={inside}"))
        .arg(format!("--dump-after={ends}"))
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(env::current_exe().expect("this program has a path"))
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(COUNT, "1")
        .output()
        .expect("valgrind starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut figures = Vec::new();
    while let Ok(text) = fs::read_to_string(folder.join(format!("out.{}", figures.len() + 1))) {
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total: u64 = total.and_then(|total| total.trim().parse().ok()).expect("a number");
        assert!(total > 0, "nothing was counted in {inside}: another name, or inlined");
        let outside = beside.map_or(0, |name| called(&text, name));
        assert!(beside.is_none() || outside > 0, "{beside:?} was not called: inlined?");
        figures.push(total - outside);
    }
    fs::remove_dir_all(folder).expect("the folder can be removed");
    (String::from_utf8_lossy(&run.stdout).into_owned(), figures)
}

/// What was counted in calls of functions whose name has `part` in it, themselves included; none of
/// them calls another.
fn called(text: &str, part: &str) -> u64 {
    let (mut ids, mut sum, mut is_one, mut is_next) = (Vec::new(), 0, false, false);
    for line in text.lines() {
        // `fn=(12) name` of who calls, `cfn=(12)` of who is called: the name comes once. Then
        // `calls=` and, on the next line, where from and how much.
        if let Some((id, name)) = line.split_once("fn=").and_then(|(_, it)| it.split_once(')')) {
            if name.contains(part) {
                ids.push(id.to_owned());
            }
            is_one = line.starts_with('c') && ids.iter().any(|known| known == id);
        } else if std::mem::replace(&mut is_next, line.starts_with("calls=")) && is_one {
            let count = line.split(' ').next_back().and_then(|count| count.parse::<u64>().ok());
            sum += count.expect("a number");
        }
    }
    sum
}
