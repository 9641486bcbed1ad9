//! What the machine steers shared memory by, beside the freezer: resource control for bandwidth and
//! ways, page colours for programs that can be asked.

use super::error::Error;
use super::handle::Mailbox;
use crate::colors::{ColorPage, Colors};
use crate::executor::BandwidthLimiter;
use crate::host::hardware::ThisHardware;
use crate::host::launch::User;
use crate::host::resctrl::{Mba, Resctrl, Ways};
use crate::setup::{CacheParts, Setup, Throttle};
use maracas_core::VcpuId;
use maracas_core::memory::CachePart;
use std::io;
use std::sync::{Arc, Mutex};

/// What was set up of resource control for a run; given back when it is dropped.
#[derive(Default)]
pub(super) struct Steered {
    /// Lowers the bandwidth of throttled cores.
    pub(super) bandwidth_limiter: Option<Arc<dyn BandwidthLimiter>>,
    /// Each core's class has its ways. A VCPU that goes to another core has that core's at once.
    _ways: Option<Ways>,
}

impl Steered {
    /// What the setup asks for.
    ///
    /// # Errors
    /// Where this host has not got it.
    pub(super) fn open(setup: &Setup) -> Result<Self, Error> {
        let (throttle, cache) = (setup.steering.throttle, setup.steering.cache);
        if throttle == Throttle::Freezer && cache != CacheParts::Ways {
            return Ok(Self::default());
        }
        let host = |what| move |error| Error::Host(what, io::Error::other(error));
        let open = Resctrl::open(Arc::new(ThisHardware));
        let resctrl = open.map_err(host("open resource control (resctrl)"))?;
        let ways = match cache {
            CacheParts::Ways => {
                let colors = setup.system.cores.iter().map(|core| core.colors);
                let parts: Vec<_> = setup.cores.iter().copied().zip(colors).collect();
                let split = Ways::split(&resctrl, &parts);
                Some(split.map_err(host("split the last-level cache by ways"))?)
            }
            CacheParts::Whole | CacheParts::Colors(_) => None,
        };
        let bandwidth_limiter: Option<Arc<dyn BandwidthLimiter>> = match throttle {
            Throttle::Mba => {
                let cores: Vec<_> = setup.system.core_ids().zip(setup.cores.clone()).collect();
                let made = Mba::new(&resctrl, &cores);
                Some(Arc::new(made.map_err(host("lower the bandwidth of cores"))?))
            }
            Throttle::Freezer => None,
        };
        Ok(Self { bandwidth_limiter, _ways: ways })
    }
}

/// The colours of the cores of a run, where pages have any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette {
    /// How many there are; 0 = pages have none.
    count: u32,
    /// By `CoreId`; `None` = all.
    of: Vec<Option<CachePart>>,
}

impl Palette {
    /// As the setup says.
    pub(super) fn of(setup: &Setup) -> Self {
        let count = match setup.steering.cache {
            CacheParts::Colors(count) => count,
            CacheParts::Whole | CacheParts::Ways => 0,
        };
        Self { count, of: setup.system.cores.iter().map(|core| core.colors).collect() }
    }
}

impl Mailbox {
    /// The page that names to programs of `user` on a VCPU the colours of the core where it begins,
    /// if pages have any.
    pub(super) fn color_page(&self, id: VcpuId, user: Option<User>) -> io::Result<Option<Colors>> {
        if self.palette.count == 0 {
            return Ok(None);
        }
        let core = self.held(id, |core| core).map_err(io::Error::other)?;
        let mut page = ColorPage::create(id, user)?;
        let part = self.palette.of.get(usize::from(core.0)).copied().flatten();
        page.order(part.map_or(0, CachePart::get), self.palette.count)?;
        Ok(Some(Arc::new(Mutex::new(page))))
    }
}

/// The variables that name the page to programs of `user`.
pub(super) fn admit(
    page: &Colors,
    user: Option<User>,
) -> io::Result<(std::ffi::OsString, std::ffi::OsString)> {
    let page = page.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    page.open_to(user)?;
    Ok(page.variable())
}
