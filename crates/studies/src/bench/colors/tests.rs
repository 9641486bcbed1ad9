use super::*;

#[test]
fn a_few_wrong_frames_are_borne_and_missing_ones_are_not() {
    let report = |wrong, unseen| Report { pages: 1000, wrong, unseen };
    assert!(is_right(&report(0, 0)) && is_right(&report(10, 0)));
    assert!(!is_right(&report(11, 0)) && !is_right(&report(0, 1)));
}

#[test]
fn spreads_are_of_sorted_times() {
    let spread = spread((1..=100).rev().map(f64::from).collect(), 4.0, 9.0);
    assert_eq!((spread.p50, spread.p99, spread.seen, spread.longest), (50.0, 99.0, 4.0, 9.0));
}

#[test]
fn hidden_frames_are_reported_with_the_way_out() {
    let Failure::Bad(line) = failed(Error::Hidden) else { panic!("a line is expected") };
    assert!(line.contains("CAP_SYS_ADMIN"), "{line}");
}

#[test]
fn one_changed_word_changes_the_hash() {
    use maracas_work::hash;
    assert_ne!(hash(&[1, 2, 3]), hash(&[1, 2, 4]));
    assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
}

#[test]
fn a_conflict_is_seen_where_one_colour_is_slower_and_all_would_fit() {
    let (level, size, ways, line, colors) = (2, 1 << 20, 16, 64, 16);
    let (indexing, cores) = (Indexing::Unknown, String::new());
    let cache = CacheColors { level, size, ways, line, colors, indexing, cores };
    let seen = |pages: [usize; 2], ones: [f64; 2]| {
        let conflict = |(pages, one)| Conflict { pages, one, all: 8.0 };
        let conflicts: Vec<_> = pages.into_iter().zip(ones).map(conflict).collect();
        access::is_seen(&conflicts, &cache, 16)
    };
    assert!(seen([24, 128], [36.0, 148.0]));
    assert!(!seen([24, 128], [8.1, 8.0]));
    assert!(!seen([24, 128], [8.0, 20.0]), "one alone may be chance");
    assert!(!seen([8, 16], [40.0, 40.0]), "no more pages than ways");
    assert!(!seen([512, 1024], [40.0, 40.0]), "more pages than any colours could hold");
}
