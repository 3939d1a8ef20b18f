//! Where released rows are written to.

use crate::{Address, Position, SourceError, SourceOptions, kafka, objects, postgres};
use async_trait::async_trait;
use evertally_declare::error::{Result, usage};

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
    fn memory(&self) -> Memory {
        Memory::Sink
    }

    /// The position after the last publication that was written, as far as the sink remembers it.
    async fn last(&mut self) -> Result<Option<Position>, SourceError>;

    /// Writes a publication, if the position is `after`, and moves it. After an error, the caller asks for the
    /// [last](Self::last) position again: the publication may have been written.
    async fn write(&mut self, after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError>;
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
}

/// Who remembers the last publication that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The sink, in the transaction that writes the rows.
    Sink,
    /// The sink, which may delete old publications; so the caller remembers it, too.
    Both,
    /// The caller: writing a publication again changes nothing.
    Caller,
}

/// The schemes of sinks, with an example of each, for messages and help.
pub const SINK_SCHEMES: [(&str, &str); 6] = [
    ("postgresql", "postgresql://USER@HOST/DB?table=TABLE"),
    ("kafka", "kafka://USER@HOST:9092/TOPIC?sasl=scram-sha-512&tls=true"),
    ("s3", "s3://BUCKET/FOLDER/"),
    ("gs", "gs://BUCKET/FOLDER/"),
    ("az", "az://CONTAINER/FOLDER/"),
    ("file", "file:///FOLDER/"),
];

/// Opens a sink of a stream by its URL. Nothing is connected yet.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub fn open_sink(url: &str, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    let address = Address::parse(url)?;
    match address.scheme.as_str() {
        "postgresql" | "postgres" => postgres::open_sink(address, stream, options),
        "kafka" => kafka::open_sink(address, stream, options),
        "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" | "file" => objects::open_sink(url, &address, stream, options),
        scheme => {
            let all: Vec<&str> = SINK_SCHEMES.iter().map(|(scheme, _)| *scheme).collect();
            Err(usage(format!("`{scheme}` is not a kind of sink; choose {}", all.join(", "))))
        }
    }
}
