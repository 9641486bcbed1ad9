//! Structs of more than a dozen fields say why they are one.

use super::{none, short, sources};

/// So many fields need no reason (house rule).
const FIELDS_MAX: usize = 12;

/// A struct by the folder or file that it is in and its name, how many fields it may have at
/// most, and why. A number here only goes down.
const LARGE: &[(&str, &str, usize, &str)] = &[
    // A record of what users read: one field is one key of the JSON, the command or the file.
    ("crates/trace/src/report.rs", "TaskReport", 25, "one field a key of the JSON"),
    ("crates/trace/src/report.rs", "Report", 21, "one field a key of the JSON"),
    ("crates/core/src/control/gauges.rs", "VcpuGauges", 18, "one field a number that is shown"),
    ("crates/core/src/control/gauges.rs", "CoreGauges", 14, "one field a number that is shown"),
    ("crates/core/src/control/gauges.rs", "Gauges", 15, "one field a part of what is shown"),
    ("crates/live/src/doctor/findings.rs", "Findings", 14, "one field a thing that was tried"),
    ("crates/core/src/memory.rs", "Dram", 17, "one field a timing of the datasheet"),
    (
        "crates/sim/src/memory/requests/controller.rs",
        "Timings",
        15,
        "one field a timing of the datasheet",
    ),
    ("crates/client/src/c.rs", "MaracasVcpu", 14, "the C header's struct, field by field"),
    ("crates/live/src/sense/events.rs", "Pair", 13, "a row of the event tables"),
    ("crates/cli/src/commands/generate.rs", "Args", 13, "one field an option of the command"),
    ("crates/studies/src/bench/primitives.rs", "Args", 13, "one field an option of the command"),
    // The state of a pure machine or policy, which is one value on purpose: it is built, asked and
    // replayed as a whole. Its methods are spread over files by what they do.
    ("crates/live-core/src/enact.rs", "Core", 32, "the state of one core, whole"),
    ("crates/live-core/src/vcpu_handle.rs", "VcpuHandle", 32, "the state of one VCPU, whole"),
    ("crates/sim/src/lib.rs", "Outcome", 13, "what a run came to, one field a counter or a list"),
    ("crates/sim/src/machine.rs", "Machine", 25, "the simulator's state, whole"),
    ("crates/sim/src/priorities.rs", "Machine", 19, "the state of a run without plans, whole"),
    ("crates/sim/src/priorities/task.rs", "Task", 18, "the state of one task, whole"),
    ("crates/sim/src/workload.rs", "Demand", 19, "the state of one VCPU's work, whole"),
    ("crates/sim/src/memory/shared.rs", "SharedMemory", 21, "the model's state with its scratch"),
    ("crates/sim/src/memory/dram.rs", "Law", 17, "one field a constant of the law"),
    ("crates/policies/src/maracas/throttle.rs", "Throttle", 23, "Algorithm 1's own variables"),
    ("crates/policies/src/maracas/vcpu.rs", "State", 21, "the state of one VCPU, whole"),
    ("crates/policies/src/maracas/balance.rs", "Balance", 13, "Algorithm 2's own variables"),
    ("crates/policies/src/parts/table.rs", "Table", 18, "what admission keeps between requests"),
    ("crates/policies/src/u_edf.rs", "UEdf", 16, "a policy: parameters and its tasks"),
    ("crates/policies/src/u_edf.rs", "Task", 15, "the state of one task, whole"),
    ("crates/policies/src/qps/mod.rs", "Set", 13, "the state of one set, whole"),
    ("crates/policies/src/qps/members.rs", "Task", 13, "the state of one task, whole"),
    ("crates/policies/src/dp_wrap.rs", "DpWrap", 16, "a policy: parameters and its slice"),
    ("crates/trace/src/metrics.rs", "Metrics", 17, "one field a part of the report"),
    ("crates/trace/src/metrics/task.rs", "Task", 20, "what is counted of one VCPU"),
    ("crates/trace/src/metrics/windows.rs", "Windows", 18, "what is counted of one VCPU's periods"),
    // The live machine: what its threads share.
    ("crates/live-core/src/decider.rs", "Decider", 22, "all that the lock on deciding holds"),
    ("crates/live/src/machine/handle.rs", "Mailbox", 17, "all that asking threads share"),
    ("crates/live/src/executor/vcpu.rs", "ThisVcpu", 14, "what the kernel holds for one VCPU"),
    (
        "crates/live/src/host/launch/child.rs",
        "Preparation",
        14,
        "all that a child needs made before",
    ),
    ("crates/session/src/case.rs", "Case", 18, "all that a command knows of its case"),
    ("crates/live-core/src/kernel_core.rs", "KernelCore", 13, "the state of one core, whole"),
    ("crates/studies/src/bench/balance.rs", "Round", 13, "what a run came to"),
    // Tests.
    ("crates/live/src/sense/fakes.rs", "Host", 15, "a host that a test invents"),
    ("crates/policies/src/testing.rs", "Machine", 14, "a machine for tests, whole"),
    (
        "crates/policies/src/maracas/throttle/simulation.rs",
        "Bench",
        13,
        "a machine for tests, whole",
    ),
    ("tests/src/kernel/world.rs", "World", 20, "the simulated kernel, whole"),
    ("tests/src", "Known", 16, "what an auditor knows of one VCPU"),
    ("tests/src", "Auditor", 13, "an observer's state, whole"),
    ("tests/src", "Throttle", 15, "Algorithm 1 worked out another way"),
    ("tests/src", "MaracasAudit", 14, "an observer's state, whole"),
    ("tests/src", "LiveFaults", 22, "one field a fault"),
    ("tests/src/live/world.rs", "Group", 13, "one VCPU as the simulated kernel sees it"),
];

