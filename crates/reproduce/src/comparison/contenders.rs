//! The policies that are compared, each with every test that it knows.

use crate::Error;
use maracas_core::params::{Params, Value};
use maracas_sweep::Subject;

/// What stands in place of a test for what runs find.
pub(super) const RUN: &str = "run";

/// A policy with one of its tests. A set is admitted, placed and run by this very entry with these
/// very parameters, so that what a test says is held against the placement that it said it of;
/// runs are shared only where nothing is placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    /// The policy's word.
    pub(super) policy: &'static str,
    /// The test's word; [`RUN`] where none is asked but whether the load fits.
    pub(super) test: &'static str,
    /// What differs from the policy's defaults.
    params: &'static [(&'static str, &'static str)],
    /// What its runs say.
    pub(super) run: Run,
    /// Whether it knows deadlines before the period's end.
    pub(super) constrained: bool,
}

/// What the runs of a contender say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Run {
    /// Whether the test is right; another contender's runs stand for the policy.
    Audit,
    /// That, and what the policy does.
    Both,
    /// What the policy does; no test promised anything of jobs being in time.
    Policy,
}

impl Run {
    /// Whether the test promises that nothing is missed.
    pub(super) const fn audits(self) -> bool {
        matches!(self, Self::Audit | Self::Both)
    }
    /// Whether the run is what the policy does.
    pub(super) const fn stands(self) -> bool {
        matches!(self, Self::Both | Self::Policy)
    }
}

/// Packs evenly: for what admits by load alone, which would otherwise fill one core after another
/// and miss on the full ones.
const EVENLY: (&str, &str) = ("packing", "wfd");
/// PD2 is optimal on quanta that divide all times ([`super::sets`]).
const QUANTUM: (&str, &str) = ("slot", "100us");
/// Those without clusters whose tests place nothing: what runs is the same whichever was asked.
pub(super) const GLOBAL: [&str; 2] = ["g-edf", "g-rm"];
/// Clusters are halves of the cores, as of a machine with two last-level caches.
pub(super) const CLUSTERED: &str = "c-edf";

const fn test(policy: &'static str, test: &'static str, of: &'static [Pair]) -> Contender {
    Contender { policy, test, params: of, run: Run::Audit, constrained: true }
}

/// A parameter and its value.
type Pair = (&'static str, &'static str);

const fn run(policy: &'static str, params: &'static [Pair]) -> Contender {
    Contender { policy, test: RUN, params, run: Run::Policy, constrained: true }
}

const fn both(policy: &'static str, word: &'static str, of: &'static [Pair]) -> Contender {
    Contender { run: Run::Both, ..test(policy, word, of) }
}

const fn implicit(contender: Contender) -> Contender {
    Contender { constrained: false, ..contender }
}

/// All of them: the tests of a policy stand together.
pub(super) const CONTENDERS: [Contender; 31] = [
    test("p-edf", "density", &[("admission", "density")]),
    both("p-edf", "qpa", &[("admission", "qpa")]),
    test("p-rm", "ll", &[("admission", "ll")]),
    test("p-rm", "hyperbolic", &[("admission", "hyperbolic")]),
    test("p-rm", "rta", &[("admission", "rta")]),
    run("p-rm", &[("admission", "none"), EVENLY]),
    test("g-edf", "gfb", &[("admission", "gfb")]),
    test("g-edf", "bak", &[("admission", "bak")]),
    test("g-edf", "bcl", &[("admission", "bcl")]),
    test("g-edf", "ff-dbf", &[("admission", "ff-dbf")]),
    test("g-edf", "rta", &[("admission", "rta")]),
    run("g-edf", &[("admission", "none")]),
    test("g-rm", "bcl", &[("admission", "bcl")]),
    test("g-rm", "rta", &[("admission", "rta")]),
    test("g-rm", "rta-lc", &[("admission", "rta-lc")]),
    run("g-rm", &[("admission", "none")]),
    test(CLUSTERED, "gfb", &[("admission", "gfb")]),
    test(CLUSTERED, "bak", &[("admission", "bak")]),
    test(CLUSTERED, "bcl", &[("admission", "bcl")]),
    test(CLUSTERED, "ff-dbf", &[("admission", "ff-dbf")]),
    test(CLUSTERED, "rta", &[("admission", "rta")]),
    run(CLUSTERED, &[("admission", "none"), EVENLY]),
    both("edf-wm", "qpa", &[]),
    both("c-d", "qpa", &[]),
    both("sp-res", "qpa", &[]),
    // Its test bounds how late jobs are and promises no more.
    implicit(run("edf-fm", &[])),
    both("pd2", "load", &[QUANTUM]),
    implicit(both("run", "load", &[])),
    both("qps", "load", &[]),
    both("dp-wrap", "load", &[]),
    both("u-edf", "load", &[]),
];

impl Contender {
    /// Whether another contender's runs are just as well its own.
    pub(super) fn shares_runs(&self) -> bool {
        GLOBAL.contains(&self.policy)
    }
    /// Whether the policy takes one task after the other, in the order of the set or, in clusters,
    /// the densest first, and refuses the set with the first that it refuses.
    pub(super) fn takes_in_turn(&self) -> bool {
        GLOBAL.contains(&self.policy) || self.policy == CLUSTERED
    }
    /// Its policy and parameters on so many cores.
    pub(super) fn subject(&self, cores: usize) -> Result<Subject, Error> {
        let entry = maracas_policies::find(self.policy)
            .ok_or_else(|| Error(format!("there is no policy \"{}\"", self.policy)))?;
        let mut params = Params::new();
        for (name, value) in self.params {
            params.set(name, Value::Text((*value).into()));
        }
        if self.policy == CLUSTERED {
            params.set("cores_per_cache", Value::Whole(cores as i64 / 2));
        }
        Ok(Subject { entry, params })
    }
    /// How it is asked for on a command line.
    pub(super) fn options(&self, cores: usize) -> String {
        let mut options = format!("--cores {cores} --policy {}", self.policy);
        for (name, value) in self.params {
            options += &format!(" --set {name}={value}");
        }
        if self.policy == CLUSTERED {
            options += &format!(" --set cores_per_cache={}", cores / 2);
        }
        options
    }
}

/// The contender whose runs are what a policy does.
pub(super) fn standing(policy: &str) -> Option<&'static Contender> {
    CONTENDERS.iter().find(|it| it.policy == policy && it.run.stands())
}

/// The policies, each once, in their order.
pub(super) fn policies() -> impl Iterator<Item = &'static str> {
    CONTENDERS.chunk_by(|a, b| a.policy == b.policy).map(|tests| tests[0].policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_core::params::Kind;

    /// A further test of a policy is to stand here, too.
    #[test]
    fn every_test_of_every_policy_is_there() {
        for policy in policies() {
            let own = || CONTENDERS.iter().filter(|it| it.policy == policy);
            assert_eq!(own().filter(|it| it.run.stands()).count(), 1, "{policy}");
            let entry = maracas_policies::find(policy).expect("it is a policy");
            let choice = entry.params.iter().find(|spec| spec.name == "admission");
            let Some(Kind::Choice(words)) = choice.map(|spec| &spec.kind) else { continue };
            for word in *words {
                let asked = own().any(|it| it.params.contains(&("admission", word)));
                assert!(asked, "{policy} with the test {word}");
            }
        }
    }

    #[test]
    fn parameters_are_what_policies_take() {
        for contender in CONTENDERS {
            let subject = contender.subject(4).expect("there is such a policy");
            assert_eq!(subject.params.check(subject.entry.params), Ok(()), "{contender:?}");
        }
    }
}
