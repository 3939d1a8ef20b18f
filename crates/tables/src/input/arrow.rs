//! Record batches of an Arrow stream from an untrusted writer.

use super::batches::TableRows;
use super::frames::Frames;
use super::options::ReadOptions;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use evertally_declare::error::{InputError, Result as PublishResult, Unreadable};
use std::fs::File;
use std::io::{BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads an Arrow IPC stream batch by batch, in bounded memory.
///
/// The Arrow library panics on some damaged schemas; here each is an error, after which reading ends.
pub struct ArrowStream<R> {
    reader: StreamReader<Frames<R>>,
    has_ended: bool,
}

impl<R: Read> ArrowStream<R> {
    /// Reads the schema. Each message may have at most half of `memory` bytes, which is checked before memory is
    /// allocated for it.
    ///
    /// # Errors
    /// If the bytes are not such a stream.
    pub fn new(bytes: R, memory: u64) -> Result<Self, ArrowError> {
        let reader = guarded(|| StreamReader::try_new(Frames::new(bytes, memory), None))?;
        Ok(Self { reader, has_ended: false })
    }
}

impl<R: Read> Iterator for ArrowStream<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = guarded(|| self.reader.next().transpose()).transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<R: Read> RecordBatchReader for ArrowStream<R> {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

/// The rows of a file that holds such a stream.
pub(super) fn open<'o>(
    name: &str,
    file: File,
    options: &ReadOptions,
    wanted: &[String],
) -> PublishResult<TableRows<'o>> {
    let stream = ArrowStream::new(BufReader::new(file), options.memory).map_err(|e| {
        let problem = format!("this is not a stream of Arrow record batches: {e}");
        InputError::in_file(name, problem).as_unreadable(Unreadable::Damaged)
    })?;
    TableRows::open(name, &stream.schema(), Box::new(stream), wanted)
}

fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    // Values interrupted by a panic are not used again: the error ends the stream.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(ArrowError::IpcError("its schema is damaged".into())))
}
