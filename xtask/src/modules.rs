//! Imports inside a room point one way, too: no large circles of files, none of folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The largest circle of files that needs no permission: a type, what makes it and what shows it.
const CIRCLE_MAX: usize = 3;

/// Circles that are to be opened yet: the room, one of the files, and how many files it has. A
/// number here only goes down.
const FILES: &[(&str, &str, usize)] = &[("live", "machine", 11)];

/// Circles in which two folders or more of a room import each other, likewise.
const FOLDERS: &[(&str, &str, usize)] = &[
    ("core", "control", 3),
    ("live", "machine", 9),
    ("scenario", "formats", 2),
    ("trace", "metrics", 2),
];

/// A file or folder by the words of its path in the room; none for the room's root.
type Name = Vec<String>;

/// Which module imports which.
type Graph = BTreeMap<Name, BTreeSet<Name>>;

/// The files below `folder` by their names, with what they say before their tests.
fn sources(folder: &Path, name: &Name, found: &mut BTreeMap<Name, String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let word = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_root = ["mod", "lib", "main"].contains(&word.as_str());
        let own = name.iter().cloned().chain((!is_root).then_some(word.clone())).collect();
        if word == "tests" {
            continue;
        } else if path.is_dir() {
            sources(&path, &own, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            found.insert(own, code.collect::<Vec<_>>().join(" "));
        }
    }
}

/// The paths in `code` that begin with `crate` or `super`, as they are written, with every member
/// of a list in braces by itself.
fn paths(code: &str) -> Vec<Vec<String>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|c| is_word(c) || c == ':') {
                continue;
            }
            let end = code[at..].find(|c| !is_word(c) && c != ':').map_or(code.len(), |n| at + n);
            let path: Vec<String> =
                code[at..end].split("::").filter(|it| !it.is_empty()).map(Into::into).collect();
            let rest = &code[end..];
            if !rest.starts_with('{') {
                found.push(path);
                continue;
            }
            let list = rest[1..].split([';', '}']).next().unwrap_or_default();
            for member in list.split(',') {
                let first: String = member.trim().chars().take_while(|c| is_word(*c)).collect();
                found.push(path.iter().cloned().chain([first]).collect());
            }
        }
    }
    found
}

/// The graph of the files in `sources`.
fn graph(sources: &BTreeMap<Name, String>) -> Graph {
    let imports = |name: &Name, code: &str| {
        let resolve = |path: Vec<String>| {
            let ups = path.iter().take_while(|word| *word == "super").count();
            let base = if ups == 0 { &[] } else { &name[..name.len().saturating_sub(ups)] };
            let rest = path.into_iter().skip(ups.max(1));
            let mut full: Name = base.iter().cloned().chain(rest).collect();
            // What stands at the end of a path is an item of the last module in it.
            while !full.is_empty() && !sources.contains_key(&full) {
                full.pop();
            }
            full
        };
        paths(code).into_iter().map(resolve).filter(|to| to != name).collect()
    };
    sources.iter().map(|(name, code)| (name.clone(), imports(name, code))).collect()
}

/// The same for the first words of the names: the folders and files right below the root.
fn folders(files: &Graph) -> Graph {
    let mut graph = Graph::new();
    for (from, to) in files.iter().filter(|(from, _)| !from.is_empty()) {
        let own = vec![from[0].clone()];
        let others = to.iter().filter_map(|to| to.first().map(|word| vec![word.clone()]));
        let others: Vec<Name> = others.filter(|to| *to != own).collect();
        graph.entry(own).or_default().extend(others);
    }
    graph
}

/// All that can be reached from `from`.
fn reach(graph: &Graph, from: &Name) -> BTreeSet<Name> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(next) = open.pop() {
        let new = graph.get(&next).into_iter().flatten();
        open.extend(new.filter(|to| reached.insert((*to).clone())).cloned());
    }
    reached
}

