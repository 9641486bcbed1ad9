//! What is wrong, as exceptions.

use maracas_console::failure::Failure;
use pyo3::exceptions::PyException;
use pyo3::{PyErr, create_exception};

create_exception!(
    maracas,
    Error,
    PyException,
    "What is wrong, in the sentence that the command `maracas` says too."
);
create_exception!(
    maracas,
    ContractError,
    Error,
    "A policy broke the contract; the sentence says which rule, and when."
);

/// A failure of the command as an exception of the same sentence.
pub(crate) fn raised(failure: Failure) -> PyErr {
    match failure {
        Failure::Bad(line) => Error::new_err(line),
        Failure::OutputClosed => Error::new_err("standard output is closed"),
    }
}

/// Any error as an exception.
pub(crate) fn error(why: impl std::fmt::Display) -> PyErr {
    raised(Failure::new(why))
}
