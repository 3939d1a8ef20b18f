//! Why a batch, or what an operator asks for, is not done.

use evertally_declare::error::{Error, Place};
use evertally_declare::problem::Wording;
use std::fmt;

/// What is wrong with one row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProblem {
    /// The line of a text, counted with its header, or the row of a table; both from 1.
    pub row: Option<u64>,
    /// The column.
    pub field: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// Why something is not done. Nothing has changed then.
#[derive(Debug)]
pub enum Refusal {
    /// Rows of a batch are not as declared, or belong to steps that are closed; of more rows than are named.
    Rows {
        /// The first of them.
        rows: Vec<RowProblem>,
        /// How many others there are.
        more: u64,
    },
    /// A batch of this id was taken with other bytes, and so many rows.
    Differs(u64),
    /// Sums that were sent are not those that were taken, or not the next.
    Conflict(String),
    /// There is no such stream.
    NoStream,
    /// The stream takes nothing more in, for this reason.
    ReadOnly(String),
    /// The whole service does not, until its operator has seen to it.
    Halted(String),
    /// The service has more to do than it can; it can be asked again.
    Busy,
    /// There is no room on the disk.
    DiskFull(String),
    /// Anything else: a usage error is the caller's to mend.
    Other(Error),
}

impl RowProblem {
    /// Of an error that names a row; `None` of another.
    pub(super) fn of(error: &Error) -> Option<Self> {
        let input = error.input()?;
        let row = input.place().map(|place| match place {
            Place::Line(number) | Place::Row(number) => number,
        });
        let remedy = input.remedies().map(|remedy| remedy.worded(Wording::Json));
        let problem = input.problem().worded(Wording::Json);
        Some(Self { row, field: input.column().map(str::to_owned), problem, remedy })
    }
}

impl Refusal {
    /// Of an error in what somebody asked for, or of the machine.
    pub fn of(error: Error) -> Self {
        match RowProblem::of(&error) {
            Some(problem) if error.io().is_none() && !is_unreadable(&error) => {
                Self::Rows { rows: vec![problem], more: 0 }
            }
            _ => Self::Other(error),
        }
    }
}

/// Whether it is the bytes of an input that are at fault, and not its rows.
fn is_unreadable(error: &Error) -> bool {
    error.input().is_some_and(|input| input.unreadable().is_some())
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { rows, more } => {
                let first = rows.first().map_or("", |row| row.problem.as_str());
                let count = rows.len() as u64 + more;
                let rows = if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
                write!(f, "{rows} cannot be taken, and so none was: {first}")
            }
            Self::Differs(_) => {
                f.write_str("a batch of this id was taken with other bytes; give another batch another id")
            }
            Self::NoStream => f.write_str("there is no such stream"),
            Self::Conflict(why) | Self::ReadOnly(why) | Self::Halted(why) => f.write_str(why),
            Self::Busy => f.write_str("the service has more to do than it can; try again soon, with the same id"),
            Self::DiskFull(what) => f.write_str(what),
            Self::Other(error) => f.write_str(&error.worded(Wording::Json)),
        }
    }
}

impl std::error::Error for Refusal {}
