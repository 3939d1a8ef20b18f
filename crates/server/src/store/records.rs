//! The records of the tables. Their encoding is [postcard](postcard), whose layout follows the order of the fields: a
//! change here is a change of the [format](super::Store).

use evertally_declare::error::{Result, failure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A stream as it was opened. Only its phase, its readers, and groups added after the first ones change.
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
    pub closing: ClosedBy,
    /// The column with the ids of its rows, if rows are counted once by their id.
    pub id: Option<String>,
    /// When it was opened, in microseconds since 1970.
    pub opened_at: i64,
    /// Whether it is open or retired.
    pub phase: Phase,
}

/// Who closes the steps of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClosedBy {
    /// The clock: a step is closed `grace` microseconds after its end, and shown `delay` microseconds after that.
    Schedule {
        /// How long a step stays open after its end.
        grace: i64,
        /// How long rows are ready before they are shown.
        delay: i64,
    },
    /// The operator, for data of the past: rows are shown at once.
    Operator,
    /// An external counter: the stream accepts no events, but the sums of complete steps, which close them.
    Sums,
}

impl ClosedBy {
    /// The declared word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Schedule { .. } => "schedule",
            Self::Operator => "operator",
            Self::Sums => "sums",
        }
    }
}

/// Whether a stream is open or retired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// It is open.
    Open,
    /// It was retired at this time, in microseconds since 1970: it publishes nothing more, and its spent budget stays
    /// spent.
    Retired(i64),
}

/// An accepted batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRecord {
    /// The keyed digest of the declared columns of its rows.
    pub digest: [u8; 32],
    /// The number of its rows.
    pub rows: u64,
    /// How many of them were not counted, because rows with their ids had been.
    pub duplicates: u64,
    /// The step that was open: late rows are those of earlier steps.
    pub open_step: u64,
    /// When it was accepted, in microseconds since 1970.
    pub at: i64,
}

/// The position in a partition of a source, and the last batch before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PositionRecord {
    /// The position, encrypted.
    pub position: Vec<u8>,
    /// The position before the last batch, encrypted.
    pub after: Option<Vec<u8>>,
    /// The last batch.
    pub batch: BatchRecord,
}

/// A publication that a webhook has refused for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterRecord {
    /// The status of the last answer.
    pub status: u16,
    /// When it was set aside, in microseconds since 1970.
    pub at: i64,
}

/// Late events of a batch that were set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateRecord {
    /// When the batch was accepted, in microseconds since 1970.
    pub at: i64,
    /// The texts of each event, in the order of the columns.
    pub rows: Vec<Vec<String>>,
}

/// A checkpoint of the session of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// The last closed step.
    pub closed: u64,
    /// Batches through this number are included in the state, for the step after the last closed one.
    pub counted: u64,
    /// The state of the session.
    pub session: Vec<u8>,
}

/// A closed step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedRecord {
    /// The number of publications so far.
    pub publications: u64,
    /// The digest of all published rows so far, public.
    pub head: [u8; 32],
    /// The keyed digest of the events of all steps so far.
    pub events: [u8; 32],
    /// When its rows may be shown, in microseconds since 1970.
    pub shown_at: i64,
    /// The number of the last accepted batch.
    pub batches: u64,
    /// The last step recorded at the witness when this step was closed.
    pub acknowledged: u64,
    /// The number of lines so far.
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
    /// Its view, if there is one.
    pub view: Option<StoredView>,
}

/// A view of a released value, shown next to it.
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
        .map_err(|_| failure(format!("the data folder is corrupt: {what} cannot be read; restore it from a backup")))
}
