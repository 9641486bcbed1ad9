//! The table of a sweep for people.

use maracas_console::output::{Paint, paint};
use maracas_scenario::sweep::MILLION;
use maracas_sweep::stats::Mean;
use maracas_sweep::study::{Point, Study};
use maracas_sweep::summary::{MEASURES, Standing};

/// The measures that are shown, with their headings and decimals. The others are in points.csv.
const SHOWN: [(&str, &str, usize); 5] = [
    ("miss_ratio", "misses/job", 4),
    ("tardiness_max_us", "max late us", 0),
    ("preemptions_per_job", "preempt/job", 3),
    ("migrations_per_job", "migrate/job", 3),
    ("depth", "levels", 2),
];

/// All standings: a block for each number of cores and tasks, a line for each utilization and
/// policy.
pub(super) fn table(study: &Study, standings: &[Standing]) -> String {
    let mut blocks: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for it in standings {
        let heading = heading(&it.point, it.sets);
        if blocks.last().is_none_or(|(last, _)| *last != heading) {
            blocks.push((heading, vec![headings()]));
        }
        if let Some((_, lines)) = blocks.last_mut() {
            lines.push(line(study, it));
        }
    }
    let shown = blocks
        .iter()
        .map(|(heading, lines)| format!("{}\n{}", paint(Paint::Strong, heading), aligned(lines)));
    shown.collect::<Vec<_>>().join("\n")
}

fn heading(point: &Point, sets: u64) -> String {
    let counted = |count: u64, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let tasks = point.tasks.map(|tasks| format!(", {}", counted(tasks as u64, "task")));
    let (cores, sets) = (counted(point.cores as u64, "core"), counted(sets, "set"));
    format!("{cores}{}, {sets}; 95 % confidence", tasks.unwrap_or_default())
}

fn headings() -> Vec<String> {
    let shown = SHOWN.iter().map(|(_, heading, _)| *heading);
    ["load", "policy", "success"].into_iter().chain(shown).map(str::to_owned).collect()
}

fn line(study: &Study, it: &Standing) -> Vec<String> {
    let share = it.point.utilization;
    let load = share.map(|share| (f64::from(share) / f64::from(MILLION)).to_string());
    let success = it.success();
    let percent = |share: f64| share * 100.0;
    let success = format!(
        "{:.1} % ({:.1}..{:.1})",
        percent(success.share),
        percent(success.low),
        percent(success.high)
    );
    let label = study.contenders[it.contender].label.clone();
    let mut cells = vec![load.unwrap_or_else(|| "-".into()), label, success];
    for (name, _, decimals) in SHOWN {
        let place = MEASURES.iter().position(|measure| measure.name == name);
        let mean = place.and_then(|place| it.means.as_ref().map(|means| means[place]));
        cells.push(mean.map_or_else(|| "-".into(), |mean| with_interval(&mean, decimals)));
    }
    cells
}

/// A mean and half of its interval; the mean alone where all sets came to the same.
fn with_interval(mean: &Mean, decimals: usize) -> String {
    if mean.half_width == 0.0 {
        return format!("{:.decimals$}", mean.mean);
    }
    format!("{:.decimals$} ±{:.decimals$}", mean.mean, mean.half_width)
}

/// Lines of cells, each column as wide as its widest; words to the left, numbers to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |place: usize| {
        lines.iter().filter_map(|line| line.get(place)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|place| width(place).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().enumerate().map(|(place, cell)| {
            let width = widths[place];
            if place == 1 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_intervals_are_shown_where_there_are_some() {
        let cells = |line: &str| line.split(' ').map(str::to_owned).collect();
        let text = aligned(&[cells("load policy success"), cells("0.5 run 1")]);
        assert_eq!(text, "load  policy  success\n 0.5  run           1\n");
        let mean = |half_width| with_interval(&Mean { mean: 0.5, half_width }, 2);
        assert_eq!((mean(0.0).as_str(), mean(0.25).as_str()), ("0.50", "0.50 ±0.25"));
    }

    #[test]
    fn every_measure_that_is_shown_is_there() {
        for (name, ..) in SHOWN {
            assert!(MEASURES.iter().any(|measure| measure.name == name), "{name}");
        }
    }
}
