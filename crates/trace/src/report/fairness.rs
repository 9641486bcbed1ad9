//! What a report says of cores of uneven speed. How it is counted stands in
//! [`Metrics`](crate::Metrics) and, for users, in `docs/output.md`.

use serde::{Deserialize, Serialize};

/// How evenly VCPUs progressed on cores of uneven speed, as Kim and Huh name it: figures over the
/// normalised [performances](SpeedReport::performance) of all VCPUs that have one. `null` where
/// there is none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FairnessReport {
    /// The classes of cores, the fastest first.
    pub classes: Vec<ClassReport>,
    /// How many VCPUs have a performance.
    pub judged: u64,
    /// How many had enough to run, but have none, as their speed on some class is not known.
    pub unknown: u64,
    /// Mean performance.
    pub throughput: Option<f64>,
    /// Least performance, or what one can be [at most](SpeedReport::performance_at_most) where that
    /// is less.
    pub min_fairness: Option<f64>,
    /// Whose performance that is.
    pub min_vcpu: Option<u32>,
    /// 1 less the standard deviation (of the population) by the mean.
    pub uniformity: Option<f64>,
}

/// One class of cores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its declared speed in thousandths of the fastest's.
    pub speed_milli: u32,
    /// Its cores.
    pub cores: Vec<u16>,
}

/// How one VCPU fared on cores of uneven speed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SpeedReport {
    /// What it got on each class of cores, the fastest first.
    pub classes: Vec<ClassUse>,
    /// Time in which it had something to run, whether it ran or not.
    pub wanted_ns: u64,
    /// Instructions per second on the fastest class by those on the slowest; `null` where either
    /// is not known.
    pub speedup: Option<f64>,
    /// Its progress, by what it would have made had all VCPUs that had something to run shared
    /// each class of cores equally; `null` where its speed on some class is not known, or where it
    /// had too little to run.
    pub performance: Option<f64>,
    /// Where its performance is not known for want of its speed on some class: the most that it can
    /// be, as no program is slower there than the declared speeds of the classes say.
    #[serde(default)]
    pub performance_at_most: Option<f64>,
}

/// What one VCPU got on one class of cores, in both modes.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct ClassUse {
    /// Time on its cores, as the VCPU's meter charged it.
    pub time_ns: u64,
    /// Instructions, or the program's own units of progress.
    pub instructions: u64,
    /// Instructions per second of that time; `null` where nothing was counted.
    pub ips: Option<f64>,
}

/// What a class is called among so many: of two they are the fast and the slow cores.
pub(crate) fn class_name(class: usize, classes: usize) -> String {
    match (classes, class) {
        (2, 0) => "fast".into(),
        (2, 1) => "slow".into(),
        (_, class) => format!("class{class}"),
    }
}
