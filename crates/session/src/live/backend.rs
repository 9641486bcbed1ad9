//! By what the machine law is carried out: by agents, or by the scheduler in the kernel.

use crate::case::Case;
use maracas_console::failure::Failure;
use maracas_core::Rate;
use maracas_live::machine::Throttle;
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
}

impl Chosen {
    /// What is said of it on standard error.
    pub fn note(&self) -> Option<String> {
        if self.in_kernel {
            return Some("the scheduler in the kernel carries this out (sched_ext)".to_string());
        }
        self.why_not.as_ref().map(|why| format!("agents carry this out: {why}"))
    }

    /// The means that are left, of those of the host.
    pub const fn of(&self, means: Means) -> Means {
        if self.in_kernel { means.in_kernel() } else { means }
    }
}

/// Chooses for this run.
///
/// # Errors
/// Where the scheduler in the kernel is asked for and cannot carry the run out: everything that is
/// in the way.
pub fn choose(asked: Backend, case: &Case, setup: &Setup) -> Result<Chosen, Failure> {
    let agents = |why_not| Chosen { word: "agents", why_not, in_kernel: false };
    if asked == Backend::Agents {
        return Ok(agents(None));
    }
    let mut obstacles: Vec<String> = in_kernel::obstacles(setup);
    obstacles.extend(beyond(case, setup));
    match (obstacles.is_empty(), asked) {
        (true, _) => Ok(Chosen { word: "sched-ext", why_not: None, in_kernel: true }),
        (false, Backend::Auto) => Ok(agents(Some(obstacles.join("; ")))),
        (false, _) => {
            let obstacles = obstacles.join("; ");
            Err(Failure::new(format!("--backend sched-ext cannot carry this out: {obstacles}")))
        }
    }
}

/// What the case asks for and the scheduler in the kernel does not do.
fn beyond(case: &Case, setup: &Setup) -> impl Iterator<Item = String> {
    let (needs, name) = (case.entry.needs, case.entry.name);
    let is_lowered = setup.steering.throttle == Throttle::Mba;
    let is_slowed = setup.duty.iter().any(|share| *share != Rate::ONE);
    let found = [
        (case.senses().any(), format!("{name} is to know of memory, which is not counted there")),
        (needs.progress, format!("{name} is to know of progress, which is not counted there")),
        (is_lowered, "the bandwidth of a core is not lowered there".to_string()),
        (is_slowed, "no core is slowed down there (--emulate)".to_string()),
    ];
    found.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, why)| why)
}
