//! The board on which a run shows its gauges to whoever asks.

use maracas_core::control::Gauges;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the latest gauges hang: put there by whoever reads the journal, handed out by the control
/// socket and by other readers. Cheap to clone: all clones are one board. Nobody on it is
/// real-time, and its lock is held for the exchange of a pointer.
#[derive(Clone, Default, Debug)]
pub struct Board(Arc<Mutex<Option<Arc<Gauges>>>>);

impl Board {
    /// Puts these in the place of the last ones.
    pub fn publish(&self, gauges: Gauges) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(gauges));
    }
    /// The latest ones; `None` where nobody has published any.
    pub fn latest(&self) -> Option<Arc<Gauges>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
