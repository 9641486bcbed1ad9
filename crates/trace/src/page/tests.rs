//! The page's data, and that nothing of a file can be anything but text in it.

use super::*;
use crate::metrics::Found::{Kept, NoDemand, Over, Short};
use crate::testkit::*;
use maracas_core::CoreId;

/// A run with names that try to end what they stand in.
fn run() -> Story {
    let mut story = Story::new(2, vec![vcpu(0, 4, 10), vcpu(1, 2, 10)]);
    story.header.names = vec!["</script><script>alert(1)</script>".into(), "<!-- a & b".into()];
    story
        .planned(0, |plan| {
            plan.run_queue_mut(CoreId(0)).foreground = vec![grant(0, 4)];
            plan.run_queue_mut(CoreId(1)).foreground = vec![grant(1, 2)];
        })
        .ran((0, 0, Foreground), (0, 4), LimitReached)
        .ran((0, 0, Background), (4, 10), Preempted)
        .ran((1, 1, Foreground), (0, 3), LimitReached)
        .ran((0, 0, Foreground), (10, 13), Preempted)
        .ran((1, 1, Foreground), (10, 12), LimitReached)
        .reported(15, "late", "0 4 0")
        .reported(15, "late", "1 4 0")
        .ran((0, 0, Foreground), (20, 24), LimitReached);
    story
}

/// The page's parts: the JSON and the lists.
fn parts_of(page: &str) -> (Value, String) {
    let after = |id: &str| {
        let rest = page.split_once(&format!("id=\"{id}\">")).unwrap().1;
        rest.split_once("</script>").unwrap().0.to_string()
    };
    (serde_json::from_str(&after("data")).unwrap(), after("lists"))
}

#[test]
fn nothing_of_a_file_ends_the_element_that_it_stands_in() {
    let page = of_journal(&run().journal(30), "</title><b>&amp;").unwrap();
    assert!(page.contains("<title>&lt;/title&gt;&lt;b&gt;&amp;amp; - maracas</title>"));
    // What the template and its own files have, and nothing else.
    let own = 1 + HTML.matches("<script").count();
    assert_eq!(page.matches("<script").count() + 1, own);
    assert_eq!(page.matches("</script").count() + 1, own);
    assert!(!page.contains("<!-- a"));
    let (data, lists) = parts_of(&page);
    assert_eq!(data["vcpus"][0]["name"], "</script><script>alert(1)</script>");
    assert_eq!(data["title"], "</title><b>&amp;");
    assert!(lists.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/=".contains(&it)));
}

#[test]
fn the_page_may_ask_for_nothing() {
    assert!(HTML.contains("content=\"default-src 'none';"));
    let texts = SCRIPTS.iter().chain([&HTML, &CSS, &UPLOT_CSS]);
    for text in texts {
        for reach in
            ["http-equiv=\"refresh", "fetch(", "XMLHttpRequest", "import(", "url(", "@import"]
        {
            assert!(!text.contains(reach), "{reach}");
        }
        assert!(!text.contains("</script>") || *text == HTML);
    }
    // Texts become text: ours never parses HTML.
    for text in &SCRIPTS[1..] {
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!text.contains(way), "{way}");
        }
    }
}

#[test]
fn broken_periods_name_the_causes_that_touch_them_on_their_cores() {
    let (data, _) = parts_of(&of_journal(&run().journal(30), "run").unwrap());
    assert_eq!(data["counts"]["spans"], json!([4, 2]));
    assert_eq!(data["places"]["list"].as_array().unwrap().len(), 2);
    let broken = data["broken"].as_array().unwrap();
    let words: Vec<_> = broken.iter().map(|it| it["periods"][0]["word"].clone()).collect();
    assert_eq!(words, ["short", "short"], "{broken:#?}");
    let first = &broken[0]["periods"][0];
    assert_eq!((&first["from"], &first["delivered"]), (&10.into(), &3.into()));
    // The place on core 0 alone: VCPU 0 ran nowhere else.
    assert_eq!(first["places"], json!([0]));
    assert_eq!(data["places"]["list"][0]["text"], "agent late by 4ns");
}

#[test]
fn what_is_drawn_of_periods_is_what_was_judged() {
    let journal = run().journal(30);
    let (header, reader) = Reader::open(&journal).unwrap();
    let mut metrics = Metrics::new(&header).keeping_periods();
    let mut end = Instant::ZERO;
    for record in reader {
        end = metrics.record(&record.unwrap()).unwrap_or(end);
    }
    let report = metrics.report(end);
    let periods = metrics.into_periods();
    for task in &report.tasks {
        let of = |found| periods[task.id as usize].iter().filter(|it| it.found == found).count();
        let verdict = &task.verdict;
        assert_eq!([of(Short), of(Over)], [verdict.short, verdict.over].map(|it| it as usize));
        assert_eq!(of(Kept) + of(Short) + of(Over), verdict.judged as usize);
        assert_eq!(of(NoDemand) as u64, task.delivered.periods_without_demand);
    }
}

#[test]
fn uplot_is_the_file_that_its_makers_publish() {
    // FNV-1a of the file in the package uplot 1.6.32 of npm.
    assert_eq!(maracas_core::fnv1a(0, SCRIPTS[0].as_bytes()), 0xe36e_4ba6_4a14_0428);
    assert!(SCRIPTS[0].starts_with("/*! https://github.com/leeoniya/uPlot (v1.6.32) */"));
}

/// What only the command knew that ran, as its notes in the journal say it.
#[test]
fn the_journal_tells_of_the_run_as_a_whole() {
    use crate::report::{ProgramReport, Run};
    let run = Run {
        asked_ns: Some(30),
        lasted_ns: 2_000_000_030,
        programs: vec![ProgramReport { name: "a".into(), code: Some(3), signal: None }],
        trouble: vec!["core0: a file is gone".into()],
        ended: None,
    };
    let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
    story.reported(0, "strict", "").ran((0, 0, Foreground), (0, 4), LimitReached);
    story.reported(30, "run", &run.note().text());
    let (data, _) = parts_of(&of_journal(&story.journal(30), "run").unwrap());
    let report = &data["report"];
    assert_eq!(
        (&report["promise"]["strict"], &report["promise"]["kept"]),
        (&true.into(), &false.into())
    );
    assert_eq!(report["programs"], serde_json::to_value(&run.programs).unwrap());
    let said = [
        "ended: a with code 3",
        "trouble: core0: a file is gone",
        "NOT IN TIME: 30ns were asked for, it took 2s",
    ];
    assert_eq!(data["words"]["run"], json!(said));
    assert!(data["notes"][0].as_str().unwrap().contains("--strict"));
    // What another version wrote in another form is left out.
    let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
    story.reported(30, "run", "{\"other\":1}");
    let (data, _) = parts_of(&of_journal(&story.journal(30), "run").unwrap());
    assert_eq!((&data["words"]["run"], &data["report"]["programs"]), (&json!([]), &json!([])));
}
