use super::*;
use crate::testkit::{figure, uneven, vcpu};
use maracas_core::journal::JournalError;
use serde_json::Value;

fn json(report: &Report) -> Value {
    let mut text = Vec::new();
    report.write_json(&mut text).unwrap();
    assert_eq!(text.last(), Some(&b'\n'));
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn the_json_keeps_to_its_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut cut = figure().report(24_000);
    assert_eq!(
        json(&cut)["promise"].get("cut"),
        None,
        "reports are as before where nothing is cut"
    );
    cut.promise.cut = Some(CutReport { byte: 100, left_out_bytes: 3 });
    let reports = [
        figure().report(24_000),
        cut,
        crate::testkit::Story::new(1, vec![]).report(0),
        uneven().report(2_000_000_000),
    ];
    for report in &reports {
        let json = json(report);
        let errors: Vec<_> = validator.iter_errors(&json).map(|e| e.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        // Every field is described: readers need not guess.
        let described = |json: &Value, schema: &Value| {
            for key in json.as_object().unwrap().keys() {
                assert!(schema["properties"][key]["description"].is_string(), "{key}");
            }
        };
        described(&json, &schema);
        described(&json["total"], &schema["properties"]["total"]);
        described(&json["promise"], &schema["properties"]["promise"]);
        for part in
            ["memory", "controller", "fairness"].iter().filter(|part| json[part].is_object())
        {
            described(&json[part], &schema["properties"][part]);
        }
        for (list, items) in [("tasks", "tasks"), ("cores", "cores")] {
            for item in json[list].as_array().unwrap() {
                described(item, &schema["properties"][items]["items"]);
            }
        }
        let parts = &schema["properties"];
        if let Some(class) = json["fairness"]["classes"].get(0) {
            described(class, &parts["fairness"]["properties"]["classes"]["items"]);
            let speed = &parts["tasks"]["items"]["properties"]["speed"];
            described(&json["tasks"][0]["speed"], speed);
            let classes = &speed["properties"]["classes"]["items"];
            described(&json["tasks"][0]["speed"]["classes"][0], classes);
            described(&json["statistics"][0], &parts["statistics"]["items"]);
        }
        assert_eq!(serde_json::from_value::<Report>(json).unwrap(), *report);
    }
    let mut wrong = json(&reports[0]);
    wrong["tasks"][0]["misses"] = (-1).into();
    assert!(!validator.is_valid(&wrong));
    wrong["tasks"][0].as_object_mut().unwrap().remove("misses");
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn what_programs_rely_on_is_there() {
    let json = json(&figure().report(24_000));
    let first = [("version", "0.1.0"), ("machine", "sim"), ("policy", "maracas")];
    first.iter().for_each(|(key, value)| assert_eq!(json[key], *value));
    assert_eq!((&json["seed"], &json["params"]["background"]), (&7.into(), &"fair".into()));
    let counted = |of: &Value| {
        ["jobs", "preemptions", "migrations", "misses", "foreground_ns", "background_ns"]
            .map(|key| of[key].as_u64().unwrap())
    };
    assert_eq!(counted(&json["total"]), [2, 4, 1, 1, 23_000, 12_000]);
    assert_eq!(counted(&json["tasks"][0]), [0, 1, 0, 0, 8_000, 5_000]);
    assert_eq!(counted(&json["tasks"][1]), [2, 1, 1, 1, 14_000, 0]);
    assert_eq!(counted(&json["tasks"][2]), [0, 2, 0, 0, 1_000, 7_000]);
}

#[test]
fn a_vcpu_without_a_reservation_has_no_periods() {
    let report = uneven().report(2_000_000_000);
    let spin = &report.tasks[0];
    assert_eq!((spin.budget_ns, spin.period_ns, spin.deadline_ns), (0, 0, 0));
    let delivered = &spin.delivered;
    assert_eq!((delivered.periods, delivered.periods_without_demand), (0, 0));
    assert_eq!((delivered.mean_of_all_ns, delivered.error_max_ns), (None, None));
    assert_eq!((spin.background_ns, report.tasks[1].delivered.periods), (1_700_000_000, 2));
}

#[test]
fn older_reports_are_read() {
    let mut old = json(&uneven().report(2_000_000_000));
    old.as_object_mut().unwrap().remove("fairness");
    old["statistics"][0].as_object_mut().unwrap().remove("vcpu");
    old["tasks"][0].as_object_mut().unwrap().remove("speed");
    let report: Report = serde_json::from_value(old).unwrap();
    let read = (&report.fairness, &report.tasks[0].speed, report.statistics[0].vcpu);
    assert_eq!(read, (&None, &None, None));
}

#[test]
fn a_broken_journal_is_refused() {
    let journal = figure().journal(24_000);
    let cut = Report::from_journal(&journal[..journal.len() - 3]);
    assert!(matches!(cut, Err(JournalError { what, .. }) if what.contains("truncated")));
    let mut story = crate::testkit::Story::new(1, vec![vcpu(0, 1, 2)]);
    // A core that the header does not announce, as only another machine's journal could hold.
    story.ran((0, 5, crate::testkit::Foreground), (0, 1), crate::testkit::Blocked);
    assert_eq!(story.report(1).cores.len(), 6);
}
