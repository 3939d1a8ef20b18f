//! Errors of inputs, and their places.

use super::{Cancelled, PipelineError};
use crate::problem::{Sentence, Wording};
use crate::words::quoted;
use std::fmt;
use std::io;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text file, counted from 1 with the header.
    Line(u64),
    /// A row of a Parquet file, counted from 1.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(n) => write!(f, "line {n}"),
            Place::Row(n) => write!(f, "row {n}"),
        }
    }
}

/// A problem with the input: names the file, and the line or row and the column if they apply.
///
/// ```text
/// events.csv, line 17, column `delay`: `abc` is not a number; …
/// ```
#[derive(Debug)]
pub struct InputError {
    file: String,
    place: Option<Place>,
    column: Option<String>,
    cell: Option<String>,
    problem: Sentence,
    remedy: Option<Sentence>,
    cause: Option<io::Error>,
    unreadable: Option<Unreadable>,
    is_bad_row: bool,
}

/// Why an input cannot be read at all, independent of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Its bytes are damaged or cut short.
    Damaged,
    /// It needs more memory than allowed.
    TooLarge,
}

impl InputError {
    /// A problem with a whole file.
    pub fn in_file(file: impl Into<String>, problem: impl Into<Sentence>) -> Self {
        let problem = problem.into();
        InputError {
            file: file.into(),
            place: None,
            column: None,
            cell: None,
            problem,
            remedy: None,
            cause: None,
            unreadable: None,
            is_bad_row: false,
        }
    }

    /// A failure to read a file.
    pub fn reading(file: impl Into<String>, error: io::Error) -> Self {
        let problem = describe_read(&error);
        InputError { cause: Some(error), ..Self::in_file(file, problem) }
    }

    /// This error with a remedy, which is shown after a semicolon.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Sentence>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// This error, marked as a file that cannot be read at all.
    #[must_use]
    pub fn as_unreadable(mut self, why: Unreadable) -> Self {
        self.unreadable = Some(why);
        self
    }

    /// Why the file cannot be read at all, if that is the problem.
    pub fn unreadable(&self) -> Option<Unreadable> {
        self.unreadable
    }

    /// This error, marked as a row that cannot be read, while the rows around it can.
    #[must_use]
    pub fn as_bad_row(mut self) -> Self {
        self.is_bad_row = true;
        self
    }

    /// Whether a row cannot be read: a [policy](crate::policy::BadRows) can set it aside.
    pub fn is_bad_row(&self) -> bool {
        self.is_bad_row
    }

    /// This error at a place of the file.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// This error in a column of the file.
    #[must_use]
    pub fn in_column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }

    /// This error with a cell of this text.
    #[must_use]
    pub(crate) fn with_cell(mut self, text: String) -> Self {
        self.cell = Some(text);
        self
    }

    /// This error without the line or row, for inputs whose rows have no order.
    #[must_use]
    pub fn without_place(&self) -> Self {
        Self {
            file: self.file.clone(),
            place: None,
            column: self.column.clone(),
            cell: self.cell.clone(),
            problem: self.problem.clone(),
            remedy: self.remedy.clone(),
            cause: None,
            unreadable: self.unreadable,
            is_bad_row: self.is_bad_row,
        }
    }

    /// The file, as messages name it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line or row, if the problem has one.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The text of the invalid cell, if the problem is with a cell.
    pub fn cell(&self) -> Option<&str> {
        self.cell.as_deref()
    }

    /// The problem itself.
    pub fn problem(&self) -> &Sentence {
        &self.problem
    }

    /// The remedy.
    pub fn remedies(&self) -> Option<&Sentence> {
        self.remedy.as_ref()
    }

    /// The whole message in the wording of a front end.
    pub fn worded(&self, wording: Wording) -> String {
        let place = self.place.map_or(String::new(), |place| format!(", {place}"));
        let column = self.column.as_ref().map_or(String::new(), |column| format!(", column {}", quoted(column)));
        let remedy = self.remedy.as_ref().map_or(String::new(), |remedy| format!("; {}", remedy.worded(wording)));
        format!("{}{place}{column}: {}{remedy}", self.file, self.problem.worded(wording))
    }

    /// The column, if the problem has one.
    pub fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }
}

/// Uses the wording of the program, as its manual does.
impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.worded(Wording::Flags))
    }
}

// The cause is already in the message: a chain printer would print it twice.
impl std::error::Error for InputError {}

impl InputError {
    /// The system's error that caused a failed read.
    pub fn io_cause(&self) -> Option<&io::Error> {
        self.cause.as_ref()
    }
}

/// Why an input that is not a file cannot be read, in words for the user: the cause of an [`io::Error`].
#[derive(Debug)]
pub struct ReadProblem(pub String);

impl fmt::Display for ReadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadProblem {}

impl From<ReadProblem> for io::Error {
    fn from(problem: ReadProblem) -> Self {
        io::Error::other(problem)
    }
}

fn describe_read(error: &io::Error) -> String {
    if let Some(problem) = error.get_ref().and_then(|cause| cause.downcast_ref::<ReadProblem>()) {
        return problem.0.clone();
    }
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file; check the path".into(),
        io::ErrorKind::PermissionDenied => "permission to read it is denied; check the file's mode and owner".into(),
        io::ErrorKind::IsADirectory => "this is a directory; give the files in it".into(),
        io::ErrorKind::UnexpectedEof => {
            "its compressed data ends in the middle; the file is cut short, fetch it again".into()
        }
        // Decompression returns these kinds; the system does not.
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            let remedy = "fetch the file again, or try gzip -t or zstd -t on it";
            format!("it cannot be read: its compressed data are damaged ({error}); {remedy}")
        }
        _ => format!("it cannot be read ({error}); if it is compressed, it may be damaged"),
    }
}

/// A read error for the caller: a cancelled read is [`Cancelled`], all others name the file.
pub fn read_error(file: &str, error: io::Error) -> PipelineError {
    if error.get_ref().is_some_and(|e| e.is::<Cancelled>()) {
        return Cancelled.into();
    }
    InputError::reading(file, error).into()
}
