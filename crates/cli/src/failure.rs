//! Error reporting: one message on standard error, and an exit status that tells who has to act.

use evertally_declare::error::{Cancelled, InputError, PipelineError};
use evertally_declare::problem::{Problem, Sentence};
use evertally_tables::output::OutputError;

/// Turns a problem into an error.
pub(crate) fn usage(problem: impl Into<Sentence>) -> anyhow::Error {
    Problem::new(problem).into()
}

/// A release that the ledger has recorded but nobody could see, because an output failed.
#[derive(Debug)]
pub(crate) struct RecordedNotWritten {
    what: &'static str,
    cause: OutputError,
}

impl RecordedNotWritten {
    /// `what` ("the release is") was recorded before an output failed.
    pub(crate) fn new(what: &'static str, cause: OutputError) -> Self {
        Self { what, cause }
    }
}

impl std::fmt::Display for RecordedNotWritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, cause } = self;
        let remedy = "fix this and run again with the same data; the output will be the same";
        write!(f, "{what} recorded, but not written: {remedy}: {cause}")
    }
}

// The message already contains the cause: printing the chain would repeat it.
impl std::error::Error for RecordedNotWritten {}

/// Exit status of an error: 2 for usage and bad input, 130 after Ctrl-C, 1 for everything else.
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let library = |e: &evertally::Error| e.is_invalid() || e.is_overflow();
    if error.downcast_ref::<PipelineError>().is_some_and(PipelineError::is_cancelled)
        || error.downcast_ref::<Cancelled>().is_some()
        || error.downcast_ref::<evertally::Error>().is_some_and(evertally::Error::is_cancelled)
    {
        130
    } else if error.downcast_ref::<PipelineError>().is_some_and(PipelineError::is_usage)
        || error.downcast_ref::<OutputError>().is_some_and(OutputError::is_usage)
        || error.downcast_ref::<RecordedNotWritten>().is_some_and(|unpublished| unpublished.cause.is_usage())
        || error.downcast_ref::<Problem>().is_some()
        || error.downcast_ref::<InputError>().is_some()
        || error.downcast_ref::<evertally::Error>().is_some_and(library)
    {
        2
    } else {
        1
    }
}

/// The message of an error, followed by its causes, separated by colons.
pub fn worded(error: &anyhow::Error) -> String {
    let one = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<evertally::Error>() {
        Some(error) => PipelineError::from(error.clone()).to_string(),
        None => cause.to_string(),
    };
    error.chain().map(one).collect::<Vec<_>>().join(": ")
}

/// Whether a write failed only because the reader closed the pipe, as `| head` does. A recorded release that nobody
/// could see does not count.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let own = error.downcast_ref::<PipelineError>();
    error.downcast_ref::<OutputError>().or_else(|| own?.other_as()).is_some_and(OutputError::is_broken_pipe)
        || error
            .chain()
            .filter_map(|e| e.downcast_ref::<std::io::Error>())
            .chain(own.and_then(PipelineError::io))
            .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
