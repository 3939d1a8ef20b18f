//! How the program ends: one message on standard error, and an exit status that says whose turn it is.

use crate::input::{InputError, is_cancelled};
use crate::output::OutputError;
use std::fmt;

/// The user asked for something that cannot be: a flag, a configuration, a declaration.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// A [`UsageError`] as an `anyhow` error.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// Exit status of an error: 2 for usage and bad input, 130 after Ctrl-C, 1 for everything else.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let library = |e: &evertally::Error| e.is_invalid() || e.is_overflow();
    if is_cancelled(error) {
        130
    } else if error.downcast_ref::<OutputError>().is_some_and(OutputError::is_usage)
        || error.downcast_ref::<UsageError>().is_some()
        || error.downcast_ref::<InputError>().is_some()
        || error.downcast_ref::<evertally::Error>().is_some_and(library)
    {
        2
    } else {
        1
    }
}

/// Whether a write failed only because the reader of a pipe went away, as `| head` does.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<OutputError>().is_some_and(OutputError::is_broken_pipe)
        || error
            .chain()
            .filter_map(|e| e.downcast_ref::<std::io::Error>())
            .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
