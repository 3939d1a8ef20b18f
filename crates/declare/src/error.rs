//! The errors of a run, each reported in one line: a bad declaration, a bad input, or a cancellation.

mod input;

pub use input::{InputError, Place, ReadProblem, Unreadable, read_error};

use crate::problem::{Problem, Sentence, Wording, library_sentence};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a call of the pipeline.
pub type Result<T, E = PipelineError> = std::result::Result<T, E>;

/// An error in the pipeline or in the tables that feed it.
///
/// Its methods tell whether the user can fix it ([`is_usage`](Self::is_usage)), where in the input it is
/// ([`input`](Self::input): file, line or row, column, cell), and which parameters are at fault
/// ([`problem`](Self::problem)). The front end chooses the wording ([`worded`](Self::worded)).
#[doc(alias = "Error")]
pub struct PipelineError(Box<ErrorData>);

struct ErrorData {
    kind: PipelineErrorKind,
    /// The operations that failed because of it, the innermost first.
    context: Vec<String>,
}

enum PipelineErrorKind {
    Problem(Problem),
    Input(InputError),
    Library(evertally::Error),
    Cancelled,
    Io(io::Error),
    Other { error: Box<dyn std::error::Error + Send + Sync>, is_usage: bool },
}

impl PipelineError {
    /// An error of another kind, which the user can fix or not.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>, is_usage: bool) -> Self {
        PipelineErrorKind::Other { error: error.into(), is_usage }.into()
    }

    /// Whether the user can fix it: the request is impossible, or the input is not as declared.
    pub fn is_usage(&self) -> bool {
        match &self.0.kind {
            PipelineErrorKind::Problem(_) | PipelineErrorKind::Input(_) => true,
            PipelineErrorKind::Library(error) => error.is_invalid() || error.is_overflow(),
            PipelineErrorKind::Cancelled | PipelineErrorKind::Io(_) => false,
            PipelineErrorKind::Other { is_usage, .. } => *is_usage,
        }
    }

    /// Whether the run was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.kind, PipelineErrorKind::Cancelled)
    }

    /// The problem with the input and its place, if this is an input error.
    pub fn input(&self) -> Option<&InputError> {
        if let PipelineErrorKind::Input(error) = &self.0.kind { Some(error) } else { None }
    }

    /// Whether a row cannot be read, while the rows around it can.
    pub fn is_bad_row(&self) -> bool {
        self.input().is_some_and(InputError::is_bad_row)
    }

    /// The problem with the input and its place.
    ///
    /// # Errors
    /// The error itself, if it is of another kind.
    pub fn into_input(self) -> Result<InputError> {
        if let PipelineErrorKind::Input(error) = self.0.kind { Ok(error) } else { Err(self) }
    }

    /// The problem with the declaration, if this is such an error.
    pub fn problem(&self) -> Option<&Problem> {
        if let PipelineErrorKind::Problem(problem) = &self.0.kind { Some(problem) } else { None }
    }

    /// The library's error, if it is one.
    pub fn library(&self) -> Option<&evertally::Error> {
        if let PipelineErrorKind::Library(error) = &self.0.kind { Some(error) } else { None }
    }

    /// The system's error, if it is one.
    pub fn io(&self) -> Option<&io::Error> {
        match &self.0.kind {
            PipelineErrorKind::Io(error) => Some(error),
            PipelineErrorKind::Input(error) => error.io_cause(),
            _ => None,
        }
    }

    /// An error of another kind, if it is one of this type.
    pub fn other_as<E: std::error::Error + 'static>(&self) -> Option<&E> {
        if let PipelineErrorKind::Other { error, .. } = &self.0.kind { error.downcast_ref() } else { None }
    }

    /// This error preceded by the operation that failed because of it.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.context.push(what.to_string());
        self
    }

    /// The whole message in the wording of a front end: the failed operations and the cause, separated by colons.
    pub fn worded(&self, wording: Wording) -> String {
        let cause = match &self.0.kind {
            PipelineErrorKind::Problem(problem) => problem.worded(wording),
            PipelineErrorKind::Input(error) => error.worded(wording),
            PipelineErrorKind::Library(error) => library_sentence(error).worded(wording),
            PipelineErrorKind::Cancelled => Cancelled.to_string(),
            PipelineErrorKind::Io(error) => error.to_string(),
            PipelineErrorKind::Other { error, .. } => error.to_string(),
        };
        let context = self.0.context.iter().rev().map(String::as_str);
        context.chain([cause.as_str()]).collect::<Vec<_>>().join(": ")
    }
}

/// Uses the wording of the program, as its manual does.
impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl fmt::Debug for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

// The causes are already in the message: a chain printer would print them twice.
impl std::error::Error for PipelineError {}

impl From<PipelineErrorKind> for PipelineError {
    fn from(kind: PipelineErrorKind) -> Self {
        Self(Box::new(ErrorData { kind, context: Vec::new() }))
    }
}

impl From<Problem> for PipelineError {
    fn from(problem: Problem) -> Self {
        PipelineErrorKind::Problem(problem).into()
    }
}

impl From<InputError> for PipelineError {
    fn from(error: InputError) -> Self {
        PipelineErrorKind::Input(error).into()
    }
}

impl From<evertally::Error> for PipelineError {
    fn from(error: evertally::Error) -> Self {
        if error.is_cancelled() { Cancelled.into() } else { PipelineErrorKind::Library(error).into() }
    }
}

impl From<Cancelled> for PipelineError {
    fn from(_: Cancelled) -> Self {
        PipelineErrorKind::Cancelled.into()
    }
}

impl From<io::Error> for PipelineError {
    fn from(error: io::Error) -> Self {
        PipelineErrorKind::Io(error).into()
    }
}

/// Results to which the failed operation can be added.
pub trait Context<T> {
    /// The value, or the error preceded by the operation that failed.
    ///
    /// # Errors
    /// The original error, with this context.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<PipelineError>> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(what))
    }
}

/// A [`Problem`] as an error.
pub fn usage(problem: impl Into<Sentence>) -> PipelineError {
    Problem::new(problem).into()
}

/// An error that no other request would avoid.
pub fn failure(what: impl fmt::Display) -> PipelineError {
    PipelineError::other(what.to_string(), false)
}

/// The run was asked to stop (Ctrl-C); the input is not at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; no output was written")
    }
}

impl std::error::Error for Cancelled {}

/// Returns an error if the run was asked to stop.
pub fn refuse_if(cancelled: &AtomicBool) -> Result<(), Cancelled> {
    if cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
}
