//! The board on which a run shows its gauges to its readers.

use maracas_core::control::Gauges;
use std::sync::{Arc, Mutex, PoisonError};

/// The place of the latest gauges: put there by the reader of the journal, handed out by the
/// control socket and by other readers. Cheap to clone: all clones are one board. No real-time
/// thread uses it, and its lock is held for the exchange of a pointer.
#[derive(Clone, Default, Debug)]
pub struct Board(Arc<Mutex<Option<Arc<Gauges>>>>);

impl Board {
    /// Puts these in the place of the last ones.
    pub fn publish(&self, gauges: Gauges) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(gauges));
    }
    /// The latest ones; `None` where none have been published.
    pub fn latest(&self) -> Option<Arc<Gauges>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
