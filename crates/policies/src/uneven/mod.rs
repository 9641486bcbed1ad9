//! (to be written)

pub(crate) mod max_fair;
pub(crate) mod max_perf;
pub(crate) mod min_fair;
mod shares;
pub(crate) mod similar_min_fair;

use alloc::boxed::Box;
use alloc::vec::Vec;
use maracas_core::System;
use maracas_core::admission::Verdict;
use maracas_core::contract::{Claims, Needs, Policy};
use maracas_core::params::{ParamSpec, Params};
use shares::{Places, Speedup};

/// What all four need.
pub(crate) const NEEDS: Needs =
    Needs { budgets: false, progress: true, classes: 2, ..Needs::BUDGETS };

pub(crate) const CLAIMS: Claims =
    Claims { partitioned: false, work_conserving: false, no_miss_when_admitted: false };

/// What all four take.
pub(crate) const PARAMS: &[ParamSpec] = &[];

/// A rule: the share of fast cores of every thread, by the speedups as far as they are known.
pub(crate) type Rule = fn(Places, &[Option<Speedup>], &Params) -> Vec<u64>;

pub(crate) fn admit(system: &System, _params: &Params) -> Verdict {
    let classes = system.classes.len();
    let objections = alloc::vec![alloc::format!("not built yet ({classes} classes)")];
    Verdict { objections, ..Verdict::default() }
}

pub(crate) fn build(
    system: &System,
    params: &Params,
    rule: Rule,
) -> Result<Box<dyn Policy>, Verdict> {
    let shares = rule(Places::new(1, 1, 1), &[Some(Speedup { fast: 2, slow: 1 })], params);
    let mut verdict = admit(system, params);
    verdict.objections.push(alloc::format!("{shares:?}"));
    Err(verdict)
}
