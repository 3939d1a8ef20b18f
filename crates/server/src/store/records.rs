//! What the tables hold. Records are [postcard](postcard), whose layout follows the order of the fields: a change here
//! is a change of the [format](super::Store).

use evertally_declare::error::{Result, failure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a stream is, as it was opened; of it only the phase, the groups behind the first and who may read it change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamRecord {
    /// Its name.
    pub name: String,
    /// The declaration, as JSON.
    pub declaration: String,
    /// Whether anybody may read its releases.
    pub public: bool,
    /// The data source whose budget it spends.
    pub source: Option<String>,
    /// Who closes its steps.
    pub closing: Closing,
    /// When it was opened, in microseconds since 1970.
    pub opened_at: i64,
    /// Whether it goes on.
    pub phase: Phase,
}

/// Who closes the steps of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closing {
    /// The clock: so many microseconds behind the end of a step it is closed, and so many behind that it is shown.
    Schedule {
        /// How long a step stays open behind its end.
        grace: i64,
        /// How long its rows are ready before they are shown.
        delay: i64,
    },
    /// Whoever operates the service, for data of the past: rows are shown at once.
    Operator,
    /// Whoever counts elsewhere: it takes no events, but the sums of whole steps, which are closed with them.
    Sums,
}

impl Closing {
    /// In one word, as it is declared.
    pub fn word(self) -> &'static str {
        match self {
            Self::Schedule { .. } => "schedule",
            Self::Operator => "operator",
            Self::Sums => "sums",
        }
    }
}

/// Whether a stream goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It does.
    Open,
    /// It was retired then, in microseconds since 1970: nothing follows, and what it has spent stays spent.
    Retired(i64),
}

/// A batch that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// Keyed digest of its bytes.
    pub digest: [u8; 32],
    /// How many rows it had.
    pub rows: u64,
    /// When it was taken, in microseconds since 1970.
    pub at: i64,
}

/// Where the session of a stream stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// The last closed step.
    pub closed: u64,
    /// Batches through this number have been counted in the step behind it.
    pub counted: u64,
    /// The state.
    pub session: Vec<u8>,
}

/// A step that was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedRecord {
    /// How many publications there are with it.
    pub publications: u64,
    /// The digest of all published rows so far, public.
    pub head: [u8; 32],
    /// Keyed digest of the events of all steps so far.
    pub events: [u8; 32],
    /// When its rows may be shown, in microseconds since 1970.
    pub shown_at: i64,
    /// The number of the batch that was taken last.
    pub batches: u64,
    /// Through which step the witness had been told when this was closed.
    pub told: u64,
    /// How many lines there are with it.
    pub lines: u32,
}

/// Some rows of a publication, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RowBlock {
    /// The rows.
    pub rows: Vec<StoredRow>,
}

/// A released row. Its times follow from its step, and its names from its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredRow {
    /// The place of its names.
    pub place: u32,
    /// Its step, among those that are published.
    pub step: u64,
    /// The exact decimal text of its value.
    pub text: String,
    /// The double nearest to it.
    pub number: f64,
    /// Standard error.
    pub std_error: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
    /// What is shown beside it.
    pub view: Option<StoredView>,
}

/// What is shown beside a released value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredView {
    /// The exact decimal text of its value.
    pub text: String,
    /// The double nearest to it.
    pub number: f64,
    /// Lower end of its band.
    pub lower: f64,
    /// Upper end of its band.
    pub upper: f64,
}

/// A record as bytes.
pub(crate) fn to_bytes(record: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_allocvec(record).map_err(failure)
}

/// A record from the bytes of a table.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|_| failure(format!("the folder is damaged: {what} cannot be read; restore it from a backup")))
}
