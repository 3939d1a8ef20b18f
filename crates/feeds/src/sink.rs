//! Where released rows are written to.

use crate::{SourceError, SourcePosition};
use async_trait::async_trait;

/// A place for released rows of one stream. Each publication is written once, whatever happens on either side, if the
/// caller continues after the [last](Sink::last) one, or after the one that it remembers itself, as
/// [memory](Sink::memory) says.
///
/// Positions begin with the number of the publication and a space.
#[async_trait]
pub trait Sink: Send {
    /// Its name for messages, without passwords.
    fn shown(&self) -> String;

    /// The content that is written for each publication.
    fn content(&self) -> SinkContent {
        SinkContent::Rows
    }

    /// Who remembers the last publication.
    fn memory(&self) -> SinkMemory {
        SinkMemory::Sink
    }

    /// The position after the last publication that was written, as far as the sink remembers it.
    async fn last(&mut self) -> Result<Option<SourcePosition>, SourceError>;

    /// Writes a publication, if the position is `after`, and moves it. After an error, the caller asks for the
    /// [last](Self::last) position again: the publication may have been written.
    async fn write(&mut self, after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError>;

    /// Messages that the operator should read, such as rows that the receiver will never accept. Those about settings
    /// are there before the first connection.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The content that is written for each publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkContent {
    /// Its rows, as JSON lines.
    Rows,
    /// A JSON object with its rows, its time and its digest.
    Message,
    /// Its rows, as a file of Parquet.
    Parquet,
    /// Its values with the ends of their steps, as [`Samples`](crate::Samples).
    Samples,
}

/// Who remembers the last publication that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkMemory {
    /// The sink, in the transaction that writes the rows.
    Sink,
    /// The sink, which may delete old publications; so the caller remembers it, too.
    Both,
    /// The caller: writing a publication again changes nothing.
    Caller,
}
