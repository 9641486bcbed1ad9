//! What the run did to memory, below the table of times.

use super::{Paint, block, counted, time, wrapped};
use crate::report::{
    ControllerReport, Counts, MemoryReport, Report, SensingReport, StatisticReport, TaskReport,
};
use maracas_core::{CoreId, VcpuId};
use std::io;

const HEAD: [&str; 7] =
    ["memory", "Minst foregr", "Minst backgr", "references", "miss ratio", "read", "written"];

/// Bytes of one request.
const LINE_BYTES: f64 = maracas_core::memory::LINE_BYTES as f64;

/// Prints what was counted: VCPUs, controller, the policy's own figures. Nothing where nothing was.
pub(super) fn write(
    report: &Report,
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let rows: Vec<_> = report.tasks.iter().filter(|task| used(report, task)).map(row).collect();
    if !rows.is_empty() {
        block(&HEAD.map(String::from), &rows, paint, columns, out)?;
    }
    let mut list = |(text, items): (String, Vec<String>)| {
        wrapped(&text, &items, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
    };
    let held = report.tasks.iter().filter(|task| task.held_ns > 0);
    let held: Vec<_> =
        held.map(|task| format!("{} {}", task.name, time(task.held_ns as f64))).collect();
    if !held.is_empty() {
        list(("held by their own bandwidth: ".into(), held))?;
    }
    report.memory.as_ref().map(controller).into_iter().try_for_each(&mut list)?;
    report.controller.as_ref().map(sampled).into_iter().try_for_each(&mut list)?;
    report.sensing.iter().flat_map(sensed).try_for_each(&mut list)?;
    statistics(report).into_iter().try_for_each(list)
}

/// Whether the counters saw anything of it. On uneven cores instructions are counted for their
/// own sake and say nothing of memory.
fn used(report: &Report, task: &TaskReport) -> bool {
    let mut counts = task.foreground.plus(&task.background);
    if report.fairness.is_some() {
        counts.instructions = 0;
    }
    counts != Counts::default()
}

fn row(task: &TaskReport) -> Vec<String> {
    let all = task.foreground.plus(&task.background);
    let millions = |count: u64| format!("{:.1}", count as f64 / 1e6);
    vec![
        task.name.clone(),
        millions(task.foreground.instructions),
        millions(task.background.instructions),
        all.references.to_string(),
        all.miss_ratio().map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0)),
        bytes(all.misses),
        bytes(all.writes),
    ]
}

/// Lines of memory as bytes, with the unit that fits.
fn bytes(lines: u64) -> String {
    let bytes = lines as f64 * LINE_BYTES;
    match bytes {
        bytes if bytes < 1e6 => format!("{:.1}kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1}MB", bytes / 1e6),
        bytes => format!("{:.2}GB", bytes / 1e9),
    }
}

/// What the controller counted of the whole run.
fn controller(memory: &MemoryReport) -> (String, Vec<String>) {
    let part = |requests: u64| 100.0 * requests as f64 / memory.requests.max(1) as f64;
    let mut items = vec![
        format!("{} read", bytes(memory.reads)),
        format!("{} written", bytes(memory.writes)),
        counted(memory.requests, "request"),
        format!("latency {}", cycles(memory.latency_mean_cycles)),
        format!("cores {:.1}%", part(memory.requests_by_cores)),
    ];
    let devices = memory.devices.iter();
    items.extend(devices.map(|device| format!("{} {:.1}%", device.name, part(device.requests))));
    ("controller: ".into(), items)
}

/// What the policy's monitor saw of it.
fn sampled(controller: &ControllerReport) -> (String, Vec<String>) {
    let items = vec![
        format!(
            "{} over {}",
            counted(controller.samples, "time"),
            time(controller.sampled_ns as f64)
        ),
        counted(controller.requests, "request"),
        format!("latency {}", cycles(controller.latency_mean_cycles)),
        format!("highest {}", cycles(controller.latency_max_cycles)),
    ];
    ("sampled: ".into(), items)
}

