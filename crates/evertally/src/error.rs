//! The error type of this library.

use std::borrow::Cow;
use std::fmt;

/// A result whose error is [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The class of failure of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A parameter or input value is outside its documented range.
    Invalid,
    /// A budget that protects almost nothing, without explicit permission. [`Error::is_invalid`] is true for it, too.
    WeakBudget,
    /// An exact integer computation would not fit its type.
    Overflow,
    /// The stream has already released its last step.
    HorizonExhausted,
    /// Saved bytes are damaged, of an unknown version, or belong to another plan, stream or key.
    State,
    /// Noise that was already issued would be issued again, perhaps for other data.
    NoiseIssued,
    /// The operating system did not provide randomness.
    Randomness,
    /// The caller cancelled a search.
    Cancelled,
}

/// An error of this library: a class to branch on, and a one-sentence message.
///
/// ```
/// let error = evertally::Error::invalid("horizon must be at least 1 step, got 0");
/// assert!(error.is_invalid());
/// assert_eq!(error.to_string(), "horizon must be at least 1 step, got 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

impl Error {
    /// A parameter or value outside its documented range.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// An exact computation that does not fit.
    pub fn overflow(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Overflow, message)
    }

    /// Saved bytes that cannot be accepted.
    pub fn state(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::State, message)
    }

    /// An error of the given class.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Is this [`ErrorKind::Invalid`], or a special case of it?
    pub fn is_invalid(&self) -> bool {
        matches!(self.kind, ErrorKind::Invalid | ErrorKind::WeakBudget)
    }

    /// Is this [`ErrorKind::WeakBudget`]? The caller knows its own parameter names and says how to allow such a budget.
    pub fn is_weak_budget(&self) -> bool {
        self.kind == ErrorKind::WeakBudget
    }

    /// Is this [`ErrorKind::Overflow`]?
    pub fn is_overflow(&self) -> bool {
        self.kind == ErrorKind::Overflow
    }

    /// Is this [`ErrorKind::HorizonExhausted`]?
    pub fn is_horizon_exhausted(&self) -> bool {
        self.kind == ErrorKind::HorizonExhausted
    }

    /// Is this [`ErrorKind::NoiseIssued`]?
    pub fn is_noise_issued(&self) -> bool {
        self.kind == ErrorKind::NoiseIssued
    }

    /// Is this [`ErrorKind::Cancelled`]?
    pub fn is_cancelled(&self) -> bool {
        self.kind == ErrorKind::Cancelled
    }

    /// Is this [`ErrorKind::State`]?
    pub fn is_state(&self) -> bool {
        self.kind == ErrorKind::State
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
