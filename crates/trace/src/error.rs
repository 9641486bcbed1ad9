//! What can go wrong between a journal and a file.

use maracas_core::journal::JournalError;
use std::fmt;
use std::io;

/// Why a trace, chart or list could not be made.
#[derive(Debug)]
pub enum TraceError {
    /// The journal cannot be read.
    Journal(JournalError),
    /// The output cannot be written.
    Io(io::Error),
    /// The format cannot say it: why, and what can.
    Format(String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "journal: {error}"),
            Self::Io(error) => write!(f, "cannot write: {error}"),
            Self::Format(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Journal(_) | Self::Format(_) => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<JournalError> for TraceError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