/// By what memory was sensed, what is to be known of that, and how fast cores were steered.
fn sensed(sensing: &SensingReport) -> Vec<(String, Vec<String>)> {
    let sensor = sensing.sensor.iter().map(|sensor| ("sensor: ".into(), vec![sensor.clone()]));
    let notes = sensing.notes.iter().map(|text| ("sensing: ".into(), vec![text.clone()]));
    let reactions = sensing.reactions.iter().map(|reaction| {
        let (p50, p99) = (time(reaction.took_p50_ns as f64), time(reaction.took_p99_ns as f64));
        let times = counted(reaction.count, "time");
        let mut items = vec![format!("{times}, after p50 {p50} p99 {p99}")];
        items.extend(reaction.beyond_max.map(|reads| {
            let reads = counted(reads, "read");
            format!("by {reads} beyond at most")
        }));
        (format!("{}: ", reaction.name), items)
    });
    sensor.chain(notes).chain(reactions).collect()
}

fn cycles(latency: Option<f64>) -> String {
    latency.map_or_else(|| "-".into(), |cycles| format!("{cycles:.1} cycles"))
}

/// The policy's own figures: one line a name, or a row of names that differ in a percentage.
fn statistics(report: &Report) -> Vec<(String, Vec<String>)> {
    let statistics = &report.statistics;
    let mut rows: Vec<&str> = Vec::new();
    for statistic in statistics.iter().filter(|statistic| statistic.value > 0) {
        if !rows.contains(&row_of(&statistic.name)) {
            rows.push(row_of(&statistic.name));
        }
    }
    rows.into_iter()
        .map(|row| {
            let own = statistics.iter().filter(|statistic| row_of(&statistic.name) == row);
            let own: Vec<&StatisticReport> = own.collect();
            (titled(row, &own), by_place(&own, &report.tasks))
        })
        .collect()
}

/// What a figure's name shares with those of its row: all but a percentage at its end.
fn row_of(name: &str) -> &str {
    name.rsplit_once(' ').filter(|(_, last)| last.ends_with('%')).map_or(name, |(row, _)| row)
}

fn titled(row: &str, statistics: &[&StatisticReport]) -> String {
    let percentage =
        |statistic: &StatisticReport| statistic.name[row.len()..].trim_start().to_string();
    match (statistics.first(), statistics.last()) {
        (Some(first), Some(last)) if first.name != last.name => {
            format!("{row} {}..{}: ", percentage(first), percentage(last))
        }
        (Some(one), _) => format!("{}: ", one.name),
        (None, _) => format!("{row}: "),
    }
}

/// The values core by core and VCPU by VCPU, without those where all are 0.
fn by_place(statistics: &[&StatisticReport], tasks: &[TaskReport]) -> Vec<String> {
    let place = |statistic: &StatisticReport| (statistic.core, statistic.vcpu);
    let mut places = Vec::new();
    for statistic in statistics.iter().filter(|statistic| statistic.value > 0) {
        if !places.contains(&place(statistic)) {
            places.push(place(statistic));
        }
    }
    let name = |vcpu: u32| {
        let task = tasks.iter().find(|task| task.id == vcpu);
        task.map_or_else(|| VcpuId(vcpu).to_string(), |task| task.name.clone())
    };
    let values = |&(core, vcpu): &(Option<u16>, Option<u32>)| {
        let mut words: Vec<String> = vcpu.map(name).into_iter().collect();
        words.extend(core.map(|core| CoreId(core).to_string()));
        let own = statistics.iter().filter(|statistic| place(statistic) == (core, vcpu));
        words.extend(own.map(|statistic| statistic.value.to_string()));
        words.join(" ")
    };
    places.iter().map(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ReactionReport;

    #[test]
    fn sensing_has_a_line_for_each_thing() {
        let reaction = ReactionReport {
            name: "throttled".into(),
            count: 24,
            took_p50_ns: 31_000,
            took_p99_ns: 80_500,
            took_max_ns: 90_000,
            beyond_max: None,
        };
        let closed =
            ReactionReport { name: "closed".into(), beyond_max: Some(12), ..reaction.clone() };
        let sensing = SensingReport {
            sensor: Some("pointer chase".into()),
            notes: vec!["requests by core".into()],
            reactions: vec![reaction, closed],
        };
        let lines: Vec<_> =
            sensed(&sensing).into_iter().map(|(head, items)| head + &items.join(", ")).collect();
        let expected = [
            "sensor: pointer chase",
            "sensing: requests by core",
            "throttled: 24 times, after p50 31us p99 80.5us",
            "closed: 24 times, after p50 31us p99 80.5us, by 12 reads beyond at most",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!([10, 100_000, 20_000_000].map(bytes), ["0.6kB", "6.4MB", "1.28GB"]);
    }
}
