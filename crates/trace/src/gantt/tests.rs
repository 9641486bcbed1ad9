use super::*;
use crate::testkit::{Story, figure, t, vcpu};

fn text(chart: &Chart, style: TextStyle) -> String {
    let mut out = Vec::new();
    chart.write_text(style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn svg(chart: &Chart, rows: Rows) -> String {
    let mut out = Vec::new();
    chart.write_svg(rows, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn text_by_vcpu() {
    let chart = Chart::from_journal(&figure().journal(24_000), t(0), None).unwrap();
    let expected = "\
spin  ████████··▒▒▒▒▒▒▒▒▒▒████████
      ↑                   ↕                   !
sort  ████····██          ██████████████████████
hog   ····██▒▒▒▒▒▒××××▒▒▒▒······················▒▒▒▒··
      ┴─────────┴─────────┴─────────┴─────────┴───────
      0         5us       10us      15us      20us
█ foreground  ▒ background  × throttled  · ready  ↑ release  ↓ deadline  ! missed
";
    assert_eq!(text(&chart, TextStyle { width: 54, ..TextStyle::default() }), expected);
}

#[test]
fn text_by_core_in_ascii_and_in_a_window() {
    let chart = Chart::from_journal(&figure().journal(24_000), t(4_000), Some(t(14_000))).unwrap();
    let style = TextStyle { rows: Rows::Cores, width: 27, ascii: true };
    let expected = "\
core0  BBaaaaaaaaaaAAAAAAAA
core1  ccccxxxxccccBBBBBBBB
       ------------+-------
                   10us
Aa spin  Bb sort  Cc hog  (upper case: foreground, lower case: background, x throttled)
";
    let drawn = text(&chart, style);
    assert_eq!(drawn, expected);
    assert!(drawn.is_ascii());
}

/// It may run since 0, and have ended in time.
#[test]
fn what_a_cut_leaves_open_neither_waits_nor_is_missed() {
    let mut story = Story::new(1, vec![vcpu(0, 4, 10).periodic()]);
    story.released(0, 0, 0, 10).released(0, 1, 10, 20);
    let drawn = |journal: &[u8]| {
        let chart = Chart::from_journal(journal, t(0), None).unwrap();
        let misses = chart.arrows.iter().filter(|arrow| arrow.kind == Kind::Miss);
        (chart.bars.len(), misses.count())
    };
    let mut journal = story.journal(10);
    assert_eq!(drawn(&journal), (1, 1));
    journal.pop();
    maracas_core::journal::mend(&mut journal).unwrap();
    assert_eq!(drawn(&journal), (0, 0));
}

#[test]
fn nothing_to_draw_is_no_trouble() {
    let journal = figure().journal(24_000);
    for (from, to) in [(0, 0), (30_000, 20_000), (50_000, 60_000)] {
        let chart = Chart::from_journal(&journal, t(from), Some(t(to))).unwrap();
        assert!(text(&chart, TextStyle { width: 1, ..TextStyle::default() }).contains("spin"));
        assert!(svg(&chart, Rows::Cores).contains("core1"));
    }
}

/// Whether tags nest and attributes are quoted: enough XML to trust a file of our own making.
fn well_formed(xml: &str) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for tag in xml.split('<').skip(1) {
        let Some((tag, _)) = tag.split_once('>') else { return false };
        if tag.matches('"').count() % 2 != 0 {
            return false;
        }
        let name = tag.split_whitespace().next().unwrap_or("");
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty()
}

#[test]
fn svg_shows_every_state() {
    let mut story = figure();
    story.named(0, "a<b> & \"c\"");
    let chart = Chart::from_journal(&story.journal(24_000), t(0), None).unwrap();
    for rows in [Rows::Vcpus, Rows::Cores] {
        let picture = svg(&chart, rows);
        assert!(well_formed(&picture), "{picture}");
        assert!(picture.contains("a&lt;b&gt; &amp; &quot;c&quot;"));
        // Ten runs: six in the foreground, four hatched; the throttle beside the legend's.
        assert_eq!(picture.matches("<rect x=").count(), 10, "{picture}");
        assert_eq!(picture.matches("class=\"throttled\"").count(), 2);
    }
    let picture = svg(&chart, Rows::Vcpus);
    // Two releases, one deadline met and one missed, and the legend's three.
    assert_eq!(picture.matches("class=\"arrow\"").count(), 3 + 2);
    assert_eq!(picture.matches("class=\"arrow miss\"").count(), 1 + 1);
}

#[test]
fn what_was_refused_and_never_ran_has_no_row() {
    let mut story = figure();
    let newcomer = crate::testkit::vcpu(3, 1_000, 10_000);
    story.event(5_000, maracas_core::contract::Event::Arrived(newcomer)).named(3, "newcomer");
    story.woke(3, 5_000);
    let chart = Chart::from_journal(&story.journal(24_000), t(0), None).unwrap();
    assert!(!text(&chart, TextStyle::default()).contains("newcomer"));
    assert!(!svg(&chart, Rows::Vcpus).contains("newcomer"));
    assert_eq!(chart.journal_end(), t(24_000));
}

#[test]
fn uneven_cores_are_named_with_their_class() {
    let journal = crate::testkit::uneven().journal(2_000_000_000);
    let chart = Chart::from_journal(&journal, t(0), None).unwrap();
    let drawn = text(&chart, TextStyle { rows: Rows::Cores, ..TextStyle::default() });
    let labels: Vec<_> = drawn.lines().filter_map(|line| line.get(..12)).take(2).collect();
    assert_eq!(labels, ["core0 fast  ", "core1 slow  "], "{drawn}");
    assert!(svg(&chart, Rows::Cores).contains("core1 slow"));
}
