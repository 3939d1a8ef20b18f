//! Why a batch, or a request of an operator, is refused.

use evertally_declare::error::{PipelineError, Place, usage};
use evertally_declare::problem::Wording;
use evertally_declare::words::count_of_rows;
use std::fmt;

/// The problem of one row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProblem {
    /// The line of a text, including its header, or the row of a table; both count from 1.
    pub row: Option<u64>,
    /// The column.
    pub field: Option<String>,
    /// The problem.
    pub problem: String,
    /// The remedy.
    pub remedy: Option<String>,
}

/// Why a request is refused. Nothing has changed then.
#[derive(Debug)]
pub enum Refusal {
    /// Rows of a batch are not as declared, or belong to closed steps.
    Rows {
        /// The first of them.
        rows: Vec<RowProblem>,
        /// How many others there are.
        more: u64,
    },
    /// A batch with this id was accepted with other rows, and with this number of rows.
    Differs(u64),
    /// The rows of a source do not begin at this position, after which its next rows are expected; `None` is its
    /// beginning.
    Elsewhere(Option<String>),
    /// The sums differ from the accepted ones, or are not those of the next step.
    Conflict(String),
    /// There is no such stream.
    NoStream,
    /// The stream accepts nothing more, for this reason.
    ReadOnly(String),
    /// The part of the stream that will accept the batch is not open yet.
    NotOpen {
        /// When it opens, in words.
        why: String,
        /// The seconds after which to send the batch again.
        wait: u32,
        /// The first row of that part, if the rows before it can be accepted now.
        row: Option<u64>,
    },
    /// The step that a batch names is not open, or no later one that could be.
    WrongStep(String),
    /// The whole service accepts nothing, until its operator has solved the problem.
    Halted(String),
    /// The service is overloaded; the request can be repeated.
    Busy,
    /// The service shuts down; the request can be repeated once it is up again.
    Stopping,
    /// The open steps of the stream have this number of ids of rows, which is the most.
    TooManyIds(u64),
    /// The disk is full.
    DiskFull(String),
    /// Any other error; a usage error is for the caller to correct.
    Other(PipelineError),
}

impl RowProblem {
    /// The row that an error names; `None` if it names none.
    pub(super) fn new(error: &PipelineError) -> Option<Self> {
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
    /// As an error: one for the operator to correct, unless the machine has failed.
    pub fn into_error(self) -> PipelineError {
        match self {
            Self::Other(error) => error,
            refusal => usage(refusal.to_string()),
        }
    }

    /// From an error in a request, or of the machine.
    pub fn new(error: PipelineError) -> Self {
        match RowProblem::new(&error) {
            Some(problem) if error.io().is_none() && !is_unreadable(&error) => {
                Self::Rows { rows: vec![problem], more: 0 }
            }
            _ => Self::Other(error),
        }
    }
}

/// Whether the bytes of an input are at fault, not its rows.
fn is_unreadable(error: &PipelineError) -> bool {
    error.input().is_some_and(|input| input.unreadable().is_some())
}

impl From<PipelineError> for Refusal {
    fn from(error: PipelineError) -> Self {
        Self::Other(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { rows, more } => {
                let first = rows.first().map_or("", |row| row.problem.as_str());
                // A column that no row has is a hint about the batch, besides its rows.
                let named = rows.iter().filter(|row| row.row.is_some()).count() as u64;
                let rows = count_of_rows((named + more).max(1));
                write!(f, "{rows} cannot be accepted, so nothing was: {first}")
            }
            Self::Differs(_) => {
                f.write_str("a batch with this id was accepted with other rows; use a new id for another batch")
            }
            Self::Elsewhere(position) => {
                let position = position.as_ref().map_or("its beginning".to_owned(), |text| format!("`{text}`"));
                write!(f, "the accepted rows of this source end at {position}: send the rows after it")
            }
            Self::NoStream => f.write_str("there is no such stream"),
            Self::Conflict(why) | Self::ReadOnly(why) | Self::WrongStep(why) | Self::Halted(why) => f.write_str(why),
            Self::NotOpen { why, .. } => {
                write!(f, "{why}: send this again then, unchanged; nothing of it was accepted")
            }
            Self::Busy => f.write_str("the service is overloaded; try again soon, with the same id"),
            Self::Stopping => f.write_str("the service is shutting down; try again when it is up, with the same id"),
            Self::TooManyIds(most) => write!(
                f,
                "the open steps of the stream have at most {most} ids of rows (`ids` in [limits]); send the batch \
                 again after a step has closed, with the same id"
            ),
            Self::DiskFull(what) => f.write_str(what),
            Self::Other(error) => f.write_str(&error.worded(Wording::Json)),
        }
    }
}

impl std::error::Error for Refusal {}
