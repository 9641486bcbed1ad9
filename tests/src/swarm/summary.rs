//! What a swarm went through.

use super::Kind;
use crate::check::Checked;
use crate::{Case, KernelPlayed, Played};
use maracas_core::gcd;
use std::collections::BTreeMap;
use std::fmt;

/// What policies call the figure for the depth of their tree.
const LEVELS: &str = "levels";

/// The cases of one kind under one policy.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Row {
    /// All of them.
    pub cases: u64,
    /// Those that the policy refused.
    pub refused: u64,
    /// Those in which no miss was to be seen.
    pub strict: u64,
    /// Those with U = m exactly.
    pub full: u64,
    /// Those whose tree had at least so many levels: 1, 2, 3, 4.
    pub levels: [u64; 4],
    /// Jobs released in them.
    pub jobs: u64,
    /// Decisions of the live machine.
    pub decisions: u64,
    /// Those of them that a core took alone.
    pub alone: u64,
}

impl Row {
    fn add(&mut self, other: &Self) {
        let Self { cases, refused, strict, full, levels, jobs, decisions, alone } = other;
        self.cases += cases;
        self.refused += refused;
        self.strict += strict;
        self.full += full;
        self.jobs += jobs;
        self.decisions += decisions;
        self.alone += alone;
        self.levels.iter_mut().zip(levels).for_each(|(sum, level)| *sum += level);
    }
}

/// What a swarm went through, by kind of case and policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// By kind and policy.
    pub rows: BTreeMap<(Kind, &'static str), Row>,
}

impl Summary {
    /// Counts a case that passed; `None` = the policy refused it.
    pub(super) fn count(&mut self, kind: Kind, case: &Case, checked: Option<&Checked>) {
        let mut row = Row { cases: 1, ..Row::default() };
        row.refused = u64::from(checked.is_none());
        if let Some(Checked { outcome, statistics, claims }) = checked {
            let levels = statistics.iter().find(|statistic| statistic.name == LEVELS);
            let levels = levels.map_or(0, |statistic| statistic.value);
            row.strict = u64::from(claims.no_miss_when_admitted);
            row.full = u64::from(is_full(case));
            row.jobs = outcome.released;
            row.levels = [1, 2, 3, 4].map(|least| u64::from(levels >= least));
        }
        self.rows.entry((kind, case.entry.name)).or_default().add(&row);
    }
    /// Counts a case of the live machine that passed; `None` = the policy refused it.
    pub(super) fn count_live(&mut self, policy: &'static str, played: Option<Played>) {
        let refused = u64::from(played.is_none());
        let Played { decisions, alone, .. } = played.unwrap_or_default();
        let row = Row { cases: 1, refused, decisions, alone, ..Row::default() };
        self.rows.entry((Kind::Live, policy)).or_default().add(&row);
    }
    /// Counts a case of the machine in the kernel that passed; `None` = the policy refused it.
    pub(super) fn count_kernel(&mut self, policy: &'static str, played: Option<KernelPlayed>) {
        let refused = u64::from(played.is_none());
        let KernelPlayed { decisions, jobs, .. } = played.unwrap_or_default();
        let row = Row { cases: 1, refused, decisions, jobs, ..Row::default() };
        self.rows.entry((Kind::Kernel, policy)).or_default().add(&row);
    }
    /// Adds what another part of the swarm went through.
    pub fn add(&mut self, other: &Self) {
        for (key, row) in &other.rows {
            self.rows.entry(*key).or_default().add(row);
        }
    }
    /// All cases of some kinds and policies.
    pub fn sum(&self, of: impl Fn(Kind, &str) -> bool) -> Row {
        let mut sum = Row::default();
        let rows = self.rows.iter().filter(|((kind, policy), _)| of(*kind, policy));
        rows.for_each(|(_, row)| sum.add(row));
        sum
    }
}

/// Whether the tasks ask for all of the cores, to the last tick.
fn is_full(case: &Case) -> bool {
    let system = &case.random.system;
    let add = |(num, den): (u64, u64), vcpu: &maracas_core::Vcpu| {
        let (c, t) = (vcpu.reservation.budget.ticks(), vcpu.reservation.period.ticks());
        let common = (den / gcd(den, t)).checked_mul(t)?;
        Some((num.checked_mul(common / den)?.checked_add(c.checked_mul(common / t)?)?, common))
    };
    let sum = system.vcpus.iter().try_fold((0, 1), add);
    let cores = system.cores.len() as u64;
    sum.is_some_and(|(num, den)| num.is_multiple_of(den) && num / den == cores)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:8} {:22} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>11}",
            "kind",
            "policy",
            "cases",
            "refused",
            "no-miss",
            "U=m",
            "level>=1",
            ">=2",
            ">=3",
            ">=4",
            "jobs"
        )?;
        let row = |f: &mut fmt::Formatter<'_>, kind: &str, policy: &str, row: &Row| {
            let Row { cases, refused, strict, full, levels: [a, b, c, d], jobs, .. } = row;
            writeln!(
                f,
                "{kind:8} {policy:22} {cases:>8} {refused:>8} {strict:>8} {full:>8} {a:>8} {b:>8} \
                 {c:>8} {d:>8} {jobs:>11}"
            )
        };
        for ((kind, policy), own) in &self.rows {
            row(f, kind.word(), policy, own)?;
        }
        let all = self.sum(|_, _| true);
        row(f, "all", "", &all)?;
        match (all.decisions, all.alone) {
            (0, _) => Ok(()),
            (decisions, alone) => {
                writeln!(f, "{decisions} live decisions, {alone} of them by cores alone")
            }
        }
    }
}