/// The structs of a formatted file: name, line, number of fields.
fn structs(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(rest) = without_visibility(line.trim_start()).strip_prefix("struct ") else {
            continue;
        };
        if !rest.ends_with('{') {
            continue;
        }
        let name = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let (end, inner) = (format!("{}}}", " ".repeat(indent)), " ".repeat(indent + 4));
        let body = lines[at + 1..].iter().take_while(|line| **line != end);
        let is_field = |line: &&&str| {
            line.strip_prefix(inner.as_str()).is_some_and(|line| {
                let line = without_visibility(line);
                let name = line.split(':').next().unwrap_or_default();
                name.len() < line.len()
                    && !name.is_empty()
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            })
        };
        found.push((name, at + 1, body.filter(is_field).count()));
    }
    found
}

/// `line` without `pub` and `pub(...)`.
fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    let rest = rest.strip_prefix('(').map_or(rest, |it| it.split_once(')').map_or(it, |it| it.1));
    rest.strip_prefix(' ').unwrap_or(line)
}

#[test]
fn large_structs_have_a_reason() {
    let mut problems = Vec::new();
    let mut unused: Vec<_> = LARGE.iter().collect();
    for (path, text) in sources() {
        let file = short(&path);
        for (name, line, fields) in structs(&text) {
            if fields <= FIELDS_MAX {
                continue;
            }
            let fits = |it: &(&str, &str, usize, &str)| file.starts_with(it.0) && name == it.1;
            unused.retain(|it| !fits(it));
            let most = LARGE.iter().find(|it| fits(it)).map_or(FIELDS_MAX, |it| it.2);
            if fields > most {
                problems.push(format!("{file}:{line}: {name} has {fields} fields, {most} may be"));
            }
        }
    }
    let gone = unused.iter().map(|it| format!("{}: {} needs no reason any more", it.0, it.1));
    problems.extend(gone);
    none(&problems);
}

#[test]
fn fields_are_counted() {
    let text = "pub(crate) struct A<T> {
    /// One: it.
    #[x]
    pub a: T,
    pub(super) b2: B,
    c: [u8; 2],
}
struct C;
    struct D {
        d: u8,
    }
";
    let found = structs(text);
    assert_eq!(found, [("A".into(), 1, 3), ("D".into(), 9, 1)]);
}
