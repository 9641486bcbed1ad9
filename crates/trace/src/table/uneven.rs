//! How VCPUs fared on cores of uneven speed, below where the cores' time went.

use super::{Paint, block, counted, percent, wrapped};
use crate::report::{ClassReport, ClassUse, FairnessReport, Report, TaskReport, class_name};
use std::io;

/// With more classes than these the speeds on each would not fit a line; JSON has them.
const SPEEDS_OF: usize = 2;
/// With more classes than these the parts of time on each would not.
const PARTS_OF: usize = 6;

/// Prints nothing where all cores are equally fast.
pub(super) fn write(
    report: &Report,
    paint: Paint,
    columns: usize,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let Some(fairness) = &report.fairness else { return Ok(()) };
    let classes = fairness.classes.len();
    let names: Vec<_> = (0..classes).map(|class| class_name(class, classes)).collect();
    let shown = shown(classes, &report.tasks);
    let mut head = vec!["uneven cores".to_string()];
    head.extend(shown.iter().map(|class| names[*class].clone()));
    if classes <= SPEEDS_OF {
        head.extend(names.iter().map(|class| format!("IPS {class}")));
    }
    head.extend(["speedup", "performance"].map(String::from));
    let rows: Vec<_> = report.tasks.iter().filter_map(|task| row(task, &shown)).collect();
    if !rows.is_empty() {
        block(&head, &rows, paint, columns, out)?;
    }
    let items: Vec<_> = fairness.classes.iter().zip(&names).map(class).collect();
    wrapped("classes: ", &items, columns).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let mut items = whole(fairness, &report.tasks);
    items.extend(had(report));
    wrapped("fairness: ", &items, columns).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The classes whose part of the time is shown: all, or of many those on which a VCPU was.
fn shown(classes: usize, tasks: &[TaskReport]) -> Vec<usize> {
    let speeds: Vec<_> = tasks.iter().filter_map(|task| task.speed.as_ref()).collect();
    let was_used = |class: &usize| speeds.iter().any(|speed| speed.classes[*class].time_ns > 0);
    let mut shown: Vec<usize> = (0..classes).collect();
    if classes > PARTS_OF {
        shown.retain(was_used);
        if shown.len() > PARTS_OF {
            shown.clear();
        }
    }
    shown
}

fn row(task: &TaskReport, shown: &[usize]) -> Option<Vec<String>> {
    let speed = task.speed.as_ref().filter(|speed| speed.wanted_ns > 0)?;
    let part = |class: &ClassUse| percent(class.time_ns as f64 / speed.wanted_ns as f64);
    let mut cells = vec![task.name.clone()];
    cells.extend(shown.iter().map(|class| part(&speed.classes[*class])));
    if speed.classes.len() <= SPEEDS_OF {
        cells.extend(speed.classes.iter().map(|class| class.ips.map_or("-".into(), per_second)));
    }
    let bound = || speed.performance_at_most.map_or("-".into(), |most| format!("≤{most:.3}"));
    let performance = speed.performance.map_or_else(bound, |it| format!("{it:.3}"));
    cells.extend([speed.speedup.map_or("-".into(), |it| format!("{it:.3}")), performance]);
    Some(cells)
}

/// Four digits and the prefix that needs fewest: `1.998G`, `30.1k`, `7.25`.
fn per_second(ips: f64) -> String {
    let (scale, prefix) = match ips {
        ips if ips < 999.95 => (1.0, ""),
        ips if ips < 999.95e3 => (1e3, "k"),
        ips if ips < 999.95e6 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    let value = ips / scale;
    let decimals = match value {
        value if value < 9.9995 => 3,
        value if value < 99.995 => 2,
        _ => 1,
    };
    format!("{value:.decimals$}{prefix}")
}

fn class((class, name): (&ClassReport, &String)) -> String {
    let cores: Vec<_> = class.cores.iter().map(|core| format!("core{core}")).collect();
    let speed = f64::from(class.speed_milli) / 1000.0;
    format!("{name} at {speed:.3} {}", cores.join(" "))
}

/// The figures of the whole.
fn whole(fairness: &FairnessReport, tasks: &[TaskReport]) -> Vec<String> {
    let mut items = Vec::new();
    items.extend(fairness.throughput.map(|mean| format!("throughput {mean:.4}")));
    if let Some(least) = fairness.min_fairness {
        let whose = tasks.iter().find(|task| Some(task.id) == fairness.min_vcpu);
        let speed = whose.and_then(|task| task.speed.as_ref());
        let bound = speed.is_some_and(|speed| speed.performance.is_none());
        let name = whose.map_or("", |task| &task.name);
        items.push(format!("MinFairness {}{least:.4} ({name})", if bound { "≤" } else { "" }));
    } else {
        items.push("no performance is known".into());
    }
    items.extend(fairness.uniformity.map(|it| format!("Uniformity {it:.4}")));
    if fairness.unknown > 0 {
        items.push(format!("{} of unknown speed", counted(fairness.unknown, "VCPU")));
    }
    items
}

/// Below this part of the time that cores were given to VCPUs it is said that others of the host
/// ran beside them: all performances are lower by that.
const QUIET: f64 = 0.95;

/// Which part VCPUs had of the time that cores were given to them, where that was too little.
fn had(report: &Report) -> Option<String> {
    let used: u64 = report.tasks.iter().map(|task| task.foreground_ns + task.background_ns).sum();
    let given: u64 = report.cores.iter().map(|core| core.foreground_ns + core.background_ns).sum();
    let had = used as f64 / given.max(1) as f64;
    let busy = report.machine != "sim" && given > 0 && had < QUIET;
    busy.then(|| format!("others of the host ran beside: VCPUs had {} of the time", percent(had)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_host_is_named() {
        let mut report = crate::testkit::figure().report(24_000);
        for (place, core) in report.cores.iter_mut().enumerate() {
            (core.foreground_ns, core.background_ns) = (20_000 * (1 - place as u64), 0);
        }
        for (place, task) in report.tasks.iter_mut().enumerate() {
            (task.foreground_ns, task.background_ns) = ([9_000, 0, 0][place], [0, 1_000, 0][place]);
        }
        assert_eq!(had(&report), None, "in simulation it is what overheads take");
        report.machine = "live".into();
        let said = "others of the host ran beside: VCPUs had 50.0% of the time";
        assert_eq!(had(&report).as_deref(), Some(said));
        report.tasks[0].background_ns = 9_000;
        assert_eq!(had(&report), None, "95 % are quiet enough");
    }

    #[test]
    fn speeds_have_four_digits() {
        let shown = [7.25, 999.0, 30_100.0, 999_960.0, 1.998e9].map(per_second);
        assert_eq!(shown, ["7.250", "999.0", "30.10k", "1.000M", "1.998G"]);
    }

    #[test]
    fn of_many_classes_those_in_use_are_shown() {
        let mut story = crate::testkit::figure();
        let classes: Vec<_> = (0..8).map(|class| (1, 1000 - 10 * class)).collect();
        story.header.system = maracas_core::System::new(8, story.header.system.vcpus.clone());
        story.header.system = story.header.system.uneven(&classes);
        let mut tasks = story.report(24_000).tasks;
        assert_eq!(shown(8, &tasks), [0, 1], "two cores are in use");
        assert_eq!(shown(6, &tasks), [0, 1, 2, 3, 4, 5], "so many fit a line");
        for class in &mut tasks[0].speed.as_mut().unwrap().classes {
            class.time_ns = 1;
        }
        assert_eq!(shown(8, &tasks), [0; 0], "more do not");
    }
}
