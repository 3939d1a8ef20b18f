//! How the program ends: one message on standard error, and an exit status that says whose turn it is.

use evertally_publish::error::{InputError, is_cancelled};
use evertally_publish::problem::Problem;
use evertally_tables::output::OutputError;

pub(crate) use evertally_publish::error::usage;

/// Exit status of an error: 2 for usage and bad input, 130 after Ctrl-C, 1 for everything else.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let library = |e: &evertally::Error| e.is_invalid() || e.is_overflow();
    if is_cancelled(error) {
        130
    } else if error.downcast_ref::<OutputError>().is_some_and(OutputError::is_usage)
        || error.downcast_ref::<Problem>().is_some()
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
