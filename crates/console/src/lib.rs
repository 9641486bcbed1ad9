//! How commands speak with their user: values on the command line, lines and tables on the
//! terminal, files that appear whole or not at all, and how a command ends.

#![forbid(unsafe_code)]

pub mod args;
pub mod failure;
pub mod output;
pub mod signals;
