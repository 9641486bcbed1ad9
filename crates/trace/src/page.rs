//! A run as one page for a browser, which needs no other file and no network.
//!
//! Two halves. Here a journal becomes *data*: the report, the sentences of the closing table, and
//! the lists that are drawn (what ran when, periods, jobs, causes). The page's own files, beside
//! this one, draw it: plain HTML, CSS and JavaScript as browsers read them. They decide nothing:
//! verdicts, their words and causes come from the code that makes the table and the JSON.
//!
//! | file | what |
//! |---|---|
//! | `page.html`, `page.css` | the frame, how it looks in light, dark and print |
//! | `data.js` | reads the lists; sums over any stretch of time |
//! | `schedule.js`, `paint.js` | the schedule: what is seen, and how it is drawn |
//! | `report.js` | verdicts, causes, tables |
//! | `charts.js` | curves, by uPlot |
//! | `sweep.js` | the page of a sweep, whose data come from elsewhere |
//! | `start.js` | begins with the page that the data are of |
//!
//! uPlot (MIT) stands in `page/uplot` as its makers publish it, with its licence.

mod causes;
mod pack;
mod schedule;
#[cfg(test)]
mod tests;

use self::causes::Places;
use self::pack::Pack;
use self::schedule::Schedule;
use crate::follow::Follower;
use crate::gantt::core_names;
use crate::report::Word;
use crate::table::promise::{of_core, of_run, parts};
use crate::{Metrics, Report, table};
use maracas_core::Instant;
use maracas_core::journal::{JournalError, Note, Reader, Record};
use serde_json::{Value, json};

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
/// Each file after those that it uses.
const SCRIPTS: [&str; 8] = [
    include_str!("page/uplot/uPlot.iife.min.js"),
    include_str!("page/data.js"),
    include_str!("page/paint.js"),
    include_str!("page/schedule.js"),
    include_str!("page/charts.js"),
    include_str!("page/report.js"),
    include_str!("page/sweep.js"),
    include_str!("page/start.js"),
];
const UPLOT_CSS: &str = include_str!("page/uplot/uPlot.min.css");

/// The page of a whole journal; `title` says what it is of, the name of its file, say.
///
/// # Errors
/// Where the journal is damaged, of another format version, or has no end.
pub fn of_journal(journal: &[u8], title: &str) -> Result<String, JournalError> {
    let (header, reader) = Reader::open(journal)?;
    let mut metrics = Metrics::new(&header).keeping_periods();
    let mut follower = Follower::new(&header, Schedule::new(&header));
    let mut places = Places::new(header.system.ticks_per_ns.max(1));
    let (mut notes, mut end) = (Vec::new(), Instant::ZERO);
    for record in reader {
        let record = record?;
        places.record(&record);
        notes.extend(sentence(&record));
        metrics.record(&record);
        end = follower.record(&record).unwrap_or(end);
    }
    let report = metrics.report(end);
    let mut periods = metrics.into_periods();
    // Of what was not promised no period is short.
    for task in report.tasks.iter().filter(|task| task.verdict.word == Word::None) {
        periods[task.id as usize].clear();
    }
    let schedule = follower.finish(end);
    let mut data = json!({
        "kind": "run",
        "title": title,
        "end": schedule.ns(end),
        "cores": core_names(&header.system),
        "vcpus": schedule.vcpus(),
        "words": words(&report),
        "notes": notes,
        "places": places.value(),
        "broken": places.broken(&report, &periods),
    });
    data["report"] = serde_json::to_value(&report).unwrap_or_default();
    let mut pack = Pack::default();
    data["counts"] = schedule.pack(&periods, &mut pack);
    Ok(assembled(title, &data, &pack))
}

/// The page of a sweep: `data` is what its folder keeps for it, with `"kind": "sweep"`.
pub fn of_sweep(mut data: Value, title: &str) -> String {
    data["title"] = title.into();
    assembled(title, &data, &Pack::default())
}

/// What a record says of the host in a sentence, where it does.
fn sentence(record: &Record) -> Option<String> {
    let Record::Note { note, .. } = record else { return None };
    if let Note::Strict = note {
        Some("Periods that stolen time spoiled were judged like all others (--strict).".into())
    } else if let Note::Cut { offset, left_out } = note {
        let from = format!("The journal has no end: this is of its first {offset} bytes, and");
        Some(format!("{from} {left_out} more, of a record that is not whole, were left out."))
    } else if let Note::Host(text)
    | Note::Users(text)
    | Note::Groups(text)
    | Note::Sensor(text)
    | Note::Emulated(text)
    | Note::Sense { text, .. }
    | Note::Progress { text, .. } = note
    {
        Some(text.clone())
    } else {
        None
    }
}

/// The sentences of the closing table: of the run, of each VCPU's verdict, of each core, and all of
/// it.
fn words(report: &Report) -> Value {
    let strict = report.promise.strict;
    let verdicts = report.tasks.iter().map(|task| parts(&task.verdict, strict));
    let causes = report.cores.iter().map(|core| match &core.causes {
        Some(causes) => of_core(causes, true),
        None => Vec::new(),
    });
    let mut text = Vec::new();
    // Writing into memory does not fail.
    let _ = table::write(report, table::Style::default(), &mut text);
    let mut run = Vec::new();
    let _ = of_run(report, &mut run);
    json!({
        "run": String::from_utf8_lossy(&run).lines().collect::<Vec<_>>(),
        "verdicts": verdicts.collect::<Vec<_>>(),
        "causes": causes.collect::<Vec<_>>(),
        "table": String::from_utf8_lossy(&text),
    })
}

/// Puts data and files into one page.
fn assembled(title: &str, data: &Value, pack: &Pack) -> String {
    let mut page = String::new();
    let mut rest = HTML;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else { break };
        match name {
            "title" => page.push_str(&escaped(title)),
            "css" => [UPLOT_CSS, CSS].iter().for_each(|text| page.push_str(text)),
            "data" => page.push_str(&within_script(&data.to_string())),
            "lists" => page.push_str(&pack.base64()),
            _ => SCRIPTS.iter().for_each(|text| {
                page.push_str(text);
                page.push('\n');
            }),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Text between tags.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON in a `script` element: no `<` that might end it or open a comment.
fn within_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}
