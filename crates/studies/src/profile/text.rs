//! The model as a file that scenarios take, with what was not measured in its comments.

use super::Profiled;
use super::model::{Model, Reuse};
use std::fmt::Write;

/// The whole file.
pub(super) fn toml(found: &Profiled) -> String {
    let mut text = String::new();
    let head = format!(
        "{}: what it does to memory, measured by maracas {} on {}, {:.1} s of its time on a core.",
        found.program,
        env!("CARGO_PKG_VERSION"),
        found.host,
        found.service.as_secs_f64()
    );
    comment(&mut text, &head);
    for remark in &found.remarks {
        comment(&mut text, remark);
    }
    let [first, others @ ..] = found.phases.as_slice() else {
        comment(&mut text, "It touches no memory to speak of; drop `memory` from its program.");
        return text;
    };
    // No counter shows the order of its accesses.
    text += "pattern = \"rand\" # not measured\n";
    // Write-backs are counted for all cores together.
    text += "writebacks = 0 # not measured\n";
    if let Some(bytes) = found.working_set {
        let _ =
            writeln!(text, "working_set = \"{}\" # touched within a second, at most", size(bytes));
    } else {
        text += "working_set = \"1MiB\" # not measured: the kernel does not say\n";
    }
    for line in lines(first) {
        text += &(line + "\n");
    }
    if others.is_empty() {
        return text;
    }
    text += "phases = [\n";
    for phase in &found.phases {
        let run = format!("run = \"{}us\"", rounded(phase.run.as_micros()));
        let values: Vec<_> =
            lines(phase).iter().map(|line| uncommented(line).to_string()).collect();
        let _ = writeln!(text, "    {{ {run}, {} }}, # {}", values.join(", "), rate(phase));
    }
    text + "]\n"
}

fn comment(text: &mut String, line: &str) {
    const WIDTH: usize = 96;
    let mut column = 0;
    for word in line.split_whitespace() {
        if column > 0 && column + 1 + word.len() > WIDTH {
            *text += "\n";
            column = 0;
        }
        *text += if column == 0 { "# " } else { " " };
        *text += word;
        column += 1 + word.len() + usize::from(column == 0);
    }
    *text += "\n";
}

fn uncommented(line: &str) -> &str {
    line.split(" #").next().unwrap_or(line).trim_end()
}

/// What a phase sets.
fn lines(model: &Model) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match model.instructions {
        Some(instructions) => format!("instructions = {} # per reference", number(instructions)),
        None => "instructions = 1 # not measured".to_string(),
    });
    // A reference that hits takes a while wherever any may hit.
    let least = if model.reuse == Reuse::Stream { 0.0 } else { 0.001 };
    lines.push(format!("think = \"{:.3}ns\"", model.think_ns.max(least)));
    lines.push(match model.outstanding {
        Some(outstanding) => format!("outstanding = {}", number(outstanding)),
        None => "outstanding = 1 # not measured".to_string(),
    });
    lines.push(match &model.reuse {
        Reuse::Stream => "reuse = \"stream\"".to_string(),
        Reuse::Random => "reuse = \"random\"".to_string(),
        Reuse::Curve(points) => {
            let point = |(bytes, ratio): &(u64, f64)| format!("[\"{}\", {ratio:.4}]", size(*bytes));
            let points: Vec<_> = points.iter().map(point).collect();
            format!("curve = [{}]", points.join(", "))
        }
    });
    lines
}

/// To three digits: a length is a mean of few.
fn rounded(micros: u128) -> u128 {
    let unit = 10_u128.pow(micros.max(1).ilog10().saturating_sub(2));
    ((micros + unit / 2) / unit * unit).max(1)
}

fn rate(model: &Model) -> String {
    format!("{:.2} references/us, {:.1} % miss", model.rate, model.ratio * 100.0)
}

/// Within the bounds of scenarios, to a thousandth.
fn number(value: f64) -> String {
    format!("{:.3}", value.clamp(0.001, 1e9))
}

fn size(bytes: u64) -> String {
    match bytes.max(64) {
        bytes if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
        bytes if bytes % (1 << 10) == 0 => format!("{}KiB", bytes >> 10),
        bytes => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::memory::Reuse as Read;
    use maracas_scenario::Scenario;
    use std::time::Duration;

    fn model(run_us: u64, reuse: Reuse) -> Model {
        Model {
            run: Duration::from_micros(run_us),
            instructions: Some(12.3456),
            think_ns: 4.5,
            outstanding: Some(2.25),
            reuse,
            ratio: 0.5,
            latency_ns: None,
            rate: 30.0,
        }
    }

    fn found(phases: Vec<Model>) -> Profiled {
        Profiled {
            program: "./mine --with \"quotes\"".to_string(),
            host: "a host".to_string(),
            service: Duration::from_secs(3),
            own_latency_ns: None,
            phases,
            working_set: Some(5 << 20),
            loads: Vec::new(),
            remarks: vec!["Something was not measured, as it is with machines. ".repeat(9)],
        }
    }

    /// What a scenario reads from the file.
    fn read(name: &str, text: &str) -> maracas_core::memory::Profile {
        let folder = std::env::temp_dir().join(format!("maracas-model-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        std::fs::write(folder.join(name), text).expect("the model is written");
        let scenario = format!(
            "version = 1\n[platform]\npreset = \"i5-2500k\"\n[[program]]\nname = \"a\"\n\
             budget = \"1ms\"\nperiod = \"10ms\"\nworkload = {{ kind = \"busy\" }}\n\
             memory = \"{name}\"\n"
        );
        let file = folder.join("scenario.toml");
        let read = Scenario::parse(&scenario, &file.display().to_string()).expect("it is read");
        std::fs::remove_file(folder.join(name)).expect("it is there");
        // The last of the tests that run at once removes it.
        let _ = std::fs::remove_dir(&folder);
        let memory = read.sim_memory().expect("the platform has memory");
        memory.programs[0].clone().expect("it uses memory")
    }

    #[test]
    fn a_scenario_reads_what_was_written() {
        let curve = Reuse::Curve(vec![(1 << 20, 0.75), (3 << 19, 0.25)]);
        let text = toml(&found(vec![model(1, curve)]));
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        let profile = read("curve.toml", &text);
        let [(_, memory)] = profile.phases.as_slice() else { panic!("{profile:?}") };
        assert_eq!((memory.instructions_milli, memory.think_ps), (12_346, 4500));
        assert_eq!((memory.outstanding_milli, memory.working_set), (2250, 5 << 20));
        assert_eq!(memory.reuse, Read::Curve(vec![(1 << 20, 750_000), (3 << 19, 250_000)]));
    }

    #[test]
    fn phases_are_written_with_their_lengths() {
        let phases = vec![model(1_234_567, Reuse::Random), model(40_000, Reuse::Stream)];
        let profile = read("phases.toml", &toml(&found(phases)));
        let runs: Vec<_> = profile.phases.iter().map(|(run, _)| run.ticks()).collect();
        assert_eq!(runs, [1_230_000_000, 40_000_000]);
        let reuse: Vec<_> = profile.phases.iter().map(|(_, memory)| memory.reuse.clone()).collect();
        assert_eq!(reuse, [Read::Random, Read::Stream]);
    }

    #[test]
    fn a_program_without_memory_is_reported_so() {
        let text = toml(&found(Vec::new()));
        assert!(text.contains("drop `memory`"), "{text}");
        assert!(text.lines().all(|line| line.starts_with('#')), "{text}");
    }
}
