//! Every key that a scenario file may have, by table: the one list behind the reader's "did you
//! mean", the JSON Schema and the reference document.

/// The keys of one kind of table.
#[derive(Debug)]
pub struct Keys {
    /// Where such a table stands, as a user would say it.
    pub table: &'static str,
    /// Its keys, in the order of the reference document.
    pub keys: &'static [&'static str],
    /// Whether any other key may stand there too.
    pub open: bool,
}

pub(crate) const fn closed(table: &'static str, keys: &'static [&'static str]) -> Keys {
    Keys { table, keys, open: false }
}

/// The top of the file.
pub static ROOT: Keys = closed(
    "the scenario",
    &[
        "version",
        "platform",
        "policy",
        "run",
        "overheads",
        "live",
        "device",
        "locks",
        "resource",
        "vcpu",
        "program",
    ],
);
/// `[platform]`
pub static PLATFORM: Keys =
    closed("[platform]", &["cores", "preset", "class", "mhz", "colors", "ways", "dram", "cache"]);
/// `[[platform.class]]`
pub static CLASS: Keys = closed("[[platform.class]]", &["name", "cores", "speed"]);
/// `[platform.dram]`
pub static DRAM: Keys = closed(
    "[platform.dram]",
    &[
        "tck",
        "cl",
        "trcd",
        "trp",
        "tras",
        "trfc",
        "trefi",
        "twr",
        "twtr",
        "cwl",
        "burst",
        "channels",
        "ranks",
        "banks",
        "conflict_latency",
        "conflict_service",
        "model",
    ],
);
/// `[platform.cache]`
pub static CACHE: Keys = closed(
    "[platform.cache]",
    &["size", "ways", "slices", "colors", "replacement", "cores_per_cache"],
);
/// `[[device]]`
pub static DEVICE: Keys =
    closed("[[device]]", &["name", "pattern", "bandwidth", "writes", "outstanding", "on", "off"]);
/// `[policy]`: every other key is a parameter of the policy.
pub static POLICY: Keys = Keys { table: "[policy]", keys: &["name"], open: true };
/// `[run]`
pub static RUN: Keys = closed("[run]", &["duration", "seed", "serve", "user"]);
/// `[overheads]`
pub static OVERHEADS: Keys = closed(
    "[overheads]",
    &[
        "context_switch",
        "migration",
        "decision",
        "release",
        "sample",
        "lock",
        "structure",
        "page_copy",
    ],
);
/// `[live]`
pub static LIVE: Keys = closed("[live]", &["sense", "throttle_by", "cache"]);
/// `[[vcpu]]`
pub static VCPU: Keys = closed(
    "[[vcpu]]",
    &[
        "name",
        "budget",
        "period",
        "deadline",
        "core",
        "colors",
        "weight",
        "bandwidth",
        "criticality",
        "class",
        "speedup",
        "kind",
        "jobs",
        "offset",
    ],
);
/// `[[program]]`
pub static PROGRAM: Keys = closed(
    "[[program]]",
    &[
        "name",
        "command",
        "dir",
        "env",
        "output",
        "user",
        "vcpu",
        "budget",
        "period",
        "deadline",
        "core",
        "colors",
        "weight",
        "bandwidth",
        "criticality",
        "class",
        "speedup",
        "kind",
        "jobs",
        "offset",
        "workload",
        "memory",
        "pace",
        "sections",
        "threads",
        "start",
        "stop",
    ],
);
/// `[[resource]]`
pub static RESOURCE: Keys = closed("[[resource]]", &["name"]);
/// A critical section of a program.
pub static SECTION: Keys = closed("a section", &["resource", "at", "length"]);
/// `env` of a program: every key is a variable.
pub static ENV: Keys = Keys { table: "`env`", keys: &[], open: true };
/// A cost that is drawn anew for every piece of work.
pub static COST: Keys = closed("a cost", &["uniform", "exponential"]);
/// `workload` before its kind is known.
pub static WORKLOAD: Keys = closed(
    "`workload`",
    &["kind", "cost", "run", "sleep", "every", "on_behalf", "mandatory", "optional"],
);
/// The kinds of `workload` with the keys of each.
pub static WORKLOAD_KINDS: [(&str, Keys); 5] = [
    ("busy", closed("workload kind busy", &["kind"])),
    ("periodic", closed("workload kind periodic", &["kind", "cost"])),
    ("run-sleep", closed("workload kind run-sleep", &["kind", "run", "sleep"])),
    ("event-driven", closed("workload kind event-driven", &["kind", "every", "cost", "on_behalf"])),
    ("anytime", closed("workload kind anytime", &["kind", "mandatory", "optional"])),
];

/// `memory` of a program.
pub static MEMORY: Keys = closed(
    "`memory`",
    &[
        "model",
        "delay",
        "pattern",
        "think",
        "outstanding",
        "writebacks",
        "instructions",
        "working_set",
        "reuse",
        "curve",
        "phases",
    ],
);
/// A phase of `memory`.
pub static PHASE: Keys = closed(
    "a phase",
    &[
        "run",
        "model",
        "delay",
        "pattern",
        "think",
        "outstanding",
        "writebacks",
        "instructions",
        "working_set",
        "reuse",
        "curve",
    ],
);

/// `pace` of a program, or a phase of it: every other key is a class of cores.
pub static PACE: Keys = Keys { table: "`pace`", keys: &["work"], open: true };
/// A data file of paces: every key is a platform known by name.
pub(crate) static PACES: Keys = Keys { table: "the paces", keys: &[], open: true };

/// The top of a file for `maracas memory`.
pub static MIX: Keys = closed("the mix", &["platform", "requestor"]);
/// `[[requestor]]` of such a file.
pub static REQUESTOR: Keys =
    closed("[[requestor]]", &["pattern", "think", "outstanding", "writebacks"]);

/// All tables of a scenario, for tests and documents.
pub static TABLES: [&Keys; 20] = [
    &ROOT, &PLATFORM, &CLASS, &DRAM, &CACHE, &POLICY, &RUN, &OVERHEADS, &LIVE, &DEVICE, &RESOURCE,
    &SECTION, &VCPU, &PROGRAM, &ENV, &COST, &WORKLOAD, &MEMORY, &PHASE, &PACE,
];
