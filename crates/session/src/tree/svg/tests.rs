//! Boxes do not overlap, edges join them, every task is there once, and the picture is XML.

use super::super::{Drawing, tests::case};
use super::layout::{Box, Layout};
use super::picture;
use maracas_policies::tree::{self, Tree};

/// A policy, a number of cores, and (C, T) of its tasks.
type Shape = (&'static str, usize, Vec<(u64, u64)>);

/// Sets that make trees of all shapes.
fn shapes() -> Vec<Shape> {
    let heavy: Vec<_> = (0..48).map(|_| (9, 10)).chain([(8, 10); 6]).collect();
    let many: Vec<_> = (0..100).map(|task| (8 + task % 17, 100)).collect();
    vec![
        ("run", 3, vec![(3, 5); 5]),
        ("run", 4, vec![(1, 2), (1, 3)]),
        ("run", 48, heavy.clone()),
        ("run", 16, many.clone()),
        ("qps", 3, vec![(3, 4); 4]),
        ("qps", 3, vec![(3, 5); 5]),
        ("qps", 4, vec![(1, 2), (1, 3)]),
        ("qps", 48, heavy),
        ("qps", 16, many),
    ]
}

fn each(check: impl Fn(&Drawing<'_>, &str)) {
    for (policy, cores, tasks) in shapes() {
        let case = case(policy, cores, &tasks);
        let built = tree::of(policy, &case.start, &case.params);
        let tree: Tree = built.expect("it has a tree").expect("it is admitted");
        check(&Drawing { case: &case, tree }, &format!("{policy} {cores} {tasks:?}"));
    }
}

fn overlap(a: &Box, b: &Box) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

fn inside(one: &Box, (x, y): (f64, f64)) -> bool {
    one.x < x && x < one.x + one.width && one.y < y && y < one.y + one.height
}

#[test]
fn no_box_overlaps_another_and_all_are_on_the_page() {
    each(|drawing, what| {
        let layout = Layout::of(drawing);
        for (place, one) in layout.boxes.iter().enumerate() {
            assert!(one.x >= 0.0 && one.x + one.width <= layout.width, "{what}: {one:?}");
            assert!(one.y >= 0.0 && one.y + one.height <= layout.height, "{what}: {one:?}");
            for other in &layout.boxes[..place] {
                assert!(!overlap(one, other), "{what}: {one:?} and {other:?}");
            }
        }
    });
}

#[test]
fn edges_join_boxes_and_cross_none() {
    each(|drawing, what| {
        let layout = Layout::of(drawing);
        let tops = layout.boxes.iter().map(|one| (one.x + one.width / 2.0, one.y));
        let tops: Vec<_> = tops.collect();
        let subsystems = drawing.used().count();
        assert_eq!(layout.edges.len(), layout.boxes.len() - subsystems, "{what}");
        for edge in &layout.edges {
            assert!(tops.contains(&edge.to), "{what}: {edge:?}");
            assert!(edge.from.1 < edge.turn && edge.turn < edge.to.1, "{what}: {edge:?}");
            for one in &layout.boxes {
                let (from, to) = (edge.from, edge.to);
                let corners = [(from.0, edge.turn), (to.0, edge.turn)];
                let middle = (to.0, (edge.turn + to.1) / 2.0);
                let points = corners.into_iter().chain([middle]);
                for point in points {
                    assert!(!inside(one, point), "{what}: {edge:?} crosses {one:?}");
                }
            }
        }
    });
}

#[test]
fn every_task_is_drawn_once() {
    each(|drawing, what| {
        let svg = picture(drawing);
        for task in 1..=drawing.case.start.vcpus.len() {
            let count = svg.matches(&format!(">task{task}  ")).count();
            assert_eq!(count, 1, "{what}: task{task}");
        }
    });
}

/// Tags open and close in order, attributes are quoted, and no bare `&` or `<` is left.
#[test]
fn the_picture_is_well_formed() {
    each(|drawing, what| {
        let svg = picture(drawing);
        let mut open: Vec<&str> = Vec::new();
        for piece in svg.split('<').skip(1) {
            let (tag, content) = piece.split_once('>').expect("a tag ends");
            assert!(!content.contains('&') || content.contains(';'), "{what}: {content}");
            assert!(tag.matches('"').count().is_multiple_of(2), "{what}: {tag}");
            let name = tag.split_whitespace().next().unwrap_or_default();
            match name.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{what}"),
                None if tag.ends_with('/') => {}
                None => open.push(name),
            }
        }
        assert!(open.is_empty(), "{what}: {open:?} stay open");
    });
}
