//! By what the machine law is carried out: by agents, or by the scheduler in the kernel.

mod counting;

use crate::case::Case;
use maracas_console::failure::Failure;
use maracas_core::Rate;
use maracas_live::machine::Throttle;
use maracas_live::sense::{Counting, Senses};
use maracas_live::{Means, Setup, in_kernel};

/// By what the law is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, clap::ValueEnum)]
pub enum Backend {
    /// A real-time thread on each core, on any kernel
    #[default]
    Agents,
    /// A scheduler inside the kernel (Linux 6.12 and later); what it cannot do is refused
    SchedExt,
    /// The scheduler inside the kernel where it can carry the run out, else agents
    Auto,
}

/// What was chosen.
#[derive(Debug)]
pub struct Chosen {
    /// What it is called.
    pub word: &'static str,
    /// What kept `auto` from the scheduler in the kernel.
    why_not: Option<String>,
    /// Whether it is the scheduler in the kernel.
    in_kernel: bool,
    /// How that counts reads of memory, where it is to.
    counting: Option<Counting>,
}

impl Chosen {
    /// What is said of it on standard error.
    pub fn note(&self) -> Option<String> {
        if self.in_kernel {
            return Some("the scheduler in the kernel carries this out (sched_ext)".to_string());
        }
        self.why_not.as_ref().map(|why| format!("agents carry this out: {why}"))
    }

    /// Whether grants that are given ahead begin at their instants. Agents leave them out.
    pub const fn begins_ahead(&self) -> bool {
        self.in_kernel
    }

    /// Has reads counted by what was chosen, and says how among the notes on the senses.
    pub fn count(&mut self, setup: &mut Setup, senses: &mut Senses) {
        setup.counting = self.counting.take();
        if !self.in_kernel {
            return;
        }
        // What is open holds counters of the cores, of which there are few.
        senses.meters.clear();
        senses.notes.extend(setup.counting.as_ref().map(|it| it.note(&setup.cores)));
    }

    /// The means that are left, of those of the host.
    pub const fn of(&self, means: Means) -> Means {
        if self.in_kernel { means.in_kernel() } else { means }
    }
}

/// Chooses for this run, whose memory is sensed by `senses`.
///
/// # Errors
/// Where the scheduler in the kernel is asked for and cannot carry the run out: everything that is
/// in the way.
pub fn choose(
    asked: Backend,
    case: &Case,
    setup: &Setup,
    senses: &Senses,
) -> Result<Chosen, Failure> {
    if asked == Backend::Agents {
        return chosen(asked, Vec::new(), || None);
    }
    let mut obstacles = in_kernel::obstacles(setup);
    obstacles.extend(beyond(case, setup));
    let counting = counting::of(case, setup, senses);
    obstacles.extend(counting.as_ref().err().cloned());
    let mut chosen = chosen(asked, obstacles, in_kernel::refusal)?;
    chosen.counting = counting.ok().flatten().filter(|_| chosen.in_kernel);
    Ok(chosen)
}

/// Chooses by what is in the way; `auto` takes the scheduler in the kernel only where loading it,
/// which is tried last, is not refused either.
fn chosen(
    asked: Backend,
    mut obstacles: Vec<String>,
    refusal: impl FnOnce() -> Option<String>,
) -> Result<Chosen, Failure> {
    let agents = |why_not| Chosen { word: "agents", why_not, in_kernel: false, counting: None };
    if asked == Backend::Auto && obstacles.is_empty() {
        obstacles.extend(refusal());
    }
    let why = obstacles.join("; ");
    match asked {
        Backend::Agents => Ok(agents(None)),
        _ if obstacles.is_empty() => {
            Ok(Chosen { word: "sched-ext", why_not: None, in_kernel: true, counting: None })
        }
        Backend::Auto => Ok(agents(Some(why))),
        Backend::SchedExt => {
            Err(Failure::new(format!("--backend sched-ext cannot carry this out: {why}")))
        }
    }
}

/// What the case asks for and the scheduler in the kernel does not do.
fn beyond(case: &Case, setup: &Setup) -> impl Iterator<Item = String> {
    let (needs, name) = (case.entry.needs, case.entry.name);
    let is_lowered = setup.steering.throttle == Throttle::Mba;
    let is_slowed = setup.duty.iter().any(|share| *share != Rate::ONE);
    let found = [
        (needs.progress, format!("{name} is to know of progress, which is not counted there")),
        (
            is_lowered,
            "the bandwidth of a core is not lowered there; take throttle_by = \"freezer\"".into(),
        ),
        (is_slowed, "no core is slowed down there (--emulate)".to_string()),
    ];
    found.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(asked: Backend, obstacle: Option<&str>, refusal: Option<&str>) -> &'static str {
        let obstacles = obstacle.map(String::from).into_iter().collect();
        chosen(asked, obstacles, || refusal.map(String::from)).map_or("refused", |it| it.word)
    }

    #[test]
    fn auto_goes_back_to_agents_where_the_kernel_refuses_to_load_the_scheduler() {
        assert_eq!(word(Backend::Auto, None, None), "sched-ext");
        assert_eq!(word(Backend::Auto, Some("no BTF"), None), "agents");
        assert_eq!(word(Backend::Auto, None, Some("not permitted")), "agents");
        let back = chosen(Backend::Auto, Vec::new(), || Some("not permitted".into())).unwrap();
        assert_eq!(back.note().as_deref(), Some("agents carry this out: not permitted"));
        // What is asked for by name is not tried twice: the run itself says what is refused.
        assert_eq!(word(Backend::SchedExt, None, Some("not permitted")), "sched-ext");
        assert_eq!(word(Backend::SchedExt, Some("no BTF"), None), "refused");
        assert_eq!(word(Backend::Agents, None, Some("not permitted")), "agents");
    }
}