/// The circles: sets of names each of which reaches all the others.
fn circles(graph: &Graph) -> BTreeSet<BTreeSet<Name>> {
    let reached: BTreeMap<&Name, _> = graph.keys().map(|name| (name, reach(graph, name))).collect();
    let circle = |name: &Name| -> BTreeSet<Name> {
        let mutual = |other: &&Name| reached.get(other).is_some_and(|it| it.contains(name));
        reached[name].iter().filter(mutual).cloned().collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// What is wrong with `circles` of `room`, of which some are allowed.
fn problems(
    room: &str,
    circles: &BTreeSet<BTreeSet<Name>>,
    allowed: &[(&str, &str, usize)],
) -> Vec<String> {
    let mut allowed: Vec<_> = allowed.iter().filter(|(of, ..)| *of == room).collect();
    let mut problems = Vec::new();
    for circle in circles {
        let names: Vec<String> = circle.iter().map(|name| name.join("/")).collect();
        let place = allowed.iter().position(|(_, one, _)| names.iter().any(|name| name == one));
        let most = place.map(|place| allowed.swap_remove(place).2);
        if most != Some(names.len()) {
            let most = most.map_or_else(String::new, |most| format!(" ({most} are allowed)"));
            let names = names.join(", ");
            problems.push(format!("crates/{room}: {} in a circle{most}: {names}", circle.len()));
        }
    }
    let open = |(_, one, _): &&(&str, &str, usize)| {
        format!("crates/{room}: the circle of {one} is open; drop its permission")
    };
    problems.extend(allowed.into_iter().map(|it| open(&it)));
    problems
}

#[test]
fn imports_inside_rooms_point_one_way() {
    let mut wrong = Vec::new();
    let crates = crate::root().join("crates");
    for room in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let name = room.file_name().unwrap().to_string_lossy().into_owned();
        let mut files = BTreeMap::new();
        sources(&room.join("src"), &Name::new(), &mut files);
        let files = graph(&files);
        let mut large = circles(&files);
        large.retain(|circle| circle.len() > CIRCLE_MAX);
        wrong.extend(problems(&name, &large, FILES));
        let mut between = circles(&folders(&files));
        let is_folder = |one: &&Name| room.join("src").join(&one[0]).is_dir();
        between.retain(|circle| circle.iter().filter(is_folder).count() > 1);
        wrong.extend(problems(&name, &between, FOLDERS));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn circles_are_found_through_lists_and_parents() {
    let name = |text: &str| -> Name {
        text.split('/').filter(|word| !word.is_empty()).map(Into::into).collect()
    };
    let files = [
        ("", "mod a; mod b; mod c; pub use a::x;"),
        ("a", "use crate::{b::Item, c}; pub(crate) fn x() {}"),
        ("b", "use std::fmt; fn f() { super::c::d::g() }"),
        ("c", "mod d;"),
        ("c/d", "use super::super::a::{self, x};"),
    ];
    let files = files.map(|(path, code)| (name(path), code.to_string())).into();
    let graph = graph(&files);
    assert_eq!(graph[&name("a")], [name("b"), name("c")].into());
    assert_eq!(graph[&name("b")], [name("c/d")].into());
    assert_eq!(graph[&name("c/d")], [name("a")].into());
    let found = circles(&graph);
    assert_eq!(found, [["a", "b", "c/d"].map(name).into()].into());
    assert_eq!(circles(&folders(&graph)), [["a", "b", "c"].map(name).into()].into());
    assert_eq!(problems("r", &found, &[("r", "b", 3), ("s", "b", 3)]), Vec::<String>::new());
    assert!(problems("r", &found, &[("r", "b", 4)])[0].contains("3 in a circle (4 are allowed)"));
    assert!(problems("r", &BTreeSet::new(), &[("r", "b", 3)])[0].contains("drop its permission"));
}

#[test]
fn the_binary_only_reads_arguments_and_prints() {
    /// Lines of code of the binary's room, at most (`cargo xtask lines`).
    const MOST: usize = 7_000;
    let lines = crate::lines::of_room(&crate::root().join("crates/cli")).unwrap();
    assert!(lines.code <= MOST, "{} lines of code, {MOST} may be", lines.code);
}
