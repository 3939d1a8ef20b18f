//! Where released rows are written to.

use crate::{Address, Position, SourceError, SourceOptions, postgres};
use async_trait::async_trait;
use evertally_declare::error::{Result, usage};

/// A place for released rows of one stream. It keeps the position together with the rows, in one transaction, so that
/// each publication is written once, whatever happens on either side.
#[async_trait]
pub trait Sink: Send {
    /// Its name for messages, without passwords.
    fn shown(&self) -> String;

    /// The position after the last publication that was written.
    async fn last(&mut self) -> Result<Option<Position>, SourceError>;

    /// Writes rows, which are JSON lines, if the position is `after`, and moves it. After an error, the caller asks for
    /// the [last](Self::last) position again: the rows may have been written.
    async fn write(&mut self, after: Option<&str>, rows: &[u8], position: &str) -> Result<(), SourceError>;
}

/// Opens a sink of a stream by its URL. Nothing is connected yet.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub fn open_sink(url: &str, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    let address = Address::parse(url)?;
    match address.scheme.as_str() {
        "postgresql" | "postgres" => postgres::open_sink(address, stream, options),
        scheme => Err(usage(format!("`{scheme}` is not a kind of sink; choose postgresql"))),
    }
}
