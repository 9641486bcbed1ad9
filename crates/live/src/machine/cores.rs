//! The cores of a run, by whatever means the law is carried out on them.

use super::error::Error;
use crate::clock::Clock;
use crate::executor::{self, AnyCore, Core};
use crate::host::HardwareCore;
use crate::host::costs::{self, WakeCost};
use crate::kernel::KernelCores;
use crate::setup::{Means, Setup};
use maracas_core::CoreId;
use std::sync::{Arc, Mutex};
use std::{io, thread};

/// All cores of a run.
pub(super) enum Cores {
    /// Each has an agent.
    Agents(Vec<Arc<Mutex<Core>>>),
    /// The scheduler in the kernel has them all.
    Kernel(KernelCores),
}

impl Cores {
    /// Takes hold of the cores of the setup.
    ///
    /// # Errors
    /// Where the host lacks what these means stand on.
    pub(super) fn open(setup: &Setup, means: Means, clock: &Clock) -> Result<Self, Error> {
        let host = |what| move |error| Error::Host(what, error);
        if means.kernel {
            let kernel = KernelCores::open(&setup.cores, setup.counting.as_ref(), clock);
            return kernel.map(Self::Kernel).map_err(host("use the scheduler in the kernel"));
        }
        let wakes = measure_wakes(&setup.cores, means.fifo).map_err(host("measure a wake"))?;
        let open = |(id, core): (usize, &HardwareCore)| {
            let (cost, id) = (wakes[id], CoreId(id as u16));
            let mut core = executor::open(id, *core, clock.clone(), means, cost)?;
            core.share = setup.share(id);
            Ok(Arc::new(Mutex::new(core)))
        };
        let cores: Result<Vec<_>, _> = setup.cores.iter().enumerate().map(open).collect();
        cores.map(Self::Agents).map_err(host("record context switches (CAP_PERFMON)"))
    }

    /// Those that have agents.
    pub(super) fn of_agents(&self) -> &[Arc<Mutex<Core>>] {
        match self {
            Self::Agents(cores) => cores,
            Self::Kernel(_) => &[],
        }
    }

    /// Those that the scheduler in the kernel has.
    pub(super) const fn kernel(&self) -> Option<&KernelCores> {
        match self {
            Self::Agents(_) => None,
            Self::Kernel(kernel) => Some(kernel),
        }
    }

    /// As the decider asks them.
    pub(super) fn all(&self) -> Vec<Arc<Mutex<AnyCore>>> {
        match self {
            Self::Agents(cores) => {
                cores.iter().map(|it| it.clone() as Arc<Mutex<AnyCore>>).collect()
            }
            Self::Kernel(kernel) => {
                kernel.cores.iter().map(|it| it.clone() as Arc<Mutex<AnyCore>>).collect()
            }
        }
    }
}

/// What a wake costs on each of the cores, measured on all at once.
fn measure_wakes(cores: &[HardwareCore], fifo: bool) -> io::Result<Vec<WakeCost>> {
    thread::scope(|scope| {
        let measure = |core: &HardwareCore| {
            let core = *core;
            scope.spawn(move || costs::wake(core, fifo))
        };
        let measuring: Vec<_> = cores.iter().map(measure).collect();
        let died = |_| io::Error::other("a measuring thread died");
        measuring.into_iter().map(|it| it.join().map_err(died)?).collect()
    })
}
