//! What can be wrong with a run, said in one line: a declaration, an input, or that somebody wants to stop.

mod input;

pub use input::{InputError, Place, Unreadable, read_error};

use crate::problem::{Problem, Sentence, Wording, of_library};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call of the pipeline comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whatever goes wrong in the pipeline or in the tables that feed it.
///
/// What it is can be asked: whether the user can mend it ([`is_usage`](Self::is_usage)), where in the input it is
/// ([`input`](Self::input): file, line or row, column, cell), which parameters are to blame
/// ([`problem`](Self::problem)). What it says is worded by the front ([`worded`](Self::worded)).
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    /// What failed by it, the nearest first.
    context: Vec<String>,
}

enum Kind {
    Problem(Problem),
    Input(InputError),
    Library(evertally::Error),
    Cancelled,
    Io(io::Error),
    Other { error: Box<dyn std::error::Error + Send + Sync>, is_usage: bool },
}

impl Error {
    /// An error of another kind, for which the user is to blame or not.
    pub fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>, is_usage: bool) -> Self {
        Kind::Other { error: error.into(), is_usage }.into()
    }

    /// Whether it is for the user to mend: what was asked for cannot be, or the input is not as declared.
    pub fn is_usage(&self) -> bool {
        match &self.0.kind {
            Kind::Problem(_) | Kind::Input(_) => true,
            Kind::Library(error) => error.is_invalid() || error.is_overflow(),
            Kind::Cancelled | Kind::Io(_) => false,
            Kind::Other { is_usage, .. } => *is_usage,
        }
    }

    /// Whether somebody has asked the run to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.kind, Kind::Cancelled)
    }

    /// What is wrong with the input, and where, if that is what is wrong.
    pub fn input(&self) -> Option<&InputError> {
        if let Kind::Input(error) = &self.0.kind { Some(error) } else { None }
    }

    /// What is wrong with the declaration, or how it fits the rest, if that is what is wrong.
    pub fn problem(&self) -> Option<&Problem> {
        if let Kind::Problem(problem) = &self.0.kind { Some(problem) } else { None }
    }

    /// What the library says, if it comes from there.
    pub fn library(&self) -> Option<&evertally::Error> {
        if let Kind::Library(error) = &self.0.kind { Some(error) } else { None }
    }

    /// What the system says, if it comes from there.
    pub fn io(&self) -> Option<&io::Error> {
        match &self.0.kind {
            Kind::Io(error) => Some(error),
            Kind::Input(error) => error.io_cause(),
            _ => None,
        }
    }

    /// An error of another kind, if it is one of this type.
    pub fn other_as<E: std::error::Error + 'static>(&self) -> Option<&E> {
        if let Kind::Other { error, .. } = &self.0.kind { error.downcast_ref() } else { None }
    }

    /// The same behind what failed by it.
    #[must_use]
    pub fn context(mut self, what: impl fmt::Display) -> Self {
        self.0.context.push(what.to_string());
        self
    }

    /// All of it in the words of a front: what failed, and behind colons why.
    pub fn worded(&self, wording: Wording) -> String {
        let cause = match &self.0.kind {
            Kind::Problem(problem) => problem.worded(wording),
            Kind::Input(error) => error.worded(wording),
            Kind::Library(error) => of_library(error).worded(wording),
            Kind::Cancelled => Cancelled.to_string(),
            Kind::Io(error) => error.to_string(),
            Kind::Other { error, .. } => error.to_string(),
        };
        let context = self.0.context.iter().rev().map(String::as_str);
        context.chain([cause.as_str()]).collect::<Vec<_>>().join(": ")
    }
}

/// In the words of the program, which are those of its manual.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

// The causes are already in the message: a chain printer would say them twice.
impl std::error::Error for Error {}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self(Box::new(Inner { kind, context: Vec::new() }))
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Kind::Problem(problem).into()
    }
}

impl From<InputError> for Error {
    fn from(error: InputError) -> Self {
        Kind::Input(error).into()
    }
}

impl From<evertally::Error> for Error {
    fn from(error: evertally::Error) -> Self {
        Kind::Library(error).into()
    }
}

impl From<Cancelled> for Error {
    fn from(_: Cancelled) -> Self {
        Kind::Cancelled.into()
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Kind::Io(error).into()
    }
}

/// Results that can say what failed by them.
pub trait Context<T> {
    /// The value, or the error behind what failed by it.
    ///
    /// # Errors
    /// As before.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| error.into().context(what))
    }
}

/// A [`Problem`] as an error.
pub fn usage(problem: impl Into<Sentence>) -> Error {
    Problem::new(problem).into()
}

/// Something that nobody can mend by asking otherwise.
pub fn failure(what: impl fmt::Display) -> Error {
    Error::other(what.to_string(), false)
}

/// The run was asked to stop (Ctrl-C): not a fault of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; nothing was written")
    }
}

impl std::error::Error for Cancelled {}

/// Ends a run that was asked to stop.
pub fn refuse_if(cancelled: &AtomicBool) -> Result<(), Cancelled> {
    if cancelled.load(Ordering::Relaxed) { Err(Cancelled) } else { Ok(()) }
}
